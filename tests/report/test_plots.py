"""Plots: what they show is what was released, and every kind of axis can be drawn."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
from report_factory import make_release, make_results, with_statistics

from dpbinagg import dp_ols, dp_release
from dpbinagg.errors import (
    ArgumentError,
    FormulaError,
    MissingExtraError,
    NotReleasedError,
    ReleaseError,
)
from dpbinagg.public.domain import Domain, rows_of
from dpbinagg.release.transcript import Transcript
from dpbinagg.report import margins, pictures
from dpbinagg.report.plots import plot_bins, plot_coefficients, plot_synthetic
from dpbinagg.report.tables import readable


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def results():
    """A small study with a number, whole numbers and a category."""
    rng = np.random.default_rng(5)
    n = 3_000
    frame = pd.DataFrame(
        {
            "x": rng.uniform(0, 10, n),
            "k": rng.integers(0, 6, n),
            "g": pd.Categorical(rng.choice(["a", "b", "c"], n)),
        }
    )
    frame["y"] = 1 + 0.5 * frame["x"] - 0.3 * frame["k"] + rng.normal(0, 1, n)
    bounds = Domain({"x": (0, 10), "k": range(6), "g": ["a", "b", "c"], "y": (-5, 12)})
    return dp_ols("y ~ x + k + C(g)", frame, mu=2, bounds=bounds, rng=3)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("educ", "educ"),
        ("C(region)[T.south]", "region: south"),
        ("C(region, Treatment('a'))[T.b:c]", "region: b:c"),
        ("region[T.a]", "region: a"),
        ("I(exper ** 2)", "exper²"),
        ("np.log(wage)", "log(wage)"),
        ("C(sex)[T.f]:educ", "sex: f × educ"),
        ('Q("my var")', "my var"),
        ("I(a / 10)", "a / 10"),
        ("I(x ** 2.5)", "x ** 2.5"),
        ("bs(x, df=4)[0]", "bs(x, df=4): 0"),
    ],
)
def test_names_are_readable(name, words):
    assert readable(name) == words


def test_coefficients_are_those_of_the_table():
    results = make_results()
    shown = pictures.coefficients(results, standardise=False)
    assert [series.name for series in shown.series] == ["refined", "naive"]
    assert "Intercept" not in shown.names
    tidy = results.tidy().query("term != 'Intercept'")
    np.testing.assert_allclose(shown.series[0].estimate, tidy["estimate"])
    np.testing.assert_allclose(shown.series[0].low, tidy["conf_low"])
    np.testing.assert_allclose(shown.series[0].high, tidy["conf_high"])
    assert len(pictures.coefficients(results, intercept=True).names) == len(shown.names) + 1


def test_coefficients_of_very_unequal_size_are_standardised():
    results = make_results()
    chosen = pictures.coefficients(results)
    plain = pictures.coefficients(results, standardise=False)
    assert chosen.standardised
    ratio = chosen.series[0].estimate / plain.series[0].estimate
    by_name = dict(zip(chosen.names, ratio, strict=True))
    assert by_name["region: S"] == 1.0
    assert by_name["exper²"] > 100.0


def test_a_naive_result_is_shown_once():
    assert [s.name for s in pictures.coefficients(make_results("naive")).series] == ["naive"]


def test_cells_hold_the_noisy_counts(results):
    release = results.release
    counts = release.statistics["count"]
    for x, y in pictures.pairs(release):
        density = pictures.density(release, x, y)
        np.testing.assert_allclose(density.x.shares.sum(axis=1), 1.0)
        area = np.outer(density.x.widths, density.y.widths)
        mass = density.x.shares.T @ (counts[:, None] * density.y.shares)
        assert mass.sum() == pytest.approx(counts.sum())
        np.testing.assert_allclose(density.values * area, np.maximum(mass, 0.0), atol=1e-9)


def test_a_grid_shows_its_own_counts():
    release = make_release("wage ~ educ + exper")
    counts = np.arange(1.0, release.n_bins + 1.0)
    release = with_statistics(release, count=counts)
    density = pictures.density(release, "educ", "exper")
    boxes = release.partition.boxes
    for k, count in enumerate(counts):
        i = np.searchsorted(density.x.edges, boxes.lower["educ"][k] - 0.5)
        j = np.searchsorted(density.y.edges, boxes.lower["exper"][k])
        area = density.x.widths[i] * density.y.widths[j]
        assert density.values[i, j] * area == pytest.approx(count)


def test_means_over_one_covariate_are_bin_means():
    release = make_release("wage ~ exper")
    k = release.n_bins
    release = with_statistics(
        release, count=np.full(k, 50.0), dev_y=50.0 * np.linspace(-1.0, 1.0, k)
    )
    shown = pictures.means(release, "exper")
    centre = release.bin_scaling.centre_y
    np.testing.assert_allclose(shown.mean, centre + np.linspace(-1.0, 1.0, k))
    expected = 1.96 * np.sqrt(1.0 + np.linspace(-1.0, 1.0, k) ** 2) / 50.0
    np.testing.assert_allclose(shown.half, expected, rtol=1e-3)
    assert shown.fitted is None


def test_intervals_of_bin_means_cover_the_truth():
    """Noise of 95% intervals: 200 releases, 4 bins; binomial 99.9% limits of 800 draws."""
    release = make_release("wage ~ exper", Domain({"wage": (0, 10), "exper": (0, 1)}))
    rng = np.random.default_rng(8)
    k, n = release.n_bins, 400.0
    covered = drawn = 0
    for _ in range(200):
        true = rng.uniform(-2.0, 2.0, k)
        statistics = {
            "count": n + rng.normal(0, 10.0, k),
            "dev_y": n * true + rng.normal(0, 40.0, k),
        }
        scales = {
            "count": np.full(k, 10.0),
            "dev_x": release.noise_scales["dev_x"],
            "dev_y": np.full(k, 40.0),
        }
        shown = pictures.means(with_statistics(release, scales, **statistics), "exper")
        covered += int((np.abs(shown.mean - 5.0 - true) <= shown.half).sum())
        drawn += k
    share, sd = covered / drawn, np.sqrt(0.95 * 0.05 / drawn)
    assert abs(share - 0.95) < 3.3 * sd


def test_margins_sum_to_one_and_follow_the_synthetic_table(results):
    synthetic = results.synthesize(rng=1)
    for shown in margins.margins(results, synthetic=synthetic):
        assert (shown.synthetic * np.diff(shown.edges)).sum() == pytest.approx(1.0)
        if shown.counts is not None:
            total = (shown.counts.spread * np.diff(shown.counts.edges)).sum()
            assert total == pytest.approx(1.0)
    group = margins.margin(results.release, synthetic, "g")
    np.testing.assert_allclose(
        group.synthetic, synthetic["g"].value_counts(normalize=True).reindex(["a", "b", "c"])
    )
    whole = margins.margin(results.release, synthetic, "k")
    np.testing.assert_allclose(
        whole.synthetic, synthetic["k"].value_counts(normalize=True).reindex(range(6), fill_value=0)
    )


def test_the_band_holds_the_true_margins():
    """What the counts allow covers at least 95% of cells; 99.9% binomial limit."""
    rng = np.random.default_rng(2)
    n, held, cells = 4_000, 0, 0
    frame = pd.DataFrame({"x": rng.beta(2, 5, n), "g": rng.choice(3, n, p=[0.7, 0.25, 0.05])})
    frame["z"], frame["y"] = rng.beta(4, 2, n), rng.uniform(0, 1, n)
    frame["g"] = pd.Categorical(np.array(["a", "b", "c"])[frame["g"]])
    bounds = Domain({"x": (0, 1), "z": (0, 1), "g": ["a", "b", "c"], "y": (0, 1)})
    for seed in range(12):
        release = dp_release("y ~ x + z + g", frame, mu=1, bounds=bounds, rng=seed)
        for name in ("x", "z", "g"):
            shown = margins.margin(release, frame, name).counts
            truth = rows_of(frame[[name]], release.domain)[name] + 0.5 * (name == "g")
            true = np.histogram(truth, shown.edges)[0] / n / np.diff(shown.edges)
            held += int(((shown.low <= true) & (true <= shown.high)).sum())
            cells += len(true)
    assert cells > 100
    assert held / cells > 0.95 - 3.1 * np.sqrt(0.95 * 0.05 / cells)


def test_the_released_mean_of_the_response_comes_with_its_noise(results):
    mean, half = margins.response_margin(results.release, results.synthesize(rng=1)).mean
    assert abs(mean - 2.75) < 0.1 + 3 * half
    assert 0.0 < half < 0.5


def test_every_kind_of_plot_is_drawn_with_title_and_labels(results):
    drawn = [
        plot_coefficients(results),
        results.plot_coefficients(standardise=False, intercept=True, title="Mine"),
        plot_bins(results),
        results.plot_bins(x="x"),
        results.plot_bins(x="g"),
        results.plot_bins(x="k", y="g"),
        plot_bins(results.release, "g", "x"),
        results.plot_synthetic(variables="g"),
    ]
    for ax in drawn:
        assert isinstance(ax, plt.Axes)
        assert ax.get_title(loc="left")
        ax.figure.canvas.draw()
    assert drawn[1].get_title(loc="left") == "Mine"
    assert drawn[5].get_xlabel() == "k"
    assert [t.get_text() for t in drawn[5].get_yticklabels()] == ["a", "b", "c"]
    panels = plot_synthetic(results)
    assert [ax.get_title(loc="left") for ax in panels] == ["y", "x", "k", "g"]


def test_plots_go_where_they_are_told(results):
    _, axes = plt.subplots(2, 2)
    assert results.plot_coefficients(ax=axes[0, 0]) is axes[0, 0]
    assert results.plot_bins(x="x", ax=axes[0, 1]) is axes[0, 1]
    assert results.plot_synthetic(variables=["x", "g"], axes=axes[1])[1] is axes[1, 1]
    assert len(plt.get_fignums()) == 1
    with pytest.raises(ReleaseError, match="axes must hold 4"):
        results.plot_synthetic(axes=axes[1])


def test_dollar_signs_are_no_formulas():
    release = make_release(
        'wage ~ Q("a$b$c") + Q("d")', Domain({"wage": (0, 1), "a$b$c": (0, 1), "d": ["$_$", "y"]})
    )
    plot_bins(release).figure.canvas.draw()
    plot_bins(release, "d").figure.canvas.draw()


def test_unknown_variables_are_named(results):
    with pytest.raises(FormulaError, match=r"'z' is not a variable of the bins; choose from 'x'"):
        results.plot_bins(x="z")
    with pytest.raises(FormulaError, match=r"'z' is not a variable of the model"):
        results.plot_synthetic(variables="z")
    with pytest.raises(FormulaError, match="y needs x"):
        results.plot_bins(y="x")


def test_a_release_without_counts_says_so():
    release = make_release()
    bare = replace(release, transcript=Transcript())
    with pytest.raises(NotReleasedError, match="no bin counts"):
        plot_bins(bare, "educ")


@pytest.mark.parametrize(
    "draw",
    [
        lambda res: res.plot_coefficients(),
        lambda res: res.plot_bins(),
        lambda res: res.plot_bins(x="exper"),
        lambda res: res.plot_bins(x="educ", y="exper"),
        lambda res: res.plot_synthetic(),
    ],
)
def test_without_matplotlib_the_remedy_is_named_in_one_line(monkeypatch, draw):
    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r'pip install "dpbinagg\[plot\]"') as caught:
        draw(make_results())
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ImportError)


def test_terms_names_scale_and_the_naive_estimate_are_chosen():
    results = make_results()
    ax = results.plot_coefficients(
        keep=["exper", "educ"], names={"educ": "School"}, naive=False, standardise=False
    )
    assert [label.get_text() for label in ax.get_yticklabels()] == ["exper", "School"]
    assert ax.get_xlabel() == "coefficient, 95% interval"
    assert ax.figure.legends == []
    assert ax.get_legend() is None
    shown = pictures.coefficients(results, naive=False, keep="Intercept")
    assert shown.names == ("Intercept",)
    assert [series.name for series in shown.series] == ["refined"]
    assert "region: S" not in pictures.coefficients(results, drop="region: S").names
    with pytest.raises(ReleaseError, match="did you mean 'educ'"):
        results.plot_coefficients(keep="eduk")
    with pytest.raises(ReleaseError, match="leaves no term"):
        results.plot_coefficients(drop=list(results.params.index))
    with pytest.raises(ArgumentError, match="did you mean 'standardise'"):
        results.plot_coefficients(standardize=True)


def test_plots_are_not_imported_before_use():
    import subprocess

    code = "import sys, dpbinagg.report.results as r; print('matplotlib' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.strip() == "False"

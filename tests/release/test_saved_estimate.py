"""What is saved is what was printed, and loading gives it back."""

import csv
import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from page_links import links
from release_data import BOUNDS, FORMULA, make_odd_results, wages

from dpbinagg import Budget, ReleaseError, dp_ols, dp_release, load_release
from dpbinagg.report.publish import choice_of
from dpbinagg.report.results import shown_delta
from dpbinagg.report.sections import OFFERED, downloads

SMALL = "np.log(wage) ~ educ + C(region)"


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def quiet(call, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **options)


def fitted(**options):
    return quiet(dp_ols, FORMULA, wages(), 1, bounds=BOUNDS, rng=1, **options)


def assert_is_saved(folder, res):
    """Every digit of the coefficients, their errors, their covariance and the facts."""
    table = rows(folder / "coefficients.csv")
    assert [row["term"] for row in table] == list(res.params.index)
    for column, numbers in (
        ("estimate", res.params),
        ("std_error", res.bse),
        ("statistic", res.tvalues),
        ("p_value", res.pvalues),
        ("conf_low", res.conf_int()[0]),
        ("conf_high", res.conf_int()[1]),
    ):
        assert [float(row[column]) for row in table] == list(numbers), column
    cov = rows(folder / "vcov.csv")
    assert [row.pop("term") for row in cov] == list(res.params.index)
    np.testing.assert_array_equal(
        [[float(cell) for cell in row.values()] for row in cov], res.cov_params().to_numpy()
    )
    (facts,) = rows(folder / "model.csv")
    assert float(facts["nobs"]) == res.nobs
    assert float(facts["epsilon"]) == res.epsilon
    assert float(facts["delta"]) == res.delta
    assert facts["estimator"] == res.estimator
    # To the printed digits as well.
    printed = {row[0]: row[1:3] for row in res.summary().coefficients[1:]}
    for row in table:
        for shown, saved in zip(
            printed[row["term"]], (row["estimate"], row["std_error"]), strict=True
        ):
            digits = len(shown.partition(".")[2])
            assert f"{float(saved):.{digits}f}" == shown


def assert_is_loaded(folder, res):
    again = quiet(load_release(folder).ols)
    assert again.estimator == res.estimator
    assert again.design.formula == res.design.formula
    assert (again.params == res.params).all()
    assert (again.cov_params() == res.cov_params()).all(axis=None)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"estimator": "corrected"},
        {"estimator": "corrected", "cov_type": "model"},
        {"estimator": "naive"},
        {"calibration": "paper", "estimator": "paper"},
        {"budget": Budget(moments=0, scores=0)},
    ],
    ids=str,
)
def test_both_doors_save_the_estimate_that_was_asked_for(tmp_path, options):
    res = fitted(**options)
    for name, door in (("results", res.save), ("release", res.release.save)):
        folder = door(tmp_path / name, rng=1, report=False)
        assert_is_saved(folder, res)
        assert_is_loaded(folder, res)


def test_siblings_smaller_models_and_pickles_save_themselves(release, tmp_path):
    small = quiet(release.ols, SMALL, estimator="corrected", cov_type="model")
    for place, res in enumerate(
        [quiet(lambda: release.ols().combined), small, pickle.loads(pickle.dumps(small))]
    ):
        folder = res.save(tmp_path / str(place), rng=1, report=False)
        assert_is_saved(folder, res)
        assert_is_loaded(folder, res)
    # What is saved again is the same estimate, and the larger model is still there.
    loaded = load_release(folder)
    assert_is_saved(loaded.save(tmp_path / "again", report=False), small)
    assert quiet(loaded.ols, FORMULA, estimator="refined").params.equals(
        quiet(release.ols, estimator="refined").params
    )


def test_a_release_is_replaced_only_on_demand(tmp_path):
    res = fitted()
    folder = res.save(tmp_path / "x", report=False)
    before = (folder / "synthetic.csv").read_bytes()
    for door in (res.save, res._results.save, res.release.save):
        with pytest.raises(ReleaseError, match="overwrite=True"):
            door(folder)
    assert (folder / "synthetic.csv").read_bytes() == before
    assert res.save(folder, overwrite=True, report=False) == folder
    assert (folder / "synthetic.csv").read_bytes() != before


def test_the_page_offers_the_files_of_the_folder(saved):

    offered = links((saved / "report.html").read_text(encoding="utf-8"))
    assert {"synthetic.csv", "codebook.csv", "coefficients.csv", "vcov.csv"} <= set(offered)
    assert set(offered) <= set(OFFERED)
    for name, content in offered.items():
        assert content == (saved / name).read_bytes(), name


def test_what_is_too_large_for_a_page_lies_beside_it(monkeypatch):
    monkeypatch.setattr("dpbinagg.report.sections.MOST_BYTES", 10)
    inside, beside = downloads({"vcov.csv": b"x" * 10, "synthetic.csv": b"x" * 11, "other": b""})
    assert [file.name for file in inside] == ["vcov.csv"]
    assert [file.name for file in beside] == ["synthetic.csv"]


def test_one_epsilon_and_delta_everywhere(tmp_path):
    """Also where there are so many records that 1e-6 would be too large."""
    res = make_odd_results()
    many = res._results
    many.nobs = 1e7
    many.delta = shown_delta(many.nobs)
    assert many.delta == 1e-8
    epsilon = f"{many.epsilon:.3g}"
    assert f"({epsilon}, 1e-8)-differential" in many.privacy.statement
    folder = many.save(tmp_path / "x", rng=1)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert f"epsilon = {epsilon} at delta = 1e-8" in readme
    assert many.privacy.statement in readme
    assert many.privacy.statement in (folder / "privacy.txt").read_text(encoding="utf-8")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert many.privacy.statement in page
    assert f"epsilon = {epsilon} at delta = 1e-8" in str(many.summary()).replace("\n    ", " ")
    (facts,) = rows(folder / "model.csv")
    assert (float(facts["epsilon"]), float(facts["delta"])) == (many.epsilon, 1e-8)
    for text in (readme, (folder / "privacy.txt").read_text(encoding="utf-8")):
        assert "1e-6" not in text


def test_a_seed_gives_the_same_folder(release, tmp_path):
    one, other = (release.save(tmp_path / name, rng=7, copies=2) for name in "ab")
    for path in one.iterdir():
        assert path.read_bytes() == (other / path.name).read_bytes(), path.name


def test_records_that_were_made_before_are_saved(release, tmp_path):
    table = release.ols().synthesize(size=100, rng=1)
    folder = release.save(tmp_path / "release", synthetic=table, report=False)
    found = pd.read_csv(folder / "synthetic.csv")
    np.testing.assert_allclose(found["wage"], table["wage"], rtol=1e-15)


def test_records_of_another_kind_are_refused(release, tmp_path):
    table = release.ols().synthesize(size=100, rng=1, kind="bounded")
    with pytest.raises(ReleaseError, match="must be of the kind 'calibrated'"):
        release.save(tmp_path / "release", synthetic=table)
    assert not (tmp_path / "release").exists()


def test_a_release_without_an_estimate_is_saved(tmp_path):
    bounds = {"educ": (6, 19), "wage": (0.5, 100)}
    budget = Budget(count=0, sum_x=0, sum_y=0, moments=0, scores=0)
    made = dp_release("wage ~ educ", wages(), 1, bounds=bounds, budget=budget, rng=1)
    folder = made.save(tmp_path / "x")
    assert json.loads((folder / "release.json").read_text())["formula"] == "wage ~ educ"
    assert load_release(folder).formula == "wage ~ educ"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"formats": ["xlsx"]}, "formats must list"),
        ({"formats": "dta"}, "formats must list"),
        ({"copies": 0}, "copies must be"),
        ({"copies": True}, "copies must be"),
        ({"steward": 3}, "steward must be a text"),
        ({"title": ["a"]}, "title must be a text"),
    ],
)
def test_what_cannot_be_saved_is_refused_before_anything_is_written(
    release, tmp_path, options, said
):
    with pytest.raises(ReleaseError, match=said):
        release.save(tmp_path / "x", **options)
    assert not (tmp_path / "x").exists()


def test_an_unknown_argument_is_named(release, tmp_path):
    with pytest.raises(TypeError, match=r"no argument 'licens'.*licence"):
        release.save(tmp_path / "x", licens="CC BY 4.0")


def test_the_choice_of_an_estimate():
    res = fitted(estimator="corrected", cov_type="model")
    assert choice_of(res._results).estimator == "corrected"
    assert res.release.choice.cov_type == "model"
    assert fitted().release.choice.estimator is None

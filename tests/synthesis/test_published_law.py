"""Algorithm 3: rows drawn from the exact sums and rows drawn given the release, one law.

Tolerances: Kolmogorov-Smirnov and chi-square tests at level 0.001 with fixed seeds; a wrong
scale (sd instead of sd/sqrt(c), or rows not centred on the released sum) fails them at once.
"""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpbinagg import Budget, Domain, Partition, dp_release
from dpbinagg.analyst.synthesis.binagg import conditional_rows

LEVEL = 0.001
REPLICATES = 4000


def direct_rows(exact_sum, sd, n_rows, rng):
    """Algorithm 3 for one bin from its exact sum: ``(s + sqrt(c) sd e_i)/c``, (c, q)."""
    e = rng.standard_normal((n_rows, len(exact_sum)))
    return (exact_sum + np.sqrt(n_rows) * sd * e) / n_rows


def given_release(exact, sd, rows, rng):
    noisy = exact + sd * rng.standard_normal(len(exact))
    return conditional_rows(noisy[None, :], sd[None, :], np.array([rows]), rng)


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_direct_rows_and_rows_given_the_release_have_the_same_law(rows):
    exact, sd = np.array([10.0, -3.0]), np.array([2.0, 0.5])
    rng = np.random.default_rng(rows)
    direct = np.array([direct_rows(exact, sd, rows, rng) for _ in range(REPLICATES)])
    given = np.array([given_release(exact, sd, rows, rng) for _ in range(REPLICATES)])
    contrasts = {
        "first row": lambda x: x[:, 0, 0],
        "last row": lambda x: x[:, -1, 1],
        "sum": lambda x: x[:, :, 0].sum(axis=1),
        "difference": lambda x: x[:, 0, 0] - x[:, -1, 0],
        "spread": lambda x: x[:, :, 1].std(axis=1),
        "both columns": lambda x: x[:, 0, 0] / sd[0] + x[:, -1, 1] / sd[1],
    }
    for name, contrast in contrasts.items():
        one, other = contrast(direct), contrast(given)
        if np.ptp(one) < 1e-12:
            assert np.ptp(other) < 1e-12, name
        else:
            assert stats.ks_2samp(one, other).pvalue > LEVEL, name


def test_rows_have_the_covariance_of_the_algorithm():
    # Independent rows of variance sd^2 / c: the quadratic form is chi-square.
    rows, sd = 5, 3.0
    rng = np.random.default_rng(8)
    x = np.array(
        [given_release(np.zeros(1), np.array([sd]), rows, rng)[:, 0] for _ in range(REPLICATES)]
    )
    form = np.sum(x**2, axis=1) * rows / sd**2
    assert stats.kstest(form, stats.chi2(rows).cdf).pvalue > LEVEL
    corner = np.corrcoef(x.T)[np.triu_indices(rows, 1)]
    assert np.abs(corner).max() < 4 / np.sqrt(REPLICATES)


def test_sums_given_the_release_are_exact():
    rng = np.random.default_rng(2)
    sums, sd = rng.normal(0, 1e6, (50, 3)), rng.uniform(0, 1e4, (50, 3))
    n_rows = rng.integers(1, 40, 50)
    rows = conditional_rows(sums, sd, n_rows, rng)
    found = np.add.reduceat(rows, np.concatenate([[0], np.cumsum(n_rows)[:-1]]), axis=0)
    np.testing.assert_allclose(found, sums, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dpbinagg.errors.IdentificationWarning")
def test_rows_of_whole_releases_follow_the_algorithm():
    n, mu = 40, 2.0
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.uniform(1, 3, n), "y": rng.uniform(0, 1, n)})
    domain = Domain({"x": (0, 4), "y": (-2, 2)})
    # Almost all budget on the count, so that the number of rows is the same each time.
    budget = Budget(ranges=0, count=400, sum_x=1, sum_y=1, moments=0, scores=0)
    partition = Partition.grid(domain.subset(["x"]), 1)
    found = []
    for seed in range(400):
        release = dp_release(
            "y ~ x", data, mu * 400, bounds=domain, budget=budget, partition=partition,
            calibration="paper", rng=seed,
        )  # fmt: skip
        table = release.synthesize(kind="binagg", rng=seed)
        assert len(table) == n
        found.append((table["x"].iloc[3], table["y"].iloc[-1]))
    sd_x = release.noise_scales["dev_x"][0, 1] / np.sqrt(n)
    sd_y = release.noise_scales["dev_y"][0] / np.sqrt(n)
    x, y = np.array(found).T
    assert stats.kstest((x - data.x.mean()) / sd_x, "norm").pvalue > LEVEL
    assert stats.kstest((y - data.y.mean()) / sd_y, "norm").pvalue > LEVEL

"""Labels of the codebook stand where people read: tables, plots, the page, synthetic records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from dpbinagg import Domain, dp_ols, summary_table
from dpbinagg.cli import main
from dpbinagg.report.tables import readable

FORMULA = "y ~ C(sex) + region + age"
CODEBOOK = Domain(
    {
        "sex": {"levels": [1, 2], "labels": ["Man", "Woman"], "missing": [9]},
        "region": {"levels": ["n", "s"], "labels": ["The North", "The South"]},
        "age": {"lower": 18, "upper": 90, "missing": [999], "description": "Age in years"},
        "y": (0, 20),
    }
)


@pytest.fixture(scope="module")
def results() -> Any:
    rng = np.random.default_rng(0)
    n = 2000
    sex, age = rng.choice([1, 2, 9], n, p=[0.45, 0.45, 0.1]), rng.uniform(18, 90, n)
    region = rng.choice(["n", "s"], n)
    y = 2 + 0.1 * age + (sex == 2) + rng.normal(0, 1, n)
    age[:40] = 999
    frame = pd.DataFrame({"sex": sex, "region": region, "age": age, "y": y})
    return dp_ols(FORMULA, frame, mu=4, bounds=CODEBOOK, rng=1)


def test_names_of_terms() -> None:
    assert readable("C(sex)[T.2]", CODEBOOK) == "sex: Woman"
    assert readable("region[T.s]:age", CODEBOOK) == "region: The South × age"
    assert readable("C(sex, Treatment(2))[T.1]", CODEBOOK) == "sex: Man"
    assert readable("C(sex)[T.7]", CODEBOOK) == "sex: 7"


def test_codes_that_are_missing_are_no_level_and_no_age(results: Any) -> None:
    assert "sex is missing in about" in results.notes[0]
    assert "age is missing in about 2%" in results.notes[0]
    assert results.release.outer.domain["age"].upper == 90


def test_the_table_keeps_codes_in_its_terms_and_says_what_they_are(results: Any) -> None:
    text = " ".join(results.summary().as_text().split())
    assert "C(sex)[T.2]" in text
    assert "sex = Man and region = The North" in text
    assert "sex: 1 = Man and 2 = Woman; region: n = The North and s = The South." in text


def test_tables_of_models_and_plots_have_labels(results: Any) -> None:
    table = str(summary_table([results]))
    assert "sex: Woman" in table
    assert "region: The South" in table
    pytest.importorskip("matplotlib")
    ax = results.plot_coefficients(naive=False)
    assert "sex: Woman" in [text.get_text() for text in ax.get_yticklabels()]


def test_the_page_and_the_folder(results: Any, tmp_path: Path) -> None:
    folder = results.save(tmp_path / "release", formats=["dta"])
    page = (folder / "report.html").read_text()
    assert "sex: Woman" in page
    assert "sex: 2" not in page
    assert "1 = Man, 2 = Woman" in (folder / "README.md").read_text()
    assert "1|2,Man|Woman,9" in (folder / "codebook.csv").read_text()
    with pd.io.stata.StataReader(folder / "synthetic.dta") as stata:
        assert stata.value_labels()["sex"] == {1: "Man", 2: "Woman"}
        assert stata.variable_labels()["age"] == "Age in years"


def test_synthetic_records_with_labels_give_the_same_regression(
    results: Any, tmp_path: Path
) -> None:
    table = results.synthesize(labels=True, rng=1)
    assert list(table["sex"].cat.categories) == ["Man", "Woman"]
    again = smf.ols(FORMULA, table).fit()
    assert list(again.params.index[1:3]) == ["C(sex)[T.Woman]", "region[T.The South]"]
    np.testing.assert_allclose(again.params.to_numpy(), results.params.to_numpy(), atol=1e-6)
    plain = results.synthesize(rng=1)
    assert (plain["sex"].map({1: "Man", 2: "Woman"}).astype(str) == table["sex"].astype(str)).all()
    folder = results.save(tmp_path / "release")
    assert main(["synth", str(folder), "--out", str(tmp_path / "s.csv"), "--labels"]) == 0
    assert set(pd.read_csv(tmp_path / "s.csv")["sex"]) == {"Man", "Woman"}

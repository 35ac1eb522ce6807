"""Write the bundled data of dpbinagg.datasets, the same bytes every time.

python data/generate.py           write the tables and the regressions in the descriptions
python data/generate.py --check   only say whether the files are what this program writes
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np  # noqa: F401  (the formulas say np.log)
import pandas as pd
import statsmodels.formula.api as smf

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from dpbinagg.datasets.bundled import SCHOOL_FORMULA, WAGES_FORMULA  # noqa: E402
from dpbinagg.datasets.simulate import (  # noqa: E402
    SCHOOL_COEFFICIENTS,
    WAGE_COEFFICIENTS,
    make_school,
    make_wages,
)

FOLDER = ROOT / "dpbinagg" / "datasets"
# The first of 1, 2, ... that passes is_typical; data/README.md says why.
WAGES_SEED = 2
SCHOOL_SEED = 1
TABLE_HEAD = "| term | truth | OLS | std. error |"


def is_typical(frame: pd.DataFrame, formula: str, truth: dict[str, float]) -> bool:
    """Whether every coefficient of the ordinary regression is within 2 errors of the truth."""
    fit = smf.ols(formula, frame).fit()
    return all(abs(fit.params[term] - value) < 2 * fit.bse[term] for term, value in truth.items())


def regression_table(frame: pd.DataFrame, formula: str, truth: dict[str, float]) -> str:
    """Ordinary least squares on the complete rows, beside the coefficients of the simulation."""
    fit = smf.ols(formula, frame).fit()
    lines = [TABLE_HEAD, "|---|---|---|---|"]
    lines += [
        f"| {term} | {value:g} | {fit.params[term]:.5f} | {fit.bse[term]:.5f} |"
        for term, value in truth.items()
    ]
    lines += [f"| R-squared | | {fit.rsquared:.3f} | |", f"| complete rows | | {fit.nobs:.0f} | |"]
    return "\n".join(lines)


def with_table(text: str, table: str) -> str:
    """The description with its regression table replaced."""
    before, after = text.split(TABLE_HEAD)
    rest = after.splitlines()
    end = next(i for i, line in enumerate(rest) if i > 0 and not line.startswith("|"))
    return before + table + "\n" + "\n".join(rest[end:]) + "\n"


def files() -> dict[Path, str]:
    """Every generated file with its content."""
    wages = make_wages(5_000, WAGES_SEED)
    school = make_school(3_000, SCHOOL_SEED)
    contents = {
        "wages.csv": _csv(wages.astype({"hours": "Int64"})),
        "school.csv": _csv(school.astype({"score": "Int64"})),
    }
    tables = {
        "wages.md": regression_table(wages, WAGES_FORMULA, WAGE_COEFFICIENTS),
        "school.md": regression_table(school, SCHOOL_FORMULA, SCHOOL_COEFFICIENTS),
    }
    for name, table in tables.items():
        contents[name] = with_table((FOLDER / name).read_text(encoding="utf-8"), table)
    return {FOLDER / name: content for name, content in contents.items()}


def _csv(frame: pd.DataFrame) -> str:
    text = frame.to_csv(index=False, lineterminator="\n")
    return str(text)


def main(argv: list[str] | None = None) -> int:
    """Write or check the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing, compare only")
    check = parser.parse_args(argv).check
    changed = 0
    for path, content in files().items():
        same = path.exists() and path.read_text(encoding="utf-8") == content
        changed += not same
        if not check:
            path.write_text(content, encoding="utf-8", newline="\n")
        state = "unchanged" if same else "differs" if check else "written"
        print(f"{path.relative_to(ROOT)}: {state}")
    return int(check and changed > 0)


if __name__ == "__main__":
    sys.exit(main())

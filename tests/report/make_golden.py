"""Write the golden files again: python tests/report/make_golden.py, then look at it."""

from __future__ import annotations

from pathlib import Path

from report_factory import DOMAIN, make_release, make_results

from dpbinagg.public.domain import Domain

FOLDER = Path(__file__).parent / "golden"


def summary_text() -> str:
    """The regression table of the tests' hand-made results."""
    declared = Domain({**DOMAIN, "wage": (0, None), "exper": (0, 80)})
    release = make_release(declared=declared, secure=False)
    notes = ("1.2% of the residuals were clipped (share estimated privately).",)
    return str(make_results(release=release, notes=notes).summary()) + "\n"


def comparison_text() -> str:
    """The comparison of estimators of the same results."""
    return str(make_results().compare()) + "\n"


if __name__ == "__main__":
    (FOLDER / "summary.txt").write_text(summary_text(), encoding="utf-8")
    (FOLDER / "compare.txt").write_text(comparison_text(), encoding="utf-8")

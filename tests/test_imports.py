"""Imports keep the contracts of pyproject.toml, and the contracts can be broken.

They are read, not executed: also those inside functions.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
CONTRACTS = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["importlinter"]
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def lint(folder: Path) -> tuple[int, str]:
    """Exit code and text of ``lint-imports`` on the package in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", "--no-logo"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def wall() -> str:
    """A statement that reaches through the wall between analysis and records."""
    (contract,) = [one for one in CONTRACTS["contracts"] if one["id"] == "wall"]
    return f"import {contract['forbidden_modules'][0]}"


def test_imports_keep_the_contracts() -> None:
    code, said = lint(TOP)
    assert code == 0, said
    assert f"Contracts: {len(CONTRACTS['contracts'])} kept, 0 broken" in said


def test_there_is_no_exception() -> None:
    assert not any("ignore_imports" in one for one in (CONTRACTS, *CONTRACTS["contracts"]))


@pytest.mark.parametrize(
    ("file", "statement"),
    [
        ("analyst/bins.py", "def late(): from dpbinagg.report import sections"),
        ("formula/scaling.py", "from dpbinagg.accounting import Budget"),
        ("api.py", "def late(): from dpbinagg.datasets import load_wages"),
        ("api.py", "def late(): import dpbinagg.audit"),
        ("analyst/bins.py", wall()),
        ("formula/rows.py", "def late(): from dpbinagg.formula import build"),
        ("utilities.py", "WITHOUT_A_ROOM = True"),
    ],
    ids=[
        "upward, late",
        "sideways",
        "out of the core",
        "to what stands beside it",
        "through the wall",
        "from records to formulas",
        "a module of no room",
    ],
)
def test_a_contract_that_is_broken_is_noticed(tmp_path: Path, file: str, statement: str) -> None:
    shutil.copytree(TOP / "dpbinagg", tmp_path / "dpbinagg", ignore=shutil.ignore_patterns("*.csv"))
    shutil.copy(TOP / "pyproject.toml", tmp_path)
    with (tmp_path / "dpbinagg" / file).open("a") as module:
        module.write(f"\n\n{statement}\n")
    code, said = lint(tmp_path)
    assert code == 1, said
    assert "1 broken" in said

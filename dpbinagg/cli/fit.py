"""``dpbinagg fit``: a private regression, and a folder with what may be published."""

from __future__ import annotations

import argparse
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbinagg.cli.show import print_json, print_results, results_as_plain
from dpbinagg.errors import BudgetError, DomainError, DPBinAggError, ReleaseError

REPORT = "report.html"
ABOUT = (
    "title",
    "unit_of_observation",
    "description",
    "provenance",
    "steward",
    "contact",
    "licence",
    "date",
)
"""What a publisher may say about a release, each by an option of this name."""

if TYPE_CHECKING:
    from dpbinagg.accounting import Budget, Ledger
    from dpbinagg.public.domain import Domain
    from dpbinagg.reading import Source


def run(options: argparse.Namespace) -> None:
    """Fit, save, show."""
    from dpbinagg.api import dp_ols
    from dpbinagg.protocol.conduct import show_progress

    if options.mu is None and options.epsilon is None and options.delta is None:
        raise BudgetError("say how much privacy to spend: --mu 1, or --epsilon 2 --delta 1e-6")
    domain = public_domain(options.bounds, options.bound)
    budget = parse_budget(options.budget)
    if options.out:
        check_folder(options)
    ledger = open_ledger(options.ledger)
    data = open_private(options)
    with show_progress() if options.progress else nullcontext():
        results = dp_ols(
            options.formula,
            data,
            options.mu,
            epsilon=options.epsilon,
            delta=options.delta,
            bounds=domain,
            budget=budget,
            partition=options.partition,
            calibration=options.calibration,
            estimator=options.estimator
            or ("paper" if options.calibration == "paper" else "refined"),
            cov_type=options.cov_type or "sandwich",
            missing=options.missing,
            neighbours=options.neighbours,
            ledger=ledger,
            rng=options.rng,
        )
    folder = save(results, options) if options.out else None
    if options.json:
        print_json({**results_as_plain(results), "folder": folder and str(folder)})
        return
    print_results(results, options.compare)
    if folder:
        print(f"\nSaved in {folder}: the release, synthetic data, scripts and {REPORT}.")
    if ledger is not None:
        print(f"\nLedger {ledger.name}: mu = {ledger.remaining:.4g} of {ledger.total:.4g} is left.")


def open_private(options: argparse.Namespace) -> Source:
    """The table that a command names; no record is read."""
    from dpbinagg.reading import open_source

    return open_source(
        options.data,
        separator=options.separator,
        decimal=options.decimal,
        encoding=options.encoding,
        sheet=options.sheet,
    )


def public_domain(codebook: str | None, bounds: list[str]) -> Domain:
    """The codebook, and the bounds given one by one."""
    from dpbinagg.public.domain import Domain

    if codebook is not None and not Path(codebook).is_file():
        raise DomainError(
            f"codebook {codebook!r} does not exist; make one to fill in: "
            f"dpbinagg codebook TABLE --out {codebook}"
        )
    domain = Domain() if codebook is None else Domain.from_csv(codebook)
    return domain.updated(dict(parse_bound(text) for text in bounds))


def parse_bound(text: str) -> tuple[str, Any]:
    """Read ``NAME=LOW,HIGH`` or ``NAME=a|b|c``.

    Examples
    --------
    >>> parse_bound("educ=0,20")
    ('educ', (0.0, 20.0))
    >>> parse_bound("sex=male|female")
    ('sex', ['male', 'female'])
    >>> parse_bound("income=0,")
    ('income', (0.0, None))
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if "|" in value:
        return name, [level.strip() for level in value.split("|") if level.strip()]
    sides = value.split(",")
    try:
        if not name or not equals or len(sides) != 2:
            raise ValueError
        low, high = (float(side) if side.strip() else None for side in sides)
    except ValueError:
        raise DomainError(
            f"--bound must read NAME=LOW,HIGH or NAME=a|b|c, got {text!r}; "
            "leave a side empty that is not known"
        ) from None
    return name, (low, high)


def parse_budget(text: str | None) -> Budget | None:
    """Read ``paper`` or ``component=number,...``.

    Examples
    --------
    >>> parse_budget("paper").scores
    0.0
    >>> parse_budget("moments=2,scores=3").scores
    3.0
    """
    from dpbinagg.accounting import Budget

    if text is None:
        return None
    if text == "paper":
        return Budget.paper()
    try:
        pairs = [part.split("=") for part in text.split(",")]
        parts = {name.strip(): float(value) for name, value in pairs}
        return Budget(**parts)
    except (ValueError, TypeError):
        raise BudgetError(
            f"--budget must be 'paper' or read component=number,component=number, got {text!r}; "
            "components are ranges, partition, count, sum_x, sum_y, moments, scores"
        ) from None


def open_ledger(path: str | None) -> Ledger | None:
    """An existing ledger: a fit never makes one, because its total is a decision."""
    from dpbinagg.accounting import Ledger

    if path is None:
        return None
    if not Path(path).is_file():
        raise BudgetError(
            f"ledger {path!r} does not exist; make it first: dpbinagg ledger {path} --create --mu 2"
        )
    return Ledger(path)


def check_folder(options: argparse.Namespace) -> None:
    """Refuse a folder that cannot be written as asked, before any budget is spent."""
    from dpbinagg.report.publish import check_request

    check_request(options.out, **_wishes(options))
    check_parent(options.out)


def check_parent(out: str) -> None:
    """Refuse a folder whose parent cannot be written to."""
    parent = Path(out).absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=parent).close()
    except OSError as error:
        raise ReleaseError(
            f"--out {out!r} cannot be written ({type(error).__name__}); choose another folder"
        ) from None


def _wishes(options: argparse.Namespace) -> dict[str, Any]:
    """What the folder shall hold and say."""
    said = {name: getattr(options, name) for name in ABOUT}
    return {
        "overwrite": options.overwrite,
        "copies": options.copies,
        "formats": options.format,
        **said,
    }


def save(results: Any, options: argparse.Namespace) -> Path:
    """Write the folder; if that fails, write it elsewhere rather than lose a paid release."""
    folder = Path(options.out)
    try:
        results.save(folder, rng=stream(options.rng), **_wishes(options))
        return folder
    except DPBinAggError as error:
        rescue = Path(tempfile.mkdtemp(prefix="dpbinagg-")) / "release"
        results.save(rescue, report=False)
        raise ReleaseError(
            f"the privacy was spent, but --out {options.out!r} could not be written as asked "
            f"({error}); the release was saved in {str(rescue)!r} instead: copy it from there"
        ) from error


def stream(rng: int | None) -> Any:
    """Randomness for synthetic data that is not that of the noise."""
    if rng is None:
        return None
    import numpy as np

    return np.random.default_rng([rng, 2])

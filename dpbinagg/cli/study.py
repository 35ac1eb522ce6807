"""``dpbinagg study``: a whole study from one file, which a steward can read and approve."""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import tomllib
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbinagg.cli.fit import check_parent, open_ledger, stream
from dpbinagg.cli.show import DELTAS, print_json, results_as_plain
from dpbinagg.errors import ArgumentError, BudgetError, DomainError, DPBinAggError, ReleaseError
from dpbinagg.public.arguments import closest

if TYPE_CHECKING:
    from dpbinagg.accounting import Budget, Ledger
    from dpbinagg.api import Prepared
    from dpbinagg.public.domain import Domain, Variable
    from dpbinagg.report.study import Study

DIGITS = 16
"""Of the fingerprint: nobody finds a second file with the same ones by chance or by trying."""
TABLE = ("separator", "decimal", "encoding", "sheet")
ABOUT = ("title", "steward", "date")
OF_STUDY = (
    *("variables", "mu", "epsilon", "delta", "missing", "neighbours", "rules", "constants"),
)
"""Keys that are arguments of `dp_study` as they stand."""
KEYS = (
    *("formulas", "data", "codebook", "bounds", *OF_STUDY, "budget", "rng"),
    *("ledger", "out", "overwrite", "table", "about"),
)


@dataclass(frozen=True)
class StudyFile:
    """What a file says; paths in it are relative to its folder."""

    path: Path
    values: dict[str, Any]
    fingerprint: str

    @classmethod
    def read(cls, path: str) -> StudyFile:
        """Read a file, and refuse what nobody will look at."""
        file = Path(path)
        try:
            content = file.read_bytes()
        except OSError as error:
            raise ArgumentError(
                f"study file {path!r} cannot be read ({type(error).__name__})"
            ) from None
        try:
            values = tomllib.loads(content.decode("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ArgumentError(f"study file {path!r} is no TOML file: {error}") from None
        _refuse_unknown("", values, KEYS)
        for part, known in (("table", TABLE), ("about", ABOUT)):
            if not isinstance(values.get(part, {}), dict):
                raise ArgumentError(f"study file: {part} must be a section, [{part}]")
            _refuse_unknown(f"[{part}] ", values.get(part, {}), known)
        for key in ("data", "codebook", "ledger", "out"):
            if not isinstance(values.get(key, ""), str):
                raise ArgumentError(f"study file: {key} must be a path in quotes")
        for key in ("formulas", "data"):
            if key not in values:
                raise ArgumentError(
                    f"study file {path!r} lacks {key!r}; see dpbinagg study --help for an example"
                )
        return cls(file, values, hashlib.sha256(content).hexdigest()[:DIGITS])

    def place(self, key: str) -> str | None:
        """A path, from where the command runs."""
        value = self.values.get(key)
        return None if value is None else str(self.path.parent / value)

    def domain(self) -> Domain:
        """The codebook, and bounds that the file declares itself."""
        from dpbinagg.public.domain import Domain

        codebook = self.place("codebook")
        if codebook is not None and not Path(codebook).is_file():
            raise DomainError(f"codebook {codebook!r} does not exist")
        own = self.values.get("bounds", {})
        if not isinstance(own, dict):
            raise DomainError("study file: bounds must be a section, [bounds]; see its help")
        domain = Domain() if codebook is None else Domain.from_csv(codebook)
        return domain.updated({name: _bound(value) for name, value in own.items()})

    def budget(self) -> Budget | None:
        """How mu is divided, if the file says so."""
        from dpbinagg.accounting import Budget
        from dpbinagg.accounting.budget import COMPONENTS

        own = self.values.get("budget")
        if own is None:
            return None
        if not isinstance(own, dict):
            raise BudgetError("study file: budget must be a section, [budget]")
        _refuse_unknown("[budget] ", own, COMPONENTS)
        return Budget(**own)

    def prepared(self) -> Prepared:
        """The study, checked; no record is read."""
        from dpbinagg.api import prepare_study
        from dpbinagg.reading import open_source

        given = {key: self.values[key] for key in OF_STUDY if key in self.values}
        source = open_source(self.place("data"), **self.values.get("table", {}))
        return prepare_study(
            self.values["formulas"], source, bounds=self.domain(), budget=self.budget(), **given
        )


def _bound(value: Any) -> Any:
    """Two numbers in a file are bounds: levels are written ``{levels = [0, 1]}``."""
    number = (int, float)
    if isinstance(value, list) and len(value) == 2 and all(isinstance(v, number) for v in value):
        return tuple(value)
    return value


def _refuse_unknown(where: str, given: Any, known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise ArgumentError(f"study file: {where}{name!r} is no key; {closest(name, known)}")


def run(options: argparse.Namespace) -> None:
    """Show what will be released and spent; then release, unless it was only asked for."""
    from dpbinagg.protocol.conduct import show_progress
    from dpbinagg.report.study import Study

    file = StudyFile.read(options.file)
    if options.approved not in (None, file.fingerprint):
        raise ReleaseError(
            f"the file was changed since it was approved: its fingerprint is {file.fingerprint}, "
            f"not {options.approved}; nothing was spent"
        )
    prepared, ledger = file.prepared(), open_ledger(file.place("ledger"))
    out, overwrite = file.place("out"), bool(file.values.get("overwrite")) or options.overwrite
    if out is not None:
        _check_out(out, overwrite)
    told = promise(file, prepared, ledger)
    if not options.json:
        print(_as_text(told))
    if options.check:
        if options.json:
            print_json(told)
        return
    with show_progress() if options.progress else nullcontext():
        study = Study(prepared.run(ledger, file.values.get("rng")))
    if out is not None:
        save(study, out, overwrite, file.values.get("about", {}), file.values.get("rng"))
    if options.json:
        found = {name: results_as_plain(one) for name, one in study.items()}
        table = study.describe().frame.to_dict("records")
        print_json({**told, "models": found, "table1": table, "folder": out})
        return
    print(f"\n{study.describe()}\n\n{study.summary()}")
    if out is not None:
        print(f"\nSaved in {out}: the release, tables, synthetic data and report.html.")
    if ledger is not None:
        print(f"\nLedger {ledger.name}: mu = {ledger.remaining:.4g} of {ledger.total:.4g} is left.")


def promise(file: StudyFile, prepared: Prepared, ledger: Ledger | None) -> dict[str, Any]:
    """What will be released and spent, as plain values."""
    from dpbinagg.accounting import gdp
    from dpbinagg.accounting.budget import RELATIONS
    from dpbinagg.protocol.settings import allocate

    settings, design = prepared.settings, prepared.design
    factor = settings.mu / settings.per_record
    allocation = allocate(settings, design)
    spent = {name: factor * part for name, part in allocation.as_dict().items() if part}
    return {
        "file": str(file.path),
        "fingerprint": file.fingerprint,
        "data": file.values["data"],
        "formulas": {name: one.formula for name, one in (prepared.models or {}).items()},
        "variables": {name: bounds_in_words(design.domain[name]) for name in design.names},
        "mu": settings.mu,
        "epsilon": {f"{delta:g}": gdp.epsilon(settings.mu, delta) for delta in DELTAS},
        "neighbours": RELATIONS[settings.neighbours],
        "parts": spent,
        "ledger": None
        if ledger is None
        else {"name": ledger.name, "left": ledger.remaining, "total": ledger.total},
        "out": file.values.get("out"),
        "for_publication": file.values.get("rng") is None,
    }


def bounds_in_words(variable: Variable) -> str:
    """What is public of the values of a variable."""
    from dpbinagg.public.domain import Categorical

    if isinstance(variable, Categorical):
        return f"one of {', '.join(map(str, variable.levels))}"
    if not variable.bounded:
        return "a number; its range is found privately, from the same mu"
    kind = "whole number" if variable.integer else "number"
    return f"{kind}, {variable.lower:g} to {variable.upper:g}"


WORDS = {
    "ranges": "one-way counts of every variable: Table 1, coordinates",
    "partition": "bins over the covariates",
    "count": "records in each bin",
    "sum_x": "sums of covariates in each bin",
    "sum_y": "sums of the response in each bin",
    "moments": "second moments of all columns: any linear model, correlations",
    "scores": "rounds of residual scores for the models above",
}


def _as_text(told: dict[str, Any]) -> str:
    """The same for a person who is to approve it."""
    lines = [f"Study {told['file']}, fingerprint {told['fingerprint']}", f"Data: {told['data']}"]
    lines += ["", "Models"] + [f"  {name}: {formula}" for name, formula in told["formulas"].items()]
    width = max(map(len, told["variables"]))
    lines += ["", "Variables, held to these public bounds"]
    lines += [f"  {name:<{width}}  {bound}" for name, bound in told["variables"].items()]
    epsilon = ", ".join(f"{e:.3g} at delta = {d}" for d, e in told["epsilon"].items())
    lines += ["", f"Privacy spent: mu = {told['mu']:.4g} against {told['neighbours']}"]
    lines += [f"  which implies epsilon = {epsilon}", "  divided over"]
    lines += [f"  {mu:7.4f}  {WORDS[name]}" for name, mu in told["parts"].items()]
    if told["ledger"]:
        ledger = told["ledger"]
        lines += [
            "",
            f"Ledger {ledger['name']}: charged once; mu = {ledger['left']:.4g} of "
            f"{ledger['total']:.4g} is left before",
        ]
    if told["out"]:
        lines += ["", f"Public results go to {told['out']}: they contain no record"]
    if not told["for_publication"]:
        lines += ["", "NOT FOR PUBLICATION: the file seeds the noise (rng)"]
    return "\n".join(lines)


def _check_out(out: str, overwrite: bool) -> None:
    """Refuse a folder that cannot be written, before any budget is spent."""
    from dpbinagg.release.saving import check_target

    check_target(out, overwrite)
    check_parent(out)


def save(study: Study, out: str, overwrite: bool, about: dict[str, Any], rng: Any) -> None:
    """Write the folder; if that fails, write it elsewhere rather than lose a paid release."""
    try:
        study.save(out, overwrite, rng=stream(rng), **about)
    except DPBinAggError as error:
        rescue = Path(tempfile.mkdtemp(prefix="dpbinagg-")) / "release"
        study.save(rescue)
        raise ReleaseError(
            f"the privacy was spent, but out = {out!r} could not be written as asked ({error}); "
            f"the release was saved in {str(rescue)!r} instead: copy it from there"
        ) from error

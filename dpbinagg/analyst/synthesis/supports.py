"""What a synthetic table supports: in words, as a table, and as a tag that travels with it.

A table carries what was released. Models for which it was made are exact; what follows from
released counts and second moments is there with noise that is known, and several copies show it;
what is no linear combination of released columns (interactions, thresholds, subgroups, curves) is
there as far as bins show; the rest is not there at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpbinagg.analyst.fit import total
from dpbinagg.errors import FormulaError, ReleaseError
from dpbinagg.formula import Design, build_design
from dpbinagg.formula.union import all_names, combinations
from dpbinagg.public.domain import Categorical, Numeric
from dpbinagg.release.questions import MOMENTS, SEEN
from dpbinagg.release.saving import domain_from_plain, domain_to_plain
from dpbinagg.release.transcript import Released, counted, margins

EXACT, NOISE, BINS, NONE = "exact", "known noise", "as far as bins show", "not at all"
COLUMNS = ("what", "support", "how")

TAG = "dpbinagg"
"""Key of `DataFrame.attrs` that holds the tag of a synthetic table, as JSON text."""
SIDECAR = "supports.json"
"""Name, or end of the name, of the file that holds it beside a table."""
FORMAT = "dpbinagg synthetic table"
MOST_NAMES = 12
"""Names that a line lists; the codebook has all."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far a table supports a regression, and why."""

    support: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Tag:
    """What must be known of a synthetic table to use it honestly.

    Attributes
    ----------
    kind : str
    copies, rows : int
        Number of tables, and of complete rows of each.
    records : float
        Noisy number of records behind it.
    formula : str
        Of the release, with `constants` and `domain`; what is linear in its columns and its
        response was released.
    models : list of str
        Formulas that least squares on the table returns.
    supports : list of dict
        What `Release.supports` shows.
    rules : list of str
        What holds in every row.
    """

    kind: str
    copies: int
    rows: int
    records: float
    formula: str
    constants: Mapping[str, float]
    domain: list[dict[str, Any]]
    models: list[str]
    supports: list[dict[str, str]]
    rules: list[str] = field(default_factory=list)

    def to_json(self, indent: int | None = None) -> str:
        """The tag as text."""
        plain = {"format": FORMAT, "schema": 1, **asdict(self)}
        return json.dumps(plain, indent=indent, allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes, source: str) -> Tag:
        """The tag that `to_json` wrote."""
        try:
            plain = dict(json.loads(text))
            if plain.pop("format") != FORMAT or plain.pop("schema") != 1:
                raise ValueError
            return cls(**plain)
        except (ValueError, TypeError, KeyError):
            raise ReleaseError(
                f"{source} does not say what a synthetic table supports; use the {SIDECAR} that "
                "was written beside the table, or pass the release"
            ) from None

    @property
    def frame(self) -> pd.DataFrame:
        """What the table supports."""
        return pd.DataFrame(self.supports, columns=list(COLUMNS))

    def _design(self) -> Design:
        domain = domain_from_plain(self.domain)
        return build_design(self.formula, domain, dict(self.constants), apart=False)

    def judge(self, formula: str) -> Verdict:
        """How far the table supports least squares of a formula on all of its rows."""
        released = self._design()
        try:
            asked = build_design(formula, released.domain, released.constants, apart=False)
            combined = combinations(released, asked)
        except FormulaError as error:
            return Verdict(BINS, str(error).split(" of what was released")[0])
        for model in self.models:
            calibrated = build_design(model, released.domain, released.constants, apart=False)
            if _same(combined, combinations(released, calibrated)):
                return Verdict(EXACT)
        return Verdict(NOISE)


def _same(one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    """Whether two models have the same response, and columns that span the same."""
    if not np.allclose(one[1], other[1]) or one[0].shape[1] != other[0].shape[1]:
        return False
    rank = np.linalg.matrix_rank
    return bool(rank(np.hstack([one[0], other[0]])) == rank(other[0]) == rank(one[0]))


def calibrated_models(release: Released, model: Design | None = None) -> dict[str, Design]:
    """The models that a "calibrated" table reproduces, by name.

    Of a study the largest declared model of every outcome: a table has one column for it. Outcomes
    that are no function of one number cannot be moved.
    """
    if not release.models:
        return {"": release.design if model is None else model}
    largest: dict[str, tuple[str, Design]] = {}
    for name, formula in release.models.items():
        design = build_design(formula, release.declared, dict(release.design.constants))
        if not _movable(release, design):
            continue
        (outcome,) = design.response_variables
        if outcome not in largest or len(design.column_names) > len(
            largest[outcome][1].column_names
        ):
            largest[outcome] = name, design
    return dict(largest.values())


def calibrated_names(release: Released) -> list[str]:
    """Names of the models of a study that a "calibrated" table reproduces."""
    return list(calibrated_models(release))


def _movable(release: Released, design: Design) -> bool:
    """Whether an outcome is a function of one number that can be undone, or a whole number."""
    names = design.response_variables
    if len(names) != 1 or names[0] in design.variables:
        return False
    variable = release.declared.get(names[0])
    if not isinstance(variable, Numeric):
        return False
    return variable.integer or design.invert_response(np.zeros(1)) is not None


def tag_of(
    release: Released, kind: str, copies: int, rows: int, model: Design | None = None
) -> Tag:
    """The tag of a table of a release."""
    models = list(calibrated_models(release, model).values()) if kind == "calibrated" else []
    return Tag(
        kind,
        copies,
        rows,
        float(max(total(release), 1.0)),
        release.formula,
        dict(release.design.constants),
        domain_to_plain(release.outer.domain),
        [one.formula for one in models],
        [dict(zip(COLUMNS, row, strict=True)) for row in supports(release, models).to_numpy()],
        list(release.rules),
    )


def supports(release: Released, models: Sequence[Design] | None = None) -> pd.DataFrame:
    """What "calibrated" tables of a release support: columns what, support, how."""
    models = list(calibrated_models(release).values()) if models is None else models
    known = margins(release.transcript)
    rows: list[tuple[str, str, str]] = [_of_model(release, model) for model in models]
    declared = [f for f in release.models.values() if f not in {m.formula for m in models}]
    rows += [
        (formula, NOISE, "declared beside a model of this outcome that decides; errors from copies")
        for formula in declared
    ]
    moments = release.transcript.first(MOMENTS) is not None
    columns = [name for name in all_names(release.design) if name != "Intercept"]
    rows.append(
        (
            f"other linear models of {_listed(columns)}",
            NOISE if moments else BINS,
            "any of these as response; standard errors from copies, by combine_copies"
            if moments
            else "second moments were not released",
        )
    )
    names = dict.fromkeys((*release.design.response_variables, *release.design.variables))
    for name in names:
        how = "one-way counts were not released"
        if name in known:
            how = f"one-way counts, each with noise of standard deviation {known[name]['sd']:.3g}"
            how += _cut(release, name, known[name])
        rows.append((f"distribution of {name}", NOISE if name in known else BINS, how))
    plain = {*release.design.plain_columns(), release.design.response_name}
    numbers = [n for n in names if n in plain and isinstance(release.domain[n], Numeric)]
    factors = [n for n in names if isinstance(release.domain.get(n), Categorical)]
    if moments and len(numbers) > 1:
        rows.append((f"correlations of {_listed(numbers)}", NOISE, "second moments"))
    if moments and len(factors) > 1:
        rows.append((f"two-way counts of {_listed(factors)}", NOISE, "second moments"))
    if known and lacking(release):
        rows.append(("shares of missing values", NOISE, "with synthesize(missing=True) only"))
    shown = "interactions, thresholds, curves and subgroups beyond these models"
    if "count" in release.statistics and release.n_bins > 1:
        what = (
            f"{release.n_bins} bins of {_listed(list(release.partition.variables))}; what they do "
            "not show is absent from a table and from all its copies, whatever the records say"
        )
        rows.append((shown, BINS, what))
    else:
        rows.append((shown, NONE, "no sums in bins were released"))
    rows.append(
        (
            "other variables, single records, rare groups, groups of records that belong together",
            NONE,
            "not released",
        )
    )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _cut(release: Released, name: str, margin: Mapping[str, Any]) -> str:
    """What is said of values beyond the range where counts stand out, which no row has."""
    declared, seen = release.declared[name], release.domain[name]
    if not isinstance(declared, Numeric) or not isinstance(seen, Numeric):
        return ""
    half = 0.5 if seen.integer else 0.0
    edges, counts = margin["edges"], margin["counts"]
    below, above = edges[1:] <= seen.lower - half, edges[:-1] >= seen.upper + half
    beyond = below | above
    if not beyond.any() or (seen.lower, seen.upper) == (declared.lower, declared.upper):
        return ""
    noise = margin["sd"] * float(np.sqrt(beyond.sum()))
    return (
        f"; no row lies outside {seen.lower:,.10g} to {seen.upper:,.10g}, where counts do not "
        f"stand out: together they are {round(float(counts[beyond].sum()))}, with noise {noise:.0f}"
    )


def lacking(release: Released) -> bool:
    """Whether records are seen that lack the value of some variable."""
    found = counted(release.transcript)
    return found is not None and found.incomplete > SEEN * found.sd


def _of_model(release: Released, model: Design) -> tuple[str, str, str]:
    raw = [release.declared.get(name) for name in model.response_variables]
    whole = len(raw) == 1 and isinstance(raw[0], Numeric) and raw[0].integer
    near = "least squares returns the released coefficients"
    if whole:
        near += " within .05 standard errors, for the outcome comes in whole numbers"
    return model.formula, EXACT, f"{near}; standard errors from the release, or from copies"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMES])
    return shown + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")


def in_words(frame: pd.DataFrame, rules: Sequence[str] = ()) -> str:
    """The table of what is supported as a list in Markdown, the most supported first."""
    heads = {
        EXACT: "What the synthetic records reproduce",
        NOISE: "What they carry with noise of a known size",
        BINS: "What they carry only as far as bins show it",
        NONE: "What they do not carry at all",
    }
    parts = []
    for level, head in heads.items():
        rows = frame[frame["support"] == level]
        if len(rows):
            lines = [
                f"- {what}: {how}." for what, how in zip(rows["what"], rows["how"], strict=True)
            ]
            parts.append(f"**{head}.**\n\n" + "\n".join(lines))
    if rules:
        kept = "\n".join(f"- `{rule}`" for rule in rules)
        parts.append(f"**What holds in every row**, for it was declared to.\n\n{kept}")
    return "\n\n".join(parts)


def find_tag(table: Any) -> Tag | None:
    """The tag of a table: its own, that of the file beside it, or what a release says.

    Parameters
    ----------
    table : DataFrame, path, or what has a release
        A path names the file of a table or the folder of a release.
    """
    if isinstance(table, Tag):
        return table
    if isinstance(table, pd.DataFrame):
        text = table.attrs.get(TAG)
        return None if text is None else Tag.from_json(text, "the table")
    if isinstance(table, str | Path):
        return _beside(Path(table))
    release = table if isinstance(table, Released) else getattr(table, "release", None)
    if isinstance(release, Released):
        return tag_of(release, "calibrated", 0, 0, getattr(table, "design", None))
    raise ReleaseError(
        "table must be the table that synthesize made, the path of its file or its folder, or the "
        f"release, got {type(table).__name__}"
    )


def sidecar_of(path: Path) -> Path:
    """Where the tag of a table in this file is written."""
    return path.with_name(f"{path.stem}.{SIDECAR}")


def _beside(path: Path) -> Tag:
    places = [path / SIDECAR] if path.is_dir() else [sidecar_of(path), path.parent / SIDECAR]
    for place in places:
        if place.is_file():
            return Tag.from_json(place.read_bytes(), str(place))
    raise ReleaseError(
        f"there is no {places[0].name} beside {str(path)!r}, which says what the table supports; "
        "pass the table that synthesize made, or the release"
    )

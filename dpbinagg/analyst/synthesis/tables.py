"""Synthetic records: post-processing of a release, free and repeatable.

Four kinds. "calibrated" rows have covariates inside the boxes of their bins and a
response on which ordinary least squares returns the released coefficients; the response
may leave its bounds for a few rows. "predictive" rows have the same covariates and a response
inside its bounds that scatters half as much, for machine learning: models that are trained on them
find the same surface more easily. "bounded" rows have all values inside their bounds and
bin means equal to the released ones, noise included, wherever those lie inside. "binagg" rows
follow the published law given the release, and their bin sums are the released ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpbinagg.analyst.fit import total
from dpbinagg.analyst.ols.finish import Steps
from dpbinagg.analyst.synthesis.adjust import match_whole_means
from dpbinagg.analyst.synthesis.apportion import largest_remainder
from dpbinagg.analyst.synthesis.binagg import binagg_rows
from dpbinagg.analyst.synthesis.copies import draw_params, drawn_noise, redrawn
from dpbinagg.analyst.synthesis.joint import Joint
from dpbinagg.analyst.synthesis.keeper import Keeper
from dpbinagg.analyst.synthesis.laws import Law, released_laws
from dpbinagg.analyst.synthesis.outcome import Outcome, Truth
from dpbinagg.analyst.synthesis.response import (
    beyond,
    bounded_response,
    calibrated_response,
    errors,
    orthonormal_basis,
)
from dpbinagg.analyst.synthesis.settle import Target, settled
from dpbinagg.analyst.synthesis.spread import Spreader
from dpbinagg.analyst.synthesis.supports import TAG, tag_of
from dpbinagg.analyst.synthesis.surface import mean_residuals, residual_surface
from dpbinagg.analyst.types import Array, Estimate
from dpbinagg.errors import FormulaError, ReleaseError
from dpbinagg.formula import Design
from dpbinagg.formula.union import linear_map
from dpbinagg.inputs import SyntheticKind
from dpbinagg.public.domain import Numeric, Rows, column_of, rows_of, spread_rows
from dpbinagg.release.questions import SEEN
from dpbinagg.release.transcript import Released, counted

KINDS = get_args(SyntheticKind)
STANDS_OUT = 1.0
"""A bin is kept if its noisy count exceeds this many standard deviations of its noise."""

PREDICTIVE_SPREAD = 0.5
"""Scatter of "predictive" responses, in standard errors of the regression; see `synthetic.py` in
the benchmarks: of 1, 0.5, 0.25 and 0, 0.5 or less serves best where records are many."""

CONDITION = 1e-6
BIN, COPY = "bin_id", "copy"


def synthesize(
    release: Released,
    estimate: Estimate,
    size: int | None = None,
    copies: int = 1,
    kind: str = "calibrated",
    bin_id: bool = False,
    rng: Any = None,
    design: Design | None = None,
    steps: Steps | None = None,
    declared: Sequence[tuple[Design, Estimate]] = (),
    missing: bool = False,
) -> pd.DataFrame:
    """Make synthetic records from a release.

    Parameters
    ----------
    release : Released
    estimate : Estimate
        The regression that "calibrated" rows reproduce.
    size : int, optional
        Number of rows; the noisy number of records by default. Rows are
        apportioned to bins by largest remainders.
    copies : int
        Number of tables. In copy l of a "calibrated" table the coefficients are drawn
        from N(params, cov); `combine_copies` gives params and standard errors back.
    kind : {"calibrated", "predictive", "bounded", "binagg"}
        See the module.
    bin_id : bool
        Whether a column ``bin_id`` tells the bin of each row.
    rng : None, seed or Generator
        None draws from the operating system's entropy.
    design : Design, optional
        The model of `estimate` where that is smaller than the release's.
    steps : Steps, optional
        Where moments and rounds of the release lead.
    declared : sequence of (Design, Estimate)
        Of a study: the models that "calibrated" rows reproduce together.
    missing : bool
        Whether rows that lack values are added to the complete ones, as many as were released.

    Returns
    -------
    DataFrame
        The response and the raw variables of the right side ("binagg": the design
        columns); with ``copies > 1`` a column ``copy`` numbers the tables from 1.
        ``frame.attrs["formula"]`` fits the table.
    """
    if kind not in KINDS:
        got = repr(kind) if isinstance(kind, str) else type(kind).__name__
        raise ReleaseError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {got}")
    if missing and kind == "binagg":
        raise ReleaseError('missing=True needs raw variables, which kind="binagg" has not')
    copies = _whole("copies", copies, 1)
    model = release.design if design is None else design
    if len(estimate.params) != len(model.column_names):
        raise ReleaseError(
            f"estimate has {len(estimate.params)} coefficients, but the model has "
            f"{len(model.column_names)} columns; pass the design of the smaller model"
        )
    generator = np.random.default_rng(rng)
    source = _Source(release, estimate, model, size, kind, steps, tuple(declared))
    maker = _Maker(source)
    estimates = [estimate, *(one for _, one in declared)]
    drawn = [
        draw_params(one, copies, generator) if copies > 1 else one.params[None, :]
        for one in estimates
    ]
    frames = []
    for number in range(copies):
        if copies > 1 and kind == "calibrated":
            maker = _Maker(source, generator)
        frame, bin_of = maker.make([params[number] for params in drawn], generator)
        _refuse_clash(frame, bin_id, copies > 1)
        complete = len(frame)
        if bin_id:
            frame[BIN] = bin_of
        if missing:
            frame = with_incomplete(frame, maker.release, generator)
        if copies > 1:
            frame.insert(0, COPY, number + 1)
        frames.append(frame)
    table = pd.concat(frames, ignore_index=True) if copies > 1 else frames[0]
    table.attrs["kind"] = kind
    tag = tag_of(release, kind, copies, complete, model)
    table.attrs[TAG] = tag.to_json()
    if kind != "binagg":
        table.attrs["formula"] = formula_for(table, release.design, model)
    return table


def with_incomplete(
    frame: pd.DataFrame, release: Released, rng: np.random.Generator
) -> pd.DataFrame:
    """Complete rows and such that lack values, in the released proportions, in random order.

    A variable is missing in its released share of rows, at random. Incomplete rows are copies of
    complete ones with values taken away, so that complete rows stay what they were.
    """
    found = counted(release.transcript)
    if found is None or found.incomplete <= SEEN * found.sd:
        return frame
    ratio = len(frame) / max(found.complete, 1.0)
    lacking = {
        name: round(ratio * margin["missing"])
        for name, margin in found.margins.items()
        if name in frame.columns and margin["missing"] > SEEN * margin["sd"]
    }
    rows = min(round(ratio * found.incomplete), sum(lacking.values()))
    if rows < 1:
        return frame
    added = frame.iloc[rng.integers(0, len(frame), rows)].reset_index(drop=True)
    start = 0
    for name, number in lacking.items():
        # One variable after the other, round and round: every row lacks something.
        gone = (start + np.arange(min(number, rows))) % rows
        start += number
        truth = added[name].dtype.kind == "b"
        if not isinstance(added[name].dtype, pd.CategoricalDtype):
            added[name] = added[name].astype(object if truth else np.float64)
        added.loc[gone, name] = None if truth else np.nan
    both: pd.DataFrame = pd.concat([frame, added], ignore_index=True)
    return both.take(rng.permutation(len(both))).reset_index(drop=True)


@dataclass(frozen=True, slots=True)
class _Source:
    """What tables are made of."""

    release: Released
    estimate: Estimate
    model: Design
    given_size: int | None
    kind: str
    steps: Steps | None
    declared: tuple[tuple[Design, Estimate], ...] = ()

    @property
    def size(self) -> int:
        """Number of rows."""
        least = len(self.model.column_names) + 2 if self.kind == "calibrated" else 1
        if self.given_size is not None:
            return _whole("size", self.given_size, least)
        return max(round(total(self.release)), least)


class _Maker:
    """Makes tables from the same release and model; with `redraw` from noise of its own."""

    def __init__(self, source: _Source, redraw: np.random.Generator | None = None) -> None:
        self.source, self.release, steps = source, source.release, source.steps
        self.estimate, self.model, self.kind = source.estimate, source.model, source.kind
        self.size, noise = source.size, None
        if redraw is not None:
            self.release = redrawn(source.release, redraw)
            noise = None if steps is None else drawn_noise(steps.state.noise, redraw)
        self.spreader = Spreader.of(self.release)
        self.released_params = self._released_params()
        laws = released_laws(self.release)
        self.outcome = Outcome.of(self.release.design, laws, self.release.declared)
        self.targets = self._targets(laws)
        self.keeper = Keeper.of(self.release, [one.outcome.name for one in self.targets])
        among = self.keeper.among(self.release.design.variables) if self.keeper.rules else None
        self.joint = Joint(self.release, self.spreader, laws, steps, noise, among)

    def _targets(self, laws: dict[str, Law]) -> list[Target]:
        """What least squares on "calibrated" rows shall return, but for what is drawn so."""
        declared = self.source.declared
        if not declared and self.release.rules:
            declared = ((self.model, self.estimate),)
        found = []
        for design, estimate in declared:
            outcome = Outcome.of(design, laws, self.release.declared)
            if outcome is not None:
                found.append(Target(outcome, estimate.params, estimate.scale))
        return found

    def make(
        self, drawn: Sequence[Array], rng: np.random.Generator
    ) -> tuple[pd.DataFrame, NDArray[np.int64]]:
        """One table and the bin of each of its rows.

        `drawn` are coefficients of the model of the release, and of the declared ones of a study.
        """
        params = drawn[0]
        if self.kind == "binagg":
            return binagg_rows(self.release, self.source.given_size, rng)
        if self.kind == "calibrated" and self.release.design.variables:
            rows, bin_of = self.joint.draw(self.weights(), self.size, rng)
        else:
            rows_in = largest_remainder(self.weights(), self.size)
            bin_of = np.repeat(np.arange(len(rows_in)), rows_in)
            rows = self.spreader.draw(bin_of, rng, exact_means=self.kind == "bounded")
        if self.kind == "calibrated":
            rows, bin_of = self._full_rank(rows, bin_of, rng)
        columns = self._columns(self.model, rows, len(bin_of))
        misfit = self._misfit(rows, columns, bin_of)
        raw = None
        if self.kind == "calibrated" and self.outcome is not None:
            sd = self.joint.error_sds(rows, len(bin_of), self.estimate.scale)
            raw, response = self.outcome.draw(columns, params, misfit, sd, rng)
        elif self.kind == "calibrated" and self._response_is_there(rows):
            response = self.release.design.response(rows)
        elif self.kind == "calibrated":
            response = self._other_response(columns, params, misfit, rng)
        else:
            response = self._inside(columns @ self.estimate.params + misfit, bin_of, rng)
        order = rng.permutation(len(bin_of))
        if self.kind == "calibrated" and (raw is not None or self._response_is_there(rows)):
            known = (
                rows if raw is None else {self.release.design.response_variables[0]: raw, **rows}
            )
            known = self._settled(known, drawn, rng)
            if self.release.design.variables:
                bin_of = self.release.partition.locate(known)
            return self._raw_frame(known, order), bin_of[order]
        rows = {name: values[order] for name, values in rows.items()}
        frame, bin_of = self._frame(rows, response[order]), bin_of[order]
        return self._ruled(frame, bin_of, rng)

    def _other_response(
        self, columns: Array, params: Array, misfit: Array, rng: np.random.Generator
    ) -> Array:
        """A response that is no function of one counted number: false or true, or normal."""
        truth = Truth.of_share(self.release.design, float(np.mean(columns @ params)))
        if truth is None:
            error = errors(misfit, self.estimate.scale, rng)
            return calibrated_response(columns, params, error, self.estimate.scale)
        sd = np.full(len(columns), np.sqrt(self.estimate.scale))
        return truth.draw(columns, params, misfit, sd, rng)[1]

    def _ruled(
        self, frame: pd.DataFrame, bin_of: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[pd.DataFrame, NDArray[np.int64]]:
        """Rows that keep the rules; those that break one become copies of others."""
        keeper = self.keeper.among(list(frame.columns))
        if not keeper.rules:
            return frame, bin_of
        rows = keeper.derived(rows_of(frame, self.release.domain))
        kept = keeper.holds(rows)
        if not kept.any():
            raise ReleaseError(keeper.refusal())
        for _, name in keeper.order:
            frame[name] = column_of(rows[name], self.release.domain[name])
        donor = np.where(kept, np.arange(len(kept)), rng.choice(np.flatnonzero(kept), len(kept)))
        return frame.take(donor).reset_index(drop=True), bin_of[donor]

    def _response_is_there(self, rows: Rows) -> bool:
        """Whether the variables of the response are among the covariates, as in studies."""
        return set(self.release.design.response_variables) <= set(rows)

    def _settled(self, rows: Rows, drawn: Sequence[Array], rng: np.random.Generator) -> Rows:
        """Rows on which all declared models are calibrated, and which keep all rules."""
        params = drawn[1:] if self.source.declared else drawn
        known = [design for design, _ in self.source.declared] or [self.model]
        targets = [replace(one, params=params[known.index(one.design)]) for one in self.targets]
        if not targets and not self.keeper.rules:
            return rows
        return settled(rows, targets, self.keeper, rng)

    def _raw_frame(self, rows: Rows, order: NDArray[np.intp]) -> pd.DataFrame:
        """A table of raw variables, those of the response first."""
        names = dict.fromkeys((*self.release.design.response_variables, *rows))
        domain = self.release.domain
        return pd.DataFrame({name: column_of(rows[name][order], domain[name]) for name in names})

    def weights(self) -> Array:
        """Share of rows of every bin: the noisy counts that stand out of the noise."""
        bins, possible = self.spreader.bins, self.spreader.possible()
        if bins is None:
            return np.where(possible, _volumes(self.release), 0.0)
        counts = np.where(possible, bins.counts, -np.inf)
        kept = counts > STANDS_OUT * bins.sd_count
        if not kept.any():
            kept = counts >= counts.max()
        return np.where(kept, np.maximum(counts, 1e-9), 0.0)

    def _released_params(self) -> Array:
        """The coefficients on the columns of the release."""
        if self.model is self.release.design:
            return self.estimate.params
        return np.asarray(linear_map(self.release.design, self.model) @ self.estimate.params)

    def _misfit(self, rows: Rows, columns: Array, bin_of: NDArray[np.int64]) -> Array:
        """What the bins say beyond the regression, less what the regression says better."""
        bins = self.spreader.bins
        if bins is None:
            return np.zeros(len(bin_of))
        released = columns
        if self.model is not self.release.design:
            released = self._columns(self.release.design, rows, len(bin_of))
        means = self.spreader.mean_columns(released, self.spreader.groups(bin_of))
        values, noise = mean_residuals(bins, self.released_params, self.estimate.scale, *means)
        surface = residual_surface(values, noise, self.spreader.centres())
        misfit = surface.at(self.spreader.positions(rows, len(bin_of)), bin_of)
        return beyond(columns, misfit) if misfit.any() else misfit

    def _full_rank(
        self, rows: Rows, bin_of: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[Rows, NDArray[np.int64]]:
        """Replace as few rows as are needed for the columns to be independent.

        A rare level may have no row. The replacements are spread over the domain.
        """
        if not self.release.design.variables:
            return rows, bin_of
        points = self._public_rows(max(400, 8 * len(self.estimate.params)), rng)
        wanted = orthonormal_basis(self.model.columns(points))[1]
        n, replaced = len(bin_of), 0
        while orthonormal_basis(self.model.columns(rows), CONDITION)[1] < wanted and replaced < n:
            step = min(max(replaced, len(self.estimate.params)), n - replaced)
            where = rng.choice(n, step, replace=False)
            fresh = self._public_rows(step, rng)
            rows = {name: values.copy() for name, values in rows.items()}
            for name, values in fresh.items():
                rows[name][where] = values
            bin_of = bin_of.copy()
            bin_of[where] = self.release.partition.locate(fresh)
            replaced += step
        return rows, bin_of

    def _public_rows(self, n: int, rng: np.random.Generator) -> Rows:
        """Rows spread over the domain wherever the design is defined."""
        domain = self.release.domain.subset(self.release.design.variables)
        for factor in (1, 10, 100, 1000):
            rows = spread_rows(domain, factor * n, rng)
            defined = np.isfinite(self.release.design.columns(rows)).all(axis=1)
            if self.joint.keeper is not None:
                rows = self.joint.keeper.derived(rows)
                defined &= self.joint.keeper.holds(rows)
            if defined.sum() >= n:
                break
        kept = np.resize(np.flatnonzero(defined), n)
        return {name: values[kept] for name, values in rows.items()}

    def _columns(self, design: Design, rows: Rows, n: int) -> Array:
        """Design columns of rows, of which a formula without variables has none."""
        if rows:
            return design.columns(rows)
        names = self.release.design.response_variables
        return design.columns({name: np.zeros(n) for name in names})

    def _inside(self, mean: Array, bin_of: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """Responses inside their bounds; whole numbers where the response is one."""
        bounds = self.release.design.response_bounds()
        mean = np.clip(mean, *bounds)
        groups = self.spreader.groups(bin_of)
        target = groups.means(mean)
        bins = self.spreader.bins
        if self.kind == "bounded" and bins is not None:
            released = bins.sum_y / np.where(bins.counts >= 1.0, bins.counts, np.nan)
            inside = (released >= bounds[0]) & (released <= bounds[1])
            target = np.where(inside, released, target)
        spread = PREDICTIVE_SPREAD if self.kind == "predictive" else 1.0
        error = spread * np.sqrt(self.estimate.scale) * rng.standard_normal(len(bin_of))
        values = bounded_response(mean, error, groups, target, bounds)
        name = _plain_response(self.release.design)
        variable = None if name is None else self.release.domain[name]
        if isinstance(variable, Numeric) and variable.integer:
            low, high = (np.full(len(target), side) for side in bounds)
            values = match_whole_means(values, groups, target, low, high)
        return values

    def _frame(self, rows: Rows, response: Array) -> pd.DataFrame:
        name, values = self._raw_response(rows, response)
        columns: dict[str, Any] = {name: values}
        for variable, data in rows.items():
            if variable not in columns:
                columns[variable] = column_of(data, self.release.domain[variable])
        return pd.DataFrame(columns)

    def _raw_response(self, rows: Rows, response: Array) -> tuple[str, Any]:
        """The raw response where the transform can be undone for every row."""
        design = self.release.design
        inverse = design.invert_response(response)
        if inverse is not None and _undoes(design, rows, *inverse, response):
            name, values = inverse
            variable = self.release.domain[name]
            if self.kind != "calibrated" and isinstance(variable, Numeric):
                values = np.clip(values, variable.lower, variable.upper)
                if variable.integer:
                    values = np.rint(values).astype(np.int64)
            return name, values
        whole = bool(np.isin(response, (0.0, 1.0)).all())
        return transformed_name(design), response.astype(np.int64) if whole else response


def _undoes(design: Design, rows: Rows, name: str, raw: Array, response: Array) -> bool:
    """Whether the raw values give the transformed ones back, wherever they lie."""
    if name in rows or not np.isfinite(raw).all():
        return False
    if name == _plain_response(design):
        return True
    low, high = float(raw.min()), float(raw.max())
    wide = Numeric(low, high if high > low else np.nextafter(low, np.inf))
    try:
        again = design.with_domain(design.domain.updated({name: wide})).response({name: raw})
    except FormulaError:
        return False
    size = float(np.abs(response).max())
    return bool(np.allclose(again, response, rtol=1e-12, atol=1e-12 * size))


def formula_for(table: pd.DataFrame, released: Design, model: Design) -> str:
    """The formula of a model, for a synthetic table of a release.

    As it was written, unless the table holds the transformed response, since the
    transform could not be undone.
    """
    name = transformed_name(released)
    if name not in table.columns:
        return model.formula
    return f"{name} ~ {model.formula.split('~', 1)[1].strip()}"


def transformed_name(design: Design) -> str:
    """Name of a column that holds the transformed response: ``np.sqrt(y)`` is ``sqrt_y``."""
    plain = re.sub(r"\W+", "_", design.response_name.replace("np.", "")).strip("_")
    while plain in design.variables or plain in design.response_variables:
        plain = f"{plain}_transformed"
    return plain or "response"


def _plain_response(design: Design) -> str | None:
    names = design.response_variables
    return names[0] if len(names) == 1 and design.response_name == names[0] else None


def _volumes(release: Released) -> Array:
    """Share of the domain that every box covers, for a release without counts."""
    boxes, volume = release.partition.boxes, np.ones(release.n_bins)
    for name, lower in boxes.lower.items():
        variable = release.domain[name]
        assert isinstance(variable, Numeric)
        step = 1.0 if variable.integer else 0.0
        volume *= (boxes.upper[name] - lower + step) / (variable.upper - variable.lower + step)
    for members in boxes.members.values():
        volume *= members.mean(axis=1)
    return volume


def _whole(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        got = repr(value) if isinstance(value, int | float) else type(value).__name__
        raise ReleaseError(f"{name} must be a whole number of at least {least}, got {got}")
    return int(value)


def _refuse_clash(frame: pd.DataFrame, bin_id: bool, copy: bool) -> None:
    for name, used in ((BIN, bin_id), (COPY, copy)):
        if used and name in frame.columns:
            raise ReleaseError(
                f"the formula has a variable called {name!r}, which the synthetic table needs "
                "for itself; rename the variable before the release"
            )

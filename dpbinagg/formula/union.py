"""One design for several models, and models as combinations of the columns of a design."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import FormulaError
from dpbinagg.formula.describe import describe, undeclared_names
from dpbinagg.formula.design import Design, build_design, public_points
from dpbinagg.formula.rows import CategoricalFactor
from dpbinagg.public.domain import Categorical, Domain

Array = NDArray[np.float64]

TOLERANCE = 1e-9
"""What a combination may be off, in the size of its column: rounding."""
POINTS_PER_COLUMN, MIN_POINTS = 8, 400
"""Public points on which combinations are found and checked."""
TRUE = "[T.True]"
"""What patsy adds to the name of a comparison that is a column."""


def union_design(
    formulas: Sequence[str],
    variables: Sequence[str],
    domain: Domain,
    constants: Mapping[str, float] | None = None,
) -> Design:
    """A design whose columns and response hold every column and response of some models.

    Its formula is one that a reader may check: the response of the first model, on the terms of
    all, the responses of the others, and `variables`.

    Parameters
    ----------
    formulas : sequence of str
    variables : sequence of str
        Raw variables that must be among the columns too.
    domain : Domain
    constants : mapping, optional
    """
    responses: list[str] = []
    terms: dict[str, frozenset[str]] = {"1": frozenset()}
    for formula in formulas:
        response, right = describe(formula)
        responses.append(response)
        for term in right:
            codes = [factor.name() for factor in term.factors]
            if frozenset(codes) not in terms.values():
                terms[":".join(codes)] = frozenset(codes)
    first, *others = dict.fromkeys(responses)
    for code in others:
        terms.setdefault(code, frozenset([code]))
    built = _built(first, terms, domain, constants)
    lacking = [name for name in dict.fromkeys(variables) if not _holds(built, name)]
    for name in lacking:
        terms[spelled(name)] = frozenset([name])
    return _built(first, terms, domain, constants) if lacking else built


def _built(
    response: str, terms: Iterable[str], domain: Domain, constants: Mapping[str, float] | None
) -> Design:
    return build_design(f"{response} ~ {' + '.join(terms)}", domain, constants, apart=False)


def spelled(name: str) -> str:
    """A variable as a formula names it."""
    return name if name.isidentifier() else f"Q({name!r})"


def _holds(design: Design, name: str) -> bool:
    """Whether a raw variable is a column, the response, or a factor of its own."""
    if name not in design.domain:
        return False
    if not isinstance(design.domain[name], Categorical):
        return name in design.plain_columns() or name == design.response_name
    return any(
        isinstance(factor, CategoricalFactor) and factor.variables == (name,)
        for subterm in design.subterms
        if len(subterm.factors) == 1
        for factor in subterm.factors
    )


def all_names(full: Design) -> tuple[str, ...]:
    """Names of the columns of a design and of its response."""
    return (*full.column_names, full.response_name)


def combinations(full: Design, model: Design) -> tuple[Array, Array]:
    """Columns and response of a model, as combinations of all columns of a design and its response.

    Parameters
    ----------
    full : Design
        p columns.
    model : Design

    Returns
    -------
    loading : (p + 1, q) array
    response : (p + 1,) array

    Raises
    ------
    FormulaError
        Naming the first column, or the response, that is no such combination.
    """
    foreign = [name for name in model.names if name not in full.names]
    if foreign:
        raise FormulaError(
            f"variable {foreign[0]!r} was not released; what was is {', '.join(full.names)}"
        )
    model = model.with_domain(full.domain)
    names, wanted_names = all_names(full), all_names(model)
    plain = tuple(name.removesuffix(TRUE) for name in names)
    mapping = by_name(names, wanted_names)
    for j in np.flatnonzero(~mapping.any(axis=0)):
        mapping[:, j] = by_name(plain, (wanted_names[j],))[:, 0]
    mapping[:, mapping.sum(axis=0) > 1.0] = 0.0
    n = max(MIN_POINTS, POINTS_PER_COLUMN * len(names))
    points = public_points(full, n, np.random.default_rng(20), response=True)
    with np.errstate(all="ignore"):
        released = np.column_stack([full.columns(points), full.response(points)])
        wanted = np.column_stack([model.columns(points), model.response(points)])
    place = _solve(mapping, released, wanted)
    if place is not None:
        what = "response" if place == len(wanted_names) - 1 else "column"
        raise FormulaError(
            f"{what} {wanted_names[place]!r} is not a linear combination of what was released: "
            f"{', '.join(names[1:] if full.intercept == 0 else names)}; use these, or make a new "
            "release"
        )
    return mapping[:, :-1], mapping[:, -1]


def linear_map(full: Design, sub: Design) -> Array:
    """Columns of `sub` as linear combinations of the columns of `full`.

    Solves ``full.columns(x) @ M = sub.columns(x)`` on public points x spread
    over the domain of `full`, and checks the residual.

    Parameters
    ----------
    full, sub : Design
        The released design and a smaller one; `sub` is taken to the domain of
        `full`.

    Returns
    -------
    (p_full, p_sub) array M
        A unit vector for each column that both share by name.

    Raises
    ------
    FormulaError
        Naming the first column that is not a combination.
    """
    foreign = [name for name in sub.variables if name not in full.variables]
    if foreign:
        raise FormulaError(
            f"variable {foreign[0]!r} is not on the right side of the released formula "
            f"{full.formula!r}; release a formula that has it"
        )
    sub = sub.with_domain(full.domain)
    n = max(MIN_POINTS, POINTS_PER_COLUMN * len(full.column_names))
    points = public_points(full, n, np.random.default_rng(20))
    released, wanted = full.columns(points), sub.columns(points)
    mapping = by_name(full.column_names, sub.column_names)
    place = _solve(mapping, released, wanted)
    if place is not None:
        raise FormulaError(
            f"column {sub.column_names[place]!r} is not a linear combination of "
            f"the released columns; fit a formula made of those of {full.formula!r}, or make a "
            "new release"
        )
    return mapping


def by_name(full: tuple[str, ...], sub: tuple[str, ...]) -> Array:
    """Unit vectors for columns with equal names, zeros for others."""
    return np.array([[float(name == other) for other in sub] for name in full])


def _solve(mapping: Array, released: Array, wanted: Array) -> int | None:
    """Find the columns of `mapping` that are off, in place; the first that is still off, if any.

    Least squares with columns scaled to unit maximum; tiny weights are set to zero.
    """
    usable = np.isfinite(released).all(axis=1) & np.isfinite(wanted).all(axis=1)
    released, wanted = released[usable], wanted[usable]
    tiny = np.finfo(float).tiny
    scale = np.maximum(np.abs(released).max(axis=0, initial=0.0), tiny)
    size = np.maximum(np.abs(wanted).max(axis=0, initial=0.0), tiny)

    def off() -> NDArray[np.bool_]:
        gap = np.abs(released @ mapping - wanted).max(axis=0, initial=0.0)
        return np.asarray(gap / size > TOLERANCE)

    unknown = off()
    if unknown.any():
        weights = np.linalg.lstsq(released / scale, wanted[:, unknown], rcond=1e-12)[0]
        weights[np.abs(weights) < TOLERANCE * np.abs(weights).max(axis=0, initial=0.0)] = 0.0
        mapping[:, unknown] = weights / scale[:, None]
        unknown = off()
    return int(np.argmax(unknown)) if unknown.any() else None


def is_smaller(full: Design, design: Design) -> bool:
    """Whether a design has the response of another and combinations of its columns."""
    if design.response_name != full.response_name:
        return False
    try:
        linear_map(full, design)
    except FormulaError:
        return False
    return True


def smaller(full: Design, formula: str) -> Design:
    """The design of `formula` on the domain of a larger one with the same response."""
    design = released_design(full, formula, full.domain)
    require_same_response(full, design)
    return design


def released_design(full: Design, formula: str, domain: Domain) -> Design:
    """The design of a formula, refused where it has a variable that was not released."""
    known = [*domain, *full.constants]
    foreign = next((name for name in undeclared_names(str(formula)) if name not in known), None)
    if foreign is not None:
        raise FormulaError(
            f"{foreign!r} was not released; what was is {', '.join(domain)}. Fit terms of these, "
            "or make a new release"
        )
    return build_design(formula, domain, full.constants)


def require_same_response(full: Design, small: Design) -> None:
    """Refuse a model of another response."""
    if small.response_name != full.response_name:
        raise FormulaError(
            f"a smaller model must have the left side {full.response_name!r}, "
            f"got {small.response_name!r}; make a new release for another response"
        )

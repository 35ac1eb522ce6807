"""One design for several models, and models as combinations of the columns of a design."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import FormulaError
from dpbinagg.formula.describe import describe
from dpbinagg.formula.design import (
    MIN_POINTS,
    POINTS_PER_COLUMN,
    TOLERANCE,
    Design,
    build_design,
    by_name,
    linear_map,
    public_points,
    residuals,
    solve,
)
from dpbinagg.formula.names import undeclared_names
from dpbinagg.formula.rows import CategoricalFactor
from dpbinagg.public.domain import Categorical, Domain, spread_rows

Array = NDArray[np.float64]

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
        terms[_spelled(name)] = frozenset([name])
    return _built(first, terms, domain, constants) if lacking else built


def _built(
    response: str, terms: Iterable[str], domain: Domain, constants: Mapping[str, float] | None
) -> Design:
    return build_design(f"{response} ~ {' + '.join(terms)}", domain, constants, apart=False)


def _spelled(name: str) -> str:
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
    rng = np.random.default_rng(20)
    spread = public_points(full, n, rng)
    size = len(next(iter(spread.values())))
    points: dict[str, NDArray[Any]] = {
        **spread_rows(full.domain.subset(full.response_variables), size, rng),
        **spread,
    }
    with np.errstate(all="ignore"):
        released = np.column_stack([full.columns(points), full.response(points)])
        wanted = np.column_stack([model.columns(points), model.response(points)])
    usable = np.isfinite(released).all(axis=1) & np.isfinite(wanted).all(axis=1)
    released, wanted = released[usable], wanted[usable]
    unknown = residuals(released, wanted, mapping) > TOLERANCE
    if unknown.any():
        mapping[:, unknown] = solve(released, wanted[:, unknown])
        unknown = residuals(released, wanted, mapping) > TOLERANCE
    if unknown.any():
        place = int(np.argmax(unknown))
        what = "response" if place == len(wanted_names) - 1 else "column"
        raise FormulaError(
            f"{what} {wanted_names[place]!r} is not a linear combination of what was released: "
            f"{', '.join(names[1:] if full.intercept == 0 else names)}; use these, or make a new "
            "release"
        )
    return mapping[:, :-1], mapping[:, -1]


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

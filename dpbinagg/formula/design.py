"""The design: columns, names and bounds of a regression, from public facts; and smaller models."""

from __future__ import annotations

import math
import pickle
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import DataError, DomainError, FormulaError
from dpbinagg.formula.bounds import Bounds
from dpbinagg.formula.build import Structure, as_numbers, build_structure
from dpbinagg.formula.functions import admissible, invert
from dpbinagg.formula.rows import (
    Arrays,
    CategoricalFactor,
    NumericFactor,
    NumericLevels,
    RowMap,
    Subterm,
    Variable,
)
from dpbinagg.public.domain import Categorical, Domain, Numeric, spread_rows
from dpbinagg.public.domain import Variable as Declared
from dpbinagg.public.partition import Boxes
from dpbinagg.public.variables import Records

Array = NDArray[np.float64]

BLOCK = 2**14
"""Records that are evaluated together, few enough for the processor's cache."""


class Design:
    """The design matrix that a formula and a domain describe.

    Made by `build_design`; no record is needed. Pickles as formula, domain and
    constants.

    Attributes
    ----------
    formula : str
        As it was written.
    domain : Domain
        Of the variables of both sides.
    unbounded : tuple of str
        Numeric variables of either side with a bound that is not known.
    constants : mapping
        Numbers that the formula calls by name.
    variables, response_variables : tuple of str
        Raw variables of the right side, in the order of the formula; and of the response.
    names : tuple of str
        Those of both sides, the response's first. `domain` has them in the other order.
    column_names : tuple of str
        Patsy's names of the columns.
    response_name : str
        Patsy's name of the response.
    response_factor : NumericFactor
        What the response computes from raw variables.
    intercept : int or None
        Index of the intercept, None without one.
    subterms : tuple of Subterm
        Blocks of consecutive columns, each a product of factors.
    fixed : tuple of str
        Numeric variables whose declared bounds are levels and cannot be changed.
    design_info : DesignInfo
        Patsy's; it evaluates public tables through this design.
    """

    formula: str
    domain: Domain
    unbounded: tuple[str, ...]
    constants: Mapping[str, float]
    variables: tuple[str, ...]
    response_variables: tuple[str, ...]
    names: tuple[str, ...]
    response_name: str
    response_factor: NumericFactor
    column_names: tuple[str, ...]
    intercept: int | None
    subterms: tuple[Subterm, ...]
    fixed: tuple[str, ...]
    design_info: Any
    _structure: Structure

    def __init__(self, structure: Structure, domain: Domain) -> None:
        unbounded = (n for n, v in domain.items() if isinstance(v, Numeric) and not v.bounded)
        self.__dict__.update(
            _structure=structure,
            formula=structure.formula,
            domain=domain,
            unbounded=tuple(unbounded),
            constants=MappingProxyType(dict(structure.constants)),
            variables=structure.variables,
            response_variables=structure.response_variables,
            names=tuple(dict.fromkeys((*structure.response_variables, *structure.variables))),
            response_name=structure.response.name,
            response_factor=structure.response,
            column_names=structure.column_names,
            intercept=structure.intercept,
            subterms=structure.subterms,
            fixed=structure.fixed,
            design_info=structure.design_info,
        )
        # Refuse transforms that are undefined somewhere on the known bounds.
        whole = Bounds(domain, Boxes())
        for factor, names in structure.factors.items():
            if set(self.unbounded).isdisjoint(names):
                try:
                    if isinstance(factor, NumericFactor):
                        whole.numeric(factor)
                    else:
                        whole.members(factor)
                except FormulaError as error:
                    raise FormulaError(f"term {factor.name!r}: {error}") from None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Design cannot be changed; {name!r} was to be set")

    def __reduce__(self) -> tuple[Any, ...]:
        return build_design, (self.formula, self.domain, dict(self.constants), False)

    def __repr__(self) -> str:
        return f"Design({self.formula!r}, {self.domain!r})"

    def with_domain(self, domain: Mapping[str, Declared]) -> Design:
        """The same design on other bounds.

        Variables that `domain` lacks, and those of `fixed`, keep theirs. Levels
        and kinds of variables must be the same; use `build_design` otherwise.
        Where the bounds were not known before, they are moved to where the
        transforms are defined: ``np.log(wage)`` needs wage above 0, whatever
        range was found.
        """
        bounds: dict[str, Declared] = {}
        for name, variable in self.domain.items():
            new = variable
            if name in domain:
                new = domain[name]
            levels = isinstance(variable, Categorical) or isinstance(new, Categorical)
            if levels and new is not variable and repr(new) != repr(variable):
                raise DomainError(
                    f"bounds[{name!r}]: levels cannot be changed in an existing design; "
                    "build a new one"
                )
            bounds[name] = variable if name in self.fixed else new
        for requirement in self._structure.requirements:
            new = bounds[requirement.name]
            if requirement.name in self.unbounded and isinstance(new, Numeric) and new.bounded:
                bounds[requirement.name] = admissible(new, requirement)
        return Design(self._structure, Domain(bounds))

    def bounded_by(self, working: Domain) -> Design:
        """The same design on its declared bounds; where there is none, on that of `working`.

        A declared bound is a promise: nothing within it need be cut.
        """
        return self.with_domain({name: working[name] for name in self.unbounded})

    def row_map(self) -> RowMap:
        """What turns clean records into columns and response; see `scaling.CodedDesign` for codes.

        It holds what it needs and no formula, so that it may travel to workers.
        """
        finite = bool(self.unbounded)
        return RowMap(self.domain, self.response_factor, self.subterms, finite=finite)

    def _evaluated(self, records: Records, width: int, fill: Callable[..., None]) -> Array:
        """What `fill` writes for public records, block by block; NaN where one is missing."""
        if not records:
            raise DataError("records hold no variable; pass all variables of the formula")
        n = len(next(iter(records.values())))
        held = {
            name: records[name] if isinstance(v, Categorical) else as_numbers(records[name], name)
            for name, v in self.domain.items()
            if name in records
        }
        matrix = np.empty((n, width), order="F")
        with np.errstate(all="ignore"):
            for start in range(0, n, BLOCK):
                block = slice(start, min(start + BLOCK, n))
                part = {name: values[block] for name, values in held.items()}
                arrays = Arrays(part, self.domain, block.stop - block.start)
                fill(arrays, matrix[block])
                if self.unbounded:
                    arrays.missing |= ~np.isfinite(matrix[block]).all(axis=1)
                matrix[block][arrays.missing] = np.nan
        return matrix

    def columns(self, records: Records) -> Array:
        """The design matrix, (n, p), of public records.

        Raw values are clipped into the domain; the row of a record with a
        missing value in any variable of the right side is NaN.
        """

        def fill(arrays: Arrays, out: Array) -> None:
            for subterm in self.subterms:
                arrays.fill(subterm, out)

        return self._evaluated(records, len(self.column_names), fill)

    def response(self, records: Records) -> Array:
        """The response, (n,), of public records; NaN where missing."""

        def fill(arrays: Arrays, out: Array) -> None:
            out[:, 0] = arrays.numbers(self.response_factor).reshape(len(out))

        return self._evaluated(records, 1, fill)[:, 0]

    def plain_columns(self) -> dict[str, int]:
        """Index of the column that is a numeric variable itself, for those that have one."""
        found: dict[str, int] = {}
        for subterm in self.subterms:
            factor = subterm.factors[0] if len(subterm.factors) == 1 else None
            if not isinstance(factor, NumericFactor) or factor.basis is not None:
                continue
            if isinstance(factor.expression, Variable):
                found.setdefault(factor.expression.name, subterm.start)
        return found

    def numeric_levels(self) -> dict[str, Array]:
        """Values of numeric variables that the formula lists as levels, ascending."""
        listed: dict[str, list[float]] = {}
        for factor in self._structure.factors:
            if isinstance(factor, CategoricalFactor) and isinstance(factor.source, NumericLevels):
                listed.setdefault(factor.source.name, []).extend(factor.source.values)
        return {name: np.unique(np.array(values, dtype=float)) for name, values in listed.items()}

    def columns_of(
        self, name: str, values: NDArray[Any]
    ) -> tuple[NDArray[np.intp], Array, NDArray[np.bool_]]:
        """The columns that depend on one variable alone, where it takes `values`.

        Returns
        -------
        columns : (J,) array
            Their indices.
        matrix : (n, J) array
        defined : (n,) bool array
            Whether the design is defined there: ``C(x, levels=...)`` may leave values out.
        """
        arrays = Arrays({name: values}, self.domain, len(values))
        matrix = np.empty((len(values), len(self.column_names)), order="F")
        own: list[int] = []
        with np.errstate(all="ignore"):
            for subterm in self.subterms:
                needed = [self._structure.factors[factor] for factor in subterm.factors]
                if frozenset[str]().union(*needed) == {name}:
                    arrays.fill(subterm, matrix)
                    own.extend(range(subterm.start, subterm.stop))
            for factor, names in self._structure.factors.items():
                if isinstance(factor, CategoricalFactor) and names == {name}:
                    arrays.codes(factor)
        columns = np.array(own, dtype=np.intp)
        return columns, matrix[:, columns], ~arrays.missing

    def column_bounds(
        self, boxes: Boxes | None = None, bounds: Bounds | None = None
    ) -> tuple[Array, Array]:
        """Bounds of every column on every box, two (K, p) arrays; by `bounds` on the boxes.

        Without boxes: on the whole domain, K = 1.
        """
        boxes = Boxes() if boxes is None else boxes
        bounds = Bounds(self.domain, boxes) if bounds is None else bounds
        lower = np.empty((len(boxes), len(self.column_names)))
        upper = np.empty_like(lower)
        for subterm in self.subterms:
            for j, interval in enumerate(bounds.columns(subterm), start=subterm.start):
                lower[:, j] = interval.lower
                upper[:, j] = interval.upper
        return lower, upper

    def response_bounds(self) -> tuple[float, float]:
        """Bounds of the response on the domain."""
        (interval,) = Bounds(self.domain, Boxes()).numeric(self.response_factor)
        return float(interval.lower.min()), float(interval.upper.max())

    def invert_response(self, values: Array) -> tuple[str, Array] | None:
        """The raw variable of the response, where the response takes `values`.

        None unless the response is a chain of operations with known inverses
        (logarithms, roots, powers, arithmetic with numbers) of one variable.
        Values that no raw value reaches are first moved into the response's
        bounds, where these are known.
        """
        inverse = invert(self.response_factor.expression, np.asarray(values, dtype=np.float64))
        if inverse is None or not set(self.response_variables).isdisjoint(self.unbounded):
            return inverse
        name, raw = inverse
        nearest = invert(self.response_factor.expression, np.clip(values, *self.response_bounds()))
        assert nearest is not None
        return name, np.where(np.isfinite(raw), raw, nearest[1])


CACHE_SIZE = 64
"""Formulas that are remembered: fits of one session use few."""
_CACHE: dict[bytes, Structure] = {}
_CACHE_LOCK = threading.Lock()


def build_design(
    formula: str,
    domain: Domain,
    constants: Mapping[str, float] | None = None,
    apart: bool = True,
) -> Design:
    """Understand a formula from public facts alone.

    A formula may hold arithmetic, comparisons, ``&``, ``|``, ``~``, functions of
    one record (``np.log``, ``np.sqrt``, ``np.minimum``, ``np.clip``, ``np.where``
    and others), ``I()``, ``Q()``, ``C()`` with levels and contrasts, ``bs``, ``cr``
    and ``cc`` with public knots and bounds, and patsy's ``+ - : * / **``. Whatever
    learns from records is refused. A comparison as response counts as 0 and 1.

    Parameters
    ----------
    formula : str
        A patsy formula such as ``"np.log(wage) ~ educ + C(region)"``.
    domain : Domain
        Bounds and levels. A name that it lacks is a numeric variable with
        unknown bounds.
    constants : mapping, optional
        Numbers that the formula may call by name.
    apart : bool
        Whether a response made of variables of the right side is refused, as in any model;
        the union of several models may have one.

    Returns
    -------
    Design
    """
    if not isinstance(domain, Domain):
        domain = Domain(domain)
    numbers = check_constants(constants, domain) if constants else {}
    # Pickled, levels 1, 1.0 and True differ, which are equal but named differently.
    key = pickle.dumps((str(formula), domain, numbers))
    structure = _CACHE.get(key)
    if structure is None:
        structure = build_structure(formula, domain, numbers)
        with _CACHE_LOCK:
            if len(_CACHE) >= CACHE_SIZE:
                _CACHE.clear()
            _CACHE[key] = structure
    if apart and not structure.apart:
        raise FormulaError(
            f"response {structure.response.name!r} is made of variables that are also on the right "
            "side; remove them there"
        )
    return Design(structure, structure.domain)


def check_constants(constants: Mapping[str, float], domain: Domain) -> dict[str, float]:
    """Check the numbers that a formula may call by name."""
    checked: dict[str, float] = {}
    for name, value in constants.items():
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, bool) or not isinstance(plain, int | float):
            raise FormulaError(
                f"constants[{name!r}] must be a number, got {type(value).__name__}; arrays and "
                "columns must not be passed"
            )
        if not math.isfinite(plain):
            raise FormulaError(f"constants[{name!r}] must be finite; correct it")
        if name in domain:
            raise FormulaError(
                f"constants[{name!r}] is also a variable of the domain; rename the constant"
            )
        checked[name] = float(plain)
    return checked


MAX_COMBINATIONS = 20_000


def public_points(
    design: Design, n: int, rng: np.random.Generator, response: bool = False
) -> dict[str, NDArray[Any]]:
    """Public points spread over the domain of the right side, at least n of them.

    Numeric variables are uniform. Levels occur in all combinations, as long as
    these are not too many; no record is involved. With `response` its variables have values too.
    """
    levels: dict[str, Array] = {}
    ranges: dict[str, Numeric] = {}
    for name, variable in design.domain.subset(design.variables).items():
        if isinstance(variable, Categorical):
            levels[name] = np.arange(len(variable.levels), dtype=np.float64)
        elif not variable.bounded:
            raise DomainError(
                f"bounds of {name!r} are not known; declare them before comparing designs"
            )
        elif name in design.fixed and variable.integer:
            levels[name] = np.arange(variable.lower, variable.upper + 1)
        else:
            ranges[name] = variable
    combinations = math.prod(len(values) for values in levels.values())
    if combinations <= MAX_COMBINATIONS:
        n = combinations * math.ceil(n / combinations)
    # No variable has this name: it only says how many points there are where there is no variable.
    points: dict[str, NDArray[Any]] = {"": np.zeros(n)}
    stride = 1
    for name, values in levels.items():
        points[name] = values[np.arange(n) // stride % len(values)]
        stride *= len(values)
        if combinations > MAX_COMBINATIONS:
            points[name], stride = rng.permutation(points[name]), 1
    for name, variable in ranges.items():
        points[name] = rng.uniform(variable.lower, variable.upper, n)
    if response:
        points = {**spread_rows(design.domain.subset(design.response_variables), n, rng), **points}
    return points

"""Public facts about variables: bounds and levels, declared and validated."""

from __future__ import annotations

import csv
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpbinagg.errors import DomainError, UndeclaredError

if TYPE_CHECKING:
    import pandas as pd

CODEBOOK_COLUMNS = ("name", "type", "lower", "upper", "levels", "unit", "description")


@dataclass(frozen=True, slots=True)
class Numeric:
    """A numeric variable with public bounds.

    Parameters
    ----------
    lower, upper : float
        Public bounds, `lower < upper`. An infinite bound is unknown: the
        curator finds a working range privately.
    integer : bool
        Whether only whole numbers occur.
    """

    lower: float = -math.inf
    upper: float = math.inf
    integer: bool = False

    def __post_init__(self) -> None:
        for side in ("lower", "upper"):
            value = getattr(self, side)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise DomainError(
                    f"{side} bound must be a number, got {type(value).__name__}; "
                    "write bounds as (lower, upper)"
                )
            object.__setattr__(self, side, float(value))
        if math.isnan(self.lower) or math.isnan(self.upper):
            raise DomainError("bounds must not be NaN; use None for a bound that is not known")
        if not self.lower < self.upper or self.lower == math.inf or self.upper == -math.inf:
            raise DomainError(
                f"bounds must be (lower, upper) with lower < upper, got ({self.lower:g}, "
                f"{self.upper:g}); a constant needs no bounds, reversed ones must be swapped"
            )
        if self.bounded and not math.isfinite(self.upper - self.lower):
            raise DomainError("bounds must be less than 1.7e308 apart; narrow them")
        if self.integer and self.bounded:
            if self.lower != math.floor(self.lower) or self.upper != math.floor(self.upper):
                raise DomainError(
                    f"bounds of an integer variable must be whole numbers, got ({self.lower:g}, "
                    f"{self.upper:g}); round them outward"
                )
            if max(abs(self.lower), abs(self.upper)) > 2.0**53:
                raise DomainError("bounds of an integer variable must lie within 2**53")

    @property
    def bounded(self) -> bool:
        """Whether both bounds are known."""
        return math.isfinite(self.lower) and math.isfinite(self.upper)


@dataclass(frozen=True, slots=True)
class Categorical:
    """A categorical variable with declared levels, in their order."""

    levels: tuple[Hashable, ...]

    def __post_init__(self) -> None:
        levels = tuple(self.levels)
        object.__setattr__(self, "levels", levels)
        if not levels:
            raise DomainError("levels must not be empty; declare every value that may occur")
        for level in levels:
            if level is None or (isinstance(level, float) and not math.isfinite(level)):
                raise DomainError("levels must not contain missing or infinite values; remove them")
            if not isinstance(level, str | int | float | bool):
                raise DomainError(
                    f"levels must be strings, numbers or booleans, got {type(level).__name__}"
                )
        if len(set(levels)) != len(levels):
            raise DomainError("levels must be distinct (note that 1, 1.0 and True are equal)")


Variable = Numeric | Categorical


def _variable(name: str, spec: object) -> Variable:
    """Read one declaration; see `Domain` for the forms it takes."""
    import numpy as np
    import pandas as pd

    if isinstance(spec, Numeric | Categorical):
        return spec
    if isinstance(spec, pd.CategoricalDtype):
        if spec.categories is None:
            raise DomainError("a CategoricalDtype must list its categories")
        return Categorical(tuple(_plain(level) for level in spec.categories))
    if isinstance(spec, range):
        if len(spec) < 2 or spec.step != 1:
            raise DomainError("a range of whole numbers must have step 1 and at least two values")
        return Numeric(spec[0], spec[-1], integer=True)
    if isinstance(spec, np.ndarray):
        spec = spec.tolist()
    if isinstance(spec, tuple):
        if len(spec) != 2:
            raise DomainError(
                f"numeric bounds must be a pair (lower, upper), got a tuple of {len(spec)}; "
                "list the levels of a category in [ ]"
            )
        lower, upper = (_plain(side) for side in spec)
        return Numeric(
            -math.inf if lower is None else lower,  # type: ignore[arg-type]
            math.inf if upper is None else upper,  # type: ignore[arg-type]
        )
    if isinstance(spec, Sequence) and not isinstance(spec, str | bytes):
        return Categorical(tuple(_plain(level) for level in spec))
    raise DomainError(
        f"expected (lower, upper), range(...), or a list of levels, got {type(spec).__name__}"
    )


def _plain(value: object) -> Hashable:
    """Turn numpy scalars into plain Python ones."""
    item = getattr(value, "item", None)
    plain = item() if callable(item) else value
    if not isinstance(plain, Hashable):
        raise DomainError(
            f"levels must be strings, numbers or booleans, got {type(plain).__name__}"
        )
    return plain


class Domain(Mapping[str, Variable]):
    """Public bounds and levels of the variables of a table.

    Parameters
    ----------
    spec : mapping
        For each variable one of

        - ``(lower, upper)``: numeric bounds, either of them None if unknown;
        - ``range(0, 21)``: whole numbers from 0 to 20;
        - ``["N", "S", "E", "W"]``: the levels of a category, in their order;
        - a pandas ``CategoricalDtype``, a `Numeric` or a `Categorical`.

    Examples
    --------
    >>> domain = Domain({"wage": (1, 200), "educ": range(0, 21), "sex": ["f", "m"]})
    >>> domain["educ"]
    Numeric(lower=0.0, upper=20.0, integer=True)
    >>> domain["sex"].levels
    ('f', 'm')
    """

    __slots__ = ("_variables",)

    def __init__(self, spec: Mapping[str, object] | None = None) -> None:
        if spec is None:
            spec = {}
        if not isinstance(spec, Mapping):
            raise DomainError(
                f"bounds must be a mapping from variable names, got {type(spec).__name__}; "
                'write {"educ": (0, 20), "region": ["N", "S"]}'
            )
        variables: dict[str, Variable] = {}
        for name, value in spec.items():
            if not isinstance(name, str) or not name:
                raise DomainError(
                    f"variable names must be non-empty strings, got {type(name).__name__}"
                )
            try:
                variables[name] = _variable(name, value)
            except DomainError as error:
                raise DomainError(f"bounds[{name!r}]: {error}") from None
        self._variables = variables

    def __getitem__(self, name: str) -> Variable:
        try:
            return self._variables[name]
        except KeyError:
            raise UndeclaredError(
                f"variable {name!r} is not in the domain; declare its bounds or levels"
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._variables

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Domain) and self._variables == other._variables

    def __hash__(self) -> int:
        return hash(tuple(self._variables.items()))

    def __repr__(self) -> str:
        parts = []
        for name, variable in self._variables.items():
            if isinstance(variable, Categorical):
                parts.append(f"{name!r}: {list(variable.levels)!r}")
            elif variable.integer and variable.bounded:
                parts.append(f"{name!r}: range({variable.lower:.0f}, {variable.upper + 1:.0f})")
            else:
                low, high = (
                    None if math.isinf(side) else side for side in (variable.lower, variable.upper)
                )
                parts.append(f"{name!r}: ({low}, {high})")
        return f"Domain({{{', '.join(parts)}}})"

    def updated(self, spec: Mapping[str, object]) -> Domain:
        """This domain with some variables declared anew.

        Examples
        --------
        >>> Domain({"age": (0, 99)}).updated({"sex": ["f", "m"]})
        Domain({'age': (0.0, 99.0), 'sex': ['f', 'm']})
        """
        return Domain({**self._variables, **spec})

    def subset(self, names: Sequence[str]) -> Domain:
        """The domain of `names` only, in that order."""
        return Domain({name: self[name] for name in names})

    @classmethod
    def from_csv(cls, path: str | Path) -> Domain:
        """Read a codebook.

        The file has a header and the columns name, type (numeric, integer,
        categorical, boolean), lower, upper and levels (separated by ``|``);
        further columns, such as unit and description, are ignored. An empty
        bound is unknown.

        Parameters
        ----------
        path : path

        Returns
        -------
        Domain

        Examples
        --------
        >>> from dpbinagg.datasets import codebook_path
        >>> Domain.from_csv(codebook_path("school"))["gender"].levels
        ('boy', 'girl')
        """
        try:
            with open(path, newline="", encoding="utf-8-sig") as file:
                rows = list(csv.DictReader(file))
        except FileNotFoundError:
            raise DomainError(
                f"codebook {str(path)!r} does not exist; write one with the columns "
                f"{', '.join(CODEBOOK_COLUMNS[:5])}, or by Domain({{...}}).to_csv(path)"
            ) from None
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise DomainError(
                f"codebook {str(path)!r} cannot be read as a CSV file ({type(error).__name__})"
            ) from None
        if not rows or not {"name", "type"} <= set(rows[0]):
            raise DomainError(
                f"codebook {str(path)!r} must have a header with the columns "
                f"{', '.join(CODEBOOK_COLUMNS[:5])} and at least one row"
            )
        spec: dict[str, object] = {}
        for row in rows:
            name = (row["name"] or "").strip()
            if name in spec:
                raise DomainError(f"codebook {str(path)!r} lists variable {name!r} twice")
            try:
                spec[name] = _codebook_variable(row)
            except DomainError as error:
                raise DomainError(f"codebook {str(path)!r}, variable {name!r}: {error}") from None
        return cls(spec)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> Domain:
        """Take what the dtypes of a frame declare: categories and booleans.

        Only the schema is read, never a value, so a frame of private records
        may be passed. Numeric columns are left undeclared.

        Parameters
        ----------
        frame : DataFrame

        Returns
        -------
        Domain

        Examples
        --------
        >>> import pandas as pd
        >>> Domain.from_frame(pd.DataFrame({"union": [True, False], "wage": [1.0, 2.0]}))
        Domain({'union': [False, True]})
        """
        import pandas as pd

        if not isinstance(frame, pd.DataFrame):
            raise DomainError(f"frame must be a pandas DataFrame, got {type(frame).__name__}")
        spec: dict[str, object] = {}
        for name, dtype in frame.dtypes.items():
            if isinstance(dtype, pd.CategoricalDtype):
                spec[str(name)] = dtype
            elif pd.api.types.is_bool_dtype(dtype):
                spec[str(name)] = [False, True]
        return cls(spec)

    def to_csv(self, path: str | Path) -> None:
        """Write the domain as a codebook that `from_csv` reads."""
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(CODEBOOK_COLUMNS[:5])
            for name, variable in self._variables.items():
                writer.writerow([name, *_codebook_row(variable)])


def _codebook_variable(row: Mapping[str, str | None]) -> Variable:
    kind = (row.get("type") or "").strip().lower()
    if kind == "boolean":
        return Categorical((False, True))
    if kind == "categorical":
        levels = [level.strip() for level in (row.get("levels") or "").split("|")]
        return Categorical(tuple(level for level in levels if level))
    if kind not in ("numeric", "integer"):
        raise DomainError(f"type must be numeric, integer, categorical or boolean, got {kind!r}")
    sides: list[float] = []
    for side, unknown in (("lower", -math.inf), ("upper", math.inf)):
        text = (row.get(side) or "").strip()
        try:
            sides.append(float(text) if text else unknown)
        except ValueError:
            raise DomainError(f"{side} must be a number or empty") from None
    return Numeric(sides[0], sides[1], integer=kind == "integer")


def _codebook_row(variable: Variable) -> list[str]:
    if isinstance(variable, Numeric):
        sides = [
            "" if math.isinf(side) else repr(side) for side in (variable.lower, variable.upper)
        ]
        return ["integer" if variable.integer else "numeric", *sides, ""]
    if variable.levels == (False, True):
        return ["boolean", "", "", ""]
    if not all(isinstance(level, str) and "|" not in level for level in variable.levels):
        raise DomainError(
            "a codebook CSV holds string levels without '|' only; save a release instead"
        )
    return ["categorical", "", "", "|".join(str(level) for level in variable.levels)]

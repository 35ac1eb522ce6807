"""Public facts about variables: bounds and levels, declared and validated; and public rows.

Public rows are made up, or of tables that hold no record. Private tables are read elsewhere, by
rules that no value of theirs decides.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import DomainError, UndeclaredError
from dpbinagg.public.arguments import explains_arguments
from dpbinagg.public.codebook import (
    CODEBOOK_COLUMNS,
    codebook_text,
    csvw_text,
    read_codebook,
    read_csvw,
    row_of_variable,
)
from dpbinagg.public.variables import Categorical, Numeric, Variable

if TYPE_CHECKING:
    import pandas as pd


__all__ = ["CODEBOOK_COLUMNS", "Categorical", "Domain", "Numeric", "Variable"]


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
    if isinstance(spec, Mapping):
        return _described(name, spec)
    if isinstance(spec, Sequence) and not isinstance(spec, str | bytes):
        levels = tuple(_plain(level) for level in spec)
        _refuse_two_numbers(name, levels)
        return Categorical(levels)
    raise DomainError(
        f"expected (lower, upper), range(...), or a list of levels, got {type(spec).__name__}"
    )


def _refuse_two_numbers(name: str, levels: tuple[Hashable, ...]) -> None:
    """A list of two numbers may be meant as bounds, and both readings are common."""
    if len(levels) == 2 and all(type(level) in (int, float) for level in levels):
        low, high = levels
        raise DomainError(
            f"a list of two numbers can be read in two ways, got {list(levels)}. For a number "
            f"between them write {{{name!r}: ({low}, {high})}}; for a category with these two "
            f'levels write {{{name!r}: {{"levels": [{low}, {high}]}}}}'
        )


SPEC_KEYS = ("type", "lower", "upper", "levels", "labels", "missing", "unit", "description")


SPEC_WORDS = {
    **dict.fromkeys(("min", "minimum", "low", "from"), "lower"),
    **dict.fromkeys(("max", "maximum", "high", "to"), "upper"),
    **dict.fromkeys(("values", "categories", "codes"), "levels"),
    **dict.fromkeys(("value_labels", "names"), "labels"),
    **dict.fromkeys(("na", "na_values", "missing_codes", "nan"), "missing"),
    **dict.fromkeys(("kind", "dtype"), "type"),
}
"""What others call the words of a codebook."""


def _described(name: str, spec: Mapping[Any, object]) -> Variable:
    """A declaration by the words of a codebook."""
    unknown = [key for key in spec if key not in SPEC_KEYS]
    if unknown:
        key = str(unknown[0])
        near = SPEC_WORDS.get(key) or next(iter(get_close_matches(key, SPEC_KEYS, n=1)), None)
        meant = f"; did you mean {near!r}? Otherwise use " if near else "; use "
        raise DomainError(f"unknown key {unknown[0]!r}{meant}{', '.join(SPEC_KEYS)}")
    given: dict[str, Any] = {key: value for key, value in spec.items() if value is not None}
    kind = given.pop("type", None)
    for key in ("labels", "missing", "levels"):
        if key in given and isinstance(given[key], Sequence) and not isinstance(given[key], str):
            given[key] = tuple(_plain(part) for part in given[key])
    if kind == "boolean":
        given["levels"] = (False, True)
    if kind == "categorical" or "levels" in given:
        wrong = {"lower", "upper"} & set(given)
        if wrong or kind in ("numeric", "integer") or not isinstance(given.get("levels"), tuple):
            raise DomainError("a category has levels, a list, and no bounds; a number has none")
        return Categorical(**given)
    if kind not in (None, "numeric", "integer") or "labels" in given:
        raise DomainError(
            "type must be numeric, integer, categorical or boolean; labels belong to levels"
        )
    return Numeric(**given, integer=kind == "integer")


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
        - ``{"lower": 18, "upper": 90, "missing": [-9, 99]}`` or ``{"levels": [0, 1], "labels":
          ["no", "yes"]}``: the words of a codebook, with codes that stand for no answer;
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

    @explains_arguments
    def __init__(self, spec: Mapping[str, object] | None = None) -> None:
        if spec is None:
            spec = {}
        if not isinstance(spec, Mapping):
            file = isinstance(spec, str | Path)
            raise DomainError(
                f"bounds must be a mapping from variable names, got {type(spec).__name__}; write "
                '{"educ": (0, 20), "region": ["N", "S"]}'
                + ', or Domain.from_csv("codebook.csv") for a codebook'
                * file
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
        parts = [f"{name!r}: {_spelled(variable)}" for name, variable in self._variables.items()]
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
        categorical, boolean), lower, upper, levels, labels (one for each level),
        missing (codes that stand for no answer), unit and description. Lists are
        separated by ``|``. All but name and type may be left out; an empty bound
        is unknown. A file that ends in .json is read as CSV on the Web metadata.

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
        csvw = str(path).lower().endswith(".json")
        return cls(read_csvw(path) if csvw else read_codebook(path))

    @classmethod
    def from_frame(cls, frame: Any) -> Domain:
        """Say that what the dtypes of a frame list is public: categories and booleans.

        Only the schema is read, never a value. But categories may have been learnt from the
        records (``astype("category")`` does): whoever calls this says that they were not.
        Numeric columns are left undeclared.

        Parameters
        ----------
        frame : pandas.DataFrame, or Polars frame with Enum columns

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

        if isinstance(frame, pd.DataFrame):
            dtypes = {str(name): dtype for name, dtype in frame.dtypes.items()}
        elif hasattr(frame, "collect_schema"):
            dtypes = dict(frame.collect_schema())
        else:
            raise DomainError(f"frame must be a pandas or Polars frame, got {type(frame).__name__}")
        spec: dict[str, object] = {}
        for name, dtype in dtypes.items():
            try:
                levels = _levels_of_dtype(dtype)
            except DomainError as error:
                raise DomainError(f"column {name!r}: {error}; drop it, or recode it") from None
            if levels is not None:
                spec[name] = levels
        return cls(spec)

    def to_csv(self, path: str | Path) -> None:
        """Write the domain as a codebook that `from_csv` reads."""
        rows = [row_of_variable(name, variable) for name, variable in self._variables.items()]
        Path(path).write_text(codebook_text(rows), encoding="utf-8", newline="")

    def to_csvw(self, path: str | Path, table: str = "data.csv") -> None:
        """Write the domain as CSV on the Web metadata of `table`, which `from_csv` reads too."""
        Path(path).write_text(csvw_text(self._variables, table), encoding="utf-8")


def _levels_of_dtype(dtype: Any) -> Categorical | None:
    """The levels that a dtype lists, if it lists any."""
    import pandas as pd

    # The second is how Polars calls it.
    if pd.api.types.is_bool_dtype(dtype) or str(dtype) == "Boolean":
        return Categorical((False, True))
    categories = getattr(dtype, "categories", None)
    if categories is None or "Categorical" in str(dtype):
        return None
    return Categorical(tuple(_plain(level) for level in categories))


def _spelled(variable: Variable) -> str:
    """A declaration as code that makes it again."""
    said = {f.name: getattr(variable, f.name) for f in fields(variable)}
    if isinstance(variable, Categorical):
        levels = list(variable.levels)
        try:
            _refuse_two_numbers("", variable.levels)
            plain = not any(said[key] for key in ("labels", "missing", "unit", "description"))
        except DomainError:
            plain = False
        if plain:
            return repr(levels)
        return repr({key: _listed(value) for key, value in said.items() if value})
    low, high = (None if math.isinf(side) else side for side in (variable.lower, variable.upper))
    if not (variable.missing or variable.unit or variable.description):
        if variable.integer and variable.bounded:
            return f"range({variable.lower:.0f}, {variable.upper + 1:.0f})"
        if not variable.integer:
            return f"({low}, {high})"
    kind = "integer" if said.pop("integer") else "numeric"
    said |= {"lower": low, "upper": high}
    kept = {key: _listed(value) for key, value in said.items() if value not in (None, "", ())}
    return repr({"type": kind, **kept})


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


Rows = dict[str, NDArray[np.generic]]
"""Columns by name: numbers, and codes into the declared levels, -1 where a level is missing."""


def codes_of(values: Any, variable: Categorical) -> NDArray[np.int64]:
    """Codes into the declared levels, (n,); -1 for what is missing or was not declared."""
    import pandas as pd

    levels = pd.Index(list(variable.levels), dtype=object)
    found = pd.Index(np.atleast_1d(np.asarray(values, dtype=object)), dtype=object)
    return np.asarray(levels.get_indexer(found), dtype=np.int64)


def rows_of(frame: pd.DataFrame, domain: Domain, names: Iterable[str] | None = None) -> Rows:
    """Columns of a public table; one that the domain lacks holds numbers."""
    rows: Rows = {}
    for name in frame.columns if names is None else names:
        variable = domain.get(name)
        if isinstance(variable, Categorical):
            rows[name] = codes_of(frame[name], variable)
        else:
            rows[name] = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
    return rows


def column_of(values: NDArray[np.generic], variable: Variable) -> Any:
    """A column of rows as a public table holds it: the inverse of `rows_of`."""
    import pandas as pd

    if not isinstance(variable, Categorical):
        return values.astype(np.int64) if variable.integer else values
    if variable.levels == (False, True):
        # 0 and 1 are equal to them, and stay numbers.
        return values.astype(bool if isinstance(variable.levels[0], bool) else np.int64)
    return pd.Categorical.from_codes(
        values.astype(np.int64).tolist(), categories=pd.Index(list(variable.levels))
    )


def spread_rows(domain: Domain, n: int, rng: np.random.Generator) -> Rows:
    """Made-up rows, spread evenly over a domain: every level as often as any other."""
    rows: Rows = {}
    for name, variable in domain.items():
        if isinstance(variable, Categorical):
            size = len(variable.levels)
            rows[name] = rng.permutation(np.arange(n) + int(rng.integers(size))) % size
        elif variable.integer:
            span = variable.upper - variable.lower + 1
            rows[name] = variable.lower + np.floor(rng.random(n) * span)
        else:
            rows[name] = rng.uniform(variable.lower, variable.upper, n)
    return rows

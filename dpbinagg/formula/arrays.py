"""Expressions on arrays: the values for records."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import DataError
from dpbinagg.formula.expression import Call
from dpbinagg.formula.functions import FUNCTIONS
from dpbinagg.public.boxes import Records
from dpbinagg.public.domain import Categorical, Domain

Array = NDArray[Any]

MAX_PRODUCT_POWER = 16


def integer_power(base: Array, exponent: int) -> Array:
    """`base ** exponent` by repeated multiplication, for exponents from 1 to 16.

    Each product is rounded correctly, so the computed power is monotone
    wherever the power is.
    """
    result = base
    for digit in bin(exponent)[3:]:
        result = result * result
        if digit == "1":
            result = result * base
    return result


def power(base: Array, exponent: Array) -> Array:
    """`base ** exponent`; small whole exponents by multiplication."""
    if np.ndim(exponent) == 0 and float(exponent).is_integer():
        whole = int(exponent)
        if 1 <= abs(whole) <= MAX_PRODUCT_POWER:
            product = integer_power(np.asarray(base, dtype=np.float64), abs(whole))
            return product if whole > 0 else 1.0 / product
    return np.asarray(np.power(base, exponent))


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "pow": power,
    "neg": np.negative,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "where": np.where,
    **{name: function.compute for name, function in FUNCTIONS.items()},
}


def as_numbers(values: Any, name: str) -> Array:
    """A column as floats, missing values as NaN; the error shows no value."""
    try:
        if hasattr(values, "isna"):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"variable {name!r} must be numeric, got {getattr(values, 'dtype', type(values))}; "
            "convert the column, or declare its levels"
        ) from None


class Arrays:
    """Records of a domain, ready for expressions.

    Numeric values are clipped into the domain and rounded to whole
    numbers where the variable is integer; NaN and infinities are missing.

    Attributes
    ----------
    missing : (n,) bool array
        Records with a missing value in any variable that was asked for.
    """

    def __init__(self, records: Records, domain: Domain, n: int, clip: bool = True) -> None:
        self._records = records
        self._domain = domain
        self._clip = clip
        self._values: dict[str, Array] = {}
        self.missing = np.zeros(n, dtype=bool)

    def _raw(self, name: str) -> Array:
        try:
            return np.asarray(self._records[name])
        except KeyError:
            raise DataError(
                f"records lack the variable {name!r}, which the formula uses; add the column"
            ) from None

    def constant(self, value: float) -> Array:
        """A number."""
        return np.float64(value)  # type: ignore[return-value]

    def variable(self, name: str) -> Array:
        """The clipped values of a numeric variable, (n,)."""
        if name not in self._values:
            raw = as_numbers(self._raw(name), name)
            self.missing |= ~np.isfinite(raw)
            variable = self._domain[name]
            assert not isinstance(variable, Categorical)
            if self._clip:
                raw = np.clip(raw, variable.lower, variable.upper)
                if variable.integer:
                    np.rint(raw, out=raw)
            self._values[name] = raw
        return self._values[name]

    def codes(self, name: str) -> Array:
        """The codes of a categorical variable, (n,) whole numbers."""
        if name not in self._values:
            codes = self._raw(name).astype(np.intp, copy=False)
            self.missing |= codes < 0
            self._values[name] = codes
        return self._values[name]

    def level(self, name: str, label: Hashable) -> Array:
        """Whether a categorical variable has a level, (n,)."""
        variable = self._domain[name]
        assert isinstance(variable, Categorical)
        return np.asarray(self.codes(name) == variable.levels.index(label))

    def apply(self, call: Call, arguments: Sequence[Array]) -> Array:
        """An operation on arrays."""
        result: Array = OPERATIONS[call.operation](*arguments)
        return result

    def within(self, call: Call) -> Arrays:
        """The same records."""
        return self

"""The white list of functions, what is known of them, their inverses, and what of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbinagg.formula.rows import Call, Constant, Expression, Level, Variable
from dpbinagg.public.domain import Numeric

COMPARISONS = frozenset({"gt", "ge", "lt", "le", "eq", "ne"})
LOGICAL = frozenset({"and", "or", "xor", "not"})


def is_boolean(expression: Expression) -> bool:
    """Whether `expression` is false or true rather than a number."""
    if isinstance(expression, Call):
        return expression.operation in COMPARISONS or expression.operation in LOGICAL
    return isinstance(expression, Level)


def text_of(expression: Expression) -> str:
    """An expression as it is written."""
    if isinstance(expression, Call):
        return expression.source
    if isinstance(expression, Constant):
        return f"{expression.value:g}"
    if isinstance(expression, Level) and expression.label is not True:
        return f"{expression.name} == {expression.label!r}"
    return expression.name


Shape = Literal["increasing", "even", "sine", "cosine"]


@dataclass(frozen=True, slots=True)
class Function:
    """A function of one number; `rows.OPERATIONS` computes it.

    Attributes
    ----------
    shape : str
        "increasing"; "even": even and increasing in the absolute value; or a
        wave. Decides how the function acts on an interval.
    above : float or None
        The function needs arguments above this number,
    closed : bool
        or equal to it.
    exact : bool
        Whether the computed function is itself monotone (correctly rounded
        ones are), so that computed ends bound computed values.
    """

    shape: Shape = "increasing"
    above: float | None = None
    closed: bool = False
    exact: bool = False


FUNCTIONS: dict[str, Function] = {
    "log": Function(above=0.0),
    "log2": Function(above=0.0),
    "log10": Function(above=0.0),
    "log1p": Function(above=-1.0),
    "exp": Function(),
    "exp2": Function(),
    "expm1": Function(),
    "sqrt": Function(above=0.0, closed=True, exact=True),
    "cbrt": Function(),
    "arcsinh": Function(),
    "sinh": Function(),
    "tanh": Function(),
    "arctan": Function(),
    "sign": Function(exact=True),
    "floor": Function(exact=True),
    "ceil": Function(exact=True),
    "trunc": Function(exact=True),
    "rint": Function(exact=True),
    "abs": Function(shape="even", exact=True),
    "square": Function(shape="even", exact=True),
    "cosh": Function(shape="even"),
    "sin": Function(shape="sine"),
    "cos": Function(shape="cosine"),
}

ALIASES = {"absolute": "abs", "fabs": "abs"}

BARE_NAMES = frozenset({"log", "log2", "log10", "exp", "sqrt", "abs", "minimum", "maximum", "clip"})
"""Functions that need no ``np.``, and under which names patsy may know them."""

LEARNING = frozenset(
    name
    for names in (
        "center standardize scale zscore demean mean average nanmean median nanmedian std nanstd",
        "var nanvar min max amin amax nanmin nanmax ptp sum nansum prod cumsum cumprod cummax",
        "cummin quantile nanquantile percentile nanpercentile mode rank rankdata argsort sort",
        "unique qcut cut digitize histogram bincount diff ediff1d gradient shift lag lead rolling",
        "expanding ewm groupby transform value_counts nunique size count len shape first last",
        "idxmax idxmin interp roll corrcoef cov poly factorize get_dummies searchsorted te",
    )
    for name in names.split()
)
"""Functions and methods that summarise, order or compare records."""

REMEDIES = {
    "center": 'subtract a public number instead, as in "I(x - 40)"',
    "standardize": 'use public numbers instead, as in "I((x - 40) / 10)"',
    "scale": 'use public numbers instead, as in "I((x - 40) / 10)"',
    "min": 'for the smaller of two numbers write "np.minimum(x, 3)"',
    "max": 'for the larger of two numbers write "np.maximum(x, 3)"',
    "cut": 'write comparisons with public thresholds, as in "I(x > 30)"',
    "qcut": 'write comparisons with public thresholds, as in "I(x > 30)"',
    "digitize": 'write comparisons with public thresholds, as in "I(x > 30)"',
    "te": 'multiply splines with public knots, as in "cr(x, ...):cr(z, ...)"',
    **dict.fromkeys(
        ("lag", "lead", "shift", "diff", "cumsum"),
        "it looks at other records; make it a column of the table beforehand",
    ),
}

SPELLED = {"round": "write np.rint(x)", "pow": "write I(x ** 2)"}
"""Functions of one record that have another name here."""


def remedy(name: str) -> str:
    """What to write instead of a function that learns from data."""
    default = (
        'write a public number in its place, or pass one by name with constants={"k": ...}; '
        "it must not be computed from this table"
    )
    return REMEDIES.get(name, default)


Array = NDArray[np.float64]

MARGIN = 2.0**-14
"""Share of a private range that is cut off where a logarithm would be undefined."""

FUNCTION_INVERSES: dict[str, Callable[[Array], Array]] = {
    "log": np.exp,
    "log2": np.exp2,
    "log10": lambda value: np.power(10.0, value),
    "log1p": np.expm1,
    "exp": np.log,
    "exp2": np.log2,
    "expm1": np.log1p,
    "sqrt": lambda value: np.where(value < 0, np.nan, value * value),
    "cbrt": lambda value: np.asarray(value * value * value),
    "arcsinh": np.sinh,
    "sinh": np.arcsinh,
    "arctan": np.tan,
    "tanh": np.arctanh,
}


class Step(NamedTuple):
    """One operation undone: the argument from the value, and the direction."""

    argument: Expression
    undo: Callable[[Array], Array]
    increasing: bool


def undo(expression: Expression) -> Step | None:
    """Undo the outermost operation of `expression`, None where that is not known."""
    if not isinstance(expression, Call):
        return None
    operation, arguments = expression.operation, expression.arguments
    if operation in FUNCTION_INVERSES:
        return Step(arguments[0], FUNCTION_INVERSES[operation], True)
    if operation == "neg":
        return Step(arguments[0], np.negative, False)
    if len(arguments) != 2:
        return None
    left, right = arguments
    if isinstance(right, Constant):
        return _undo_right(operation, left, right.value)
    if isinstance(left, Constant):
        return _undo_left(operation, left.value, right)
    return None


def _undo_right(operation: str, x: Expression, k: float) -> Step | None:
    """Undo an operation with a number on the right."""
    if operation == "add":
        return Step(x, lambda value: value - k, True)
    if operation == "sub":
        return Step(x, lambda value: value + k, True)
    if operation == "mul" and k != 0:
        return Step(x, lambda value: value / k, k > 0)
    if operation == "div":
        return Step(x, lambda value: value * k, k > 0)
    if operation == "pow" and k > 0 and float(k).is_integer() and k % 2 == 1:
        return Step(x, lambda value: np.sign(value) * np.abs(value) ** (1 / k), True)
    if operation == "pow" and not float(k).is_integer():
        return Step(x, lambda value: np.asarray(np.power(value, 1 / k)), k > 0)
    return None


def _undo_left(operation: str, k: float, x: Expression) -> Step | None:
    """Undo an operation with a number on the left."""
    if operation == "add":
        return Step(x, lambda value: value - k, True)
    if operation == "sub":
        return Step(x, lambda value: k - value, False)
    if operation == "mul" and k != 0:
        return Step(x, lambda value: value / k, k > 0)
    if operation == "pow" and k > 0 and k != 1:
        return Step(x, lambda value: np.log(value) / np.log(k), k > 1)
    return None


def invert(expression: Expression, values: Array) -> tuple[str, Array] | None:
    """The variable of `expression` and its values where `expression` takes `values`.

    None unless a chain of operations with known inverses leads to one variable.
    """
    with np.errstate(all="ignore"):
        while not isinstance(expression, Variable):
            step = undo(expression)
            if step is None:
                return None
            expression, values = step.argument, step.undo(values)
    return expression.name, values


class Requirement(NamedTuple):
    """A variable must lie between `lower` and `upper`; at them only if `closed`."""

    name: str
    lower: float
    upper: float
    closed: bool


def requirements(expression: Expression) -> Iterator[Requirement]:
    """What single variables must obey for `expression` to be defined.

    Found wherever a function with a restricted argument, such as a logarithm,
    is applied to an invertible function of one variable.
    """
    if not isinstance(expression, Call):
        return
    for argument in expression.arguments:
        yield from requirements(argument)
    restricted = _restriction(expression)
    if restricted is not None:
        yield from _pull_back(expression.arguments[0], *restricted)


def _restriction(call: Call) -> tuple[float, bool] | None:
    """The lower limit of a call's first argument, and whether it may be attained."""
    function = FUNCTIONS.get(call.operation)
    if function is not None and function.above is not None:
        return function.above, function.closed
    if call.operation == "pow":
        exponent = call.arguments[1]
        if isinstance(exponent, Constant) and not float(exponent.value).is_integer():
            return 0.0, exponent.value > 0
    return None


def _pull_back(expression: Expression, limit: float, closed: bool) -> Iterator[Requirement]:
    """The requirement on a variable that keeps `expression` above `limit`."""
    above = True
    while not isinstance(expression, Variable):
        step = undo(expression)
        if step is None:
            return
        with np.errstate(all="ignore"):
            limit = float(step.undo(np.asarray(limit)))
        above = above == step.increasing
        expression = step.argument
    if np.isfinite(limit):
        ends = (limit, np.inf) if above else (-np.inf, limit)
        yield Requirement(expression.name, *ends, closed)


def admissible(variable: Numeric, requirement: Requirement) -> Numeric:
    """`variable` with bounds moved to where `requirement` holds, if that leaves a range.

    An end that must not be attained is kept away from by `MARGIN` times the
    width that is left.
    """
    margin = 0.0 if requirement.closed else MARGIN
    lower, upper = variable.lower, variable.upper
    if lower < requirement.lower or (lower == requirement.lower and not requirement.closed):
        lower = requirement.lower + margin * (upper - requirement.lower)
    if upper > requirement.upper or (upper == requirement.upper and not requirement.closed):
        upper = requirement.upper - margin * (requirement.upper - lower)
    if variable.integer:
        lower, upper = float(np.ceil(lower)), float(np.floor(upper))
    return variable.within(lower, upper) if lower < upper else variable

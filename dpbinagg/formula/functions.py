"""The white list of functions, what is known of them, and what is said about the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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

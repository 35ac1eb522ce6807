"""Whole numbers of rows for bins: largest remainders."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbinagg.errors import ReleaseError


def largest_remainder(weights: ArrayLike, size: int) -> NDArray[np.int64]:
    """Apportion `size` rows to bins in proportion to `weights` (Hamilton's method).

    Bin k has the quota ``q_k = size * w_k / sum(w)`` and gets ``floor(q_k)`` rows;
    the rows left over go, one each, to the bins with the largest remainders
    ``q_k - floor(q_k)``, the first of equals.

    Parameters
    ----------
    weights : (K,) array
        Finite and not negative. If all are zero, every bin weighs the same.
    size : int
        Number of rows, at least 0.

    Returns
    -------
    (K,) array of int64
        Sums to `size` exactly; each entry is within 1 of its quota.

    Examples
    --------
    >>> largest_remainder([5.0, 3.0, 1.0], 4).tolist()
    [2, 1, 1]
    """
    w = np.asarray(weights, dtype=np.float64)
    if w.ndim != 1 or w.size == 0 or not np.isfinite(w).all() or (w < 0).any():
        raise ReleaseError(
            "weights must be a vector of finite numbers that are not negative, "
            f"got an array of shape {w.shape}"
        )
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
        raise ReleaseError(f"size must be a whole number of at least 0, got {type(size).__name__}")
    largest = float(w.max())
    w = np.ones_like(w) if largest == 0.0 else w / largest
    share = w / w.sum()
    quota = share * int(size)
    rows = np.floor(quota).astype(np.int64)
    left = int(size) - int(rows.sum())
    order = np.argsort(-(quota - rows), kind="stable")
    # Rounding of the quotas can leave a few rows too many or too few, never more than K.
    while left != 0:
        step = order[: abs(left)] if left > 0 else order[::-1][: abs(left)]
        step = step[(share[step] > 0) & (rows[step] + np.sign(left) >= 0)]
        rows[step] += np.sign(left)
        left -= int(np.sign(left)) * len(step)
    return np.asarray(rows)

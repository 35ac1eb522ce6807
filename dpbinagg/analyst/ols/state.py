"""What is known after some rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.ols.coordinates import Coordinates
from dpbinagg.analyst.ols.ensemble import inverse_root, moved, spectrum
from dpbinagg.analyst.ols.tails import Tail
from dpbinagg.analyst.types import Array
from dpbinagg.formula.scaling import RowLayout


@dataclass(frozen=True, slots=True)
class State:
    """The estimate and what is not known of it, in whitened coordinates ``w = W x``.

    Attributes
    ----------
    layout : RowLayout
    public : Coordinates
    nobs, nobs_sd : float
        Noisy number of records.
    whitening : (k, p) array
        W.
    params : (p,) array
        b.
    gram : (k, k) array
        A, an estimate of ``sum w w'``.
    noise : (M, k, k) array
        E_m, of the law of ``A - truth``.
    errors : (M, k) array
        e_m, of the law of the error of b: ``b - truth = W'e``. All members take the steps that the
        estimate takes.
    start : (M, k) array
        What is left of a generous error of the start, along directions that the first matrix did
        not resolve: coefficients that it reaches lean on the start, and are not identified.
    prior : (k, k) array
        Covariance of e by which steps are chosen.
    total : float
        Variance of the response.
    sd, sd_clipped : float
        Residual standard deviation, and that of residuals without their tails.
    tail : Tail or None
        Of the lengths of contributions.
    done : int
        Rounds that are over.
    seen, seen_sd : float
        Error variance of the first estimate by the moments themselves, and the standard deviation
        of its noise.
    """

    layout: RowLayout
    public: Coordinates
    nobs: float
    nobs_sd: float
    whitening: Array
    params: Array
    gram: Array
    noise: Array
    errors: Array
    start: Array
    prior: Array
    total: float
    sd: float
    sd_clipped: float
    tail: Tail | None = None
    tail_end: float = 0.0
    done: int = 0
    seen: float = 0.0
    seen_sd: float = 0.0

    @property
    def size(self) -> int:
        """Number of directions, k."""
        return len(self.gram)

    @property
    def usual(self) -> float:
        """Usual length of a contribution: ``sqrt(k) sd`` with the tails left out."""
        return float(np.sqrt(self.size)) * self.sd_clipped


def rewhitened(state: State) -> State:
    """Coordinates in which ``A/n + ridge`` is the identity, weak eigenvalues raised to noise."""
    raised = spectrum(state.gram, state.noise).lifted
    ridge = state.whitening @ state.public.ridge @ state.whitening.T
    by, back = inverse_root(raised / state.nobs + ridge)
    return replace(
        state,
        whitening=by @ state.whitening,
        gram=symmetric(by @ state.gram @ by.T),
        noise=moved(state.noise, by),
        errors=state.errors @ back,
        start=state.start @ back,
        prior=symmetric(back @ state.prior @ back),
    )

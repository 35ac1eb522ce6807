"""Releases and results made by hand, so that reports are tested on known numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dpbinagg.accounting import Allocation
from dpbinagg.accounting.budget import Mechanism, Privacy
from dpbinagg.analyst.types import Estimate
from dpbinagg.formula import build_design
from dpbinagg.kernel.questions import Answer, scales_of
from dpbinagg.public.domain import Domain
from dpbinagg.public.partition import Partition
from dpbinagg.release.questions import bin_questions
from dpbinagg.release.transcript import Entry, Transcript, with_bins
from dpbinagg.report.results import DPResults, DPResultsWrapper
from dpbinagg.report.verbs import Release

FORMULA = "np.log(wage) ~ educ + exper + I(exper**2) + C(region)"
DOMAIN = Domain(
    {
        "wage": (1, 200),
        "educ": range(21),
        "exper": (0, 50),
        "region": ["N", "S", "E", "W"],
    }
)
PARAMS = np.array([1.1, 0.05, -0.02, 0.11, 0.08, 0.03, -0.0005])
BSE = np.array([0.09, 0.03, 0.03, 0.035, 0.004, 0.006, 0.00012])


def make_release(
    formula: str = FORMULA,
    domain: Domain = DOMAIN,
    declared: Domain | None = None,
    secure: bool = True,
    calibration: str = "joint",
    neighbours: str = "add-remove",
    claimed_mu: float = 1.0,
) -> Release:
    """A release whose statistics are placeholders; reports read its public facts."""
    design = build_design(formula, domain)
    partition = Partition.grid(design.domain.subset(design.variables), 2)
    k, p = partition.n_bins, len(design.column_names)
    statistics = {"count": np.full(k, 10.0), "dev_x": np.zeros((k, p)), "dev_y": np.zeros(k)}
    part = claimed_mu / np.sqrt(3.0)
    mechanisms = tuple(
        Mechanism(name, part)
        for name in ("bin counts", "bin sums of covariates", "bin sums of the response")
    )
    if calibration == "paper":
        mechanisms = (*mechanisms, Mechanism("what the published calibration overlooks", 2.0))
    allocation = Allocation(0.0, 0.0, part, part, part, 0.0, 0.0)
    asked = zip(*bin_questions(design, partition, allocation, calibration), strict=True)
    entries = [Entry(q, Answer(scales_of(q, mu), scales_of(q, mu)), mu) for q, mu in asked]
    release = Release(
        design,
        domain if declared is None else declared,
        partition,
        allocation,
        calibration,
        Privacy(mechanisms, neighbours, secure, claimed_mu),
        Transcript(entries),
    )
    ones = {key: np.ones_like(value) for key, value in statistics.items()}
    return with_statistics(release, ones, **statistics)


def with_statistics(
    release: Release, noise_scales: Mapping[str, np.ndarray] | None = None, **changed: np.ndarray
) -> Release:
    """A release with other statistics of its bins."""
    held = {key: release.statistics[key] for key in ("count", "dev_x", "dev_y")}
    scales = release.noise_scales if noise_scales is None else noise_scales
    facts = release.design, release.partition, release.calibration
    changes = with_bins(release.transcript, *facts, {**held, **changed}, scales)
    return replace(release, transcript=changes)


def make_estimate(
    name: str = "refined",
    params: np.ndarray = PARAMS,
    bse: np.ndarray = BSE,
    df_resid: float = 4_993.2,
    notes: tuple[str, ...] = (),
    identified: bool = True,
) -> Estimate:
    """An estimate with errors correlated 0.2."""
    correlation = np.full((len(bse), len(bse)), 0.2) + 0.8 * np.eye(len(bse))
    return Estimate(
        name,
        np.array(params),
        np.outer(bse, bse) * correlation,
        None,
        0.25,
        df_resid,
        5_000.2,
        "sandwich",
        notes,
        identified,
    )


def make_family() -> dict[str, Estimate]:
    """Four estimates of one model: the better ones with smaller errors."""
    return {
        "naive": replace(
            make_estimate("naive", PARAMS * 0.8, BSE * 2.0, 57.0), cov_type="classical", scale=3.0
        ),
        "corrected": replace(make_estimate("corrected", PARAMS * 1.05, BSE * 3.0, 57.0), scale=9.0),
        "combined": make_estimate("combined", PARAMS * 1.02, BSE * 1.5),
        "refined": make_estimate(),
    }


def make_results(
    name: str = "refined",
    release: Release | None = None,
    family: Mapping[str, Estimate] | None = None,
    notes: tuple[str, ...] = (),
) -> DPResultsWrapper:
    """A results object of known numbers."""
    family = make_family() if family is None else family
    release = make_release() if release is None else release
    return DPResultsWrapper(DPResults(release, family[name], family, notes=notes))

"""`dp_ols`, `dp_study` and `dp_release`: validate, charge, release, fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpbinagg import reading
from dpbinagg.accounting import Budget
from dpbinagg.analyst.fit import OFFERED, resolve
from dpbinagg.errors import FormulaError, PublicRefusalError
from dpbinagg.formula import Design, build_design
from dpbinagg.formula.rules import Rule, read_rules
from dpbinagg.formula.union import union_design
from dpbinagg.kernel.curator import Curator
from dpbinagg.protocol import conduct as pipeline
from dpbinagg.protocol.settings import (
    Settings,
    allocate,
    check_kinds,
    check_scale,
    declared_domain,
    named_formulas,
    named_variables,
    one_of,
    published_mu,
)
from dpbinagg.public.arguments import explains_arguments
from dpbinagg.reading import open_source
from dpbinagg.release.transcript import Choice
from dpbinagg.report.study import Study
from dpbinagg.report.verbs import Release

BEST = Choice(estimator="refined", cov_type="sandwich")
"""What a release without a choice gives as well."""
open_table = explains_arguments(reading.open_table)

if TYPE_CHECKING:
    from dpbinagg.accounting import Ledger
    from dpbinagg.accounting.budget import Neighbours
    from dpbinagg.inputs import (
        Bounds,
        Calibration,
        CovType,
        Data,
        EstimatorName,
        Missing,
        PartitionChoice,
        Seed,
    )
    from dpbinagg.reading import Source
    from dpbinagg.report.results import DPResults


@explains_arguments
def dp_ols(
    formula: str,
    data: Data,
    mu: float | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    bounds: Bounds = None,
    budget: Budget | None = None,
    partition: PartitionChoice = "privtree",
    calibration: Calibration = "joint",
    estimator: EstimatorName = "refined",
    cov_type: CovType = "sandwich",
    missing: Missing = "drop",
    neighbours: Neighbours = "add-remove",
    ledger: Ledger | None = None,
    rng: Seed = None,
    constants: Mapping[str, float] | None = None,
    rules: Sequence[str] | None = None,
) -> DPResults:
    """Differentially private linear regression.

    Parameters
    ----------
    formula : str
        A patsy formula, as in statsmodels and R:
        ``"np.log(wage) ~ educ + exper + I(exper**2) + C(region)"``.
    data : table or path
        The private records: a pandas, Polars, PyArrow, DuckDB, Spark or Dask
        table; the path of a .csv, .tsv, .parquet, .dta, .sav or .xlsx file, of
        a folder or a pattern of files; or what `open_table` gives, which takes
        the separator, the decimal mark and the encoding of a text file. Column
        names and dtypes count as public.
    mu : float
        Total privacy, mu-GDP. About 0.5 is strict, 1 usual, 2 lenient; see
        `dpbinagg.gdp` for epsilon and delta.
    epsilon, delta : float
        The total as (epsilon, delta) instead of mu.
    bounds : mapping or Domain
        Public bounds and levels, ``{"educ": (0, 20), "region": ["N", "S"]}``.
        Numeric bounds that are not given are found privately, from the same
        budget; the levels of categories must be declared, here or by
        ``C(x, levels=...)``. A categorical dtype alone is refused: its levels
        may have been learnt from the records. Where they are public,
        ``bounds=Domain.from_frame(df)`` says so. Bounds must not be read off
        the private data.
    budget : Budget
        How mu is divided over the components of the release.
    partition : {"privtree", "grid"} or Partition
        How the covariates are binned.
    calibration : {"joint", "paper"}
        "paper" adds the published, too small noise; the true mu is reported.
    estimator : {"refined", "combined", "corrected", "naive", "paper"}
        Which estimate to show; a component that the budget switches off falls
        back to the next.
    cov_type : {"sandwich", "model", "HC1", "nonrobust"}
        Covariance of the estimate. The refined one has HC1 plus the noise, the
        combined one nonrobust; "sandwich" and "model" choose that of the
        estimate from bins. Names of what an estimate does not have are refused.
    missing : {"drop", "raise"}
        What to do with records that lack a value the formula needs. "raise" tells exactly
        whether there is one, which no mu covers; the privacy statement says so.
    neighbours : {"add-remove", "replace"}
        What counts as one person's change of the table. A ledger has a relation of its own
        and converts.
    ledger : Ledger
        Charged before anything is released.
    rng : seed or Generator
        For tests and simulations only: the summary then says "not for
        publication". By default the noise is cryptographically secure.
    constants : mapping
        Numbers that the formula may use by name.
    rules : list of str
        Public facts that every record obeys and that synthetic rows shall keep: comparisons such as
        ``"exper <= age - 6"`` and identities such as ``"hours == paid + unpaid"``. They are not
        learnt from records, nor checked against them.

    Returns
    -------
    DPResults
        A statsmodels results object with intervals that account for the
        privacy noise, sibling estimates, the release and synthetic data.

    Examples
    --------
    >>> from dpbinagg import dp_ols
    >>> from dpbinagg.datasets import load_wages
    >>> wages = load_wages()
    >>> res = dp_ols("np.log(wage) ~ educ", wages.frame, mu=1, bounds=wages.codebook, rng=1)
    >>> bool(0.05 < res.params["educ"] < 0.11)
    True
    """
    one_of("estimator", estimator, OFFERED)
    own = resolve(cov_type, estimator)
    release = dp_release(
        formula,
        data,
        mu,
        epsilon=epsilon,
        delta=delta,
        bounds=bounds,
        budget=budget,
        partition=partition,
        calibration=calibration,
        estimator=estimator,
        missing=missing,
        neighbours=neighbours,
        ledger=ledger,
        rng=rng,
        constants=constants,
        rules=rules,
    )
    choice = Choice(estimator=estimator, cov_type=own)
    if choice != BEST:
        release = replace(release, choice=choice, led={None: release.steps})
    return release.ols(estimator=estimator, cov_type=own)


@explains_arguments
def dp_release(
    formula: str,
    data: Data,
    mu: float | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    bounds: Bounds = None,
    budget: Budget | None = None,
    partition: PartitionChoice = "privtree",
    calibration: Calibration = "joint",
    estimator: EstimatorName = "refined",
    missing: Missing = "drop",
    neighbours: Neighbours = "add-remove",
    ledger: Ledger | None = None,
    rng: Seed = None,
    constants: Mapping[str, float] | None = None,
    rules: Sequence[str] | None = None,
) -> Release:
    """Release private statistics for a regression, without fitting it.

    Takes the arguments of `dp_ols` up to estimation; `estimator` only decides
    which components the default budget pays for.

    Returns
    -------
    Release
        From which ``release.ols()`` fits the model, or a smaller one.

    Examples
    --------
    >>> from dpbinagg.datasets import load_school
    >>> school = load_school()
    >>> release = dp_release("score ~ pretest", school.frame, mu=1, bounds=school.codebook)
    >>> release.privacy.mu
    1.0
    """
    check_kinds(formula, data, constants, ledger)
    settings = Settings.from_arguments(
        mu=mu,
        epsilon=epsilon,
        delta=delta,
        bounds=bounds,
        budget=budget,
        partition=partition,
        calibration=calibration,
        missing=missing,
        neighbours=neighbours,
        estimator=estimator,
    )
    source = open_source(data)
    declared = declared_domain(settings.domain, source, [formula])
    design = build_design(formula, declared, constants)
    kept = () if rules is None else read_rules(rules, design.domain, design.names, constants)
    return Prepared(source, settings, design, formula, rules=kept).run(ledger, rng)


@dataclass(frozen=True)
class Prepared:
    """A release whose arguments were checked; no record was read, nothing is spent.

    Attributes
    ----------
    source : Source
    settings : Settings
    design : Design
        All columns that are released.
    formula : str
        As the ledger writes it down.
    models : dict of Design, optional
        Of a study, by name.
    rules : tuple of Rule
        What synthetic rows shall keep.
    """

    source: Source
    settings: Settings
    design: Design
    formula: str
    models: Mapping[str, Design] | None = None
    rules: tuple[Rule, ...] = ()

    def run(self, ledger: Ledger | None = None, rng: Seed = None) -> Release:
        """Charge the ledger once, and release."""
        design, settings = self.design, self.settings
        check_scale(design)
        allocation = allocate(settings, design)
        spends = settings.mu
        if settings.calibration == "paper":
            spends = published_mu(settings, design, allocation)
        charge = (
            nullcontext()
            if ledger is None
            else ledger.charging(
                spends, formula=self.formula, purpose="release", neighbours=settings.neighbours
            )
        )
        with charge as entry:
            # numpy's own text tells the number of records.
            with suppress(MemoryError):
                try:
                    engine = pipeline.open_table(self.source, design, settings.missing)
                    curator = Curator(engine, rng)
                except (PublicRefusalError, FormulaError):
                    raise
                except BaseException:
                    # A record may have a part in it: nobody asks such questions for free.
                    if entry is not None:
                        entry.releasing()
                    raise
                if entry is not None:
                    entry.releasing()
                return pipeline.conduct(
                    curator, design, allocation, settings, self.models, self.rules
                )
            raise MemoryError(
                "data: too little memory for this table; pass a path to files instead"
            )


@explains_arguments
def dp_study(
    formulas: Mapping[str, str] | Sequence[str] | str,
    data: Data,
    mu: float | None = None,
    *,
    variables: Sequence[str] = (),
    epsilon: float | None = None,
    delta: float | None = None,
    bounds: Bounds = None,
    budget: Budget | None = None,
    missing: Missing = "drop",
    neighbours: Neighbours = "add-remove",
    ledger: Ledger | None = None,
    rng: Seed = None,
    constants: Mapping[str, float] | None = None,
    rules: Sequence[str] | None = None,
) -> Study:
    """A whole study from one release: Table 1, several models and outcomes, synthetic data.

    Declared models share one-way counts and second moments, and have rounds of scores together:
    one release of m models is more precise than m releases at ``mu/sqrt(m)``. Whatever else is
    asked of the released variables afterwards costs nothing.

    Parameters
    ----------
    formulas : mapping, list of str or str
        The models, by name; those of a list are called "(1)", "(2)" and so on.
    data : table or path
        As in `dp_ols`.
    mu : float
        Total privacy of everything, mu-GDP.
    variables : list of str
        Further variables that Table 1 describes and that free models may use.
    epsilon, delta, bounds, missing, neighbours, ledger, rng, constants, rules
        As in `dp_ols`. All that is estimated rests on the records that are complete in all
        variables of the study.
    budget : Budget
        As in `dp_ols`; the default depends on the number of models.

    Returns
    -------
    Study
        Results by name, ``describe()``, ``summary()``, ``ols(...)`` and more.

    Examples
    --------
    >>> from dpbinagg import dp_study
    >>> from dpbinagg.datasets import load_wages
    >>> wages = load_wages()
    >>> models = {"wage": "np.log(wage) ~ educ + exper", "educ": "educ ~ exper"}
    >>> study = dp_study(models, wages.frame, mu=1, bounds=wages.codebook, rng=1)
    >>> list(study)
    ['wage', 'educ']
    >>> study["wage"].params.index.to_list()
    ['Intercept', 'educ', 'exper']
    """
    prepared = prepare_study(
        formulas,
        data,
        mu,
        variables=variables,
        epsilon=epsilon,
        delta=delta,
        bounds=bounds,
        budget=budget,
        missing=missing,
        neighbours=neighbours,
        ledger=ledger,
        constants=constants,
        rules=rules,
    )
    return Study(prepared.run(ledger, rng))


def prepare_study(
    formulas: Mapping[str, str] | Sequence[str] | str,
    data: Data,
    mu: float | None = None,
    *,
    variables: Sequence[str] = (),
    epsilon: float | None = None,
    delta: float | None = None,
    bounds: Bounds = None,
    budget: Budget | None = None,
    missing: Missing = "drop",
    neighbours: Neighbours = "add-remove",
    ledger: Ledger | None = None,
    constants: Mapping[str, float] | None = None,
    rules: Sequence[str] | None = None,
) -> Prepared:
    """Check the arguments of `dp_study`, from public facts alone."""
    named = named_formulas(formulas, data)
    check_kinds(next(iter(named.values())), data, constants, ledger)
    wanted = named_variables(variables)
    settings = Settings.from_arguments(
        mu=mu,
        epsilon=epsilon,
        delta=delta,
        bounds=bounds,
        budget=budget,
        missing=missing,
        neighbours=neighbours,
        models=len(named),
    )
    source = open_source(data)
    declared = declared_domain(settings.domain, source, named.values(), wanted)
    models = {name: build_design(formula, declared, constants) for name, formula in named.items()}
    for design in models.values():
        check_scale(design)
    whole = union_design(list(named.values()), wanted, declared, constants)
    kept = () if rules is None else read_rules(rules, whole.domain, whole.names, constants)
    text = "; ".join(f"{name}: {formula}" for name, formula in named.items())
    return Prepared(source, settings, whole, text, models, kept)

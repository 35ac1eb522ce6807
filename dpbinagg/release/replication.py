"""All files of a release folder but the README, the page and the manifest.

What a replicator needs: coefficients, their covariance, synthetic rows, codebook, scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpbinagg.errors import DomainError
from dpbinagg.public.codebook import CODEBOOK_COLUMNS, codebook_text, row_of_variable
from dpbinagg.public.domain import Domain
from dpbinagg.release.dialects import short_names
from dpbinagg.release.exports import frame_to_csv, table_bytes, table_files
from dpbinagg.release.saving import domain_to_plain, privacy_file, statistics_files, to_json
from dpbinagg.release.scripts import Job, scripts, template
from dpbinagg.release.transcript import Released

TABLE, COPIES = "synthetic", "synthetic_copies"
READERS = {"dpbinagg.R": "dpbinagg.R", "dpbinagg.ado": "dpbinagg.ado"}


def package_files(
    release: Released,
    results: Any,
    table: pd.DataFrame,
    copies: pd.DataFrame | None = None,
    formats: Sequence[str] = (),
) -> dict[str, bytes]:
    """The statistics, the guarantee, and what reproduces the regression and uses its numbers.

    Parameters
    ----------
    release : Released
    results : results object
        The regression that is published.
    table : DataFrame
        Calibrated synthetic rows of it.
    copies : DataFrame, optional
        Several tables, numbered by the column ``copy``.
    formats : sequence of {"parquet", "dta"}
        Further forms of the synthetic table.
    """
    made = {**statistics_files(release), "privacy.txt": privacy_file(results.privacy)}
    made |= {**estimate_files(results), **table_files(table, TABLE)}
    file = next(name for name in made if name.startswith(f"{TABLE}."))
    if copies is not None:
        made |= table_files(copies, COPIES)
    made |= {
        f"{TABLE}.{ending}": table_bytes(table, f".{ending}", results.design.domain)
        for ending in formats
    }
    made |= codebook_file(release.domain, list(table.columns))
    found = [list(np.asarray(numbers)) for numbers in (results.params, results.bse)]
    job = Job(results.design, release.domain, table, results.formula_for(table), file, *found)
    made |= scripts(job)
    made |= {name: template(source).template.encode() for name, source in READERS.items()}
    return made


def estimate_files(results: Any) -> dict[str, bytes]:
    """Coefficients, their covariance and facts about the model, one CSV file each."""
    tidy = results.tidy()
    tidy["short_name"] = short_names(tidy["term"], results.design.intercept)
    cov = pd.DataFrame(np.asarray(results.cov_params()), columns=list(tidy["term"]))
    cov.insert(0, "term", list(tidy["term"]), allow_duplicates=True)
    facts = results.glance()
    facts["for_publication"] = bool(results.privacy.secure)
    facts["response"] = results.design.response_name
    facts["formula"] = results.design.formula
    return {
        "coefficients.csv": frame_to_csv(tidy),
        "vcov.csv": frame_to_csv(cov),
        "model.csv": frame_to_csv(facts),
    }


def codebook_file(domain: Domain, columns: Sequence[str]) -> dict[str, bytes]:
    """The columns of a synthetic table as a codebook that `Domain.from_csv` reads.

    Levels that a CSV codebook cannot hold make it a JSON file.
    """
    try:
        rows = [_codebook_row(domain, name) for name in columns]
    except DomainError:
        known = Domain({name: domain[name] for name in columns if name in domain})
        return {"codebook.json": to_json(domain_to_plain(known))}
    return {"codebook.csv": codebook_text(rows).encode()}


def _codebook_row(domain: Domain, name: str) -> dict[str, str]:
    if name in domain:
        return row_of_variable(name, domain[name])
    about = {"name": name, "type": "numeric", "description": "transformed response"}
    return dict.fromkeys(CODEBOOK_COLUMNS, "") | about

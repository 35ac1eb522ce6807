"""All files of a release folder but the README, the page and the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from dpbinagg.release.replication import replication_files
from dpbinagg.release.saving import privacy_file, statistics_files
from dpbinagg.release.transcript import Released


def package_files(
    release: Released,
    results: Any,
    table: pd.DataFrame,
    copies: pd.DataFrame | None = None,
    formats: Sequence[str] = (),
) -> dict[str, bytes]:
    """The statistics, the guarantee, and what a replicator needs; see `replication_files`."""
    return {
        **statistics_files(release),
        "privacy.txt": privacy_file(results.privacy),
        **replication_files(release, results, table, copies, formats),
    }

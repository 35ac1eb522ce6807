"""The results object with pandas labels.

The module's name is part of what it does: other packages recognise a
statsmodels result by that word in the name of its class.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from statsmodels.base.model import LikelihoodResultsWrapper

from dpbinagg.public.arguments import explains_arguments, refuse_unknown

if TYPE_CHECKING:
    # It has every attribute of the results, which statsmodels fetches by name.
    from dpbinagg.report.results import DPResults as Results
else:
    Results = LikelihoodResultsWrapper


class DPResultsWrapper(Results):
    """`DPResults` whose numbers are labelled with the names of the coefficients."""

    if TYPE_CHECKING:
        _results: Results

        def __init__(self, results: Results) -> None: ...

    def __reduce__(self) -> tuple[Any, ...]:
        return DPResultsWrapper, (self._results,)

    def __repr__(self) -> str:
        return repr(self._results)

    @explains_arguments
    def save(self, folder: str | Path, overwrite: bool = False, **options: Any) -> Path:
        """Write the release with this estimate to a folder; see `DPResults.save`."""
        saved: Path = self._results.save(folder, overwrite, **options)
        return saved

    def conf_int(self, alpha: float = 0.05, *, joint: bool = False, **options: Any) -> Any:
        """Intervals that cover with probability ``1 - alpha``, with `joint` all at once."""
        refuse_unknown("conf_int", options, ["alpha", "joint", "cols"])
        # statsmodels' wrapper calls its own method of the results, which knows no `joint`.
        return super().conf_int(self._results.alpha_of_each(alpha, joint), **options)

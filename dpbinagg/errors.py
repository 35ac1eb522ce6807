"""Errors and warnings of the package.

Every message names the argument, the rule, what was passed (never a data
value) and the remedy.
"""


class DPBinAggError(Exception):
    """Base class of all errors raised on purpose by this package."""


class DomainError(DPBinAggError):
    """Public bounds or levels are missing, malformed or cannot be used."""


class UndeclaredError(DomainError, KeyError):
    """A variable is not in the domain; a `KeyError` too, as for any mapping."""

    def __str__(self) -> str:
        # KeyError would show the quotes and escapes of the message.
        return Exception.__str__(self)


class FormulaError(DPBinAggError):
    """The formula cannot be understood from public facts alone."""


class BudgetError(DPBinAggError):
    """The privacy budget is malformed or exhausted."""


class ReleaseError(DPBinAggError, ValueError):
    """A release, or a folder that should hold one, cannot be used."""


class DataError(DPBinAggError, ValueError):
    """The table does not fit the formula and the domain."""


class PublicRefusalError(DataError):
    """A refusal that follows from the arguments and from the names and types of columns alone.

    Every table of the same schema meets it, so it tells nothing of the records: `dp_release`
    gives back what it charged. Any other error while records are read keeps the charge.
    """


class IncompleteError(DataError):
    """A record is incomplete, and ``missing="raise"`` was asked for.

    That it is raised tells of the records: the one answer of the package without noise.
    """

    def __init__(
        self,
        message: str = "missing='raise': the table has an incomplete or undeclared value in a "
        "variable of the formula; complete it, or use missing='drop'",
    ) -> None:
        super().__init__(message)


class NothingLeftError(DataError):
    """No complete record can be told from none, by noisy counts: values miss, or are undeclared."""


class ArgumentError(DPBinAggError, TypeError):
    """A call has an argument that does not exist, or lacks one."""


class MissingExtraError(DPBinAggError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


class NotIdentifiedError(DPBinAggError, ValueError):
    """A test of something that the release does not tell."""


class NotReleasedError(DPBinAggError, AttributeError):
    """A quantity that would need the records and was not released."""


class DPBinAggWarning(UserWarning):
    """Base class of all warnings raised on purpose by this package."""


class IdentificationWarning(DPBinAggWarning):
    """The release identifies the model weakly or not at all."""


class PrivacyWarning(DPBinAggWarning):
    """The release protects less than its settings suggest."""


class SupportWarning(DPBinAggWarning):
    """Synthetic records support less than what is made of them."""

"""Errors of the pipeline, as data.

A node does not raise when a source is down or a plan is invalid. It returns a `PipelineError`, which becomes
part of the state: the routes read it, the answer mentions it, and a successful retry keeps it as history.
Only `RETRYABLE` defines which codes justify another plan.

The exceptions at the end of this module are raised by the components that nodes use (sources, guard,
artifacts, models). Each has a code, and `PipelineError.of` converts it to data. Only `NeedsSourcesError`
fails a run: the run was resumed without its sources.
"""

from __future__ import annotations

import enum

import msgspec

from clew import ClewError, register_type


class ErrorCode(enum.Enum):
    """Kind of error."""

    SECURITY_VIOLATION = "SECURITY_VIOLATION"
    DATASOURCE_UNAVAILABLE = "DATASOURCE_UNAVAILABLE"
    QUESTION_UNMAPPED = "QUESTION_UNMAPPED"
    PLAN_ABSTAINED = "PLAN_ABSTAINED"
    INVALID_PLAN_STRUCTURE = "INVALID_PLAN_STRUCTURE"
    TABLE_NOT_FOUND = "TABLE_NOT_FOUND"
    COLUMN_NOT_FOUND = "COLUMN_NOT_FOUND"
    PHYSICAL_VALIDATION_FAILED = "PHYSICAL_VALIDATION_FAILED"
    EXECUTION_ERROR = "EXECUTION_ERROR"
    EXECUTION_TIMEOUT = "EXECUTION_TIMEOUT"
    EXECUTION_MEMORY = "EXECUTION_MEMORY"
    ARTIFACT_CORRUPT = "ARTIFACT_CORRUPT"
    AGGREGATION_FAILED = "AGGREGATION_FAILED"
    MODEL_FAILED = "MODEL_FAILED"
    MODEL_REFUSED = "MODEL_REFUSED"


class ErrorSeverity(enum.Enum):
    """Effect of an error on the answer."""

    WARNING = "WARNING"  # the answer is complete; the user should know
    ERROR = "ERROR"  # a part of the answer is missing
    CRITICAL = "CRITICAL"  # there is no answer


# Another plan may avoid these errors. All other errors occur with any plan.
RETRYABLE = frozenset(
    {
        ErrorCode.INVALID_PLAN_STRUCTURE,
        ErrorCode.TABLE_NOT_FOUND,
        ErrorCode.COLUMN_NOT_FOUND,
        ErrorCode.PHYSICAL_VALIDATION_FAILED,
        ErrorCode.EXECUTION_ERROR,
        ErrorCode.MODEL_FAILED,
    }
)


class PipelineError(msgspec.Struct, frozen=True, kw_only=True):
    """One error: its node, message, severity and code."""

    node: str
    message: str
    code: ErrorCode
    severity: ErrorSeverity = ErrorSeverity.ERROR
    source: str | None = None

    @property
    def retryable(self) -> bool:
        """Return whether another plan may avoid the error."""
        return self.code in RETRYABLE

    @classmethod
    def of(
        cls,
        error: Nl2sqlError,
        node: str,
        *,
        source: str | None = None,
        severity: ErrorSeverity = ErrorSeverity.ERROR,
    ) -> PipelineError:
        """Convert an exception of this package to data."""
        return cls(node=node, message=str(error), code=error.code, severity=severity, source=source)


for _class in (ErrorCode, ErrorSeverity, PipelineError):
    register_type(_class)


class Nl2sqlError(ClewError):
    """Base class of the exceptions of this package."""

    code = ErrorCode.EXECUTION_ERROR


class SecurityViolationError(Nl2sqlError):
    """A query or a question needs data that the user may not see."""

    code = ErrorCode.SECURITY_VIOLATION


class InvalidPlanError(Nl2sqlError):
    """The SQL cannot be parsed, or is not a query of an allowed kind."""

    code = ErrorCode.INVALID_PLAN_STRUCTURE


class UnknownTableError(Nl2sqlError):
    """The SQL names a table that does not exist."""

    code = ErrorCode.TABLE_NOT_FOUND


class UnknownColumnError(Nl2sqlError):
    """The SQL names a column that does not exist."""

    code = ErrorCode.COLUMN_NOT_FOUND


class SourceDownError(Nl2sqlError):
    """A database cannot be reached."""

    code = ErrorCode.DATASOURCE_UNAVAILABLE


class RefusedQueryError(Nl2sqlError):
    """The database's EXPLAIN rejects a query."""

    code = ErrorCode.PHYSICAL_VALIDATION_FAILED


class QueryFailedError(Nl2sqlError):
    """A database failed while it executed a query."""

    code = ErrorCode.EXECUTION_ERROR


class QueryTimeoutError(Nl2sqlError):
    """A query exceeded its time limit."""

    code = ErrorCode.EXECUTION_TIMEOUT


class QueryMemoryError(Nl2sqlError):
    """A query exceeded its limit of memory or temporary files."""

    code = ErrorCode.EXECUTION_MEMORY


class ArtifactCorruptError(Nl2sqlError):
    """A stored result is missing or was modified."""

    code = ErrorCode.ARTIFACT_CORRUPT


class AggregationError(Nl2sqlError):
    """Results of several sources cannot be combined as planned."""

    code = ErrorCode.AGGREGATION_FAILED


class ModelError(Nl2sqlError):
    """A language model gave no usable reply."""

    code = ErrorCode.MODEL_FAILED


class ModelRefusedError(ModelError):
    """A language model or its endpoint refused; the same request would be refused again."""

    code = ErrorCode.MODEL_REFUSED


class UsageError(Nl2sqlError):
    """The configuration of the pipeline, a source or a policy is invalid."""


class NeedsSourcesError(ClewError):
    """A run was resumed without its sources. No data was lost."""

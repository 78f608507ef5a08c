"""What can go wrong in the pipeline, as data.

A node never raises because a source is down or a plan is bad. It returns a `PipelineError`, which becomes part of
the state: the routes read it, the answer tells of it, a retry that succeeds keeps it as history. `RETRYABLE` is the
one place that says which codes another plan could cure.

The exceptions at the end are raised by the parts that nodes use (sources, guard, artifacts, models). Each has a
code, and `PipelineError.of` turns it into data. `NeedsSourcesError` alone is meant to fail a run: it says that a
run was started again without what it works on."""

from __future__ import annotations

import enum

import msgspec

from clew import ClewError, register_type


class ErrorCode(enum.Enum):
    """What kind of thing went wrong."""

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
    ARTIFACT_CORRUPT = "ARTIFACT_CORRUPT"
    AGGREGATION_FAILED = "AGGREGATION_FAILED"
    MODEL_FAILED = "MODEL_FAILED"


class ErrorSeverity(enum.Enum):
    """How much of the answer it costs."""

    WARNING = "WARNING"  # nothing, but somebody should know
    ERROR = "ERROR"  # a part of the answer
    CRITICAL = "CRITICAL"  # the answer


# Another plan may do better. What is not here is the same after any number of plans.
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
    """One thing that went wrong: in which node, what, how bad, of which kind."""

    node: str
    message: str
    code: ErrorCode
    severity: ErrorSeverity = ErrorSeverity.ERROR
    source: str | None = None

    @property
    def retryable(self) -> bool:
        """Whether another plan may do better."""
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
        """An exception of this package as data."""
        return cls(node=node, message=str(error), code=error.code, severity=severity, source=source)


for _class in (ErrorCode, ErrorSeverity, PipelineError):
    register_type(_class)


class Nl2sqlError(ClewError):
    """The root of what this package raises."""

    code = ErrorCode.EXECUTION_ERROR


class SecurityViolationError(Nl2sqlError):
    """SQL, or a question, asks for what its user may not have."""

    code = ErrorCode.SECURITY_VIOLATION


class InvalidPlanError(Nl2sqlError):
    """SQL that is no query of the kind that is allowed here, or that cannot be read at all."""

    code = ErrorCode.INVALID_PLAN_STRUCTURE


class UnknownTableError(Nl2sqlError):
    """SQL names a table that is not there."""

    code = ErrorCode.TABLE_NOT_FOUND


class UnknownColumnError(Nl2sqlError):
    """SQL names a column that is not there."""

    code = ErrorCode.COLUMN_NOT_FOUND


class SourceDownError(Nl2sqlError):
    """A database cannot be reached."""

    code = ErrorCode.DATASOURCE_UNAVAILABLE


class RefusedQueryError(Nl2sqlError):
    """A database's own EXPLAIN refuses a query."""

    code = ErrorCode.PHYSICAL_VALIDATION_FAILED


class QueryFailedError(Nl2sqlError):
    """A database failed while it executed a query."""

    code = ErrorCode.EXECUTION_ERROR


class QueryTimeoutError(Nl2sqlError):
    """A query took longer than it may."""

    code = ErrorCode.EXECUTION_TIMEOUT


class ArtifactCorruptError(Nl2sqlError):
    """A stored result is not what was stored."""

    code = ErrorCode.ARTIFACT_CORRUPT


class AggregationError(Nl2sqlError):
    """Results of several sources cannot be combined as planned."""

    code = ErrorCode.AGGREGATION_FAILED


class ModelError(Nl2sqlError):
    """A language model did not give a usable reply."""

    code = ErrorCode.MODEL_FAILED


class UsageError(Nl2sqlError):
    """The pipeline, a source or a policy is set up wrongly."""


class NeedsSourcesError(ClewError):
    """A run was resumed without its sources; nothing was lost."""

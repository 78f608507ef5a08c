"""All errors that Clew raises, in one tree.

::

    ClewError
    ├── DefinitionError            a graph, node or policy is invalid (raised when it is built)
    │   ├── GraphError             nodes, gates, edges and values do not match
    │   └── PolicyError            a timeout, retry or side-effect policy is invalid
    ├── StateError                 a value or a state cannot be used
    │   ├── EncodeError            a value has no canonical encoding
    │   ├── DecodeError            bytes are not a canonical encoding, or name an unknown class
    │   │   └── ClassChangedError  a class has changed and no longer accepts a stored object; nothing is damaged
    │   ├── CheckpointError        a checkpoint cannot be written or read
    │   └── UnknownValueError      the state has no value of that name (also a KeyError)
    ├── StoreError                 a store cannot be used
    │   ├── StoreCorruptError      stored data is damaged; names the run and the step
    │   ├── StoreVersionError      the store was written by another version of this library
    │   ├── StoreUnavailableError  a write failed (disk full, read-only, no connection); nothing was lost
    │   └── StoreConflictError     another writer was faster; nothing of this write was stored
    ├── DependencyError            an error of a dependency graph
    │   ├── InvalidExpressionError   a name cannot be parsed; says where
    │   ├── InvalidSchemaError       a schema is invalid (raised when the graph is built, like the next three)
    │   │   ├── SchemaOverlapError   two schemas can match one node
    │   │   ├── SchemaCycleError     schemas depend on each other in a cycle
    │   │   └── SchemaArityError     a name is used with different numbers of arguments
    │   ├── InvalidNodeError         no schema matches the node (also a KeyError)
    │   ├── SchemaPatternError       a pattern was given instead of a node
    │   ├── MissingValueError        a source was never set (also a KeyError)
    │   └── InvalidUnchangedError    a computor returned `Unchanged` for a node without a value
    ├── ExplorationError           an error of an exploration, its world or its systems
    │   ├── SystemSetupError       a system cannot be used (privileges, an extension, invalid options)
    │   ├── RefusedServiceError    a service cannot be explored: it is remote, limits rates, or holds other state
    │   ├── UnknownCheckpointError a checkpoint does not exist; nothing was changed (also a KeyError)
    │   ├── InjectedFaultError     a check made a node fail (also a ConnectionError)
    │   ├── RollbackError          a world could not be rolled back to a checkpoint
    │   │   └── PoisonedWorldError a rollback failed partway; the world is unusable until one succeeds
    │   ├── DivergedError          repeated actions led to a different state
    │   ├── JournalMismatchError   the store has the journal of another exploration
    │   └── ExplorationAborted     the exploration cannot continue; has the results so far
    └── RunError                   an error of a run
        ├── InputError             the values given to a run do not match the graph
        ├── UnknownRunError        a run, step or label does not exist (also a KeyError)
        ├── RunExistsError         the run id is taken
        ├── RunStateError          the operation is not possible in the run's status
        │   ├── ThreadBusyError      another caller runs the thread
        │   └── ThreadMovedError     another run became the head of the thread
        ├── RunOwnedError          another process owns the run
        │   └── OwnerDeadError       this process did not renew its lease in time and was declared dead
        ├── TriesExhaustedError    workers took the run too often without result
        ├── CommitConflictError    the step was already committed with different content
        ├── GraphChangedError      the graph's structure differs from that of the run
        ├── ReplayError            a replay cannot continue
        │   ├── ReplayMismatchError  a call differs from the recorded one
        │   ├── ReplayMissingError   a call was never recorded
        │   └── RecordCorruptError   a recording is damaged
        ├── AmbiguousCallError     a call may or may not have been made before a crash
        ├── RunFailedError         a failed run has no such value
        ├── ConflictError          two items of a step wrote a value that has no reducer
        ├── StalledError           a selected node never got its inputs
        ├── MaxStepsError          the run did not end within ``max_steps``
        ├── RunCancelledError      the run was cancelled
        └── NodeError              an error of a node; names the node and the path
            ├── NodeTimeoutError   it did not finish in time (also a TimeoutError)
            ├── WorkerLostError    too many workers were lost while they ran it
            ├── CodeMismatchError  a worker has other code for it than the driver
            ├── DriverUnreachableError  a worker cannot connect to the driver
            ├── WaitTimeoutError   no signal or answer came in time (also a TimeoutError)
            ├── OutputError        its return value does not match its declaration
            ├── DecisionError      a gate chose an invalid target
            └── MutationError      an input was changed in place while it ran

Exceptions of the user's code are never wrapped. An exception from a node becomes the ``error`` of the run; ``failures``
has the node, the path and the step. An exception from a computor of a dependency graph propagates from the pull, with a
note that names the node and its bindings.
"""

from __future__ import annotations

import functools


class ClewError(Exception):
    """The root of all errors of this library."""


class DefinitionError(ClewError):
    """A graph, node or policy is invalid."""


class GraphError(DefinitionError):
    """Nodes, gates, edges and values do not match."""


class PolicyError(DefinitionError):
    """A policy is invalid."""


class StateError(ClewError):
    """A value or a state cannot be used."""


class EncodeError(StateError):
    """A value has no canonical encoding."""


class DecodeError(StateError):
    """Bytes are not a canonical encoding, or name a class that is not registered."""


class ClassChangedError(DecodeError):
    """A stored object cannot be built because its class has changed; the stored data is not damaged."""

    def __init__(self, message: str, *, name: str = "", missing: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.name = name  # the name of the class in stored data
        self.missing = missing  # required fields, or the member that an enum no longer has


class CheckpointError(StateError):
    """A checkpoint cannot be written, or bytes are not a readable checkpoint."""


class UnknownValueError(StateError, KeyError):
    """The state has no value of that name."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""


class StoreError(ClewError):
    """A store cannot be used."""


class StoreCorruptError(StoreError):
    """Stored data is damaged."""


class StoreVersionError(StoreError):
    """A store was written by another version of this library, and this one cannot read it."""


class StoreUnavailableError(StoreError):
    """A write failed; nothing was lost."""


class StoreConflictError(StoreError):
    """Another writer was faster; nothing of this write was stored."""


class DependencyError(ClewError):
    """An error of a dependency graph."""


class InvalidExpressionError(DependencyError):
    """A name cannot be parsed."""


class InvalidSchemaError(DependencyError, DefinitionError):
    """A schema is invalid."""


class SchemaOverlapError(InvalidSchemaError):
    """Two schemas can match one node."""


class SchemaCycleError(InvalidSchemaError):
    """Schemas depend on each other in a cycle."""


class SchemaArityError(InvalidSchemaError):
    """A name is used with different numbers of arguments."""


class InvalidNodeError(DependencyError, KeyError):
    """No schema matches the node."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class SchemaPatternError(DependencyError):
    """A pattern was given instead of a node."""


class MissingValueError(DependencyError, KeyError):
    """A source was never set."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class InvalidUnchangedError(DependencyError):
    """A computor returned `Unchanged` for a node without a value."""


class ExplorationError(ClewError):
    """An error of an exploration, its world or its systems."""


class SystemSetupError(ExplorationError):
    """A system cannot be used with its current setup."""


class RefusedServiceError(ExplorationError):
    """A service cannot be explored: it is on another machine, limits rates, or holds state outside of the systems."""


class UnknownCheckpointError(ExplorationError, KeyError):
    """A checkpoint does not exist; nothing was changed."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class InjectedFaultError(ExplorationError, ConnectionError):
    """A check made a node fail. It is a ConnectionError, so that code which retries those also retries this."""


class RollbackError(ExplorationError):
    """A world could not be rolled back to a checkpoint."""


class PoisonedWorldError(RollbackError):
    """A rollback failed partway; the world is unusable until one succeeds."""


class DivergedError(ExplorationError):
    """Repeated actions led to a different state."""


class JournalMismatchError(ExplorationError):
    """The store has the journal of another exploration."""


class ExplorationAborted(ExplorationError):
    """The exploration cannot continue. `result` has the results so far, or None."""

    def __init__(self, message: str, result: object = None) -> None:
        super().__init__(message)
        self.result = result


class RunError(ClewError):
    """An error of a run."""


class InputError(RunError):
    """The values given to a run do not match the graph."""


class UnknownRunError(RunError, KeyError):
    """A run, step or label does not exist. `nearest` has the ids of runs with similar names.

    Similar names are searched on first use, because most callers catch the error and never print it."""

    def __init__(self, message: str = "", *, run_id: str = "", recent: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self._run_id = run_id
        self._recent = recent

    @functools.cached_property
    def nearest(self) -> tuple[str, ...]:
        from difflib import get_close_matches

        return tuple(get_close_matches(self._run_id, self._recent))

    def __str__(self) -> str:
        message = str(self.args[0]) if self.args else ""
        if not self._run_id:
            return message
        if not self._recent:
            return f"{message}, and the store has no runs; check the store= of the engine"
        near = " or ".join(map(repr, self.nearest))
        return f"{message}; did you mean {near}?" if near else f"{message}; list runs with engine.runs()"


class RunExistsError(RunError):
    """The run id is taken."""


class RunStateError(RunError):
    """The operation is not possible in the run's status."""


class ThreadBusyError(RunStateError):
    """Another caller runs the thread."""


class ThreadMovedError(RunStateError):
    """Another run has become the head of the thread."""


class RunOwnedError(RunError):
    """Another process owns the run."""


class OwnerDeadError(RunOwnedError):
    """This process did not renew its lease in time and was declared dead: it has lost its runs."""


class TriesExhaustedError(RunError):
    """Workers took the run from its queue several times in a row, and it committed nothing."""


class CommitConflictError(RunError):
    """The step was already committed with different content."""


class GraphChangedError(RunError):
    """The graph's structure differs from that of the run."""


class ReplayError(RunError):
    """A replay cannot continue."""


class ReplayMismatchError(ReplayError):
    """A call differs from the recorded one."""


class ReplayMissingError(ReplayError):
    """A call was never recorded."""


class RecordCorruptError(ReplayError):
    """A recording is damaged."""


class AmbiguousCallError(RunError):
    """A call may or may not have been made before a crash."""


class RunFailedError(RunError):
    """A failed run has no such value."""


class ConflictError(RunError):
    """Two items of a step wrote a value that has no reducer."""


class StalledError(RunError):
    """A selected node never got its inputs."""


class MaxStepsError(RunError):
    """The run did not end within ``max_steps``."""


class RunCancelledError(RunError):
    """The run was cancelled."""


class NodeError(RunError):
    """An error of a node."""


class NodeTimeoutError(NodeError, TimeoutError):
    """A node did not finish in time."""


class WorkerLostError(NodeError):
    """Too many workers were lost while they ran a node."""


class CodeMismatchError(NodeError):
    """A worker has other code for a node than the driver."""


class DriverUnreachableError(NodeError):
    """A worker cannot connect to the driver."""


class WaitTimeoutError(NodeError, TimeoutError):
    """No signal, or no answer to a question, came in the time that a node wanted to wait."""


class OutputError(NodeError):
    """The return value of a node does not match its declaration."""


class DecisionError(NodeError):
    """A gate chose an invalid target."""


class MutationError(NodeError):
    """An input changed in place while a node ran."""


class GraphWarning(UserWarning):
    """A graph probably does not do what its author intended, or a class has lost a stored field."""


class ExplorationWarning(UserWarning):
    """An exploration continues, but more slowly or with less certainty."""

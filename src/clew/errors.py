"""Every error that Clew raises on purpose, in one tree.

::

    ClewError
    ├── DefinitionError            a graph, node or policy is written wrongly (raised when it is built)
    │   ├── GraphError             nodes, gates, edges and values that do not fit together
    │   └── PolicyError            a timeout, retry or side-effect policy that breaks its rules
    ├── StateError                 a value or a state that cannot be used
    │   ├── EncodeError            a value has no canonical encoding
    │   ├── DecodeError            bytes that are not a canonical encoding, or name an unknown class
    │   │   └── ClassChangedError  a stored object does not fit its class any more; nothing is damaged
    │   ├── CheckpointError        a checkpoint that cannot be made or read
    │   └── UnknownValueError      a name that the state schema does not declare (also a KeyError)
    ├── StoreError                 a store that cannot be used
    │   ├── StoreCorruptError      damage: names the run and the step
    │   ├── StoreVersionError      written by a newer version of this library
    │   ├── StoreUnavailableError  it did not take a write (disk full, read-only, no connection); nothing was lost
    │   └── StoreConflictError     somebody else wrote meanwhile; nothing of this write was kept
    ├── DependencyError            something about a dependency graph
    │   ├── InvalidExpressionError   a name does not parse; says where
    │   ├── InvalidSchemaError       a schema is written wrongly (raised when the graph is built, like the next)
    │   │   ├── SchemaOverlapError   two schemas can match one node
    │   │   ├── SchemaCycleError     schemas depend on each other in a circle
    │   │   └── SchemaArityError     one name with two numbers of arguments
    │   ├── InvalidNodeError         no schema matches the node (also a KeyError)
    │   ├── SchemaPatternError       a pattern where one node is meant
    │   ├── MissingValueError        a source that was never set (also a KeyError)
    │   └── InvalidUnchangedError    `Unchanged` from a node that has no value yet
    ├── ExplorationError           something about an exploration, its world or its systems
    │   ├── SystemSetupError       a system that cannot be used (privileges, an extension, wrong options)
    │   ├── UnknownCheckpointError no checkpoint of that id; nothing was changed (also a KeyError)
    │   ├── InjectedFaultError     a node was told to fail by a check (also a ConnectionError)
    │   ├── RollbackError          a world that could not be taken back to a checkpoint
    │   │   └── PoisonedWorldError a rollback failed half way: the world refuses until one succeeds
    │   ├── DivergedError          actions were repeated and led to another state than before
    │   ├── JournalMismatchError   a store holds the journal of another exploration
    │   └── ExplorationAborted     the exploration cannot go on; holds what was found so far
    └── RunError                   something about one run
        ├── InputError             values given to a run that do not fit the graph
        ├── UnknownRunError        no run, step or label of that name (also a KeyError)
        ├── RunExistsError         the run id is taken
        ├── RunStateError          the verb does not fit the run's status
        ├── RunOwnedError          another process owns the run, or has taken it over
        ├── CommitConflictError    the step was committed already, with another content
        ├── GraphChangedError      the graph's structure is not the one that the run was made with
        ├── ReplayError            a replay that cannot go on
        │   ├── ReplayMismatchError  a call asks for something else than was recorded
        │   ├── ReplayMissingError   a call that was never recorded
        │   └── RecordCorruptError   a recording does not fit its digest
        ├── AmbiguousCallError     nobody knows whether a call was made before a crash
        ├── RunFailedError         asked a failed run for a value that it never made
        ├── ConflictError          two items of one step wrote one value that has no reducer
        ├── StalledError           a node was selected and never got its inputs
        ├── MaxStepsError          the run did not settle within ``max_steps``
        ├── RunCancelledError      the run was cancelled
        └── NodeError              a node broke a rule; names node and path
            ├── NodeTimeoutError   it did not finish in time
            ├── OutputError        what it returned does not fit what it declared
            ├── DecisionError      a gate chose something that it may not choose
            └── MutationError      it changed an input in place

An exception that a node itself raises is never wrapped: it is the run's ``error``, with a note
that says which node, path and step raised it. Nor is one that a computor of a dependency graph raises:
it comes out of the pull, with a note that says which node, with which bindings.
"""

from __future__ import annotations


class ClewError(Exception):
    """The root of all errors of this library."""


class DefinitionError(ClewError):
    """A graph, node or policy is written wrongly."""


class GraphError(DefinitionError):
    """Nodes, gates, edges and values do not fit together."""


class PolicyError(DefinitionError):
    """A policy breaks its own rules."""


class StateError(ClewError):
    """A value or a state cannot be used."""


class EncodeError(StateError):
    """A value has no canonical encoding."""


class DecodeError(StateError):
    """Bytes are not a canonical encoding, or name a class that is not registered."""


class ClassChangedError(DecodeError):
    """A stored object cannot be built, because its class has changed since; the stored data is not damaged."""

    def __init__(self, message: str, *, name: str = "", missing: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.name = name  # what the class is called in stored data
        self.missing = missing  # fields that the class needs, or the member of an enum that is gone


class CheckpointError(StateError):
    """A checkpoint cannot be made, or bytes are not a checkpoint that this library can read."""


class UnknownValueError(StateError, KeyError):
    """A name is not declared by the state schema."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""


class StoreError(ClewError):
    """A store cannot be used."""


class StoreCorruptError(StoreError):
    """A store is damaged."""


class StoreVersionError(StoreError):
    """A store was written by a newer version of this library."""


class StoreUnavailableError(StoreError):
    """A store did not take a write; nothing was lost."""


class StoreConflictError(StoreError):
    """Somebody else wrote meanwhile; nothing of this write was kept."""


class DependencyError(ClewError):
    """Something about a dependency graph."""


class InvalidExpressionError(DependencyError):
    """A name does not parse."""


class InvalidSchemaError(DependencyError, DefinitionError):
    """A schema is written wrongly."""


class SchemaOverlapError(InvalidSchemaError):
    """Two schemas can match one node."""


class SchemaCycleError(InvalidSchemaError):
    """Schemas depend on each other in a circle."""


class SchemaArityError(InvalidSchemaError):
    """One name is used with two numbers of arguments."""


class InvalidNodeError(DependencyError, KeyError):
    """No schema matches the node."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class SchemaPatternError(DependencyError):
    """A pattern stands where one node is meant."""


class MissingValueError(DependencyError, KeyError):
    """A source was never set."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class InvalidUnchangedError(DependencyError):
    """A computor returned `Unchanged` for a node that has no value yet."""


class ExplorationError(ClewError):
    """Something about an exploration, its world or its systems."""


class SystemSetupError(ExplorationError):
    """A system cannot be used as it is set up."""


class UnknownCheckpointError(ExplorationError, KeyError):
    """There is no checkpoint of that id; nothing was changed."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class InjectedFaultError(ExplorationError, ConnectionError):
    """A node was told to fail by whoever checks a graph. Also a ConnectionError: what retries those, retries this."""


class RollbackError(ExplorationError):
    """The world could not be taken back to a checkpoint."""


class PoisonedWorldError(RollbackError):
    """A rollback failed half way; the world refuses until one succeeds."""


class DivergedError(ExplorationError):
    """Actions were repeated and led to another state than before."""


class JournalMismatchError(ExplorationError):
    """A store holds the journal of another exploration."""


class ExplorationAborted(ExplorationError):
    """The exploration cannot go on. `result` holds what was found so far, where there is something."""

    def __init__(self, message: str, result: object = None) -> None:
        super().__init__(message)
        self.result = result


class RunError(ClewError):
    """Something about one run."""


class InputError(RunError):
    """The values given to a run do not fit the graph."""


class UnknownRunError(RunError, KeyError):
    """There is no run, step or label of that name."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class RunExistsError(RunError):
    """The run id is taken."""


class RunStateError(RunError):
    """The verb does not fit the run's status."""


class RunOwnedError(RunError):
    """Another process owns the run, or has taken it over."""


class CommitConflictError(RunError):
    """The step was committed already, with another content."""


class GraphChangedError(RunError):
    """The graph's structure is not the one that the run was made with."""


class ReplayError(RunError):
    """A replay cannot go on."""


class ReplayMismatchError(ReplayError):
    """A call asks for something else than was recorded."""


class ReplayMissingError(ReplayError):
    """A call was never recorded."""


class RecordCorruptError(ReplayError):
    """A recording does not fit its digest."""


class AmbiguousCallError(RunError):
    """Nobody knows whether a call was made before a crash."""


class RunFailedError(RunError):
    """A failed run was asked for a value that it never made."""


class ConflictError(RunError):
    """Two items of one step wrote one value that has no reducer."""


class StalledError(RunError):
    """A node was selected and never got its inputs."""


class MaxStepsError(RunError):
    """The run did not settle within ``max_steps``."""


class RunCancelledError(RunError):
    """The run was cancelled."""


class NodeError(RunError):
    """A node broke a rule."""


class NodeTimeoutError(NodeError):
    """A node did not finish in time."""


class OutputError(NodeError):
    """What a node returned does not fit what it declared."""


class DecisionError(NodeError):
    """A gate chose something that it may not choose."""


class MutationError(NodeError):
    """A node changed an input in place."""


class GraphWarning(UserWarning):
    """A graph that can be built, and will probably not do what was meant; or a stored field that its class has lost."""


class ExplorationWarning(UserWarning):
    """An exploration that goes on, more slowly or with less certainty than was meant."""

"""Every error that Clew raises on purpose, in one tree.

::

    ClewError
    ├── DefinitionError            a graph, node or policy is written wrongly (raised when it is built)
    │   ├── GraphError             nodes, gates, edges and values that do not fit together
    │   └── PolicyError            a timeout, retry or side-effect policy that breaks its rules
    ├── StateError                 a value or a state that cannot be used
    │   ├── EncodeError            a value has no canonical encoding
    │   ├── DecodeError            bytes that are not a canonical encoding, or name an unknown class
    │   ├── CheckpointError        bytes that are not a checkpoint of this library
    │   └── UnknownValueError      a name that the state schema does not declare (also a KeyError)
    └── RunError                   something about one run
        ├── InputError             values given to a run that do not fit the graph
        ├── UnknownRunError        no run, step or label of that name (also a KeyError)
        ├── RunExistsError         the run id is taken
        ├── RunStateError          the verb does not fit the run's status
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
that says which node, path and step raised it.
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


class CheckpointError(StateError):
    """Bytes are not a checkpoint that this library can read."""


class UnknownValueError(StateError, KeyError):
    """A name is not declared by the state schema."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""


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
    """A graph that can be built, and will probably not do what was meant."""

"""What the machine says and hears, as plain data.

A run is a chain of steps; a step is the ordered outcomes of its items; an outcome is what one item wrote and
decided. An item is named by its *path*: the nesting, the node, its visit (how many batches of the node ran
before) and, unless it is the only plain item of its batch, its index in the batch: ``scan#1[3]/executor#2``. A
path says nothing about time or workers, so whatever is recorded is keyed by it.

The *order key* of an item is an unsigned 64-bit number: 16 bits of the node's declaration index, 24 bits of the
index in the batch, 24 bits of a hash of path and edge. Ascending keys are the order in which updates merge.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from clew.engine.deltas import NO_DELTAS, Delta
from clew.graph import Send

Choice = str | Send
"""One thing that a gate decided: the name of a target, ``"END"``, or a Send."""


class Outcome(msgspec.Struct, frozen=True, gc=True):
    """What one item did. `decision` is None for a node that cannot decide; `error` is only for failures."""

    node: str
    visit: int
    index: int  # -1 for the only plain item of a batch
    update: Mapping[str, Any]
    decision: tuple[Choice, ...] | None = None
    attempt: int = 0
    started: float = 0.0
    duration: float = 0.0
    cached: bool = False
    error: BaseException | None = None
    refused: str = ""  # the value whose reducer refused the update, if that is why it failed

    @property
    def path(self) -> str:
        """The item's name within its strand."""
        return item_path(self.node, self.visit, self.index)

    def failure(self, step: Step) -> Failure | None:
        """Why it failed, and where, if it is of this step and did."""
        if self.error is None:
            return None
        path = step.prefix + self.path
        return Failure(self.error, step.number, self.node, path, self.attempt, (), self.refused)


class Step(msgspec.Struct, frozen=True):
    """Step number `number` of the strand at `prefix` ("" for the run itself): its outcomes in order."""

    prefix: str
    number: int
    outcomes: tuple[Outcome, ...]
    epoch: tuple[int, ...] = ()
    deltas: Mapping[str, Delta] = NO_DELTAS  # what custom reducers made, by name of the value


class SingleItemStep(msgspec.Struct, frozen=True):
    """A step of the run itself with one plain item: a `Step` in short."""

    number: int
    node: str
    visit: int
    update: Mapping[str, Any]
    decision: tuple[Choice, ...] | None
    started: float
    duration: float
    deltas: Mapping[str, Delta] = NO_DELTAS

    def step(self) -> Step:
        """The same at length."""
        outcome = Outcome(
            self.node, self.visit, -1, self.update, self.decision, 0, self.started, self.duration
        )
        return Step("", self.number, (outcome,), (), self.deltas)


class Start(msgspec.Struct, frozen=True):
    """A strand begins: the values of its S(0), and which of them were given."""

    prefix: str
    values: Mapping[str, Any]
    given: frozenset[str]
    epoch: tuple[int, ...] = ()  # the attempts of the items around it: each attempt has strands of its own
    filled: frozenset[str] = frozenset()  # defaults among the values that a resume filled in


class FinishedItem(msgspec.Struct, frozen=True):
    """An item of the strand at `prefix` finished while its step is not yet complete."""

    prefix: str
    outcome: Outcome
    epoch: tuple[int, ...] = ()
    n: int = 0  # a later one of the same item takes the place of an earlier one

    @property
    def path(self) -> str:
        """The item's name in the run."""
        return self.prefix + self.outcome.path


class Withdrawn(msgspec.Struct, frozen=True):
    """What was journaled of the item at `path` does not hold: it was made on the strength of what did not."""

    path: str
    epoch: tuple[int, ...] = ()


class Question(msgspec.Struct, frozen=True):
    """What an item asks of a person. `number` counts the answers that the item had before.

    `position` is where in the item's function it is asked: the numbers of the recorded calls around it, then its own
    among the questions there, as in ``2.0``. The answer belongs to it.
    """

    path: str
    node: str
    question: Any
    step: int
    number: int = 0
    position: str = "0"


class Retry(msgspec.Struct, frozen=True):
    """An attempt of `item` failed, and the next one, number `attempt`, is due after `delay` seconds.

    Without `item` nobody waits for that: should it be tried again, this is its number.
    """

    item: Any
    path: str
    attempt: int
    delay: float
    error: BaseException
    due: float = 0.0  # seconds since the epoch, once a driver has said when
    epoch: tuple[int, ...] = ()  # the attempts of the items around it


class Failure(msgspec.Struct, frozen=True, eq=False):
    """An error, and where it happened.

    A failure that is of no item has no node: `path` is that of the strand. An item inside a subgraph fails the items
    around it: they are in `around`, from the innermost.
    """

    error: BaseException
    step: int = 0  # of the run, once the failure has got there
    node: str = ""
    path: str = ""
    attempt: int = 0
    around: tuple[str, ...] = ()
    refused: str = ""  # the value whose reducer refused what the item returned; the node itself did not raise

    def __str__(self) -> str:
        if not self.node:
            return f"in step {self.step}"
        if self.refused:
            return f"the reducer of {self.refused!r} refused what {self.path} returned in step {self.step}"
        return f"node {self.node!r} at {self.path} in step {self.step}, attempt {self.attempt + 1}"


class Deadline(msgspec.Struct, frozen=True):
    """What happens inside a subgraph item has `seconds` to end."""

    item: Any
    attempt: int
    seconds: float


class WorkItem(msgspec.Struct, frozen=True):
    """A unit of work as the specification describes it: made when somebody looks."""

    step_id: int
    order_key: int
    node_id: str
    state: Mapping[str, Any]
    attempt: int
    parent_node_id: str
    edge_index: int
    path: str


def item_path(node: str, visit: int, index: int) -> str:
    """The name of an item within its strand."""
    return f"{node}#{visit}" if index < 0 else f"{node}#{visit}[{index}]"


def order_key(declared: int, index: int, path: str, edge_index: int) -> int:
    """The place of an item in its step: declaration, index in the batch, then a hash to tell equals apart."""
    path_hash = hashlib.sha256(path.encode()).digest()
    tail = hashlib.sha256(path_hash + edge_index.to_bytes(8, "big")).digest()[:3]
    return (declared & 0xFFFF) << 48 | (max(index, 0) & 0xFFFFFF) << 24 | int.from_bytes(tail, "big")

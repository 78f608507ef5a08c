"""The machine's input and output as plain data.

A run is a chain of steps. A step is the ordered outcomes of its items. An outcome is what one item wrote and decided.
An item is named by its *path*: the nesting, the node, its visit (how many batches of the node ran before) and, unless
it is the only plain item of its batch, its index in the batch: ``scan#1[3]/executor#2``. A path does not depend on time
or workers, so all records are keyed by it.

The *order key* of an item is an unsigned 64-bit number: 16 bits of the node's declaration index, 24 bits of the index
in the batch, 24 bits of a hash of path and edge. Updates merge in ascending order of these keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from clew.engine.updates.deltas import NO_DELTAS, Delta
from clew.error_links import child_place
from clew.error_text import line_of
from clew.graph import Send

Choice = str | Send
"""One choice of a gate: the name of a target, ``"END"``, or a Send."""


class Outcome(msgspec.Struct, frozen=True, gc=True):
    """The result of one item. `decision` is None for a node that cannot decide; `error` is set only for failures."""

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
    refused: str = ""  # the value whose reducer rejected the update, if that is the error
    by_hand: bool = (
        False  # a person made it (``clew.engine.edits``); without a node, it is a write from outside
    )
    failures: tuple[Failure, ...] = ()  # rescued or inside the item; none for an `error` of the item itself
    rescued: bool = False  # the update and the decision are those of the node's rescue function

    @property
    def path(self) -> str:
        """Return the name of the item within its frame."""
        return item_path(self.node, self.visit, self.index)

    def failures_in(self, step: Step) -> tuple[Failure, ...]:
        """Return the failures of the item, and those inside it, with their locations; `step` contains the item."""
        if self.error is None or self.failures:
            return self.failures
        path = step.prefix + self.path
        return (Failure(self.error, step.number, self.node, path, self.attempt + 1, (), self.refused),)


class Step(msgspec.Struct, frozen=True):
    """Step `number` of the frame at `prefix` ("" for the run itself): its outcomes in order."""

    prefix: str
    number: int
    outcomes: tuple[Outcome, ...]
    epoch: tuple[int, ...] = ()
    deltas: Mapping[str, Delta] = NO_DELTAS  # results of custom reducers, by value name


class SingleItemStep(msgspec.Struct, frozen=True):
    """A compact `Step` of the run itself with one plain item."""

    number: int
    node: str
    visit: int
    update: Mapping[str, Any]
    decision: tuple[Choice, ...] | None
    started: float
    duration: float
    deltas: Mapping[str, Delta] = NO_DELTAS

    def step(self) -> Step:
        """Return the equivalent `Step`."""
        outcome = Outcome(
            self.node, self.visit, -1, self.update, self.decision, 0, self.started, self.duration
        )
        return Step("", self.number, (outcome,), (), self.deltas)


class Start(msgspec.Struct, frozen=True):
    """The start of a frame: the values of its S(0), and which of them were given."""

    prefix: str
    values: Mapping[str, Any]
    given: frozenset[str]
    epoch: tuple[int, ...] = ()  # the attempts of the enclosing items: each attempt has separate frames
    filled: frozenset[str] = frozenset()  # names whose defaults a resume filled in


class FinishedItem(msgspec.Struct, frozen=True):
    """The outcome of an item of the frame at `prefix` whose step is not committed yet."""

    prefix: str
    outcome: Outcome
    epoch: tuple[int, ...] = ()
    n: int = 0  # a higher number replaces a lower one of the same item

    @property
    def path(self) -> str:
        """Return the name of the item in the run."""
        return self.prefix + self.outcome.path


class FailedStep(msgspec.Struct, frozen=True):
    """Step `number` of the run contains failures that were confined or rescued."""

    number: int


class Withdrawn(msgspec.Struct, frozen=True):
    """An item whose result and questions are void: it depended on a rejected update, or on a value set by hand."""

    path: str
    epoch: tuple[int, ...] = ()

    def covers(self, question: str) -> bool:
        """Return whether the question at this path belongs to the item, or to one inside it."""
        item = question.partition("!")[0]  # a question about an ambiguous call has the path item!call
        return item == self.path or item.startswith((f"{self.path}/", f"{self.path}["))


class Question(msgspec.Struct, frozen=True, eq=False):
    """A question of an item to a person. `number` counts the earlier answers of the item.

    `position` is the location of the question in the item's function: the numbers of the enclosing recorded calls, then
    its number among the questions there, as in ``2.0``. The answer is stored under it. `schema` is the JSON Schema of
    the answer, and `type` its type as text, if the node has given one.
    """

    path: str
    node: str
    question: Any
    step: int
    number: int = 0
    position: str = "0"
    error: str = ""  # why the last answer was refused
    time: float = 0.0  # when it was asked, in seconds since the epoch
    schema: Any = None
    type: str = ""

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same question; a resumed run asks it again, at a later time."""
        if type(other) is not Question:
            return NotImplemented
        return all(
            getattr(self, name) == getattr(other, name) for name in self.__struct_fields__ if name != "time"
        )

    def __hash__(self) -> int:
        return hash((self.path, self.node, self.step, self.number, self.position))

    def carried(self) -> Any:
        """Return the question as the item around it asks it, with the type of its answer."""
        return self.question if self.schema is None else TypedQuestion(self.question, self.schema, self.type)


class TypedQuestion(msgspec.Struct, frozen=True):
    """A question on its way to its `Question`, with the type of its answer, and why the last answer was refused."""

    question: Any
    schema: Any
    type: str
    error: str = ""


class Retry(msgspec.Struct, frozen=True):
    """A failed attempt of `item`; attempt number `attempt` is due after `delay` seconds.

    Without `item` no retry is scheduled; if the item runs again, it uses this attempt number.
    """

    item: Any
    path: str
    attempt: int
    delay: float
    error: BaseException
    due: float = 0.0  # seconds since the epoch, set by the driver
    epoch: tuple[int, ...] = ()  # the attempts of the enclosing items
    started: float = 0.0  # of the failed attempt, in seconds since the epoch; 0 if it is not known
    duration: float = 0.0


class FailedAttempt(msgspec.Struct, frozen=True):
    """An attempt of the item at `path` failed; a retry, a rescue or nothing follows. For observers; not stored."""

    path: str
    node: str
    step: int
    attempt: int
    error: BaseException
    duration: float
    follows: Literal["retry", "rescue", ""] = ""


class ChildPlace(msgspec.Struct, frozen=True):
    """Where in a child a failure happened; `path` begins with the path of the item that runs the child."""

    run_id: str
    path: str
    node: str  # empty for a failure of no particular item


class Failure(msgspec.Struct, frozen=True, eq=False):
    """An error and its location.

    A failure of no particular item has no node; its `path` is that of the frame. A failure inside a subgraph fails the
    enclosing items; `around` lists them, innermost first. A rescued failure failed nothing: the node's `rescue`
    function returned a value in its place.
    """

    error: BaseException
    step: int = 0  # of the run itself, once the failure has propagated
    node: str = ""
    path: str = ""
    attempts: int = 0  # how often the node was called
    around: tuple[str, ...] = ()
    refused: str = ""  # the value whose reducer rejected the update; the node itself did not raise
    rescued: bool = False
    started: float = 0.0  # of the last attempt, in seconds since the epoch; 0 if it is not known
    duration: float = 0.0

    def __str__(self) -> str:
        if not self.node:
            return f"in step {self.step}"
        if self.refused:
            return f"the reducer of {self.refused!r} rejected the update of {self.path} in step {self.step}"
        if not self.path:  # it failed before the state that the run started from
            return f"node {self.node!r} in step {self.step}"
        place = f"node {self.node!r} at {self.path} in step {self.step}, attempt {self.attempts}"
        inside = self.inside
        if inside is None:
            return place
        where = f"node {inside.node!r} at {inside.path}" if inside.node else inside.path
        return f"{where}, in child {inside.run_id!r} of {place}"

    def __repr__(self) -> str:
        rescued = ", rescued" if self.rescued else ""
        return f"<Failure: {self}{rescued}: {line_of(self.error)}>"

    @property
    def inside(self) -> ChildPlace | None:
        """The place in a child of the item, if the node raised the exception of the child."""
        found = child_place(self.error, self.path)
        return None if found is None else ChildPlace(*found)


class Deadline(msgspec.Struct, frozen=True):
    """The time limit, in `seconds`, of the work inside a subgraph item."""

    item: Any
    attempt: int
    seconds: float


class WorkItem(msgspec.Struct, frozen=True):
    """A public description of an item, created on request."""

    step_id: int
    order_key: int
    node_id: str
    state: Mapping[str, Any]
    attempt: int
    parent_node_id: str
    edge_index: int
    path: str


def item_path(node: str, visit: int, index: int) -> str:
    """Return the name of an item within its frame."""
    return f"{node}#{visit}" if index < 0 else f"{node}#{visit}[{index}]"


def order_key(declared: int, index: int, path: str, edge_index: int) -> int:
    """Return the position of an item in its step: declaration, index in the batch, then a hash as tie-breaker."""
    path_hash = hashlib.sha256(path.encode()).digest()
    tail = hashlib.sha256(path_hash + edge_index.to_bytes(8, "big")).digest()[:3]
    return (declared & 0xFFFF) << 48 | (max(index, 0) & 0xFFFFFF) << 24 | int.from_bytes(tail, "big")

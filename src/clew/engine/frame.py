"""A strand: one graph's chain of steps while it is being made, and the items of its open steps.

The run itself is a strand; each subgraph item holds strands of its own. A strand has a view (the state after its
last committed step) and *levels*, its open steps: the first is the next to be committed, later ones were planned
ahead. A level has batches, one per node that runs in that step; a batch has items, one per plain run or Send.

This module is data and its bookkeeping. What happens when is decided by ``clew.engine.machine``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from clew.engine.decisions import BatchStart
from clew.engine.origins import Past, origin_of
from clew.engine.program import Program
from clew.engine.records import Failure, Outcome, Question, WorkItem, item_path, order_key
from clew.engine.working_state import WorkingState
from clew.graph import Node
from clew.graph.signature import ABSENT, MISSING

NO_LIMIT = 1 << 62


class Item:
    """One run of one node: what a worker executes."""

    __slots__ = ("_path", "attempt", "batch", "index", "live", "node", "waited")

    def __init__(self, batch: Batch, index: int) -> None:
        self.batch = batch
        self.index = index
        self.node: Node = batch.node
        self.attempt = 0
        self.live = False  # handed out, and neither finished nor given up
        self.waited = False  # between two attempts
        self._path: str | None = None

    @property
    def order(self) -> tuple[int, ...]:
        """Its place among all items of the run: lower ones are merged first."""
        return (*self.batch.order, self.index)

    @property
    def frame(self) -> Frame:
        return self.batch.open_step.frame

    @property
    def step(self) -> int:
        return self.batch.open_step.number

    @property
    def is_inside(self) -> bool:
        """Whether it is a subgraph item with strands under way."""
        return self.index in self.batch.frames

    @property
    def is_wanted(self) -> bool:
        """Whether it may start: no strand around it is over, and no failure came before its step."""
        open_step = self.batch.open_step
        frame = open_step.frame
        if open_step.is_void or frame.state != "running" or open_step.number > frame.limit:
            return False
        return frame.owner is None or frame.owner.is_wanted

    @property
    def path(self) -> str:
        """The item's name in the run."""
        if self._path is None:
            batch = self.batch
            self._path = batch.open_step.frame.prefix + item_path(self.node.name, batch.visit, self.label)
        return self._path

    @property
    def label(self) -> int:
        """The index that the path shows: none for the only plain item of a batch."""
        return -1 if self.batch.is_single else self.index

    @property
    def payload(self) -> Mapping[str, Any] | None:
        return self.batch.payloads[self.index]

    def values(self) -> dict[str, Any]:
        """All values that the item sees."""
        values = self.batch.working_state.plain_values()
        payload = self.payload
        if payload:
            values.update(payload)
        return values

    def lookup(self, name: str, default: Any) -> Any:
        """One value that the item sees: payload, state, bound value, then the default."""
        value = self.seen_value(name)
        return self.frame.program.bound.get(name, default) if value is MISSING else value

    def seen_value(self, name: str) -> Any:
        """One value that the item sees in its payload or in the state; MISSING if it is in neither."""
        payload = self.batch.payloads[self.index]
        if payload is not None and name in payload:
            return payload[name]
        return self.batch.working_state.values.get(name, MISSING)

    def seen(self) -> dict[str, Any]:
        """What the boundary of a subgraph is shown: its inputs by name, or everything."""
        if self.node.reads_state:
            return self.values()
        seen = {
            p.name: value
            for p in self.node.params
            if p.kind == "value"
            and (value := self.lookup(p.source, p.default)) is not MISSING
            and value is not ABSENT
        }
        return {**seen, **(self.payload or {})}

    def work_item(self) -> WorkItem:
        """The item as the specification describes it."""
        batch = self.batch
        parent, edge = origin_of(self)
        return WorkItem(
            step_id=self.step,
            order_key=order_key(batch.number, self.index, self.path, edge),
            node_id=self.node.name,
            state=self.values(),
            attempt=self.attempt,
            parent_node_id=parent,
            edge_index=edge,
            path=self.path,
        )


class Batch:
    """The items of one node in one step: a plain one first, then those of Sends in order."""

    __slots__ = (
        "cursor",
        "frames",
        "gates",
        "held",
        "is_single",
        "node",
        "number",
        "open",
        "open_step",
        "order",
        "outcomes",
        "payloads",
        "stuck",
        "visit",
        "wake",
        "working_state",
    )

    def __init__(self, open_step: OpenStep, number: int) -> None:
        # what its items see: a level gets another view when one more batch finishes, and nothing in it that they see is
        # another then, unless an update that they build on turns out to be refused
        self.working_state = working = open_step.working_state
        sends = working.sends.get(number, ()) if working.sends else ()
        self.open_step = open_step
        self.number = number
        self.order: tuple[int, ...] = (
            *open_step.frame.order,
            open_step.number,
            number,
        )  # the items' begins with it
        self.node = working.program.nodes[number]
        self.visit: int = working.visits[number]
        self.wake: int = working.wakes[number]
        self.payloads: tuple[Mapping[str, Any] | None, ...]
        if sends:
            plain = working.has_plain_item(number)
            self.payloads = ((None,) if plain else ()) + tuple(payload for _, payload, _ in sends)
            self.gates: tuple[int, ...] = ((-1,) if plain else ()) + tuple(gate for gate, _, _ in sends)
            self.is_single = False
        else:
            self.payloads = _PLAIN
            self.gates = ()
            self.is_single = True
        self.outcomes: list[Outcome | None] = [None] * len(self.payloads)
        self.open = len(self.payloads)  # items without an outcome
        self.stuck = 0  # of these, items that failed for good, wait for an answer or are held
        self.held: dict[int, Outcome] = {}  # outcomes that count once the step is committed: engine.holding
        self.cursor = 0  # items made so far
        self.frames: dict[int, list[Frame]] = {}  # index -> the strands inside that item, while they run

    @property
    def start(self) -> BatchStart:
        """How the batch starts: with a plain item or not, and of which loop it starts a turn."""
        return BatchStart(
            self.payloads[0] is None, self.working_state.program.turn_of(self.number, self.wake)
        )


_PLAIN: tuple[None] = (None,)


class OpenStep:
    """An open step. `ahead` is the view after it with what has finished so far, if anyone needed it.

    What has finished is in that view unless two updates are in conflict: such batches are `left_out`. Whether that
    stays so is known when the step is committed. Values that custom reducers have still to make are not in it either
    (`Frame.unfinished`).
    """

    __slots__ = (
        "_waiting",
        "batches",
        "frame",
        "held_mask",
        "is_void",
        "left_out",
        "lookahead_state",
        "number",
        "open_mask",
        "targets",
        "working_state",
        "written",
    )

    def __init__(self, frame: Frame, number: int, working: WorkingState) -> None:
        self.frame = frame
        self.number = number
        self.working_state = working
        self.batches: dict[int, Batch] = {}
        self.open_mask = 0
        self.held_mask = 0  # of these, batches of which all open items are held
        self.left_out = 0  # a mask, of batches that have finished and are not in the view ahead
        self.is_void = False  # planned for an attempt that is over, or on an outcome that did not hold
        self.lookahead_state: WorkingState | None = None
        self.written: set[str] = set()  # names that finished batches wrote
        self.targets: set[int] = set()  # nodes that finished batches have links to
        self._waiting: set[int] | None = None

    @property
    def waiting(self) -> set[int]:
        """Nodes that are due and do not run in this step."""
        if self._waiting is None:
            self._waiting = self.working_state.due.difference(self.batches)
        return self._waiting

    def add(self, number: int) -> Batch:
        """A batch of node `number` runs in this step."""
        if self._waiting is not None:
            self._waiting.discard(number)
        batch = self.batches[number] = Batch(self, number)
        self.open_mask |= 1 << number
        return batch

    def remove(self, number: int) -> Batch:
        """The batch of node `number` does not run in this step after all: whatever it did is let fall."""
        batch, frame = self.batches.pop(number), self.frame
        self.open_mask &= ~(1 << number)
        self.held_mask &= ~(1 << number)
        self.left_out &= ~(1 << number)
        self._waiting = None
        batch.open_step = void = OpenStep(frame, self.number, self.working_state)
        void.batches[number] = batch
        void.drop()
        if any(outcome is not None and outcome.error is not None for outcome in batch.outcomes):
            frame.failed.discard(batch.node.name)
        size = len(batch.order)
        frame.failures = [pair for pair in frame.failures if pair[0][:size] != batch.order]
        frame.questions = {o: asked for o, asked in frame.questions.items() if o[:size] != batch.order}
        return batch

    def outcomes(self, left_out: int = 0) -> tuple[Outcome, ...]:
        """What has finished, in order, but for what is left out."""
        if len(self.batches) == 1:
            (batch,) = self.batches.values()
            return tuple(batch.outcomes) if not batch.open and not left_out else ()  # type: ignore[arg-type]
        return tuple(
            outcome
            for number in sorted(self.batches)
            if not self.batches[number].open and not left_out >> number & 1
            for outcome in self.batches[number].outcomes
            if outcome is not None
        )

    def is_drained(self) -> bool:
        """Whether nothing of this step can go on by itself."""
        return all(batch.open == batch.stuck for batch in self.batches.values())

    def drop(self) -> None:
        """Nobody waits for its items any more: those that run are let fall, and no other is started."""
        self.is_void = True
        for batch in self.batches.values():
            for frames in batch.frames.values():
                for frame in frames:
                    frame.drop()


class Frame:
    """One graph's chain in the making."""

    __slots__ = (
        "epoch",
        "failed",
        "failures",
        "latest",
        "limit",
        "open_lookahead",
        "open_steps",
        "order",
        "owner",
        "past",
        "prefix",
        "program",
        "questions",
        "state",
        "step",
        "unfinished",
        "working_state",
    )

    def __init__(
        self,
        program: Program,
        working: WorkingState,
        *,
        step: int,
        prefix: str,
        order: tuple[int, ...],
        owner: Item | None,
    ) -> None:
        self.program = program
        self.working_state = working
        self.step = step
        self.prefix = prefix
        self.order = order
        self.owner = owner
        self.epoch: tuple[int, ...] = () if owner is None else (*owner.frame.epoch, owner.attempt)
        self.open_steps: list[OpenStep] = []  # open steps, with no number left out
        self.open_lookahead: dict[
            int, OpenStep
        ] = {}  # those planned ahead that are not known as a whole, by number
        # values that custom reducers have still to make: name -> the open steps that write it, ascending
        self.unfinished: dict[str, tuple[int, ...]] = {}
        self.limit = NO_LIMIT  # no item of a later step is started (after a failure)
        self.failures: list[tuple[tuple[int, ...], Failure]] = []
        self.failed: set[str] = set()  # nodes whose failure was confined
        self.questions: dict[tuple[int, ...], Question] = {}  # by the order of the item that asks
        self.latest: dict[
            int, int
        ] = {}  # node -> the step that it ran in last, as far as that was in this strand
        self.past: Past | None = None  # when nodes ran before that, if there is somewhere to look it up
        self.state: str = "running"  # running | completed | failed | dropped

    @property
    def has_failed(self) -> bool:
        """Whether a failure stops it; one that was confined does not."""
        return self.limit < NO_LIMIT

    def drop(self) -> None:
        """The attempt that it belongs to is over."""
        self.state = "dropped"
        for open_step in self.open_steps:
            open_step.drop()

    def startable_steps(self) -> Iterator[OpenStep]:
        """The levels whose items may still be started."""
        return (open_step for open_step in self.open_steps if open_step.number <= self.limit)

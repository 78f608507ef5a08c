"""A frame: one activation of a graph, with its chain of steps and the items of its open steps.

The run itself is a frame; each subgraph item has its own frames. A frame has a working state (the state after its last
committed step) and open steps: the first one is committed next, later ones come from lookahead. An open step has one
batch for each node that runs in it. A batch has one item for a plain run and one for each Send.

This module contains data and its bookkeeping. ``clew.engine.machine`` decides what happens when.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clew.engine.decisions import BatchStart
from clew.engine.history.origins import Past, origin_of
from clew.engine.program import Program
from clew.engine.records import Failure, Outcome, Question, WorkItem, item_path, order_key
from clew.engine.working_state import WorkingState
from clew.graph import Node
from clew.graph.signature import ABSENT, MISSING

NO_LIMIT = 1 << 62


class Item:
    """One execution of one node by a worker."""

    __slots__ = ("_path", "attempt", "batch", "failures", "index", "live", "node", "waited")
    failures: tuple[Failure, ...]  # set only for a rescue: what it replaces, first the error that it gets

    def __init__(self, batch: Batch, index: int) -> None:
        self.batch = batch
        self.index = index
        self.node: Node = batch.node
        self.attempt = 0
        self.live = False  # taken by the driver, and neither finished nor failed
        self.waited = False  # between two attempts
        self._path: str | None = None

    @property
    def order(self) -> tuple[int, ...]:
        """Return the position among all items of the run; lower ones are merged first."""
        return (*self.batch.order, self.index)

    @property
    def frame(self) -> Frame:
        return self.batch.open_step.frame

    @property
    def step(self) -> int:
        return self.batch.open_step.number

    @property
    def is_inside(self) -> bool:
        """Return whether this is a subgraph item whose frames are running."""
        return self.index in self.batch.frames

    @property
    def is_wanted(self) -> bool:
        """Return whether the item may start: its frames are running, and no failure or stop precedes its step."""
        open_step = self.batch.open_step
        frame = open_step.frame
        if open_step.is_void or frame.state != "running" or open_step.number > frame.limit:
            return False
        return frame.owner is None or frame.owner.is_wanted

    @property
    def path(self) -> str:
        """Return the name of the item in the run."""
        if self._path is None:
            batch = self.batch
            self._path = batch.open_step.frame.prefix + item_path(self.node.name, batch.visit, self.label)
        return self._path

    @property
    def label(self) -> int:
        """Return the index shown in the path: -1 for the only plain item of a batch."""
        return -1 if self.batch.is_single else self.index

    @property
    def payload(self) -> Mapping[str, Any] | None:
        return self.batch.payloads[self.index]

    def is_reduced(self, name: str) -> bool:
        """Return whether a value has a reducer."""
        schema = self.batch.working_state.program.graph.schema
        return schema is not None and name in schema.fields and schema.fields[name].reducer is not None

    def values(self) -> dict[str, Any]:
        """Return all values that the item sees."""
        values = self.batch.working_state.plain_values()
        payload = self.payload
        if payload:
            values.update(payload)
        return values

    def lookup(self, name: str, default: Any) -> Any:
        """Return one value that the item sees: from the payload, the state, bound values, or the default."""
        value = self.seen_value(name)
        return self.frame.program.bound.get(name, default) if value is MISSING else value

    def seen_value(self, name: str) -> Any:
        """Return one value from the payload or the state; MISSING if neither has it."""
        payload = self.batch.payloads[self.index]
        if payload is not None and name in payload:
            return payload[name]
        return self.batch.working_state.values.get(name, MISSING)

    def seen(self) -> dict[str, Any]:
        """Return the values for the boundary of a subgraph: its inputs by name, or the whole state."""
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
        """Return the item as a public WorkItem."""
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
        # what its items see: an open step gets a new working state when another batch finishes, but nothing that these
        # items read differs in it, unless an update that they depend on is rejected
        self.working_state = working = open_step.working_state
        sends = working.sends.get(number, ()) if working.sends else ()
        self.open_step = open_step
        self.number = number
        # prefix of the order of its items
        self.order: tuple[int, ...] = (*open_step.frame.order, open_step.number, number)
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
        self.stuck = 0  # of these, items that have failed, wait for an answer, or are held
        self.held: dict[int, Outcome] = {}  # outcomes that count once the step is committed
        self.cursor = 0  # items made so far
        self.frames: dict[int, list[Frame]] = {}  # index -> frames inside that item, while they run

    @property
    def start(self) -> BatchStart:
        """Return whether the batch begins with a plain item, and the loop of which it starts a turn."""
        return BatchStart(
            self.payloads[0] is None, self.working_state.program.turn_of(self.number, self.wake)
        )

    def can_continue(self) -> bool:
        """Return whether an open item can continue by itself; inside a subgraph item, none of its frames may."""
        waiting = sum(all(frame.stands() for frame in frames) for frames in self.frames.values())
        return self.open > self.stuck + waiting


_PLAIN: tuple[None] = (None,)


class OpenStep:
    """A step that is planned and not committed.

    `lookahead_state` is the working state after the step with the results so far, if lookahead needed it. It contains
    all finished batches except conflicting ones (`left_out`), and no values that custom reducers still have to produce
    (`Frame.unfinished`). The commit decides both.
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
        self.left_out = 0  # mask of finished batches that are not in `lookahead_state`
        self.is_void = False  # its attempt is over, or it depends on a rejected update
        self.lookahead_state: WorkingState | None = None
        self.written: set[str] = set()  # names that finished batches wrote
        self.targets: set[int] = set()  # nodes that finished batches have links to
        self._waiting: set[int] | None = None

    @property
    def waiting(self) -> set[int]:
        """Return the nodes that are due and do not run in this step."""
        if self._waiting is None:
            self._waiting = self.working_state.due.difference(self.batches)
        return self._waiting

    def add(self, number: int) -> Batch:
        """Add a batch of node `number` to this step."""
        if self._waiting is not None:
            self._waiting.discard(number)
        batch = self.batches[number] = Batch(self, number)
        self.open_mask |= 1 << number
        return batch

    def remove(self, number: int) -> Batch:
        """Remove the batch of node `number` from this step and discard its results."""
        batch, frame = self.batches.pop(number), self.frame
        self.open_mask &= ~(1 << number)
        self.held_mask &= ~(1 << number)
        self.left_out &= ~(1 << number)
        self._waiting = None
        batch.open_step = void = OpenStep(frame, self.number, self.working_state)
        void.batches[number] = batch
        void.drop()
        size = len(batch.order)
        frame.failures = [pair for pair in frame.failures if pair[0][:size] != batch.order]
        frame.questions = {o: asked for o, asked in frame.questions.items() if o[:size] != batch.order}
        return batch

    def outcomes(self, left_out: int = 0) -> tuple[Outcome, ...]:
        """Return the outcomes of finished batches in order, without those in `left_out`."""
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
        """Return whether nothing in this step can continue by itself."""
        return not any(batch.can_continue() for batch in self.batches.values())

    def drop(self) -> None:
        """Discard the step: ignore the results of running items and start no others."""
        self.is_void = True
        for batch in self.batches.values():
            for frames in batch.frames.values():
                for frame in frames:
                    frame.drop()


class Frame:
    """The chain of one graph while it executes."""

    __slots__ = (
        "busy",
        "ended",
        "epoch",
        "failed_at",
        "failures",
        "is_beside_failure",
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
        self.open_steps: list[OpenStep] = []  # consecutive numbers
        self.open_lookahead: dict[int, OpenStep] = {}  # incomplete steps after the first, by number
        # values that custom reducers still have to produce: name -> open steps that write it, ascending
        self.unfinished: dict[str, tuple[int, ...]] = {}
        self.limit = NO_LIMIT  # after a failure, or at a stop: no item of a later step starts
        self.failed_at = NO_LIMIT  # the lowest step with a failure that stops the frame
        self.failures: list[tuple[tuple[int, ...], Failure]] = []
        self.questions: dict[tuple[int, ...], Question] = {}  # by the order of the item that asks
        self.latest: dict[int, int] = {}  # node -> the last step of this frame in which it ran
        self.past: Past | None = None  # looks up runs of nodes before this frame was restored
        self.state: str = "running"  # planned | running | completed | failed | dropped
        self.is_beside_failure = False  # another frame of its item has failed
        # when its last item ended, and for how long its steps took; known only where an owner needs it
        self.ended, self.busy = 0.0, 0.0

    def add_times(self, outcomes: Sequence[Outcome]) -> None:
        """Add the time that a step of these outcomes took. Time that overlaps an earlier step counts once."""
        began = min(outcome.started for outcome in outcomes)
        ended = max(outcome.started + outcome.duration for outcome in outcomes)
        self.busy += max(0.0, ended - max(self.ended, began))
        self.ended = max(self.ended, ended)

    @property
    def has_failed(self) -> bool:
        """Return whether a failure stops the frame; neither a confined one nor one behind a stop does."""
        return self.failed_at < NO_LIMIT and self.failed_at <= self.limit

    def drop(self) -> None:
        """Discard the frame, because the attempt that it belongs to is over."""
        self.state = "dropped"
        for open_step in self.open_steps:
            open_step.drop()

    def stands(self) -> bool:
        """Return whether the frame has ended, or cannot continue by itself: it asks a question, is at a stop or has
        failed.
        """
        if self.state == "running":
            return all(open_step.is_drained() for open_step in self.startable_steps())
        return self.state != "planned"

    def with_inner(self) -> list[Frame]:
        """Return the frame and the frames inside the items of its open steps, at any depth."""
        found = [self]
        for open_step in self.open_steps:
            for number in sorted(open_step.batches):
                for inner in open_step.batches[number].frames.values():
                    for child in inner:
                        found.extend(child.with_inner())
        return found

    def is_next(self, open_step: OpenStep) -> bool:
        """Return whether an open step is committed next; behind a stop, none is."""
        return self.open_steps[0] is open_step and open_step.number <= self.limit

    def startable_steps(self) -> Iterator[OpenStep]:
        """Return the open steps whose items may still start."""
        return (open_step for open_step in self.open_steps if open_step.number <= self.limit)

"""A strand: one graph's chain of steps while it is being made, and the items of its open steps.

The run itself is a strand; each subgraph item holds strands of its own. A strand has a view (the state after its
last committed step) and *levels*, its open steps: the first is the next to be committed, later ones were planned
ahead. A level has batches, one per node that runs in that step; a batch has items, one per plain run or Send.

This module is data and its bookkeeping. What happens when is decided by ``clew.engine.machine``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    def strand(self) -> Frame:
        return self.batch.level.strand

    @property
    def step(self) -> int:
        return self.batch.level.number

    @property
    def is_inside(self) -> bool:
        """Whether it is a subgraph item with strands under way."""
        return self.index in self.batch.strands

    @property
    def is_wanted(self) -> bool:
        """Whether it may start: no strand around it is over, and no failure came before its step."""
        level = self.batch.level
        strand = level.strand
        if level.is_void or strand.state != "running" or level.number > strand.limit:
            return False
        return strand.owner is None or strand.owner.is_wanted

    @property
    def path(self) -> str:
        """The item's name in the run."""
        if self._path is None:
            batch = self.batch
            self._path = batch.level.strand.prefix + item_path(self.node.name, batch.visit, self.label)
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
        values = self.batch.view.plain_values()
        payload = self.payload
        if payload:
            values.update(payload)
        return values

    def lookup(self, name: str, default: Any) -> Any:
        """One value that the item sees: payload, state, bound value, then the default."""
        value = self.seen_value(name)
        return self.strand.program.bound.get(name, default) if value is MISSING else value

    def seen_value(self, name: str) -> Any:
        """One value that the item sees in its payload or in the state; MISSING if it is in neither."""
        payload = self.batch.payloads[self.index]
        if payload is not None and name in payload:
            return payload[name]
        return self.batch.view.values.get(name, MISSING)

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
        "gates",
        "held",
        "is_single",
        "level",
        "node",
        "number",
        "open",
        "order",
        "outcomes",
        "payloads",
        "strands",
        "stuck",
        "view",
        "visit",
        "wake",
    )

    def __init__(self, level: OpenStep, number: int) -> None:
        # what its items see: a level gets another view when one more batch finishes, and nothing in it that they see is
        # another then, unless an update that they build on turns out to be refused
        self.view = view = level.view
        sends = view.sends.get(number, ()) if view.sends else ()
        self.level = level
        self.number = number
        self.order: tuple[int, ...] = (*level.strand.order, level.number, number)  # the items' begins with it
        self.node = view.program.nodes[number]
        self.visit: int = view.visits[number]
        self.wake: int = view.wakes[number]
        self.payloads: tuple[Mapping[str, Any] | None, ...]
        if sends:
            plain = view.has_plain_item(number)
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
        self.strands: dict[int, list[Frame]] = {}  # index -> the strands inside that item, while they run

    @property
    def start(self) -> BatchStart:
        """How the batch starts: with a plain item or not, and of which loop it starts a turn."""
        return BatchStart(self.payloads[0] is None, self.view.program.turn_of(self.number, self.wake))


_PLAIN: tuple[None] = (None,)


class OpenStep:
    """An open step. `ahead` is the view after it with what has finished so far, if anyone needed it.

    What has finished is in that view unless two updates are in conflict: such batches are `left_out`. Whether that
    stays so is known when the step is committed. Values that custom reducers have still to make are not in it either
    (`Frame.unfinished`).
    """

    __slots__ = (
        "_waiting",
        "ahead",
        "batches",
        "held_mask",
        "is_void",
        "left_out",
        "number",
        "open_mask",
        "strand",
        "targets",
        "view",
        "written",
    )

    def __init__(self, strand: Frame, number: int, view: WorkingState) -> None:
        self.strand = strand
        self.number = number
        self.view = view
        self.batches: dict[int, Batch] = {}
        self.open_mask = 0
        self.held_mask = 0  # of these, batches of which all open items are held
        self.left_out = 0  # a mask, of batches that have finished and are not in the view ahead
        self.is_void = False  # planned for an attempt that is over, or on an outcome that did not hold
        self.ahead: WorkingState | None = None
        self.written: set[str] = set()  # names that finished batches wrote
        self.targets: set[int] = set()  # nodes that finished batches have links to
        self._waiting: set[int] | None = None

    @property
    def waiting(self) -> set[int]:
        """Nodes that are due and do not run in this step."""
        if self._waiting is None:
            self._waiting = self.view.due.difference(self.batches)
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
        batch, strand = self.batches.pop(number), self.strand
        self.open_mask &= ~(1 << number)
        self.held_mask &= ~(1 << number)
        self.left_out &= ~(1 << number)
        self._waiting = None
        batch.level = void = OpenStep(strand, self.number, self.view)
        void.batches[number] = batch
        void.drop()
        if any(outcome is not None and outcome.error is not None for outcome in batch.outcomes):
            strand.failed.discard(batch.node.name)
        size = len(batch.order)
        strand.failures = [pair for pair in strand.failures if pair[0][:size] != batch.order]
        strand.questions = {o: asked for o, asked in strand.questions.items() if o[:size] != batch.order}
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
            for strands in batch.strands.values():
                for strand in strands:
                    strand.drop()


class Frame:
    """One graph's chain in the making."""

    __slots__ = (
        "busy",
        "ended",
        "epoch",
        "failed",
        "failures",
        "latest",
        "levels",
        "limit",
        "open_ahead",
        "order",
        "owner",
        "past",
        "prefix",
        "program",
        "questions",
        "state",
        "step",
        "unfinished",
        "view",
    )

    def __init__(
        self,
        program: Program,
        view: WorkingState,
        *,
        step: int,
        prefix: str,
        order: tuple[int, ...],
        owner: Item | None,
    ) -> None:
        self.program = program
        self.view = view
        self.step = step
        self.prefix = prefix
        self.order = order
        self.owner = owner
        self.epoch: tuple[int, ...] = () if owner is None else (*owner.strand.epoch, owner.attempt)
        self.levels: list[OpenStep] = []  # open steps, with no number left out
        self.open_ahead: dict[
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
        # when its last item ended, and for how long its steps took; known only where an owner needs it
        self.ended, self.busy = 0.0, 0.0

    def add_times(self, outcomes: Sequence[Outcome]) -> None:
        """Add the time that a step of these outcomes took. What ran beside an earlier step counts once."""
        began = min(outcome.started for outcome in outcomes)
        ended = max(outcome.started + outcome.duration for outcome in outcomes)
        self.busy += max(0.0, ended - max(self.ended, began))
        self.ended = max(self.ended, ended)

    @property
    def has_failed(self) -> bool:
        """Whether a failure stops it; one that was confined does not."""
        return self.limit < NO_LIMIT

    def drop(self) -> None:
        """The attempt that it belongs to is over."""
        self.state = "dropped"
        for level in self.levels:
            level.drop()

    def open_levels(self) -> Iterator[OpenStep]:
        """The levels whose items may still be started."""
        return (level for level in self.levels if level.number <= self.limit)

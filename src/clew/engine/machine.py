"""The machine: what happened goes in, what to do comes out. No clock, no randomness, no I/O.

A driver takes items (`take`), executes them however it likes, and says what became of them: `finish`, `fail`,
`ask`. A retry comes out as a delay; when that is over the driver says `wake`. Everything else that the machine
has to say is in its `outbox`, in order, for the driver to make durable and to show: `Start`, `Step` (a step is
committed), `Journaled` (an item finished early), `Withdrawn` (and that does not hold), `Retry`, `Question`, and, when
somebody listens, `Notification`. How a step is planned and committed is in ``clew.engine.steps``.

Rules:

- The chain depends on the graph and on what nodes returned, never on when, where or in which order they ran.
- A step is committed when all its items have an outcome. The machine plans ahead: a node whose fate no
  unfinished item can touch any more starts now, as an item of its later step (``clew.engine.lookahead``).
- After a failure nothing of a later step is started; what is left of this and earlier steps still runs. The error
  is that of the lowest (step, order); `on_error="continue"` confines it to the node's descendants instead.
- An item that asks stays open. The rest goes on as far as it can; then the run is waiting.
- What is said about an item that is no longer live (timed out, dropped) changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clew.engine import frame_lifecycle, held_results, lookahead, rejected_updates, steps
from clew.engine.frame import Batch, Frame, Item, OpenStep
from clew.engine.frontier import Frontier
from clew.engine.merge import MergeFailure
from clew.engine.options import Counters, Notification, Options, PriorWork, Status, stream
from clew.engine.outcomes import read
from clew.engine.program import Program
from clew.engine.records import Failure, Outcome, Question, Retry, Start, Step, item_path
from clew.engine.working_state import WorkingState
from clew.errors import AmbiguousCallError, MutationError
from clew.graph import END, Command, Send
from clew.state import GraphState

_ROUTING = {Command, Send, type(END)}  # what a node may not simply return as its value


class Machine:
    """One run, from its first step to its last."""

    __slots__ = (
        "_is_looking",
        "_is_planned",
        "_memory",
        "counters",
        "frontier",
        "options",
        "outbox",
        "root",
        "slot",
    )

    def __init__(
        self,
        program: Program,
        view: WorkingState,
        options: Options,
        *,
        step: int = 0,
        memory: PriorWork | None = None,
    ) -> None:
        self.options = options
        self.frontier = Frontier(options.queue_depth)
        self.outbox: list[Any] = []
        self.counters = Counters()
        self.slot: Item | None = None  # the only startable item, where there is but one
        self._memory = memory
        self.root = root = Frame(program, view, step=step, prefix="", order=(), owner=None)
        if memory is not None and memory.failures:
            root.failures.extend(memory.failures)
        if view.failed:
            root.failed.update(program.names[node] for node in view.failed)
            if not root.failures:
                root.failures.extend(
                    ((step, node), frame_lifecycle.failed_before(program.names[node], step))
                    for node in view.failed
                )
        self._is_planned = False
        self._is_looking = False

    @classmethod
    def begin(cls, program: Program, values: Mapping[str, Any], options: Options) -> Machine:
        """A new run."""
        return cls(program, WorkingState.begin(program, values), options)

    @classmethod
    def restore(
        cls, program: Program, state: GraphState, options: Options, memory: PriorWork | None = None
    ) -> Machine:
        """Go on from a state."""
        return cls(program, WorkingState.restore(program, state), options, step=state.step, memory=memory)

    # -- what a driver asks ------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """Where the run stands, given that nothing is executing and no retry is pending."""
        root = self.root
        if root.state != "running":
            return "failed" if root.state == "failed" or root.failed else "completed"
        if root.has_failed:
            return "failed"
        return "waiting" if self.questions() else "running"

    def questions(self) -> tuple[Question, ...]:
        """What is asked, in order."""
        found = [pair for strand in self._strands(self.root) for pair in strand.questions.items()]
        return tuple(question for _, question in sorted(found, key=lambda pair: pair[0]))

    def _strands(self, strand: Frame) -> list[Frame]:
        found = [strand]
        for level in strand.levels:
            for number in sorted(level.batches):
                for inner in level.batches[number].strands.values():
                    for child in inner:
                        found.extend(self._strands(child))
        return found

    def take(self) -> Item | None:
        """The next item to execute, or None if there is none just now."""
        if not self._is_planned:
            self._is_planned = True
            steps.plan(self, self.root)
        while True:
            item = self.slot
            if item is not None:
                self.slot = None
            elif self.frontier:
                item = self.frontier.pop()
            else:
                return None
            if not item.is_wanted:
                continue
            if self._memory is not None and self._recall(item):
                continue
            if self._is_looking:
                continue
            if item.node.subgraph is not None and not self._is_held(item):
                frame_lifecycle.enter(self, item)
                continue
            item.live = True
            self.counters.active += 1
            if self.options.listening:
                self.notice("item_started", item, node=item.node.name, attempt=item.attempt)
            return item

    def look(self) -> None:
        """Recall what earlier work left behind of the open steps, for somebody who looks.

        Nothing is executed, entered or committed, so no code of the user runs.
        """
        self._is_looking = True
        self.take()

    def solo(self) -> bool:
        """Whether the next step is of one plain item of the run itself, and nothing else is open or asked for.

        If so the plan of that step is taken back, for `Solo` to take it the short way; `open` plans it again.
        """
        root, slot = self.root, self.slot
        options = self.options
        if options.listening or options.step_by_step:
            return False
        if not self._is_planned and self._memory is None:
            self._is_planned = True
            return True
        if (
            slot is None
            or self._memory is not None
            or slot.attempt
            or len(root.levels) != 1
            or slot.batch.level is not root.levels[0]
            or not slot.batch.is_single
            or self.counters.active
            or slot.node.subgraph is not None
        ):
            return False
        root.levels.clear()
        self.slot = None
        return True

    @property
    def has_more(self) -> bool:
        """Whether another item could be taken right now."""
        if not self._is_planned:
            self._is_planned = True
            steps.plan(self, self.root)
        return self.slot is not None or bool(self.frontier)

    def _is_held(self, item: Item) -> bool:
        """Whether the driver has to `postpone` this subgraph item; asked once."""
        held = self._memory.held if self._memory is not None else None
        if not held or item.path not in held:
            return False
        held.discard(item.path)
        return True

    def _recall(self, item: Item) -> bool:
        """Use what earlier work on this run left behind, if there is something for this item."""
        memory = self._memory
        assert memory is not None
        path = item.path
        outcome = memory.journal.get(path)
        if outcome is not None and (outcome.error is None or self.options.on_error == "continue"):
            self._accept(item, outcome)
            return True
        item.attempt = max(item.attempt, memory.attempts.get(path, 0))
        if item.node.kind == "interrupt" and not self._is_looking:
            for answer in memory.answers.get(path, {}).values():
                self._settle(item, answer, memory.answered.get(path, 0.0), 0.0)
                return True
        return False

    # -- what a driver says ------------------------------------------------------------------------------

    def finish(
        self, item: Item, value: Any, started: float = 0.0, duration: float = 0.0, *, cached: bool = False
    ) -> None:
        """The item's function returned `value`, now or, if it is `cached`, at another time."""
        if not self._returns(item):
            return
        self.counters.executed += 1
        if item.node.kind == "interrupt":
            self._ask(item, value)
        else:
            self._settle(item, value, started, duration, cached=cached)

    def fail(self, item: Item, error: BaseException, started: float = 0.0, duration: float = 0.0) -> None:
        """The item's function raised, or took too long."""
        if not self._returns(item):
            return
        self.counters.executed += 1
        self.give_up(item, error, started, duration)

    def refuse(self, item: Item, failure: MergeFailure) -> None:
        """The item's function returned, and a reducer has refused its update; the item is the only one of its step."""
        self._returns(item)
        self.counters.executed += 1
        batch = item.batch
        batch.outcomes[item.index] = failure.outcome
        batch.open = batch.level.open_mask = 0
        if rejected_updates.reject(self, batch.level, failure):
            steps.commit(self, item.strand)

    def adopt(self, item: Item, outcome: Outcome, *, cached: bool | None = None) -> None:
        """Take an outcome that was made elsewhere for the item's own."""
        if not self._returns(item):
            return
        self._accept(
            item,
            msgspec.structs.replace(
                outcome,
                node=item.node.name,
                visit=item.batch.visit,
                index=item.label,
                cached=outcome.cached if cached is None else cached,
            ),
        )

    def postpone(self, item: Item) -> None:
        """Hand an item back: its next attempt is not due yet; `wake` says when it is."""
        if self._returns(item):
            item.waited = True

    def expire(self, item: Item, error: BaseException, started: float, duration: float) -> None:
        """The item, or what happens inside it, took too long."""
        if item.is_inside:
            frame_lifecycle.abandon(self, item, error)
        else:
            self.fail(item, error, started, duration)

    def ask(self, item: Item, question: Any, about: str = "", position: str | None = None) -> None:
        """The item's function asks a question and has stopped. `about` names what else is asked about than the item;
        `position` is where in the function it is asked, by default after all that were answered."""
        if self._returns(item):
            self._ask(item, question, about, position)

    def _returns(self, item: Item) -> bool:
        """An item comes back from a worker. False if nobody waits for it any more."""
        if not item.live:
            return False
        item.live = False
        self.counters.active -= 1
        return not item.batch.level.is_void

    def wake(self, item: Item) -> None:
        """The delay of a retry is over."""
        if item.waited:
            item.waited = False
            self.frontier.push(item)

    def answer(self, item: Item, answer: Any) -> None:
        """A person answered what the item asks: an interrupt has its value, any other node starts over."""
        asked = item.strand.questions.pop(item.order)
        item.batch.stuck -= 1
        self._memory = (self._memory or PriorWork()).with_answer(asked.path, asked.position, answer)
        self.frontier.push(item)

    def forget(self, strand: Frame, nodes: Mapping[str, int]) -> tuple[Sequence[Outcome], Mapping[str, int]]:
        """What earlier work left behind of these nodes, each from a visit on, does not hold: the outcomes among it, and
        the subgraph items that it had begun, with the attempts."""
        if self._memory is None:
            return (), {}
        self._memory, outcomes = self._memory.without(strand.prefix, nodes)
        begun = self._memory.begun(strand.prefix, nodes, strand.program.graph)
        return outcomes, begun

    def begin_anew(self, path: str, attempt: int) -> None:
        """The next try of the subgraph item at `path` is attempt number `attempt`, whatever is left of others."""
        self._memory = (self._memory or PriorWork()).with_attempt(path, attempt)

    def open(self, strand: Frame) -> None:
        """Plan the first step of a strand."""
        steps.plan(self, strand)

    def recall_strand(self, prefix: str, epoch: tuple[int, ...]) -> tuple[Start, Sequence[Step]] | None:
        """What an earlier process did of the strand at `prefix`, in this same attempt of its item."""
        found = self._memory.strands.get(prefix) if self._memory is not None else None
        return found if found is not None and found[0].epoch == epoch else None

    @property
    def retraced(self) -> Mapping[tuple[str, int], Step] | None:
        """The steps that were committed before, by strand and number, if this run is retraced; None if it is new."""
        return None if self._memory is None else self._memory.retraced

    def answers(self, item: Item, about: str = "") -> Mapping[str, Any]:
        """The answers that the item's earlier questions were given, by position, in the order of the answers."""
        return {} if self._memory is None else self._memory.answers.get(item.path + about, {})

    # -- outcomes ----------------------------------------------------------------------------------------

    def _settle(
        self, item: Item, value: Any, started: float, duration: float, *, cached: bool = False
    ) -> None:
        batch = item.batch
        view = batch.view
        output = view.program.plain_outputs[batch.number]
        update: Mapping[str, Any]
        if output is not None and type(value) not in _ROUTING:
            update, decision = {output: value}, None
        else:
            try:
                update, decision = read(view.program, item.node, value, view)
            except Exception as error:
                self.give_up(item, error, started, duration, retry=False)
                return
        outcome = Outcome(
            item.node.name, batch.visit, item.label, update, decision, item.attempt, started, duration, cached
        )
        self._accept(item, outcome)

    def settle_subgraph(
        self, item: Item, value: Mapping[str, Any], started: float = 0.0, duration: float = 0.0
    ) -> None:
        """The strands of a subgraph item have ended well."""
        self.counters.executed += 1
        self._settle(item, value, started, duration)

    def _accept(self, item: Item, outcome: Outcome, failure: Failure | None = None) -> None:
        if outcome.error is None and self.options.listening:
            self.notice(
                "item_finished", item, node=outcome.node, duration=outcome.duration, update=outcome.update
            )
            if outcome.decision is not None:
                self.notice("gate_decided", item, node=outcome.node, decision=outcome.decision)
        if item.strand.program.held_nodes and held_results.is_held(item):
            held_results.hold(self, item, outcome)
        else:
            self.place(item, outcome, failure)

    def place(self, item: Item, outcome: Outcome, failure: Failure | None = None) -> None:
        """Let an outcome take effect: it is committed with its step, or journaled until then."""
        batch = item.batch
        level = batch.level
        strand = level.strand
        if outcome.error is not None:  # a failure that is confined
            strand.failed.add(outcome.node)
            found = failure or frame_lifecycle.failure_at(item, outcome.error, outcome)
            strand.failures.append((item.order, found))
        batch.outcomes[item.index] = outcome
        batch.open -= 1
        if batch.open:
            self.outbox += held_results.journaled(strand, (outcome,))
            if batch.open == batch.stuck:
                frame_lifecycle.check_drained(self, strand)
            return
        level.open_mask &= ~(1 << batch.number)
        if strand.open_ahead and not (level.open_mask or level.left_out):
            strand.open_ahead.pop(level.number, None)
        if not level.open_mask and strand.levels[0] is level and not self._is_looking:
            if len(strand.levels) > 1:
                lookahead.spread(self, strand, batch)  # the steps planned ahead have not seen this outcome
            steps.commit(self, strand)
        else:
            self.outbox += held_results.journaled(strand, (outcome,))
            lookahead.spread(self, strand, batch)
            if not (level.held_mask and held_results.release(self, strand)):
                frame_lifecycle.check_drained(self, strand)

    def give_up(
        self,
        item: Item,
        error: BaseException,
        started: float = 0.0,
        duration: float = 0.0,
        *,
        retry: bool = True,
        inside: Failure | None = None,
    ) -> None:
        """An attempt failed: try again later, or fail for good. `inside` is what failed within a subgraph item."""
        policy = item.node.policy.retry_policy
        if self.options.listening:
            self.notice("item_failed", item, node=item.node.name, error=error, attempt=item.attempt)
        strand = item.strand
        if (
            retry
            and policy is not None
            and item.attempt + 1 < policy.max_attempts
            and isinstance(error, Exception)
            # the first only a person can clear up; after the second no attempt would see what this one saw
            and not issubclass(type(error), (AmbiguousCallError, MutationError))
            and frame_lifecycle.is_retryable(policy, error)
        ):
            draw = stream(self.options.seed, item.path, item.attempt, "retry").random()
            delay = policy.delay(item.attempt, draw * policy.base_delay)
            item.attempt += 1
            item.waited = True
            self.counters.retries += 1
            self.outbox.append(Retry(item, item.path, item.attempt, delay, error, 0.0, strand.epoch))
            if self.options.listening:
                self.notice("item_retried", item, node=item.node.name, attempt=item.attempt, delay=delay)
            return
        failure = frame_lifecycle.failure_at(item, error, inside=inside)
        if self.options.on_error == "continue":
            name, visit = item.node.name, item.batch.visit
            outcome = Outcome(name, visit, item.label, {}, None, item.attempt, started, duration, error=error)
            self._accept(item, outcome, failure)
            return
        frame_lifecycle.fail(strand, item.order, item.step, failure)
        item.batch.stuck += 1
        frame_lifecycle.check_drained(self, strand)

    def _ask(self, item: Item, question: Any, about: str = "", position: str | None = None) -> None:
        number = len(self.answers(item, about))
        at = str(number) if position is None else position
        asked = Question(item.path + about, item.node.name, question, item.step, number, at)
        item.strand.questions[item.order] = asked
        item.batch.stuck += 1
        self.outbox.append(asked)
        if self.options.listening:
            self.notice("interrupted", item, node=item.node.name, question=question)
        frame_lifecycle.check_drained(self, item.strand)

    # -- what comes out ----------------------------------------------------------------------------------

    def queue(self, level: OpenStep, batches: Sequence[Batch]) -> None:
        """Put new batches of a level before the workers."""
        frontier = self.frontier
        if self.slot is not None:
            frontier.push(self.slot)
            self.slot = None
        blocks = frontier.blocks
        for batch in batches:
            frontier.push(batch)
        if self.options.listening:
            self.announce(level, batches)
            if frontier.blocks > blocks:
                self.outbox.append(
                    Notification(
                        "backpressure", level.number, level.strand.prefix, {"depth": frontier.capacity}
                    )
                )

    def announce(self, level: OpenStep, batches: Sequence[Batch]) -> None:
        """Say that these batches of a level are planned."""
        nodes = [batch.node.name for batch in batches]
        self.outbox.append(Notification("step_planned", level.number, level.strand.prefix, {"nodes": nodes}))
        prefix = level.strand.prefix
        for batch in batches:
            path = prefix + item_path(batch.node.name, batch.visit, -1)
            self.outbox.append(
                Notification(
                    "item_queued", level.number, path, {"node": batch.node.name, "items": batch.open}
                )
            )

    def failures(self) -> tuple[Failure, ...]:
        """Why the run failed: of the lowest (step, order) first, then the others of its step."""
        return frame_lifecycle.failures_of(self.root)

    def notice(self, kind: str, item: Item, **data: Any) -> None:
        """Put something to show into the outbox."""
        self.outbox.append(Notification(kind, item.step, item.path, data))

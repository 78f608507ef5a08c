"""The machine: receives what happened, returns what to do. No clock, no randomness, no I/O.

A driver takes items (`take`), executes them, and reports the result: `finish`, `fail`, `ask`. A retry is returned as a
delay; when it has passed, the driver calls `wake`. All other output goes to the `outbox`, in order, for the driver to
store and publish: `Start`, `Step` (a step is committed), `FinishedItem` (an item finished before its step), `Withdrawn`
(that result is void), `Retry`, `Question` and, with listeners, `Notification`. ``clew.engine.steps`` plans and commits
steps.

Rules:

- The chain depends on the graph and on what nodes returned, never on when, where or in which order they ran.
- A step is committed when all its items have an outcome. A node that no unfinished item can affect starts at once, as
  an item of its later step (``clew.engine.lookahead``).
- After a failure no item of a later step starts; the items of this and earlier steps still run. The error is that of
  the lowest (step, order). `on_error="continue"` confines it to the descendants of the node instead.
- An item that asks a question stays open. The rest continues as far as possible; then the run waits.
- Reports about an item that is no longer live (timed out, dropped) are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from clew.engine import edits, frame_lifecycle, lookahead, steps, stops
from clew.engine.frame import Batch, Frame, Item, OpenStep
from clew.engine.frontier import Frontier
from clew.engine.options import Counters, Notification, Options, PriorWork, Status
from clew.engine.program import Program
from clew.engine.records import Failure, Outcome, Question, Start, Step, item_path
from clew.engine.updates import failed_attempts, held_results, rejected_updates, unstorable
from clew.engine.updates.merge import MergeFailure
from clew.engine.updates.outcomes import read
from clew.engine.working_state import WorkingState
from clew.graph import END, Command, Send
from clew.state import GraphState

_ROUTING = {Command, Send, type(END)}  # return values that are not plain output


class Machine:
    """One run, from its first step to its last."""

    __slots__ = (
        "_is_planned",
        "_is_preview",
        "_prior_work",
        "around",
        "askers",
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
        working: WorkingState,
        options: Options,
        *,
        step: int = 0,
        prior_work: PriorWork | None = None,
    ) -> None:
        self.options = options
        self.frontier = Frontier(options.queue_depth)
        self.outbox: list[Any] = []
        self.counters = Counters()
        self.slot: Item | None = None  # the only startable item, if there is exactly one
        self.askers: dict[str, Item] = {}  # items with open questions, by path
        self._prior_work = prior_work
        self.around: Callable[[int, Callable[..., Any]], Callable[..., Any]] | None = None
        """Returns what the fast path calls in place of the function of a node, given by its number."""
        self.root = root = Frame(program, working, step=step, prefix="", order=(), owner=None)
        if prior_work is not None and prior_work.failures:
            root.failures.extend(prior_work.failures)
        if options.edits:
            edits.limit_lookahead(root, options.edits)
        if working.failed and all(failure.rescued for _, failure in root.failures):
            root.failures.extend(
                ((step, node), frame_lifecycle.failed_before(program.names[node], step))
                for node in working.failed
            )
        self._is_planned = False
        self._is_preview = False

    @classmethod
    def begin(cls, program: Program, values: Mapping[str, Any], options: Options) -> Machine:
        """Return the machine of a new run."""
        return cls(program, WorkingState.begin(program, values), options)

    @classmethod
    def restore(
        cls, program: Program, state: GraphState, options: Options, prior_work: PriorWork | None = None
    ) -> Machine:
        """Return a machine that continues from a state."""
        return cls(
            program, WorkingState.restore(program, state), options, step=state.step, prior_work=prior_work
        )

    # -- queries by the driver ------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """Return the status of the run, assuming that no item executes and no retry is pending."""
        root = self.root
        if root.state != "running":
            return "failed" if root.state == "failed" else "completed"
        if root.has_failed:
            return "failed"
        if self.options.stops is not None and stops.is_paused(root.with_inner()):
            return "paused"
        return "waiting" if self.questions() else "running"

    def questions(self) -> tuple[Question, ...]:
        """Return the open questions, in order."""
        found = [pair for frame in self.root.with_inner() for pair in frame.questions.items()]
        return tuple(question for _, question in sorted(found, key=lambda pair: pair[0]))

    def take(self) -> Item | None:
        """Return the next item to execute, or None if no item is ready."""
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
            if self._prior_work is not None and self._use_prior_work(item):
                continue
            if self._is_preview:
                continue
            if item.node.subgraph is not None and not self._is_held(item):
                frame_lifecycle.enter(self, item)
                continue
            item.live = True
            self.counters.active += 1
            if self.options.listening:
                self.notify("item_started", item, node=item.node.name, attempt=item.attempt)
            return item

    def preview(self) -> None:
        """Apply prior work to the open steps for read-only inspection.

        Nothing is executed, entered or committed, so no user code runs.
        """
        self._is_preview = True
        self.take()

    def enter_fast_path(self) -> bool:
        """Return whether the next step can use the fast path: one plain item of the run itself, and nothing else open.

        If so, the plan of that step is undone; `open` plans it again.
        """
        root, slot, options = self.root, self.slot, self.options
        if options.listening or options.step_by_step or options.stops is not None:
            return False
        if not self._is_planned and self._prior_work is None:
            self._is_planned = True
            return True
        if (
            slot is None
            or self._prior_work is not None
            or slot.attempt
            or len(root.open_steps) != 1
            or slot.batch.open_step is not root.open_steps[0]
            or not slot.batch.is_single
            or self.counters.active
            or slot.node.subgraph is not None
        ):
            return False
        root.open_steps.clear()
        self.slot = None
        return True

    @property
    def has_more(self) -> bool:
        """Return whether another item could be taken now."""
        if not self._is_planned:
            self._is_planned = True
            steps.plan(self, self.root)
        return self.slot is not None or bool(self.frontier)

    def _is_held(self, item: Item) -> bool:
        """Return, once, whether the driver has to `postpone` this subgraph item."""
        held = self._prior_work.held if self._prior_work is not None else None
        if not held or item.path not in held:
            return False
        held.discard(item.path)
        return True

    def _use_prior_work(self, item: Item) -> bool:
        """Use prior work for an item; return whether it has an outcome now."""
        prior_work = self._prior_work
        assert prior_work is not None
        path = item.path
        outcome = prior_work.finished.get(path)
        if outcome is not None and (outcome.error is None or self.options.on_error == "continue"):
            self.accept(item, outcome, is_restored=True)
            return True
        item.attempt = max(item.attempt, prior_work.attempts.get(path, 0))
        if item.node.kind == "interrupt" and not self._is_preview:
            for answer in prior_work.answers.get(path, {}).values():
                self._settle(item, answer, prior_work.answered.get(path, 0.0), 0.0)
                return True
        return False

    # -- reports by the driver ------------------------------------------------------------------------------

    def finish(
        self, item: Item, value: Any, started: float = 0.0, duration: float = 0.0, *, cached: bool = False
    ) -> None:
        """Report that the function of an item returned `value`; `cached` if it did not run now."""
        if not self._returns(item):
            return
        kind = item.node.kind
        if kind == "rescue":  # it does not count
            item.attempt -= 1
            self._settle(item, value, started, duration, failures=item.failures)
            return
        if not cached:
            self.counters.executed += 1
        if kind == "interrupt":
            frame_lifecycle.ask(self, item, started + duration, (value, "", None))
        else:
            self._settle(item, value, started, duration, cached)

    def fail(self, item: Item, error: BaseException, started: float = 0.0, duration: float = 0.0) -> None:
        """Report that the function of an item raised or timed out."""
        if not self._returns(item):
            return
        self.counters.executed += item.node.kind != "rescue"
        if item.node.kind == "rescue":
            item.attempt -= 1
        self.give_up(item, error, started, duration)

    def reject_update(self, item: Item, failure: MergeFailure) -> None:
        """Report that a reducer rejected the update of the only item of a step."""
        self._returns(item)
        self.counters.executed += 1
        batch = item.batch
        batch.outcomes[item.index] = failure.outcome
        batch.open = batch.open_step.open_mask = 0
        if rejected_updates.reject(self, batch.open_step, failure):
            steps.commit(self, item.frame)

    def adopt(self, item: Item, outcome: Outcome, *, cached: bool | None = None) -> None:
        """Use an outcome from elsewhere as the outcome of an item."""
        if not self._returns(item):
            return
        self.accept(
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
        """Return an item whose next attempt is not due yet; `wake` starts it later."""
        if self._returns(item):
            item.waited = True

    def expire(self, item: Item, error: BaseException, started: float, duration: float) -> None:
        """Report that an item, or the work inside it, timed out."""
        if item.is_inside:
            frame_lifecycle.abandon(self, item, error)
        else:
            self.fail(item, error, started, duration)

    def ask(
        self,
        item: Item,
        question: Any,
        about: str = "",
        position: str | None = None,
        others: Sequence[tuple[Any, str, str]] = (),
        when: float = 0.0,
    ) -> None:
        """Report that an item asked questions and stopped; `position` is by default after all answered ones."""
        if self._returns(item):
            frame_lifecycle.ask(self, item, when, (question, about, position), *others)

    def _returns(self, item: Item) -> bool:
        """Mark an item as returned by its worker; return False if its result is no longer wanted."""
        if not item.live:
            return False
        item.live = False
        self.counters.active -= 1
        return not item.batch.open_step.is_void

    def wake(self, item: Item) -> None:
        """Queue an item whose retry delay has passed."""
        if item.waited:
            item.waited = False
            self.frontier.push(item)

    def know_answer(self, asked: Question, answer: Any, when: float) -> None:
        """Take an answer that an item finds when it starts over."""
        known = self._prior_work or PriorWork()
        self._prior_work = known.with_answer(asked.path, asked.position, answer, when)

    def forget(self, frame: Frame, nodes: Mapping[str, int]) -> tuple[Sequence[Outcome], Mapping[str, int]]:
        """Remove prior work of these nodes from a visit on; return its outcomes, and attempts of begun subgraphs."""
        if self._prior_work is None:
            return (), {}
        self._prior_work, outcomes = self._prior_work.without(frame.prefix, nodes)
        return outcomes, self._prior_work.begun(frame.prefix, nodes, frame.program.graph)

    def start_attempt(self, path: str, attempt: int) -> None:
        """Set the number of the next attempt of the subgraph item at `path`."""
        self._prior_work = (self._prior_work or PriorWork()).with_attempt(path, attempt)

    def open(self, frame: Frame) -> None:
        """Plan the first step of a frame."""
        steps.plan(self, frame)

    def prior_frame(self, prefix: str, epoch: tuple[int, ...]) -> tuple[Start, Sequence[Step]] | None:
        """Return the prior work on the frame at `prefix` from the same attempt of its item, or None."""
        found = self._prior_work.frames.get(prefix) if self._prior_work is not None else None
        return found if found is not None and found[0].epoch == epoch else None

    @property
    def retraced(self) -> Mapping[tuple[str, int], Step] | None:
        """Return the committed steps by frame and number if this run retraces them; None otherwise."""
        return None if self._prior_work is None else self._prior_work.retraced

    def answers(self, item: Item, about: str = "") -> Mapping[str, Any]:
        """Return the answers to the questions of an item, by position, in the order of the answers."""
        return {} if self._prior_work is None else self._prior_work.answers.get(item.path + about, {})

    # -- outcomes ----------------------------------------------------------------------------------------

    def _settle(
        self,
        item: Item,
        value: Any,
        started: float,
        duration: float,
        cached: bool = False,
        failures: tuple[Failure, ...] = (),
    ) -> None:
        batch = item.batch
        working = batch.working_state
        output = working.program.plain_outputs[batch.number]
        update: Mapping[str, Any]
        if output is not None and type(value) not in _ROUTING:
            update, decision = {output: value}, None
        else:
            try:
                update, decision = read(working.program, batch.node, value, working)
            except Exception as error:
                self.give_up(item, error, started, duration, retry=False)
                return
        if self.options.durable and (refusal := unstorable.refusal(item, self.options, update, decision)):
            self.give_up(item, refusal, started, duration, retry=False)
            return
        outcome = Outcome(
            item.node.name, batch.visit, item.label, update, decision, item.attempt, started, duration, cached
        )
        if failures:
            is_rescued = item.node.kind == "rescue"
            outcome = msgspec.structs.replace(outcome, failures=failures, rescued=is_rescued)
            if is_rescued and self.options.listening:
                self.notify("item_rescued", item, node=item.node.name, error=failures[0].error)
        self.accept(item, outcome)

    def settle_subgraph(
        self,
        item: Item,
        value: Mapping[str, Any],
        started: float = 0.0,
        duration: float = 0.0,
        failures: tuple[Failure, ...] = (),
    ) -> None:
        """Report that the frames of a subgraph item have completed; `failures` are those that were rescued inside."""
        self.counters.executed += 1
        self._settle(item, value, started, duration, failures=failures)

    def accept(self, item: Item, outcome: Outcome, is_restored: bool = False) -> None:
        """Take the outcome of an item; `is_restored` if it finished before the run was resumed."""
        if outcome.error is None and self.options.listening:
            about = {"node": outcome.node, **({"restored": True} if is_restored else {})}
            self.notify("item_finished", item, **about, duration=outcome.duration, update=outcome.update)
            if outcome.decision is not None:
                self.notify("gate_decided", item, **about, decision=outcome.decision)
        if item.batch.open_step.frame.program.held_nodes and held_results.is_held(item):
            held_results.hold(self, item, outcome)
        else:
            self.place(item, outcome)

    def place(self, item: Item, outcome: Outcome) -> None:
        """Apply an outcome: commit it with its step, or log it as a finished item until then."""
        batch = item.batch
        open_step = batch.open_step
        frame = open_step.frame
        if outcome.failures:
            frame.failures += [(item.order, failure) for failure in outcome.failures]
        elif outcome.error is not None:  # a confined failure
            failure = frame_lifecycle.failure_at(item, outcome.error, outcome)
            frame.failures.append((item.order, failure))
        batch.outcomes[item.index] = outcome
        batch.open -= 1
        if batch.open:
            held_results.log_finished(self, frame, outcome)
            if batch.open == batch.stuck:
                frame_lifecycle.check_drained(self, frame)
            return
        open_step.open_mask &= ~(1 << batch.number)
        if frame.open_lookahead and not (open_step.open_mask or open_step.left_out):
            frame.open_lookahead.pop(open_step.number, None)
        if not open_step.open_mask and frame.is_next(open_step) and not self._is_preview:
            if len(frame.open_steps) > 1:
                lookahead.plan_after(self, frame, batch)  # later open steps do not contain this outcome yet
            steps.commit(self, frame)
        else:
            held_results.log_finished(self, frame, outcome)
            lookahead.plan_after(self, frame, batch)
            if not (open_step.held_mask and held_results.release(self, frame)):
                frame_lifecycle.check_drained(self, frame)

    give_up = failed_attempts.give_up

    # -- output ----------------------------------------------------------------------------------

    def queue(self, open_step: OpenStep, batches: Sequence[Batch]) -> None:
        """Queue new batches of an open step."""
        frontier = self.frontier
        if self.slot is not None:
            frontier.push(self.slot)
            self.slot = None
        blocks = frontier.blocks
        for batch in batches:
            frontier.push(batch)
        if self.options.listening:
            self.announce(open_step, batches)
            if frontier.blocks > blocks:
                self.outbox.append(
                    Notification(
                        "backpressure", open_step.number, open_step.frame.prefix, {"depth": frontier.capacity}
                    )
                )

    def announce(self, open_step: OpenStep, batches: Sequence[Batch]) -> None:
        """Notify listeners that these batches are planned."""
        nodes, prefix = [batch.node.name for batch in batches], open_step.frame.prefix
        self.outbox.append(Notification("step_planned", open_step.number, prefix, {"nodes": nodes}))
        for batch in batches:
            path = prefix + item_path(batch.node.name, batch.visit, -1)
            self.outbox.append(
                Notification(
                    "item_queued", open_step.number, path, {"node": batch.node.name, "items": batch.open}
                )
            )

    def failures(self) -> tuple[Failure, ...]:
        """Return the failures of the run: first the one that stops it, then the others, then the rescued ones.

        Those inside subgraph items that have not ended follow.
        """
        root = self.root
        found = frame_lifecycle.failures_of(root) if root.failures else ()
        return (*found, *frame_lifecycle.failures_of_open_items(root)) if root.open_steps else found

    def notify(self, kind: str, item: Item, **data: Any) -> None:
        """Add a notification to the outbox."""
        self.outbox.append(Notification(kind, item.step, item.path + data.pop("about", ""), data))

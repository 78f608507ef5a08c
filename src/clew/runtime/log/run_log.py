"""The log of a run in memory, built from its records.

If two records describe the same thing, the later one counts: a new attempt of a subgraph item restarts its frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from clew.engine.edits import is_by_hand
from clew.engine.history.chain import Chain
from clew.engine.history.reasons import RunLineage
from clew.engine.program import Program, program_of
from clew.engine.records import (
    FailedStep,
    Failure,
    FinishedItem,
    Outcome,
    Question,
    Retry,
    SingleItemStep,
    Start,
    Step,
    Withdrawn,
)
from clew.engine.stops import Stops
from clew.errors import UnknownRunError
from clew.graph import Graph
from clew.runtime.log.checkpoints import Checkpoint, Origin
from clew.runtime.log.checks.fingerprints import conflict_rule
from clew.runtime.log.checks.schema_changes import with_defaults
from clew.runtime.log.entries.call_records import CallIntent, RecordedCall
from clew.runtime.log.entries.records import AcceptedChanges, AnswerRecord, Filled, LabelRecord, ResumeRecord
from clew.runtime.log.entries.stop_records import StopsRecord, first_stops
from clew.runtime.log.entries.wait_records import (
    SignalRecord,
    WaitEnd,
    WaitRecord,
    finish_waits,
)
from clew.runtime.log.frames import is_interrupt
from clew.runtime.log.metrics import Measured, Totals, has_failed_inside, lifetime
from clew.runtime.log.snapshots import SinceSnapshot
from clew.state import GraphState, Position, assemble, position_of
from clew.stores import Message, RunRow


class RunLog(msgspec.Struct):
    """The content of a run's log."""

    row: RunRow
    start: GraphState
    on_conflict: str
    steps: list[Step]
    finished: dict[str, Outcome]
    answers: dict[str, dict[str, Any]]  # by path and position, in the order of the answers
    attempts: dict[str, int]
    frames: dict[str, tuple[Start, list[Step]]]
    asked: dict[str, Question]
    labels: dict[str, int]
    calls: list[RecordedCall]
    answered: dict[str, float] = {}  # by path: when the last answer was given
    # numbers of all entries of finished items, also of earlier attempts
    finished_entries: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    resumption: int = 0  # how often the run was resumed after a failure
    due: dict[str, tuple[float, float]] = {}  # item -> time of its next attempt, and the delay before it
    since: SinceSnapshot | None = None  # the steps after the snapshot that the log starts from
    accepted: int = 0  # number of accepted changes
    filled: Filled = {}  # defaults of fields that were added later
    stops: Stops | None = None  # where the run stops
    stop_records: int = 0  # number of records of stops
    measured: list[Measured] = []  # queue statistics of each resumption
    failures: list[
        tuple[tuple[int, ...], Failure]
    ] = []  # confined and rescued, before `start`, with their order
    failed_steps: set[int] = set()  # the steps with such failures
    digests: dict[str, list[str]] = {}  # of the states of each frame, as stored
    waits: list[WaitRecord] = []
    wait_ends: dict[tuple[str, int], WaitEnd] = {}  # by path and number
    signals: dict[tuple[str, int], SignalRecord] = {}  # by name and number: that no wait has taken
    messages: Sequence[Message] = ()  # that were in the inbox
    has_children: bool = False

    @property
    def questions(self) -> list[Question]:
        """The open questions."""
        return list(self.asked.values())

    def outcomes(self) -> dict[str, Outcome]:
        """Return the outcomes of all items by path: those in steps, also of subgraphs, and finished items."""
        found = {outcome.path: outcome for step in self.steps for outcome in step.outcomes}
        for prefix, (_, steps) in self.frames.items():
            found.update((prefix + outcome.path, outcome) for step in steps for outcome in step.outcomes)
        found.update(self.finished)
        return found

    def rescued(self) -> dict[str, Outcome]:
        """Return the outcomes of rescued items by path. To retrace a run, neither node nor rescue is called."""
        return {path: outcome for path, outcome in self.outcomes().items() if outcome.rescued}

    def totals(self, graph: Graph) -> Totals:
        """Return the counters of the run so far."""
        first = self.row.parent_step
        if first is None:  # a run may start from a given state; with a snapshot, `start` is not that state
            first = 0 if self.since is not None and self.since.weight else self.start.step
        inner = [o for _, steps in self.frames.values() for step in steps for o in step.outcomes]
        known = self.outcomes()
        asking = sum(is_interrupt(graph, path) for path in {*self.asked, *self.answers} if path not in known)
        failed = [f.path for o in known.values() if has_failed_inside(o) for f in o.failures]
        lost = sum(1 for path in failed if path not in known)
        return lifetime(
            self.start.step + len(self.steps) - first,
            self.steps,
            [*inner, *self.finished.values()],
            sum(attempt for path, attempt in self.attempts.items() if path not in known),
            self.resumption + self._has_final_failure(known) + asking + lost,
            self.measured,
        )

    def _has_final_failure(self, known: Mapping[str, Outcome]) -> bool:
        """Return whether an item failed without an outcome in the log; a confined failure is an outcome."""
        if self.row.status != "failed":
            return False
        return not any(failure.path in known for failure in self.row.failures if not failure.rescued)

    def steps_by_place(self) -> dict[tuple[str, int], Step]:
        """Return the steps of the run and of its subgraphs by frame and number."""
        found = {("", step.number): step for step in self.steps}
        for prefix, (_, steps) in self.frames.items():
            found.update(((prefix, step.number), step) for step in steps)
        return found

    @property
    def edits(self) -> dict[tuple[str, int], Step]:
        """The steps that a person made, by frame and number."""
        return {place: step for place, step in self.steps_by_place().items() if is_by_hand(step.outcomes)}

    def chain(self, program: Program) -> Chain:
        return self._chain(program, "", self.start, self.steps)

    def inner_chain(self, graph: Graph, prefix: str) -> Chain:
        """Return the chain of the frame at `prefix`, whose graph is `graph`."""
        start, steps = self.frames[prefix]
        return self._chain(program_of(graph, start.given), prefix, start_state(start, self.row.seed), steps)

    def _chain(self, program: Program, prefix: str, start: GraphState, steps: Sequence[Step]) -> Chain:
        return Chain(
            program,
            start,
            steps,
            seed=self.row.seed,
            on_conflict=self.on_conflict,
            digests=self.digests.get(prefix, ()),
        )

    def label(self, label: str) -> int:
        """Return the step with a label. Raise UnknownRunError if no step has it."""
        if label not in self.labels:
            labels = ", ".join(map(repr, self.labels)) or "none"
            raise UnknownRunError(f"run {self.row.run_id!r} has no label {label!r}; its labels: {labels}")
        return self.labels[label]

    def step_of(self, chain: Chain, step: int | str | None) -> int:
        """Return the number of a step, given as a number, a label, or None for the last one."""
        run = self.row.run_id
        if step is None:
            return chain.last
        if isinstance(step, str):
            return self.label(step)
        if not chain.first <= step <= chain.last:
            raise UnknownRunError(
                f"run {run!r} has no step {step}; it has steps {chain.first} to {chain.last}"
            )
        return step

    def checkpoints(self, chain: Chain, graph: Graph, *, nested: bool, prefix: str = "") -> list[Checkpoint]:
        """Return one checkpoint for each state of a chain."""
        names: dict[int, list[str]] = {}
        for label in sorted(self.labels) if not prefix else ():
            names.setdefault(self.labels[label], []).append(label)
        calls = self.calls_by_item(prefix)
        attempts = self.retried(chain.steps, prefix)
        found: list[Checkpoint] = []
        timestamp = self.row.created
        for number, state in enumerate(chain.states(), start=chain.first):
            step = chain.steps[number - chain.first - 1] if number > chain.first else None
            outcomes = step.outcomes if step is not None else ()
            # a subgraph mapped over an empty list has no times
            timestamp = max((timestamp, *(o.started + o.duration for o in outcomes)))
            found.append(
                Checkpoint(
                    run_id=self.row.run_id,
                    step_id=number,
                    state=state,
                    rng_seed=self.row.seed,
                    timestamp=timestamp,
                    label=names[number][0] if number in names else None,
                    labels=tuple(names.get(number, ())),
                    items=tuple(prefix + outcome.path for outcome in outcomes),
                    by_hand=is_by_hand(outcomes),
                    cached=tuple(prefix + outcome.path for outcome in outcomes if outcome.cached),
                    nested=self._nested(graph, prefix, outcomes) if nested else {},
                    recorded_ios=tuple(call for o in outcomes for call in calls.get(prefix + o.path, ())),
                    _origin=Origin(chain.program, prefix, attempts, partial(chain.last_run, step=number)),
                )
            )
        return found

    def retried(self, steps: Sequence[Step], prefix: str = "") -> dict[str, int]:
        """Return the retries of items by path: of these steps of the frame at `prefix`, and of open items."""
        done = {prefix + o.path: o.attempt for step in steps for o in step.outcomes if o.attempt}
        return {**self.attempts, **done}

    def calls_by_item(self, prefix: str = "") -> dict[str, list[RecordedCall]]:
        """Return the recorded calls by the item of the frame at `prefix` that contains them."""
        found: dict[str, list[RecordedCall]] = {}
        for call in self.calls:
            if call.path.startswith(prefix):
                item, inside, _ = call.path[len(prefix) :].partition("/")
                found.setdefault(prefix + item, []).append(call)
                if inside and item.endswith("]"):  # one frame of a mapped item, or one item of a batch
                    found.setdefault(prefix + item[: item.rindex("[")], []).append(call)
        return found

    def _nested(
        self, graph: Graph, prefix: str, outcomes: Sequence[Outcome]
    ) -> Mapping[str, tuple[Checkpoint, ...]]:
        found: dict[str, tuple[Checkpoint, ...]] = {}
        for outcome in outcomes:
            inside = None if outcome.by_hand else graph.nodes[outcome.node].subgraph
            if inside is None:
                continue
            path = prefix + outcome.path
            for inner in self.frames:
                if inner == f"{path}/" or (
                    inner.startswith(f"{path}[") and inner.count("/") == path.count("/") + 1
                ):
                    chain = self.inner_chain(inside.graph, inner)
                    found[inner[:-1]] = tuple(
                        self.checkpoints(chain, inside.graph, nested=True, prefix=inner)
                    )
        return found


def with_accepted(row: RunRow, accepted: AcceptedChanges) -> RunRow:
    """Return the row with the accepted graph, with which the run continues."""
    return msgspec.structs.replace(
        row, structure=accepted.structure, codes=accepted.codes, description=accepted.description
    )


def start_state(start: Start, seed: int) -> GraphState:
    """Return S(0) of a frame."""
    return assemble(
        values=dict(start.values),
        versions=dict.fromkeys(start.values, 0),
        decisions={},
        terminated=False,
        position=Position(seed=seed, given=start.given, filled=start.filled),
        history={},
    )


def fill(log: RunLog, filled: Filled) -> None:
    """Add missing defaults to the initial states of a run and its frames."""
    log.filled = filled
    log.start = with_defaults(log.start, filled.get("", {}))
    for prefix, (start, steps) in log.frames.items():
        more = {name: value for name, value in filled.get(prefix, {}).items() if name not in start.values}
        if more:
            begun = msgspec.structs.replace(
                start, values={**start.values, **more}, filled=start.filled | more.keys()
            )
            log.frames[prefix] = (begun, steps)


def lineage_of(log: RunLog, parent: Callable[[str], RunLog]) -> RunLineage:
    """Return the steps of a run and of the runs that it was forked from."""
    start, steps = log.start, list(log.steps)
    outside = [(start.step, position_of(start).touched)]
    while log.row.parent is not None:
        log = parent(log.row.parent)
        steps[:0] = [step for step in log.steps if step.number <= start.step]
        start = log.start
        outside.append((start.step, position_of(start).touched))
    return RunLineage(start, steps, outside)


def read_log(row: RunRow, start: GraphState, records: Iterable[Any], on_conflict: str) -> RunLog:
    """Build the log from records in any order."""
    collected = _Collected(RunLog(row, start, on_conflict, [], {}, {}, {}, {}, {}, {}, []))
    collected.log.stops = first_stops(row.codes)
    for record in records:
        _TAKE[type(record)](collected, record)
    return collected.log_of(on_conflict)


class _Collected:
    """The records of a log, sorted by kind until all of them are read."""

    def __init__(self, log: RunLog) -> None:
        self.log = log
        self.inner: list[Step] = []
        self.finished: list[FinishedItem] = []
        self.retries: list[Retry] = []
        self.answers: dict[str, dict[int, AnswerRecord]] = {}
        self.done: set[str] = set()  # items of committed steps

    # -- one record at a time ----------------------------------------------------------------------------

    def step(self, step: Step) -> None:
        (self.inner if step.prefix else self.log.steps).append(step)
        self.done.update(step.prefix + outcome.path for outcome in step.outcomes)

    def withdrawn(self, withdrawn: Withdrawn) -> None:
        # only in memory: a store that encodes has dropped the entries
        gone = (withdrawn.path, withdrawn.epoch)
        self.finished = [each for each in self.finished if (each.path, each.epoch) != gone]
        for path in [path for path in self.log.asked if withdrawn.covers(path)]:
            del self.log.asked[path]

    def start(self, start: Start) -> None:
        known = self.log.frames.get(start.prefix)
        if known is None or known[0].epoch <= start.epoch:
            self.log.frames[start.prefix] = (start, [])

    def question(self, question: Question) -> None:
        asked, known = self.log.asked, self.log.asked.get(question.path)
        if known is None or known.number < question.number:
            asked[question.path] = question
        elif known.number == question.number:  # asked again by a resumed run, at a later time
            asked[question.path] = msgspec.structs.replace(question, time=known.time)

    def answer(self, answer: AnswerRecord) -> None:
        self.answers.setdefault(answer.path, {})[answer.number] = answer

    def accepted(self, accepted: AcceptedChanges) -> None:
        log = self.log
        if accepted.n >= log.accepted:
            log.accepted, log.filled = accepted.n + 1, accepted.filled
            log.row = with_accepted(log.row, accepted)

    def stops(self, stops: StopsRecord) -> None:
        log = self.log
        if stops.n >= log.stop_records:
            log.stop_records, log.stops = stops.n + 1, stops.stops

    def resumed(self, resumed: ResumeRecord) -> None:
        self.log.resumption = max(self.log.resumption, resumed.resumption)

    # -- all of them together ----------------------------------------------------------------------------

    def log_of(self, on_conflict: str) -> RunLog:
        """Finish the log: remove records of earlier attempts, and questions with an answer."""
        log = self.log
        for step in self.inner:
            if self._is_current(step.prefix, step.epoch):
                log.frames[step.prefix][1].append(step)
        self._finish_retries()
        self._take_finished()
        if log.filled:
            fill(log, log.filled)
        log.on_conflict = conflict_rule(log.row.codes, on_conflict)
        log.answers = {
            path: {numbered[n].position: numbered[n].answer for n in sorted(numbered)}
            for path, numbered in self.answers.items()
        }
        log.answered = {path: numbered[max(numbered)].time for path, numbered in self.answers.items()}
        for path, question in list(log.asked.items()):
            item = path.partition("!")[0]  # the path of a question about a call or of a child is item!call...
            is_over = item in self.done or item in log.finished
            if is_over or question.number < len(log.answers.get(path, ())):
                del log.asked[path]
        finish_waits(log)
        return log

    def _is_current(self, prefix: str, epoch: tuple[int, ...]) -> bool:
        """Return whether a record in a frame belongs to the current attempt of the enclosing items."""
        frame = self.log.frames.get(prefix)
        return frame is not None and frame[0].epoch == epoch

    def _finish_retries(self) -> None:
        log = self.log
        for retry in self.retries:
            path = retry.path
            is_current = not retry.epoch or self._is_current(path[: path.rfind("/") + 1], retry.epoch)
            if is_current and retry.attempt >= log.attempts.get(path, 0):
                log.attempts[path], log.due[path] = retry.attempt, (retry.due, retry.delay)

    def _take_finished(self) -> None:
        log = self.log
        for each in sorted(self.finished, key=lambda each: each.n):
            if each.path in self.done:
                continue
            log.finished_entries.setdefault((each.path, each.epoch), []).append(each.n)
            if not each.prefix or self._is_current(each.prefix, each.epoch):
                log.finished[each.path] = each.outcome


_TAKE: dict[type, Callable[[_Collected, Any], None]] = {
    SingleItemStep: lambda found, single: found.step(single.step()),
    Step: _Collected.step,
    FinishedItem: lambda found, item: found.finished.append(item),
    Withdrawn: _Collected.withdrawn,
    Start: _Collected.start,
    Retry: lambda found, retry: found.retries.append(retry),
    Question: _Collected.question,
    AnswerRecord: _Collected.answer,
    LabelRecord: lambda found, label: found.log.labels.update({label.label: label.step}),
    FailedStep: lambda found, failed: found.log.failed_steps.add(failed.number),
    AcceptedChanges: _Collected.accepted,
    StopsRecord: _Collected.stops,
    **dict.fromkeys((WaitRecord, WaitEnd, SignalRecord), lambda found, each: each.join(found.log)),
    Measured: lambda found, measured: found.log.measured.append(measured),
    ResumeRecord: _Collected.resumed,
    CallIntent: lambda found, intent: None,  # the recorder looks them up
    RecordedCall: lambda found, call: found.log.calls.append(call),
}

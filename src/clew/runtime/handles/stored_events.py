"""Events made from the log of a run, for readers in any process.

A stored step gives the events of its items (`item_finished` or `item_failed`, and `gate_decided`), then
`step_committed`. Published data that was emitted before a step comes before it. Questions that are open now, the failed
items of a step that was not committed, and the status of a run that has stopped come last; for these, only the latest
value is reported, not their history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from clew.engine.options import MOVING
from clew.engine.records import Question, Step
from clew.runtime.handles.event_position import EventPosition, asked
from clew.runtime.log.entries.records import ANSWER, PUBLISHED, QUESTION, PublishedData, names_of
from clew.runtime.log.reader import RunReader, StoredRun
from clew.runtime.reporting.events import Event
from clew.stores import RunRow
from clew.stores.protocol import LAST

_SOME = 500  # steps that are read at a time


FOLLOWED = names_of(QUESTION, ANSWER, PUBLISHED)
"""The kinds whose entries a follower reads besides steps."""


def open_questions(runs: RunReader, run_id: str) -> list[Question]:
    """Return the open questions of a run. The log is read only if a question has no answer; its item may have ended in
    another way."""
    if runs.store.encodes:
        found = runs.store.within(run_id, names_of(QUESTION, ANSWER))
        answers = Counter(entry.path for entry in found if entry.kind == ANSWER.name)
        if not any(entry.kind == QUESTION.name and entry.n >= answers[entry.path] for entry in found):
            return []
    return runs.open(run_id).log().questions


class StoredReading(NamedTuple):
    """Events of one read, the row of the run before it, and whether more steps are stored."""

    events: list[Event]
    row: RunRow
    has_more: bool


class StoredEvents:
    """Reads the events of one run after a position, which moves behind them."""

    def __init__(
        self, runs: RunReader, run_id: str, position: EventPosition, now: Callable[[], float]
    ) -> None:
        self._runs = runs
        self._run_id = run_id
        self._position = position
        self._now = now

    def read(self, upto: int | None = None, below: int = LAST) -> StoredReading:
        """Read steps up to a number, and published data below a number; without `upto`, also questions and status."""
        run, position = self._runs.open(self._run_id), self._position
        row, events = run.row, list[Event]()
        if position.step is None:
            events.append(self._started(run))
        assert position.step is not None
        last = min(LAST if upto is None else upto, position.step + _SOME)
        steps = run.steps_between(position.step, last)
        has_more = len(steps) == _SOME
        emitted = [each for each in run.published(position.emitted) if each.n < below]
        for step in steps:
            while emitted and emitted[0].after < step.number:
                events.append(self._emitted(emitted.pop(0)))
            events += self._step(step)
        if not has_more:
            events += [self._emitted(each) for each in emitted if upto is None or each.after <= upto]
            if upto is None:
                events += self.questions()
                events += self._finished(row)
        return StoredReading(events, row, has_more)

    def _started(self, run: StoredRun) -> Event:
        start = run.start()
        self._position.step = start.step
        data = {"graph": run.row.graph, "values": start.values}
        return self._event("run_started", start.step, "", run.row.created, data)

    def _step(self, step: Step) -> list[Event]:
        position, skipped = self._position, self._position.items
        events: list[Event] = []
        ended = 0.0
        for outcome in step.outcomes:
            path, node, time = outcome.path, outcome.node, outcome.started + outcome.duration
            ended = max(ended, time)
            if outcome.error is not None:
                data = {"node": node, "error": outcome.error, "attempt": outcome.attempt}
                events.append(Event("item_failed", self._run_id, step.number, path, time, data))
            else:
                data = {"node": node, "duration": outcome.duration, "update": outcome.update}
                events.append(Event("item_finished", self._run_id, step.number, path, time, data))
            if outcome.decision is not None:
                data = {"node": node, "decision": outcome.decision}
                events.append(Event("gate_decided", self._run_id, step.number, path, time, data))
        tagged = []
        for event in events[skipped:]:
            position.items += 1
            tagged.append(position.tag(event))
        position.step, position.items = step.number, 0
        data = {"items": len(step.outcomes)}
        return [*tagged, self._event("step_committed", step.number, "", ended, data)]

    def _emitted(self, emitted: PublishedData) -> Event:
        self._position.emitted = emitted.n
        data = {"node": emitted.node, "name": emitted.name, "data": emitted.data, "number": emitted.n}
        return self._event("emitted", emitted.step, emitted.path, emitted.time, data)

    def questions(self) -> list[Event]:
        """Return the questions that are open now and were not delivered."""
        questions = open_questions(self._runs, self._run_id)
        found = {asked(each.path, each.number, each.question): each for each in questions}
        new, now = self._position.learn(found), self._now()
        return [
            self._event(
                "interrupted",
                question.step,
                question.path,
                now,
                {"node": question.node, "question": question.question, "number": question.number},
            )
            for name, question in found.items()
            if name in new
        ]

    def _finished(self, row: RunRow) -> list[Event]:
        """Return the end of a run that has stopped, unless it was resumed while its steps were read."""
        position = self._position
        if row.status in MOVING:
            return []
        latest = self._runs.open(self._run_id).row
        if (latest.status, latest.updated) != (row.status, row.updated):
            return []
        cursor = position.cursor
        if not position.ends(row.status, row.updated):
            return []
        failed = [replace(event, cursor=cursor) for event in self._failed(row)]  # a cursor there repeats them
        error = row.failures[0].error if row.failures else None
        assert position.step is not None
        data = {"status": row.status, "error": error}
        return [*failed, self._event("run_finished", position.step, "", row.updated, data)]

    def _failed(self, row: RunRow) -> Iterator[Event]:
        """Yield the failed items of the step that was not committed."""
        assert self._position.step is not None
        for failure in row.failures:
            if failure.node and failure.path and not failure.rescued and failure.step > self._position.step:
                data = {"node": failure.node, "error": failure.error, "attempt": failure.attempts - 1}
                yield Event("item_failed", self._run_id, failure.step, failure.path, row.updated, data)

    def _event(self, kind: str, step: int, path: str, time: float, data: Mapping[str, object]) -> Event:
        return self._position.tag(Event(kind, self._run_id, step, path, time, data))  # type: ignore[arg-type]

"""What ran when: the items of a range of steps as columns, and the items that have no committed step yet.

Times are relative to the creation of the run. An open item is one that has ended ahead of its step, asks, sleeps, waits
for its next attempt, failed, or executes now. What executes is known from the row of the worker that has the run; if
that does not say it, these are the items that would run next, marked as guessed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, TypeAlias

import msgspec

from clew.engine.records import Outcome, Retry, Step
from clew.error_text import encodable, line_of
from clew.errors import UnknownRunError
from clew.graph import Send
from clew.runtime.log.entries.records import ANSWER, CALL, QUESTION, RETRY, STEP, WAIT
from clew.runtime.log.entries.wait_records import WaitRecord
from clew.runtime.log.reader import StoredRun
from clew.runtime.log.run_log import RunLog
from clew.stores import RunRow
from clew.stores.protocol import LAST
from clew.views.run.stored_steps import counts_of, first_of, planned_steps, record_of, steps_of

Json = dict[str, Any]

MOST_ITEMS = 5_000
MOST_STEPS = 2_000
_NAMES = (
    "path",
    "node",
    "step",
    "start",
    "duration",
    "attempt",
    "cached",
    "calls",
    "failed",
    "by_hand",
    "wrote",
    "chose",
)

_LONGEST = 400


class Columns:
    """The items of some steps, as columns."""

    def __init__(self, origin: float, calls: Mapping[str, int]) -> None:
        self._origin = origin
        self._calls = calls
        self.columns: dict[str, list[Any]] = {name: [] for name in _NAMES}
        self.paths: set[str] = set()

    def __len__(self) -> int:
        return len(self.columns["path"])

    def add(self, step: Step) -> None:
        """Add the items of a step."""
        for outcome in step.outcomes:
            self.add_item(step.number, step.prefix + outcome.path, outcome)

    def add_item(self, number: int, path: str, outcome: Outcome) -> None:
        self.paths.add(path)
        row = (
            encodable(path),
            encodable(outcome.node),
            number,
            round(outcome.started - self._origin, 6) if outcome.started else None,
            round(outcome.duration, 6),
            outcome.attempt,
            int(outcome.cached),
            self._calls.get(path, 0),
            int(outcome.error is not None or bool(outcome.failures)),
            int(outcome.by_hand),
            [encodable(name) for name in outcome.update],
            targets_of(outcome),
        )
        for name, value in zip(_NAMES, row, strict=True):
            self.columns[name].append(value)


def targets_of(outcome: Outcome) -> list[str]:
    """Return where a gate has sent the run: names, each with how many Sends it got."""
    decision = outcome.decision
    if not decision:
        return []
    if len(decision) == 1 and isinstance(decision[0], str):
        return [encodable(decision[0])]
    chosen = Counter(choice.target if isinstance(choice, Send) else str(choice) for choice in decision)
    return [
        encodable(name) if number == 1 else f"{encodable(name)} ×{number}" for name, number in chosen.items()
    ]


def window(run: StoredRun, first: int, last: int) -> Json:
    """Return the items of steps `first` to `last`, or from the first step that the run has."""
    run_id = run.row.run_id
    newest = run.store.last(run_id, STEP.name, "", LAST)
    begin = first_of(run)
    end = begin if newest is None else newest.n
    if first > end + 1:
        raise UnknownRunError(f"run {run_id!r} has no step {first}; it has steps {begin} to {end}")
    first = max(first, begin + 1)
    last = min(last, first + MOST_STEPS - 1)
    counts = counts_of(run.store, run_id)
    columns = Columns(run.row.created, calls_of(counts))
    following = None
    for step in steps_of(run, first, min(last, end)):
        if len(columns) and len(columns) + len(step.outcomes) > MOST_ITEMS:
            following = step.number
            break
        columns.add(step)
    if following is None and last < end:
        following = last + 1
    found: Json = {
        "from": first,
        "to": min(last, end) if following is None else following - 1,
        "last": end,
        "next": following,
        "origin": run.row.created,
        "columns": columns.columns,
    }
    paths = set(columns.paths)
    if last >= end:
        found["open"] = open_items(run)
        paths.update(item["path"] for item in found["open"])
    found["attempts"] = attempts_of(run, paths, counts)
    found["waits"] = waits_of(run, paths, counts)
    return found


def attempts_of(run: StoredRun, paths: set[str] | None, counts: Mapping[Any, int] | None = None) -> Json:
    """Return the failed attempts of items by path; of all items for None."""
    counts = counts_of(run.store, run.row.run_id) if counts is None else counts
    if not any(kind == RETRY.name for kind, _ in counts):
        return {}
    found: dict[str, list[Json]] = {}
    for entry in run.store.within(run.row.run_id, (RETRY.name,)):
        retry: Retry = record_of(run, entry)
        if paths is None or retry.path in paths:
            found.setdefault(encodable(retry.path), []).append(attempt_json(retry, run.row.created))
    return found


def waits_of(run: StoredRun, paths: set[str], counts: Mapping[Any, int]) -> Json:
    """Return when items slept, waited for a signal or asked, by path. An end that is not stored is None."""
    found: dict[str, list[Json]] = {}
    origin, kinds = run.row.created, {kind for kind, _ in counts}

    def add(path: str, reason: str, start: float | None, end: float | None) -> None:
        if start and path in paths:
            each = {
                "for": encodable(reason),
                "start": round(start - origin, 6),
                "end": _after(origin, end),
            }
            found.setdefault(encodable(path), []).append(each)

    for entry in run.store.within(run.row.run_id, (WAIT.name,)) if WAIT.name in kinds else ():
        wait: WaitRecord = record_of(run, entry)
        if wait.reason != "question":
            add(wait.item, wait.name or wait.reason, begin_of(wait), None if wait.name else wait.due)
    if QUESTION.name in kinds:
        answers = {}
        for entry in run.store.within(run.row.run_id, (ANSWER.name,)):
            answer = record_of(run, entry)
            answers[answer.path, answer.number] = answer.time
        for entry in run.store.within(run.row.run_id, (QUESTION.name,)):
            asked = record_of(run, entry)
            end = answers.get((asked.path, asked.number))
            add(asked.path.partition("!")[0], "answer", asked.time, end)
    return found


def open_items(run: StoredRun) -> list[Json]:
    """Return the items without a committed step."""
    row = run.row
    if row.status in ("completed", "compensated"):
        return []
    log, calls = run.log(), calls_of(counts_of(run.store, row.run_id))
    numbers = {path: step.number for step in planned_steps(run, log) for path in step.paths}
    found: dict[str, Json] = {}
    for path, state, more in chain(_recorded(row, log), _unrecorded(run, log, numbers)):
        if path not in found:
            found[path] = {
                "path": encodable(path),
                "node": encodable(path.rpartition("/")[2].partition("#")[0].partition("!")[0]),
                "state": state,
                "step": numbers.get(path),
                "start": None,
                "duration": None,
                "attempt": log.attempts.get(path, 0),
                "calls": calls.get(path, 0),
                "due": None,
                "guessed": False,
                **more,
            }
    return list(found.values())


def _unrecorded(run: StoredRun, log: RunLog, numbers: Mapping[str, int]) -> Iterator[OpenItem]:
    """Yield items that the log does not show: those that a worker says it executes, or that come next."""
    row = run.row
    done = {outcome.path for step in log.steps for outcome in step.outcomes}
    executing = {path: at for path, at in _executing(run).items() if path not in done}
    for path, at in executing.items():
        yield path, "running", {"start": at and round(at - row.created, 6)}
    owner = run.store.owner(row.run_id) if row.status == "running" else None
    is_executed = owner is not None and owner.holds  # a lost run executes nothing
    if row.status in ("running", "queued", "sleeping"):
        now = time.time()
        for path, (due, _) in log.due.items():
            if due > now:
                yield path, "retrying", {"due": due - row.created}
            elif executing or not is_executed:
                yield path, "next", {}
    if not executing and row.status in ("running", "queued", "paused", "cancelled", "failed"):
        state = "running" if is_executed else "next"
        for path in [path for path in numbers if path not in log.finished][:MOST_ITEMS]:
            yield path, state, {"guessed": True}


def _executing(run: StoredRun) -> dict[str, Any]:
    """Return the items of a run that its worker says it executes, with their starts."""
    owner = run.store.owner(run.row.run_id) if run.row.status == "running" else None
    if owner is None or not owner.holds:
        return {}
    for worker in run.store.workers():
        if worker.owner == owner.name:
            for each in worker.info.get("running", ()):
                if isinstance(each, dict) and each.get("run") == run.row.run_id:
                    return _items(each.get("items", ()))
    return {}


OpenItem: TypeAlias = tuple[str, str, Json]
"""The path of an item without a committed step, its state, and what is known about it."""


def _recorded(row: RunRow, log: RunLog) -> Iterator[OpenItem]:
    """Yield the items that the log shows. An item may come twice: its first state counts."""
    origin = row.created
    for path, outcome in log.finished.items():
        yield (
            path,
            "done",
            {
                "start": round(outcome.started - origin, 6),
                "duration": round(outcome.duration, 6),
                "attempt": outcome.attempt,
                "wrote": [encodable(name) for name in outcome.update],
                "chose": targets_of(outcome),
            },
        )
    for question in log.questions:
        asked = {"step": question.step, "start": _after(origin, question.time)}
        yield question.path.partition("!")[0], "asks", asked
    for failure in row.failures if row.status == "failed" else ():
        if failure.path and not failure.rescued:
            began = {"start": _after(origin, failure.started), "duration": failure.duration}
            yield failure.path, "failed", {"step": failure.step, **began}
    for wait in log.waits:
        if (wait.path, wait.n) not in log.wait_ends:
            begin, due = begin_of(wait), None if wait.due is None else wait.due - origin
            reason = "sleep" if wait.reason == "sleep" else encodable(wait.name)
            yield (
                wait.item,
                "sleeping",
                {"due": due, "start": begin and round(begin - origin, 6), "for": reason or None},
            )


def _after(origin: float, time: float | None) -> float | None:
    """Return a time in seconds after the start of the run, or None if it is not known."""
    return round(time - origin, 6) if time else None


def _items(listed: Any) -> dict[str, Any]:
    try:
        return dict(msgspec.convert(listed, list[tuple[str, float]]))
    except msgspec.ValidationError:
        return {}


def calls_of(counts: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Return how many calls each item has recorded."""
    return {path: number for (kind, path), number in counts.items() if kind == CALL.name}


def begin_of(wait: WaitRecord) -> float | None:
    """Return when a wait began, as far as it is known."""
    return None if wait.due is None or wait.seconds is None else wait.due - wait.seconds


def attempt_json(retry: Retry, origin: float) -> Json:
    """Return a failed attempt."""
    start = _after(origin, retry.started)
    return {
        "attempt": retry.attempt - 1,
        "start": start,
        "end": None if start is None else round(start + retry.duration, 6),
        "due": _after(origin, retry.due),
        "error": encodable(line_of(retry.error))[:_LONGEST],
    }

"""What happened to a run in addition to its steps, by time: retries, questions, answers, resumes, labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from clew.error_text import encodable, line_of
from clew.runtime.log.entries.records import (
    ACCEPTED,
    ANSWER,
    LABEL,
    QUESTION,
    RESUME,
    RETRY,
    SIGNAL,
    WAIT,
    WAITED,
)
from clew.runtime.log.reader import StoredRun
from clew.runtime.review.value_diff import one_line
from clew.views.questions import title_of
from clew.views.run.stored_steps import record_of
from clew.views.run.timeline import begin_of
from clew.views.run_rows import is_over
from clew.views.shown import shown

Json = dict[str, Any]

MOST = 500
_SHOWN = 2_000


def journal_json(run: StoredRun, after: int, limit: int) -> Json:
    """Return a page of entries, the oldest first."""
    found = sorted(_entries(run), key=lambda each: (each["time"] is None, each["time"] or 0.0))
    for number, each in enumerate(found):
        each["n"] = number
    page = found[after : after + limit]
    return {
        "entries": page,
        "next": after + limit if len(found) > after + limit else None,
        "count": len(found),
    }


def _entries(run: StoredRun) -> Iterator[Json]:
    row = run.row
    yield _entry("started", row.created, "", f"fork of {row.parent}" if row.parent else "")
    kinds = (RETRY, QUESTION, ANSWER, RESUME, LABEL, ACCEPTED, WAIT, WAITED, SIGNAL)
    for kind in kinds:
        for stored in run.store.within(row.run_id, (kind.name,)):
            record = record_of(run, stored)
            yield from _READ[kind.name](record)
    for failure in row.failures:
        end = failure.started + failure.duration if failure.started else row.updated
        text, data = line_of(failure.error), {"attempts": failure.attempts, "rescued": failure.rescued}
        yield _entry("failed", end, failure.path, text, data)
    if is_over(row):
        yield _entry("ended", row.updated, "", row.status)
    for child in run.store.rows(of=row.run_id)[:MOST]:
        yield _entry("child", child.created, child.place, child.run_id, {"run": child.run_id})


def _entry(
    kind: str, time: float | None, path: str, text: str, data: Json | None = None, by: str = ""
) -> Json:
    return {
        "n": 0,
        "time": time or None,
        "kind": kind,
        "path": encodable(path) or None,
        "text": encodable(text)[:_SHOWN],
        "data": data or {},
        "by": encodable(by) or None,
    }


def _retry(record: Any) -> Iterator[Json]:
    data = {"attempt": record.attempt - 1, "due": record.due or None, "delay": record.delay}
    if record.started:
        data["started"] = record.started
    when = record.started + record.duration if record.started else max(record.due - record.delay, 0.0)
    yield _entry("retry", when, record.path, line_of(record.error), data)


def _question(record: Any) -> Iterator[Json]:
    yield _entry("question", record.time, record.path, title_of(record.question), {"number": record.number})
    if record.error:
        yield _entry("refused", None, record.path, record.error, {"number": record.number})


def _answer(record: Any) -> Iterator[Json]:
    data = {"number": record.number, "answer": shown(record.answer, _SHOWN)[0]}
    yield _entry("answer", record.time, record.path, one_line(record.answer)[:200], data, record.by)


def _wait(record: Any) -> Iterator[Json]:
    what = {"sleep": "sleeps", "signal": f"waits for {record.name!r}", "question": "waits for an answer"}
    data = {"due": record.due, "seconds": record.seconds}
    yield _entry("wait", begin_of(record), record.path, what.get(record.reason, "waits"), data)


def _waited(record: Any) -> Iterator[Json]:
    what = {"over": "its time came", "signal": f"got {record.name!r}", "late": "nothing came in time"}
    yield _entry("waited", None, record.path, what.get(record.how, "it went on without it"))


_READ: dict[str, Callable[[Any], Iterator[Json]]] = {
    RETRY.name: _retry,
    QUESTION.name: _question,
    ANSWER.name: _answer,
    RESUME.name: lambda r: iter([_entry("resume", r.time, "", "resumed", {"number": r.resumption}, r.by)]),
    LABEL.name: lambda r: iter([_entry("label", None, "", r.label, {"step": r.step})]),
    ACCEPTED.name: lambda r: iter([_entry("accepted", None, "", "a changed graph was accepted")]),
    WAIT.name: _wait,
    WAITED.name: _waited,
    SIGNAL.name: lambda r: iter([_entry("signal", r.time, "", r.name, {"value": shown(r.value, _SHOWN)[0]})]),
}

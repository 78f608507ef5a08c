"""The kinds of log entries: one table.

A store keeps entries, each named by its kind, a path and a number. For each kind this table defines the record class,
the encoding, the numbering, and when a resume reads it. Other modules use the table and spell no kind.

==========  ==================  =============  ==============================================================
kind        path                n              body
==========  ==================  =============  ==============================================================
start       the frame           0              its values, and the names of the given ones
step        the frame           its number     its outcomes; the digest is that of the state after it
journal     the item            a count        the outcome of a finished item, until its step is committed; the last
                                               entry counts
call        the item            a count        a recorded call, with its attempt and number
intent      the item            a count        a call or a whole node that is about to run, or that has ended
retry       the item            the attempt    when the next attempt is due, and why
question    the item            its number     the question, its position in the node, the time, and the type of the
                                               answer
answer      the item            its number     the answer, the position of the question, the time, and who answered
label       the label           0              a step
failures    ""                  its step       nothing: the step contains failures that were confined or rescued
resume      ""                  a count        a resume after a failure: the time, and who resumed it
accepted    ""                  a count        the accepted graph: structure, fingerprints, and defaults of fields that
                                               were added after the run began
stops       ""                  a count        where the run stops from a resume on, and the stops that it has passed
measured    ""                  a count        the counters of a resumption
wait        the item            a count        a durable wait: ``clew.runtime.log.entries.wait_records``
waited      the item            of the wait    the end of a wait
signal      its name            of the message a signal that no wait has taken
published   ""                  a count        data of ``ctx.emit``; only the last `MOST_PUBLISHED` are stored
snapshot    ""                  a step         the whole state: ``clew.runtime.log.snapshots``
==========  ==================  =============  ==============================================================

The log in memory keeps records instead of entries. Two of its record classes are never stored: `SingleItemStep`, a
short form of `Step`, and `Withdrawn`, which removes a finished item.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from clew.engine.records import FailedStep, FinishedItem, Question, Retry, Start, Step
from clew.engine.updates.deltas import NO_DELTAS, deltas_from
from clew.runtime.log.entries.call_records import CallIntent, RecordedCall
from clew.runtime.log.entries.stop_records import StopsRecord
from clew.runtime.log.entries.stored_errors import error_of, plain_error
from clew.runtime.log.entries.wait_records import (
    SignalRecord,
    WaitEnd,
    WaitRecord,
    decode_end,
    decode_signal,
    decode_wait,
    encode_end,
    encode_signal,
    encode_wait,
)
from clew.runtime.log.metrics import Measured
from clew.stores import LogEntry
from clew.stores.protocol import OWN_STEP

if TYPE_CHECKING:
    from clew.runtime.log.entries.codec import EntryDecoder, EntryEncoder

# -- records that only the log has -------------------------------------------------------------------------------


class AnswerRecord(msgspec.Struct, frozen=True):
    """An answer to the question that the item at `path` asked at `position`."""

    path: str
    answer: Any
    number: int = 0
    position: str = "0"
    time: float = 0.0  # in seconds since the epoch
    by: str = ""  # who answered, as far as it is known


class LabelRecord(msgspec.Struct, frozen=True):
    """A label of S(step)."""

    label: str
    step: int


class ResumeRecord(msgspec.Struct, frozen=True):
    """A resume after a failure. Exceptions recorded in earlier resumptions no longer count."""

    resumption: int
    time: float = 0.0  # in seconds since the epoch
    by: str = ""  # who resumed it, as far as it is known


Filled = Mapping[str, Mapping[str, Any]]
"""Defaults of fields that were added to schemas after a run began, by frame ("" for the root) and name.

The run reads as if it had started with them; no digest covers them. Each record repeats those of earlier records.
"""


class AcceptedChanges(msgspec.Struct, frozen=True):
    """The changed graph or conflict rule that the run continues with."""

    n: int
    structure: str
    codes: Mapping[str, str]
    description: Any = ""  # as in the row of the run
    filled: Filled = {}


class PublishedData(msgspec.Struct, frozen=True):
    """Data that a node published with ``ctx.emit``, after step `after` of the run and before the next one."""

    n: int
    path: str
    node: str
    name: str
    data: Any
    step: int  # of the item, in its frame
    after: int
    time: float


MOST_PUBLISHED = 1_000
LARGEST_PUBLISHED = 64 * 1024  # bytes; larger data would become blobs, which are stored as long as the run


# -- the table -------------------------------------------------------------------------------------------------------


Encoded = tuple[str, int, Any]
"""The path, the number and the body of an entry."""

Need = Literal["always", "open", "last", "never"]
"""Which entries of a kind a resume reads: all, those of items without a committed step, only the last one, or none."""


class Kind(msgspec.Struct, frozen=True):
    """One kind of entries."""

    name: str
    record: type
    noun: str  # plural, for messages
    need: Need
    first: int | None  # the number of the first entry of a path; None if numbers may have gaps
    encode: Callable[[Any, EntryEncoder], Encoded]
    decode: Callable[[LogEntry, Any, EntryDecoder], Any]
    is_temporary: bool = False  # entries are dropped while the run continues


def _encode_start(start: Start, out: EntryEncoder) -> Encoded:
    body = [out.values(start.values), sorted(start.given), list(start.epoch)]
    return with_epoch(start.prefix, start.epoch), 0, body


def _decode_start(entry: LogEntry, body: Any, into: EntryDecoder) -> Start:
    prefix, _ = without_epoch(entry.path)
    return Start(prefix, body[0], frozenset(body[1]), tuple(body[2]))


def _encode_step(step: Step, out: EntryEncoder) -> Encoded:
    body: Any = [out.outcome(outcome) for outcome in step.outcomes]
    if step.deltas:
        body = {"o": body, "m": out.deltas(step.deltas)}
    elif len(body) == 1:
        body = body[0]
    return with_epoch(step.prefix, step.epoch), step.number, body


def _decode_step(entry: LogEntry, body: Any, into: EntryDecoder) -> Step:
    prefix, epoch = without_epoch(entry.path)
    deltas = NO_DELTAS
    if isinstance(body, dict):
        body, deltas = body["o"], deltas_from(body["m"])
    elif body and isinstance(body[0], str):
        body = [body]
    return Step(prefix, entry.n, tuple(map(into.outcome, body)), epoch or _first_attempts(prefix), deltas)


def _encode_finished(finished: FinishedItem, out: EntryEncoder) -> Encoded:
    path = with_epoch(finished.path, finished.epoch)
    return path, finished.n, [out.outcome(finished.outcome), list(finished.epoch)]


def _decode_finished(entry: LogEntry, body: Any, into: EntryDecoder) -> FinishedItem:
    path, _ = without_epoch(entry.path)
    outcome = into.outcome(body[0])
    return FinishedItem(path[: len(path) - len(outcome.path)], outcome, tuple(body[1]), entry.n)


def _encode_call(call: RecordedCall, out: EntryEncoder) -> Encoded:
    at, (args, kwargs) = f"call {call.path}", call.request
    body = [
        out.value(call.name, at),
        out.value([list(args), dict(kwargs)], at),
        out.value(call.response, at),
        None if call.error is None else out.value(plain_error(call.error), at),
        call.timestamp,
        call.duration,
        call.awaited,
        call.attempt,
        _plain_place(call.place),
        list(call.epoch),
        call.resumption,
    ]
    return call.path, call.n, body


def _decode_call(entry: LogEntry, body: Any, into: EntryDecoder) -> RecordedCall:
    name, request, response, error, timestamp, duration, awaited, attempt, number, epoch, resumption = body
    return RecordedCall(
        path=entry.path,
        attempt=attempt,
        number=_place(number)[-1],
        name=name,
        request=(tuple(request[0]), request[1]),
        response=response,
        error=None if error is None else error_of(error, to_handle=True),
        timestamp=timestamp,
        duration=duration,
        awaited=awaited,
        epoch=tuple(epoch),
        resumption=resumption,
        n=entry.n,
        within=_place(number)[:-1],
    )


def _plain_place(place: tuple[int, ...]) -> Any:
    """Encode the place of a call: its number, or for a nested call a list of numbers."""
    return place[0] if len(place) == 1 else list(place)


def _place(plain: Any) -> tuple[int, ...]:
    return tuple(plain) if isinstance(plain, list) else (plain,)


def _encode_intent(intent: CallIntent, out: EntryEncoder) -> Encoded:
    body = [
        out.value(intent.name, f"intent {intent.path}"),
        intent.attempt,
        _plain_place(intent.place),
        list(intent.epoch),
    ]
    return intent.path, intent.n, [*body, True] if intent.is_settled else body


def _decode_intent(entry: LogEntry, body: Any, into: EntryDecoder) -> CallIntent:
    name, attempt, number, epoch, *settled = body
    *within, last = _place(number)
    return CallIntent(entry.path, attempt, last, name, tuple(epoch), entry.n, bool(settled), tuple(within))


def _encode_retry(retry: Retry, out: EntryEncoder) -> Encoded:
    path = with_epoch(retry.path, retry.epoch)
    body = [retry.delay, out.value(plain_error(retry.error), f"retry {path}"), retry.due]
    return path, retry.attempt, [*body, retry.started, retry.duration] if retry.started else body


def _decode_retry(entry: LogEntry, body: Any, into: EntryDecoder) -> Retry:
    path, epoch = without_epoch(entry.path)
    delay, error, due, *times = body
    return Retry(None, path, entry.n, delay, error_of(error), due, epoch or _first_attempts(path), *times)


def _encode_question(question: Question, out: EntryEncoder) -> Encoded:
    asked = out.value(question.question, f"question {question.path}")
    body = [question.node, asked, question.step, question.position, question.error, question.time]
    if question.schema is not None:
        body += [out.value(question.schema, f"question {question.path}"), question.type]
    return question.path, question.number, body


def _encode_answer(answer: AnswerRecord, out: EntryEncoder) -> Encoded:
    given = out.value(answer.answer, f"answer {answer.path}")
    body = [given, answer.position, answer.time]
    return answer.path, answer.number, [*body, answer.by] if answer.by else body


def _encode_accepted(accepted: AcceptedChanges, out: EntryEncoder) -> Encoded:
    body: list[Any] = [accepted.structure, dict(accepted.codes), accepted.description]
    filled = {frame: out.values(values) for frame, values in accepted.filled.items()}
    return "", accepted.n, [*body, filled] if filled else body


def _encode_stops(stops: StopsRecord, out: EntryEncoder) -> Encoded:
    passed = [[prefix, list(epoch), steps] for (prefix, epoch), steps in stops.passed.items()]
    return "", stops.n, [list(stops.before), list(stops.after), passed]


def _decode_stops(entry: LogEntry, body: Any, into: EntryDecoder) -> StopsRecord:
    before, after, passed = body
    known = {(prefix, tuple(epoch)): steps for prefix, epoch, steps in passed}
    return StopsRecord(entry.n, tuple(before), tuple(after), known)


def _encode_published(data: PublishedData, out: EntryEncoder) -> Encoded:
    stored = out.value(data.data, f"data emitted at {data.path}")
    return "", data.n, [data.path, data.node, data.name, stored, data.step, data.after, data.time]


def _encode_snapshot(record: Any, out: EntryEncoder) -> Encoded:
    raise TypeError("a snapshot is not a record; encode it with clew.runtime.log.snapshots")


STEP = Kind(OWN_STEP, Step, "steps inside subgraphs", "open", 1, _encode_step, _decode_step)
START = Kind("start", Start, "starts of subgraphs", "open", None, _encode_start, _decode_start)
JOURNAL = Kind(
    "journal", FinishedItem, "finished items", "always", None, _encode_finished, _decode_finished, True
)
CALL = Kind("call", RecordedCall, "recorded calls", "open", 0, _encode_call, _decode_call)
INTENT = Kind("intent", CallIntent, "intended calls", "open", 0, _encode_intent, _decode_intent)
RETRY = Kind("retry", Retry, "retries", "always", 1, _encode_retry, _decode_retry)
QUESTION = Kind(
    "question",
    Question,
    "questions",
    "always",
    0,
    _encode_question,
    lambda entry, body, into: Question(entry.path, body[0], body[1], body[2], entry.n, *body[3:]),
    is_temporary=True,
)
ANSWER = Kind(
    "answer",
    AnswerRecord,
    "answers",
    "always",
    0,
    _encode_answer,
    lambda entry, body, into: AnswerRecord(entry.path, body[0], entry.n, *body[1:]),
)
LABEL = Kind(
    "label",
    LabelRecord,
    "labels",
    "always",
    None,
    lambda label, out: (label.label, 0, label.step),
    lambda entry, body, into: LabelRecord(entry.path, body),
)
FAILURES = Kind(
    "failures",
    FailedStep,
    "steps with failures",
    "always",
    None,
    lambda failed, out: ("", failed.number, None),
    lambda entry, body, into: FailedStep(entry.n),
)
RESUME = Kind(
    "resume",
    ResumeRecord,
    "resumes",
    "always",
    1,
    lambda resumed, out: ("", resumed.resumption, [resumed.time, resumed.by]),
    lambda entry, body, into: ResumeRecord(entry.n, *(body or ())),
)
ACCEPTED = Kind(
    "accepted",
    AcceptedChanges,
    "accepted changes",
    "always",
    0,
    _encode_accepted,
    lambda entry, body, into: AcceptedChanges(entry.n, *body),
)
MEASURED = Kind(
    "measured",
    Measured,
    "measurements",
    "always",
    0,
    lambda measured, out: ("", measured.n, [measured.peak, measured.blocks]),
    lambda entry, body, into: Measured(entry.n, body[0], body[1]),
)
WAIT = Kind("wait", WaitRecord, "waits", "always", 0, encode_wait, decode_wait)
WAITED = Kind("waited", WaitEnd, "ends of waits", "always", None, encode_end, decode_end)
SIGNAL = Kind("signal", SignalRecord, "signals", "always", None, encode_signal, decode_signal, True)
STOPS = Kind("stops", StopsRecord, "stops", "always", 0, _encode_stops, _decode_stops)
PUBLISHED = Kind(
    "published",
    PublishedData,
    "pieces of published data",
    "never",
    None,
    _encode_published,
    lambda entry, body, into: PublishedData(entry.n, *body),
    is_temporary=True,
)
SNAPSHOT = Kind(
    "snapshot", type(None), "snapshots", "last", None, _encode_snapshot, lambda entry, body, into: None
)

_TABLE = (
    STEP,
    START,
    JOURNAL,
    CALL,
    INTENT,
    RETRY,
    QUESTION,
    ANSWER,
    LABEL,
    FAILURES,
    RESUME,
    ACCEPTED,
    STOPS,
    WAIT,
    WAITED,
    SIGNAL,
    MEASURED,
    PUBLISHED,
    SNAPSHOT,
)
KINDS = {kind.name: kind for kind in _TABLE}
KIND_OF = {kind.record: kind for kind in _TABLE if kind is not SNAPSHOT}
"""The kind of a record, by its class. The encoder handles `SingleItemStep` itself."""


def names_of(*kinds: Kind) -> tuple[str, ...]:
    """Return the names of kinds."""
    return tuple(kind.name for kind in kinds)


def is_own_step(entry: LogEntry) -> bool:
    """Return whether an entry is a step of the root frame, not of a subgraph."""
    return entry.kind == OWN_STEP and not entry.path


def describe_entry(entry: LogEntry) -> str:
    """Return a description of an entry for messages."""
    if entry.kind != OWN_STEP:
        return f"{entry.kind} {entry.path}" if entry.path else f"{entry.kind} {entry.n}"
    return f"step {entry.n} of {entry.path}" if entry.path else f"step {entry.n}"


# -- paths -----------------------------------------------------------------------------------------------------------


def with_epoch(path: str, epoch: tuple[int, ...]) -> str:
    """Return the path in the store. Later attempts of an enclosing item have different paths."""
    return f"{path}@{'.'.join(map(str, epoch))}" if any(epoch) else path


def without_epoch(path: str) -> tuple[str, tuple[int, ...]]:
    """Split a path in the store into path and epoch; the epoch of first attempts is ()."""
    bare, at, epoch = path.partition("@")
    return bare, tuple(int(attempt) for attempt in epoch.split(".")) if at else ()


def _first_attempts(path: str) -> tuple[int, ...]:
    return (0,) * path.count("/")

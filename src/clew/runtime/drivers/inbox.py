"""The inbox of a run that executes here: receives the messages that other processes have sent.

- A message is logged in the transaction that removes it from the inbox. So a crash neither loses nor repeats it.
- A background thread of the engine reads the inboxes (`LeaseRenewer`), and so does a sender in the same process. This
  thread writes the log. It passes the messages to the driver and wakes it.
- If an answer is not valid for its question, the question stays open, with the error. A sender that has the graph
  checks answers before it sends them.
- A session that is about to wait for a person reads the inbox once more, because an answer may have arrived while
  another branch was executing.
- A cancellation stays in the inbox until the run has ended, because only then it has taken effect. A run that is
  resumed after its end discards it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from clew.errors import ClewError, InputError
from clew.runtime.drivers.durable_waits import WAITING, AnswerMail, waits_of
from clew.runtime.log.checks.answer_checks import check_answers
from clew.runtime.log.entries.codec import EntryEncoder
from clew.runtime.log.entries.records import AnswerRecord
from clew.runtime.log.entries.wait_records import SignalRecord
from clew.state import decode, encode
from clew.stores import Store
from clew.stores.protocol import Message
from clew.stores.queue import FINAL

if TYPE_CHECKING:
    from clew.graph import Graph
    from clew.runtime.drivers.session import Session
    from clew.runtime.log.reader import RunReader
    from clew.runtime.log.run_log import RunLog
SIGNAL, ANSWER, CANCEL = "signal", "answer", "cancel"
"""The kinds of messages."""


def packed(store: Store, body: Sequence[Any]) -> Any:
    """Return the body of a message. Raise EncodeError if a value cannot be stored."""
    return encode(list(body), at="message", ordered=True) if store.encodes else tuple(body)


def unpacked(store: Store, message: Message) -> Any:
    """Return the parts of a message."""
    return decode(message.body) if store.encodes else message.body


def wake_here(store: Store, run_id: str) -> None:
    """Make a session of this process read its inbox now."""
    session = WAITING.get((id(store), run_id))
    if session is not None and session.wake_driver is not None:
        collect(session, session.runs)


def collect(session: Session, runs: RunReader) -> None:
    """Receive the messages to a run that executes here, from any thread."""
    store, mail = runs.store, list[Any]()
    if not store.inbox(session.run_id):
        return
    waits = waits_of(session)
    with waits.receiving:
        for message in store.inbox(session.run_id):
            if message.kind == CANCEL:
                session.is_called_off = True
                session.stop()
            elif message.kind == SIGNAL:
                name, value = unpacked(store, message)
                signal = SignalRecord(name, message.n, value, session.clock.time())
                _log(store, session.run_id, session.fence, [signal], message)
                mail.append(signal)
            else:
                mail += _answered(session, runs, message)
        waits.mail += mail
    if mail and session.wake_driver is not None:
        session.wake_driver()


def may_have_answers(session: Session) -> bool:
    """Return whether a session that has nothing left to do waits for answers that could be in its inbox."""
    return session.machine.status == "waiting" and not session.is_stopping and session.outer is None


def has_answers(session: Session) -> bool:
    """Receive the answers in the inbox of a session that may have some; return whether there is one."""
    collect(session, session.runs)
    return session.waits is not None and bool(session.waits.mail)


def _log(store: Store, run_id: str, fence: int, records: Sequence[Any], message: Message) -> None:
    """Log what a message says, and remove it."""
    entries, blobs = records, dict[str, bytes]()
    if store.encodes:
        encoder = EntryEncoder({}, 0.0)
        entries = [encoder.entry(record) for record in records]
        blobs = dict(encoder.blobs)
    store.append(run_id, entries, fence, blobs=blobs, received=[message.n])


def _answered(session: Session, runs: RunReader, message: Message) -> list[AnswerMail]:
    """Log an answer, and return it for the driver, or its refusal."""
    log = runs.open(session.run_id).log()
    if not log.questions and not session.writer.is_lasting:
        return []  # its questions are stored when it ends
    graph = session.machine.root.program.graph
    given = (runs.store, session.run_id, session.fence, log, graph, message, session.clock.time())
    return _taken(*given, waits_of(session).answering)


def _taken(
    store: Store,
    run_id: str,
    fence: int,
    log: RunLog,
    graph: Graph,
    message: Message,
    now: float,
    answering: Callable[[str, str], AbstractContextManager[bool]] = lambda path, position: nullcontext(True),
) -> list[AnswerMail]:
    """Log an answer in the transaction that removes it; return it, or its refusal."""
    path, position, value, by, is_json = unpacked(store, message)
    asked = log.asked.get(path)
    # it asks nothing, or something else: the answer came too late
    if asked is None or asked.position != position:
        _log(store, run_id, fence, [], message)
        return []
    try:
        answer = check_answers(log, {}, {path: value}, graph, is_json=is_json)[path]
    except InputError as error:
        _log(store, run_id, fence, [], message)
        return [AnswerMail(path, refusal=str(error))]
    with answering(path, position) as is_in_time:
        record = AnswerRecord(path, answer, asked.number, position, now, by)
        _log(store, run_id, fence, [record] if is_in_time else [], message)
    return [AnswerMail(path, answer, now)] if is_in_time else []


def receive_answers(
    runs: RunReader, log: RunLog, fence: int, graph: Graph, now: float
) -> tuple[RunLog, list[AnswerMail]]:
    """Receive the answers to a run that is about to be resumed; return the log with them, and those that were refused.
    A run that has ended also discards cancellations."""
    store, run_id, refused = runs.store, log.row.run_id, list[AnswerMail]()
    for message in log.messages:
        if message.kind == ANSWER:
            found = _taken(store, run_id, fence, log, graph, message, now)
            refused += [mail for mail in found if mail.refusal]
            log = runs.open(run_id).log()
        elif message.kind == CANCEL and log.row.status in FINAL:
            _log(store, run_id, fence, [], message)
    return log, refused


def unread_signals(store: Store, messages: Sequence[Message]) -> list[SignalRecord]:
    """Return the signals among messages."""
    found = [message for message in messages if message.kind == SIGNAL]
    return [
        SignalRecord(name, message.n, value)
        for message in found
        for name, value in [unpacked(store, message)]
    ]


def look_at_all(sessions: Sequence[Session], store: Store) -> None:
    """Receive the messages to runs that execute here. After a failure of the store, the next call tries again."""
    with suppress(ClewError):
        addressed = set(store.addressed([session.run_id for session in sessions]))
        for session in sessions:
            if session.run_id in addressed:
                with suppress(ClewError):
                    collect(session, session.runs)

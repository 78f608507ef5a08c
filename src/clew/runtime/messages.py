"""Messages to runs, in whichever process they execute: signals, answers, cancellations.

A sender validates the message as far as it can, gives it a unique id, and puts it into the inbox of the run. The owner
of the run receives it (``clew.runtime.drivers.inbox``). If the run has no owner, the process that continues it next
receives the message.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import uuid4

from clew.engine.options import MOVING
from clew.errors import InputError, RunOwnedError, RunStateError
from clew.runtime.calls.waiting import check_signal_name
from clew.runtime.drivers.inbox import ANSWER, CANCEL, SIGNAL, packed, unpacked, wake_here
from clew.runtime.log.checks.answer_checks import check_answers
from clew.runtime.log.persons import this_user
from clew.runtime.opener import RunOpener
from clew.runtime.ownership import root_of
from clew.state import same
from clew.stores import RunRow, Store
from clew.stores.queue import FINAL, WAKES


def send_signal(opener: RunOpener, run_id: str, name: str, value: Any = None, id: str | None = None) -> None:
    """Send a signal to a run.

    Raises:
        InputError: If the name or the id is invalid.
        EncodeError: If the value cannot be stored.
        UnknownRunError: If the run does not exist.
        RunStateError: If the run has ended, or is a child of another run.
    """
    store = opener.store
    try:
        check_signal_name(name, "signal")
    except ValueError as error:
        raise InputError(str(error)) from None
    if id is not None and (type(id) is not str or not 0 < len(id) <= 200):
        raise InputError(f"id must be a str of 1 to 200 characters, or None, got {id!r}")
    body = packed(store, [name, value])
    row = store.row(run_id)
    if row.child_of is not None:
        root = root_of(store, row)
        raise RunStateError(f"run {run_id!r} is a child of run {root!r}; send the signal to {root!r}")
    if row.status in FINAL:
        hint = "start another run" if row.status == "completed" else "resume the run first, or start another"
        raise RunStateError(f"run {run_id!r} is {row.status}, so it takes no signal {name!r}; {hint}")
    store.send(run_id, id or uuid4().hex, SIGNAL, body)
    wake_here(store, run_id)


def is_for_others(opener: RunOpener, run_id: str) -> bool:
    """Return whether a run that waits is continued by others: by a worker, or because this engine has no graph."""
    return opener.store.entry(run_id) is not None or not opener.has_graph


def is_moving(store: Store, row: RunRow) -> bool:
    """Return whether a run continues without a caller. One that waits does if a worker will take it for a message."""
    if row.status in MOVING:
        return True
    return row.status in WAKES and bool(store.addressed([row.run_id])) and store.entry(row.run_id) is not None


class SentAnswer(NamedTuple):
    """An answer in the inbox of a run: the number of the message, and the question."""

    number: int
    path: str
    position: str
    value: Any


def send_answer(
    opener: RunOpener, run_id: str, path: str, value: Any, *, by: str | None = None, is_json: bool = False
) -> SentAnswer:
    """Send an answer to the process that executes a run, or will, after checking it; "" is the only question.

    An answer that is JSON is converted by the process that takes the run; if that rejects it, the question stays open
    with its error.

    Raises:
        InputError: If the state schema rejects the answer.
        RunStateError: If the run does not ask this.
    """
    store = opener.store
    run = opener.runs.open(run_id)
    graph = opener.graph if opener.has_graph else run.graph
    log = run.log()
    ((at, answer),) = check_answers(
        log, {} if path else {"answer": value}, {path: value} if path else {}, graph
    ).items()
    who, position = this_user() if by is None else by, log.asked[at].position
    # the question that was open when it was checked: the next one must not take the answer
    number = store.send(run_id, uuid4().hex, ANSWER, packed(store, [at, position, value, who, is_json]))
    wake_here(store, run_id)
    return SentAnswer(number, at, position, answer)


def answer_run(
    opener: RunOpener, run_id: str, path: str, value: Any, *, by: str | None = None, is_json: bool = False
) -> None:
    """Send an answer as `send_answer` does, and see to it that a process will read it.

    A run that no process executes, and that is in no queue, is put into the default queue. Runs in memory have no
    queue, because only their own process can continue them. In this case, the answer is removed.

    Raises:
        InputError: If the state schema rejects the answer.
        RunStateError: If the run does not ask this, no process would read the answer, or another one was faster.
    """
    sent = send_answer(opener, run_id, path, value, by=by, is_json=is_json)
    if _is_second(opener, run_id, sent):
        raise _refusal(run_id, sent)
    if _has_receiver(opener.store, run_id):
        return
    try:
        fence, owner = opener.claim(run_id)
    except RunOwnedError:  # another process has continued it, and reads the message
        return
    if opener.store.encodes:
        _enqueue(opener, run_id, fence, owner)
    else:
        _take_back(opener, run_id, sent, fence, owner)


def _has_receiver(store: Store, run_id: str) -> bool:
    """Return whether a worker or a process receives messages to a run. Engines do not own runs in memory."""
    if store.entry(run_id) is not None:
        return True
    owner = store.owner(run_id)
    if owner is None and not store.encodes:
        return store.row(run_id).status in MOVING
    return owner is not None and owner.holds


def _enqueue(opener: RunOpener, run_id: str, fence: int, owner: str) -> None:
    try:
        opener.store.enqueue(run_id, fence, status=opener.store.row(run_id).status)
    except BaseException:
        opener.release(run_id, fence, owner)
        raise


def _take_back(opener: RunOpener, run_id: str, sent: SentAnswer, fence: int, owner: str) -> None:
    """Remove an answer that no process has read, and raise RunStateError."""
    try:
        is_left = is_unread(opener, run_id, sent)
        if is_left:
            opener.store.append(run_id, [], fence, received=[sent.number])
    finally:
        opener.release(run_id, fence, owner)
    if is_left:
        raise RunStateError(
            f"run {run_id!r} is in memory, and no engine executes it, so none would receive the answer; "
            f"continue it with engine.resume({run_id!r}, answer=...)"
        )


def is_unread(opener: RunOpener, run_id: str, sent: SentAnswer) -> bool:
    """Return whether an answer is still in the inbox of a run."""
    return any(message.n == sent.number for message in opener.store.inbox(run_id))


def refusal_of_sent(opener: RunOpener, run_id: str, sent: SentAnswer) -> RunStateError | None:
    """Return the error for an answer that the run did not take, because another one was faster; None if it took it.

    An answer that a running process has not read yet is not refused.
    """
    run = opener.runs.open(run_id)
    taken = run.log().answers.get(sent.path, {})
    if sent.position in taken and same(taken[sent.position], sent.value):
        return None
    if run.row.status not in FINAL and is_unread(opener, run_id, sent):
        return None
    return _refusal(run_id, sent)


def _is_second(opener: RunOpener, run_id: str, sent: SentAnswer) -> bool:
    """Return whether the run has another answer to the question, or will read one first. Equal ones do not count."""
    store, question = opener.store, (sent.path, sent.position)
    earlier = [
        unpacked(store, message)
        for message in store.inbox(run_id)
        if message.kind == ANSWER and message.n < sent.number
    ]
    values = [value for path, position, value, *_ in earlier if (path, position) == question]
    taken = opener.runs.open(run_id).log().answers.get(sent.path, {})
    values += [taken[sent.position]] if sent.position in taken else []
    return any(not same(value, sent.value) for value in values)


def _refusal(run_id: str, sent: SentAnswer) -> RunStateError:
    return RunStateError(
        f"run {run_id!r} did not take this answer to {sent.path!r}: another answer was faster, or the question was "
        f"withdrawn; engine.result({run_id!r}) has the values, and the questions that are open now"
    )


def cancel_run(opener: RunOpener, run_id: str) -> bool:
    """Cancel a run that does not execute in this engine; return False if it has ended.

    If it has no owner, it ends immediately. Otherwise its owner gets a message.
    """
    store = opener.store
    if store.row(run_id).status in FINAL:
        return False
    try:
        fence, owner = opener.claim(run_id)
    except RunOwnedError:
        store.send(run_id, uuid4().hex, CANCEL, packed(store, []))
        wake_here(store, run_id)
        known = store.owner(run_id)
        if known is not None and known.holds:
            return True
        try:  # it was released in the meantime, and its owner may not have seen the message
            fence, owner = opener.claim(run_id)
        except RunOwnedError:
            return True
    try:
        is_open = store.row(run_id).status not in FINAL
        if is_open:
            now = opener.settings.clock.time()
            opener.repository.close(run_id, fence, "cancelled", now, ())
    except BaseException:
        opener.release(run_id, fence, owner)
        raise
    if not is_open:
        opener.release(run_id, fence, owner)
    return is_open

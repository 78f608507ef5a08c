"""The durable waits of a session: which items wait, what they wait for, and what ends a wait.

- A wait is recorded when a node first asks for it, with the time when it is due. A node that starts over, in this
  session or a later one, finds the wait by its position and its request. A wait that has ended is not repeated, not
  even by a later attempt. Only a wait that timed out belongs to its attempt, as a recorded exception does.
- The machine treats an item that waits like one between two attempts; it has a timer. It starts over when one of its
  waits ends. A resumed session does not start items that still wait.
- A signal goes to the first item that waits for it, by step and order. If no item waits for its name, it is stored,
  first in, first out.
- The waits of a child are waits of the item that runs it. If one ends, the run records this, and the child reads it
  from there. So signals are sent to the run, even if a node of a child waits for them.
- A run that has failed does not wait. When it is resumed, its waits continue, and end at their original times.
- A session that releases its run (`Session.releases`) ends when every branch waits. Otherwise the driver waits here.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import inf
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from clew.engine.frame import Item
from clew.engine.frame_lifecycle import ask_again, take_answer
from clew.errors import ClewError, RunStateError
from clew.runtime.calls.scopes import Asking
from clew.runtime.calls.waiting import Waiting, WaitRequest, is_long, outcome_of
from clew.runtime.drivers.time_inside import TimeInside
from clew.runtime.drivers.timers import Timer
from clew.runtime.log.entries.wait_records import SignalRecord, WaitEnd, WaitRecord
from clew.stores.memory.store import NOWHERE

if TYPE_CHECKING:
    from clew.runtime.calls.scopes import Scope
    from clew.runtime.drivers.session import Session
    from clew.runtime.log.run_log import RunLog

_LONGEST_TIMER = 60.0  # seconds; clocks may be set, and machines suspended
_creating = RLock()
WAITING: WeakValueDictionary[tuple[int, str], Session] = WeakValueDictionary()
"""Sessions of this process that have waited, by store and run: a sender here wakes them at once."""

Attempt = tuple[Item, int]


def waits_of(session: Session) -> DurableWaits:
    """Return the waits of a session, from any thread."""
    with _creating:
        if session.waits is None:
            session.waits = DurableWaits(session)
            WAITING[id(session.runs.store), session.run_id] = session
        return session.waits


def restore_waits(session: Session, log: RunLog) -> None:
    """Give a session the waits and signals of its log."""
    if log.waits or log.signals:
        waits_of(session).load(log)


class AnswerMail(msgspec.Struct, frozen=True):
    """An answer that the log has, or the reason why it was refused."""

    path: str
    answer: Any = None
    time: float = 0.0
    refusal: str = ""
    is_last: bool = False  # if nothing asks now, nothing will


class DurableWaits:
    """The waits of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = RLock()
        self._known: dict[tuple[str, str], list[WaitRecord]] = {}  # by path and position
        self._ends: dict[tuple[str, int], WaitEnd] = {}  # by path and number
        self._open: defaultdict[str, dict[tuple[str, int], WaitRecord]] = defaultdict(dict)  # by item
        self._numbers: Counter[str] = Counter()  # waits so far, by path
        self._held: dict[str, list[WaitRecord]] = {}  # of items that waited in an earlier session
        self._begun: dict[Attempt, list[WaitRecord]] = {}  # of nodes that are unwinding
        self._waiting: dict[Item, list[WaitRecord]] = {}
        self._timers: dict[Item, Timer] = {}
        self._inside = TimeInside(session.clock)
        self.receiving = Lock()  # held while messages are received
        self.mail: deque[SignalRecord | AnswerMail] = deque()  # for the driver
        self._early: list[AnswerMail] = []  # to items that do not ask right now
        self.unread: defaultdict[str, deque[SignalRecord]] = defaultdict(deque)

    def load(self, log: RunLog) -> None:
        """Continue the waits of an earlier session."""
        for wait in sorted(log.waits, key=lambda wait: wait.n):
            self._add(wait)
        self._ends.update(log.wait_ends)
        for path, n in log.wait_ends:
            self._open[path.partition("!")[0]].pop((path, n), None)
        self._held = {item: list(found.values()) for item, found in self._open.items() if found}
        self._session.take = self._session._take
        for signal in sorted(log.signals.values(), key=lambda signal: signal.n):
            self.unread[signal.name].append(signal)

    def held(self) -> dict[str, list[WaitRecord]]:
        """Return the waits of items that waited in an earlier session and were not reached yet."""
        return dict(self._held)

    def load_copy(self, log: RunLog, held: Mapping[str, list[WaitRecord]], timers: Iterable[Timer]) -> None:
        """Become a copy of other waits of the run: all of them are in the log, and some items have timers."""
        self.load(log)
        self._held = dict(held)
        for timer in timers:
            if timer.kind == "wait" and timer.item is not None:
                self._timers[timer.item] = timer
                self._waiting[timer.item] = list(self._open[timer.item.path].values())
                self._inside.begin(timer.item)

    # -- nodes, on any thread ----------------------------------------------------------------------------------

    def wait(self, item: Item, attempt: int, request: WaitRequest, scope: Scope) -> Any:
        """Return what a node waited for; raise `Waiting` if the wait has not ended."""
        return outcome_of(request, self._end_of(item, attempt, request, scope), item)

    async def later(self, *call: Any) -> Any:
        """`wait` for async nodes: they wait where they await it."""
        return self.wait(*call)

    def _end_of(self, item: Item, attempt: int, request: WaitRequest, scope: Scope) -> WaitEnd:
        is_stored = self._session.runs.store is not NOWHERE
        if request.reason == "signal" and request.seconds is None and not is_stored:
            raise RunStateError(
                f"node {item.node.name!r} at {item.path} waits for signal {request.name!r}, but its run is not stored, "
                f"so nothing can send one; run it with an Engine, or give a timeout"
            )
        end = self._begun_or_ended(item, attempt, request)
        if end is not None:
            return end
        raise scope.unwind(Waiting())

    def ask(self, item: Item, attempt: int, request: WaitRequest) -> WaitEnd | None:
        """Begin to wait for an answer; return the end if none came in time."""
        return self._begun_or_ended(item, attempt, request)

    def _begun_or_ended(self, item: Item, attempt: int, request: WaitRequest) -> WaitEnd | None:
        with self._lock:
            wait = self._recorded(item, attempt, request)
            end = self._ends.get((wait.path, wait.n)) or self._end_above(wait) or self._end_now(wait)
            if end is None:
                self._begun.setdefault((item, attempt), []).append(wait)
            return end

    def lose(self, item: Item, attempt: int) -> None:
        """Forget that a node was unwinding: its process is gone, and it starts over."""
        self._begun.pop((item, attempt), None)

    def has_slept(self, item: Item, attempt: int, position: str) -> bool:
        """Return whether a sleep at this position has ended in this attempt."""
        return self._has_slept(self._known.get((item.path, position), ()), item, attempt)

    def slept(self, item: Item, attempt: int) -> tuple[str, ...]:
        """Return the positions at which a sleep has ended in this attempt."""
        known = [(at, waits) for (path, at), waits in list(self._known.items()) if path == item.path]
        return tuple(at for at, waits in known if self._has_slept(waits, item, attempt))

    def _has_slept(self, waits: Sequence[WaitRecord], item: Item, attempt: int) -> bool:
        own = [wait for wait in waits if (wait.attempt, wait.epoch) == (attempt, item.frame.epoch)]
        return any(wait.reason == "sleep" and (wait.path, wait.n) in self._ends for wait in own)

    def add(self, item: Item, attempt: int, waits: Sequence[WaitRecord]) -> None:
        """Take the waits of a child whose node is unwinding."""
        with self._lock:
            self._begun.setdefault((item, attempt), []).extend(
                self._adopted(item, attempt, wait) for wait in waits
            )

    def _recorded(self, item: Item, attempt: int, request: WaitRequest) -> WaitRecord:
        """Return the wait that a node asks for: a known one, or a new one that begins now."""
        path, epoch = item.path, item.frame.epoch
        for known in reversed(self._known.get((path, request.position), ())):
            end = self._ends.get((path, known.n))
            if _is_asked_again(known, request, attempt, epoch) and (
                end is None
                or end.how in ("over", "signal")
                or (end.how == "late" and self._is_of(known, end, attempt, epoch))
            ):
                return known
        due = None if request.seconds is None else self._session.clock.time() + request.seconds
        wait = WaitRecord(path, self._numbers[path], request.position, *request.wanted, due, attempt, epoch)
        return self._begin(wait)

    def _is_of(self, wait: WaitRecord, end: WaitEnd, attempt: int, epoch: tuple[int, ...]) -> bool:
        return (wait.attempt, wait.epoch, end.resumption) == (attempt, epoch, self._resumption)

    @property
    def _resumption(self) -> int:
        return self._session._resumption or 0

    def _adopted(self, item: Item, attempt: int, wait: WaitRecord) -> WaitRecord:
        """Return the wait of a child as one of this run."""
        for known in reversed(self._known.get((wait.path, wait.position), ())):
            if _is_same(known, wait):
                return known
        n = self._numbers[wait.path]
        return self._begin(replace(wait, n=n, attempt=attempt, epoch=item.frame.epoch))

    def _begin(self, wait: WaitRecord) -> WaitRecord:
        self._add(wait)
        self._session.keep(wait)
        return wait

    def _add(self, wait: WaitRecord) -> None:
        self._known.setdefault((wait.path, wait.position), []).append(wait)
        self._open[wait.item][wait.path, wait.n] = wait
        self._numbers[wait.path] = max(self._numbers[wait.path], wait.n + 1)

    # -- ends --------------------------------------------------------------------------------------------------

    def _end_now(self, wait: WaitRecord, *, is_due: bool = False) -> WaitEnd | None:
        """End a wait if its signal is here or its time has come."""
        if wait.reason == "signal" and self.unread[wait.name]:
            signal = self.unread[wait.name].popleft()
            return self._end(wait, "signal", signal.value, signal)
        if wait.due is None or not (is_due or wait.due <= self._session.clock.time()):
            return None
        return self._end(wait, "over" if wait.reason in ("sleep", "retry") else "late")

    @contextmanager
    def answering(self, path: str, position: str) -> Iterator[bool]:
        """Keep the wait for an answer from ending while the answer is logged; yield False if it has ended."""
        with self._lock:
            known = self._known.get((path, position))
            wait = known[-1] if known else None
            end = None if wait is None else self._ends.get((path, wait.n))
            yield end is None or end.how != "late"
            if wait is not None and end is None:
                self._end(wait, "left")

    def _end_above(self, wait: WaitRecord) -> WaitEnd | None:
        """End a wait of a child that the outer run has ended."""
        session = self._session
        if session.outer is None or session.outer.waits is None:
            return None
        found = session.outer.waits.found(f"{session.place}/{wait.path}", wait)
        if found is None:
            return None
        return self._end(wait, found.how, found.value)

    def found(self, path: str, wait: WaitRecord) -> WaitEnd | None:
        """Return how the wait of a child ended, as this run has recorded it, or a run around it."""
        with self._lock:
            for known in reversed(self._known.get((path, wait.position), ())):
                if _is_same(known, wait):
                    end = self._ends.get((path, known.n))
                    if end is not None and end.how != "left":
                        return end
                    break
        session = self._session
        if session.outer is None or session.outer.waits is None:
            return None
        return session.outer.waits.found(f"{session.place}/{path}", wait)

    def _end(
        self, wait: WaitRecord, how: Any, value: Any = None, signal: SignalRecord | None = None
    ) -> WaitEnd:
        name, n = ("", 0) if signal is None else (signal.name, signal.n)
        end = WaitEnd(wait.path, wait.n, how, value, name, n, self._resumption)
        self._ends[wait.path, wait.n] = end
        self._open[wait.item].pop((wait.path, wait.n), None)
        self._session.keep(end)
        return end

    # -- items, on the thread of the driver --------------------------------------------------------------------

    def begin(self, item: Item, attempt: int, asking: Asking) -> bool:
        """Let an item wait that has unwound for it; return False if it only asks."""
        with self._lock:
            waits = self._begun.pop((item, attempt), None)
            if waits is None:
                return False
            current = {(wait.path, wait.n) for wait in waits}
            for name, wait in list(self._open[item.path].items()):
                if name not in current:
                    self._end(wait, "left")
        machine, questions = self._session.machine, asking.questions
        if questions:
            (question, about, position), *others = questions
            machine.ask(item, question, about, position, others, self._session.clock.time())
        else:
            machine.postpone(item)
        self._register(item, waits)
        return True

    def hold(self, item: Item) -> bool:
        """Let an item wait that waited in an earlier session; return False if it can start."""
        waits = self._held.pop(item.path, ())
        own = (item.attempt, item.frame.epoch)
        waits = [wait for wait in waits if (wait.attempt, wait.epoch) == own and wait.reason != "question"]
        if not waits or len(waits) < len(self._open[item.path]):
            return False
        self._session.machine.postpone(item)
        self._register(item, waits)
        return True

    def _register(self, item: Item, waits: list[WaitRecord]) -> None:
        """Set the timer of an item that waits; wake it if a wait has ended already."""
        self._waiting[item] = waits
        self._inside.begin(item)
        if any(wait.reason == "signal" for wait in waits):
            self._look()
        with self._lock:
            ended = [
                self._ends.get((wait.path, wait.n)) or self._end_above(wait) or self._end_now(wait)
                for wait in waits
            ]
        if any(ended):
            self._wake(item)
        else:
            self._set_timer(item)

    def _look(self) -> None:
        """Check whether a signal arrived early. On an event loop, which must not wait, a thread checks soon."""
        from clew.runtime.drivers.inbox import collect

        session = self._session
        if session.outer is None and session.off_loop is None:
            with suppress(ClewError):  # of the store: a thread tries again soon
                collect(session, session.runs)
                self.read_mail()

    def _set_timer(self, item: Item) -> None:
        session, clock = self._session, self._session.clock
        left = min((wait.due for wait in self._waiting[item] if wait.due is not None), default=inf)
        left -= clock.time()
        if not clock.virtual and left < inf:
            left = min(left, _LONGEST_TIMER)
        timer = self._timers[item] = Timer("wait", item, item.attempt)
        session.at(clock.monotonic() + max(left, 0.0), timer)

    def expire(self, timer: Timer) -> None:
        """Wake an item whose time has come; otherwise set its timer again."""
        item = timer.item
        assert item is not None
        waits, clock = self._waiting.get(item, ()), self._session.clock
        now = clock.time()
        due = min((wait.due for wait in waits if wait.due is not None), default=inf)
        if due > now and not clock.virtual:
            self._set_timer(item)
            return
        with self._lock:
            over = [wait for wait in waits if wait.due is not None and wait.due <= max(due, now)]
            over = [wait for wait in over if (wait.path, wait.n) not in self._ends]  # others have an answer
            for wait in over:
                self._end_now(wait, is_due=True)
        if over:
            self._wake(item)

    def _wake(self, item: Item) -> None:
        """Start an item over."""
        machine = self._session.machine
        if self._remove(item):
            if item.waited:
                machine.wake(item)
            else:
                ask_again(machine, item)

    def _remove(self, item: Item) -> bool:
        """Forget that an item waits, and its timer; return False if it does not wait."""
        timer = self._timers.pop(item, None)
        if timer is not None:
            self._session.forget(timer)
        if self._waiting.pop(item, None) is None:
            return False
        self._inside.end(item)
        return True

    def owed(self, item: Item) -> float:
        """Return for how long items inside a subgraph item have waited; each second is returned once."""
        return self._inside.owed(item)

    def read_mail(self) -> None:
        """Take what was received: a signal goes to the lowest item that waits for it, an answer to its question."""
        while self.mail:
            mail = self.mail.popleft()
            if isinstance(mail, SignalRecord):
                self.unread[mail.name].append(mail)
                self._assign(mail.name)
            elif not take_answer(self._session.machine, mail.path, mail.answer, mail.time, mail.refusal):
                if not mail.is_last:
                    self._early.append(replace(mail, is_last=True))
            else:
                for item in [item for item in self._waiting if not item.waited and _has_answer(mail, item)]:
                    self._remove(item)

    def _assign(self, name: str) -> None:
        for item in sorted(self._waiting, key=lambda item: item.order):
            for wait in self._waiting[item]:
                if wait.name == name and self.unread[name]:
                    with self._lock:
                        self._end_now(wait)
                    self._wake(item)
                    break

    # -- the session -------------------------------------------------------------------------------------------

    def stays(self) -> bool:
        """Return whether the driver waits for timers, if nothing else is left to do."""
        session = self._session
        machine = session.machine
        for item in [item for item in self._waiting if not item.is_wanted]:
            self._remove(item)
        if machine.root.has_failed:
            return any(timer.kind != "wait" for _, _, timer in session.timers)
        self.mail += self._early  # everything that could ask does
        self._early.clear()
        if self.mail:
            return True
        if not self._goes_on():
            return False
        if not session.releases or any(frame.has_failed for frame in machine.root.with_inner()):
            return True
        due = self.due()
        return due is not None and not is_long(due - session.clock.time())

    def _goes_on(self) -> bool:
        """Return whether a timer keeps the run from stopping; the timeout of a question does not."""
        return any(timer.kind != "wait" or self.is_asleep(timer.item) for _, _, timer in self._session.timers)

    def is_asleep(self, item: Item | None) -> bool:
        """Return whether an item waits for a time or a signal."""
        return item is not None and any(wait.reason != "question" for wait in self._waiting.get(item, ()))

    @property
    def is_sleeping(self) -> bool:
        """Whether an item waits for a time or a signal, or for its next attempt."""
        has_retry = any(timer.kind == "retry" for _, _, timer in self._session.timers)
        return has_retry or any(self.is_asleep(item) for item in self._waiting)

    def due_of_release(self, status: str) -> float | None:
        """Return when a run is due that this session releases with a status; None if it does not release it."""
        session = self._session
        is_released = session.releases and session.outer is None and status in ("sleeping", "waiting")
        return self.due() if is_released else None

    def due(self) -> float | None:
        """Return when the next wait or attempt is due, in seconds since the epoch; None if none has a time."""
        clock = self._session.clock
        times = [wait.due for waits in self._waiting.values() for wait in waits if wait.due is not None]
        retries = [when for when, _, timer in self._session.timers if timer.kind == "retry"]
        times += [clock.time() + when - clock.monotonic() for when in retries]
        return min(times, default=None)

    def signals(self) -> tuple[SignalRecord, ...]:
        """Return the signals that no wait has taken."""
        return tuple(
            sorted((each for name in self.unread.values() for each in name), key=lambda each: each.n)
        )

    def listed(self) -> list[WaitRecord]:
        """Return what the session waits for, by the order of its items; also the next attempts."""
        session = self._session
        found = [(item.order, wait) for item, waits in self._waiting.items() for wait in waits]
        for when, _, timer in session.timers:
            if timer.kind == "retry" and timer.item is not None:
                due = session.clock.time() + when - session.clock.monotonic()
                path, attempt = timer.item.path, timer.attempt
                found.append((timer.item.order, WaitRecord(path, 0, f"r{attempt}", "retry", due=due)))
        return [wait for _, wait in sorted(found, key=lambda pair: pair[0])]


def _has_answer(mail: AnswerMail, item: Item) -> bool:
    """Return whether an answer starts an item over."""
    return not mail.refusal and mail.path.partition("!")[0] == item.path


def _is_asked_again(known: WaitRecord, request: WaitRequest, attempt: int, epoch: tuple[int, ...]) -> bool:
    """Return whether a request at the position of a recorded wait is that wait.

    The time is a part of it only if a later attempt sleeps: a node that computes its time, and starts over, computes
    another one.
    """
    if (known.reason, known.name) != (request.reason, request.name):
        return False
    is_this_attempt = (known.attempt, known.epoch) == (attempt, epoch)
    return is_this_attempt or known.reason != "sleep" or known.seconds == request.seconds


def _is_same(known: WaitRecord, wait: WaitRecord) -> bool:
    """Return whether a recorded wait is this wait of a child."""
    return known.wanted == wait.wanted and (known.reason == "retry" or known.due == wait.due)

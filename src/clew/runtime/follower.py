"""A follower: carries work to a store behind a run's back, in order and not too far behind.

What piles up for a moment goes in one append: a store that waits for its disk then does so once. Whoever cannot wait
for that moment (`join`, and who is too far ahead) appends it in its own thread; whoever is done (`close`) takes what is
left. What is not a plain step is appended at once: a call that was made and is lost would be made again.

A new run may owe its store a wait for the disk (`settle`). It is over with the first append, or after a moment.

The first append that fails is the last one: what comes after it would build on something that is not there, and is let
fall; the error is kept for whoever asks next.

Threads are there while there is something to write, and wait a while for the next run that has.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from threading import Condition, Lock, Thread

from clew.stores import Entry, Statement

Work = tuple[Sequence[Entry], Sequence[tuple[str, str, int]], Mapping[str, bytes], Sequence[Statement]]
"""Entries to add, names of entries to drop, large contents, statements to execute: the arguments of an append."""

LAG = 1024  # entries that it may be behind
ENOUGH = 256  # entries that are appended without waiting for more
MOMENT = 0.01  # seconds
_IDLE = 10.0  # seconds after which a thread that nobody needs ends


class Follower:
    """Appends what it is given, later. `settle` is called if nothing is appended for a moment."""

    def __init__(self, append: Callable[[Work], None], settle: Callable[[], None] | None = None) -> None:
        self._append = append
        self._settle = settle
        self._turn = Lock()  # one append at a time, in order
        self._changed = Condition(Lock())
        self._waiting: list[Work] = []
        self._behind = 0  # entries that wait, or are being appended
        self._is_due = False
        self._is_followed = settle is not None  # a thread is there, or on its way
        self.failure: BaseException | None = None
        if settle is not None:
            _engage(self._follow)

    def put(self, work: Work) -> None:
        """Append this after all that came before it."""
        entries = work[0]
        with self._changed:
            if self.failure is not None:
                raise self.failure
            self._waiting.append(work)
            self._behind += len(entries)
            is_far, is_followed, self._is_followed = self._behind > LAG, self._is_followed, True
            if self._behind >= ENOUGH or any(entry.kind != "step" for entry in entries):
                self._is_due = True
                self._changed.notify()
        if not is_followed:
            _engage(self._follow)
        if is_far:
            self.join()

    def join(self) -> None:
        """Return when all that was put is in the store; raise if it cannot be."""
        with self._turn:
            waiting = self._take()
            try:
                if self.failure is None:
                    if waiting:
                        self._append(joined(waiting))
                    elif self._settle is not None:
                        self._settle()
                    self._settle = None
            except BaseException as error:
                self.failure = error
                raise
            finally:
                with self._changed:
                    self._behind -= sum(len(work[0]) for work in waiting)

    def close(self) -> list[Work]:
        """Let go of the thread. What was put and is not in the store is for the caller to append."""
        with self._turn:
            self._settle = None
            left = self._take()
            with self._changed:
                self._changed.notify()
        return left if self.failure is None else []

    def _take(self) -> list[Work]:
        with self._changed:
            waiting, self._waiting, self._is_due = self._waiting, [], False
        return waiting

    def _follow(self) -> None:
        while True:
            with self._changed:
                if self._has_more() and not self._is_due:
                    self._changed.wait(MOMENT)
                if self.failure is not None or not self._has_more():
                    self._is_followed = False
                    return
            try:
                self.join()
            except BaseException:
                pass  # whoever puts or joins next is told

    def _has_more(self) -> bool:
        return bool(self._waiting) or self._settle is not None


_idle: list[SimpleQueue[Callable[[], None]]] = []  # threads that wait for something to do

if hasattr(os, "register_at_fork"):  # a forked process has none of them
    os.register_at_fork(after_in_child=_idle.clear)


def _engage(follow: Callable[[], None]) -> None:
    """Have a thread do this: one that has nothing to do, or a new one."""
    try:
        desk = _idle.pop()
    except IndexError:
        desk = SimpleQueue()
        Thread(target=_serve, args=(desk,), name="clew-ledger", daemon=True).start()
    desk.put(follow)


def _serve(desk: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        try:
            follow = desk.get(timeout=_IDLE)
        except Empty:
            try:
                _idle.remove(desk)
            except ValueError:
                continue  # somebody has just found it
            return
        follow()
        del follow  # it holds a run
        _idle.append(desk)


def joined(works: Sequence[Work]) -> Work:
    """Several works as one."""
    if len(works) == 1:
        return works[0]
    entries: list[Entry] = []
    drop: list[tuple[str, str, int]] = []
    blobs: dict[str, bytes] = {}
    statements: list[Statement] = []
    for work in works:
        entries += work[0]
        drop += work[1]
        blobs.update(work[2])
        statements += work[3]
    return entries, drop, blobs, statements

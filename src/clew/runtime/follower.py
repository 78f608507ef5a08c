"""A follower: carries work to a store in a thread of its own, in order and not too far behind.

What has piled up while the store was busy goes in one append. Whoever is too far ahead waits. The first append that
fails is the last one: what comes after it would build on something that is not there, and is let fall; the error is
kept for whoever asks next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Condition, Thread

from clew.stores import Entry, Statement

Work = tuple[Sequence[Entry], Sequence[tuple[str, str, int]], Mapping[str, bytes], Sequence[Statement]]
"""Entries to add, names of entries to drop, large contents, statements to execute: the arguments of an append."""

LAG = 1024  # entries that it may be behind


class Follower:
    """Appends what it is given, later."""

    def __init__(self, append: Callable[[Work], None]) -> None:
        self._append = append
        self._changed = Condition()
        self._waiting: list[Work] = []
        self._behind = 0  # entries that wait, or are being appended
        self._is_closed = False
        self.failure: BaseException | None = None
        self._thread = Thread(target=self._follow, name="clew-ledger", daemon=True)
        self._thread.start()

    def put(self, work: Work) -> None:
        """Append this after all that came before it."""
        with self._changed:
            while self._behind > LAG and self.failure is None:
                self._changed.wait()
            self._waiting.append(work)
            self._behind += len(work[0])
            self._changed.notify_all()

    def join(self) -> None:
        """Return when all that was put is in the store, or cannot be."""
        with self._changed:
            while (self._waiting or self._behind) and self.failure is None:
                self._changed.wait()

    def close(self) -> None:
        """Finish, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def _follow(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._is_closed:
                    self._changed.wait()
                waiting, self._waiting = self._waiting, []
            if not waiting:
                return
            if self.failure is None:
                try:
                    self._append(joined(waiting))
                except BaseException as error:
                    self.failure = error
            with self._changed:
                self._behind -= sum(len(work[0]) for work in waiting)
                self._changed.notify_all()


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

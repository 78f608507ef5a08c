"""Errors and warnings of the PostgreSQL system.

- An error of PostgreSQL becomes the error that the explorer expects from the call, prefixed with the failed operation.
- A broken connection, or an interrupt during work, ends the system, because the last action of the server is unknown.
  Every later call reports that.
- Warnings are issued after the work is done: a warning may be an exception, and must not interrupt the work.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from clew.errors import ClewError, ExplorationWarning
from clew.explore.systems.postgres.catalog import WatchedObjects
from clew.explore.systems.postgres.change_capture import BlockedError, CapturedChanges
from clew.explore.systems.postgres.connection import psycopg, said, was_interrupted
from clew.explore.systems.postgres.restore import WrongRowsError


class Diagnostics:
    """Translates errors and collects warnings for a system."""

    def __init__(self, is_lost: Callable[[], bool]) -> None:
        self._is_lost = is_lost
        self.ended: str | None = None  # the reason why the system can no longer be used
        self._notes: list[str] = []
        self._known: set[str] = set()

    @contextmanager
    def errors(self, kind: type[ClewError], what: str) -> Iterator[None]:
        """Raise errors of this kind, whose messages start with `what`."""
        if self.ended is not None:
            raise kind(f"{what}: {self.ended}")
        try:
            yield
        except psycopg.Error as error:
            if was_interrupted(error):
                self._end_by(KeyboardInterrupt())
                raise KeyboardInterrupt from error
            if self._is_lost():
                self.ended = (
                    f"the connection to PostgreSQL broke ({said(error)}) and all checkpoints are lost; "
                    "make a new PostgresSystem"
                )
                raise kind(f"{what}: {self.ended}") from error
            raise kind(f"{what}: {said(error)}") from error
        except (BlockedError, WrongRowsError) as error:
            raise kind(f"{what}: {error}") from error
        except (ClewError, Warning):
            raise
        except BaseException as error:
            self._end_by(error)
            raise

    def _end_by(self, error: BaseException) -> None:
        name = type(error).__name__
        self.ended = f"the operation was interrupted ({name}); make a new PostgresSystem"

    def note(self, message: str, once: str | None = None) -> None:
        """Add a warning; messages with the same `once` are issued a single time."""
        if once is None or once not in self._known:
            self._notes.append(message)
        if once is not None:
            self._known.add(once)

    def warn(self) -> None:
        """Issue the collected warnings, at the caller of the system's method."""
        if self._notes:
            message, self._notes = "; ".join(self._notes), []
            warnings.warn(message, ExplorationWarning, stacklevel=4)

    def note_sequence_caches(self, watched: WatchedObjects) -> None:
        """Add a warning about sequences whose numbers connections cache."""
        cached = [each.label for each in watched.sequences.values() if each.cached]
        if cached:
            self.note(
                f"the sequence(s) {', '.join(cached)} have a CACHE; numbers that a connection has cached are not "
                "rolled back",
                once="cache",
            )

    def note_hazards(self, captured: CapturedChanges) -> None:
        """Add warnings about what is not rolled back."""
        if captured.large_objects:
            self.note("the database has large objects, which are not rolled back", once="large objects")
        if captured.advisory_locks:
            self.note("a session holds advisory locks, which are not rolled back", once="advisory locks")

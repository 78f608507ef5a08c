"""What goes wrong, told to the explorer: errors of its own kind, and one warning a call at most.

- What PostgreSQL says becomes the error that the explorer expects of the call, with what was being done before it.
- A broken connection, and an interrupt in the middle of work, end everything: nobody knows what the server did last.
  Every later call says so.
- Warnings are said when the work is done, because a warning may be an exception, and the work must not be half done.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from clew.errors import ClewError, ExplorationWarning
from clew.explore.systems.postgres.change_capture import BlockedError
from clew.explore.systems.postgres.connection import psycopg, said, was_interrupted
from clew.explore.systems.postgres.restore import WrongRowsError


class Diagnostics:
    """Speaks for a system, which knows whether its connection is lost."""

    def __init__(self, is_lost: Callable[[], bool]) -> None:
        self._is_lost = is_lost
        self.ended: str | None = None  # why nothing more can be done
        self._notes: list[str] = []
        self._known: set[str] = set()

    @contextmanager
    def speaking(self, kind: type[ClewError], what: str) -> Iterator[None]:
        """What goes wrong inside is an error of this kind, which begins with `what`."""
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
                    f"the connection to PostgreSQL broke ({said(error)}), and all checkpoints with it; "
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
        self.ended = f"it was interrupted ({name}) while it worked; make a new PostgresSystem"

    def note(self, message: str, once: str | None = None) -> None:
        """Something to be warned about; what has the same `once` is said a single time."""
        if once is None or once not in self._known:
            self._notes.append(message)
        if once is not None:
            self._known.add(once)

    def warn(self) -> None:
        """Say what was noted, to the caller of the system's method that calls this."""
        if self._notes:
            message, self._notes = "; ".join(self._notes), []
            warnings.warn(message, ExplorationWarning, stacklevel=4)

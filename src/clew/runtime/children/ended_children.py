"""End children that nothing will continue: a later attempt has started another, or their run has completed.

They become cancelled, with the children inside them. A child of a run that failed or was cancelled stays as it is: a
resumed run continues it.
"""

from __future__ import annotations

from contextlib import suppress

from clew.errors import ClewError
from clew.runtime.opener import RunOpener
from clew.stores import RunRow, WouldWait

_OPEN = ("running", "sleeping", "waiting", "paused")  # a child is never queued


def end_children(opener: RunOpener, run_id: str, owner: str, *, at_once: bool = False) -> None:
    """End the open children of a run that has completed. A failure of the store does not fail the run."""
    if at_once and opener.store.at_once() is not opener.store:
        raise WouldWait(run_id)
    with suppress(ClewError):
        for status in _OPEN:
            for row in opener.store.rows(status, of=run_id):
                end_child(opener, row, owner)


def end_child(opener: RunOpener, row: RunRow, owner: str) -> None:
    """End a child, if it is open, and the children inside it."""
    if row.status in _OPEN:
        repository, now = opener.repository, opener.settings.clock.time()
        fence = repository.claim(row.run_id, owner, 0.0)
        repository.close(row.run_id, fence, "cancelled", now, row.failures)
        end_children(opener, row.run_id, owner)

"""The queue of a store: what all stores share.

A queued run has an entry: the name of its queue, its priority and the time when it is due. The rules:

- `create` with a `QueueEntry` writes the run, with the status `queued`, and its entry in one transaction.
- `take` claims ready runs of some structures in some queues. A run is ready if it is due and has no owner. The lowest
  priority number goes first, then the earliest due time. For every ten minutes that a run is overdue, its priority
  number counts as one lower. `take` also takes runs whose owner is dead, if they have an entry. Taken runs get the
  status `running`.
- A take counts as a try only if the run has committed nothing since the previous take, so `tries` counts consecutive
  takes without a commit. From the third try on, a run is taken alone: if it kills its worker, no other run gets a try.
- A claim of a run also takes its entry. A release gives the entry back, due as before. A run that was `running` is then
  `queued`, unless its entry is parked.
- An update with a final status deletes the entry. An update that releases the run with another status parks the entry:
  it is not due until `enqueue`, or until `due` if that is given. A run without an entry gets one if `due` is given.
  Such a release resets the tries to 0.
- A message to a sleeping or waiting run (`send`) makes its entry due, also while the run is claimed. A message that
  arrived earlier makes the entry due when the run is released to sleep or to wait, because the releasing process may
  not have read it.
- Times follow the clock of the store (`Store.time`): the clock of the server, or `clock.time()`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from clew.stores.protocol import QueueCount

T = TypeVar("T")

RISE = 600.0  # seconds of waiting that raise a run by one level
FINAL = frozenset({"completed", "failed", "cancelled", "compensated"})
WAKES = ("sleeping", "waiting")
"""The statuses in which a message makes the entry of a run due."""

SUSPICIOUS = 2
"""The tries of an entry after which its run is taken alone."""

PARKED = math.inf  # the due time of an entry that is not due before it is enqueued again


def rank(priority: int, due: float, now: float) -> tuple[float, float]:
    """Return the place of a ready entry in the order of takes."""
    return priority - max(0.0, now - due) // RISE, due


def apart(chosen: Sequence[T], tries: Callable[[T], int]) -> Sequence[T]:
    """Return those of the entries that one take may claim, given in their order: one suspicious run, or only others."""
    if chosen and tries(chosen[0]) >= SUSPICIOUS:
        return chosen[:1]
    return [each for each in chosen if tries(each) < SUSPICIOUS]


def queue_count(name: str, dues: list[float], taken: int, now: float) -> QueueCount:
    """Return the counts of a queue with these due times of entries whose runs have no owner."""
    ready = [due for due in dues if due <= now]
    later = sum(now < due < PARKED for due in dues)
    return QueueCount(name, len(ready), later, taken, now - min(ready) if ready else None)

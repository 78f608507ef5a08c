"""An engine as the owner of runs in its store: one name, with one lease, for all runs of the engine.

A forked process has its own owner. An engine that was declared dead takes a new name, and no longer owns its runs.

Each claim also has a unique token. After an interrupt or a failure of the store, it may be unknown whether a claim
succeeded. The token shows whether it did, and allows the same owner to claim the run again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from typing import TypeVar

from clew.errors import OwnerDeadError

T = TypeVar("T")

_process: tuple[int, str] = (0, "")
_numbers = count(1)


class EngineOwner:
    """The owner name of one engine. `on_death` gets each name that was declared dead."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, int], str] = {}  # by process and number of deaths
        self._deaths = 0
        self.on_death: Callable[[str, OwnerDeadError], None] | None = None

    @property
    def name(self) -> str:
        """The current name."""
        key = (os.getpid(), self._deaths)
        # one also for several threads
        return self._names.get(key) or self._names.setdefault(key, fresh_owner())

    def died(self, name: str, error: OwnerDeadError) -> None:
        """Take a new name: this one was declared dead."""
        if name == self.name:
            self._deaths += 1
        if self.on_death is not None:
            self.on_death(name, error)

    def act(self, do: Callable[[str], T]) -> T:
        """Return ``do(name)``, repeated with a new name if this one was declared dead."""
        while True:
            name = self.name
            try:
                return do(name)
            except OwnerDeadError as error:
                self.died(name, error)


def fresh_owner() -> str:
    """Return a unique owner name, or a token of a claim, that also names the process, for messages."""
    global _process
    here = os.getpid()
    if _process[0] != here:  # first use in this process, also after os.fork
        _process = (here, os.urandom(4).hex())
    return f"process {here} ({_process[1]}.{next(_numbers)})"

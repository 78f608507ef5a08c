"""The checkpoint cache: one checkpoint per state, within a limit of memory.

The cache counts the memory of states and checkpoints. Above the limit it frees memory in this order:

1. It releases checkpoints of states in which all actions were tried.
2. It moves the data of states to disk.
3. It releases other checkpoints. Their states are then reached by replay from the nearest remaining checkpoint.

The initial checkpoint is never released.

A system reports the memory of a token with `size(token) -> int`; without this method a token counts as one kilobyte.
"""

from __future__ import annotations

import warnings

from clew.errors import CheckpointError, ExplorationWarning
from clew.explore.model.states import State, spill
from clew.explore.model.world import StoredCheckpoint, World
from clew.explore.spill import SpillFile

DEFAULT_TOKEN_SIZE = 1024


class CheckpointCache:
    """The checkpoints of an exploration, by the number of their state."""

    def __init__(self, world: World, memory_limit: int | None, oldest_first: bool) -> None:
        self._world = world
        self._limit = memory_limit
        self._oldest_first = oldest_first
        self._systems = [world.systems[name] for name in sorted(world.systems)]
        self._checkpoints: dict[int, StoredCheckpoint] = {}
        self._sizes: dict[int, int] = {}
        self._failed: set[int] = set()
        self._exhausted: list[int] = []
        self._states_in_memory: list[int] = []
        self._state_bytes = 0
        self._file: SpillFile | None = None
        self.used = 0

    # -- create -------------------------------------------------------------------------------------------

    def create(self, number: int, name: str, digest: bytes) -> str | None:
        """Create a checkpoint of the current state. Return its id, or None after a warning if that failed.

        A failed checkpoint is not attempted again.
        """
        if number in self._failed:
            return None
        try:
            checkpoint = self._world._create_checkpoint(name, digest)
        except CheckpointError as error:
            self._failed.add(number)
            warnings.warn(f"{error}; the state will be reached by replay", ExplorationWarning, stacklevel=2)
            return None
        self.add(number, checkpoint)
        return checkpoint.id

    def add(self, number: int, checkpoint: StoredCheckpoint) -> None:
        """Add an existing checkpoint of a state."""
        self._checkpoints[number] = checkpoint
        if self._limit is not None:
            self._sizes[number] = size = self._size(checkpoint)
            self.used += size

    def _size(self, checkpoint: StoredCheckpoint) -> int:
        total = 64 + sum(map(len, checkpoint.context.encoded.values()))
        for system, token in zip(self._systems, checkpoint.tokens):
            measure = getattr(system, "size", None)
            total += measure(token) if callable(measure) else DEFAULT_TOKEN_SIZE
        return total

    # -- restore ------------------------------------------------------------------------------------------

    def restore(self, number: int) -> bool:
        """Roll the world back to a state. Return False if it has no valid checkpoint."""
        checkpoint = self._checkpoints.get(number)
        if checkpoint is None:
            return False
        if self._world._restore(checkpoint) is None:
            return True
        self.release(number)
        return False

    def has(self, number: int) -> bool:
        """Return whether a state has a checkpoint."""
        return number in self._checkpoints

    # -- free memory --------------------------------------------------------------------------------------

    def mark_exhausted(self, number: int) -> None:
        """Note that all actions were tried in a state."""
        self._exhausted.append(number)

    def count_state(self, number: int, state: State) -> None:
        """Count the memory of a new state."""
        if self._limit is not None:
            self._states_in_memory.append(number)
            self._state_bytes += len(state.context_data) + sum(len(part.data) + 64 for part in state.parts)

    def make_room(self, states: list[State], current: int) -> None:
        """Free memory down to the limit, if possible, but keep the checkpoint of the current state."""
        limit = self._limit
        if limit is None:
            return
        while self._bytes() > limit and self._exhausted:
            number = self._exhausted.pop()
            if number and number != current:
                self.release(number)
        if self._bytes() > limit and self._state_bytes:
            self._spill_states(states)
        if self._bytes() > limit:
            self._evict(limit, current)

    def _bytes(self) -> int:
        return self.used + self._state_bytes

    def _spill_states(self, states: list[State]) -> None:
        self._file = self._file or SpillFile()
        for number in self._states_in_memory:
            states[number] = spill(states[number], self._file)
        self._states_in_memory.clear()
        self._state_bytes = 0

    def _evict(self, limit: int, current: int) -> None:
        """Release checkpoints down to three quarters of the limit, starting with the one needed last."""
        goal = limit * 3 // 4
        order = list(self._checkpoints)
        for number in reversed(order) if self._oldest_first else order:
            if self._bytes() <= goal:
                return
            if number and number != current:
                self.release(number)

    def release(self, number: int) -> None:
        """Release the checkpoint of a state, if it has one."""
        checkpoint = self._checkpoints.pop(number, None)
        if checkpoint is not None:
            self.used -= self._sizes.pop(number, 0)
            self._world.release(checkpoint.id)

    def release_all(self) -> None:
        for checkpoint in self._checkpoints.values():
            self._world.release(checkpoint.id)
        self._checkpoints.clear()
        self._sizes.clear()

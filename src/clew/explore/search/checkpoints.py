"""Keeping checkpoints of states, and what to do when there is no room for them.

There is one checkpoint for each state. What they hold in memory is counted; over the limit, in this order:

1. checkpoints of states where nothing is left to try are given up;
2. what states keep of their systems moves to disk, and so do checkpoints of systems that can write theirs down;
3. other checkpoints are given up: such a state is reached by replay from the nearest one that is left.

The initial checkpoint always stays.

A system can say how much memory a token holds, with `size(token) -> int`; one that does not is counted with a
kilobyte. It can write tokens down with `dump(token) -> bytes` and `load(data) -> token`. In memory tokens share what
they have in common, on disk they do not: where one takes far more there than here, none are written down.
"""

from __future__ import annotations

import warnings

import msgspec

from clew.errors import CheckpointError, ExplorationWarning
from clew.explore.model.states import State, put_away
from clew.explore.model.world import StoredCheckpoint, World
from clew.explore.spill import SpillFile

UNKNOWN_SIZE = 1024
MOST_WRITTEN = 64  # times the size in memory


class _SpilledTokens(msgspec.Struct):
    kept: StoredCheckpoint
    places: tuple[tuple[int, int], ...]


class CheckpointCache:
    """The checkpoints of an exploration, by the number of their state."""

    def __init__(self, world: World, memory: int | None, oldest_first: bool) -> None:
        self._world = world
        self._memory = memory
        self._oldest_first = oldest_first
        self._systems = [world.systems[name] for name in sorted(world.systems)]
        self._writable = bool(self._systems) and all(
            callable(getattr(system, "dump", None)) and callable(getattr(system, "load", None))
            for system in self._systems
        )
        self._kept: dict[int, StoredCheckpoint] = {}
        self._dumped: dict[int, _SpilledTokens] = {}
        self._sizes: dict[int, int] = {}
        self._failed: set[int] = set()
        self._done: list[int] = []
        self._in_memory: list[int] = []  # numbers of states whose parts are in memory
        self._part_sizes = 0
        self._attic: SpillFile | None = None
        self.used = 0

    # -- making -------------------------------------------------------------------------------------------

    def hold(self, number: int, name: str, digest: bytes) -> str | None:
        """Make a checkpoint of the state that the world is in; its id, or None with a warning if that failed.

        What failed once is not tried again.
        """
        if number in self._failed:
            return None
        try:
            kept = self._world.hold(name, digest)
        except CheckpointError as error:
            self._failed.add(number)
            warnings.warn(f"{error}; the state will be reached by replay", ExplorationWarning, stacklevel=2)
            return None
        self.adopt(number, kept)
        return kept.id

    def adopt(self, number: int, kept: StoredCheckpoint) -> None:
        """Take over a checkpoint that was made of a state."""
        self._kept[number] = kept
        if self._memory is not None:
            self._sizes[number] = size = self._size(kept)
            self.used += size

    def _size(self, kept: StoredCheckpoint) -> int:
        total = 64 + sum(map(len, kept.context.encoded.values()))
        for system, token in zip(self._systems, kept.tokens):
            measure = getattr(system, "size", None)
            total += measure(token) if callable(measure) else UNKNOWN_SIZE
        return total

    # -- going back ---------------------------------------------------------------------------------------

    def back(self, number: int) -> bool:
        """Take the world back to a state, if there is a valid checkpoint of it."""
        kept = self._kept.get(number)
        if kept is None:
            kept = self._read_back(number) if number in self._dumped else None
            if kept is None:
                return False
        if self._world.return_to(kept) is None:
            return True
        self.give_up(number)
        return False

    def _read_back(self, number: int) -> StoredCheckpoint | None:
        dumped = self._dumped.pop(number)
        assert self._attic is not None
        pieces = [self._attic.get(place) for place in dumped.places]
        try:
            tokens = tuple(system.load(piece) for system, piece in zip(self._systems, pieces))
        except Exception:  # what it wrote down it cannot read: reached by replay, which is verified
            return None
        kept = dumped.kept
        kept.tokens = tokens
        self._world.adopt(kept)
        self.adopt(number, kept)
        return kept

    def has(self, number: int) -> bool:
        """Whether there is a checkpoint of a state, be it on disk."""
        return number in self._kept or number in self._dumped

    # -- making room --------------------------------------------------------------------------------------

    def exhausted(self, number: int) -> None:
        """Nothing is left to try in a state."""
        self._done.append(number)

    def make_room(self, states: list[State], current: int) -> None:
        """Get below the limit again, if that is possible; `current` is the state that is worked on."""
        limit = self._memory
        if limit is None:
            return
        while self._in_memory_size() > limit and self._done:
            done = self._done.pop()
            if done and done != current:
                self.give_up(done)
        if self._in_memory_size() > limit and self._part_sizes:
            self._move_states(states)
        if self._in_memory_size() > limit:
            self._thin_out(limit, current)

    def _in_memory_size(self) -> int:
        return self.used + self._part_sizes

    def count_state(self, number: int, state: State) -> None:
        """Count what a new state keeps."""
        if self._memory is not None:
            self._in_memory.append(number)
            self._part_sizes += len(state.context_data) + sum(len(part.data) + 64 for part in state.parts)

    def _move_states(self, states: list[State]) -> None:
        self._attic = self._attic or SpillFile()
        for number in self._in_memory:
            states[number] = put_away(states[number], self._attic)
        self._in_memory.clear()
        self._part_sizes = 0

    def _thin_out(self, limit: int, current: int) -> None:
        """Write down or give up checkpoints, those first that will be needed last, down to three quarters."""
        goal = limit * 3 // 4
        order = list(self._kept)
        for number in reversed(order) if self._oldest_first else order:
            if self._in_memory_size() <= goal:
                return
            if number and number != current:
                if self._writable:
                    self._write_down(number)
                else:
                    self.give_up(number)

    def _write_down(self, number: int) -> None:
        self._attic = self._attic or SpillFile()
        kept = self._kept[number]
        try:
            pieces = [system.dump(token) for system, token in zip(self._systems, kept.tokens)]
        except Exception:  # it cannot after all
            self.give_up(number)
            return
        if sum(map(len, pieces)) > MOST_WRITTEN * self._sizes[number]:
            self._writable = False
            self.give_up(number)
            return
        places = tuple(self._attic.put(piece) for piece in pieces)
        self.give_up(number)
        kept.tokens = ()
        self._dumped[number] = _SpilledTokens(kept, places)

    def give_up(self, number: int) -> None:
        """Give up the checkpoint of a state."""
        kept = self._kept.pop(number, None)
        if kept is not None:
            self.used -= self._sizes.pop(number, 0)
            self._world.release(kept.id)

    def release_all(self) -> None:
        """Give up all of them."""
        for kept in self._kept.values():
            self._world.release(kept.id)
        self._kept.clear()
        self._dumped.clear()
        self._sizes.clear()

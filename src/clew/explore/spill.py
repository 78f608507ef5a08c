"""The attic: bytes that are moved out of memory into a temporary file, and read back when somebody asks.

It only grows, and goes with the last one who holds it.
"""

from __future__ import annotations

import tempfile
from typing import Any

import msgspec

from clew.errors import EncodeError
from clew.explore.model.states import State, SystemState
from clew.state.codec import decode, encode


class SpillFile:
    """A temporary file of pieces."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="clew-explore-")  # noqa: SIM115 - as long as the attic
        self.size = 0

    def put(self, data: bytes) -> tuple[int, int]:
        """Put a piece there; where it is."""
        self._file.seek(self.size)
        self._file.write(data)
        place = (self.size, len(data))
        self.size += len(data)
        return place

    def get(self, place: tuple[int, int]) -> bytes:
        """The piece at a place."""
        self._file.seek(place[0])
        return self._file.read(place[1])

    def __del__(self) -> None:
        self._file.close()


class SpilledSystems(msgspec.Struct, frozen=True):
    """What a state keeps of its systems, in an attic."""

    attic: SpillFile
    place: tuple[int, int]

    def load(self) -> tuple[SystemState, ...]:
        """Read it back."""
        return unpack(self.attic.get(self.place))


def pack(parts: tuple[SystemState, ...]) -> bytes:
    """Parts as bytes. Metadata that cannot be encoded is kept as text."""
    rows = [(part.system, part.data, encode(_storable(part.metadata)), part.digest) for part in parts]
    return msgspec.msgpack.encode(rows)


def unpack(data: bytes) -> tuple[SystemState, ...]:
    """The parts that `pack` wrote."""
    rows = msgspec.msgpack.decode(data, type=list[tuple[str, bytes, bytes, bytes | None]])
    return tuple(
        SystemState(system, encoded, decode(metadata), digest) for system, encoded, metadata, digest in rows
    )


def _storable(metadata: dict[str, Any]) -> dict[str, Any]:
    try:
        encode(metadata)
    except EncodeError:
        return {str(key): repr(value) for key, value in metadata.items()}
    return metadata


def put_away(state: State, attic: SpillFile) -> State:
    """The same state, with what it keeps moved into the attic."""
    if not isinstance(state.held, tuple):
        return state
    stored = SpilledSystems(attic, attic.put(pack(state.held)))
    return State(state.digest, stored, state.context_data, state.checkpoint_id, state.seconds)

"""States, transitions and checkpoints: the data that the parts of the explorer exchange.

A state is what all systems and the context show at one moment. Its identity is a SHA-256 over the canonical encodings
of the systems' data and of the context, each prefixed with its length. `id` is the first 16 digits of that digest. A
datetime and a string that looks like it are different states. Metadata is not part of the identity.

A state stores encodings, not objects. Later changes of a system's data therefore do not change it, and `observations`
and `context` return new objects on each access.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from clew.errors import EncodeError
from clew.explore.model.system import Observation
from clew.explore.spill import SpillFile
from clew.state import LARGE, decode, encode, packed, stored_part, unpacked

ID_LENGTH = 16


class SystemState(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One system in a state: the encoded data, metadata, and the digest that the system returned, if any."""

    system: str
    data: bytes
    metadata: dict[str, Any] = {}
    digest: bytes | None = None


class SpilledSystems(msgspec.Struct, frozen=True):
    """The systems of a state, stored in a spill file."""

    file: SpillFile
    place: tuple[int, int]

    def load(self) -> tuple[SystemState, ...]:
        """Read the systems from the file."""
        return unpack(self.file.get(self.place))


class State(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The world at one moment. Two states are equal if their digests are equal."""

    digest: bytes
    held: tuple[SystemState, ...] | SpilledSystems
    context_data: bytes
    checkpoint_id: str | None = None
    seconds: float = 0.0

    @property
    def id(self) -> str:
        """Return the first 16 hexadecimal digits of the digest."""
        return self.digest.hex()[:ID_LENGTH]

    @property
    def parts(self) -> tuple[SystemState, ...]:
        """Return the stored data of each system, in the order of names."""
        held = self.held
        return held if isinstance(held, tuple) else held.load()

    @property
    def observations(self) -> dict[str, Observation]:
        """Return the observation of each system by name."""
        return {
            part.system: Observation(part.system, decode(part.data), dict(part.metadata), part.digest)
            for part in self.parts
        }

    @property
    def context(self) -> dict[str, Any]:
        """Return the values of the context."""
        values: dict[str, Any] = decode(self.context_data)
        return values

    @property
    def created_at(self) -> datetime:
        """Return when the world was first observed in this state."""
        return datetime.fromtimestamp(self.seconds, UTC)

    def __getitem__(self, system: str) -> Any:
        """Return the data of a system."""
        for part in self.parts:
            if part.system == system:
                return decode(part.data)
        raise KeyError(system)

    def with_data(self, system: str, data: Any) -> State:
        """Return this state with different data for a system, for use in `World(canonicalize=...)`."""
        self[system]
        parts = tuple(
            SystemState(system, encode(data, at=system), part.metadata) if part.system == system else part
            for part in self.parts
        )
        return State(self.digest, parts, self.context_data, self.checkpoint_id, self.seconds)

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, State) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"State({self.id})"


class Transition(msgspec.Struct, frozen=True, gc=False):
    """An action that ran in one state and led to another. `to_state_id` is None if the action raised."""

    from_state_id: str
    action_name: str
    to_state_id: str | None
    step: int = 0

    def __str__(self) -> str:
        return f"{self.from_state_id} →[{self.action_name}]→ {self.to_state_id or 'raised'}"


class Checkpoint(msgspec.Struct, frozen=True, eq=False):
    """A state that a world can be rolled back to. `name` is a label; checkpoints of the same name are independent."""

    id: str
    name: str
    system_checkpoints: dict[str, Any]
    context_snapshot: dict[str, Any]
    created_at: datetime


def pack(parts: tuple[SystemState, ...]) -> bytes:
    """Encode the systems of a state. Metadata without an encoding is stored as text.

    Large data is packed, so that bytes, arrays and frames in it are not Base64.
    """
    rows = [
        (part.system, _smaller(part.data), encode(_storable(part.metadata)), part.digest) for part in parts
    ]
    return msgspec.msgpack.encode(rows)


def unpack(data: bytes) -> tuple[SystemState, ...]:
    """Decode what `pack` returned."""
    rows = msgspec.msgpack.decode(data, type=list[tuple[str, bytes, bytes, bytes | None]])
    return tuple(
        SystemState(system, _canonical(data), decode(metadata), digest)
        for system, data, metadata, digest in rows
    )


def _smaller(data: bytes) -> bytes:
    """Return encoded data in the form in which it is stored."""
    return data if len(data) <= LARGE else packed(decode(data))


def _canonical(data: bytes) -> bytes:
    """Return the encoded data of what `_smaller` returned."""
    return data if stored_part(data) is data else encode(unpacked(data))


def _storable(metadata: dict[str, Any]) -> dict[str, Any]:
    try:
        encode(metadata)
    except EncodeError:
        return {str(key): repr(value) for key, value in metadata.items()}
    return metadata


def spill(state: State, file: SpillFile) -> State:
    """Move the systems of a state to a spill file and return the state that refers to it."""
    if not isinstance(state.held, tuple):
        return state
    stored = SpilledSystems(file, file.put(pack(state.held)))
    return State(state.digest, stored, state.context_data, state.checkpoint_id, state.seconds)

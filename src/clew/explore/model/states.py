"""What moves between the parts of the explorer: states, transitions, checkpoints.

A state is what all systems and the context showed at one moment. Its identity is a SHA-256 over the canonical
encodings of the systems' data and of the context, each with its length before it; `id` is the first 16 digits of it,
for people. A datetime and the text that looks like it are different states. Metadata never counts.

A state keeps encodings, not objects: what a system does to its own data later does not change a state that was seen,
and `observations` and `context` are built anew for whoever asks.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec

from clew.errors import EncodeError
from clew.explore.model.observation import Observation
from clew.explore.spill import SpillFile
from clew.state.codec import decode, encode

ID_LENGTH = 16


class SystemState(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a state keeps of one system: the encoded data, metadata, and the system's own digest, if it gave one."""

    system: str
    data: bytes
    metadata: dict[str, Any] = {}
    digest: bytes | None = None


class SpilledData(Protocol):
    """What a state keeps, where it was moved out of memory."""

    def load(self) -> tuple[SystemState, ...]: ...


class State(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The world at one moment. Two states are equal if their digests are."""

    digest: bytes
    held: tuple[SystemState, ...] | SpilledData
    context_data: bytes
    checkpoint_id: str | None = None
    seconds: float = 0.0

    @property
    def id(self) -> str:
        """The first 16 hexadecimal digits of the digest."""
        return self.digest.hex()[:ID_LENGTH]

    @property
    def parts(self) -> tuple[SystemState, ...]:
        """What is kept of each system, in the order of their names."""
        held = self.held
        return held if isinstance(held, tuple) else held.load()

    @property
    def observations(self) -> dict[str, Observation]:
        """What each system showed, by its name."""
        return {
            part.system: Observation(part.system, decode(part.data), dict(part.metadata), part.digest)
            for part in self.parts
        }

    @property
    def context(self) -> dict[str, Any]:
        """The values of the context."""
        values: dict[str, Any] = decode(self.context_data)
        return values

    @property
    def created_at(self) -> datetime:
        """When the world was first seen in this state."""
        return datetime.fromtimestamp(self.seconds, UTC)

    def __getitem__(self, system: str) -> Any:
        """The data that a system showed."""
        for part in self.parts:
            if part.system == system:
                return decode(part.data)
        raise KeyError(system)

    def with_data(self, system: str, data: Any) -> State:
        """The same state with other data for a system: what `World(canonical=...)` may return."""
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
    """An action that was done in one state and led to another. `to_state_id` is None where it raised."""

    from_state_id: str
    action_name: str
    to_state_id: str | None
    step: int = 0

    def __str__(self) -> str:
        return f"{self.from_state_id} →[{self.action_name}]→ {self.to_state_id or 'raised'}"


class Checkpoint(msgspec.Struct, frozen=True, eq=False):
    """A moment that a world can be taken back to. `name` is a label; two checkpoints of one name are independent."""

    id: str
    name: str
    system_checkpoints: dict[str, Any]
    context_snapshot: dict[str, Any]
    created_at: datetime


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

"""State identity: which observations of a world are the same state.

The explorer observes after every action, so an observation does little work. The data of each system is encoded once,
or not at all if the system returns a digest. All parts are hashed together, each prefixed with its length. Only an
observation of a new state becomes a `State`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from clew.errors import DefinitionError, EncodeError
from clew.explore.model.context import WorldContext
from clew.explore.model.states import State, SystemState
from clew.explore.model.system import Observation
from clew.state.values.codec import encode

_NOTHING: dict[str, Any] = {}
_BY_VALUE, _BY_DIGEST = b"v", b"d"
_LENGTHS = [n.to_bytes(8, "big") for n in range(4096)]


class WorldObservation(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An observation of a whole world: the digest of its state, and one entry per system in the order of names."""

    digest: bytes
    observations: tuple[Observation, ...]
    encoded: tuple[bytes | None, ...]  # the data of each system; None if the system returned a digest


class StateIdentity:
    """Observes a world and computes the digest of its state."""

    def __init__(
        self,
        systems: Mapping[str, Any],
        context: WorldContext,
        ignored: frozenset[str],
        canonicalize: Callable[[State], Any] | None,
    ) -> None:
        self._systems = [
            (name, systems[name], _prefix(name), name not in ignored) for name in sorted(systems)
        ]
        self._context = context
        self._ignored = ignored
        self._has_context = "context" not in ignored
        self._canonicalize = canonicalize
        self._context_prefix = _prefix("context") + b"c"

    def counts_in_context(self, key: str) -> bool:
        """Return whether a value of the context is part of the identity."""
        return self._has_context and key not in self._ignored

    def observe(self) -> WorldObservation:
        """Observe all systems and the context."""
        pieces: list[bytes] = []
        observations: list[Observation] = []
        encoded: list[bytes | None] = []
        for name, system, prefix, counts in self._systems:
            observation = system.observe()
            observations.append(observation)
            try:
                part = observation.digest
            except AttributeError:
                raise DefinitionError(
                    f"system {name!r}: observe must return an Observation, got {type(observation).__name__}"
                ) from None
            if part is not None:
                data, kind = None, _BY_DIGEST
                if type(part) is not bytes:
                    raise DefinitionError(
                        f"system {name!r}: the digest of an observation must be bytes, got {type(part).__name__}"
                    )
            else:
                data, kind = (part := encode(observation.data, at=name)), _BY_VALUE
            encoded.append(data)
            if counts:
                size = len(part)
                pieces += (prefix, kind, _LENGTHS[size] if size < 4096 else size.to_bytes(8, "big"), part)
        if self._has_context:
            pieces += (self._context_prefix, self._context.identity(self._ignored))
        observed = WorldObservation(sha256(b"".join(pieces)).digest(), tuple(observations), tuple(encoded))
        return observed if self._canonicalize is None else self._canonicalized(observed)

    def _canonicalized(self, observed: WorldObservation) -> WorldObservation:
        assert self._canonicalize is not None
        representative = self._canonicalize(self.state(observed, None, 0.0))
        if isinstance(representative, State):
            identity = self._identity_of(representative)
        else:
            try:
                identity = encode(representative, at="canonicalize(state)")
            except EncodeError as error:
                raise EncodeError(
                    f"{error}; canonicalize must return a State or a value that can be encoded"
                ) from error
        digest = sha256(b"canonical" + identity).digest()
        return WorldObservation(digest, observed.observations, observed.encoded)

    def _identity_of(self, representative: State) -> bytes:
        """Return the bytes that identify a state, without the ignored parts."""
        pieces = []
        for part in representative.parts:
            if part.system not in self._ignored:
                kind, data = (_BY_VALUE, part.data) if part.digest is None else (_BY_DIGEST, part.digest)
                pieces.append(_prefix(part.system) + kind + _sized(data))
        context = {key: value for key, value in representative.context.items() if key not in self._ignored}
        return b"".join(pieces) + (encode(context, at="context") if self._has_context else b"")

    def state(self, observed: WorldObservation, checkpoint_id: str | None, seconds: float) -> State:
        """Build a state from an observation."""
        parts = tuple(
            SystemState(
                name,
                encode(observation.data, at=name) if data is None else data,
                dict(observation.metadata) if observation.metadata else _NOTHING,
                observation.digest,
            )
            for (name, _, _, _), observation, data in zip(
                self._systems, observed.observations, observed.encoded
            )
        )
        # encoded now, because the context may change before the state is read
        context = encode(self._context.to_dict(), at="context") if self._ignored else self._context.identity()
        return State(observed.digest, parts, context, checkpoint_id, seconds)


def _prefix(name: str) -> bytes:
    return _sized(name.encode("utf-8", "surrogatepass"))


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part

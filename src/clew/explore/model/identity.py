"""Identity: which sights of a world are one state.

Looking is what the explorer does most, so it makes as little as it can: each system's data is encoded once, or not at
all where the system gives a digest of it, and everything is hashed in one go, each part with its length before it.
Only a sight that turns out to be a new state becomes a `State`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from clew.errors import DefinitionError, EncodeError
from clew.explore.model.context import WorldContext
from clew.explore.model.observation import Observation
from clew.explore.model.states import State, SystemState
from clew.state.codec import encode

_NOTHING: dict[str, Any] = {}
_BY_VALUE, _BY_DIGEST = b"v", b"d"
_LENGTHS = [n.to_bytes(8, "big") for n in range(4096)]


class WorldObservation(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One look at a world: the digest of the state, and what was seen, in the order of the systems' names."""

    digest: bytes
    observations: tuple[Observation, ...]
    encoded: tuple[bytes | None, ...]  # of each system's data; None where its digest was enough


class StateIdentity:
    """How a world is looked at."""

    def __init__(
        self,
        systems: Mapping[str, Any],
        context: WorldContext,
        ignored: frozenset[str],
        canonical: Callable[[State], Any] | None,
    ) -> None:
        self._systems = [
            (name, systems[name], _prefix(name), name not in ignored) for name in sorted(systems)
        ]
        self._context = context
        self._ignored = ignored
        self._whole = "context" not in ignored
        self._canonical = canonical
        self._context_prefix = _prefix("context") + b"c"

    def counts_in_context(self, key: str) -> bool:
        """Whether a value of the context tells states apart."""
        return self._whole and key not in self._ignored

    def look(self) -> WorldObservation:
        """Observe all systems and the context."""
        pieces: list[bytes] = []
        observations: list[Observation] = []
        encoded: list[bytes | None] = []
        for name, system, prefix, counts in self._systems:
            seen = system.observe()
            observations.append(seen)
            try:
                part = seen.digest
            except AttributeError:
                raise DefinitionError(
                    f"system {name!r}: observe returned {type(seen).__name__}, not an Observation"
                ) from None
            if part is not None:
                data, kind = None, _BY_DIGEST
                if type(part) is not bytes:
                    raise DefinitionError(
                        f"system {name!r}: the digest of an observation is bytes, not {type(part).__name__}"
                    )
            else:
                data, kind = (part := encode(seen.data, at=name)), _BY_VALUE
            encoded.append(data)
            if counts:
                size = len(part)
                pieces += (prefix, kind, _LENGTHS[size] if size < 4096 else size.to_bytes(8, "big"), part)
        if self._whole:
            pieces += (self._context_prefix, self._context.identity(self._ignored))
        sight = WorldObservation(sha256(b"".join(pieces)).digest(), tuple(observations), tuple(encoded))
        return sight if self._canonical is None else self._represented(sight)

    def _represented(self, sight: WorldObservation) -> WorldObservation:
        assert self._canonical is not None
        chosen = self._canonical(self.state(sight, None, 0.0))
        if isinstance(chosen, State):
            standing = self._standing(chosen)
        else:
            try:
                standing = encode(chosen, at="canonical(state)")
            except EncodeError as error:
                raise EncodeError(
                    f"{error}; canonical returns a State or a value that can be encoded"
                ) from error
        return WorldObservation(sha256(b"canonical" + standing).digest(), sight.observations, sight.encoded)

    def _standing(self, chosen: State) -> bytes:
        """The bytes of a state that stands for others, without what is ignored."""
        pieces = []
        for part in chosen.parts:
            if part.system not in self._ignored:
                kind, seen = (_BY_VALUE, part.data) if part.digest is None else (_BY_DIGEST, part.digest)
                pieces.append(_prefix(part.system) + kind + _sized(seen))
        context = {key: value for key, value in chosen.context.items() if key not in self._ignored}
        return b"".join(pieces) + (encode(context, at="context") if self._whole else b"")

    def state(self, sight: WorldObservation, checkpoint_id: str | None, seconds: float) -> State:
        """A sight as a state that can be kept."""
        parts = tuple(
            SystemState(
                name,
                encode(seen.data, at=name) if data is None else data,
                dict(seen.metadata) if seen.metadata else _NOTHING,
                seen.digest,
            )
            for (name, _, _, _), seen, data in zip(self._systems, sight.observations, sight.encoded)
        )
        # the context may have moved on by the time somebody reads it, so its bytes are taken now
        context = encode(self._context.to_dict(), at="context") if self._ignored else self._context.identity()
        return State(sight.digest, parts, context, checkpoint_id, seconds)


def _prefix(name: str) -> bytes:
    return _sized(name.encode("utf-8", "surrogatepass"))


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part

"""What a state keeps about the run behind it: executions, and where in the run it stands; and its digest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import msgspec

from clew.state.codec import digest, encode
from clew.state.stored import stored_values


class VersionMap(dict[str, int]):
    """Versions by name, fixed once they are recorded."""

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("what was recorded does not change; make a record of your own")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return VersionMap, (dict(self),)


@dataclass(frozen=True, slots=True)
class NodeExecution:
    """Record of a node execution."""

    node_name: str
    input_versions: Mapping[str, int]
    """Versions of the inputs when it ran."""
    output_version: int
    """Version of the output that it produced (of its first, if it has several)."""
    timestamp: float
    """When it ran: seconds since the epoch."""
    duration_ms: float
    cached: bool
    output_versions: Mapping[str, int] = field(default_factory=dict)
    """Versions of all its outputs, by name."""
    step: int = 0
    """The step that it ran in."""


class Position(msgspec.Struct, frozen=True):
    """Where in a run a state stands: what a restored state needs to go on exactly as the unbroken one
    would."""

    step: int = 0
    seed: int | None = None
    given: frozenset[str] = frozenset()
    """Names of the values given at the start."""
    digest: str = ""
    """Digest of the state at this step, in hexadecimal; empty until a run made one."""
    visits: Mapping[str, int] = {}
    """How many batches of each node have run."""
    wakes: Mapping[str, int] = {}
    """Why a node is woken: bits, whose meaning belongs to the engine."""
    selections: Mapping[str, tuple[tuple[str, bool], ...]] = {}
    """Pending selections of a node: the gate, and whether the selection is final (the gate will not withdraw it)."""
    sends: Mapping[str, tuple[tuple[str, Mapping[str, Any], bool], ...]] = {}
    """Pending items of a node: the gate, the payload, and whether the Send is final."""
    failed: frozenset[str] = frozenset()
    """Nodes that failed under ``on_error="continue"``."""
    touched: frozenset[str] = frozenset()
    """Values written by hand since the last step."""
    decided: frozenset[str] = frozenset()
    """Gates whose decision was recorded by hand since the last step."""
    filled: frozenset[str] = frozenset()
    """Defaults that a resume filled in, because the schema had gained them: no digest covers them."""
    stopped: bool = False
    """Whether ``mark_terminated`` was called: then nothing runs from here."""


STOPPED = b"clew:stopped"
"""What the digest of a state has in it on which ``mark_terminated`` was called."""


def digest_of(
    position: Position,
    values: Mapping[str, Any],
    versions: Mapping[str, int],
    decisions: Mapping[str, str | tuple[str, ...]],
) -> str:
    """Give the digest of a state: the run's, joined with what was written and decided by hand since."""
    decided = (
        [encode({gate: decisions.get(gate, ()) for gate in position.decided})] if position.decided else []
    )
    if position.stopped:
        decided.append(STOPPED)
    if not position.digest:
        kept = {name: value for name, value in values.items() if name not in position.filled}
        return first_digest(_canonical(kept), {name: versions[name] for name in kept}, *decided)
    if not position.touched and not decided:
        return position.digest
    touched = {name: versions[name] for name in position.touched}
    return changed_digest(
        position.digest, _canonical({name: values[name] for name in touched}), touched, *decided
    )


def _canonical(values: Mapping[str, Any]) -> bytes:
    """Give the canonical bytes of values by name, as digests are over them: large content counts by its digest."""
    return stored_values(values, at="state", blobs={})[1]


def first_digest(values: bytes, versions: Mapping[str, int], *decided: bytes) -> str:
    """Give the digest of a state that no run has made: over the canonical bytes of its values, and its versions."""
    return digest(b"clew:S0", values, encode(dict(versions)), *decided)


def changed_digest(before: str, values: bytes, versions: Mapping[str, int], *decided: bytes) -> str:
    """Give the digest of a state in which values were set: over the digest before, and the canonical bytes of these."""
    return digest(b"clew:set", bytes.fromhex(before), values, encode(dict(versions)), *decided)

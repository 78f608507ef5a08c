"""The executions, the position in a run and the digest of a state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NoReturn

import msgspec

from clew.state.values.codec import digest, encode
from clew.state.values.stored import stored_values

Count = Annotated[int, msgspec.Meta(ge=0)]


class VersionMap(dict[str, int]):
    """Versions by name; immutable."""

    def _reject(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("recorded versions cannot be changed; make a copy with dict(versions)")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _reject

    def __reduce__(self) -> tuple[Any, ...]:
        return VersionMap, (dict(self),)


@dataclass(frozen=True, slots=True)
class NodeExecution:
    """A record of a node execution."""

    node_name: str
    input_versions: Mapping[str, int]
    """Versions of the inputs when it ran."""
    output_version: int
    """Version of its first output."""
    timestamp: float
    """When it ran: seconds since the epoch."""
    duration_ms: float
    cached: bool
    output_versions: Mapping[str, int] = field(default_factory=dict)
    """Versions of all its outputs, by name."""
    step: int = 0
    """The step that it ran in."""


class Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The position of a state in its run: everything that a restored state needs to continue in the same way."""

    step: Count = 0
    seed: int | None = None
    given: frozenset[str] = frozenset()
    """Names of the values given at the start."""
    digest: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64})?$")] = ""
    """Digest of the state at this step, in hexadecimal; empty before the first run."""
    visits: Mapping[str, Count] = {}
    """How many batches of each node have run."""
    wakes: Mapping[str, int] = {}
    """Wake flags of nodes; the engine defines the bits."""
    selections: Mapping[str, tuple[tuple[str, bool], ...]] = {}
    """Pending selections of a node: the gate, and whether the selection is final (the gate will not withdraw it)."""
    arrived: Mapping[str, tuple[str, ...]] = {}
    """For a join (``all_of``): the nodes that have run since its last run."""
    sends: Mapping[str, tuple[tuple[str, Mapping[str, Any], bool], ...]] = {}
    """Pending items of a node: the gate, the payload, and whether the Send is final."""
    failed: frozenset[str] = frozenset()
    """Nodes that failed under ``on_error="continue"``."""
    touched: frozenset[str] = frozenset()
    """Values that were set manually since the last step."""
    decided: frozenset[str] = frozenset()
    """Gates whose decision was recorded manually since the last step."""
    filled: frozenset[str] = frozenset()
    """Defaults of new schema fields that a resume has filled in; digests do not cover them."""
    stopped: bool = False
    """Whether ``mark_terminated`` was called, so that nothing runs from here."""
    began: Count = 0
    """The step at which the last turn of a thread began: the steps of earlier turns do not count for `max_steps`."""


# Each field with its default, and whether it is a mapping.
_FIELDS = [
    (name, default, isinstance(default, Mapping))
    for name, default in msgspec.structs.asdict(Position()).items()
]


def plain_position(position: Position) -> dict[str, Any]:
    """Return the fields of a position that are not empty, with plain dicts for mappings, also for payloads."""
    return {
        name: _plain(value) if is_mapping else value
        for (name, default, is_mapping), value in zip(_FIELDS, msgspec.structs.astuple(position), strict=True)
        if value != default
    }


def plain_history(history: Mapping[str, NodeExecution]) -> list[list[Any]]:
    """Return the fields of the latest execution of each node."""
    return [[_plain(getattr(run, name)) for name in NodeExecution.__slots__] for run in history.values()]


def read_history(runs: Iterable[Iterable[Any]]) -> dict[str, NodeExecution]:
    """Return the executions of `plain_history`."""
    history = dict[str, NodeExecution]()
    for name, inputs, version, timestamp, duration, cached, outputs, step in runs:
        versions = VersionMap(inputs), version, timestamp, duration, cached, VersionMap(outputs)
        history[name] = NodeExecution(name, *versions, step)
    return history


def _plain(field: Any) -> Any:
    if not isinstance(field, Mapping):
        return field
    return {
        name: tuple(map(_plain_pending, part)) if isinstance(part, tuple) else part
        for name, part in field.items()
    }


def _plain_pending(pending: tuple[Any, ...] | str) -> tuple[Any, ...] | str:
    if isinstance(pending, str):
        return pending
    return tuple(dict(part) if isinstance(part, Mapping) else part for part in pending)


STOPPED = b"clew:stopped"
"""Part of the digest of a state on which ``mark_terminated`` was called."""


def digest_of(
    position: Position,
    values: Mapping[str, Any],
    versions: Mapping[str, int],
    decisions: Mapping[str, str | tuple[str, ...]],
) -> str:
    """Return the digest of a state: the run's, combined with manual changes since then."""
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
    """Return the canonical bytes of values for a digest; large content is represented by its digest."""
    return stored_values(values, at="state", blobs={})[1]


def first_digest(values: bytes, versions: Mapping[str, int], *decided: bytes) -> str:
    """Return the digest of an initial state: over the canonical bytes of its values, and its versions."""
    return digest(b"clew:S0", values, encode(dict(versions)), *decided)


def changed_digest(before: str, values: bytes, versions: Mapping[str, int], *decided: bytes) -> str:
    """Return the digest of a changed state: over the previous digest, and the canonical bytes of the changed values."""
    return digest(b"clew:set", bytes.fromhex(before), values, encode(dict(versions)), *decided)

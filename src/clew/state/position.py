"""What a state keeps about the run behind it: executions, and where in the run it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import msgspec


class Versions(dict[str, int]):
    """Versions by name, fixed once they are recorded."""

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("what was recorded does not change; make a record of your own")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return Versions, (dict(self),)


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

"""Checkpoints: a state of a run with its metadata.

A checkpoint computes its digest and its frontier on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from clew.engine.next_items import next_items
from clew.engine.origins import Past
from clew.engine.program import Program
from clew.engine.records import WorkItem
from clew.runtime.log.call_records import RecordedCall
from clew.state import GraphState, digest


@dataclass(frozen=True, slots=True)
class Origin:
    """The chain of a checkpoint, from which its next items are computed."""

    program: Program
    prefix: str
    attempts: Mapping[str, int]
    """The retries of its items, by path."""
    past: Past = field(compare=False)
    """When nodes ran before this state."""


class Checkpoint(msgspec.Struct, frozen=True):
    """S(step_id) of a run, with the fields of the specification and the digest; `state` is the whole state."""

    run_id: str
    step_id: int
    state: GraphState
    rng_seed: int
    timestamp: float
    label: str | None
    items: tuple[str, ...]
    """Paths of the items of the step, in order."""
    nested: Mapping[str, tuple[Checkpoint, ...]] = {}
    """The chains of subgraph items of this step, by path."""
    recorded_ios: tuple[RecordedCall, ...] = ()
    """The recorded calls of the items of this step, also in their subgraphs."""
    by_hand: bool = False
    """Whether a person made the step, with ``Engine.update``."""
    labels: tuple[str, ...] = ()
    """All labels of this step; `label` is the first one."""
    _origin: Origin | None = None

    @property
    def digest(self) -> str:
        """The digest of this state."""
        return self.state.digest

    @property
    def values(self) -> Mapping[str, Any]:
        """The values of this state."""
        return self.state.values

    @property
    def idempotency_key(self) -> str:
        """A unique key of this commit: a hash of run, step and digest."""
        parts = (
            b"clew:checkpoint",
            self.run_id.encode(),
            str(self.step_id).encode(),
            bytes.fromhex(self.digest),
        )
        return f"sha256:{digest(*parts)}"

    @property
    def frontier(self) -> tuple[WorkItem, ...]:
        """The items of the next step, in their order."""
        if self._origin is None:
            return ()
        origin = self._origin
        items = next_items(
            origin.program, self.state, origin.prefix, attempts=origin.attempts, past=origin.past
        )
        return tuple(items)

    def __repr__(self) -> str:
        label = f" {self.label!r}" if self.label is not None else ""
        return (
            f"<Checkpoint {self.step_id}{label} of {self.run_id!r}: {', '.join(self.items) or 'the start'}"
            f"{' (by hand)' if self.by_hand else ''}>"
        )

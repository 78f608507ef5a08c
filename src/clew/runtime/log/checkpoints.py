"""Checkpoints: a state of a run with its metadata.

A checkpoint computes its digest and its frontier on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from clew import display
from clew.engine.history.next_items import next_items
from clew.engine.history.origins import Past
from clew.engine.program import Program
from clew.engine.records import WorkItem
from clew.runtime.log.entries.call_records import RecordedCall
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


_SHOWN = 50


class Checkpoint(msgspec.Struct, frozen=True):
    """A state of a run: S(step_id), with its digest and the items of the step. `state` is the whole state."""

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
    cached: tuple[str, ...] = ()
    """Those of `items` whose result was cached, or reused by a rerun."""
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

    def _repr_html_(self) -> str:
        return History([self])._repr_html_()


class History(list[Checkpoint]):
    """The checkpoints of a run, oldest first."""

    def __repr__(self) -> str:
        shown = "\n".join(f"  {checkpoint!r}" for checkpoint in self[:_SHOWN])
        more = f"\n  and {len(self) - _SHOWN:,} more" if len(self) > _SHOWN else ""
        return f"<History of {len(self):,} checkpoints>\n{shown}{more}" if self else "<History: empty>"

    def _repr_html_(self) -> str:
        before: Mapping[str, int] = {}
        rows = []
        for checkpoint in self[:_SHOWN]:
            versions = checkpoint.state.versions
            written = [name for name in versions if before.get(name) != versions[name]]
            before = versions
            changes = [(display.cell(n), display.value_cell(checkpoint.values[n])) for n in written]
            ran = display.cell(display.listed(checkpoint.items) or "the start")
            labels = display.cell(", ".join(checkpoint.labels))
            rows.append((display.cell(checkpoint.step_id), labels, ran, display.table((), changes)))
        more = display.line(f"and {len(self) - _SHOWN:,} more") if len(self) > _SHOWN else ""
        return display.page(display.table(("step", "label", "ran", "wrote"), rows), more)

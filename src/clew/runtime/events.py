"""The stream of events: what `stream` yields and listeners are told.

An event is a frozen record with a kind, the run, the step, the item's path, the time, and data that depends on the
kind:

===================  ==========================================================================
run_started          graph, values
step_planned         nodes
item_queued          node, items (how many of the batch)
item_started         node, attempt
item_finished        node, duration, update
item_failed          node, error, attempt
item_retried         node, attempt, delay
gate_decided         node, decision
decision_withdrawn   node, decision (what no longer holds)
call_recorded        node, name, reused
chunk                node, chunk
emitted              node, name, data (``ctx.emit``)
interrupted          node, question
backpressure         depth
step_committed       items
checkpoint           label
run_finished         status, error
===================  ==========================================================================

Events are made only when somebody listens, and told after what they tell of is committed. A listener cannot break
a run: one that raises is logged and not told anything more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

Kind = Literal[
    "run_started",
    "step_planned",
    "item_queued",
    "item_started",
    "item_finished",
    "item_failed",
    "item_retried",
    "gate_decided",
    "decision_withdrawn",
    "call_recorded",
    "chunk",
    "emitted",
    "interrupted",
    "backpressure",
    "step_committed",
    "checkpoint",
    "run_finished",
]


class Event(msgspec.Struct, frozen=True):
    """Something that happened in a run."""

    kind: Kind
    run_id: str
    step: int
    path: str
    time: float
    data: Mapping[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        # reached only for names that are no field: an event's data reads like its attributes
        data = object.__getattribute__(self, "data")
        if name in data:
            return data[name]
        raise AttributeError(f"a {self.kind!r} event has no {name!r}; it has {', '.join(data)}")


Listener = Callable[[Event], Any]


class Listeners:
    """Those who are told."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = list(listeners)

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def tell(self, event: Event) -> None:
        """Tell all; whoever raises is told no more."""
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                import logging

                log = logging.getLogger("clew.events")
                log.exception("listener %r raised on %s and is dropped", listener, event.kind)
                self._listeners.remove(listener)

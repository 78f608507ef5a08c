"""Events: what `stream` yields and listeners receive.

An event is a frozen record with a kind, the run, the step, the path of the item, the time, and data that depends on
the kind:

===================  ==========================================================================
run_started          graph, values
step_planned         nodes
item_queued          node, items (the size of the batch)
item_started         node, attempt
item_finished        node, duration, update
item_failed          node, error, attempt
item_retried         node, attempt, delay
item_rescued         node, error
gate_decided         node, decision
decision_withdrawn   node, decision (the one that is no longer valid)
call_recorded        node, name, reused
chunk                node, chunk
emitted              node, name, data (``ctx.emit``)
interrupted          node, question, number (of the item's earlier answers)
backpressure         depth
step_committed       items
checkpoint           label
run_finished         status, error, metrics (``SchedulerMetrics``; not for a run of another process)
child_started        graph, values (as `run_started`, of a child of the run)
child_finished       status, error, metrics (as `run_finished`)
===================  ==========================================================================

When a run is resumed, listeners get `item_finished` and `gate_decided` again for items whose step was not committed,
with ``restored=True``. Streams leave these events out. Handles pass on the ones that they have not reported yet.

Events of a stream or a handle have a cursor: after an interruption, `RunHandle.events(after=event.cursor)` continues
after that event.

Events are created only if the run has a listener or is streamed. They are sent after the change that they report is
committed. A listener cannot break a run: if it raises, the exception is logged and the listener is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from clew.state.type_names import with_article

Kind = Literal[
    "run_started",
    "step_planned",
    "item_queued",
    "item_started",
    "item_finished",
    "item_failed",
    "item_retried",
    "item_rescued",
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
    "child_started",
    "child_finished",
]


class Event(msgspec.Struct, frozen=True):
    """Something that happened in a run."""

    kind: Kind
    run_id: str
    step: int
    path: str
    time: float
    data: Mapping[str, Any] = {}
    cursor: str = ""  # opaque; empty for listeners

    def __getattr__(self, name: str) -> Any:
        # called only for names that are not fields
        data = object.__getattribute__(self, "data")
        if name in data:
            return data[name]
        raise AttributeError(
            f"{with_article(repr(self.kind))} event has no {name!r}; available: {', '.join(data)}"
        )

    def __repr__(self) -> str:
        from clew.display import brief

        at = f" at {self.path}" if self.path else ""
        data = ", ".join(f"{name}={brief(value)}" for name, value in self.data.items())
        return f"<Event {self.kind} of {self.run_id!r}, step {self.step}{at}: {data or 'no data'}>"


Listener = Callable[[Event], Any]


class Listeners:
    """The listeners of one run."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = list(listeners)

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def __iter__(self) -> Iterator[Listener]:
        return iter(tuple(self._listeners))

    def send(self, event: Event) -> None:
        """Send an event to all listeners; remove a listener that raises."""
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                from clew.loggers import logger

                logger("events").exception("listener %r raised on %s and was removed", listener, event.kind)
                self._listeners.remove(listener)

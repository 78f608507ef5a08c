"""Observe runs in production: traces (OpenTelemetry) and metrics (Prometheus).

Both are observers, which are passed among the `listeners` of an engine or a worker::

    engine = Engine(graph, listeners=[Tracing(), Metrics()])

`Tracing` needs the extra ``clew[otel]``, and `Metrics` the extra ``clew[metrics]``.
"""

from __future__ import annotations

import typing as _typing

if _typing.TYPE_CHECKING:
    from clew.observe.metrics import Metrics, store_metrics
    from clew.observe.model_calls import describe_model_call
    from clew.observe.tracing import Tracing

__all__ = ["Metrics", "Tracing", "describe_model_call", "store_metrics"]

_LATER = {
    "Metrics": "clew.observe.metrics",
    "Tracing": "clew.observe.tracing",
    "describe_model_call": "clew.observe.model_calls",
    "store_metrics": "clew.observe.metrics",
}


if not _typing.TYPE_CHECKING:  # each needs additional packages

    def __getattr__(name: str) -> _typing.Any:
        from importlib import import_module

        if name not in _LATER:
            raise AttributeError(f"module 'clew.observe' has no attribute {name!r}")
        return getattr(import_module(_LATER[name]), name)

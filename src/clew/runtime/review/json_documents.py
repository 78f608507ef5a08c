"""Checkpoints, work items and recorded calls as JSON: exactly the specification's fields, under its names.

What the specification has no field for is in one object ``clew`` beside them. Order keys are 16 hexadecimal digits and
seeds are text, because numbers beyond 2^53 survive few readers of JSON; times are RFC 3339 in UTC; values are trees of
the canonical codec, so they come back as they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from clew.engine.records import Failure, WorkItem
from clew.runtime.log.call_records import RecordedCall
from clew.runtime.log.checkpoints import Checkpoint
from clew.runtime.log.stored_errors import plain_error, plain_failure
from clew.runtime.review.document_format import FORMAT, Json
from clew.state import NodeExecution, to_tree


def work_item_json(item: WorkItem) -> Json:
    """A work item of the specification."""
    return {
        "step_id": item.step_id,
        "order_key": f"{item.order_key:016x}",
        "node_id": item.node_id,
        "state": values_json(item.state),
        "attempt": item.attempt,
        "parent_node_id": item.parent_node_id,
        "edge_index": item.edge_index,
        "clew": {"path": item.path},
    }


def recorded_io_json(call: RecordedCall) -> Json:
    """A recorded call of the specification; the response of one that raised is null."""
    args, kwargs = call.request
    beside: Json = {"path": call.path, "call": call.number, "name": call.name, "awaited": call.awaited}
    if call.within:
        beside["within"] = list(call.within)
    if call.error is not None:
        beside["error"] = values_json(error_json(call.error))
    return {
        "node_id": call.node_id,
        "attempt": call.attempt,
        "request": {"args": to_tree(list(args), at="request"), "kwargs": values_json(kwargs)},
        "response": to_tree(call.response, at="response"),
        "hash": call.hash,
        "timestamp": time_json(call.timestamp),
        "duration_ms": round(call.duration * 1000.0, 3),
        "clew": beside,
    }


def checkpoint_json(checkpoint: Checkpoint, history: Mapping[str, NodeExecution] | None = None) -> Json:
    """A checkpoint of the specification. `history`, if somebody has it at hand, is that of its state."""
    state = checkpoint.state
    beside: Json = {
        "format": FORMAT,
        "digest": checkpoint.digest,
        "items": list(checkpoint.items),
        "versions": dict(state.versions),
        "decisions": {
            gate: made if isinstance(made, str) else list(made) for gate, made in state.gate_decisions.items()
        },
        "terminated": state.terminated,
        "history": {
            node: _execution_json(execution)
            for node, execution in (state.node_history if history is None else history).items()
        },
    }
    if len(checkpoint.labels) > 1:
        beside["labels"] = list(checkpoint.labels)
    if checkpoint.nested:
        beside["nested"] = {
            path: [checkpoint_json(inner) for inner in chain] for path, chain in checkpoint.nested.items()
        }
    return {
        "run_id": checkpoint.run_id,
        "step_id": checkpoint.step_id,
        "state": values_json(state.values),
        "frontier": [work_item_json(item) for item in checkpoint.frontier],
        "rng_seed": str(checkpoint.rng_seed),
        "recorded_ios": [recorded_io_json(call) for call in checkpoint.recorded_ios],
        "idempotency_key": checkpoint.idempotency_key,
        "timestamp": time_json(checkpoint.timestamp),
        "label": checkpoint.label or "",
        "clew": beside,
    }


def values_json(values: Mapping[str, Any]) -> Json:
    """Values by name, each as a tree of the codec: names are text, so the object needs no form of its own."""
    return {name: to_tree(value, at=name) for name, value in values.items()}


def error_json(error: BaseException) -> Json:
    """An error: its type, message and notes. Where it was raised stays in the log."""
    return {key: value for key, value in plain_error(error).items() if key != "traceback"}


def failure_json(failure: Failure) -> Json:
    """A failure: its error, and under ``at`` its step, node, path and attempt."""
    return {key: value for key, value in plain_failure(failure).items() if key != "traceback"}


def time_json(seconds: float) -> str:
    """Return seconds since the epoch as RFC 3339 in UTC; as a number if no calendar has them."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return repr(seconds)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def is_time(text: str) -> bool:
    """Tell whether `time_json` found a time in the calendar."""
    return text.endswith("Z")


def _execution_json(execution: NodeExecution) -> Json:
    return {
        "input_versions": dict(execution.input_versions),
        "output_versions": dict(execution.output_versions),
        "timestamp": time_json(execution.timestamp),
        "duration_ms": round(execution.duration_ms, 3),
        "cached": execution.cached,
        "step": execution.step,
    }

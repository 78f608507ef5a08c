"""Checkpoints, work items and recorded calls as JSON, with exactly the fields of the specification.

Other data is in one additional object ``clew``. Order keys are 16 hexadecimal digits and seeds are strings, because
many JSON readers change numbers beyond 2^53. Times are RFC 3339 in UTC. Values are JSON trees of the canonical codec,
which decodes them unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from clew.engine.records import Failure, WorkItem
from clew.runtime.log.checkpoints import Checkpoint
from clew.runtime.log.entries.call_records import RecordedCall
from clew.runtime.log.entries.stored_errors import plain_error, plain_failure
from clew.runtime.review.document_format import FORMAT, Json
from clew.state import NodeExecution, to_tree


def work_item_json(item: WorkItem) -> Json:
    """Return a work item of the specification."""
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
    """Return a recorded call of the specification; the response is null if the call raised."""
    args, kwargs = call.request
    extra: Json = {"path": call.path, "call": call.number, "name": call.name, "awaited": call.awaited}
    if call.within:
        extra["within"] = list(call.within)
    if call.error is not None:
        extra["error"] = values_json(error_json(call.error))
    return {
        "node_id": call.node_id,
        "attempt": call.attempt,
        "request": {"args": to_tree(list(args), at="request"), "kwargs": values_json(kwargs)},
        "response": to_tree(call.response, at="response"),
        "hash": call.hash,
        "timestamp": time_json(call.timestamp),
        "duration_ms": round(call.duration * 1000.0, 3),
        "clew": extra,
    }


def checkpoint_json(checkpoint: Checkpoint, history: Mapping[str, NodeExecution] | None = None) -> Json:
    """Return a checkpoint of the specification. `history` is that of its state, if the caller already has it."""
    state = checkpoint.state
    extra: Json = {
        "format": FORMAT,
        "digest": checkpoint.digest,
        "items": list(checkpoint.items),
        **({"by_hand": True} if checkpoint.by_hand else {}),
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
        extra["labels"] = list(checkpoint.labels)
    if checkpoint.cached:
        extra["cached"] = list(checkpoint.cached)
    if checkpoint.nested:
        extra["nested"] = {
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
        "clew": extra,
    }


def values_json(values: Mapping[str, Any]) -> Json:
    """Return values by name, each as a JSON tree of the codec."""
    return {name: to_tree(value, at=name) for name, value in values.items()}


def error_json(error: BaseException) -> Json:
    """Return an error without its traceback, which stays in the log."""
    return {key: value for key, value in plain_error(error).items() if key != "traceback"}


def failure_json(failure: Failure) -> Json:
    """Return a failure: its error, with step, node, path and attempts under ``at``."""
    return {key: value for key, value in plain_failure(failure).items() if key != "traceback"}


def time_json(seconds: float) -> str:
    """Return seconds since the epoch as RFC 3339 in UTC; as a number if the time is out of range."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return repr(seconds)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def is_time(text: str) -> bool:
    """Return whether `time_json` returned an RFC 3339 time."""
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

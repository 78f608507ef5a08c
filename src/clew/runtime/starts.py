"""What a run began with, as it is kept.

======  ========================================================================================================
0x89    a checkpoint
``[``   a checkpoint without the large values, and the digests of those: they are kept apart, once
``{``   a fork: which step of which run, and what was set there; large values apart too
======  ========================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from clew.runtime.wire import LARGE, parted
from clew.state import GraphState, decode, encode


def kept_start(start: GraphState, parent: str | None, step: int | None) -> tuple[bytes, dict[str, bytes]]:
    """A first state as bytes, and the large contents that they speak of."""
    blobs: dict[str, bytes] = {}
    if parent is not None:
        touched = {name: start.get(name) for name in sorted(start.position.touched)}
        small, apart = parted(touched, blobs)
        fork: dict[str, Any] = {"parent": parent, "step": step, "set": small}
        if apart:
            fork["apart"] = apart
        return encode(fork, at="fork", ordered=True), blobs
    data = start.to_checkpoint()
    if len(data) <= LARGE:
        return data, blobs
    _, apart = parted(start.values, blobs)
    if not apart:
        return data, blobs
    light = with_contents(start, dict.fromkeys(apart))
    return encode([apart, light.to_checkpoint()], at="start", ordered=True), blobs


def is_fork(data: bytes) -> bool:
    """Whether a first state is kept as a step of another run."""
    return bytes(data[:1]) == b"{"


def fork_of(data: bytes, blob: Callable[[str], bytes]) -> tuple[str, int, dict[str, Any]]:
    """Of a fork: the run, the step, and the values that were set there."""
    fork: Mapping[str, Any] = decode(data)
    large = {name: decode(blob(digest)) for name, digest in fork.get("apart", {}).items()}
    values = {**fork["set"], **large}
    return fork["parent"], fork["step"], {name: values[name] for name in sorted(values)}


def first_state(data: bytes, blob: Callable[[str], bytes]) -> GraphState:
    """The first state of a run that is no fork."""
    if bytes(data[:1]) != b"[":
        return GraphState.from_checkpoint(data)
    apart, light = decode(data)
    large = {name: decode(blob(digest)) for name, digest in apart.items()}
    return with_contents(GraphState.from_checkpoint(light), large)


def with_contents(state: GraphState, values: Mapping[str, Any]) -> GraphState:
    """The same state with these contents, which no version counts."""
    return GraphState.assemble(
        values={**state.values, **values},
        versions=dict(state.versions),
        decisions=dict(state.gate_decisions),
        terminated=state.has_chosen_end,
        position=state.located(),
        history=dict(state.node_history),
    )

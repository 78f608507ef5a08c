"""Children as calls: what is recorded about `ctx.run`, and how a child gets its id and its seed."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from clew.errors import InputError
from clew.graph import Graph
from clew.runtime.log.checks.run_checks import input_values
from clew.runtime.log.entries.call_records import Place
from clew.runtime.run_ids import CHILD_PREFIX
from clew.state import GraphState
from clew.state.valid_values import ValidValues

CHILD = "clew.run"
"""The name of the recorded call of `ctx.run`. Its response is the id of the child."""


def given_to(graph: Any, values: Any, key: Any) -> dict[str, Any]:
    """Check the arguments of `ctx.run`, and return the values of the child."""
    if not isinstance(graph, Graph):
        raise InputError(f"ctx.run expects a graph, got {graph!r}; write ctx.run(Graph([...]), values)")
    if isinstance(values, GraphState):
        raise InputError("ctx.run expects values, got a state; pass state.values")
    if key is not None and (type(key) is not str or not key):
        raise InputError(f"key must be a string that is not empty, or None, got {key!r}")
    given = input_values(graph, values)
    return given if isinstance(given, ValidValues) else dict(given)


def child_id(run_id: str, path: str, place: Place, key: str | None, number: int) -> str:
    """Return the id of a child: of `number` 0, or of a later child at the same place."""
    return CHILD_PREFIX + _hash("child", run_id, path, *_call(place, key), str(number)).hex()[:32]


def child_seed(seed: int, path: str, place: Place, key: str | None) -> int:
    """Return the seed of a child. It follows from the seed of its run, not from the id."""
    return int.from_bytes(_hash("seed", str(seed), path, *_call(place, key))[:7], "big")


def _call(place: Place, key: str | None) -> tuple[str, ...]:
    call = ".".join(map(str, place))
    return (call,) if key is None else (call, key)


def _hash(*parts: str) -> bytes:
    return sha256("".join(f"{len(part)}:{part}" for part in parts).encode()).digest()

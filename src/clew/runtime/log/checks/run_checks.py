"""Checks of the steps, values and graphs that a run starts or continues with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from clew.engine.stops import place_of
from clew.errors import GraphChangedError, InputError, UnknownValueError
from clew.graph import Graph
from clew.runtime.log.frames import node_at
from clew.state import GraphState, position_of
from clew.state.valid_values import valid_names


def check_step(step: Any) -> None:
    """Raise InputError unless this is a step number, a label or None."""
    if not (step is None or type(step) in (int, str)):
        raise InputError(f"expected a step number or a label, got {step!r}")


def check_nodes(state: GraphState, graph: Graph, run_id: str, open_paths: Iterable[str] = ()) -> None:
    """Raise GraphChangedError if the graph lacks a node of the run, or of the open work at these paths."""
    position = position_of(state)  # a removed node that never ran left only a wake flag
    used = {*position.visits, *position.sends, *position.selections, *position.failed, *open_paths}
    for path in sorted(path.partition("!")[0] for path in used):
        if node_at(graph, path) is None:
            name = place_of(f"{path}/")[:-1]
            raise GraphChangedError(
                f"run {run_id!r} has used node {name!r}, which this graph does not have; add the node again (its code "
                f"may differ), or start a new run"
            )


def check_mapping(values: Any) -> None:
    """Raise InputError unless values are a mapping."""
    if not isinstance(values, Mapping):
        raise InputError(f"expected a mapping of names to values, got {values!r}")


def checked_values(graph: Graph, values: Mapping[str, Any], what: str) -> Mapping[str, Any]:
    """Return changed values as the schema validates them. `what` names the operation in errors."""
    check_mapping(values)
    schema = graph.schema
    if schema is None:
        return values
    for name in values:
        try:
            schema.check_name(name, what)
        except UnknownValueError as error:
            raise InputError(str(error)) from None
    valid = valid_names(values)
    try:
        return {
            name: value if name in valid else schema.validate(name, value) for name, value in values.items()
        }
    except ValueError as error:
        raise InputError(f"{what}: {error}") from error


def input_values(graph: Graph, values: Any) -> Mapping[str, Any]:
    """Return input values as a mapping; None and instances of the state schema are valid too."""
    if values is None:
        return {}
    if isinstance(values, Mapping):
        return values
    schema = graph.schema
    if schema is None or not isinstance(values, schema.cls):
        raise InputError(f"values must map names to values, got {values!r}")
    return schema.given(values)

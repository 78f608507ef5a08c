"""What a run may begin or continue with: steps, values, and a graph that has the nodes of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clew.errors import GraphChangedError, InputError
from clew.graph import Graph
from clew.state import GraphState


def check_step(step: Any) -> None:
    """Refuse what names no step."""
    if not (step is None or type(step) in (int, str)):
        raise InputError(f"a step is a whole number or a label, not {step!r}")


def check_nodes(state: GraphState, graph: Graph, run_id: str) -> None:
    """Refuse to continue with a graph that lacks a node of the run."""
    position = state.position  # a node that never ran and is gone leaves nothing behind but a wake
    for name in sorted({*position.visits, *position.sends, *position.selections, *position.failed}):
        if name not in graph.nodes:
            raise GraphChangedError(
                f"run {run_id!r} knows a node {name!r} that this graph does not have; give the node back (its code "
                f"may be another), or run the new graph from the start"
            )


def check_mapping(values: Any) -> None:
    """Refuse values that have no names."""
    if not isinstance(values, Mapping):
        raise InputError(f"values are a mapping of names to values, not {values!r}")


def is_text(text: str) -> bool:
    """Whether a string has an encoding: half a surrogate pair has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

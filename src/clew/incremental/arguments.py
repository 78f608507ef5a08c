"""Validation of the arguments of `DependencyGraph`: options, node names, values to set.

This module does not look up nodes; see `schemas` and `nodes`.
"""

from __future__ import annotations

from typing import Any

from clew.errors import DependencyError, SchemaPatternError
from clew.incremental.changes import NOTHING
from clew.incremental.expressions import Expression, node_of, read_node


def check_options(name: Any, max_concurrency: Any, max_nodes_in_memory: Any) -> None:
    """Raise DependencyError for an invalid option of a graph."""
    if type(name) is not str or not name:
        raise DependencyError(f"name: expected a non-empty str, got {name!r}")
    if type(max_concurrency) is not int or max_concurrency < 1:
        raise DependencyError(f"max_concurrency: expected an int >= 1, got {max_concurrency!r}")
    if type(max_nodes_in_memory) is not int or max_nodes_in_memory < 0:
        raise DependencyError(f"max_nodes_in_memory: expected an int >= 0, got {max_nodes_in_memory!r}")


def read(name: Any, arguments: tuple[Any, ...]) -> Expression:
    """Return the requested node."""
    return node_of(name, arguments) if arguments else read_node(name)


def set_arguments(name: str, rest: tuple[Any, ...], value: Any) -> tuple[str, tuple[Any, ...], Any]:
    """Return the name, the arguments and the value of a `set` call."""
    if value is not NOTHING:
        return name, rest, value
    if len(rest) != 1:
        raise TypeError(
            'set needs a node and a value; call set("photo(p5)", value) or set("photo", "p5", value=value)'
        )
    return name, (), rest[0]


def pattern_error(name: str, asked: Expression, call: str, more: str = "") -> SchemaPatternError:
    """Return the error for changing a schema pattern instead of a node."""
    arguments = ", ".join(map(repr, (asked.name, *asked.arguments)))
    return SchemaPatternError(
        f"{name!r} is the pattern of a schema, not a node; write the arguments of one node, or, if you mean this "
        f"node, {call}({arguments}{more})"
    )

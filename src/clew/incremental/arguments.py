"""What a caller may hand to a graph: options, names of nodes, a value to set. Whatever else is refused by its name.

Nothing is looked up here; what a name stands for is the business of `schemas` and `nodes`.
"""

from __future__ import annotations

from typing import Any

from clew.errors import DependencyError, SchemaPatternError
from clew.incremental.changes import NOTHING
from clew.incremental.expressions import Expression, node_of, read_node


def check_options(name: Any, max_concurrency: Any, keep_in_memory: Any) -> None:
    """DependencyError for an option of a graph that means nothing."""
    if type(name) is not str or not name:
        raise DependencyError(f"the name of a graph is a text that is not empty, not {name!r}")
    if type(max_concurrency) is not int or max_concurrency < 1:
        raise DependencyError(
            f"max_concurrency is a number of computors, at least 1, not {max_concurrency!r}"
        )
    if type(keep_in_memory) is not int or keep_in_memory < 0:
        raise DependencyError(f"keep_in_memory is a number of nodes, at least 0, not {keep_in_memory!r}")


def read(name: Any, arguments: tuple[Any, ...]) -> Expression:
    """The node that is asked for."""
    return node_of(name, arguments) if arguments else read_node(name)


def to_set(name: str, rest: tuple[Any, ...], value: Any) -> tuple[str, tuple[Any, ...], Any]:
    """Name, arguments and value of a `set`."""
    if value is not NOTHING:
        return name, rest, value
    if len(rest) != 1:
        raise TypeError(
            'set takes a node and its value: set("photo(p5)", value), or set("photo", "p5", value=value)'
        )
    return name, (), rest[0]


def is_a_pattern(name: str, asked: Expression, call: str, more: str = "") -> SchemaPatternError:
    """What is wrong with a change to what reads like a schema."""
    arguments = ", ".join(map(repr, (asked.name, *asked.arguments)))
    return SchemaPatternError(
        f"{name!r} is the pattern of a schema, not one node; write the node's own arguments, or, if these are "
        f"meant, {call}({arguments}{more})"
    )

"""The parameters of the key functions of a node (``idempotency_key=``, ``Cache(key=...)``), validated when the graph
is built.

A key function receives the inputs of its node by name: any of the node's values, and the whole state as ``state`` (or
under the name that the node uses). A parameter with a default may have any name; it keeps the default unless the node
has a value of that name. ``**kwargs`` receives all values of the node, and ``*args`` nothing. A function that would
receive nothing because of them is invalid.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clew.errors import GraphError
from clew.graph.names import nearest

if TYPE_CHECKING:
    from clew.graph.node import Node

STATE = "state"


def wanted_by_key(
    node: Node, function: Callable[..., Any], option: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names that a key function of a node takes by position, and those that it takes by name.

    Raises:
        GraphError: It takes something that the node does not have.
    """
    where = f"{option} of node {node.name!r}"
    try:
        params = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise GraphError(f"cannot read the parameters of {where} ({error}); wrap it in a lambda") from error
    values = {param.name for param in node.params if param.kind == "value"}
    known = values | state_names(node)
    offered = [*sorted(values), STATE]
    positional: list[str] = []
    named: dict[str, None] = {}
    for name, param in params.items():
        if param.kind is param.VAR_KEYWORD:
            named.update(
                (p.name, None) for p in node.params if p.kind == "value" and p.name not in positional
            )
        elif param.kind is param.VAR_POSITIONAL:
            continue
        elif name in known:
            if param.kind is param.POSITIONAL_ONLY:
                positional.append(name)
            else:
                named[name] = None
        elif param.default is param.empty or param.kind is param.POSITIONAL_ONLY:
            raise GraphError(
                f"{where} takes {name!r}, which the node does not take; {nearest(name, offered)}"
            )
    if not (positional or named) and any(
        p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in params.values()
    ):
        raise GraphError(f"{where} would receive nothing; name what it needs: {', '.join(offered)}")
    return tuple(positional), tuple(named)


def state_names(node: Node) -> set[str]:
    """Return the names under which a key function receives the whole state."""
    taken = {param.name for param in node.params if param.kind != "state"}
    return ({STATE} | {param.name for param in node.params if param.kind == "state"}) - taken

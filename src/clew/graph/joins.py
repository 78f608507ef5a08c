"""Joins: ``after=all_of("a", "b")``, a node that runs once for each time that all of these nodes have run.

Rules:

- ``after=["a", "b"]`` wakes the node when one of them has run. ``after=all_of("a", "b")`` is also a condition: the node
  runs only when each of them has run since its own last run (in the same step or later). Until then a gate's selection,
  a Send and a changed input have to wait.
- A join is never the head of a loop that one of its sources is on, because it could not start. So the links into a join
  from ``all_of`` are always forward links.
- Joins that wait for each other in a circle can never run; the graph rejects them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, final

from clew.errors import GraphError
from clew.graph.names import END, names_of

if TYPE_CHECKING:
    from clew.graph.node import Node


@final
class AllOf:
    """The nodes that all have to run before another node; made by `all_of`."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: tuple[Any, ...]) -> None:
        self.nodes = nodes

    def __repr__(self) -> str:
        return f"all_of({', '.join(map(repr, self.nodes))})"


def all_of(*nodes: Any) -> AllOf:
    """Return a condition for ``after=``: the node runs only when all of these have run since its last run.

    Each argument is a node, a function or the name of a node.
    """
    return AllOf(nodes)


def read_after(after: Any, where: str) -> tuple[tuple[str, ...], bool]:
    """Return the nodes that ``after=`` names, and whether all of them have to run."""
    if not isinstance(after, AllOf):
        if isinstance(after, (list, tuple)) and any(isinstance(each, AllOf) for each in after):
            raise GraphError(
                f"{where}: all_of(...) must be the only item of after=, got {after!r}; write after=all_of('a', 'b'), "
                "and add other links with edges= of the graph."
            )
        return names_of(after, where), False
    names = names_of(after.nodes, where)
    if not names:
        raise GraphError(f"{where}: all_of() names no node; name at least one.")
    for name in names:
        if name == str(END):
            raise GraphError(f"{where}: all_of() names END, which is not a node; remove it.")
        if names.count(name) > 1:
            raise GraphError(f"{where}: all_of() names {name!r} twice; remove one.")
    return names, True


def circle_of(nodes: Mapping[str, Node]) -> list[str]:
    """Return joins that wait for each other in a circle, in the order in which they wait; or an empty list."""
    clear: set[str] = set()
    for first in nodes:
        path: list[str] = []
        unread: list[tuple[str, Iterable[str]]] = [(first, iter(_sources(nodes, first)))]
        while unread:
            name, sources = unread[-1]
            if not path or path[-1] != name:
                path.append(name)
            following = next((source for source in sources if source not in clear), None)
            if following is None:
                clear.add(name)
                unread.pop()
                path.pop()
            elif following in path:
                return path[path.index(following) :]
            else:
                unread.append((following, iter(_sources(nodes, following))))
    return []


def _sources(nodes: Mapping[str, Node], name: str) -> tuple[str, ...]:
    node = nodes.get(name)
    return node.after if node is not None and node.is_join else ()

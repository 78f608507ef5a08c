"""Select the part of a graph that some values need.

The search follows links backwards from a value: its writers, what they read, the gates that choose them and the nodes
that they run after. A gate keeps only the targets that are needed. If it chooses another one, it selects nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from clew.graph.analysis.topology import links
from clew.graph.names import END
from clew.graph.node import Node


def needed_nodes(
    nodes: Mapping[str, Node], edges: Iterable[tuple[str, str]], values: Iterable[str]
) -> dict[str, Node]:
    """Return the nodes that these values need, in order of declaration, without targets that are not needed."""
    sources: dict[str, list[str]] = {name: [] for name in nodes}
    for link in links(nodes, edges):
        sources[link.target].append(link.source)
    wanted = set(values)
    waiting = [name for name, node in nodes.items() if wanted.intersection(node.outputs)]
    needed: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(sources[name])
    return {name: _pruned(node, needed) for name, node in nodes.items() if name in needed}


def _pruned(node: Node, kept: set[str]) -> Node:
    cut = tuple(target for target in node.targets if target != str(END) and target not in kept)
    if not cut:
        return node
    return replace(node, targets=tuple(target for target in node.targets if target not in cut), pruned=cut)

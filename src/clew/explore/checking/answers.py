"""The possible answers to the questions of a checked run.

A key of ``answers=`` names questions in one of three ways; the first one that fits a question counts:

- the path of the item that asks: ``sub#0/ask#1``, or ``outer#0!0/ask#0`` in a child;
- the path of the node, as ``stop_before=`` spells it: ``sub/ask``, or ``outer/ask`` in a child of ``outer``;
- the name of the node: ``ask``, wherever it is.

A question without a key is answered with True and False. A key that can match no question raises `DefinitionError`:
where the graph alone decides that, at once; otherwise (visits, and children, which only a run shows) when every state
was explored and no question matched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from clew.engine.stops import place_of
from clew.errors import DefinitionError
from clew.graph import Graph, Node
from clew.graph.names import nearest


class PossibleAnswers:
    """The answers to try for each question, and the questions so far."""

    def __init__(self, answers: Any, graph: Graph) -> None:
        if answers is not None and not isinstance(answers, Mapping):
            raise DefinitionError(f'answers: expected {{"node": [answer, ...]}}, got {answers!r}')
        self._answers: dict[str, list[Any]] = {}
        self._unsure: list[str] = []  # keys that only a run can confirm
        self._asked: set[str] = set()
        for key, given in (answers or {}).items():
            if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
                raise DefinitionError(
                    f"answers to {key!r}: expected a list, got {given!r}; write [{given!r}]"
                )
            self._answers[key] = list(given)
            if not self._answers[key]:
                raise DefinitionError(f"answers to {key!r}: the list is empty; give at least one answer")
            if not _is_certain(str(key), graph):
                self._unsure.append(key)

    def of(self, path: str) -> list[Any]:
        """Return the answers to the question at a path."""
        self._asked.add(path)
        for key in _keys_of(path):
            if key in self._answers:
                return self._answers[key]
        return [True, False]

    def check_matched(self) -> None:
        """Raise DefinitionError for a key that matched no question; every state has been explored."""
        matching = {key for path in self._asked for key in _keys_of(path)}
        known = sorted({_keys_of(path)[1] for path in self._asked})
        for key in self._answers:
            has_asked_inside = any(f"/{key}/" in f"/{place}" for place in known)
            if key not in matching and (key in self._unsure or has_asked_inside):
                raise DefinitionError(f"answers: no question was asked at {key!r}; {nearest(key, known)}")


def _keys_of(path: str) -> tuple[str, str, str]:
    """Return the keys that match a question: its path, the path of its node, and the name of its node."""
    before, slash, last = path.rpartition("/")
    name = last.partition("#")[0]
    return path, place_of(before + slash) + name, name


def _is_certain(key: str, graph: Graph) -> bool:
    """Return whether a node of the graph may ask at this key; False if only a run can tell. Raise if nothing can."""
    asking = list(_asking(graph))
    places = {path for path, _ in asking}
    if "/" not in key and "#" not in key:
        names = {path.rpartition("/")[2] for path in places}
        if key in names:
            return True
        if key not in _names(graph) and any(_has_context(node) for _, node in asking):
            return False  # it may be a node of a child
        places |= names
    else:
        node = _node_at(key, graph)
        if node is not None and _may_ask(node):
            return key in places  # a visit, or a node of a child, is known only in a run
    raise DefinitionError(f"answers: no question can be asked at {key!r}; {nearest(key, sorted(places))}")


def _node_at(key: str, graph: Graph) -> Node | None:
    """Return the node at a path, or the node with a context around it."""
    *outer, last = (part.partition("#")[0] for part in key.split("/"))
    for part in outer:
        node = graph.nodes.get(part)
        if node is None or _has_context(node):
            return node
        if node.subgraph is None:
            return None
        graph = node.subgraph.graph
    return graph.nodes.get(last)


def _asking(graph: Graph, prefix: str = "") -> Iterable[tuple[str, Node]]:
    """Yield the nodes that may ask a question, with their paths."""
    for name, node in graph.nodes.items():
        if node.subgraph is not None:
            yield from _asking(node.subgraph.graph, f"{prefix}{name}/")
        elif _may_ask(node):
            yield prefix + name, node


def _names(graph: Graph) -> set[str]:
    found = set(graph.nodes)
    for node in graph.nodes.values():
        if node.subgraph is not None:
            found |= _names(node.subgraph.graph)
    return found


def _may_ask(node: Node) -> bool:
    return node.kind == "interrupt" or _has_context(node)


def _has_context(node: Node) -> bool:
    """Return whether a node can ask with its context, or run a child that asks."""
    return node.subgraph is None and any(param.kind == "context" for param in node.params)

"""Drawing a dependency graph: its schemas, or the nodes that have a value, coloured by whether they are up to date.

Rules:

- Of schemas: a box for each, and one for each source that no schema makes. An arrow leads to a schema from each schema
  that can make one of its inputs; it says how the input is written where that is not the other's own output.
- Of nodes: a box for each that has a value, in the order of their keys, `limit` of them at most. Nodes up to date are
  green, outdated ones amber with a dashed border, sources green and round. In the SVG, resting the pointer on a box
  tells its revisions.
- The same graph in the same state has the same drawing.

What a box looks like, and where it stands, is decided by `clew.graph`, as for other graphs. Drawing computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from clew.drawing.diagram import Arrow, Box, Picture
from clew.drawing.formats import dot, mermaid
from clew.drawing.svg import svg
from clew.errors import DependencyError, StoreCorruptError
from clew.incremental.explanation import OUTDATED, freshness
from clew.incremental.expressions import Expression, pattern_text, read_node, unifies
from clew.incremental.nodes import ORIGINS, PINNED, ConcreteNode, NodeTable
from clew.incremental.schemas import CompiledSchema

if TYPE_CHECKING:
    from clew.incremental.graph import DependencyGraph

_COLOURS = """
.clew-fresh{fill:#e6f6ea;stroke:#3f9a5a}
.clew-outdated{fill:#fff2d6;stroke:#c58a1c;stroke-dasharray:4 3}
@media (prefers-color-scheme:dark){
.clew-fresh{fill:#15321f;stroke:#5fc283}
.clew-outdated{fill:#3b2d10;stroke:#dba642}
}
"""


def _svg(picture: Picture) -> str:
    return svg(picture).replace("</style>", f"{_COLOURS.lstrip()}</style>", 1)


_FORMS: dict[str, Callable[[Picture], str]] = {"mermaid": mermaid, "dot": dot, "svg": _svg}


def draw(graph: DependencyGraph, form: str = "mermaid", *, nodes: bool = False, limit: int = 200) -> str:
    """A dependency graph as a drawing: ``"mermaid"``, ``"dot"`` or ``"svg"``; its schemas, or its nodes."""
    write = _FORMS.get(form)
    if write is None:
        raise DependencyError(f"there is no format {form!r} to draw in; use {', '.join(map(repr, _FORMS))}")
    if type(limit) is not int or limit < 1:
        raise DependencyError(f"limit is a number of nodes, at least 1, not {limit!r}")
    return write(_of_nodes(graph, limit) if nodes else _of_schemas(graph))


# -- schemas ------------------------------------------------------------------------------------------------


def _of_schemas(graph: DependencyGraph) -> Picture:
    rules = graph.catalog.rules
    made: dict[str, list[CompiledSchema]] = {}
    for rule in rules:
        made.setdefault(rule.output.name, []).append(rule)
    implicit = dict.fromkeys(one.name for rule in rules for one in rule.inputs if one.name not in made)
    sources = {name: f"in{number}" for number, name in enumerate(implicit)}
    keys = {rule: f"n{number}" for number, rule in enumerate(rules)}
    boxes = [Box(key, "input", name, "a source: it has what is set") for name, key in sources.items()]
    boxes += [_schema_box(rule, key) for rule, key in keys.items()]
    arrows: dict[tuple[str, str], list[str]] = {}
    for rule, key in keys.items():
        for pattern in rule.inputs:
            for source, label in _origins(pattern, made, sources, keys):
                arrows.setdefault((source, key), []).append(label)
    return Picture("", tuple(boxes), tuple(_arrow(*ends, labels) for ends, labels in arrows.items()))


def _schema_box(rule: CompiledSchema, key: str) -> Box:
    facts = [
        f"made from {', '.join(map(pattern_text, rule.inputs))}" if rule.inputs else "",
        "a source: it has what is set" if rule.computor is None else "",
        f"version {rule.version}" if rule.version is not None else "",
        "depends on its old value" if rule.stateful else "",
    ]
    return Box(key, "input" if rule.computor is None else "node", rule.key, "\n".join(filter(None, facts)))


def _origins(
    pattern: Expression,
    made: dict[str, list[CompiledSchema]],
    sources: dict[str, str],
    keys: dict[CompiledSchema, str],
) -> Iterator[tuple[str, str]]:
    """Where an input may come from: the key of a box, and what to write at the arrow."""
    if pattern.name in sources:
        yield sources[pattern.name], ""
        return
    written = pattern_text(pattern)
    for rule in made[pattern.name]:
        if unifies(pattern, rule.output):
            yield keys[rule], "" if written == rule.key else written


def _arrow(source: str, target: str, labels: list[str]) -> Arrow:
    return Arrow(source, target, "data", ", ".join(dict.fromkeys(filter(None, labels))), False)


# -- nodes --------------------------------------------------------------------------------------------------


def _of_nodes(graph: DependencyGraph, limit: int) -> Picture:
    with graph._lock:
        graph._prepare()
        table = graph._table
        names = list(islice((key for key in graph._keys("") if graph._is_there(key, None)), limit + 1))
        found = [node for name in names[:limit] if (node := _node(table, name)) is not None]
        keys = {node: f"n{number}" for number, node in enumerate(found)}
        boxes = [_node_box(table, node, key) for node, key in keys.items()]
        arrows = dict.fromkeys(
            (keys[lower], key)
            for node, key in keys.items()
            for lower in table.known_inputs(node)[0]
            if lower in keys
        )
        if len(names) > limit:
            boxes.append(Box("more", "optional", "… and more", f"these are the first {limit} nodes"))
        title = f"revision {table.revision}"
    return Picture(title, tuple(boxes), tuple(_arrow(*ends, []) for ends in arrows))


def _node(table: NodeTable, name: str) -> ConcreteNode | None:
    asked = read_node(name)
    return table.find(asked.name, asked.arguments)


def _node_box(table: NodeTable, node: ConcreteNode, key: str) -> Box:
    try:
        row, seen = table.row(node), freshness(table, node)
    except StoreCorruptError as error:  # its own row, or one that it depends on
        return Box(key, "outdated", node.key, str(error))
    facts = [
        str(seen),
        f"{ORIGINS[row.origin]}, changed at revision {row.changed_at}, verified at {row.verified_at}",
    ]
    if node.rule.computor is None:
        return Box(key, "input", node.key, "\n".join(facts))
    pinned = " (pinned)" if row.origin == PINNED and seen != OUTDATED else ""
    return Box(key, "outdated" if seen == OUTDATED else "fresh", node.key + pinned, "\n".join(facts))

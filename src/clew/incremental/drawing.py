"""Drawings of a dependency graph: its schemas, or its nodes with a value, coloured by freshness.

Rules:

- Schemas: one box for each schema, and one for each source without a schema. An arrow leads to a schema from each
  schema that can produce one of its inputs. Its label shows the input pattern if it differs from that schema's output.
- Nodes: one box for each node that has a value, ordered by key, at most `limit`. Up-to-date nodes are green, outdated
  ones amber with a dashed border, sources green and rounded. In SVG, the tooltip of a box shows its revisions.
- Equal graphs have equal drawings.

``clew.drawing`` lays out and formats the boxes. Drawing computes no nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from clew.drawing.diagram import Arrow, Box, Picture
from clew.drawing.formats import writer_of
from clew.errors import DependencyError, StoreCorruptError
from clew.incremental.explanation import OUTDATED, freshness
from clew.incremental.expressions import Expression, pattern_text, read_node, unifies
from clew.incremental.nodes import ORIGINS, PINNED, ConcreteNode, NodeTable
from clew.incremental.schemas import CompiledSchema

if TYPE_CHECKING:
    from clew.incremental.graph import DependencyGraph


def draw(graph: DependencyGraph, form: str = "mermaid", *, nodes: bool = False, limit: int = 200) -> str:
    """Return a drawing of the schemas or the nodes of a graph: ``"mermaid"``, ``"dot"`` or ``"svg"``."""
    write = writer_of(form, DependencyError)
    if type(limit) is not int or limit < 1:
        raise DependencyError(f"limit: expected an int >= 1, got {limit!r}")
    return write(_of_nodes(graph, limit) if nodes else _of_schemas(graph))


# -- schemas ------------------------------------------------------------------------------------------------


def _of_schemas(graph: DependencyGraph) -> Picture:
    rules = graph.registry.rules
    made: dict[str, list[CompiledSchema]] = {}
    for rule in rules:
        made.setdefault(rule.output.name, []).append(rule)
    implicit = dict.fromkeys(one.name for rule in rules for one in rule.inputs if one.name not in made)
    sources = {name: f"in{number}" for number, name in enumerate(implicit)}
    keys = {rule: f"n{number}" for number, rule in enumerate(rules)}
    boxes = [Box(key, "input", name, "a source, set from outside") for name, key in sources.items()]
    boxes += [_schema_box(rule, key) for rule, key in keys.items()]
    arrows: dict[tuple[str, str], list[str]] = {}
    for rule, key in keys.items():
        for pattern in rule.inputs:
            for source, label in _origins(pattern, made, sources, keys):
                arrows.setdefault((source, key), []).append(label)
    return Picture("", tuple(boxes), tuple(_arrow(*ends, labels) for ends, labels in arrows.items()))


def _schema_box(rule: CompiledSchema, key: str) -> Box:
    facts = [
        f"computed from {', '.join(map(pattern_text, rule.inputs))}" if rule.inputs else "",
        "a source, set from outside" if rule.computor is None else "",
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
    """Yield the boxes that may produce an input, each with the label of the arrow."""
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
        names = list(islice((key for key in graph._keys("") if graph._is_materialized(key, None)), limit + 1))
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
            boxes.append(Box("more", "optional", "… and more", f"showing the first {limit} nodes"))
        title = f"revision {table.revision}"
    return Picture(title, tuple(boxes), tuple(_arrow(*ends, []) for ends in arrows))


def _node(table: NodeTable, name: str) -> ConcreteNode | None:
    asked = read_node(name)
    return table.find(asked.name, asked.arguments)


def _node_box(table: NodeTable, node: ConcreteNode, key: str) -> Box:
    try:
        row, seen = table.row(node), freshness(table, node)
    except StoreCorruptError as error:  # its own record, or one that it depends on
        return Box(key, "outdated", node.key, str(error))
    facts = [
        str(seen),
        f"{ORIGINS[row.origin]}, changed at revision {row.changed_at}, verified at {row.verified_at}",
    ]
    if node.rule.computor is None:
        return Box(key, "input", node.key, "\n".join(facts))
    pinned = " (pinned)" if row.origin == PINNED and seen != OUTDATED else ""
    return Box(key, "outdated" if seen == OUTDATED else "fresh", node.key + pinned, "\n".join(facts))

"""The content of a drawing, independent of its appearance.

Rules:

- There is a box for each node, for each value that a run receives from outside (if a node reads it by name), and for
  END if a path may end at a gate. A value that a loop passes to itself counts as given only if the loop could not start
  without it, and never for a loop inside a subgraph. Bound values are not state, and not shown.
- There is an arrow for each pair of boxes and kind of link. Labels of data arrows are values, those of gate arrows are
  choices. A control arrow into a join (``after=all_of(...)``) says so.
- An arrow is a *back* arrow if its link closes a loop according to `clew.graph.analysis.topology`.
- The box of a subgraph contains the picture of the inner graph, without inputs.
- Everything is in order of declaration, so equal graphs have equal pictures.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from clew.errors import InputError
from clew.graph.analysis.topology import Topology
from clew.graph.names import END

if TYPE_CHECKING:
    from clew.graph.graph import Graph
    from clew.graph.node import Node

BoxKind = Literal[
    "node", "gate", "interrupt", "subgraph", "input", "optional", "end", "fresh", "outdated", "violation"
]
ArrowKind = Literal["data", "gate", "control", "violation"]


@dataclass(frozen=True)
class Box:
    """A box. ``key`` is a plain identifier, unique in the whole drawing."""

    key: str
    kind: BoxKind
    label: str
    note: str
    inside: Picture | None = None


@dataclass(frozen=True)
class Arrow:
    """A link between two boxes, by their keys."""

    source: str
    target: str
    kind: ArrowKind
    label: str
    back: bool


@dataclass(frozen=True)
class Picture:
    """The boxes and arrows of one graph."""

    title: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def picture_of(graph: Graph) -> Picture:
    return _picture(graph, "n", outermost=True)


def _picture(graph: Graph, prefix: str, *, outermost: bool) -> Picture:
    topology, given = _started(graph)
    end = str(END)
    keys = {name: f"{prefix}{number}" for number, name in enumerate(graph.nodes)} | {end: f"{prefix}end"}
    boxes: list[Box] = []
    arrows: list[Arrow] = []
    if outermost:
        for number, (value, needed) in enumerate(given.items()):
            key = f"in{number}"
            note = "given from outside" if needed else "may be given from outside"
            boxes.append(Box(key, "input" if needed else "optional", value, note))
            readers = [keys[name] for name, node in graph.nodes.items() if value in node.inputs]
            arrows += [Arrow(key, reader, "data", "", False) for reader in readers]
    boxes += [_box(node, keys[node.name]) for node in graph.nodes.values()]
    for (source, target, kind), labels in _joined(graph, topology).items():
        pair = (topology.index[source], topology.index.get(target, -1))
        back = source == target or pair in topology.back
        arrows.append(Arrow(keys[source], keys[target], kind, label_text(", ".join(labels)), back))
    if any(arrow.target == keys[end] for arrow in arrows):
        boxes.append(Box(keys[end], "end", end, "the path ends here"))
    return Picture(label_text(graph.name or ""), tuple(boxes), tuple(arrows))


def _started(graph: Graph) -> tuple[Topology, dict[str, bool]]:
    """Return the topology of an ordinary run, and its values from outside with whether they are required."""
    needed = set(graph.required_inputs)
    written = {value for node in graph.nodes.values() for value in node.outputs}
    seeds = {value for value in graph.inputs if value in written and value not in needed}
    try:
        topology, hidden = Topology(graph, frozenset(needed)), seeds
    except InputError:  # a loop needs an initial value that it also writes
        topology, hidden = Topology(graph, frozenset(needed | seeds)), set()
    readers = {value: [n for n in graph.nodes.values() if value in n.inputs] for value in graph.inputs}
    given = {
        value: value in needed
        for value, nodes in readers.items()
        if value not in hidden and not all(_hands_on(node, value) for node in nodes)
    }
    return topology, given


def _hands_on(node: Node, value: str) -> bool:
    """Return whether a node is a subgraph that reads a value only because an inner loop may be given it."""
    if node.subgraph is None or value in node.required:
        return False
    inner = {param.name for param in node.params if param.source == value}
    return any(inner.intersection(within.outputs) for within in node.subgraph.graph.nodes.values())


def _joined(graph: Graph, topology: Topology) -> dict[tuple[str, str, ArrowKind], list[str]]:
    """Return the labels of each arrow, by source, target and kind."""
    joined: dict[tuple[str, str, ArrowKind], list[str]] = {}
    for link in topology.links:
        if link.kind != "gate":
            labels = joined.setdefault((link.source, link.target, link.kind), [])
            labels += [link.value] if link.value else []
            reader = graph.nodes[link.target]
            if link.kind == "control" and reader.is_join and link.source in reader.after:
                labels.append("all of")
    # Links omit END, gates that target themselves, and targets removed by select().
    for name, node in graph.nodes.items():
        for target in node.targets + node.pruned:
            shown = target if target in graph.nodes else str(END)
            label = target if node.when is None else "true" if target == node.when[0] else "false"
            joined.setdefault((name, shown, "gate"), []).append(label)
    return joined


def _box(node: Node, key: str) -> Box:
    reads = ["the whole state"] * node.reads_state + list(node.inputs)
    facts = [
        node.description,
        f"reads {', '.join(reads)}" if reads else "",
        f"writes {', '.join(node.outputs)}" if node.outputs else "",
        f"leads to {', '.join(node.targets)}" if node.targets else "",
        f"runs after all of {', '.join(node.after)}" if node.is_join else "",
    ]
    note = "\n".join(label_text(fact) for fact in facts if fact)
    if node.subgraph is not None:
        mapped = f" (for each {', '.join(node.subgraph.mapped)})" if node.subgraph.mapped else ""
        inside = _picture(node.subgraph.graph, f"{key}_", outermost=False)
        return Box(key, "subgraph", label_text(node.name + mapped), note, inside)
    kind: BoxKind = "gate" if node.is_gate else "interrupt" if node.kind == "interrupt" else "node"
    return Box(key, kind, label_text(node.name), note)


def label_text(text: str) -> str:
    """Return a text without line breaks, control characters and characters that XML cannot contain."""
    kept = (
        " " if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in "\ufffe\uffff" else c for c in text
    )
    return " ".join("".join(kept).split())

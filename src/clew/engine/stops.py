"""Stops: the places where a run pauses because it was asked to (``stop_before=``, ``stop_after=``).

Nodes are named by path: ``tool``, or ``sub/tool`` inside a subgraph. Rules:

- *Before*: no item of the step that contains the node starts. *After*: no item of a later step starts, so nothing
  executes once the step of the node is committed. Both set a limit on the frame (`Frame.limit`) when the node is
  planned. Items of later steps that lookahead had started before that still finish; their results are provisional.
- Only the frame that contains the node pauses. The rest of the run continues as far as it can without it.
- A stop comes before a failure in a later step, which the run would not have reached.
- A stop is *passed* once for each frame: when a paused run is resumed, its frames continue past the step where they
  stopped. `Stops.passed` says how many steps each frame had then. Later steps stop again.
- A run that was killed after it committed a step and before it stored its status is at that stop when it is resumed
  (`held`).

Stops do not affect the chain, so its digests do not cover them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from clew.errors import InputError
from clew.graph import Graph, name_of
from clew.graph.names import nearest

if TYPE_CHECKING:
    from clew.engine.frame import Frame

FrameName = tuple[str, tuple[int, ...]]
"""A frame: its prefix, and the attempts of the items around it."""


Nodes = str | Sequence[Any] | None
"""Nodes where a run stops: names, paths into subgraphs such as ``sub/tool``, or the nodes themselves."""


class Stops(msgspec.Struct, frozen=True):
    """Where a run stops, and the stops that it has passed."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    passed: Mapping[FrameName, int] = {}  # frame -> the steps that it had when it was resumed
    held: frozenset[FrameName] = frozenset()  # frames whose last step is a stop that is not passed

    def hold_at_last(self, frame: Frame) -> None:
        """Set the limit of a restored frame that stands at a stop after its last step."""
        if (frame.prefix, frame.epoch) in self.held:
            _limit(frame, frame.step)

    def hold(self, frame: Frame, number: int, nodes: Iterable[int]) -> bool:
        """Return whether nothing of step `number` starts, because it contains one of these nodes; set the limit."""
        where, names = place_of(frame.prefix), frame.program.names
        paths = [where + names[node] for node in nodes]
        # without an entry no step was passed, and the first step is number 1
        passed = self.passed.get((frame.prefix, frame.epoch), -1)
        if number > passed + 1 and any(path in self.before for path in paths):
            _limit(frame, number - 1)
            return True
        if number > passed and any(path in self.after for path in paths):
            _limit(frame, number)
        return number > frame.limit

    def stands_after(self, frame: FrameName, step: int, nodes: Iterable[str]) -> bool:
        """Return whether a frame stands at a stop after its last step, in which these nodes ran."""
        if step <= self.passed.get(frame, -1):
            return False
        return any(place_of(frame[0]) + node in self.after for node in nodes)


def _limit(frame: Frame, step: int) -> None:
    """Set the limit of a frame, and forget failures behind it: their items run again after the stop."""
    if step < frame.limit:
        frame.limit = step
        frame.failures = [pair for pair in frame.failures if pair[1].step <= step]


def place_of(prefix: str) -> str:
    """Return the prefix of a frame without visits and indexes: ``sub/`` for ``sub#0[1]/``."""
    return "".join(f"{part.partition('#')[0]}/" for part in prefix.split("/")[:-1])


def is_paused(frames: Iterable[Frame]) -> bool:
    """Return whether one of these running frames stands at a stop."""
    return any(
        frame.state == "running" and frame.step == frame.limit and not frame.has_failed for frame in frames
    )


def read_stops(graph: Graph, before: Any, after: Any) -> Stops | None:
    """Return the stops with these arguments; None without any. Raise InputError for an unknown node."""
    if before is None and after is None:
        return None
    return Stops(
        _paths(graph, () if before is None else before, "stop_before"),
        _paths(graph, () if after is None else after, "stop_after"),
    )


def _paths(graph: Graph, nodes: Any, option: str) -> tuple[str, ...]:
    if isinstance(nodes, (set, frozenset)) or not isinstance(nodes, Iterable):
        nodes = [nodes]
    paths = [nodes] if isinstance(nodes, str) else [path_of_node(node, option) for node in nodes]
    for path in paths:
        check_path(graph, path, option)
    return tuple(dict.fromkeys(paths))


def check_path(graph: Graph, path: str, option: str) -> None:
    """Raise InputError if a graph has no node at a path such as ``sub/tool``."""
    inside, where = graph, ""
    *outer, last = path.split("/")
    for part in outer:
        node = inside.nodes.get(part)
        if node is None or node.subgraph is None:
            name = part.partition("!")[0].partition("#")[0]
            if name in inside.nodes and inside.nodes[name].subgraph is None:
                raise InputError(
                    f"{option}={path!r}: {where + name!r} is not a subgraph; a child of `ctx.run` cannot be stopped or "
                    f"updated inside: name the node itself, {where + name!r}, or work on a copy of the child, "
                    f"Engine(child_graph, store=...).fork(run_id, path='{where + name}#0!0', ...)"
                )
            subgraphs = [name for name, each in inside.nodes.items() if each.subgraph is not None]
            raise InputError(
                f"{option}={path!r}: {where + part!r} is not a subgraph of the graph; {nearest(part, subgraphs)}"
            )
        inside, where = node.subgraph.graph, f"{where}{part}/"
    if last not in inside.nodes:
        raise InputError(
            f"{option}={path!r}: the graph has no node {path!r}; "
            f"{nearest(path, [where + name for name in inside.nodes])}"
        )


def path_of_node(node: Any, option: str) -> str:
    """Return the path of a node that is given by its path, or as the node itself."""
    try:
        return name_of(node, option)
    except Exception as error:
        raise InputError(
            f"{option}: expected nodes or paths of nodes such as 'sub/tool', got {node!r}"
        ) from error

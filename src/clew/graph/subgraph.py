"""Subgraph: a graph as a node of another, and what crosses the border between the two.

Rules:

- Going in, an input that has the value ``ABSENT`` is left out: nobody has it, and the default inside holds.
- ``enter(values) -> values of the subgraph`` replaces passing by name, and so does
  ``leave(substate) -> update``.
  ``leave`` sees an instance of the subgraph's schema, or a mapping where it has none.
- ``mapped`` inputs hold sequences: the graph runs once for each element (``zip``: all of one length) or for
  each combination (``product``: the last name turns fastest), and each output is the list of theirs.

This module decides what goes in and out; running what is inside is the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

from clew.errors import InputError, OutputError
from clew.graph.signature import ABSENT

if TYPE_CHECKING:
    from clew.graph.graph import Graph

MapMode = Literal["zip", "product"]


@dataclass(frozen=True, eq=False)
class Subgraph:
    """A graph inside a node. ``inputs`` is empty where ``enter`` is given the whole state."""

    graph: Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    enter: Callable[[Any], Any] | None = None
    leave: Callable[[Any], Any] | None = None
    mapped: tuple[str, ...] = ()
    mode: MapMode = "zip"

    def values_of(self, seen: Any) -> dict[str, Any]:
        """The values that the graph inside starts with, from what the item sees.

        ``seen`` is a mapping of the inputs, or the whole state where there are none and ``enter`` is given.
        """
        if isinstance(seen, Mapping):
            seen = {name: value for name, value in seen.items() if value is not ABSENT}
        values = seen if self.enter is None else self.enter(seen)
        if self.graph.schema is not None and not isinstance(values, Mapping):
            dumped: dict[str, Any] = self.graph.schema.dump(values)
            return dumped
        return dict(values)

    def items_of(self, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The values of each run inside: one, or one for each element of what is mapped."""
        if not self.mapped:
            return [dict(values)]
        for name in self.mapped:
            elements = values[name]
            if not isinstance(elements, Sequence) or isinstance(elements, (bytes, bytearray)):
                raise InputError(
                    f"{name!r} is mapped over, so it takes a list or another sequence, not a {type(elements).__name__}"
                    f"{'; sort it into a list' if isinstance(elements, (set, frozenset)) else ''}"
                )
        lists = {name: list(values[name]) for name in self.mapped}
        if self.mode == "product":
            combinations: Iterable[tuple[Any, ...]] = product(*lists.values())
        else:
            lengths = {name: len(elements) for name, elements in lists.items()}
            if len(set(lengths.values())) > 1:
                told = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
                raise InputError(
                    f"mapped inputs need one length, but {told}; use mode='product' for all combinations."
                )
            combinations = zip(*lists.values(), strict=True)
        return [{**values, **dict(zip(self.mapped, elements, strict=True))} for elements in combinations]

    def update_of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The update that one run inside means for the graph around it, from its final values."""
        if self.leave is None:
            return {name: values[name] for name in self.outputs if name in values}
        schema = self.graph.schema
        update = self.leave(values if schema is None else schema.instance(values))
        if not isinstance(update, Mapping):
            raise OutputError(f"leave= returns a mapping of what to write, not {update!r}.")
        return dict(update)

    def gather(self, updates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The update of the node, from those of its runs inside."""
        if not self.mapped:
            return dict(updates[0])
        return {name: [update.get(name) for update in updates] for name in self.outputs}

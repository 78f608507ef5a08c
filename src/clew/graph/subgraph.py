"""A graph as a node of another graph: which values go in, and which update comes out.

Rules:

- An input with the value ``ABSENT`` is not passed; the default inside the subgraph applies.
- ``transform_input(values) -> inner values`` and ``transform_output(inner state) -> update`` replace passing by name.
  ``transform_output`` receives an instance of the subgraph's schema, or a mapping if the subgraph has none.
- ``mapped`` inputs are sequences, but not text or bytes. The subgraph runs once for each element (``zip``: equal
  lengths) or for each combination (``product``: the last name varies fastest). Each output is the list of their
  outputs.

The engine runs the steps inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

from clew.errors import InputError, OutputError
from clew.graph.signature import ABSENT
from clew.state.type_names import a

if TYPE_CHECKING:
    from clew.graph.graph import Graph

MapMode = Literal["zip", "product"]


@dataclass(frozen=True, eq=False)
class Subgraph:
    """A graph inside a node. ``inputs`` is empty if ``transform_input`` receives the whole state."""

    graph: Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    transform_input: Callable[[Any], Any] | None = None
    transform_output: Callable[[Any], Any] | None = None
    mapped: tuple[str, ...] = ()
    mode: MapMode = "zip"

    def values_of(self, seen: Any) -> dict[str, Any]:
        """Return the values that the subgraph starts with.

        ``seen`` is a mapping of the inputs, or the whole state if ``transform_input`` is set and ``inputs`` is empty.
        """
        if isinstance(seen, Mapping):
            seen = {name: value for name, value in seen.items() if value is not ABSENT}
        values = seen if self.transform_input is None else self.transform_input(seen)
        if self.graph.schema is not None and not isinstance(values, Mapping):
            dumped: dict[str, Any] = self.graph.schema.dump(values)
            return dumped
        return dict(values)

    def items_of(self, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the values of each inner run: one run, or one for each element of the mapped inputs."""
        if not self.mapped:
            return [dict(values)]
        for name in self.mapped:
            elements = values[name]
            if not isinstance(elements, Sequence) or isinstance(elements, (str, bytes, bytearray)):
                raise InputError(
                    f"mapped input {name!r}: expected a list or another sequence, got {a(type(elements))}"
                    f"{_conversion(elements)}"
                )
        lists = {name: list(values[name]) for name in self.mapped}
        if self.mode == "product":
            combinations: Iterable[tuple[Any, ...]] = product(*lists.values())
        else:
            lengths = {name: len(elements) for name, elements in lists.items()}
            if len(set(lengths.values())) > 1:
                found = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
                raise InputError(
                    f"mapped inputs must have equal lengths, but {found}; use mode='product' for all combinations."
                )
            combinations = zip(*lists.values(), strict=True)
        return [{**values, **dict(zip(self.mapped, elements, strict=True))} for elements in combinations]

    def update_of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the update of the outer state, from the final values of one inner run."""
        if self.transform_output is None:
            return {name: values[name] for name in self.outputs if name in values}
        schema = self.graph.schema
        update = self.transform_output(values if schema is None else schema.instance(values))
        if not isinstance(update, Mapping):
            raise OutputError(f"transform_output= must return a mapping of values to write, got {update!r}.")
        return dict(update)

    def gather(self, updates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Combine the updates of the inner runs into the update of the node."""
        if not self.mapped:
            return dict(updates[0])
        return {name: [update.get(name) for update in updates] for name in self.outputs}


def _conversion(elements: Any) -> str:
    """Return the end of a message, which says how to make a list."""
    if isinstance(elements, str):
        return "; put it into a list, or split it with list()"
    return "; convert it with sorted()" if isinstance(elements, (set, frozenset)) else ""

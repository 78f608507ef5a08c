"""Nodes and their records.

A record is replaced, never modified (except that its value is decoded on first use), so a reference to a record is a
consistent snapshot. All numbers are revisions of the graph:

===============  ============================================================================================
``verified_at``  the latest revision for which the value is known to be valid; -1 if there is no value
``changed_at``   the value last changed
``touched_at``   the node was last set or invalidated, or its schema changed
``computed_at``  the computor last ran; for a source without a computor: it was last invalidated
``origin``       `COMPUTED`; `PINNED`: set on a node with inputs; `SET`: set on a node without inputs
===============  ============================================================================================

A table contains the nodes in memory, one object per key. Stored nodes are loaded on demand. A table never removes a
node: if another process writes to the database, the whole table is replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from clew.errors import InvalidNodeError, StoreCorruptError
from clew.incremental.expressions import Constant, spelled, substitute
from clew.incremental.schemas import CompiledSchema, SchemaRegistry, source_rule
from clew.state import unpacked

if TYPE_CHECKING:
    from clew.incremental.persistence import GraphPersistence

COMPUTED, PINNED, SET = 0, 1, 2
ORIGINS = ("computed", "pinned", "set")


PENDING: Any = object()  # placeholder for a value that is not decoded yet


class NodeRecord(msgspec.Struct):
    """The value of a node and its revisions."""

    value: Any
    code: bytes | None  # the encoded value; None for a plain one
    verified_at: int
    changed_at: int
    touched_at: int
    computed_at: int
    origin: int

    def get(self) -> Any:
        value = self.value
        if value is PENDING:
            value = self.value = unpacked(self.code)  # type: ignore[arg-type]
        return value


EMPTY = NodeRecord(None, None, -1, 0, 0, 0, COMPUTED)


class ConcreteNode:
    """One concrete node."""

    __slots__ = (
        "arguments",
        "bindings",
        "bit",
        "checked_at",
        "computor",
        "epoch",
        "inputs",
        "key",
        "row",
        "rule",
        "sources",
    )

    def __init__(
        self, key: str, rule: CompiledSchema, arguments: tuple[Constant, ...], bindings: dict[str, Constant]
    ) -> None:
        self.key = key
        self.rule = rule
        self.arguments = arguments
        self.bindings = bindings
        self.computor = rule.computor or missing
        self.inputs: tuple[ConcreteNode, ...] = ()  # set by `NodeTable.inputs`
        self.row: NodeRecord = None  # type: ignore[assignment]  # set by `NodeTable.row`
        self.checked_at = -1  # the last revision for which it was found up to date
        self.sources: Any = None  # computed by `freshness`, valid for `epoch`
        self.epoch = -1
        self.bit = -1  # its bit in source masks, or -1

    def __repr__(self) -> str:
        return f"Node({self.key})"


class SourceNotSet(Exception):
    """A source has no value."""


def missing(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
    """Raise SourceNotSet: the computor of sources without their own."""
    raise SourceNotSet


class NodeTable:
    """The nodes in memory, and the current revision of the graph."""

    def __init__(
        self, registry: SchemaRegistry, reader: GraphPersistence | None, gone: dict[str, CompiledSchema]
    ) -> None:
        self.registry = registry
        self.reader = reader
        self.nodes: dict[str, ConcreteNode] = {}
        self.revision = 0
        self.epoch = 0  # incremented when a schema is promoted
        self.gone = gone  # the rules of atoms whose schemas were removed
        rules = (*registry.rules, *gone.values())
        self.schemas_changed_at = max((rule.touched_at for rule in rules), default=0)
        self.touches: list[tuple[int, int]] = []  # (touched_at, bit) of sources that have a bit, sorted
        self.bits = 0
        self.source_sets: dict[Any, Any] = {}  # sets that contain only atoms, by content
        # of rules whose nodes share their inputs
        self.fixed_sources: dict[CompiledSchema, tuple[int, Any]] = {}
        self.plans: dict[Any, tuple[ConcreteNode, ...]] = {}
        self.planned = 0  # total number of nodes in these plans

    def find(self, name: str, arguments: tuple[Any, ...]) -> ConcreteNode | None:
        """Return the node with this name and these arguments; None if no schema matches and it was never set."""
        key = spelled(name, arguments)
        node = self.nodes.get(key)
        if node is not None:
            return node
        found = self.registry.find(name, arguments)
        if found is not None:
            return self._add_node(ConcreteNode(key, found[0], arguments, found[1]))
        if arguments or (self.registry.arity(name) or 0) > 0:
            return None
        if self.registry.has(name, 0) or (self.reader is not None and self._was_set(key)):
            return self.source(key)
        return None

    def source(self, key: str) -> ConcreteNode:
        """Return the node of an atom without a schema."""
        return self.nodes.get(key) or self._add_node(
            ConcreteNode(key, self.gone.get(key) or source_rule(key), (), {})
        )

    def _was_set(self, key: str) -> bool:
        assert self.reader is not None
        try:
            row = self.reader.load(key)
        except StoreCorruptError:
            return True  # so that it can be set again
        return row is not None and row.origin == SET

    def _add_node(self, node: ConcreteNode) -> ConcreteNode:
        self.nodes[node.key] = node
        return node

    def inputs(self, node: ConcreteNode) -> tuple[ConcreteNode, ...]:
        """Return the inputs of a node. Raises InvalidNodeError if no schema matches one of them."""
        if not node.inputs and node.rule.inputs:
            found, unknown = self.known_inputs(node)
            if unknown is not None:
                raise unknown
            node.inputs = found
        return node.inputs

    def known_inputs(self, node: ConcreteNode) -> tuple[tuple[ConcreteNode, ...], InvalidNodeError | None]:
        """Return the inputs of a node that exist, and the error of the first that does not, if any."""
        if node.inputs:
            return node.inputs, None
        found: list[ConcreteNode] = []
        unknown: InvalidNodeError | None = None
        for pattern in node.rule.inputs:
            arguments = substitute(pattern, node.bindings)
            lower = self.find(pattern.name, arguments)
            if lower is not None:
                found.append(lower)
            elif unknown is None:
                error = self.registry.unknown(pattern.name, arguments)
                unknown = InvalidNodeError(f"{error}; it is an input of {node.key!r}")
        return tuple(found), unknown

    def row(self, node: ConcreteNode) -> NodeRecord:
        row: NodeRecord | None = node.row
        if row is None:
            row = self.reader.load(node.key) if self.reader is not None else None
            node.row = row = self._as_seen(row, node)
        return row

    def _as_seen(self, row: NodeRecord | None, node: ConcreteNode) -> NodeRecord:
        """Return a stored record adjusted to the current schema."""
        rule = node.rule
        changed = rule.touched_at
        if row is not None and row.origin == SET and rule.is_source:
            assert self.reader is not None
            if row.touched_at >= self.reader.had_inputs_at(node):
                return row  # a set value survives schema changes, unless a schema gave the node inputs
        if row is None or rule.computor is None:
            return EMPTY if not changed else NodeRecord(None, None, -1, 0, changed, 0, COMPUTED)
        if changed <= row.touched_at:
            return row
        return NodeRecord(
            row.value, row.code, row.verified_at, row.changed_at, changed, row.computed_at, row.origin
        )

    def row_to_replace(self, node: ConcreteNode) -> NodeRecord:
        """Return the record of a node that is about to change; an unreadable one counts as empty."""
        try:
            return self.row(node)
        except StoreCorruptError:
            return NodeRecord(None, None, -1, 0, self.revision, 0, SET if node.rule.is_source else COMPUTED)

    def is_stored(self, node: ConcreteNode) -> bool:
        """Return whether a node has a value, or a record that cannot be read."""
        try:
            return self.row(node).verified_at >= 0
        except StoreCorruptError:
            return True

    def is_source(self, node: ConcreteNode) -> bool:
        """Return whether a node is tracked as a source: it has no inputs, or its schema was promoted."""
        return node.rule.is_source or node.rule.is_promoted

    def promote(self, rule: CompiledSchema) -> None:
        """Treat the nodes of a rule as sources of their dependents."""
        rule.is_promoted = True
        self.epoch += 1
        self.source_sets.clear()
        self.plans.clear()
        self.planned = 0

"""Nodes and their rows: what is known of each concrete node.

A row is never changed, only replaced (but for a value that is read from its bytes when it is first wanted), so whoever
holds one holds a consistent picture. All numbers in it are revisions of the graph:

===============  ============================================================================================
``verified_at``  the value was known to be right for this revision; -1 if there is no value
``changed_at``   the value last became another one
``touched_at``   somebody last set or invalidated the node, or its schema changed; never taken back
``computed_at``  the computor last ran; of a source that has none: it was last invalidated
``origin``       `COMPUTED`; `PINNED`: set on a node that has inputs; `SET`: on one that has none
===============  ============================================================================================

A table holds the nodes that are in memory, one object for each key. Nodes that a database has come into it when they
are asked for. A table never forgets a node: when somebody else wrote to the database, the whole table is dropped.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from clew.errors import InvalidNodeError, StoreCorruptError
from clew.incremental.expressions import Constant, spelled, substitute
from clew.incremental.schemas import CompiledSchema, SchemaRegistry, source_rule
from clew.state import decode

COMPUTED, PINNED, SET = 0, 1, 2
ORIGINS = ("computed", "pinned", "set")


PENDING: Any = object()  # in the place of a value that is still to be read from its bytes


class NodeRecord(msgspec.Struct):
    """What is known of a node."""

    value: Any
    code: bytes | None  # what stands for the value; None for a plain one
    verified_at: int
    changed_at: int
    touched_at: int
    computed_at: int
    origin: int

    def get(self) -> Any:
        """The value."""
        value = self.value
        if value is PENDING:
            value = self.value = decode(self.code)  # type: ignore[arg-type]
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
        self.inputs: tuple[ConcreteNode, ...] = ()  # found by `NodeTable.inputs`
        self.row: NodeRecord = None  # type: ignore[assignment]  # found by `NodeTable.row`
        self.checked_at = -1  # the revision for which it was last found to be up to date
        self.sources: Any = None  # what `sources` has found out, in the epoch below
        self.epoch = -1
        self.bit = -1  # its place in masks of sources, if it has one

    def __repr__(self) -> str:
        return f"Node({self.key})"


class SourceNotSet(Exception):
    """A source has no value."""


def missing(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
    """The computor of sources that have none of their own."""
    raise SourceNotSet


class RowLoader(Protocol):
    """Where rows come from that are not in memory."""

    def load(self, key: str) -> NodeRecord | None:
        """A row as it was stored."""

    def had_inputs_at(self, node: ConcreteNode) -> int:
        """Return the revision at which a schema last gave a node inputs; 0 if none did."""


class NodeTable:
    """The nodes that are in memory, and the revision that the graph is at."""

    def __init__(
        self, catalog: SchemaRegistry, reader: RowLoader | None, gone: dict[str, CompiledSchema]
    ) -> None:
        self.catalog = catalog
        self.reader = reader
        self.nodes: dict[str, ConcreteNode] = {}
        self.revision = 0
        self.epoch = 0  # of what counts as a source: one more when a schema is promoted
        self.gone = gone  # the rules of atoms that lost their schemas
        rules = (*catalog.rules, *gone.values())
        self.schemas_changed_at = max((rule.touched_at for rule in rules), default=0)
        self.touches: list[tuple[int, int]] = []  # (touched_at, bit) of sources that have a bit, sorted
        self.bits = 0
        self.source_sets: dict[Any, Any] = {}  # of atoms alone, by what is in them
        self.fixed_sources: dict[
            CompiledSchema, tuple[int, Any]
        ] = {}  # of rules whose nodes have the same inputs
        self.plans: dict[Any, tuple[ConcreteNode, ...]] = {}
        self.planned = 0  # how many nodes these plans have together

    def find(self, name: str, arguments: tuple[Any, ...]) -> ConcreteNode | None:
        """The node of a name and arguments; None if no schema knows it and it was never set."""
        key = spelled(name, arguments)
        node = self.nodes.get(key)
        if node is not None:
            return node
        found = self.catalog.find(name, arguments)
        if found is not None:
            return self._keep(ConcreteNode(key, found[0], arguments, found[1]))
        if arguments or (self.catalog.arity(name) or 0) > 0:
            return None
        if self.catalog.has(name, 0) or (self.reader is not None and self._was_set(key)):
            return self.source(key)
        return None

    def source(self, key: str) -> ConcreteNode:
        """The node of an atom that no schema makes."""
        return self.nodes.get(key) or self._keep(
            ConcreteNode(key, self.gone.get(key) or source_rule(key), (), {})
        )

    def _was_set(self, key: str) -> bool:
        assert self.reader is not None
        try:
            row = self.reader.load(key)
        except StoreCorruptError:
            return True  # so that it can be set again
        return row is not None and row.origin == SET

    def _keep(self, node: ConcreteNode) -> ConcreteNode:
        self.nodes[node.key] = node
        return node

    def inputs(self, node: ConcreteNode) -> tuple[ConcreteNode, ...]:
        """What a node is made from. InvalidNodeError if no schema knows one of them."""
        if not node.inputs and node.rule.inputs:
            found, unknown = self.known_inputs(node)
            if unknown is not None:
                raise unknown
            node.inputs = found
        return node.inputs

    def known_inputs(self, node: ConcreteNode) -> tuple[tuple[ConcreteNode, ...], InvalidNodeError | None]:
        """Those inputs of a node that some schema knows; and what is wrong with another one, if there is one."""
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
                error = self.catalog.unknown(pattern.name, arguments)
                unknown = InvalidNodeError(f"{error}; it is an input of {node.key!r}")
        return tuple(found), unknown

    def row(self, node: ConcreteNode) -> NodeRecord:
        """What is known of a node."""
        row: NodeRecord | None = node.row
        if row is None:
            row = self.reader.load(node.key) if self.reader is not None else None
            node.row = row = self._as_seen(row, node)
        return row

    def _as_seen(self, row: NodeRecord | None, node: ConcreteNode) -> NodeRecord:
        """A stored row in the light of the schema that there is now."""
        rule = node.rule
        changed = rule.touched_at
        if row is not None and row.origin == SET and rule.is_source:
            assert self.reader is not None
            if row.touched_at >= self.reader.had_inputs_at(node):
                return row  # what somebody set outlives schemas, unless one of them gave the node inputs
        if row is None or rule.computor is None:
            return EMPTY if not changed else NodeRecord(None, None, -1, 0, changed, 0, COMPUTED)
        if changed <= row.touched_at:
            return row
        return NodeRecord(
            row.value, row.code, row.verified_at, row.changed_at, changed, row.computed_at, row.origin
        )

    def row_to_replace(self, node: ConcreteNode) -> NodeRecord:
        """What is known of a node that is about to be changed: of a damaged row, that it has no value."""
        try:
            return self.row(node)
        except StoreCorruptError:
            return NodeRecord(None, None, -1, 0, self.revision, 0, SET if node.rule.is_source else COMPUTED)

    def is_stored(self, node: ConcreteNode) -> bool:
        """Whether a node has a value, or a row that cannot be read."""
        try:
            return self.row(node).verified_at >= 0
        except StoreCorruptError:
            return True

    def is_source(self, node: ConcreteNode) -> bool:
        """Whether touches of a node are asked for one by one: it has no inputs, or its schema was promoted."""
        return node.rule.is_source or node.rule.is_promoted

    def promote(self, rule: CompiledSchema) -> None:
        """Count the nodes of a rule among the sources of whatever depends on them."""
        rule.is_promoted = True
        self.epoch += 1
        self.source_sets.clear()
        self.plans.clear()
        self.planned = 0

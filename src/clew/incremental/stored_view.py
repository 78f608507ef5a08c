"""Read a stored dependency graph without its schemas' code: which nodes it has, from what, and how fresh they are.

The table holds a signature of each schema: its pattern, its inputs, and whether it has a computor. That is enough to
find the inputs of a stored node. Nothing is computed and nothing is written. A node counts as outdated as soon as one
of its sources, or a schema on the way, was touched after the node was verified: a pull may then compute it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from clew.errors import ClewError, StoreCorruptError
from clew.incremental.expressions import Expression, match, read_node, read_pattern, spelled, substitute
from clew.incremental.nodes import ORIGINS
from clew.incremental.persistence import META, NODE, SCHEMA, read_meta, read_row, read_schema
from clew.state import unpacked
from clew.stores.kv import KeyValueTable

MOST = 5_000  # nodes that are read
_DEEP = 100


class StoredRule(msgspec.Struct, frozen=True):
    """A schema as it is stored."""

    key: str
    output: Expression
    inputs: tuple[Expression, ...]
    is_source: bool
    touched_at: int


class StoredNode(msgspec.Struct, frozen=True):
    """A node that has a record."""

    key: str
    schema: str
    is_source: bool
    inputs: tuple[str, ...]
    verified_at: int
    changed_at: int
    touched_at: int
    computed_at: int
    origin: str
    schema_touched_at: int = 0
    code: bytes = b""

    @property
    def has_value(self) -> bool:
        """Whether it was ever set or computed."""
        return self.verified_at >= 0

    def value(self) -> Any:
        """Return the value. Instances of classes that are not imported are stored objects."""
        return unpacked(self.code)


class StoredGraph:
    """A dependency graph, as its table has it."""

    def __init__(self, table: KeyValueTable) -> None:
        try:
            meta = table.read(META)
            self.revision = 0 if meta is None else read_meta(meta).revision
            self.rules = [rule for key, data in table.scan(SCHEMA) for rule in _rules(key, data)]
            self.nodes = {node.key: node for node in self._read(table)}
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise StoreCorruptError(f"the dependency graph {table.name!r} is damaged: {error}") from error

    def _read(self, table: KeyValueTable) -> Iterator[StoredNode]:
        for stored, data in table.scan(NODE, limit=MOST):
            key = stored[len(NODE) :]
            verified, changed, touched, computed, origin, code = read_row(data)
            rule, inputs = self._rule_of(key)
            yield StoredNode(
                key,
                "" if rule is None else rule.key,
                rule is None or rule.is_source,
                inputs,
                verified,
                changed,
                touched,
                computed,
                ORIGINS[origin] if 0 <= origin < len(ORIGINS) else "set",
                0 if rule is None else rule.touched_at,
                code,
            )

    def _rule_of(self, key: str) -> tuple[StoredRule | None, tuple[str, ...]]:
        """Return the schema of a node, and the nodes that it reads."""
        try:
            node = read_node(key)
        except ClewError:
            return None, ()
        for rule in self.rules:
            if rule.output.name != node.name or len(rule.output.arguments) != len(node.arguments):
                continue
            found = match(rule.output.arguments, node.arguments)
            if found is not None:
                return rule, tuple(spelled(each.name, substitute(each, found)) for each in rule.inputs)
        return None, ()

    def state(self, key: str) -> str:
        """Return ``fresh``, ``outdated``, ``source`` or ``missing``."""
        node = self.nodes.get(key)
        if node is None or not node.has_value:
            return "missing"
        if not node.inputs:
            return "source"
        newest = max((touched for _, touched in self.sources(key)), default=0)
        return "outdated" if max(newest, node.schema_touched_at) > node.verified_at else "fresh"

    def sources(self, key: str) -> list[tuple[str, int]]:
        """Return the sources that a node depends on, with the revision at which each was touched, latest first."""
        found: dict[str, int] = {}
        pending, seen, left = [key], set[str](), _DEEP * MOST
        while pending and left:
            left -= 1
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            node = self.nodes.get(name)
            if node is None:
                continue
            if node.inputs:
                pending += node.inputs
                if name != key and node.schema_touched_at:
                    found[name] = node.schema_touched_at
            if not node.inputs or node.touched_at:
                found[name] = max(node.touched_at, found.get(name, 0))
        return sorted(found.items(), key=lambda each: (-each[1], each[0]))


def _rules(key: str, data: bytes) -> Iterator[StoredRule]:
    """Yield a stored schema, unless it was removed."""
    stored = read_schema(data)
    if stored.is_gone:
        return
    pattern = key[len(SCHEMA) :]
    try:
        output = read_pattern(pattern)
        inputs = tuple(map(read_pattern, stored.signature.inputs))
    except ClewError:  # a pattern of another version
        return
    touched = stored.touched_at if stored.is_promoted else 0
    yield StoredRule(pattern, output, inputs, not stored.signature.has_computor, touched)

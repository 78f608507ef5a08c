"""Persistence: stores a graph in a key-value table. Records are read on demand and written in transactions.

The keys are ``meta`` (the revision), ``n/KEY`` (the record of a node), and ``s/PATTERN`` (a schema: its signature,
whether it was promoted, when it last changed, and when it last got inputs).

Rules:

- A `set` is one transaction that includes the revision. The finished records of a pull are written together, in the
  order in which they were finished: at its end, and whenever enough of them wait. After a crash every stored record
  therefore has all records that it was computed from.
- A finished record waits at most 50 ms, however long the pull takes: a timer writes overdue records.
- Records that cannot be written (for example, a full disk) stay in memory. The timer and the next operation retry, so
  no result is lost.
- A value that was set on a node without inputs survives schema changes, until the graph is opened with a schema that
  gives the node inputs. From then on it is ignored, even if a later schema has no inputs again.
- Several processes may use the graph. Each write names the table version that it is based on. If another process has
  written since, the write is rejected and the nodes in memory are discarded: `is_outdated`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from clew.errors import StoreConflictError, StoreCorruptError, StoreError, StoreVersionError
from clew.incremental.expressions import Expression, match, read_pattern
from clew.incremental.nodes import PENDING, ConcreteNode, NodeRecord, NodeTable
from clew.incremental.schemas import CompiledSchema, SchemaRegistry, SchemaSignature, source_rule
from clew.incremental.values import PLAIN
from clew.state import LARGE, bytes_header, packed_parts, stored_part, unpacked
from clew.stores.kv import Change, Content, KeyValueTable
from clew.stores.sqlite.fork_safety import guard
from clew.stores.timer import call_later, cancel

_FORMAT = 4
_MANY = 512  # maximum number of waiting records
_MAX_DELAY = 0.035  # seconds; with the resolution of the timer, a write begins within 50 ms
_RETRY_DELAY = 1.0  # seconds until a failed write is retried

META, NODE, SCHEMA = "meta", "n/", "s/"
_pack = msgspec.msgpack.Encoder().encode


# the numbers of a NodeRecord in their order, and the encoded value
_StoredRow = tuple[int, int, int, int, int, bytes]


class _StoredSchema(msgspec.Struct, array_like=True):
    signature: SchemaSignature
    is_promoted: bool
    touched_at: int
    is_gone: bool
    inputs_at: int  # the revision at which it got inputs; 0 if no record can be older


class _Meta(msgspec.Struct, array_like=True):
    format: int
    revision: int


_NO_VALUE = _pack((-1, 0, 0, 0, 0, b""))[:2]  # prefix of a record without a value

read_row = msgspec.msgpack.Decoder(_StoredRow).decode
read_schema = msgspec.msgpack.Decoder(_StoredSchema).decode
read_meta = msgspec.msgpack.Decoder(_Meta).decode


class GraphPersistence:
    """The key-value table of a graph, and the records that wait to be written."""

    def __init__(self, kv: KeyValueTable) -> None:
        self.kv = kv
        self._waiting: dict[str, ConcreteNode] = {}
        # guards the waiting records and the version: the timer writes from another thread
        self._lock = threading.RLock()
        self._has_failed_write = False  # a write failed and has to be retried
        self._version = -1
        self.is_outdated = True
        self._with_inputs: dict[tuple[str, int], list[tuple[Expression, int]]] = {}  # by name and arity
        self.table: NodeTable | None = None  # the table whose records are written
        guard(self)

    # -- opening -----------------------------------------------------------------------------------------

    def open(self, registry: SchemaRegistry) -> tuple[int, dict[str, CompiledSchema]]:
        """Store schema changes; return the revision, and the rules of atoms whose schemas were removed."""
        with self._lock:
            return self._open(registry)

    def _open(self, registry: SchemaRegistry) -> tuple[int, dict[str, CompiledSchema]]:
        while True:
            self._clear_waiting()
            self._version = self.kv.version()
            self.is_outdated = False
            revision = self._revision()
            stored = {
                key[len(SCHEMA) :]: self._read(read_schema, data, key) for key, data in self.kv.scan(SCHEMA)
            }
            if stored and not revision and self.kv.read(META) is None:
                raise StoreCorruptError(
                    f"{self.kv!r} is corrupted: it has schemas but no revision; restore it from a backup"
                )
            changes = self._schema_changes(registry, stored, revision + 1)
            try:
                if changes:
                    if any(change.touched_at > revision for change in changes.values()):
                        revision += 1
                    self._write(
                        [
                            *((SCHEMA + key, _pack(change)) for key, change in changes.items()),
                            (META, _pack(_Meta(_FORMAT, revision))),
                        ]
                    )
            except StoreConflictError:
                continue  # another process wrote first, perhaps the same changes
            stored.update(changes)
            self._with_inputs = _with_inputs(stored)
            return revision, _restore_rules(registry, stored)

    def _revision(self) -> int:
        data = self.kv.read(META)
        if data is None:
            return 0
        meta = self._read(read_meta, data, META)
        if meta.format != _FORMAT:
            raise StoreVersionError(
                f"{self.kv!r} has format {meta.format}, but this version of Clew reads format {_FORMAT}; "
                f"{'update Clew' if meta.format > _FORMAT else 'compute the graph again in a new file'}"
            )
        return int(meta.revision)

    def _schema_changes(
        self, registry: SchemaRegistry, stored: dict[str, _StoredSchema], revision: int
    ) -> dict[str, _StoredSchema]:
        changes: dict[str, _StoredSchema] = {}
        for rule in registry.rules:
            signature = rule.signature()
            known = stored.get(rule.key)
            if known is None:
                # Records may exist already: of a source, or of a schema with other variables.
                is_touched = bool(stored) and self._has_rows(rule)
                at = revision if is_touched else 0
                changes[rule.key] = _StoredSchema(signature, is_touched, at, False, at if rule.inputs else 0)
            elif known.is_gone or known.signature != signature:
                inputs_at = revision if rule.inputs else known.inputs_at
                changes[rule.key] = _StoredSchema(signature, True, revision, False, inputs_at)
        present = {rule.key for rule in registry.rules}
        for key, known in stored.items():
            if key not in present and not known.is_gone:
                changes[key] = _StoredSchema(known.signature, True, revision, True, known.inputs_at)
        return changes

    def _has_rows(self, rule: CompiledSchema) -> bool:
        name = NODE + rule.output.name
        prefix = f"{name}(" if rule.output.arguments else name
        first = next(self.kv.scan(prefix, limit=1, check=False), None)
        return first is not None and (first[0] == name or prefix != name)

    # -- reading -----------------------------------------------------------------------------------------

    def is_current(self) -> bool:
        """Return whether the memory matches the database."""
        with self._lock:
            return not self.is_outdated and self.kv.version() == self._version

    def load(self, key: str) -> NodeRecord | None:
        data = self.kv.read(NODE + key)
        return None if data is None else self._row(key, data)

    def had_inputs_at(self, node: ConcreteNode) -> int:
        """Return the revision at which a schema last gave a node inputs; 0 if none did."""
        schemas = self._with_inputs.get((node.rule.output.name, len(node.arguments)), ())
        return max(
            (at for form, at in schemas if match(form.arguments, node.arguments) is not None), default=0
        )

    def keys(self, prefix: str) -> Iterator[str]:
        """Return the keys of stored records with a value and this prefix, in order; includes damaged records."""
        rows = self.kv.scan(NODE + prefix, check=False)
        return (key[len(NODE) :] for key, data in rows if not data.startswith(_NO_VALUE))

    def _row(self, key: str, data: bytes) -> NodeRecord:
        *numbers, stored = self._read(read_row, data, NODE + key)
        if not stored:
            raise StoreCorruptError(
                f"{self.kv!r} is corrupted: the record of {key!r} has no value; invalidate the node, or set it"
            )
        value, code = PENDING, stored
        stored_form = stored_part(code)
        if stored_form[:1] not in (b"{", b"[") or stored_form.startswith(b'{"$'):
            value = unpacked(code)
            if type(value) in PLAIN:  # encoded again when it is written
                code = None
        return NodeRecord(value, code, *numbers)

    def _read(self, reader: Any, data: bytes, key: str) -> Any:
        try:
            return reader(data)
        except msgspec.MsgspecError as error:
            raise StoreCorruptError(f"{self.kv!r}: {key!r} cannot be read ({error})") from error

    # -- writing -----------------------------------------------------------------------------------------

    def finished(self, node: ConcreteNode) -> None:
        """Schedule the new record of a node for writing."""
        with self._lock:
            waiting = self._waiting
            if not waiting:
                call_later(self, _MAX_DELAY, self._flush_in_thread)
            waiting.pop(node.key, None)  # keep the order of finishing
            waiting[node.key] = node
            if len(waiting) >= _MANY:
                self.flush()

    def flush(self) -> None:
        """Write the waiting records."""
        with self._lock:
            if self._waiting and not self.is_outdated:
                try:
                    self._write(())
                except StoreConflictError:
                    self.is_outdated = True

    def catch_up(self) -> None:
        """Retry a failed write; the records keep waiting if it fails again."""
        if self._has_failed_write:
            self._flush_quietly()

    def _flush_in_thread(self) -> None:
        """Write overdue records in a separate thread: the store may be slow or locked."""
        threading.Thread(target=self._flush_quietly, name="clew-flush", daemon=True).start()

    def _flush_quietly(self) -> None:
        with self._lock:
            try:
                self.flush()
            except StoreError:  # the pull reports it with its own write
                self._has_failed_write = True
                call_later(self, _RETRY_DELAY, self._flush_in_thread)

    def _clear_waiting(self) -> None:
        cancel(self)
        self._waiting.clear()
        self._has_failed_write = False

    def commit(
        self, revision: int, rows: Iterable[tuple[str, NodeRecord]], rules: Iterable[CompiledSchema]
    ) -> None:
        """Write changes and all waiting records as one revision. Raises StoreConflictError if others wrote."""
        self._write(
            [
                *((SCHEMA + rule.key, _pack(_stored_schema(rule))) for rule in rules),
                *((NODE + key, _packed(row)) for key, row in rows),
                (META, _pack(_Meta(_FORMAT, revision))),
            ]
        )

    def drop(self, keys: Iterable[str]) -> None:
        """Delete records."""
        self._write([(NODE + key, None) for key in keys])

    def _write(self, changes: Iterable[Change]) -> None:
        with self._lock:
            rows = [(NODE + key, _packed(node.row)) for key, node in self._waiting.items()]
            try:
                self._version = self.kv.write([*rows, *changes], expect=self._version)
            except StoreConflictError:
                raise
            except StoreError:
                self._has_failed_write = bool(rows)
                raise
            self._clear_waiting()

    def close(self) -> None:
        """Write the waiting records and close the table."""
        try:
            self.flush()
        finally:
            cancel(self)
            self.kv.close()


def _packed(row: NodeRecord) -> Content:
    numbers = (row.verified_at, row.changed_at, row.touched_at, row.computed_at, row.origin)
    parts = packed_parts(row.value) if row.code is None else [row.code]
    if len(parts) == 1 and len(parts[0]) <= LARGE:
        return _pack((*numbers, parts[0]))
    # The same MessagePack without a copy of the value. The encoding of empty bytes has two bytes.
    return [_pack((*numbers, b""))[:-2] + bytes_header(sum(map(len, parts))), *parts]


def _stored_schema(rule: CompiledSchema) -> _StoredSchema:
    return _StoredSchema(rule.signature(), rule.is_promoted, rule.touched_at, False, rule.inputs_at)


def _with_inputs(stored: dict[str, _StoredSchema]) -> dict[tuple[str, int], list[tuple[Expression, int]]]:
    found: dict[tuple[str, int], list[tuple[Expression, int]]] = {}
    for key, known in stored.items():
        if known.inputs_at:
            form = read_pattern(key)
            found.setdefault((form.name, len(form.arguments)), []).append((form, known.inputs_at))
    return found


def _restore_rules(registry: SchemaRegistry, stored: dict[str, _StoredSchema]) -> dict[str, CompiledSchema]:
    """Restore the stored state of the rules; return the rules of atoms whose schemas were removed."""
    for rule in registry.rules:
        known = stored[rule.key]
        rule.is_promoted, rule.touched_at = known.is_promoted, known.touched_at
        rule.inputs_at = known.inputs_at
    gone = {}
    for key, known in stored.items():
        if known.is_gone and "(" not in key:
            gone[key] = rule = source_rule(key)
            rule.touched_at = known.touched_at
    return gone

"""Keeping a graph in a database: rows that are read when wanted, and written a transaction at a time.

On the graph's shelf lie ``meta`` (the revision), ``n/KEY`` for the row of each node, and ``s/PATTERN`` for what is
remembered of each schema: its signature, whether it was promoted, when it last changed, and when it last got inputs.

Rules:

- A `set` is one transaction, with the revision in it. Rows that a pull has finished are written together, in the order
  in which they were finished: at its end, and on the way whenever enough of them wait. So after a crash every row is
  there with all that it was made from, or not at all.
- A finished row waits at most 50 ms, whatever the pull computes next: a timer writes what has waited for long.
- What could not be written (a full disk) stays in memory. The timer and the next operation try again; nothing that was
  computed is lost.
- A value that was set on a node without inputs outlives changes of schemas, until the graph is opened with a schema
  that gives the node inputs. From then on it does not count, also if a later schema has no inputs again.
- Several processes may have the graph open. Each write names the stamp of the shelf that it builds on. If somebody
  else wrote meanwhile it is refused, and what is in memory is dropped: `is_behind`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from clew.errors import StoreConflictError, StoreCorruptError, StoreError, StoreVersionError
from clew.incremental.expressions import Expression, match, read_pattern
from clew.incremental.nodes import PENDING, ConcreteNode, NodeRecord, NodeTable
from clew.incremental.schemas import CompiledSchema, SchemaRegistry, source_rule
from clew.incremental.values import PLAIN
from clew.state import decode, encode
from clew.stores.kv import KeyValueTable
from clew.stores.sqlite.fork_safety import guard
from clew.stores.timer import call_later, cancel

_FORMAT = 2
_MANY = 512  # rows that wait at most
_LONG = 0.035  # seconds that they wait; with the tick of the timer, a write begins within 50 ms
_AGAIN = 1.0  # seconds after which a write that failed is tried again

_META, _NODE, _SCHEMA = "meta", "n/", "s/"
_pack = msgspec.msgpack.Encoder().encode


class _StoredRow(msgspec.Struct, array_like=True):
    verified_at: int
    changed_at: int
    touched_at: int
    computed_at: int
    origin: int
    code: bytes


class _StoredSchema(msgspec.Struct, array_like=True):
    signature: str
    is_promoted: bool
    touched_at: int
    is_gone: bool
    inputs_at: int  # the revision at which it came into force with inputs; 0 if no row can be older


class _Meta(msgspec.Struct, array_like=True):
    format: int
    revision: int


_NO_VALUE = _pack(_StoredRow(-1, 0, 0, 0, 0, b""))[:2]  # how a row begins that was verified at -1

_read_row = msgspec.msgpack.Decoder(_StoredRow).decode
_read_schema = msgspec.msgpack.Decoder(_StoredSchema).decode
_read_meta = msgspec.msgpack.Decoder(_Meta).decode


class GraphPersistence:
    """A graph's shelf, and the rows that wait to be written."""

    def __init__(self, shelf: KeyValueTable) -> None:
        self.shelf = shelf
        self._waiting: dict[str, ConcreteNode] = {}
        self._lock = (
            threading.RLock()
        )  # guards what waits and the stamp: the timer writes from another thread
        self._is_late = False  # a write failed, and what it held is still to be written
        self._stamp = -1
        self.is_behind = True
        self._with_inputs: dict[tuple[str, int], list[tuple[Expression, int]]] = {}  # by name and arity
        self.table: NodeTable | None = None  # whose rows are written
        guard(self)

    # -- opening -----------------------------------------------------------------------------------------

    def open(self, catalog: SchemaRegistry) -> tuple[int, dict[str, CompiledSchema]]:
        """The revision, and the rules of atoms that lost their schemas; catches up with changed schemas."""
        with self._lock:
            return self._opened(catalog)

    def _opened(self, catalog: SchemaRegistry) -> tuple[int, dict[str, CompiledSchema]]:
        while True:
            self._forget()
            self._stamp = self.shelf.stamp()
            self.is_behind = False
            revision = self._revision()
            stored = {
                key[len(_SCHEMA) :]: self._read(_read_schema, data, key)
                for key, data in self.shelf.scan(_SCHEMA)
            }
            if stored and not revision and self.shelf.read(_META) is None:
                raise StoreCorruptError(
                    f"{self.shelf!r} has schemas and no revision: it is damaged; go back to a copy of it"
                )
            changes = self._changed(catalog, stored, revision + 1)
            try:
                if changes:
                    if any(change.touched_at > revision for change in changes.values()):
                        revision += 1
                    self._write(
                        [
                            *((_SCHEMA + key, _pack(change)) for key, change in changes.items()),
                            (_META, _pack(_Meta(_FORMAT, revision))),
                        ]
                    )
            except StoreConflictError:
                continue  # another process was quicker; it may even have made the same changes
            stored.update(changes)
            self._with_inputs = _with_inputs(stored)
            return revision, _recalled(catalog, stored)

    def _revision(self) -> int:
        data = self.shelf.read(_META)
        if data is None:
            return 0
        meta = self._read(_read_meta, data, _META)
        if meta.format != _FORMAT:
            raise StoreVersionError(
                f"{self.shelf!r} has format {meta.format}, and this version of Clew reads format {_FORMAT}; "
                f"{'update Clew' if meta.format > _FORMAT else 'compute the graph again in a new file'}"
            )
        return int(meta.revision)

    def _changed(
        self, catalog: SchemaRegistry, stored: dict[str, _StoredSchema], revision: int
    ) -> dict[str, _StoredSchema]:
        changes: dict[str, _StoredSchema] = {}
        for rule in catalog.rules:
            signature = rule.signature()
            known = stored.get(rule.key)
            if known is None:
                # Rows may be there from before: of a source, or of a schema with other variables.
                is_touched = bool(stored) and self._has_rows(rule)
                at = revision if is_touched else 0
                changes[rule.key] = _StoredSchema(signature, is_touched, at, False, at if rule.inputs else 0)
            elif known.is_gone or known.signature != signature:
                inputs_at = revision if rule.inputs else known.inputs_at
                changes[rule.key] = _StoredSchema(signature, True, revision, False, inputs_at)
        present = {rule.key for rule in catalog.rules}
        for key, known in stored.items():
            if key not in present and not known.is_gone:
                changes[key] = _StoredSchema(known.signature, True, revision, True, known.inputs_at)
        return changes

    def _has_rows(self, rule: CompiledSchema) -> bool:
        name = _NODE + rule.output.name
        prefix = f"{name}(" if rule.output.arguments else name
        first = next(self.shelf.scan(prefix, limit=1, check=False), None)
        return first is not None and (first[0] == name or prefix != name)

    # -- reading -----------------------------------------------------------------------------------------

    def is_current(self) -> bool:
        """Whether what is in memory is what the database has."""
        with self._lock:
            return not self.is_behind and self.shelf.stamp() == self._stamp

    def load(self, key: str) -> NodeRecord | None:
        """A row as it was stored."""
        data = self.shelf.read(_NODE + key)
        return None if data is None else self._row(key, data)

    def had_inputs_at(self, node: ConcreteNode) -> int:
        """Return the revision at which a schema last gave a node inputs; 0 if none did."""
        schemas = self._with_inputs.get((node.rule.output.name, len(node.arguments)), ())
        return max(
            (at for form, at in schemas if match(form.arguments, node.arguments) is not None), default=0
        )

    def keys(self, prefix: str) -> Iterator[str]:
        """The keys of stored rows with a value that start with a prefix, in order; also of damaged rows."""
        rows = self.shelf.scan(_NODE + prefix, check=False)
        return (key[len(_NODE) :] for key, data in rows if not data.startswith(_NO_VALUE))

    def _row(self, key: str, data: bytes) -> NodeRecord:
        stored = self._read(_read_row, data, _NODE + key)
        if not stored.code:
            raise StoreCorruptError(
                f"{key!r} is up to date and has no value: {self.shelf!r} is damaged; invalidate the node, or set it"
            )
        value, code = PENDING, stored.code
        if code[:1] not in (b"{", b"[") or code.startswith(b'{"$'):
            value = decode(code)
            if type(value) in PLAIN:  # its bytes are made again when they are wanted
                code = None
        return NodeRecord(
            value,
            code,
            stored.verified_at,
            stored.changed_at,
            stored.touched_at,
            stored.computed_at,
            stored.origin,
        )

    def _read(self, reader: Any, data: bytes, key: str) -> Any:
        try:
            return reader(data)
        except msgspec.MsgspecError as error:
            raise StoreCorruptError(f"{self.shelf!r}: {key!r} cannot be read ({error})") from error

    # -- writing -----------------------------------------------------------------------------------------

    def finished(self, node: ConcreteNode) -> None:
        """Note that a pull has replaced a node's row: it is written soon."""
        with self._lock:
            waiting = self._waiting
            if not waiting:
                call_later(self, _LONG, self._write_late)
            waiting.pop(node.key, None)  # the last one finished comes last
            waiting[node.key] = node
            if len(waiting) >= _MANY:
                self.flush()

    def flush(self) -> None:
        """Write the rows that wait."""
        with self._lock:
            if self._waiting and not self.is_behind:
                try:
                    self._write(())
                except StoreConflictError:
                    self.is_behind = True

    def catch_up(self) -> None:
        """Try once more to write what could not be written. It still waits if that fails."""
        if self._is_late:
            self._flush_quietly()

    def _write_late(self) -> None:
        """Write what has waited for long, in a thread of its own: the store may be slow or locked."""
        threading.Thread(target=self._flush_quietly, name="clew-flush", daemon=True).start()

    def _flush_quietly(self) -> None:
        with self._lock:
            try:
                self.flush()
            except StoreError:  # reported by the pull's own write, if it is not over by then
                self._is_late = True
                call_later(self, _AGAIN, self._write_late)

    def _forget(self) -> None:
        cancel(self)
        self._waiting.clear()
        self._is_late = False

    def commit(
        self, revision: int, rows: Iterable[tuple[str, NodeRecord]], rules: Iterable[CompiledSchema]
    ) -> None:
        """Write what somebody set, with all that waits, as one revision. StoreConflictError if others wrote."""
        self._write(
            [
                *((_SCHEMA + rule.key, _pack(_remembered(rule))) for rule in rules),
                *((_NODE + key, _packed(row)) for key, row in rows),
                (_META, _pack(_Meta(_FORMAT, revision))),
            ]
        )

    def drop(self, keys: Iterable[str]) -> None:
        """Take rows away."""
        self._write([(_NODE + key, None) for key in keys])

    def _write(self, changes: Iterable[tuple[str, bytes | None]]) -> None:
        with self._lock:
            rows = [(_NODE + key, _packed(node.row)) for key, node in self._waiting.items()]
            try:
                self._stamp = self.shelf.write([*rows, *changes], expect=self._stamp)
            except StoreConflictError:
                raise
            except StoreError:
                self._is_late = bool(rows)
                raise
            self._forget()

    def close(self) -> None:
        """Write what waits, and close the shelf."""
        try:
            self.flush()
        finally:
            cancel(self)
            self.shelf.close()


def _packed(row: NodeRecord) -> bytes:
    code = row.code
    return _pack(
        _StoredRow(
            row.verified_at,
            row.changed_at,
            row.touched_at,
            row.computed_at,
            row.origin,
            encode(row.value) if code is None else code,
        )
    )


def _remembered(rule: CompiledSchema) -> _StoredSchema:
    return _StoredSchema(rule.signature(), rule.is_promoted, rule.touched_at, False, rule.inputs_at)


def _with_inputs(stored: dict[str, _StoredSchema]) -> dict[tuple[str, int], list[tuple[Expression, int]]]:
    found: dict[tuple[str, int], list[tuple[Expression, int]]] = {}
    for key, known in stored.items():
        if known.inputs_at:
            form = read_pattern(key)
            found.setdefault((form.name, len(form.arguments)), []).append((form, known.inputs_at))
    return found


def _recalled(catalog: SchemaRegistry, stored: dict[str, _StoredSchema]) -> dict[str, CompiledSchema]:
    """Tell the rules what is remembered of them; the rules of atoms that have no schema any more."""
    for rule in catalog.rules:
        known = stored[rule.key]
        rule.is_promoted, rule.touched_at = known.is_promoted, known.touched_at
        rule.inputs_at = known.inputs_at
    gone = {}
    for key, known in stored.items():
        if known.is_gone and "(" not in key:
            gone[key] = rule = source_rule(key)
            rule.touched_at = known.touched_at
    return gone

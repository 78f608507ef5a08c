"""Keeping a graph in a database: rows that are read when wanted, and written a transaction at a time.

On the graph's shelf lie ``meta`` (the revision), ``n/KEY`` for the row of each node, and ``s/PATTERN`` for what is
remembered of each schema: its signature, whether it was promoted, and when it last changed.

Rules:

- A `set` is one transaction, with the revision in it. Rows that a pull has finished are written together, in the order
  in which they were finished: at its end, and on the way whenever enough of them wait or enough time has passed. So
  after a crash every row is there with all that it was made from, or not at all.
- What could not be written (a full disk) waits for the next write; nothing that was computed is lost.
- Several processes may have the graph open. Each write names the stamp of the shelf that it builds on. If somebody
  else wrote meanwhile it is refused, and what is in memory is dropped: `is_behind`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from clew.errors import StoreConflictError, StoreCorruptError, StoreVersionError
from clew.incremental.nodes import PENDING, Node, Row, Table
from clew.incremental.schemas import Catalog, Rule, source_rule
from clew.incremental.values import PLAIN
from clew.state import decode, encode
from clew.stores.shelf import Shelf

_FORMAT = 1
_MANY = 512  # rows that wait at most
_LONG = 0.05  # seconds that they wait at most, while a pull goes on

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


class _Meta(msgspec.Struct, array_like=True):
    format: int
    revision: int


_NO_VALUE = _pack(_StoredRow(-1, 0, 0, 0, 0, b""))[:2]  # how a row begins that was verified at -1

_read_row = msgspec.msgpack.Decoder(_StoredRow).decode
_read_schema = msgspec.msgpack.Decoder(_StoredSchema).decode
_read_meta = msgspec.msgpack.Decoder(_Meta).decode


class Keeper:
    """A graph's shelf, and the rows that wait to be written."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self._waiting: dict[str, Node] = {}
        self._since = 0.0
        self._stamp = -1
        self.is_behind = True
        self.table: Table | None = None  # whose rows are written

    # -- opening -----------------------------------------------------------------------------------------

    def open(self, catalog: Catalog) -> tuple[int, dict[str, Rule]]:
        """The revision, and the rules of atoms that lost their schemas; catches up with changed schemas."""
        while True:
            self._waiting.clear()
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
            return revision, _recalled(catalog, stored)

    def _revision(self) -> int:
        data = self.shelf.read(_META)
        if data is None:
            return 0
        meta = self._read(_read_meta, data, _META)
        if meta.format > _FORMAT:
            raise StoreVersionError(
                f"{self.shelf!r} was written by a newer Clew (format {meta.format}, this one reads up to {_FORMAT}); "
                "update Clew"
            )
        return int(meta.revision)

    def _changed(
        self, catalog: Catalog, stored: dict[str, _StoredSchema], revision: int
    ) -> dict[str, _StoredSchema]:
        changes: dict[str, _StoredSchema] = {}
        for rule in catalog.rules:
            signature = rule.signature()
            known = stored.get(rule.key)
            if known is None:
                # Rows may be there from before: of a source, or of a schema with other variables.
                is_touched = bool(stored) and self._has_rows(rule)
                changes[rule.key] = _StoredSchema(signature, is_touched, revision if is_touched else 0, False)
            elif known.is_gone or known.signature != signature:
                changes[rule.key] = _StoredSchema(signature, True, revision, False)
        present = {rule.key for rule in catalog.rules}
        for key, known in stored.items():
            if key not in present and not known.is_gone:
                changes[key] = _StoredSchema(known.signature, True, revision, True)
        return changes

    def _has_rows(self, rule: Rule) -> bool:
        name = _NODE + rule.output.name
        prefix = f"{name}(" if rule.output.arguments else name
        first = next(self.shelf.scan(prefix, limit=1, check=False), None)
        return first is not None and (first[0] == name or prefix != name)

    # -- reading -----------------------------------------------------------------------------------------

    def is_current(self) -> bool:
        """Whether what is in memory is what the database has."""
        return not self.is_behind and self.shelf.stamp() == self._stamp

    def load(self, key: str) -> Row | None:
        """A row as it was stored."""
        data = self.shelf.read(_NODE + key)
        return None if data is None else self._row(key, data)

    def keys(self, prefix: str) -> Iterator[str]:
        """The keys of stored rows with a value that start with a prefix, in order; also of damaged rows."""
        rows = self.shelf.scan(_NODE + prefix, check=False)
        return (key[len(_NODE) :] for key, data in rows if not data.startswith(_NO_VALUE))

    def _row(self, key: str, data: bytes) -> Row:
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
        return Row(
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

    def finished(self, node: Node) -> None:
        """A pull has replaced a node's row."""
        waiting = self._waiting
        if not waiting:
            self._since = time.monotonic()
        waiting.pop(node.key, None)  # the last one finished comes last
        waiting[node.key] = node
        if len(waiting) >= _MANY or time.monotonic() - self._since > _LONG:
            self.flush()

    def flush(self) -> None:
        """Write the rows that wait."""
        if self._waiting and not self.is_behind:
            try:
                self._write(())
            except StoreConflictError:
                self.is_behind = True

    def commit(self, revision: int, rows: Iterable[tuple[str, Row]], rules: Iterable[Rule]) -> None:
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
        rows = [(_NODE + key, _packed(node.row)) for key, node in self._waiting.items()]
        self._stamp = self.shelf.write([*rows, *changes], expect=self._stamp)
        self._waiting.clear()

    def close(self) -> None:
        """Write what waits, and close the shelf."""
        try:
            self.flush()
        finally:
            self.shelf.close()


def _packed(row: Row) -> bytes:
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


def _remembered(rule: Rule) -> _StoredSchema:
    return _StoredSchema(rule.signature(), rule.is_promoted, rule.touched_at, False)


def _recalled(catalog: Catalog, stored: dict[str, _StoredSchema]) -> dict[str, Rule]:
    """Tell the rules what is remembered of them; the rules of atoms that have no schema any more."""
    for rule in catalog.rules:
        known = stored[rule.key]
        rule.is_promoted, rule.touched_at = known.is_promoted, known.touched_at
    gone = {}
    for key, known in stored.items():
        if known.is_gone and "(" not in key:
            gone[key] = rule = source_rule(key)
            rule.touched_at = known.touched_at
    return gone

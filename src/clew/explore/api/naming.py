"""The identity of states: two states are one if they differ only in generated values.

- Times are dropped: columns of a date or time type, and volatile columns that hold times.
- Generated keys, what refers to them, and other volatile values are renamed: only the pattern in which they occur
  counts. So UUIDs and serial numbers give the same number of states, in any order of creation.
- The context and the session count in the same way: by the rows and values that they refer to.

The pattern is found by refinement: a value starts with the places in the context where it occurs; then, a few times, it
gets the rows in which it occurs, and rows get their values. The result is a multiset of rows for each table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from clew.explore.api.table_changes import Column, Schemas
from clew.explore.model.states import State

ROUNDS = 3
SESSION = "session"
_OPAQUE = 8  # characters from which a text is compared across columns: a token, a UUID
_GENERATED = re.compile(r"int|serial|uuid", re.IGNORECASE)

Value = tuple[Any, str]  # where it is comparable, and its text


class StateNames:
    """Maps states to representatives."""

    def __init__(self, schemas: Schemas, times: set[Column], volatile: set[Column]) -> None:
        self._schemas = schemas
        self._times = times
        self._volatile = volatile
        self._roots: dict[Column, Column] = {}
        self._kinds: dict[Column, str] = {}

    def forget(self) -> None:
        """Discard what was derived, because more columns are volatile now."""
        self._kinds.clear()

    def __call__(self, state: State) -> Any:
        """Return the representative of a state."""
        context = state.context
        rows, shown = self._rows(state)
        colors: dict[Value, bytes] = {}
        for place, value in self._in_context(context):
            colors[value] = _hash(colors.get(value, b""), place)
        painted: list[bytes] = []
        for _ in range(ROUNDS):
            painted = [_hash(head, *(colors.get(value, b"-") for value in values)) for head, values in rows]
            seen: dict[Value, list[bytes]] = {}
            for color, (_, values) in zip(painted, rows):
                for position, value in enumerate(values):
                    seen.setdefault(value, []).append(color + bytes([position % 256]))
            colors = {
                value: _hash(colors.get(value, b""), *sorted(found)) for value, found in seen.items()
            } | {value: color for value, color in colors.items() if value not in seen}
        return [sorted(painted), shown, self._context(context, colors), self._session(state, colors)]

    # -- rows ---------------------------------------------------------------------------------------------------

    def _rows(self, state: State) -> tuple[list[tuple[bytes, list[Value]]], list[Any]]:
        """Return each row as its fixed part and its renamed values, and what systems show that are not tables."""
        rows, shown = [], []
        for system, observation in state.observations.items():
            if system == SESSION:
                continue
            data = observation.data
            if system not in self._schemas.tables or not isinstance(data, Mapping):
                shown.append([system, data])
                continue
            for table, content in data.items():
                if not isinstance(content, list):
                    shown.append([system, table, content])
                    continue
                for row in content:
                    rows.append(self._row(system, table, row))
        return rows, shown

    def _row(self, system: str, table: str, row: Mapping[str, Any]) -> tuple[bytes, list[Value]]:
        fixed, values = [f"{system}.{table}"], []
        for column, value in row.items():
            kind = self._kind((system, table, column))
            if value is None:
                fixed.append(f"{column}=")
            elif kind == "keep":
                fixed.append(f"{column}={value!r}")
            elif kind == "rename":
                values.append(self._value((system, table, column), value))
        return _hash(*(part.encode("utf-8", "surrogatepass") for part in fixed)), values

    def _value(self, column: Column, value: Any) -> Value:
        text = str(value)
        if (isinstance(value, str) and len(value) >= _OPAQUE) or not isinstance(value, int):
            return ("text", text)
        return (self._root(column), text)

    def _root(self, column: Column) -> Column:
        """Follow foreign keys to the column that a value comes from."""
        if column not in self._roots:
            seen, at = {column}, column
            while True:
                schema = self._schemas.table(at[0], at[1])
                target = schema.foreign_keys.get(at[2]) if schema is not None else None
                if target is None or (at[0], *target) in seen:
                    break
                at = (at[0], *target)
                seen.add(at)
            self._roots[column] = at
        return self._roots[column]

    def _kind(self, column: Column) -> str:
        if column not in self._kinds:
            self._kinds[column] = self._kind_of(column)
        return self._kinds[column]

    def _kind_of(self, column: Column) -> str:
        if column in self._times:
            return "drop"
        root = self._root(column)
        schema = self._schemas.table(root[0], root[1])
        generated = (
            schema is not None
            and schema.key == (root[2],)
            and bool(_GENERATED.search(schema.columns.get(root[2], "")))
        )
        return "rename" if generated or {column, root} & self._volatile else "keep"

    # -- the context and the session ----------------------------------------------------------------------------

    def _in_context(self, context: Mapping[str, Any]) -> list[tuple[bytes, Value]]:
        found = []
        for operation, resources in sorted((context.get("made") or {}).items()):
            for index, resource in enumerate(resources):
                for part in ("fields", "former"):
                    for name, column in sorted(resource["rows"].items()):
                        if name in resource[part]:
                            value = self._value((column[0], column[1], column[2]), resource[part][name])
                            found.append((f"{operation}#{index}.{part}.{name}".encode(), value))
        return found

    def _context(self, context: Mapping[str, Any], colors: Mapping[Value, bytes]) -> list[Any]:
        made = [
            [
                operation,
                [[each["gone"], each["actor"], each["args"], sorted(each["former"])] for each in resources],
            ]
            for operation, resources in sorted((context.get("made") or {}).items())
        ]
        return [made, context.get("logins") or {}]

    def _session(self, state: State, colors: Mapping[Value, bytes]) -> list[Any]:
        if SESSION not in {part.system for part in state.parts}:
            return []
        data = state[SESSION]
        found = []
        for actor, parts in sorted(data["actors"].items()):
            texts = sorted(
                [place, name, colors.get(("text", text.rsplit(" ", 1)[-1]), b"")]
                for place, pairs in parts.items()
                for name, text in pairs.items()
            )
            found.append([actor, texts])
        return found


def _hash(*parts: bytes) -> bytes:
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(4, "big") + part)
    return digest.digest()

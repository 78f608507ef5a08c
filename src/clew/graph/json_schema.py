"""JSON Schemas of types, for the descriptions of graphs.

pydantic describes types that contain a pydantic model; msgspec describes all others: builtin types, dataclasses,
TypedDicts and structs. A type that neither can describe becomes ``{}``, which accepts anything. Schemas do not affect
what a graph does, so this module never raises.

msgspec sorts the choices of a `Literal` and of an enum, and gives no format to a `datetime` or `time` that needs no
time zone. A form needs both, so these schemas have the choices as declared, and the formats ``date-time-local`` and
``time-local``.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, time
from enum import Enum
from typing import Any

import msgspec

from clew.state.values.conversion import has_model

Json = dict[str, Any]


def json_schema(annotation: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type, as plain data; ``{}`` if it has none."""
    if annotation is Any or annotation is object:
        return {}
    try:
        if has_model(annotation):
            made = sys.modules["pydantic"].TypeAdapter(annotation).json_schema()
        else:
            made = msgspec.json.schema(annotation)
            with suppress(Exception):  # it stays usable
                _Refinement(made.get("$defs", {})).refine(annotation, made)
        plain = msgspec.json.decode(msgspec.json.encode(made))
    except Exception:  # a user's class may raise anything here
        return {}
    return plain if isinstance(plain, dict) else {}


class _Refinement:
    """Adds to a schema what msgspec leaves out. Parts whose shape is not that of their type stay as they are."""

    def __init__(self, definitions: Json) -> None:
        self._definitions = definitions
        self._seen: set[str] = set()

    def refine(self, annotation: Any, schema: Any) -> None:
        """Refine the schema of a type, and the schemas of its parts."""
        if not isinstance(schema, dict):
            return
        kind = _bare(annotation)
        origin, parts = typing.get_origin(kind), typing.get_args(kind)
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name not in self._seen:
                self._seen.add(name)
                self.refine(kind, self._definitions.get(name))
        elif kind in _FORMATS:
            if schema.get("type") == "string":
                schema.setdefault("format", _FORMATS[kind])
        elif origin is typing.Literal:
            _reorder(schema, parts)
        elif isinstance(kind, type) and issubclass(kind, Enum):
            _reorder(schema, [each.value for each in kind])
        elif origin in (typing.Union, types.UnionType):
            self._refine_union(parts, schema)
        elif origin is not None:
            self._refine_container(parts, schema)
        elif isinstance(kind, type):
            self._refine_fields(kind, schema)

    def _refine_union(self, parts: tuple[Any, ...], schema: Json) -> None:
        """Refine the options. msgspec orders them, and makes one of several `Literal`."""
        options = [option for each in schema.get("anyOf", ()) for option in (each, *each.get("anyOf", ()))]
        literals = [each for each in map(_bare, parts) if typing.get_origin(each) is typing.Literal]
        choices = [value for each in literals for value in typing.get_args(each)]
        for option in options:
            _reorder(option, choices)
            for part in parts:
                name = getattr(_bare(part), "__name__", "")
                if "$ref" not in option or option["$ref"].rpartition("/")[2] == name:
                    self.refine(part, option)

    def _refine_container(self, parts: tuple[Any, ...], schema: Json) -> None:
        if "prefixItems" in schema:
            for part, each in zip(parts, schema["prefixItems"], strict=False):
                self.refine(part, each)
        elif schema.get("type") == "array" and parts:
            self.refine(parts[0], schema.get("items"))
        elif schema.get("type") == "object" and len(parts) == 2:
            self.refine(parts[1], schema.get("additionalProperties"))

    def _refine_fields(self, kind: type, schema: Json) -> None:
        fields = _fields(kind)
        if "prefixItems" in schema:
            for annotation, each in zip(fields.values(), schema["prefixItems"], strict=False):
                self.refine(annotation, each)
        for name, each in schema.get("properties", {}).items():
            if name in fields:
                self.refine(fields[name], each)


_FORMATS = {datetime: "date-time-local", time: "time-local"}


def _bare(annotation: Any) -> Any:
    """Return a type without what surrounds it: annotations, names of aliases, and whether a key is required."""
    for _ in range(20):
        if isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif hasattr(annotation, "__value__"):  # an alias
            annotation = annotation.__value__
        elif typing.get_origin(annotation) in (typing.Annotated, typing.Required, typing.NotRequired):
            annotation = typing.get_args(annotation)[0]
        else:
            break
    return annotation


def _fields(kind: type) -> Mapping[str, Any]:
    """Return the types of the fields of a class, by their names in JSON."""
    if issubclass(kind, msgspec.Struct):
        return {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    if typing.is_typeddict(kind) or hasattr(kind, "__dataclass_fields__") or hasattr(kind, "_fields"):
        return typing.get_type_hints(kind, include_extras=True)
    return {}


def _reorder(schema: Json, declared: Iterable[Any]) -> None:
    """Put the choices of a schema into the order in which they were declared."""
    found = schema.get("enum", [])
    order = {(type(value), value): place for place, value in enumerate(declared)}
    if found and all((type(value), value) in order for value in found):
        schema["enum"] = sorted(found, key=lambda value: order[type(value), value])

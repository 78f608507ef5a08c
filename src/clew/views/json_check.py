"""Check JSON data against a JSON Schema, as far as the schemas of answers use it; each problem has its place.

Schemas come from a store, so the work is bounded, and patterns are not executed: the process that owns the run checks
everything again when it converts the answer to its type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from clew.state.number_checks import is_number

Json = dict[str, Any]

_TYPES: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "string": ("a text is expected", (str,)),
    "integer": ("a whole number is expected", (int,)),
    "number": ("a number is expected", (int, float)),
    "boolean": ("yes or no is expected", (bool,)),
    "array": ("a list is expected", (list,)),
    "object": ("an object is expected", (dict,)),
    "null": ("nothing is expected", (type(None),)),
}
_DAY = (date.fromisoformat, "a date is expected: 2026-11-16")
_MOMENT = (datetime.fromisoformat, "a date and time is expected: 2026-11-16T14:00:00")
_TIME = (time.fromisoformat, "a time is expected: 14:00:00")
_FORMATS: Mapping[str, tuple[Callable[[str], object], str]] = {
    "date": _DAY,
    "date-time": _MOMENT,
    "date-time-local": _MOMENT,
    "time": _TIME,
    "time-local": _TIME,
    "partial-time": _TIME,
    "decimal": (Decimal, "a decimal number is expected: 64.90"),
}
_COMMA = re.compile(r"-?\d{1,15},\d{1,15}")
_MOST = 50
_DEEP = 40


def problems(schema: Any, value: Any) -> list[dict[str, str]]:
    """Return what does not match: places as JSON pointers, and sentences."""
    if not isinstance(schema, dict):
        return []
    found = []
    for at, message in _check(schema, value, "", schema, _DEEP):
        found.append({"at": at, "message": message})
        if len(found) == _MOST:
            break
    return found


def _check(schema: Any, value: Any, at: str, root: Json, depth: int) -> Iterator[tuple[str, str]]:
    if not isinstance(schema, dict) or depth <= 0:
        return
    yield from _combined(schema, value, at, root, depth)
    yield from _listed(schema, value, at)
    kind = schema.get("type")
    known = [name for name in ([kind] if isinstance(kind, str) else _list(schema, "type")) if name in _TYPES]
    if known and not any(_is(name, value) for name in known):
        yield at, _expected(known, value)
    elif isinstance(value, dict):
        yield from _object(schema, value, at, root, depth)
    elif isinstance(value, list):
        yield from _array(schema, value, at, root, depth)
    elif isinstance(value, str):
        yield from _text(schema, value, at)
    elif _is("number", value):
        yield from _number(schema, value, at)


def _combined(schema: Json, value: Any, at: str, root: Json, depth: int) -> Iterator[tuple[str, str]]:
    if "$ref" in schema:
        yield from _check(_resolved(schema["$ref"], root), value, at, root, depth - 1)
    for each in _list(schema, "allOf"):
        yield from _check(each, value, at, root, depth - 1)
    for key in ("anyOf", "oneOf"):
        yield from _any(_list(schema, key), value, at, root, depth)


def _listed(schema: Json, value: Any, at: str) -> Iterator[tuple[str, str]]:
    if "const" in schema and not _same(schema["const"], value):
        yield at, f"{_short(schema['const'])} is expected"
    choices = _list(schema, "enum")
    if choices and not any(_same(choice, value) for choice in choices):
        yield at, f"one of {', '.join(map(_short, choices))} is expected"


def _resolved(reference: Any, root: Json) -> Any:
    found: Any = root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return {}
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, dict) or name not in found:
            return {}
        found = found[name]
    return found


def _list(schema: Json, key: str) -> list[Any]:
    found = schema.get(key)
    return found if isinstance(found, list) else []


def _any(options: list[Any], value: Any, at: str, root: Json, depth: int) -> Iterator[tuple[str, str]]:
    tried = [list(_check(option, value, at, root, depth - 1)) for option in options[:_MOST]]
    if tried and all(tried):
        # the option that matched furthest gives the best message
        yield from max(tried, key=lambda found: (max(place.count("/") for place, _ in found), -len(found)))


def _is(name: str, value: Any) -> bool:
    if name != "boolean" and isinstance(value, bool):
        return False
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name][1])


def _expected(names: list[str], value: Any) -> str:
    said = _TYPES[names[0]][0]
    is_number = any(name in ("number", "integer") for name in names)
    if is_number and isinstance(value, str) and _COMMA.fullmatch(value.strip()):
        return f"{said}: {value.strip().replace(',', '.')}"
    if len(names) > 1:
        said = f"{' or '.join(names)} is expected"
    return said


def _object(schema: Json, value: Json, at: str, root: Json, depth: int) -> Iterator[tuple[str, str]]:
    fields = schema.get("properties")
    known: Json = fields if isinstance(fields, dict) else {}
    for name in _list(schema, "required"):
        if isinstance(name, str) and name not in value:
            yield f"{at}/{_pointer(name)}", "a value is missing"
    more = schema.get("additionalProperties")
    for name, each in value.items():
        if name in known:
            yield from _check(known[name], each, f"{at}/{_pointer(name)}", root, depth - 1)
        elif more is False:
            yield f"{at}/{_pointer(name)}", "this name is not known"
        elif isinstance(more, dict):
            yield from _check(more, each, f"{at}/{_pointer(name)}", root, depth - 1)


def _array(schema: Json, value: list[Any], at: str, root: Json, depth: int) -> Iterator[tuple[str, str]]:
    first = _list(schema, "prefixItems")
    for number, each in enumerate(value):
        rule = first[number] if number < len(first) else schema.get("items")
        yield from _check(rule, each, f"{at}/{number}", root, depth - 1)
    if len(value) < _bound(schema, "minItems", 0):
        yield at, f"at least {schema['minItems']} are expected"
    if len(value) > _bound(schema, "maxItems", len(value)):
        yield at, f"at most {schema['maxItems']} are expected"


def _text(schema: Json, value: str, at: str) -> Iterator[tuple[str, str]]:
    if len(value) < _bound(schema, "minLength", 0):
        yield at, f"at least {schema['minLength']} characters are expected"
    if len(value) > _bound(schema, "maxLength", len(value)):
        yield at, f"at most {schema['maxLength']} characters are expected"
    read, said = _FORMATS.get(str(schema.get("format")), (str, ""))
    try:
        read(value)
    except (ValueError, ArithmeticError):
        yield at, said


def _number(schema: Json, value: float, at: str) -> Iterator[tuple[str, str]]:
    if value < _bound(schema, "minimum", value):
        yield at, f"at least {schema['minimum']} is expected"
    if value > _bound(schema, "maximum", value):
        yield at, f"at most {schema['maximum']} is expected"
    if "exclusiveMinimum" in schema and value <= _bound(schema, "exclusiveMinimum", value - 1):
        yield at, f"more than {schema['exclusiveMinimum']} is expected"
    if "exclusiveMaximum" in schema and value >= _bound(schema, "exclusiveMaximum", value + 1):
        yield at, f"less than {schema['exclusiveMaximum']} is expected"


def _bound(schema: Json, key: str, default: float) -> float:
    found = schema.get(key, default)
    return found if is_number(found) else default


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"

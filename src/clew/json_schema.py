"""Check JSON data against a JSON Schema. Each problem has its place, as a JSON pointer.

Schemas come from a store, or from the OpenAPI document of a service. Only keywords that are understood are checked, so
every problem is real. The work is bounded, and patterns are not executed. A schema of OpenAPI may have `nullable`; what
it says about requests alone does not count: write-only properties are not required.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from clew.state.number_checks import is_number

Json = Mapping[str, Any]
Problem = tuple[str, str]  # place, message

_TYPES: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "string": ("a text is expected", (str,)),
    "integer": ("a whole number is expected", (int,)),
    "number": ("a number is expected", (int, float)),
    "boolean": ("yes or no is expected", (bool,)),
    "array": ("a list is expected", (list,)),
    "object": ("an object is expected", (dict,)),
    "null": ("nothing is expected", (type(None),)),
}


def _moment(text: str) -> datetime:
    if len(text) <= len("2026-11-16"):
        raise ValueError("a date without a time")
    return datetime.fromisoformat(text)


_DURATION = re.compile(r"[-+]?P(?=.)(\d+([.,]\d+)?[YMWD]){0,4}(T(?=.)(\d+([.,]\d+)?[HMS]){1,3})?", re.ASCII)


def _duration(text: str) -> None:
    if len(text) > 100 or not _DURATION.fullmatch(text):
        raise ValueError("not a duration of ISO 8601")


_MOMENT = (_moment, "a date and time is expected: 2026-11-16T14:00:00")
_TIME = (time.fromisoformat, "a time is expected: 14:00:00")
_FORMATS: Mapping[str, tuple[Callable[[str], object], str]] = {
    "date": (date.fromisoformat, "a date is expected: 2026-11-16"),
    "date-time": _MOMENT,
    "date-time-local": _MOMENT,
    "time": _TIME,
    "time-local": _TIME,
    "partial-time": _TIME,
    "duration": (_duration, "a duration is expected: PT2H30M"),
    "decimal": (Decimal, "a decimal number is expected: 64.90"),
    "uuid": (UUID, "a UUID is expected"),
}
_COMMA = re.compile(r"-?\d{1,15},\d{1,15}")
_MOST_ITEMS = 1_000  # of a list
_MOST_OPTIONS = 50
_DEEP = 40


def resolved(reference: str, root: Json) -> Any:
    """Return what a reference inside a document refers to; an empty schema if it refers to nothing."""
    if not reference.startswith("#/"):
        return {}
    found: Any = root
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or name not in found:
            return {}
        found = found[name]
    return found


def problems(schema: Any, value: Any, root: Json | None = None) -> Iterator[Problem]:
    """Yield what does not match. References lead into `root`, which is the schema itself by default."""
    if root is None:
        root = schema if isinstance(schema, Mapping) else {}
    return _check(schema, value, "", root, _DEEP)


def _check(schema: Any, value: Any, at: str, root: Json, depth: int) -> Iterator[Problem]:
    if schema is False:
        yield at, "no value is expected"
    if not isinstance(schema, Mapping) or depth <= 0 or (value is None and schema.get("nullable") is True):
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
    elif is_number(value):
        yield from _number(schema, value, at)


def _combined(schema: Json, value: Any, at: str, root: Json, depth: int) -> Iterator[Problem]:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        yield from _check(resolved(reference, root), value, at, root, depth - 1)
    for each in _list(schema, "allOf"):
        yield from _check(each, value, at, root, depth - 1)
    for key in ("anyOf", "oneOf"):
        options = _list(schema, key)[:_MOST_OPTIONS]
        tried = [list(_check(option, value, at, root, depth - 1)) for option in options]
        if tried and all(tried):
            # the option that matched furthest gives the best message
            yield from max(
                tried, key=lambda found: (max(place.count("/") for place, _ in found), -len(found))
            )


def _listed(schema: Json, value: Any, at: str) -> Iterator[Problem]:
    if "const" in schema and not _same(schema["const"], value):
        yield at, f"{_short(schema['const'])} is expected"
    choices = _list(schema, "enum")
    if choices and not any(_same(choice, value) for choice in choices):
        yield at, f"one of {', '.join(map(_short, choices))} is expected"


def _list(schema: Json, key: str) -> list[Any]:
    found = schema.get(key)
    return found if isinstance(found, list) else []


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
    return f"{' or '.join(names)} is expected" if len(names) > 1 else said


def _object(schema: Json, value: Json, at: str, root: Json, depth: int) -> Iterator[Problem]:
    fields = schema.get("properties")
    known: Json = fields if isinstance(fields, dict) else {}
    for name in _list(schema, "required"):
        if isinstance(name, str) and name not in value and not _is_write_only(known.get(name), root):
            yield f"{at}/{_pointer(name)}", "a value is missing"
    more = True if schema.get("patternProperties") else schema.get("additionalProperties", True)
    for name, each in value.items():
        place = f"{at}/{_pointer(str(name))}"
        if name not in known and more is False:
            yield place, "this name is not known"
        else:
            yield from _check(known.get(name, more), each, place, root, depth - 1)


def _is_write_only(schema: Any, root: Json) -> bool:
    if isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str):
        schema = resolved(schema["$ref"], root)
    return isinstance(schema, Mapping) and schema.get("writeOnly") is True


def _array(schema: Json, value: list[Any], at: str, root: Json, depth: int) -> Iterator[Problem]:
    first = _list(schema, "prefixItems")
    for number, each in enumerate(value[:_MOST_ITEMS]):
        rule = first[number] if number < len(first) else schema.get("items")
        yield from _check(rule, each, f"{at}/{number}", root, depth - 1)
    if len(value) < _bound(schema, "minItems", 0):
        yield at, f"at least {schema['minItems']} are expected"
    if len(value) > _bound(schema, "maxItems", len(value)):
        yield at, f"at most {schema['maxItems']} are expected"


def _text(schema: Json, value: str, at: str) -> Iterator[Problem]:
    if len(value) < _bound(schema, "minLength", 0):
        yield at, f"at least {schema['minLength']} characters are expected"
    if len(value) > _bound(schema, "maxLength", len(value)):
        yield at, f"at most {schema['maxLength']} characters are expected"
    read, said = _FORMATS.get(str(schema.get("format")), (str, ""))
    try:
        read(value)
    except (ValueError, ArithmeticError):
        yield at, said
    if schema.get("contentEncoding") == "base64":
        try:
            b64decode(value, validate=True)
        except ValueError:
            yield at, "bytes in Base64 are expected"


def _number(schema: Json, value: float, at: str) -> Iterator[Problem]:
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
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def _pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"

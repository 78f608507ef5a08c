"""Whether a response matches its JSON schema.

Only keywords that are understood are checked, so every reported mismatch is real. What a schema says about requests
does not count here: write-only properties are not required.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clew.explore.api.openapi.document import ApiDocument
from clew.state.number_checks import is_number

_MAX_DEPTH = 12

_FORMATS = {
    "uuid": re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}"),
    "date-time": re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)?"),
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
}


def mismatch(document: ApiDocument, schema: Any, value: Any, at: str = "", depth: int = 0) -> str | None:
    """Return where and why a value does not match a schema, or None."""
    found = document.resolve(schema)
    if found is False:
        return f"{_at(at)} is not allowed"
    if not isinstance(found, Mapping) or depth > _MAX_DEPTH:
        return None
    if value is None and found.get("nullable") is True:
        return None
    return next(_problems(document, found, value, at, depth + 1), None)


def _problems(
    document: ApiDocument, schema: Mapping[str, Any], value: Any, at: str, depth: int
) -> Iterator[str]:
    yield from _mismatches(document, [(part, value, at) for part in schema.get("allOf") or ()], depth)
    for word in ("anyOf", "oneOf"):
        problems = [mismatch(document, part, value, at, depth) for part in schema.get(word) or ()]
        if problems and all(problems):
            yield (
                str(problems[0]) if len(problems) == 1 else f"{_at(at)} matches no alternative of its schema"
            )
    if "const" in schema and value != schema["const"]:
        yield f"{_at(at)} is {value!r}, not {schema['const']!r}"
    if isinstance(schema.get("enum"), list) and value not in schema["enum"]:
        yield f"{_at(at)} is {value!r}, which is not one of the declared values"
    kinds = schema.get("type")
    names = kinds if isinstance(kinds, list) else [kinds]
    if kinds is not None and not any(_is(name, value) for name in names):
        yield f"{_at(at)} is {_kind(value)}, not {' or '.join(map(str, names))}"
    yield from _inside(document, schema, value, at, depth)


def _inside(
    document: ApiDocument, schema: Mapping[str, Any], value: Any, at: str, depth: int
) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _in_object(document, schema, value, at, depth)
    elif isinstance(value, list):
        items = [(schema.get("items", True), item, f"{at}[{n}]") for n, item in enumerate(value[:50])]
        yield from _mismatches(document, items, depth)
    elif isinstance(value, str):
        yield from _in_text(schema, value, at)
    elif _is("number", value):
        yield from _in_number(schema, value, at)


def _mismatches(document: ApiDocument, parts: Iterable[tuple[Any, Any, str]], depth: int) -> Iterator[str]:
    """Yield what does not match in parts of a value, each with its schema and its place."""
    yield from filter(None, (mismatch(document, *part, depth) for part in parts))


def _in_object(
    document: ApiDocument, schema: Mapping[str, Any], value: Mapping[str, Any], at: str, depth: int
) -> Iterator[str]:
    properties = schema.get("properties") or {}
    for name in schema.get("required") or ():
        part = document.resolve(properties.get(name) or {})
        if name not in value and not (isinstance(part, Mapping) and part.get("writeOnly")):
            yield f"{_at(at)} lacks {name!r}"
    here = [
        (part, value[name], f"{at}.{name}" if at else name)
        for name, part in properties.items()
        if name in value
    ]
    yield from _mismatches(document, here, depth)
    if schema.get("additionalProperties") is False and not schema.get("patternProperties"):
        for name in (name for name in value if name not in properties):
            yield f"{_at(at)} has the undeclared property {name!r}"


def _in_text(schema: Mapping[str, Any], value: str, at: str) -> Iterator[str]:
    most, least = schema.get("maxLength"), schema.get("minLength")
    if isinstance(most, int) and len(value) > most:
        yield f"{_at(at)} is longer than {most} characters"
    if isinstance(least, int) and len(value) < least:
        yield f"{_at(at)} is shorter than {least} characters"
    form = _FORMATS.get(str(schema.get("format")))
    if form is not None and not form.fullmatch(value):
        yield f"{_at(at)} is {value!r}, which is not a {schema['format']}"


def _in_number(schema: Mapping[str, Any], value: float, at: str) -> Iterator[str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if isinstance(low, int | float) and value < low:
        yield f"{_at(at)} is {value}, less than {low}"
    if isinstance(high, int | float) and value > high:
        yield f"{_at(at)} is {value}, more than {high}"


def _is(name: Any, value: Any) -> bool:
    if name == "integer":
        return not isinstance(value, bool) and (
            isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        )
    if name == "number":
        return is_number(value)
    kinds = {"string": str, "boolean": bool, "object": dict, "array": list, "null": type(None)}
    return name not in kinds or isinstance(value, kinds[name])


def _kind(value: Any) -> str:
    names = {str: "a string", bool: "a boolean", dict: "an object", list: "an array", type(None): "null"}
    return names.get(type(value), "a number")


def _at(at: str) -> str:
    return at or "the response"

"""Whether a response matches its JSON schema.

Only keywords that are understood are checked, so every reported mismatch is real. What a schema says about requests
does not count here: write-only properties are not required.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from clew.explore.api.openapi.document import ApiDocument

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
        return f"{at or 'the response'} is not allowed"
    if not isinstance(found, Mapping) or depth > _MAX_DEPTH:
        return None
    if value is None and found.get("nullable") is True:
        return None
    for part in found.get("allOf") or ():
        problem = mismatch(document, part, value, at, depth + 1)
        if problem:
            return problem
    for word in ("anyOf", "oneOf"):
        problems = [mismatch(document, part, value, at, depth + 1) for part in found.get(word) or ()]
        if problems and all(problems):
            return problems[0] if len(problems) == 1 else f"{_at(at)} matches no alternative of its schema"
    if "const" in found and value != found["const"]:
        return f"{_at(at)} is {value!r}, not {found['const']!r}"
    if isinstance(found.get("enum"), list) and value not in found["enum"]:
        return f"{_at(at)} is {value!r}, which is not one of the declared values"
    kinds = found.get("type")
    if kinds is not None:
        names = kinds if isinstance(kinds, list) else [kinds]
        if not any(_is(name, value) for name in names):
            return f"{_at(at)} is {_kind(value)}, not {' or '.join(map(str, names))}"
    return _inside(document, found, value, at, depth)


def _inside(document: ApiDocument, schema: Mapping[str, Any], value: Any, at: str, depth: int) -> str | None:
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        for name in schema.get("required") or ():
            part = document.resolve(properties.get(name) or {})
            if name not in value and not (isinstance(part, Mapping) and part.get("writeOnly")):
                return f"{_at(at)} lacks {name!r}"
        for name, part in properties.items():
            if name in value:
                problem = mismatch(document, part, value[name], f"{at}.{name}" if at else name, depth + 1)
                if problem:
                    return problem
        others = schema.get("additionalProperties")
        if others is False:
            unknown = [name for name in value if name not in properties]
            if unknown and not schema.get("patternProperties"):
                return f"{_at(at)} has the undeclared property {unknown[0]!r}"
    elif isinstance(value, list):
        for number, item in enumerate(value[:50]):
            problem = mismatch(document, schema.get("items", True), item, f"{at}[{number}]", depth + 1)
            if problem:
                return problem
    elif isinstance(value, str):
        most, least = schema.get("maxLength"), schema.get("minLength")
        if isinstance(most, int) and len(value) > most:
            return f"{_at(at)} is longer than {most} characters"
        if isinstance(least, int) and len(value) < least:
            return f"{_at(at)} is shorter than {least} characters"
        form = _FORMATS.get(str(schema.get("format")))
        if form is not None and not form.fullmatch(value):
            return f"{_at(at)} is {value!r}, which is not a {schema['format']}"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum"), schema.get("maximum")
        if isinstance(low, int | float) and value < low:
            return f"{_at(at)} is {value}, less than {low}"
        if isinstance(high, int | float) and value > high:
            return f"{_at(at)} is {value}, more than {high}"
    return None


def _is(name: Any, value: Any) -> bool:
    if name == "integer":
        return not isinstance(value, bool) and (
            isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        )
    if name == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    kinds = {"string": str, "boolean": bool, "object": dict, "array": list, "null": type(None)}
    return name not in kinds or isinstance(value, kinds[name])


def _kind(value: Any) -> str:
    names = {str: "a string", bool: "a boolean", dict: "an object", list: "an array", type(None): "null"}
    return names.get(type(value), "a number")


def _at(at: str) -> str:
    return at or "the response"

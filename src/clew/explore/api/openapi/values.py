"""Example values of a schema.

A value depends on its schema, its name, a number and a *variant* alone. The number tells instances apart: two items get
different names, so that unique columns accept both. Variants:

    full      every property
    required  only required properties
    nulls     null for each property that may be null
    nul       a NUL character in each plain string that its length limits permit
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from clew.explore.api.openapi.document import ApiDocument, Schema
from clew.state.number_checks import is_number

MAX_DEPTH = 6  # of recursive schemas
VARIANTS = ("required", "nulls", "nul")
PASSWORD = "Secret-pass1"
HUGE = 2**63
PROBE_TEXT = "a\0b"

_SECRET = re.compile(r"pass|secret|token", re.IGNORECASE)


def merged(document: ApiDocument, schema: Any) -> Schema:
    """Return a schema without references, `allOf` and alternatives; the first alternative that is not null is used."""
    found: Schema = document.resolve(schema)
    if not isinstance(found, Mapping):
        return {}
    if "allOf" in found:
        whole: dict[str, Any] = {key: value for key, value in found.items() if key != "allOf"}
        properties: dict[str, Any] = dict(whole.get("properties") or {})
        required: list[str] = list(whole.get("required") or ())
        for part in found["allOf"]:
            each = merged(document, part)
            properties |= each.get("properties") or {}
            required += each.get("required") or ()
            whole = {**each, **whole}
        found = {**whole, **({"properties": properties, "required": required} if properties else {})}
    options = found.get("anyOf") or found.get("oneOf")
    if options:
        real = [each for each in map(document.resolve, options) if each.get("type") != "null"]
        rest = {key: value for key, value in found.items() if key not in ("anyOf", "oneOf")}
        found = {**rest, **merged(document, real[0])} if real else {"type": "null"}
    return found


def may_be_null(document: ApiDocument, schema: Any) -> bool:
    """Return whether null is a valid value."""
    found = document.resolve(schema)
    if not isinstance(found, Mapping):
        return False
    kind = found.get("type")
    options = [document.resolve(each) for each in (found.get("anyOf") or found.get("oneOf") or ())]
    return (
        found.get("nullable") is True
        or (isinstance(kind, list) and "null" in kind)
        or any(each.get("type") == "null" for each in options)
    )


def kind_of(schema: Schema) -> str:
    """Return the type of a merged schema."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), None)
    if kind is None:
        kind = "object" if "properties" in schema else "array" if "items" in schema else "string"
    return str(kind)


def value_of(
    document: ApiDocument, schema: Any, number: int, variant: str = "full", name: str = "", depth: int = 0
) -> Any:
    if variant == "nulls" and depth and may_be_null(document, schema):
        return None
    found = merged(document, schema)
    if "const" in found:
        return found["const"]
    if found.get("enum"):
        return found["enum"][number % len(found["enum"])]
    kind = kind_of(found)
    if kind == "object":
        return _object(document, found, number, variant, depth)
    if kind == "array":
        if depth > MAX_DEPTH or (variant == "required" and not found.get("minItems")):
            return []
        item = value_of(document, found.get("items") or {}, number, variant, name, depth + 1)
        return [item] * max(1, int(found.get("minItems") or 0))
    given = _example(found)
    if kind == "boolean":
        return given if isinstance(given, bool) else bool(found.get("default", True))
    if kind in ("integer", "number"):
        return _number(found, given if number == 0 else None, kind)
    return _text(found, number, variant, name, given)


def _object(document: ApiDocument, schema: Schema, number: int, variant: str, depth: int) -> dict[str, Any]:
    example = schema.get("example")
    if number == 0 and variant == "full" and isinstance(example, Mapping):
        return dict(example)
    required = schema.get("required") or ()
    built = {}
    for name, part in (schema.get("properties") or {}).items():
        found = document.resolve(part)
        if isinstance(found, Mapping) and found.get("readOnly"):
            continue
        if name not in required:
            optional_null = variant == "nulls" and may_be_null(document, part)
            if (variant in ("required", "nulls") and not optional_null) or depth > MAX_DEPTH:
                continue
        built[name] = value_of(document, part, number, variant, name, depth + 1)
    return built


def _example(schema: Schema) -> Any:
    examples = schema.get("examples")
    if isinstance(examples, list) and examples:
        return examples[0]
    return schema.get("example")


def _number(schema: Schema, given: Any, kind: str) -> float:
    if is_number(given):
        return given
    low = schema.get("minimum")
    above = schema.get("exclusiveMinimum")
    if is_number(above):
        low = above + 1
    elif above is True and low is not None:
        low = low + 1
    step = schema.get("multipleOf")
    value = max(1, low) if low is not None else 1
    high = schema.get("maximum")
    if isinstance(high, int | float) and value > high:
        value = high
    if isinstance(step, int | float) and step:
        value = max(step, value - value % step)
    return int(value) if kind == "integer" else value


_FORMATS: Mapping[str, Callable[[int], str]] = {
    "email": lambda number: f"user{number}@example.com",
    "uuid": lambda number: str(uuid.UUID(int=number + 1, version=4)),
    "date-time": lambda _: "2024-01-01T00:00:00Z",
    "date": lambda _: "2024-01-01",
    "time": lambda _: "12:00:00Z",
    "duration": lambda _: "P1D",
    "uri": lambda number: f"https://example.com/{number}",
    "url": lambda number: f"https://example.com/{number}",
    "hostname": lambda _: "example.com",
    "ipv4": lambda _: "127.0.0.1",
    "ipv6": lambda _: "::1",
    "byte": lambda _: "YQ==",
    "binary": lambda _: "a",
}
"""Example texts of a format, by number."""


def _text(schema: Schema, number: int, variant: str, name: str, given: Any) -> str:
    form, pattern, low = str(schema.get("format") or ""), str(schema.get("pattern") or ""), name.lower()
    least, most = int(schema.get("minLength") or 0), int(schema.get("maxLength") or 10**6)
    is_plain = not (form or pattern or _SECRET.search(low) or "mail" in low)
    if variant == "nul" and is_plain and most >= 1:
        return ("a\0b" if most >= 3 else "\0").ljust(least, "x")
    if isinstance(given, str) and number == 0:
        return given
    kind = form if form in _FORMATS else "email" if "email" in low else ""
    if kind:
        return _FORMATS[kind](number)
    if "pass" in low:
        return PASSWORD.ljust(least, "x")[:most]
    if pattern:
        return text_of_pattern(pattern, number, low, least, most)
    if low in ("url", "image", "website", "link"):
        return _FORMATS["url"](number)
    return _word(low, number, most).ljust(least, "x")


def _word(name: str, number: int, most: int) -> str:
    """Return a word with a number, of at most `most` characters."""
    word = re.sub("[^a-z]", "", name) or "text"
    text = f"{word}{number}"
    if len(text) > most:
        text = (word[: max(0, most - len(str(number)))] + str(number))[-most:] if most else ""
    return text


def text_of_pattern(pattern: str, number: int, name: str = "", least: int = 0, most: int = 10**6) -> str:
    """Return a text that matches a regular expression, or a plain word if the expression is too difficult.

    Texts of different numbers differ, as far as the expression permits it: a word with the number, else the number
    alone, else what follows from the expression.
    """
    import re._parser as parser  # type: ignore[import-not-found]

    try:
        expression = re.compile(pattern.replace(r"\Z", "$"))
        word = re.sub("[^a-z]", "", name) or "text"
        for stem in (word, ""):
            plain = f"{stem}{str(number + (not stem)).zfill(least - len(stem))}"
            if len(plain) <= most and expression.search(plain):
                return plain
        text = "".join(_piece(part, number) for part in parser.parse(expression.pattern))
    except (re.error, KeyError, ValueError, TypeError, RecursionError):
        return f"text{number}"
    longer = text.ljust(least, text[-1:] or "x")
    return longer if expression.search(longer) else text


def _piece(part: Any, number: int) -> str:
    code, argument = str(part[0]), part[1]
    if code == "LITERAL":
        return chr(argument)
    if code in ("AT", "ASSERT", "ASSERT_NOT"):
        return ""
    if code == "ANY":
        return "a"
    if code == "SUBPATTERN":
        return "".join(_piece(each, number) for each in argument[-1])
    if code == "BRANCH":
        return "".join(_piece(each, number) for each in argument[1][0])
    if code in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, inner = argument
        times = max(int(least), min(3, int(most)))
        return "".join(_piece(each, number // 7**position) for position in range(times) for each in inner)
    if code == "IN":
        return _member(argument, number)
    if code == "NOT_LITERAL":
        return "a" if argument != ord("a") else "b"
    raise ValueError(code)


def _member(options: Any, number: int) -> str:
    if str(options[0][0]) == "NEGATE":
        return "a"
    code, argument = str(options[0][0]), options[0][1]
    if code == "LITERAL":
        return chr(argument)
    if code == "RANGE":
        return chr(argument[0] + number % (argument[1] - argument[0] + 1))
    letter = chr(ord("a") + number % 26)
    return {"CATEGORY_DIGIT": str(1 + number % 9), "CATEGORY_SPACE": " "}.get(str(argument), letter)

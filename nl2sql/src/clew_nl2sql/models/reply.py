"""Build the schema for a chat endpoint, and parse what a model replies.

Endpoints that enforce a schema support only a subset of JSON Schema: the root is an object and not a
reference, every element has a type, every property is required, and no others are allowed. `strict_schema`
produces this subset.

Parsing is more tolerant. Reasoning (`<think>`) is removed. The object may be anywhere in the text, in a fence or
not, and properties with a default may be missing. `ValueError` describes an invalid reply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

Accept = Callable[[Any], dict[str, Any] | None]  # reads a reply of another kind: an object or a text

_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_THOUGHT_END = re.compile(r"^.*</(?:think|thinking|reasoning)>", re.DOTALL | re.IGNORECASE)
_THOUGHT_BEGIN = re.compile(r"<(?:think|thinking|reasoning)>.*$", re.DOTALL | re.IGNORECASE)


def strict_schema(reply: type[Any]) -> dict[str, Any]:
    """Return the schema of a msgspec struct, in the subset that endpoints support."""
    schema = msgspec.json.schema(reply)
    kept = schema.get("$defs", {})
    root = kept.pop(schema["$ref"].rsplit("/", 1)[1]) if "$ref" in schema else schema
    found: dict[str, Any] = _strict({**root, "$defs": kept} if kept else root)
    return found


def _strict(part: Any) -> Any:
    if isinstance(part, list):
        return [_strict(one) for one in part]
    if not isinstance(part, dict):
        return part
    made = {name: _strict(value) for name, value in part.items() if name != "default"}
    if isinstance(made.get("properties"), dict):
        made |= {"required": list(made["properties"]), "additionalProperties": False}
    if "enum" in made:
        made.setdefault("type", "string")
    return made


def needed_by(reply: type[Any]) -> frozenset[str]:
    """Return the required properties of a struct."""
    return frozenset(field.encode_name for field in msgspec.structs.fields(reply) if field.required)


def read_reply(said: str | dict[str, Any], needed: frozenset[str], accept: Accept | None = None) -> Any:
    """Return the object of a reply; raise ValueError if required properties are missing."""
    text = "" if isinstance(said, dict) else without_reasoning(said)
    objects = [said] if isinstance(said, dict) else list(_objects(text))
    for found in objects:
        if needed <= set(found):
            return found
    for other in (*objects, text) if accept else ():
        accepted = accept(other) if accept else None
        if accepted is not None:
            return accepted
    if objects:
        raise ValueError(f"the model's JSON lacks {', '.join(sorted(needed - set(objects[0])))}")
    raise ValueError("the model's text has no JSON object")


def without_reasoning(text: str) -> str:
    """Return a text without its reasoning; some models omit the opening mark, and some the closing one."""
    text = _THOUGHT_END.sub("", _THOUGHT.sub("", text))
    return _THOUGHT_BEGIN.sub("", text).strip()


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the outermost JSON objects of a text."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if isinstance(found, dict):
                yield found
        at = text.find("{", end)

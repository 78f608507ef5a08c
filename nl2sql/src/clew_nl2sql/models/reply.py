"""Build the schema for a chat endpoint, and parse its replies.

Endpoints that enforce a schema support only a subset of JSON Schema: the root is an object and not a
reference, every element has a type, every property is required, and no others are allowed. `strict_schema`
produces this subset. Parsing is more tolerant: properties with a default may be missing. `ValueError`
describes an invalid reply.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

_FENCED = re.compile(r"^\s*```(?:json)?\s*(.*?)\s*```\s*$", re.DOTALL)


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


def read_reply(body: bytes, needed: frozenset[str]) -> Any:
    """Return the JSON object inside a chat completion; raise ValueError if required properties are missing."""
    try:
        completion = msgspec.json.decode(body)
        text = completion["choices"][0]["message"]["content"]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"the endpoint did not send JSON: {error}") from error
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError("the endpoint did not send a completion") from error
    if not isinstance(text, str):
        raise ValueError("the completion has no text")
    fenced = _FENCED.match(text)
    try:
        found = msgspec.json.decode(fenced[1] if fenced else text)
    except msgspec.DecodeError as error:
        raise ValueError(f"the model's text is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError("the model's JSON is not an object")
    if lacking := needed - set(found):
        raise ValueError(f"the model's JSON lacks {', '.join(sorted(lacking))}")
    return found

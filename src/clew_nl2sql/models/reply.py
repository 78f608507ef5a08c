"""What a chat endpoint sent back, taken apart: ValueError says what is wrong with it."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_FENCED = re.compile(r"^\s*```(?:json)?\s*(.*?)\s*```\s*$", re.DOTALL)


def read_reply(body: bytes, schema: dict[str, Any]) -> Any:
    """The JSON object inside a chat completion, with all the properties that the schema requires."""
    try:
        completion = msgspec.json.decode(body)
        text = completion["choices"][0]["message"]["content"]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"the endpoint sent no JSON: {error}") from error
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError("the endpoint sent no completion") from error
    if not isinstance(text, str):
        raise ValueError("the completion has no text")
    fenced = _FENCED.match(text)
    try:
        found = msgspec.json.decode(fenced[1] if fenced else text)
    except msgspec.DecodeError as error:
        raise ValueError(f"the model's text is no JSON: {error}") from error
    required = _required(schema)
    if not isinstance(found, dict) or not required <= set(found):
        raise ValueError(
            f"the model's JSON lacks {', '.join(sorted(required - set(found)))}"
            if isinstance(found, dict)
            else "the model's JSON is no object"
        )
    return found


def _required(schema: dict[str, Any]) -> set[str]:
    root = schema
    while "$ref" in root:
        root = schema["$defs"][root["$ref"].rsplit("/", 1)[1]]
    return set(root.get("required", ()))

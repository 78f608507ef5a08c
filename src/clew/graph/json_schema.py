"""JSON Schemas of types, for the descriptions of graphs.

pydantic describes types that contain a pydantic model; msgspec describes all others: builtin types, dataclasses,
TypedDicts and structs. A type that neither can describe becomes ``{}``, which accepts anything. Schemas do not affect
what a graph does, so this module never raises.
"""

from __future__ import annotations

import sys
import typing
from typing import Any

import msgspec


def json_schema(annotation: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type, as plain data; ``{}`` if it has none."""
    if annotation is Any or annotation is object:
        return {}
    try:
        if _has_model(annotation):
            made = sys.modules["pydantic"].TypeAdapter(annotation).json_schema()
        else:
            made = msgspec.json.schema(annotation)
        plain = msgspec.json.decode(msgspec.json.encode(made))
    except Exception:  # a user's class may raise anything here
        return {}
    return plain if isinstance(plain, dict) else {}


def _has_model(annotation: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    if pydantic is None:
        return False
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return True
    return any(_has_model(part) for part in typing.get_args(annotation))

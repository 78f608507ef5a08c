"""The fields of dataclasses, structs and models, for ``code_hashes``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec

from clew.graph.signature import MISSING


def frozen_fields(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of an instance of a frozen dataclass, struct or pydantic model; None for another value."""
    kind: Any = type(value)
    params = kind.__dict__.get("__dataclass_params__")
    if params is not None:
        names = [field.name for field in dataclasses.fields(value)] if params.frozen else None
    elif (config := getattr(kind, "__struct_config__", None)) is not None:
        names = list(kind.__struct_fields__) if config.frozen else None
    elif isinstance(config := getattr(kind, "model_config", None), dict) and config.get("frozen"):
        names = list(getattr(kind, "model_fields", ()))
    else:
        names = None
    return None if names is None else {name: getattr(value, name, MISSING) for name in names}


def default_of(value: Any) -> tuple[Any, ...]:
    """Return the default of a field, or nothing; the factory of a struct is its function."""
    if value is dataclasses.MISSING or value is msgspec.NODEFAULT:
        return ()
    return (getattr(value, "factory", value),) if type(value).__module__.startswith("msgspec") else (value,)

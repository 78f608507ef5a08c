"""Values that a schema has validated: those of an instance of a pydantic model, and the stored values of a run.

Validators need not be idempotent, so a value is validated once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


class ValidValues(dict[str, Any]):
    """Values by name, of which those in `valid` are not validated again; by default all."""

    def __init__(self, values: Mapping[str, Any], valid: Collection[str] | None = None) -> None:
        super().__init__(values)
        self.valid = frozenset(values if valid is None else valid)


def valid_names(values: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the values that have been validated."""
    return values.valid if isinstance(values, ValidValues) else frozenset()

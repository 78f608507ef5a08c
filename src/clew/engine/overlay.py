"""A mapping on top of another one: it stores its own changes and shares the rest.

The origin may be a dict or a list. It may change, as long as it only changes to values that the overlay already has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Overlay(dict[Any, Any]):
    """A dict that falls back to `origin` for missing keys."""

    __slots__ = ("origin",)

    def __init__(self, origin: Any, own: Mapping[Any, Any] = {}) -> None:
        super().__init__(own)
        self.origin = origin

    def __missing__(self, key: Any) -> Any:
        return self.origin[key]

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, key) or (isinstance(self.origin, dict) and key in self.origin)

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else default

    def plain(self) -> dict[Any, Any]:
        return {**self.origin, **self}


def branch_of(mapping: Any) -> Overlay:
    """Return a mapping that can be changed without changing this one."""
    if isinstance(mapping, Overlay):
        return Overlay(mapping.origin, mapping)
    return Overlay(mapping)

"""A read-only mapping over one column of a state: its values, or its versions.

A lookup does not order the names. Iteration is in the order of the names. A view equals a dict of the same content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from clew.state.values.equality import equal

V = TypeVar("V")


class ColumnView(Mapping[str, V]):
    """A column of a state, as functions for membership, lookup and the ordered whole."""

    __slots__ = ("_column", "_has", "_look_up")

    def __init__(
        self, has: Callable[[str], bool], look_up: Callable[[str], V], column: Callable[[], Mapping[str, V]]
    ) -> None:
        self._has = has
        self._look_up = look_up
        self._column = column

    def __getitem__(self, name: str) -> V:
        return self._look_up(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._has(name)

    def get(self, name: str, default: Any = None) -> Any:
        # Not through __getitem__, whose error is slow: it finds the nearest name.
        return self._look_up(name) if name in self else default

    def __iter__(self) -> Iterator[str]:
        return iter(self._column())

    def __len__(self) -> int:
        return len(self._column())

    def __eq__(self, other: object) -> bool:
        return equal(dict(self._column()), dict(other)) if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"View({dict(self._column())!r})"

"""Checkpoints that are references to immutable values: making one, and going back to it, costs nothing at any
size."""

from __future__ import annotations

from typing import Generic, TypeVar

from clew.errors import UnknownCheckpointError

Version = TypeVar("Version")


class VersionTokens(Generic[Version]):
    """Tokens, the version that each stands for, and the bytes that it holds alone, where somebody counts them."""

    __slots__ = ("_kept", "_made", "_sizes")

    def __init__(self) -> None:
        self._kept: dict[int, Version] = {}
        self._sizes: dict[int, int] = {}
        self._made = 0

    def keep(self, version: Version, size: int = 0) -> int:
        """A new token for a version, which holds so many bytes that no earlier one holds."""
        self._made += 1
        self._kept[self._made] = version
        if size:
            self._sizes[self._made] = size
        return self._made

    def size(self, token: int) -> int:
        """The bytes that a token's version holds alone."""
        return self._sizes.get(token, 0)

    def __getitem__(self, token: int) -> Version:
        try:
            return self._kept[token]
        except (KeyError, TypeError):
            raise UnknownCheckpointError(f"Checkpoint not found: {token}") from None

    def __contains__(self, token: object) -> bool:
        try:
            return token in self._kept
        except TypeError:  # not hashable, so never one of ours
            return False

    def drop(self, token: int) -> None:
        """Forget a token; no error if it is not there."""
        if token in self:
            del self._kept[token]
            self._sizes.pop(token, None)

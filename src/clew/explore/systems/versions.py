"""Checkpoints that are references to immutable values: making one, and going back to it, costs nothing at any
size."""

from __future__ import annotations

from typing import Generic, TypeVar

from clew.errors import UnknownCheckpointError

Version = TypeVar("Version")


class Versions(Generic[Version]):
    """Tokens, and the version that each stands for."""

    __slots__ = ("_kept", "_made")

    def __init__(self) -> None:
        self._kept: dict[int, Version] = {}
        self._made = 0

    def keep(self, version: Version) -> int:
        """A new token for a version."""
        self._made += 1
        self._kept[self._made] = version
        return self._made

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

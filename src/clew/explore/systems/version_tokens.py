"""What systems have in common: checkpoints that refer to immutable versions, closing, and marks.

Making a checkpoint of a version and restoring it is free at any size.
"""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar

from clew.errors import UnknownCheckpointError
from clew.explore.process_mark import MidwayMark

Version = TypeVar("Version")


class VersionTokens(Generic[Version]):
    """Tokens, the version that each stands for, and the number of bytes that only this version holds."""

    __slots__ = ("_made", "_sizes", "_versions")

    def __init__(self) -> None:
        self._versions: dict[int, Version] = {}
        self._sizes: dict[int, int] = {}
        self._made = 0

    def keep(self, version: Version, size: int = 0) -> int:
        """Return a new token for a version; `size` is the number of bytes that no earlier version holds."""
        self._made += 1
        self._versions[self._made] = version
        if size:
            self._sizes[self._made] = size
        return self._made

    def size(self, token: int) -> int:
        """Return the number of bytes that only a token's version holds."""
        return self._sizes.get(token, 0)

    def __getitem__(self, token: int) -> Version:
        try:
            return self._versions[token]
        except (KeyError, TypeError):
            raise UnknownCheckpointError(f"Checkpoint not found: {token}") from None

    def __contains__(self, token: object) -> bool:
        try:
            return token in self._versions
        except TypeError:  # not hashable
            return False

    def drop(self, token: int) -> None:
        """Discard a token; an unknown one is not an error."""
        if token in self:
            del self._versions[token]
            self._sizes.pop(token, None)


class TokenSystem(Generic[Version]):
    """The tokens of a system whose checkpoints are references to versions."""

    def __init__(self) -> None:
        self._versions: VersionTokens[Version] = VersionTokens()

    def is_valid(self, token: Any) -> bool:
        return token in self._versions

    def release(self, token: int) -> None:
        self._versions.drop(token)


class ClosableSystem:
    """A system that is closed at the end of a `with` block."""

    def close(self) -> None:
        """Release everything that the system holds."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MarkedSystem(ClosableSystem):
    """A system that cannot hold the mark of an exploration that has left its initial state."""

    _mark: MidwayMark

    @property
    def left_midway(self) -> bool:
        """Return whether an exploration that was killed left the system in the middle of a path."""
        return self._mark.was_left

    def mark_midway(self, is_midway: bool) -> None:
        """Store whether an exploration has left its initial state."""
        self._mark.write(is_midway)

"""Warns if the client of a world receives cookies that no system rolls back.

A client whose cookie jar is not a part of the world sends the cookies of a state that was rolled back: the exploration
then misses states, and nothing else shows it.
"""

from __future__ import annotations

import warnings
from typing import Any

from clew.errors import ExplorationWarning
from clew.explore.systems.http.session import HTTPSession, cookies_of, jar_of


class CookieWatch:
    """Compares the cookies of `world.api` with those at the start, and warns once."""

    def __init__(self, world: Any) -> None:
        self._api = world.api
        covered = any(
            isinstance(system, HTTPSession) and system.client is world.api
            for system in world.systems.values()
        )
        self._on = not covered and world.api is not None and jar_of(world.api) is not None
        self._before = cookies_of(self._api) if self._on else {}

    def check(self) -> None:
        """Warn if the cookies changed."""
        if self._on and cookies_of(self._api) != self._before:
            self._on = False
            warnings.warn(
                "the client in world.api received cookies, and no system rolls them back; add "
                'HTTPSession(client) to the systems: World(api=client, systems={"session": HTTPSession(client), ...})',
                ExplorationWarning,
                stacklevel=2,
            )

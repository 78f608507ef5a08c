"""Small in-memory worlds for the tests of exploration."""

from __future__ import annotations

import copy
from typing import Any

from clew.errors import UnknownCheckpointError
from clew.explore import Action, Observation, World


class Box:
    """A system with one value. Tokens are numbers; the copies stay inside the system, as in a database."""

    ordering = "any"

    def __init__(self, value: Any = None, metadata: dict[str, Any] | None = None) -> None:
        self.value = value
        self.metadata = metadata or {}
        self.kept: dict[int, Any] = {}
        self.made = 0
        self.restored = 0

    def observe(self) -> Observation:
        return Observation("", self.value, self.metadata)

    def checkpoint(self, name: str) -> int:
        self.made += 1
        self.kept[self.made] = copy.deepcopy(self.value)
        return self.made

    def rollback(self, token: int) -> None:
        if token not in self.kept:
            raise UnknownCheckpointError(f"Checkpoint not found: {token}")
        self.restored += 1
        self.value = copy.deepcopy(self.kept[token])

    def is_valid(self, token: int) -> bool:
        return token in self.kept

    def release(self, token: int) -> None:
        self.kept.pop(token, None)


class Pile(Box):
    """A system in which restoring a token invalidates all later ones, as with savepoints."""

    ordering = "lifo"

    def rollback(self, token: int) -> None:
        super().rollback(token)
        for later in [each for each in self.kept if each > token]:
            del self.kept[later]


def records(values: int = 21, count: int = 3, box: Box | None = None) -> tuple[World, list[Action]]:
    """Return independent records that can be created, changed to the next value, and deleted.

    There are (values + 1) ** count states.
    """
    box = box or Box()
    box.value = {}
    actions = []
    for number in range(count):
        actions += record(box, f"r{number}", values)
    return World(systems={"records": box}), actions


def record(box: Box, key: str, values: int) -> list[Action]:
    def create(world: World) -> None:
        box.value[key] = 0

    def change(world: World) -> None:
        box.value[key] = (box.value[key] + 1) % values

    def delete(world: World) -> None:
        del box.value[key]

    return [
        Action(f"create_{key}", create, precondition=lambda world: key not in box.value),
        Action(f"change_{key}", change, precondition=lambda world: key in box.value),
        Action(f"delete_{key}", delete, precondition=lambda world: key in box.value),
    ]


def counter(limit: int, box: Box | None = None) -> tuple[World, Box, list[Action]]:
    """Return a number that can be increased up to a limit, and reset to 0."""
    box = box or Box()
    box.value = 0

    def up(world: World) -> None:
        box.value += 1

    def reset(world: World) -> None:
        box.value = 0

    actions = [Action("up", up, precondition=lambda world: box.value < limit), Action("reset", reset)]
    return World(systems={"count": box}), box, actions

"""VenomQA: an agent that explores breadth first over a system held in memory, without invariants.

Written to its own protocol: a system that is checkpointed by copying a dict, and actions that return a result.
"""

# The peers live in an environment of their own, where the type checker does not look.
# mypy: disable-error-code="import-not-found, misc, no-any-return, override, untyped-decorator"

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from venomqa.v1.agent import Agent
from venomqa.v1.agent.strategies import BFS
from venomqa.v1.core.action import Action, ActionResult, HTTPRequest
from venomqa.v1.world import Observation, World

IMPORTS = "venomqa"
ABSENT = {"walk": "explored exhaustively"}

DONE = ActionResult(success=True, request=HTTPRequest("POST", "/"))


class Records:
    """A system: records by key."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}

    def checkpoint(self, name: str) -> dict[str, int]:
        return copy.deepcopy(self.rows)

    def rollback(self, checkpoint: dict[str, int]) -> None:
        self.rows = copy.deepcopy(checkpoint)

    def observe(self) -> Observation:
        return Observation.create("records", dict(self.rows))


def _actions(records: Records, key: str, values: int) -> list[Any]:
    def create(api: Any) -> ActionResult:
        records.rows.setdefault(key, 0)
        return DONE

    def change(api: Any) -> ActionResult:
        if key in records.rows:
            records.rows[key] = (records.rows[key] + 1) % values
        return DONE

    def delete(api: Any) -> ActionResult:
        records.rows.pop(key, None)
        return DONE

    return [Action(name=f"{each.__name__}_{key}", execute=each) for each in (create, change, delete)]


def explore(values: int) -> Callable[[], int]:
    def run() -> int:
        records = Records()
        actions: list[Any] = []
        for key in ("r0", "r1", "r2"):
            actions += _actions(records, key, values)
        world = World(api=None, systems={"records": records})
        result = Agent(world, actions, strategy=BFS(), max_steps=10**9).explore()
        return int(result.states_visited)

    return run

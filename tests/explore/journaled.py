"""A program that explores into a store and, if asked to, kills itself in the middle; started by tests.

``python -m tests.explore.journaled STORE STRATEGY DIE_AFTER``: after so many actions the process gets SIGKILL (0: it
lives). STORE may be "none". What it prints at the end is the final graph and how many actions this process did.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from clew.explore import Action, Agent, Invariant, World
from clew.explore.search.strategies import BFS, DFS, CoverageGuided, RandomWalk, Weighted
from tests.explore.models import records

STRATEGIES: dict[str, Any] = {
    "BFS": BFS(),
    "DFS": DFS(),
    "RandomWalk": RandomWalk(11),
    "CoverageGuided": CoverageGuided(),
    "Weighted": Weighted(11),
}
VALUES = 4


def agent(store: Any, strategy: Any, done: list[int], die_after: int = 0) -> Agent:
    """Records with a rule that does not hold, an action that raises, and one that depends on the path."""
    world, actions = records(values=VALUES)
    box = world.systems["records"]

    def counted(action: Action) -> Action:
        def run(world: World) -> None:
            done.append(1)
            if len(done) == die_after:
                os.kill(os.getpid(), signal.SIGKILL)
            action.run(world)

        return Action(action.name, run, action.precondition, requires=action.requires)

    def fail(world: World) -> None:
        box.value["half"] = True
        raise ValueError("three are too many")

    actions.append(Action("fail", fail, precondition=lambda world: len(box.value) == 3))
    actions.append(Action("mark", lambda world: world.context.set("marked", True), requires=["delete_r0"]))
    invariants = [
        Invariant("sum", lambda world: sum(box.value.values()) < 8 or f"sum {sum(box.value.values())}")
    ]
    return Agent(world, [counted(a) for a in actions], invariants, strategy=strategy, store=store)


def summary(result: Any) -> dict[str, Any]:
    """All that must be the same after a crash."""
    document: dict[str, Any] = result.to_json()
    for varying in ("seconds",):
        del document[varying]
    for violation in document["violations"]:
        del violation["error"]
    return document


if __name__ == "__main__":
    calls: list[int] = []
    where = None if sys.argv[1] == "none" else sys.argv[1]
    found = agent(where, STRATEGIES[sys.argv[2]], calls, int(sys.argv[3])).explore()
    print(json.dumps({"summary": summary(found), "calls": len(calls), "recalled": found.recalled}))

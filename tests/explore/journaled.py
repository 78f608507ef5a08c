"""A program that explores with a store and can kill itself; tests start it.

``python -m tests.explore.journaled STORE STRATEGY DIE_AFTER``: the process gets SIGKILL after this number of actions
(0: never). STORE may be "none". At the end it prints the final graph and the number of actions that this process ran.
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
    """Return an agent with a broken invariant, an action that raises, and one that depends on the path."""
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
    """Return everything that must be the same after a crash."""
    document: dict[str, Any] = result.to_dict()
    del document["seconds"]
    for violation in document["violations"]:
        del violation["error"]
    return document


if __name__ == "__main__":
    calls: list[int] = []
    where = None if sys.argv[1] == "none" else sys.argv[1]
    found = agent(where, STRATEGIES[sys.argv[2]], calls, int(sys.argv[3])).explore()
    answer = {
        "summary": summary(found),
        "calls": len(calls),
        "resumed_transitions": found.resumed_transitions,
    }
    print(json.dumps(answer))

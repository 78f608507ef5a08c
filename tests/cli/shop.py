"""Agents for the tests of `clew explore`; copied into the folder of a test."""

from __future__ import annotations

import copy
from typing import Any

from clew.explore import Action, Agent, Invariant, Observation, World


class Orders:
    ordering = "any"

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {"orders": 0, "refunds": 0}

    def observe(self) -> Observation:
        return Observation("orders", self.rows)

    def checkpoint(self, name: str) -> Any:
        return copy.deepcopy(self.rows)

    def rollback(self, token: Any) -> None:
        self.rows = copy.deepcopy(token)

    def is_valid(self, token: Any) -> bool:
        return True

    def release(self, token: Any) -> None: ...


def make(checked: bool) -> Agent:
    orders = Orders()

    def order(world: World) -> None:
        orders.rows["orders"] += 1

    def refund(world: World) -> None:
        if not checked or orders.rows["refunds"] < orders.rows["orders"]:
            orders.rows["refunds"] += 1

    return Agent(
        World(systems={"orders": orders}),
        [Action("order", order, max_calls=2), Action("refund", refund, max_calls=2)],
        [
            Invariant(
                "refunds", lambda world: orders.rows["refunds"] <= orders.rows["orders"] or "too many refunds"
            )
        ],
    )


buggy = make(False)


def fixed() -> Agent:
    return make(True)


class Broken(Orders):
    def rollback(self, token: Any) -> None:
        raise OSError("connection lost")


broken = Agent(
    World(systems={"x": Broken()}), [Action("a", lambda world: None), Action("b", lambda world: None)]
)
number = 7

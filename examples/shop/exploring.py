"""The actions on the shop, and the invariant that must hold in every state.

There are at most two orders, and every action works on the newest one, so the number of states is finite. The shop may
answer 409; any other failure is an exception, and so a violation.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import httpx
import psycopg

from clew.explore import Action, Agent, Invariant, Severity, World
from clew.explore.systems import PostgresSystem, RedisSystem
from examples.shop.service import SCHEMA, build
from examples.shop.serving import Serving

MOST_ORDERS = 2


def order(world: World) -> None:
    answer = post(world, "/orders")
    if answer.status_code == 201:
        world.context.set("orders", [*world.context.get("orders"), answer.json()["id"]])


def on_newest(verb: str) -> Callable[[World], None]:
    def step(world: World) -> None:
        post(world, f"/orders/{world.context.get('orders')[-1]}/{verb}")

    return step


def post(world: World, path: str) -> httpx.Response:
    answer: httpx.Response = world.api.post(path)
    if answer.status_code != 409:
        answer.raise_for_status()
    return answer


def has_order(world: World) -> bool:
    return bool(world.context.get("orders"))


ACTIONS = [
    Action("order", order, precondition=lambda world: len(world.context.get("orders")) < MOST_ORDERS),
    Action("pay", on_newest("pay"), precondition=has_order),
    Action("cancel", on_newest("cancel"), precondition=has_order),
    Action("refund", on_newest("refund"), precondition=has_order),
]


def refunds_do_not_exceed_payments(world: World) -> bool | str:
    accounts: dict[str, int] = world.api.get("/accounts").raise_for_status().json()
    below = {number: total for number, total in accounts.items() if total < 0}
    return f"accounts below zero: {below}" if below else True


INVARIANTS = [Invariant("no_double_refund", refunds_do_not_exceed_payments, severity=Severity.CRITICAL)]


def agent(url: str, dsn: str, redis_url: str, **options: Any) -> Agent:
    """Return an agent for a shop at a URL, with an empty database and cache."""
    world = World(
        api=httpx.Client(base_url=url, trust_env=False),
        systems={"db": PostgresSystem(dsn), "cache": RedisSystem(redis_url)},
        context={"orders": []},
    )
    return Agent(world, ACTIONS, INVARIANTS, **options)


def close(explorer: Agent) -> None:
    """Close what `agent` opened."""
    explorer.world.api.close()
    for system in explorer.world.systems.values():
        system.close()


def shop() -> Agent:
    """Return an agent for the shop, on the servers that SHOP_DSN and SHOP_REDIS name."""
    return _serving(fixed=False)


def fixed_shop() -> Agent:
    """Return an agent for the shop without the bug."""
    return _serving(fixed=True)


def _serving(*, fixed: bool) -> Agent:
    dsn, redis_url = os.environ["SHOP_DSN"], os.environ["SHOP_REDIS"]
    with psycopg.connect(dsn) as db:
        db.execute(SCHEMA)
    return agent(Serving(build(dsn, redis_url, fixed=fixed)).url, dsn, redis_url)


def __getattr__(name: str) -> Agent:
    """Create AGENT and FIXED_AGENT on first access, so that importing this module starts nothing."""
    if name not in ("AGENT", "FIXED_AGENT"):
        raise AttributeError(name)
    made = globals()[name] = shop() if name == "AGENT" else fixed_shop()
    return made

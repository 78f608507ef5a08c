"""An order service, written from the pages on workers, waiting and deployment: ``python orders_service.py STORE``.

An order is checked, waits for its payment, asks a person if it is expensive, rests for a while, and is shipped. Effects
are lines of a file, written in recorded calls, with the process that wrote them. An effect has one line, and one more
for each worker that was killed after it wrote the line and before it committed the result of the call.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any, TypedDict

from clew import Context, Graph, PostgresStore, SQLiteStore, Worker, node
from clew.errors import WaitTimeoutError

SLOTS = 4


class Order(TypedDict, total=False):
    order: str
    price: int
    checked: bool
    payment: dict[str, Any]
    approved: bool
    rested: float
    shipped: str


def effect(what: str) -> str:
    with open(Path(os.environ["ORDERS"]) / "effects", "a") as effects:
        effects.write(f"{os.getpid()} {what}\n")
    return what


@node(output="checked")
def check(order: str, price: int, ctx: Context) -> bool:
    ctx.record("check", effect, f"{order} checked")
    if order == "poison":
        os._exit(1)
    return price >= 0


@node(output="payment")
def pay(order: str, checked: bool, ctx: Context) -> dict[str, Any]:
    try:
        payment = ctx.wait_for("paid", timeout=600 if order != "forgotten" else 0.5)
    except WaitTimeoutError:
        payment = {"amount": 0}
    ctx.record("pay", effect, f"{order} paid {payment['amount']}")
    return dict(payment)


@node(output="approved")
def approve(order: str, price: int, payment: dict[str, Any], ctx: Context) -> bool:
    if price < 100:
        return True
    limit = 600 if order != "unanswered" else 0.5
    approved: bool = ctx.interrupt(f"ship {order} for {price}?", timeout=limit, default=False)
    return approved


@node(output="rested")
def rest(payment: dict[str, Any], ctx: Context) -> float:
    until = ctx.now().timestamp() + 6.0
    ctx.sleep(until - time.time())  # another number when the node starts over
    return until


@node(output="shipped")
def ship(order: str, approved: bool, rested: float, ctx: Context) -> str:
    what = "shipped" if approved else "returned"
    ctx.record("ship", effect, f"{order} {what}")
    return what


graph = Graph([check, pay, approve, rest, ship], state=Order, name="orders")


def opened(target: str) -> Any:
    if "host=" in target:
        dsn, _, schema = target.partition(" schema=")
        return PostgresStore(dsn, schema=schema)
    return SQLiteStore(target)


if __name__ == "__main__":
    Worker(
        graph,
        store=opened(sys.argv[1]),
        slots=SLOTS,
        queues=["urgent", "default"],
        poll=0.2,
        tries=3,
        lease=600.0,  # a dead process is noticed at once; a slow machine must not count as one
        grace=240.0,
    ).run()

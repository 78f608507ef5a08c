"""A shop, written from the pages on workers, waiting and services: ``uvicorn`` serves `app`, ``python -m`` is a worker.

An order waits an hour for its payment, asks a person for two hours if it is expensive, rests for three hours and is
shipped. `SHOP` is the folder with the store, the effects and the clock.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from clew import Context, Engine, Graph, SQLiteStore, Worker, node
from clew.errors import InputError, RunExistsError, RunStateError, UnknownRunError, WaitTimeoutError

FOLDER = Path(os.environ.get("SHOP", "."))
HOUR = 3600.0
SLOTS = 8


class MovedClock:
    """The clock of this machine, and hours that have passed meanwhile: the file `clock` says how many seconds."""

    boot = "shop"

    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        file = FOLDER / "clock"
        return time.time() + (float(file.read_text()) if file.exists() else 0.0)


class Order(msgspec.Struct, kw_only=True):
    order: str
    price: int
    payment: dict[str, int] = {}
    approved: bool = False
    ended: str = ""


def effect(what: str) -> str:
    """Something that must happen once: the file has a line for each time, with the process."""
    with open(FOLDER / "effects", "a") as effects:
        effects.write(f"{os.getpid()} {what}\n")
    return what


@node(output="payment")
def pay(order: str, ctx: Context) -> dict[str, int]:
    try:
        payment: dict[str, int] = ctx.wait_for("paid", timeout=HOUR)
    except WaitTimeoutError:
        payment = {"amount": 0}
    ctx.record("pay", effect, f"{order} paid {payment['amount']}")
    return payment


@node(output="approved")
async def approve(order: str, price: int, payment: dict[str, int], ctx: Context) -> bool:
    if price < 100 or not payment["amount"]:
        return bool(payment["amount"])
    found: bool = ctx.interrupt(f"ship {order} for {price}?", type=bool, timeout=2 * HOUR, default=False)
    return found


@node(output="ended")
def ship(order: str, approved: bool, ctx: Context) -> str:
    if not approved:
        return ctx.record("end", effect, f"{order} returned")
    ctx.sleep(3 * HOUR)
    return ctx.record("end", effect, f"{order} shipped")


graph = Graph([pay, approve, ship], state=Order, name="shop")


def opened() -> SQLiteStore:
    return SQLiteStore(FOLDER / "shop.db", clock=MovedClock())


STATUS: dict[type[Exception], int] = {
    UnknownRunError: 404,
    RunExistsError: 409,
    RunStateError: 409,
    InputError: 422,
}


async def refuse(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse(
        {"detail": str(error)}, next(c for kind, c in STATUS.items() if isinstance(error, kind))
    )


class NewOrder(BaseModel):
    order: str
    price: int
    tenant: str


def create_app() -> FastAPI:
    """Return the service, for ``uvicorn --factory``."""
    engine = Engine(graph, store=opened())
    app = FastAPI(exception_handlers=dict.fromkeys(STATUS, refuse))

    @app.post("/orders", status_code=202)
    def order(new: NewOrder) -> dict[str, str]:
        values = {"order": new.order, "price": new.price}
        return {"run": engine.submit(values, run_id=new.order, attributes={"tenant": new.tenant}).run_id}

    @app.get("/orders")
    def orders(tenant: str) -> list[str]:
        return [row.run_id for row in engine.runs(attributes={"tenant": tenant})]

    @app.get("/orders/{run_id}")
    def show(run_id: str) -> dict[str, Any]:
        handle = engine.handle(run_id)
        return {"status": handle.status, "questions": [each.path for each in handle.questions]}

    @app.post("/orders/{run_id}/payment", status_code=202)
    def payment(run_id: str, amount: int) -> None:
        engine.signal(run_id, "paid", {"amount": amount}, id=f"payment of {run_id}")

    @app.post("/orders/{run_id}/answer", status_code=202)
    def answer(run_id: str, value: Any) -> None:
        engine.answer(run_id, {"true": True, "false": False}.get(value, value))

    @app.delete("/orders/{run_id}", status_code=202)
    def cancel(run_id: str) -> None:
        engine.cancel(run_id)

    return app


if __name__ == "__main__":
    # A dead process is noticed at once. A slow machine must not count as one.
    Worker(graph, store=opened(), slots=SLOTS, poll=0.1, lease=600.0, grace=240.0).run()

"""The service: orders, stock and a ledger of payments in PostgreSQL, the status of orders cached in Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool
from redis.asyncio import Redis
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

PRICE = 10
STOCK = 2

SCHEMA = f"""
CREATE TABLE IF NOT EXISTS stock (item text PRIMARY KEY, remaining int NOT NULL CHECK (remaining >= 0));
CREATE TABLE IF NOT EXISTS orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, status text NOT NULL);
CREATE TABLE IF NOT EXISTS ledger (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, order_id int NOT NULL REFERENCES orders, amount int NOT NULL
);
INSERT INTO stock VALUES ('thread', {STOCK}) ON CONFLICT DO NOTHING;
"""

Connection = AsyncConnection[TupleRow]


def build(dsn: str, redis_url: str, *, fixed: bool = False) -> Starlette:
    """Return the application. Without `fixed`, a cancelled order keeps its old status in the cache."""
    pool = AsyncConnectionPool(dsn, min_size=2, max_size=4, open=False)
    cache = Redis.from_url(redis_url, decode_responses=True)

    async def create(request: Request) -> JSONResponse:
        async with pool.connection() as db:
            taken = await db.execute(
                "UPDATE stock SET remaining = remaining - 1 WHERE remaining > 0 RETURNING item"
            )
            if await taken.fetchone() is None:
                return refused("sold out")
            made = await db.execute("INSERT INTO orders (status) VALUES ('open') RETURNING id")
            return JSONResponse({"id": (await made.fetchone() or (0,))[0]}, 201)

    async def pay(request: Request) -> JSONResponse:
        order = request.path_params["order"]
        async with pool.connection() as db:
            if await status_of(db, order) != "open":
                return refused("it is not open")
            await book(db, order, "paid", PRICE)
        await cache.set(f"status:{order}", "paid")
        return JSONResponse({"status": "paid"})

    async def cancel(request: Request) -> JSONResponse:
        order = request.path_params["order"]
        async with pool.connection() as db:
            before = await status_of(db, order)
            if before not in ("open", "paid"):
                return refused("it is closed")
            await book(db, order, "cancelled", -PRICE if before == "paid" else 0)
            await db.execute("UPDATE stock SET remaining = remaining + 1")
        if fixed:
            await cache.delete(f"status:{order}")
        return JSONResponse({"status": "cancelled"})

    async def refund(request: Request) -> JSONResponse:
        order = request.path_params["order"]
        async with pool.connection() as db:
            status = await cache.get(f"status:{order}") or await status_of(db, order)
            if status != "paid":
                return refused("it is not paid")
            await book(db, order, "refunded", -PRICE)
        await cache.set(f"status:{order}", "refunded")
        return JSONResponse({"status": "refunded"})

    async def accounts(request: Request) -> JSONResponse:
        async with pool.connection() as db:
            sums = await db.execute(
                "SELECT order_id, sum(amount)::int FROM ledger GROUP BY order_id ORDER BY order_id"
            )
            return JSONResponse({str(order): total for order, total in await sums.fetchall()})

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with pool:
            yield
        await cache.aclose()

    return Starlette(
        routes=[
            Route("/orders", create, methods=["POST"]),
            Route("/orders/{order:int}/pay", pay, methods=["POST"]),
            Route("/orders/{order:int}/cancel", cancel, methods=["POST"]),
            Route("/orders/{order:int}/refund", refund, methods=["POST"]),
            Route("/accounts", accounts),
        ],
        lifespan=lifespan,
    )


async def status_of(db: Connection, order: int) -> str | None:
    found = await db.execute("SELECT status FROM orders WHERE id = %s FOR UPDATE", (order,))
    row = await found.fetchone()
    return row[0] if row else None


async def book(db: Connection, order: int, status: str, amount: int) -> None:
    await db.execute("UPDATE orders SET status = %s WHERE id = %s", (status, order))
    if amount:
        await db.execute("INSERT INTO ledger (order_id, amount) VALUES (%s, %s)", (order, amount))


def refused(reason: str) -> JSONResponse:
    return JSONResponse({"error": reason}, 409)

"""Nodes for other processes: each use of the context, and nodes that kill their own worker."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from clew import Context, Graph, Send, SideEffectPolicy, node, route
from clew.runtime.process import crash_points


def doubled(x: int) -> int:
    return x * 2


async def adoubled(x: int) -> int:
    await asyncio.sleep(0)
    return x * 2


class OwnError(Exception):
    """An exception with a constructor that pickle cannot repeat."""

    def __init__(self, code: int, *, why: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code = code


class LockError(Exception):
    """An exception with an attribute that cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("locked")
        self.lock = threading.Lock()


@node(output="plain")
def plain(a: int) -> int:
    return a + 1


@node(output="pid")
def pid(a: int) -> int:
    return os.getpid()


@node(output="driver_pid", on="driver")
def driver_pid(a: int) -> int:
    return os.getpid()


@node(output="sync")
def sync_context(a: int, ctx: Context) -> list[Any]:
    ctx.emit("seen", {"a": a})
    nested = ctx.record("outer", lambda: ctx.record("inner", doubled, a) + 1)
    return [
        ctx.record("double", doubled, a),
        nested,
        ctx.random.random(),
        str(ctx.uuid4()),
        ctx.idempotency_key,
        ctx.attempt,
        ctx.path,
        ctx.step_id,
        ctx.cancelled,
    ]


@node(output="awaited")
async def async_context(a: int, ctx: Context) -> list[Any]:
    first = await ctx.record("first", adoubled, a)
    others = await asyncio.gather(ctx.record("b", adoubled, 2), ctx.record("c", adoubled, 3))
    await ctx.sleep(0.001)
    return [first, *others, ctx.random.random()]


@node(output="chunks")
def chunks(a: int) -> Iterator[int]:
    yield a
    yield a + 1


@node(output="achunks")
async def achunks(a: int) -> AsyncIterator[int]:
    yield a
    yield a + 2


@node(output="z")
def random_of(a: int, ctx: Context) -> float:
    return ctx.random.random()


child = Graph([plain, random_of], name="child")


@node(output="kid")
def kid(a: int, ctx: Context) -> list[Any]:
    result = ctx.run(child, {"a": a})
    return [result["plain"], result["z"], result.status, result.last_step, dict(result.values)]


@node(output="kids")
async def kids(a: int, ctx: Context) -> list[Any]:
    found = await asyncio.gather(*(ctx.run(child, {"a": n}, key=str(n)) for n in range(3)))
    return [each["z"] for each in found]


everything = Graph([plain, sync_context, async_context, chunks, achunks, kid, kids], name="everything")


@node(output="said")
def asks(a: int, ctx: Context) -> str:
    before = ctx.record("before", doubled, a)
    answer = ctx.interrupt(f"what about {before}?")
    return f"{answer} {before}"


@node(output="asaid")
async def asks_awaited(a: int, ctx: Context) -> str:
    before = await ctx.record("before", adoubled, a)
    return f"{ctx.interrupt({'q': before})} {before}"


@node(output="paid")
def waits(a: int, ctx: Context) -> Any:
    return ctx.wait_for("paid", timeout=600)


@node(output="slept")
def sleeps_long(a: int, ctx: Context) -> int:
    ctx.sleep(3600)
    return ctx.attempt


@node(output="written")
def writes(a: int, ctx: Context) -> int:
    with ctx.transaction() as tx:
        tx.execute("INSERT INTO paid VALUES (?)", (a,))
    return a


@node(output="fails")
def fails(a: int) -> None:
    raise OwnError(7, why="no")


@node(output="fails_with_a_lock")
def fails_with_a_lock(a: int) -> None:
    raise LockError


@node(output="mutates")
def mutates(items: list[int]) -> int:
    items.append(1)
    return len(items)


@node(output="locked")
def returns_a_lock(a: int) -> Any:
    return threading.Lock()


@node(output="total")
def size_of(data: bytes) -> int:
    return len(data)


@node(output="total2")
def size_again(data: bytes) -> int:
    return len(data)


# -- faults: a mark is a file; the first process that creates it kills itself


def kill_once(mark: str) -> None:
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def note(log: str, text: str) -> None:
    with open(log, "a") as file:
        file.write(f"{text}\n")


def _crash(point: str) -> None:
    folder = os.environ.get("CLEW_TEST_KILLS")
    if folder and os.path.exists(f"{folder}/{point}"):
        try:
            os.unlink(f"{folder}/{point}")  # one process succeeds
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


if "CLEW_TEST_KILLS" in os.environ:
    crash_points.watch(_crash)


def effect(log: str, text: str, mark: str) -> str:
    note(log, text)
    if mark:
        kill_once(mark)
    return text.upper()


@node(output="fan")
def fan(n: int) -> list[int]:
    return list(range(n))


@route(targets=["work"])
def spread(fan: list[int]) -> list[Send]:
    return [Send("work", {"i": i}) for i in fan]


@node(output="done")
def work(i: int, folder: str, ctx: Context) -> list[Any]:
    """One line for each start; one for each recorded call. The marked item kills its worker in its recorded call."""
    note(f"{folder}/starts", str(i))
    mark = f"{folder}/killed" if i == 3 else ""
    found = ctx.record("effect", effect, f"{folder}/effects", f"item {i}", mark)
    return [[i, found, ctx.random.random(), ctx.attempt]]


@node(output="once", side_effects=SideEffectPolicy(recordable=True))
def pays(folder: str) -> str:
    note(f"{folder}/effects", "paid")
    kill_once(f"{folder}/killed")
    return "paid"


@node(output="always")
def always_dies(a: int) -> None:
    os._exit(3)


@node(output="ended")
def ends_its_worker(folder: str, ctx: Context) -> int:
    """Send SIGTERM to this process once, as a cluster does that drains a machine."""
    mark = Path(folder, "terminated")
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(600)
    return ctx.attempt


@node(output="left")
def leaves(a: int) -> None:
    sys.exit(a)


@node(output="zombie", timeout=1.0)
def zombie(folder: str, ctx: Context) -> None:
    """Use the context after the attempt has ended: the use is rejected, and nothing after it happens."""
    Path(folder, "began").touch()
    while Path(folder).exists() and not Path(folder, "go").exists():  # the folder is removed after its test
        try:
            time.sleep(0.01)
        except BaseException:  # not even if it catches what ends it
            pass
    try:
        ctx.record("late", note, f"{folder}/effects", "late")
    except BaseException as error:
        Path(folder, "rejected").write_text(type(error).__name__)
        raise
    Path(folder, "continued").touch()


@node(output="slow")
def slow(i: int) -> list[int]:
    time.sleep(1.0)
    return [i]


@route(targets=["slow"])
def spread_slow(fan: list[int]) -> list[Send]:
    return [Send("slow", {"i": i}) for i in fan]


@node(output="done")
def gated(i: int, folder: str, ctx: Context) -> list[Any]:
    """The first start of an item waits for a file; what it does then must not count if another one has ended."""
    note(f"{folder}/starts", str(i))
    try:
        os.close(os.open(f"{folder}/first-{i}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        pass
    else:
        while not os.path.exists(f"{folder}/go"):
            time.sleep(0.01)
    found = ctx.record("effect", effect, f"{folder}/effects", f"item {i}", "")
    return [[i, found, ctx.random.random(), ctx.attempt]]


@route(targets=["gated"])
def spread_gated(fan: list[int]) -> list[Send]:
    return [Send("gated", {"i": i}) for i in fan]

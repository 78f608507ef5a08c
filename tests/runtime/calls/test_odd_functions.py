"""Functions that are not what they seem, and results that come when nobody waits any more."""

from __future__ import annotations

import asyncio
import functools
import operator
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Annotated, Any, TypedDict

import pytest

from clew import Context, Engine, Graph, GraphState, RetryPolicy, Send, SQLiteStore, node, route
from clew.errors import CheckpointError, InputError, NodeError
from clew.testing import Stepper, VirtualClock


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """An ordinary decorator: what it returns is a sync function."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@pytest.mark.parametrize("options", [{}, {"listeners": [print]}, {"check_mutation": True}])
def test_an_async_function_behind_a_plain_wrapper_is_awaited(options: dict[str, Any]) -> None:
    @node(output="y")
    @wrapped
    async def double(x: int) -> int:
        await asyncio.sleep(0)
        return 2 * x

    @node(output="z")
    def after(y: int) -> int:
        return y + 1

    assert Graph([double, after]).run({"x": 2}, **options)["z"] == 5


@pytest.mark.parametrize("options", [{}, {"listeners": [print]}])
def test_a_wrapper_of_an_async_function_may_answer_itself(options: dict[str, Any]) -> None:
    async def slow(x: int) -> int:
        raise AssertionError

    @functools.wraps(slow)
    def known(x: int) -> int:
        return x + 1

    assert Graph([node(known, output="y")]).run({"x": 1}, **options)["y"] == 2


def test_a_stop_iteration_on_a_thread_is_told() -> None:
    @node(output="a")
    def first(items: list[int]) -> int:
        return next(iter(items))

    @node(output="b")
    async def beside(items: list[int]) -> int:
        await asyncio.sleep(0)
        return 1

    result = asyncio.run(Graph([first, beside]).arun({"items": []}, default_node_timeout=None, check=False))
    assert result.status == "failed"
    assert type(result.error) is NodeError
    assert "raised StopIteration" in str(result.error)


class Spread(TypedDict, total=False):
    n: int
    done: Annotated[list[int], operator.add]


@pytest.mark.parametrize("options", [{}, {"queue_depth": 1}, {"max_concurrent_nodes": 1}, {"queue_depth": 3}])
def test_items_of_a_fan_out_that_are_tried_again(options: dict[str, Any]) -> None:
    tried: dict[int, int] = {}

    @route(targets=["work"])
    def fan(n: int) -> list[Send]:
        return [Send("work", {"i": i}) for i in range(n)]

    @node(output="done", retry=RetryPolicy(max_attempts=3, base_delay=0.01))
    async def work(i: int, ctx: Context) -> list[int]:
        tried[i] = tried.get(i, 0) + 1
        await ctx.sleep(0.01 * (i % 3))
        if i % 4 == 0 and ctx.attempt < 2:
            raise OSError(i)
        return [i]

    result = Graph([fan, work], state=Spread).run({"n": 60}, clock=VirtualClock(), **options)
    assert result.status == "completed", result.error
    assert result["done"] == list(range(60))
    assert tried == {i: 3 if i % 4 == 0 else 1 for i in range(60)}


def test_a_subgraph_that_starts_again_while_items_of_it_are_queued() -> None:
    """The items of the attempt that is over are still in the queue, in the same places as those of the next."""
    calls: list[int] = []

    @node(output="y")
    def inner(e: int) -> int:
        calls.append(e)
        if len(calls) == 1:
            raise OSError("once")
        return e

    each = Graph([inner], name="each").map_over("e", retry=RetryPolicy(max_attempts=3, base_delay=1.0))
    for workers in (1, 2):
        calls.clear()
        stepper = Stepper(Graph([each]), {"e": list(range(5))}, workers=workers)
        while stepper.running:
            stepper.complete(stepper.running[-1])
        result = stepper.finish()
        assert result.status == "completed", result.error
        assert result["y"] == list(range(5))


def test_what_a_late_result_wrote_is_not_committed(tmp_path: Path) -> None:
    file, late, never = tmp_path / "runs.db", Event(), Event()
    store = SQLiteStore(file)
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE paid (x)")

    @node(output="y", timeout=1.0)  # it has begun by then
    def pay(x: int, ctx: Context) -> int:
        with ctx.transaction() as tx:
            tx.execute("INSERT INTO paid VALUES (1)")
        while not ctx.cancelled:  # until it is given up
            never.wait(0.01)
        late.set()
        return 5

    @node(output="z")
    def beside(x: int, ctx: Context) -> int:
        assert late.wait(60)
        return 1

    @node(output="w")
    def last(z: int) -> int:
        return z

    with Engine(Graph([pay, beside, last]), store=store, on_error="continue") as engine:
        assert engine.run({"x": 1}, run_id="r").status == "completed"
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT count(*) FROM paid").fetchone() == (0,)


def test_an_input_without_equality_is_not_taken_for_changed() -> None:
    class Client:
        pass

    @node(output="y")
    def use(client: Client) -> int:
        return 1

    assert Graph([use]).run({"client": Client()}, check_mutation=True)["y"] == 1


def test_a_node_that_only_itself_could_start_lacks_its_input() -> None:
    @node(output="count")
    def count(count: int) -> int:
        return count + 1

    with pytest.raises(InputError, match="'count' is missing: node 'count' reads it and nothing"):
        Graph([count]).run()


def test_a_payload_is_the_sends_own() -> None:
    payload = {"i": 1}
    send = Send("work", payload)
    payload["i"] = 2
    assert send.payload == {"i": 1}


def test_a_checkpoint_with_half_a_character_is_refused() -> None:
    body = b"\x80\x03X\x03\0\0\0\xed\xa0\x80."
    header = struct.pack(">8sH32sQ", b"\x89CLEW\r\n\n", 1, sha256(body).digest(), len(body))
    with pytest.raises(CheckpointError):
        GraphState.from_checkpoint(header + body)

"""A sync generator whose attempt has ended is closed at its next yield, on its own thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from clew import Engine, Graph, RetryPolicy, node
from clew.errors import NodeTimeoutError

WITHIN = 300.0
"""How long a test waits for something that has to come."""
BEGUN = 1.0
"""A timeout before which the node has begun, also on a busy machine."""


class Endless:
    """A generator that yields until it is closed, and what became of it."""

    def __init__(self, at_end: BaseException | None = None) -> None:
        self.closed = threading.Event()
        self.yielded = threading.Event()
        self.is_over = threading.Event()  # ends the thread if the engine does not
        self.threads: list[threading.Thread] = []
        self.at_end = at_end

    def chunks(self, x: int) -> Iterator[int]:
        self.threads.append(threading.current_thread())
        try:
            while not self.is_over.wait(0.0005):
                yield x
                self.yielded.set()
        finally:
            self.threads.append(threading.current_thread())
            self.closed.set()
            if self.at_end is not None:
                raise self.at_end

    def node(self, **options: Any) -> Any:
        return node(output="y", name="endless", **options)(self.chunks)

    def assert_closed(self) -> None:
        assert self.closed.wait(WITHIN)
        assert not self.is_over.is_set()
        assert len(set(self.threads)) == 1


@pytest.fixture
def endless() -> Iterator[Endless]:
    made = Endless()
    yield made
    made.is_over.set()


def test_a_stream_that_is_left(endless: Endless):
    engine = Engine(Graph([endless.node()]))
    stream = engine.stream({"x": 1}, run_id="r")
    for event in stream:
        if event.kind == "chunk":
            break
    stream.close()
    endless.assert_closed()
    assert engine.result("r").status == "cancelled"


async def _first_chunk(engine: Engine) -> None:
    stream = engine.astream({"x": 1}, run_id="r")
    async for event in stream:
        if event.kind == "chunk":
            break
    await stream.aclose()


def test_an_async_stream_that_is_left(endless: Endless):
    engine = Engine(Graph([endless.node()]))
    asyncio.run(_first_chunk(engine))
    endless.assert_closed()
    assert engine.result("r").status == "cancelled"


def test_a_cancelled_run(endless: Endless):
    engine = Engine(Graph([endless.node()]))
    handle = engine.start({"x": 1}, run_id="r")
    assert endless.yielded.wait(WITHIN)
    handle.cancel()
    endless.assert_closed()
    assert handle.status == "cancelled"


@pytest.mark.parametrize("at_end", [None, OSError("in finally")])
def test_a_timeout(endless: Endless, at_end: BaseException | None):
    endless.at_end = at_end
    result = Engine(Graph([endless.node(timeout=BEGUN)])).run({"x": 1}, check=False)
    endless.assert_closed()
    assert [type(each.error) for each in result.failures] == [NodeTimeoutError]


def test_each_attempt_is_closed(endless: Endless):
    count = threading.Semaphore(0)

    @node(output="y", timeout=BEGUN, retry=RetryPolicy(max_attempts=2, base_delay=0))
    def twice(x: int) -> Iterator[int]:
        try:
            yield from endless.chunks(x)
        finally:
            count.release()

    result = Engine(Graph([twice])).run({"x": 1}, check=False)
    assert result.failures[0].attempts == 2
    assert count.acquire(timeout=WITHIN)
    assert count.acquire(timeout=WITHIN)


def test_a_generator_that_ends_is_not_disturbed(endless: Endless):
    endless.is_over.set()
    assert Engine(Graph([endless.node(timeout=WITHIN)])).run({"x": 1})["y"] == []

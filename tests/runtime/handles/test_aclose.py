"""Closing an engine on its event loop: runs there end, and are stored as cancelled."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from clew import Engine, Graph, node
from clew.errors import RunCancelledError


@pytest.mark.parametrize("how", ["start", "arun", "thread"])
def test_the_runs_of_a_loop_are_cancelled_and_stored(how: str, tmp_path: Path) -> None:
    async def main() -> None:
        hold = Hold()
        engine = Engine(graph_of(hold), store=tmp_path / "runs.db")
        if how == "arun":
            run = asyncio.create_task(engine.arun({"n": 0}, run_id="r"))
        else:
            engine.start({"n": 0}, run_id="r", thread="t" if how == "thread" else None)
        await hold.reached.wait()
        await engine.aclose()
        with Engine(store=tmp_path / "runs.db") as other:  # before the loop ends and cancels its tasks
            assert other.handle("r").status == "cancelled"
            assert other.store.owner("r") is None
        if how == "arun":
            with pytest.raises(RunCancelledError):
                await run

    asyncio.run(asyncio.wait_for(main(), 300))


def test_the_end_of_async_with_closes_the_engine(tmp_path: Path) -> None:
    async def main() -> None:
        hold = Hold()
        async with Engine(graph_of(hold), store=tmp_path / "runs.db") as engine:
            engine.start({"n": 0}, run_id="r")
            await hold.reached.wait()
        with Engine(store=tmp_path / "runs.db") as other:
            assert other.handle("r").status == "cancelled"

    asyncio.run(asyncio.wait_for(main(), 300))


def test_an_engine_without_runs_closes_on_a_loop(tmp_path: Path) -> None:
    async def main() -> None:
        engine = Engine(graph_of(Hold()), store=tmp_path / "runs.db")
        await engine.aclose()
        await engine.aclose()

    asyncio.run(main())


class Hold:
    """A node waits here until its run is cancelled."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()

    async def wait(self) -> None:
        self.reached.set()
        await asyncio.Event().wait()


def graph_of(hold: Hold) -> Graph:
    @node(output="m")
    async def wait(n: int) -> int:
        await hold.wait()
        return n

    return Graph([wait], name="holds")

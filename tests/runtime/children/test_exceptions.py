"""Exceptions of any class leave a child as they are."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, SQLiteStore, node
from clew.stores import Store


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    code: int


class Unprintable(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


ERRORS = [Frozen(3), Unprintable("u"), ExceptionGroup("g", [Frozen(1), Unprintable("u")])]


def _graph(error: Exception, *, is_async: bool, catches: bool) -> Graph:
    @node(output="z")
    def bad(k: int) -> int:
        raise error

    child = Graph([bad], name="child")

    @node(output="o")
    def outer(k: int, ctx: Context) -> Any:
        try:
            return ctx.run(child, {"k": k})["z"]
        except type(error):
            if not catches:
                raise
            return "caught"

    @node(name="outer", output="o")
    async def aouter(k: int, ctx: Context) -> Any:
        try:
            return (await ctx.run(child, {"k": k}))["z"]
        except type(error):
            if not catches:
                raise
            return "caught"

    return Graph([aouter if is_async else outer])


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_the_exception_of_a_child(store: Store, error: Exception, is_async: bool) -> None:
    engine = Engine(_graph(error, is_async=is_async, catches=True), store=store)
    assert engine.run({"k": 1})["o"] == "caught"
    engine = Engine(_graph(error, is_async=is_async, catches=False), store=store)
    result = engine.run({"k": 1}, run_id="r", check=False)
    assert result.error is error
    assert engine.replay("r").ok
    with pytest.raises(type(error)):
        engine.resume("r")


def test_an_exception_in_a_transaction(tmp_path: Path) -> None:
    error = Frozen(3)

    @node(output="o")
    def write(k: int, ctx: Context) -> int:
        with ctx.transaction():
            raise error

    engine = Engine(Graph([write]), store=SQLiteStore(tmp_path / "runs.db"))
    assert engine.run({"k": 1}, check=False).error is error


def test_an_exception_without_repr_leaves_the_signal_handler(tmp_path: Path) -> None:
    """asyncio.run prints its task when it restores the handler of the interrupt."""

    @node(output="z")
    async def bad(k: int) -> int:
        await asyncio.sleep(0)
        raise Unprintable("u")

    engine = Engine(Graph([bad]), store=SQLiteStore(tmp_path / "runs.db"))
    with pytest.raises(Unprintable):
        engine.run({"k": 1}, run_id="r")
    assert engine.replay("r").ok
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(Unprintable):
        engine.resume("r")

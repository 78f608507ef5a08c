"""Children of children, deeper than Python lets one thread or task nest its calls."""

from __future__ import annotations

import contextvars

import pytest

from clew import Context, Engine, Graph, node
from clew.stores import Store
from tests.store_fixtures import local_store

store = local_store
asked_by = contextvars.ContextVar("asked_by", default="nobody")


@node(output="found")
def down(level: int, ctx: Context) -> object:
    if level == 0:
        if (answer := ctx.interrupt(f"{asked_by.get()} asks")) == "nothing":
            raise LookupError("nothing")
        return answer
    return ctx.run(DOWN, {"level": level - 1})["found"]


@node(output="found")
async def adown(level: int, ctx: Context) -> object:
    if level == 0:
        if (answer := ctx.interrupt(f"{asked_by.get()} asks")) == "nothing":
            raise LookupError("nothing")
        return answer
    return (await ctx.run(ADOWN, {"level": level - 1}))["found"]


DOWN = Graph([down], name="down")
ADOWN = Graph([adown], name="adown")


@pytest.mark.parametrize("graph, levels", [(DOWN, 60), (ADOWN, 90)], ids=["sync", "async"])
def test_a_deep_child_asks_and_returns(graph: Graph, levels: int, store: Store) -> None:
    engine = Engine(graph, store=store)
    token = asked_by.set("somebody")
    try:
        result = engine.run({"level": levels}, run_id="r")
    finally:
        asked_by.reset(token)
    assert [asked.question for asked in result.questions] == ["somebody asks"]
    assert result.questions[0].path.count("!0/") == levels
    assert engine.resume("r", answer="a thread")["found"] == "a thread"
    assert engine.replay("r").ok


def test_a_deep_child_fails() -> None:
    engine = Engine(DOWN)
    engine.run({"level": 60}, run_id="r")
    with pytest.raises(LookupError):
        engine.resume("r", answer="nothing")

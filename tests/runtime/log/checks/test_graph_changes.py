"""A run that waits, and whose question the graph no longer has: every way to continue it raises GraphChangedError."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, SQLiteStore, interrupt, node
from clew.errors import GraphChangedError
from clew.stores import Store


@node(output="a")
def one(x: int) -> int:
    return x


@node(output="a", name="first")
def other_one(x: int) -> int:
    return x


@interrupt(output="ok")
def ask(a: int) -> str:
    return "sure?"


@node(output="ok", name="ask")
def ask_in_code(a: int, ctx: Context) -> Any:
    return ctx.interrupt("sure?")


@interrupt(output="ok", name="ask_again")
def renamed(a: int) -> str:
    return "sure?"


def inside(*nodes: Any) -> Graph:
    return Graph([Graph(list(nodes)).as_node(name="sub")])


CHANGES = {
    "renamed": (Graph([one, ask]), Graph([one, renamed])),
    "removed": (Graph([one, ask]), Graph([one])),
    "a call, removed": (Graph([one, ask_in_code]), Graph([one])),
    "renamed inside": (inside(one, ask), inside(one, renamed)),
    "ran inside, removed": (inside(one, ask), inside(other_one, ask)),
    "subgraph removed": (inside(one, ask), Graph([one, ask])),
}


@pytest.fixture(params=CHANGES)
def graphs(request: pytest.FixtureRequest) -> tuple[Graph, Graph]:
    return CHANGES[request.param]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = SQLiteStore(tmp_path / "runs.db")
    yield store
    store.close()


@pytest.mark.parametrize(
    "resume",
    [
        lambda engine: engine.resume("r"),
        lambda engine: engine.resume("r", accept_changes=True),
        lambda engine: engine.resume("r", answer=1, accept_changes=True),
    ],
    ids=["resume", "accepted", "accepted with an answer"],
)
@pytest.mark.parametrize("is_sent", [True, False])
def test_a_removed_question_is_a_changed_graph(
    store: Store, graphs: tuple[Graph, Graph], resume: Callable[[Engine], Any], is_sent: bool
) -> None:
    before, after = graphs
    engine = Engine(before, store=store)
    engine.run({"x": 1}, run_id="r")
    if is_sent:
        engine.answer("r", 1)
    with pytest.raises(GraphChangedError):
        resume(Engine(after, store=store))
    assert store.row("r").status == "waiting"
    again = engine.resume("r") if is_sent else engine.resume("r", answer=1)  # nothing was taken from it
    assert again["ok"] == 1


@pytest.mark.parametrize("change", [name for name in CHANGES if name != "ran inside, removed"])
def test_an_answer_is_refused_by_a_graph_that_does_not_ask(store: Store, change: str) -> None:
    before, after = CHANGES[change]
    Engine(before, store=store).run({"x": 1}, run_id="r")
    with pytest.raises(GraphChangedError):
        Engine(after, store=store).answer("r", 1)
    assert not store.inbox("r")

"""A run waits for an answer while its state schema changes: fields are gained, lost and renamed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Graph, MemoryStore, SQLiteStore, interrupt, node
from clew.errors import GraphChangedError, InputError
from clew.stores import Store

pytestmark = pytest.mark.filterwarnings("ignore::clew.errors.GraphWarning")


@interrupt(output="ok")
def ask(a):
    return "?"


@node(output="out")
def finish(ok, a):
    return f"{ok}{a}"


@node(output="out", name="finish")
def finish_with_rate(ok, a, rate):
    return f"{ok}{a}{rate}"


@node(output="audit")
def audit(rate):
    return rate * 2


GONE = ("gone", int, 3)


def schema(*more: Any) -> type:
    return make_dataclass("Shape", [("a", int), ("ok", bool, False), ("out", str, ""), *more], kw_only=True)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")
    Engine(Graph([ask, finish], state=schema(GONE)), store=made).run({"a": 1}, run_id="r")
    yield made
    made.close()


@pytest.mark.parametrize(
    "graph, out, more",
    [
        (
            Graph([ask, finish_with_rate], state=schema(GONE, ("rate", float, 0.5))),
            "True10.5",
            {"gone": 3, "rate": 0.5},
        ),
        (
            Graph([ask, finish, audit], state=schema(GONE, ("rate", float, 0.5), ("audit", float, 0.0))),
            "True1",
            {"gone": 3, "rate": 0.5, "audit": 1.0},
        ),
        (
            Graph([ask, finish_with_rate], state=schema(GONE, ("rate", list, field(default_factory=list)))),
            "True1[]",
            {"gone": 3, "rate": []},
        ),
        (Graph([ask, finish], state=schema()), "True1", {"gone": 3}),
        (Graph([ask, finish_with_rate], state=schema(("rate", int, 9))), "True19", {"gone": 3, "rate": 9}),
    ],
    ids=["gained", "gained with a node", "gained with a factory", "lost", "renamed"],
)
def test_it_goes_on(store: Store, graph: Graph, out: str, more: dict[str, Any]) -> None:
    engine = Engine(graph, store=store)
    digest = Engine(store=store).state("r", step=0).digest
    with pytest.raises(GraphChangedError):
        engine.resume("r", answer=True)
    result = engine.resume("r", answer=True, accept_changes=True)
    assert dict(result.values) == {"a": 1, "ok": True, "out": out, **more}
    assert not result.never_ran
    assert engine.replay("r").ok
    assert engine.state("r", step=0).digest == digest
    fork = engine.fork("r", step=0, run_id="f")
    assert fork.status == "waiting"
    assert fork.values.keys() == graph.schema.fields.keys()
    assert engine.resume("f", answer=True)["out"] == out


@pytest.mark.parametrize("last", [finish, finish_with_rate], ids=["unread", "read"])
def test_a_required_field_is_given_to_a_fork(store: Store, last: Any) -> None:
    engine = Engine(Graph([ask, last], state=schema(GONE, ("rate", float))), store=store)
    with pytest.raises(GraphChangedError):
        engine.resume("r", answer=True, accept_changes=True)
    with pytest.raises(InputError):
        engine.fork("r", step=0)
    assert engine.fork("r", step=0, values={"rate": 0.5}).status == "waiting"

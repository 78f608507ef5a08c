"""Values that a fork or a rerun sets for a field with a reducer, and the steps that a run has."""

from __future__ import annotations

import operator
import warnings
from typing import Annotated, Any, TypedDict

import pytest

from clew import Engine, Graph, Overwrite, node
from clew.errors import GraphWarning, UnknownRunError
from clew.stores import Store
from tests.store_fixtures import local_store


class Chat(TypedDict, total=False):
    messages: Annotated[list[str], operator.add]


@node(output="messages")
def reply(messages: list[str]) -> list[str]:
    return ["reply"]


store = local_store


@pytest.fixture
def engine(store: Store) -> Engine:
    engine = Engine(Graph([reply], state=Chat), store=store)
    for number in (1, 2, 3):
        engine.run({"messages": [f"m{number}"]}, thread="t", run_id=f"r{number}")
    return engine


@pytest.mark.parametrize("verb, run_id", [("fork", "r1"), ("rerun", "r1"), ("rerun", "r3")])
def test_a_value_that_drops_what_a_reducer_collected_warns(engine: Engine, verb: str, run_id: str) -> None:
    change: Any = getattr(engine, verb)
    with pytest.warns(GraphWarning, match="'messages'"):
        assert change(run_id, values={"messages": ["new"]})["messages"] == ["new", "reply"]


@pytest.mark.parametrize("verb, step", [("fork", None), ("rerun", 0)])
def test_a_value_that_is_meant_does_not_warn(engine: Engine, verb: str, step: int | None) -> None:
    change: Any = getattr(engine, verb)
    old = engine.state("r1", step).get("messages")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert change("r1", values={"messages": Overwrite(["new"])})["messages"] == ["new", "reply"]
        assert change("r1", values={"messages": [*old, "new"]})["messages"] == [*old, "new", "reply"]
        assert change("r1")["messages"] == [*old, "reply"] if verb == "rerun" else True


@pytest.mark.parametrize("step", [0, 1, 9])
def test_an_unknown_step_names_the_steps_of_the_run(engine: Engine, step: int) -> None:
    engine.fork("r3", step=2, run_id="f")
    for run_id in ("r3", "f"):
        assert [checkpoint.step_id for checkpoint in engine.history(run_id)] == [2, 3]
        with pytest.raises(UnknownRunError, match=f"no step {step}; it has steps 2 to 3"):
            engine.state(run_id, step=step)


def test_arrays_are_compared_by_content(store: Store) -> None:
    import numpy as np

    class Sums(TypedDict, total=False):
        x: int
        total: Annotated[Any, operator.add]
        parts: Annotated[list[Any], operator.add]

    @node(output="total")
    def one(x: int) -> Any:
        return np.ones(3)

    engine = Engine(Graph([one], state=Sums), store=store)
    engine.run({"x": 1, "total": np.zeros(3), "parts": [np.zeros(2)]}, run_id="r")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for verb in (engine.fork, engine.rerun):
            step: Any = {"step": 0} if verb == engine.fork else {}
            verb("r", values={"total": np.zeros(3), "parts": [np.zeros(2), np.ones(2)]}, **step)
    with pytest.warns(GraphWarning, match="'parts'"):
        engine.fork("r", step=0, values={"parts": [np.ones(2)]})

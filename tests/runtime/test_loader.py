"""Graphs by name, as commands give them: ``MODULE:GRAPH``, or a function with what it is called with."""

from __future__ import annotations

import operator
import sys
from pathlib import Path
from types import ModuleType

import pytest

from clew import Graph, node
from clew.errors import DefinitionError
from clew.runtime.loader import load_graph


@pytest.fixture(autouse=True)
def flows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    module = ModuleType("flows")

    def make(name: str = "plain", *, limit: int = 1, more: object = None) -> Graph:
        def f(x: int) -> int:
            return x + limit

        return Graph([node(f, output="y")], name=name)

    class Family:
        pass

    Family.make = staticmethod(make)
    module.make, module.Family, module.graph = make, Family, make("ready")
    monkeypatch.setitem(sys.modules, "flows", module)
    return module


@pytest.mark.parametrize(
    "target, name, y",
    [
        ("flows", "ready", 2),
        ("flows:graph", "ready", 2),
        ("flows:make", "plain", 2),
        ("flows:make()", "plain", 2),
        ("flows:make('a:b', limit=10)", "a:b", 11),
        ("flows:make(limit = -3)", "plain", -2),
        ("flows:make('x', more=[1, {'a': (None, True)}])", "x", 2),
        ("flows:Family.make('inside')", "inside", 2),
    ],
)
def test_a_target_names_a_graph_or_says_how_it_is_made(target: str, name: str, y: int) -> None:
    graph = load_graph(target)
    assert (graph.name, graph.run(x=1)["y"]) == (name, y)


@pytest.mark.parametrize(
    "path",
    ["make(", "make(limit)", "make(__import__('os'))", "make()()", "make(**{'limit': 1})", "(make)(1)"],
)
def test_arguments_must_be_literals(path: str) -> None:
    with pytest.raises(DefinitionError, match="literals"):
        load_graph(f"flows:{path}")


def test_a_graph_that_is_made_already_takes_no_arguments() -> None:
    with pytest.raises(DefinitionError, match="'graph' is not a function"):
        load_graph("flows:graph(1)")


def test_arguments_that_the_function_does_not_take_are_rejected() -> None:
    with pytest.raises(DefinitionError, match="unexpected keyword argument"):
        load_graph("flows:make(size=1)")


def test_a_function_that_needs_arguments_says_where_to_give_them(flows: ModuleType) -> None:
    flows.needs = lambda size: flows.make(limit=size)
    for target in ("flows:needs", "flows:needs()", "flows:needs(1, 2)"):
        with pytest.raises(DefinitionError, match=r"; .*flows:needs\(size\)") as refused:
            load_graph(target)
        assert "loader.py" not in str(refused.value)
    assert load_graph("flows:needs(4)").run(x=1)["y"] == 5


def test_a_function_that_raises_says_where(flows: ModuleType) -> None:
    def fails() -> int:
        return int("x")

    flows.fails, flows.builtin = fails, operator.itemgetter("x")
    with pytest.raises(DefinitionError, match=r"\(test_loader.py, line"):
        load_graph("flows:fails")
    with pytest.raises(DefinitionError, match="TypeError") as refused:  # it has no signature, and no frame
        load_graph("flows:builtin(1)")
    assert "loader.py" not in str(refused.value)


def test_a_node_is_no_function_that_makes_a_graph(flows: ModuleType) -> None:
    """It would have been executed."""
    executed: list[str] = []

    @node(output="y")
    def pay() -> None:
        executed.append("paid")

    flows.pay = pay
    with pytest.raises(DefinitionError, match=r"flows:pay is a node, not a graph; put it into a clew.Graph"):
        load_graph("flows:pay")
    assert executed == []

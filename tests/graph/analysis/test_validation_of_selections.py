"""A gate that may select several targets, on its loop and off it."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from clew import END, Command, Graph, node, route
from clew.errors import GraphWarning


@node(output="n")
def count(n):
    return n + 1


@node(output="report")
def report(n):
    return n


@node(output="progress", eager=True)
def watch(n):
    return n


def choosing(*targets: Any, **options: Any) -> Any:
    return route(targets=list(targets), name="choose", **options)(lambda n: END)


def test_a_gate_with_targets_on_its_loop_and_off_it_is_a_warning():
    with pytest.warns(GraphWarning) as caught:
        Graph([count, choosing("count", "report", END, multi=True), report])
    assert len(caught) == 1
    text = str(caught[0].message)
    assert all(name in text for name in ("'choose'", "'count'", "'report'", "Send("))


@pytest.mark.parametrize(
    "nodes",
    [
        [count, choosing("count", "report", END), report],
        [count, choosing("count", END, multi=True), report],
        [count, choosing("count", "watch", END, multi=True), watch],
        [choosing("report", "count", END, multi=True), report, node(output="m", name="count")(lambda n: n)],
    ],
    ids=["one target", "all on the loop", "eager", "no loop"],
)
def test_other_gates_are_not(nodes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Graph(nodes)


@node(writes=("n",), goto=["again", "report"])
def step(n):
    return Command(update={"n": n + 1}, goto=["again", "report"] if n == 1 else "again" if n < 3 else [])


@node(output="m")
def again(n):
    return n


@node(goto=["step"])
def back(m):
    return Command(goto="step")


def test_a_command_that_selects_both_is_a_warning_when_it_does():
    graph = Graph([step, again, back, report], entry="step")
    with pytest.warns(GraphWarning) as caught:
        result = graph.run(n=0)
    assert "report" in result.never_ran
    assert len(caught) == 1
    text = str(caught[0].message)
    assert all(name in text for name in ("'step'", "'again'", "'report'", "Send("))


@pytest.mark.parametrize("chosen", ["again", ["again"], ["report"], ["again", END], []])
def test_a_command_that_selects_one_of_them_is_not(chosen):
    @node(writes=("n",), goto=["again", "report", END], name="step")
    def choosing_one(n):
        return Command(update={"n": n + 1}, goto=chosen if n < 2 else [])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Graph([choosing_one, again, back, report], entry="step").run(n=0).status == "completed"

"""A mapped subgraph fails, asks and resumes as a fan-out of the same subgraph does, in any order of completion."""

from __future__ import annotations

import operator
from random import Random
from typing import Annotated, Any, TypedDict

import pytest

from clew import Engine, Graph, Send, interrupt, node, route
from clew.testing import Stepper, random_order

RUN = "run"
BROKEN: set[int] = set()
CALLS: list[str] = []


def called(name: str, n: int) -> int:
    CALLS.append(f"{name} {n}")
    if n in BROKEN:
        raise ValueError(n)
    return n


@route(targets=["ask", "work", "deep"])
def sort(n: int) -> str:
    return ["ask", "work", "deep"][n % 3]


def question(n: int) -> str:
    return f"{n}?"


ask = interrupt(name="ask", output="made")(question)
work = node(name="work", output="made")(lambda n: called("work", n))
first = node(name="first", output="found")(lambda n: called("first", n))
ask_deep = interrupt(name="ask_deep", output="made")(lambda found: f"{found}?")
DEEP = Graph([first, ask_deep], name="deep")
ONE = Graph([sort, ask, work, DEEP.as_node()], name="one")


class Fan(TypedDict, total=False):
    ns: list[int]
    made: Annotated[list[Any], operator.add]


@route(targets=["one"])
def fan(ns: list[int]) -> list[Send]:
    return [Send("one", {"n": n}) for n in ns]


SENT = ONE.as_node(outputs=("made",), transform_output=lambda state: {"made": [state.get("made")]})
MAPPED = ONE.map_over("n")
KINDS = {
    "sent": (Graph([fan, SENT], state=Fan), "ns"),
    "mapped": (MAPPED, "n"),
    "mapped inside": (Graph([MAPPED.as_node("outer")]), "n"),
}


def paths(found: Any) -> list[str]:
    return [each.path.removeprefix("outer#0/") for each in found]


def played(kind: str, seed: int, on_error: Any) -> list[Any]:
    """Play a run to its end, one answer at a time; return what it reported in between."""
    rng = Random(seed)
    ns = rng.sample(range(60), rng.randint(1, 6))
    BROKEN.update(n for n in ns if rng.random() < 0.3)
    graph, name = KINDS[kind]
    run, choose = Stepper(Engine(graph, on_error=on_error), {name: ns}, run_id=RUN), random_order(seed)
    while run.running:
        run.complete(choose(run.running))
    result, engine, reports = run.finish(), run.engine, []
    while True:
        stored = engine.result(RUN)
        assert paths(stored.failures) == paths(result.failures)
        assert sorted(paths(stored.questions)) == sorted(paths(result.questions))
        reports.append((result.status, paths(result.failures), paths(result.questions), sorted(CALLS)))
        CALLS.clear()
        BROKEN.clear()
        if result.status == "completed":
            return [*reports, result.get("made") if on_error == "stop" else None]
        answers = {asked.path: asked.question for asked in result.questions[:1]}
        result = engine.resume(RUN, check=False, **({"answers": answers} if answers else {}))


@pytest.mark.parametrize("on_error", ["stop", "continue"])
@pytest.mark.parametrize("kind", ["mapped", "mapped inside"])
@pytest.mark.filterwarnings("ignore::clew.errors.GraphWarning")
def test_a_mapped_subgraph_does_what_a_fan_out_does(kind: str, on_error: Any) -> None:
    for seed in range(25):
        assert played(kind, seed, on_error) == played("sent", seed, on_error), seed

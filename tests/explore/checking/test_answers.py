"""Which questions a key of `answers=` names, and which keys are rejected."""

from __future__ import annotations

from typing import Any

import pytest

from clew import Context, Graph, interrupt, node
from clew.errors import DefinitionError
from clew.explore import Check, check_graph


def _graph(kind: str, given: list[Any]) -> Graph:
    @interrupt(output="ok")
    def ask(x: Any) -> str:
        return "ok?"

    @node(output="got")
    def got(ok: Any) -> Any:
        given.append(ok)
        return ok

    inner = Graph([ask, got], name="inner")
    if kind == "plain":
        return inner
    if kind == "subgraph":
        return Graph([inner.as_node("sub")], name="with_sub")

    @node(output="out")
    def outer(x: Any, ctx: Context) -> Any:
        return ctx.run(inner, {"x": x})["got"]

    @node(output="own")
    def own(x: Any, ctx: Context) -> Any:
        given.append(ctx.interrupt("own?"))
        return 1

    return Graph([outer if kind == "child" else own], name=kind)


def _answers(kind: str, key: str | None) -> set[Any]:
    given: list[Any] = []
    graph = _graph(kind, given)
    check_graph(graph, {"x": 1}, answers={key: ["yes"]} if key else {}, faults=(), progress=False)
    return set(given)


@pytest.mark.parametrize(
    "kind, key",
    [
        ("plain", "ask"),
        ("plain", "ask#0"),
        ("subgraph", "ask"),
        ("subgraph", "sub/ask"),
        ("subgraph", "sub#0/ask#0"),
        ("child", "ask"),
        ("child", "outer/ask"),
        ("child", "outer#0!0/ask#0"),
        ("own", "own"),
        ("own", "own#0"),
    ],
)
def test_a_key_names_questions_by_node_by_path_and_by_item(kind: str, key: str) -> None:
    assert _answers(kind, key) == {"yes"}


@pytest.mark.parametrize("kind", ["plain", "subgraph", "child", "own"])
def test_without_a_key_the_answers_are_true_and_false(kind: str) -> None:
    assert _answers(kind, None) == {True, False}


@pytest.mark.parametrize(
    "kind, key, known",
    [
        ("plain", "got", "'ask'"),
        ("plain", "nonsense", "'ask'"),
        ("plain", "ask#7", "'ask'"),
        ("plain", "ask/nonsense", "'ask'"),
        ("subgraph", "sub", "'sub/ask'"),
        ("subgraph", "sub/nonsense", "'sub/ask'"),
        ("subgraph", "sub/got", "'sub/ask'"),
        ("child", "outer", "'outer/ask'"),
        ("child", "nonsense", "'outer/ask'"),
        ("child", "outer/nonsense", "'outer/ask'"),
        ("child", "outer#7!0/nonsense#0", "'outer/ask'"),
        ("child", "rubbish!0/ask", "'outer'"),
    ],
)
def test_a_key_that_matches_nothing_is_rejected_with_the_known_ones(kind: str, key: str, known: str) -> None:
    with pytest.raises(DefinitionError, match=known):
        _answers(kind, key)


def test_the_most_exact_key_counts() -> None:
    given: list[Any] = []
    answers = {"ask": [1], "sub/ask": [2], "sub#0/ask#0": [3]}
    check_graph(_graph("subgraph", given), {"x": 1}, answers=answers, faults=(), progress=False)
    assert set(given) == {3}


def test_a_check_that_did_not_see_every_state_rejects_no_key_that_only_a_run_can_confirm() -> None:
    check = Check(_graph("child", []), {"x": 1}, answers={"outer/nonsense": [1]}, progress=False, max_steps=1)
    assert check.run().truncated

"""What the messages advise works: each names the call, the option or the value that helps."""

from __future__ import annotations

import operator
from typing import Annotated, TypedDict

import pytest

from clew import Engine, Graph, interrupt, node
from clew.errors import InputError, MutationError, OutputError, RunStateError, StoreError, UnknownValueError


class Chat(TypedDict):
    messages: Annotated[list[str], operator.add]
    last: list[str]


@interrupt(output="ok")
def ask(x: int) -> str:
    return "?"


@node(output="y")
def double(x: int) -> int:
    return 2 * x


def test_a_changed_list_with_a_reducer_is_not_to_be_returned_whole() -> None:
    @node(output="messages")
    def grow(messages: list[str]) -> list[str]:
        messages.append("new")
        return messages

    @node(output="last")
    def other(last: list[str]) -> list[str]:
        last.append("new")
        return last

    reduced = Graph([grow], state=Chat).run({"messages": ["old"]}, check=False).error
    plain = Graph([other], state=Chat).run({"messages": [], "last": ["old"]}, check=False).error
    assert isinstance(reduced, MutationError)
    assert isinstance(plain, MutationError)
    assert "[*" not in str(reduced)
    assert "[*last, more]" in str(plain)


@pytest.mark.parametrize("option", ["check", "max_concurrent_nodes", "store", "progress"])
def test_an_option_among_values_is_called_one(option: str) -> None:
    with pytest.raises(InputError, match=f"'{option}' is an option"):
        Graph([double]).run(x=1, **{option: 2})


def test_a_value_may_have_the_name_of_an_option() -> None:
    assert Graph([node(output="y", name="n")(lambda check: check)]).run(check=5)["y"] == 5


def test_a_thread_that_waits_needs_an_answer() -> None:
    @interrupt(output="messages")
    def more(messages: list[str]) -> str:
        return "?"

    engine = Engine(Graph([more], state=Chat))
    engine.run({"messages": ["a"]}, thread="t")
    with pytest.raises(RunStateError, match=r"answer=\.\.\."):
        engine.run({"messages": ["b"]}, thread="t")


def test_a_question_of_a_run_that_is_not_stored_cannot_be_answered() -> None:
    result = Graph([ask]).run(x=1)
    with pytest.raises(UnknownValueError, match="not stored") as caught:
        result["ok"]
    assert "engine.resume" not in str(caught.value)
    assert "engine.resume" not in result._repr_html_()
    stored = Engine(Graph([ask])).run({"x": 1})
    with pytest.raises(UnknownValueError, match=r"engine\.resume"):
        stored["ok"]


def test_a_turn_before_another_one_is_not_called_the_parent_of_a_fork() -> None:
    @node(output="messages")
    def reply(messages: list[str]) -> list[str]:
        return ["re"]

    engine = Engine(Graph([reply], state=Chat))
    for _ in range(3):
        engine.run({"messages": ["a"]}, thread="t")
    first, second, _ = [row.run_id for row in engine.runs()]
    with pytest.raises(StoreError, match="turn"):
        engine.delete(second)
    engine.fork(first, run_id="f")
    engine.run({"messages": []}, run_id="alone")
    engine.fork("alone")
    with pytest.raises(StoreError, match="fork"):
        engine.delete("alone")


def test_a_parameter_named_context_gets_a_hint() -> None:
    with pytest.raises(InputError, match="ctx: Context"):
        Graph([node(output="z", name="z")(lambda context: 1)]).run()


def test_types_have_the_right_article() -> None:
    with pytest.raises(OutputError, match="returned an int"):
        Graph([node(output=("a", "b"), name="two")(lambda x: 1)]).run(x=1)


def test_an_unknown_value_without_an_option_is_no_option() -> None:
    with pytest.raises(InputError) as caught:
        Graph([double]).run(z=1)
    assert "option" not in str(caught.value)

"""Gates, and what they decide with."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import GraphError
from clew.graph import END, Command, Node, Send, as_node, ifelse, interrupt, node, route
from tests.messages import mentions


def write(draft: str) -> str:
    return draft


@route(targets=["search", write, END], after="plan", description="Go on?")
def decide(draft: str) -> str:
    return "search" if draft else "write"


def test_a_route_chooses_among_its_targets() -> None:
    assert (decide.kind, decide.targets, decide.multi) == ("route", ("search", "write", "END"), False)


def test_a_gate_reads_values_and_writes_none() -> None:
    assert (decide.inputs, decide.outputs, decide.shape, decide.is_gate) == (("draft",), (), "none", True)


def test_a_gate_is_still_a_function() -> None:
    assert decide("x") == "search"


def test_a_gate_takes_the_options_of_a_node() -> None:
    assert (decide.after, decide.description) == (("plan",), "Go on?")


def test_a_gate_shows_where_it_leads() -> None:
    assert repr(decide) == "<route 'decide': draft -> search, write, END>"


def test_a_route_may_choose_several() -> None:
    assert route(targets=["a", "b"], multi=True)(write).multi


def test_a_route_without_targets_is_refused() -> None:
    with pytest.raises(GraphError) as caught:
        route(targets=[])(write)
    assert mentions(str(caught.value), "'write'", "END")


def test_a_target_listed_twice_is_refused() -> None:
    with pytest.raises(GraphError, match=r"'g'.*'END'"):
        route(targets=[END, "END"], name="g")(write)


def test_an_ifelse_chooses_between_two() -> None:
    @ifelse(when_true="publish", when_false=END)
    def good(score: float) -> bool:
        return score > 0.5

    assert (good.kind, good.targets, good.when) == ("ifelse", ("publish", "END"), ("publish", "END"))
    assert good.is_gate


def test_an_ifelse_that_leads_one_way_is_refused() -> None:
    with pytest.raises(GraphError) as caught:
        ifelse(when_true="a", when_false="a")(bool)  # the function is checked before the targets
    assert mentions(str(caught.value), "bool", "class")
    with pytest.raises(GraphError, match=r"'good'.*'a'"):
        ifelse(when_true="a", when_false="a", name="good")(lambda: True)


def test_an_interrupt_writes_the_answer() -> None:
    @interrupt(output="approved")
    def ask(draft: str) -> str:
        return f"Publish {draft}?"

    assert (ask.kind, ask.outputs, ask.shape, ask.is_gate) == ("interrupt", ("approved",), "one", False)


@pytest.mark.parametrize("name, output", [(None, "write"), ("approved", "approved")])
def test_an_interrupt_writes_a_value_of_its_own_name(name: str | None, output: str) -> None:
    assert interrupt(name=name)(write).outputs == (output,)


def test_an_interrupt_writes_a_value() -> None:
    with pytest.raises(GraphError, match="'two words'"):
        interrupt(output="two words")(write)


@pytest.mark.parametrize("target", ["write", write, as_node(write)])
def test_a_send_names_its_target(target: Any) -> None:
    assert Send(target, {"draft": "x"}) == Send("write", {"draft": "x"})


def test_a_send_may_have_no_payload() -> None:
    assert Send("write").payload == {}


@pytest.mark.parametrize("target", [END, "END"])
def test_a_send_to_the_end_is_refused(target: Any) -> None:
    with pytest.raises(GraphError) as caught:
        Send(target)
    assert mentions(str(caught.value), "Send", "END")


@pytest.mark.parametrize("payload", [[1], {1: 2}])
def test_a_payload_maps_names_to_values(payload: Any) -> None:
    with pytest.raises(GraphError) as caught:
        Send("write", payload)
    assert mentions(str(caught.value), "payload", "'write'", "1")


def test_a_command_writes_and_routes() -> None:
    command = Command(update={"a": 1}, goto="write")
    assert (command.update, command.goto) == ({"a": 1}, "write")


def test_a_command_may_do_neither() -> None:
    assert Command() == Command(update=None, goto=None)


def test_the_update_of_a_command_maps_names_to_values() -> None:
    with pytest.raises(GraphError, match=r"update.*3"):
        Command(update=3)


def test_gates_are_nodes() -> None:
    assert isinstance(decide, Node)
    assert node(goto=[decide])(write).targets == ("decide",)

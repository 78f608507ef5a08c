"""Return values as updates and decisions, and the errors for invalid ones."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, TypedDict

import pytest
from pydantic import BaseModel

from clew import END, Command, Engine, Graph, Overwrite, Send, ifelse, merge, node, route
from clew.errors import ClewError, DecisionError, OutputError
from clew.graph import Node


def run(*nodes: Any, values: dict[str, Any] | None = None, state: type | None = None, **options: Any) -> Any:
    return Graph(list(nodes), state=state).run(values or {"x": 1}, **options, check=False)


def message(result: Any, kind: type[ClewError]) -> str:
    assert result.status == "failed", result
    assert type(result.error) is kind
    return str(result.error)


def returning(value: Any, **options: Any) -> Node:
    """A node `work` that returns `value`."""
    return node(name="work", **options)(lambda x: value)


def gate(value: Any, *targets: Any, **options: Any) -> Node:
    return route(name="door", targets=list(targets), **options)(lambda x: value)


TARGET = node(name="target", output="y")(lambda x: x)
OTHER = node(name="other", output="z")(lambda x: x)


# ---- updates


def test_one_output_accepts_any_value() -> None:
    assert run(returning((1, 2), output="y"))["y"] == (1, 2)


def test_several_outputs_take_a_tuple() -> None:
    result = run(returning((1, 2), output=("lo", "hi")))
    assert (result["lo"], result["hi"]) == (1, 2)


class Pair(NamedTuple):
    lo: int
    hi: int


def test_several_outputs_take_a_named_tuple() -> None:
    assert run(returning(Pair(1, 2), output=("lo", "hi")))["hi"] == 2


def test_several_outputs_and_a_list() -> None:
    assert message(run(returning([1, 2], output=("lo", "hi"))), OutputError) == (
        "node 'work' returned a list, but declares output=('lo', 'hi'); return a tuple of 2"
    )


def test_several_outputs_and_a_tuple_of_another_length() -> None:
    assert message(run(returning((1, 2, 3), output=("lo", "hi"))), OutputError) == (
        "node 'work' returned a tuple of 3, but declares 2 outputs, ('lo', 'hi')"
    )


def test_a_partial_update_writes_what_it_holds() -> None:
    result = run(returning({"hi": 2}, writes=("lo", "hi")))
    assert result.values == {"x": 1, "hi": 2}


def test_no_update_writes_nothing() -> None:
    assert run(returning(None, writes=("lo", "hi"))).values == {"x": 1}


def test_an_update_that_is_no_mapping() -> None:
    assert message(run(returning(3, writes=("lo", "hi"))), OutputError) == (
        "node 'work' returned an int; return a dict of what it writes, any of ('lo', 'hi')"
    )


def test_an_update_of_a_name_that_is_not_declared() -> None:
    assert message(run(returning({"low": 3}, writes=("lo", "hi"))), OutputError) == (
        "node 'work' returned 'low', which it does not declare; did you mean 'lo'?"
    )


def test_a_renamed_output_may_be_given_by_either_name() -> None:
    for name in ("lo", "low"):
        renamed = returning({name: 1}, writes=("lo",)).rename(outputs={"lo": "low"})
        assert run(renamed)["low"] == 1


# ---- validation


class Model(BaseModel):
    x: int
    y: int = 0
    log: Annotated[list[int], operator.add] = []


def test_an_update_is_coerced_as_the_schema_says() -> None:
    assert run(returning("7", output="y"), state=Model)["y"] == 7


def test_an_update_that_the_schema_refuses() -> None:
    text = message(run(returning("seven", output="y"), state=Model), OutputError)
    assert text.startswith("node 'work' returned a value for 'y' that the state schema rejects: ")
    assert "seven" in text


# ---- cutoff


@dataclass
class Cut:
    x: int = 0
    y: int = 5
    log: Annotated[list[int], operator.add] = field(default_factory=list)


@pytest.mark.parametrize("given", [{"x": 1}, {"x": 1, "y": 4}])
def test_a_cutoff_does_not_drop_a_first_value(given: dict[str, int]) -> None:
    result = run(returning(5, output="y", cutoff=True), values=given, state=Cut)
    assert result.state.versions["y"] == 1


def test_a_cutoff_stops_an_equal_value() -> None:
    assert run(returning(4, output="y", cutoff=True), values={"x": 1, "y": 4}).state.versions["y"] == 0


def test_a_cutoff_may_have_its_own_idea_of_equality() -> None:
    close = lambda old, new: abs(old - new) < 2
    assert run(returning(5, output="y", cutoff=close), values={"x": 1, "y": 4})["y"] == 4
    assert run(returning(6, output="y", cutoff=close), values={"x": 1, "y": 4})["y"] == 6


def test_a_cutoff_stops_neither_reduced_values_nor_an_overwrite() -> None:
    result = run(returning({"log": [], "y": Overwrite(4)}, writes=("log", "y"), cutoff=True), state=Cut)
    assert (result.state.versions["log"], result.state.versions["y"], result["y"]) == (1, 1, 4)


# ---- reducers


class Reduced(TypedDict, total=False):
    x: int
    log: Annotated[list[int], operator.add]
    seen: Annotated[dict[str, int], merge]


def test_an_overwrite_bypasses_the_reducer() -> None:
    values = {"x": 1, "log": [1, 2]}
    assert run(returning([3], output="log"), values=values, state=Reduced)["log"] == [1, 2, 3]
    assert run(returning(Overwrite([3]), output="log"), values=values, state=Reduced)["log"] == [3]


def test_an_overwrite_without_reducer_is_its_value() -> None:
    assert run(returning(Overwrite(3), output="y"))["y"] == 3


def test_an_overwrite_among_several_updates_of_a_step() -> None:
    nodes = [
        node(name=f"n{i}", output="log")(lambda x, u=u: u) for i, u in enumerate([[1], Overwrite([2]), [3]])
    ]
    result = run(*nodes, state=Reduced)
    assert (result["log"], result.state.versions["log"]) == ([2, 3], 3)


# ---- ifelse


@pytest.mark.parametrize("value, ran", [(True, "y"), (False, "z")])
def test_an_ifelse_gate_chooses_by_a_bool(value: bool, ran: str) -> None:
    door = ifelse(name="door", when_true="target", when_false="other")(lambda x: value)
    assert run(door, TARGET, OTHER).values.keys() == {"x", ran}


@pytest.mark.parametrize(
    "value, kind", [(1, "an int"), ("yes", "a str"), (None, "a NoneType"), ([0], "a list")]
)
def test_an_ifelse_gate_that_returns_no_bool(value: Any, kind: str) -> None:
    door = ifelse(name="door", when_true="target", when_false=END)(lambda x: value)
    assert message(run(door, TARGET), DecisionError) == (
        f"gate 'door' returned {value!r}, {kind}; an ifelse gate returns True or False (wrap it in bool(...))"
    )


# ---- routes


@pytest.mark.parametrize("value", ["target", TARGET])
def test_a_gate_names_its_target_or_gives_the_node(value: Any) -> None:
    assert run(gate(value, "target", END), TARGET)["y"] == 1


@pytest.mark.parametrize("value", [None, [], ()])
def test_nothing_selects_nothing(value: Any) -> None:
    result = run(gate(value, "target", END), TARGET)
    assert (result.status, result.values, result.state.gate_decisions) == ("completed", {"x": 1}, {})


@pytest.mark.parametrize("value", [END, "END"])
def test_end_selects_nothing_and_terminates(value: Any) -> None:
    result = run(gate(value, "target", END), TARGET)
    assert (result.state.terminated, result.state.gate_decisions) == (True, {"door": "END"})


def test_a_target_that_was_not_declared() -> None:
    assert message(run(gate("targte", "target", END), TARGET), DecisionError) == (
        "gate 'door' chose 'targte', which is not one of its targets: target, END (did you mean 'target'?)"
    )


def test_a_choice_that_is_no_name_at_all() -> None:
    assert message(run(gate(42, "target", END), TARGET), DecisionError) == (
        "gate 'door' chose 42, which is not one of its targets: target, END"
    )


def test_a_long_choice_is_cut_short() -> None:
    text = message(run(gate({"k": "v" * 200}, "target"), TARGET), DecisionError)
    assert "vvv..., which is not" in text
    assert len(text) < 160


def test_several_targets_of_a_gate_that_may_choose_one() -> None:
    text = message(run(gate(["target", "other"], "target", "other"), TARGET, OTHER), DecisionError)
    assert text == (
        "gate 'door' returned 2 targets, 'target', 'other'; return one, or declare it with multi=True"
    )


def test_several_targets_of_a_gate_that_may_choose_many() -> None:
    result = run(gate(("target", "other"), "target", "other", multi=True), TARGET, OTHER)
    assert (result["y"], result["z"]) == (1, 1)
    assert result.state.gate_decisions == {"door": ("target", "other")}


def test_one_target_of_a_gate_that_may_choose_many_is_shown_as_a_tuple() -> None:
    assert run(gate("target", "target", multi=True), TARGET).state.gate_decisions == {"door": ("target",)}


# ---- Sends


def test_a_send_to_a_node_that_is_no_target() -> None:
    assert message(run(gate([Send("other", {})], "target"), TARGET, OTHER), DecisionError) == (
        "gate 'door' chose Send(target='other', payload={}), which is not one of its targets: target"
    )


def test_a_payload_with_a_name_that_its_target_does_not_read() -> None:
    assert message(run(gate([Send("target", {"xx": 1})], "target"), TARGET), DecisionError) == (
        "gate 'door' sends 'xx' to 'target', which does not read it; did you mean 'x'?"
    )


def test_a_payload_that_leaves_its_target_without_a_value_for_good() -> None:
    needy = node(name="target", output="y")(lambda p, q: p)
    assert message(run(gate([Send("target", {"p": 1})], "target"), needy), DecisionError) == (
        "gate 'door' sends ['p'] to 'target', which also needs 'q', and no node writes that; add it to the "
        "payload"
    )


def test_a_whole_state_reader_may_be_sent_any_name() -> None:
    @node(output="y")
    def target(state: Any) -> Any:
        return dict(state)

    assert run(gate([Send("target", {"anything": 2})], "target"), target)["y"] == {"x": 1, "anything": 2}


def test_a_gate_may_send_and_choose_at_once() -> None:
    result = run(gate([Send("target", {"x": 5}), "other"], "target", "other"), TARGET, OTHER)
    assert (result["y"], result["z"]) == (5, 1)
    assert result.state.gate_decisions == {"door": ("target", "other")}


# ---- Commands


def test_a_command_writes_and_routes() -> None:
    work = returning(Command(update={"w": 2}, goto="target"), writes=("w",), goto=["target", "other"])
    result = run(work, TARGET, OTHER)
    assert result.values == {"x": 1, "w": 2, "y": 1}


def test_a_command_may_go_to_several() -> None:
    work = returning(Command(goto=["target", "other"]), writes=(), goto=["target", "other"])
    assert run(work, TARGET, OTHER).values.keys() == {"x", "y", "z"}


def test_a_node_with_goto_may_return_a_plain_update_and_go_nowhere() -> None:
    assert run(returning({"w": 2}, writes=("w",), goto=["target"]), TARGET).values == {"x": 1, "w": 2}


def test_a_command_of_a_node_with_one_output_names_it() -> None:
    assert run(returning(Command(update={"y": 3}), output="y"))["y"] == 3


def test_a_command_that_goes_where_nothing_was_declared() -> None:
    assert message(run(returning(Command(goto="target"), output="w"), TARGET), DecisionError) == (
        "node 'work' returned a Command with goto='target', but declares no targets; add @node(goto=[...])"
    )


def test_a_command_that_goes_to_a_target_that_was_not_declared() -> None:
    work = returning(Command(goto="other"), writes=(), goto=["target"])
    assert message(run(work, TARGET, OTHER), DecisionError) == (
        "node 'work' chose 'other', which is not one of its targets: target"
    )


# ---- targets that select() cut off


def selected(door: Node) -> Any:
    return Graph([door, TARGET, OTHER]).select("y").run({"x": 1})


def test_a_choice_of_what_was_cut_off_selects_nothing() -> None:
    result = selected(gate("other", "target", "other"))
    assert (result.status, result.values) == ("completed", {"x": 1})
    assert selected(gate("target", "target", "other"))["y"] == 1


def test_a_send_to_what_was_cut_off_is_let_fall() -> None:
    result = selected(gate([Send("other", {"x": 3}), Send("target", {"x": 4})], "target", "other"))
    assert result.values == {"x": 1, "y": 4}


def test_a_command_to_what_was_cut_off_goes_nowhere() -> None:
    work = returning(Command(goto="other"), writes=(), goto=["other", "target"])
    assert selected(work).values == {"x": 1}


def test_an_ifelse_for_what_was_cut_off_selects_nothing() -> None:
    door = ifelse(name="door", when_true="target", when_false="other")(lambda x: x > 1)
    assert selected(door).values == {"x": 1}


# ---- both ways


@pytest.mark.parametrize("listeners", [(), (lambda event: None,)])
def test_a_wrong_return_value_is_not_tried_again(listeners: Any) -> None:
    """The node did what it does; the short way and the general one agree on that."""
    calls = []

    @node(output=("lo", "hi"), retry=3)
    def work(x: int) -> Any:
        calls.append(x)
        return 5

    result = Engine(Graph([work]), listeners=listeners).run({"x": 1}, check=False)
    assert (result.status, calls, result.metrics.total_retries) == ("failed", [1], 0)

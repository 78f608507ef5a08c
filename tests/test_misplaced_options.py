"""Mistakes with the verbs of an engine and with values: each message says where the option or the value belongs."""

from __future__ import annotations

import asyncio
import copy
import pickle
import re
from pathlib import Path
from typing import Any, TypedDict

import numpy
import pandas
import pytest

from clew import END, Context, Engine, Graph, RetryPolicy, ifelse, node
from clew.errors import (
    DecisionError,
    DefinitionError,
    EncodeError,
    GraphError,
    InputError,
    RunExistsError,
    RunStateError,
)
from clew.state import encode


@node(output="doubled")
def double(n: int) -> int:
    return 2 * n


def test_an_answer_to_a_completed_run_says_what_to_do() -> None:
    engine = Engine(Graph([double]))
    engine.run({"n": 1}, run_id="r")
    for answering in (lambda: engine.resume("r", answer=1), lambda: engine.handle("r").answer(1)):
        with pytest.raises(RunStateError, match="is completed") as raised:
            answering()
        assert "engine.fork('r', step=...)" in str(raised.value)


@pytest.mark.parametrize(
    "option, place",
    [
        ("force", "engine.rerun(run_id, force=[...])"),
        ("answer", "engine.resume(run_id, answer=...)"),
        ("step", "engine.fork(run_id, step=...)"),
        ("as_node", "engine.update(run_id, values, as_node=...)"),
        ("on_error", "Engine(graph, on_error=...)"),
    ],
)
def test_an_option_of_another_verb_names_that_verb(option: str, place: str) -> None:
    options: dict[str, Any] = {option: "x"}
    with pytest.raises(InputError, match=re.escape(place)):
        Engine(Graph([double])).run({"n": 1}, **options)


@pytest.mark.parametrize(
    "option, place",
    [
        ("progress", "engine.run(values, progress=...)"),
        ("thread", "engine.run(values, thread=...)"),
        ("rescue", "@node(rescue=...)"),
        ("retry", "@node(retry=...)"),
    ],
)
def test_an_option_of_a_run_or_a_node_is_not_one_of_the_engine(option: str, place: str) -> None:
    options: dict[str, Any] = {option: True}
    with pytest.raises(DefinitionError, match=re.escape(f"no option '{option}'; it belongs to")) as raised:
        Engine(Graph([double]), **options)
    assert place in str(raised.value)


@pytest.mark.parametrize(
    "option, meant",
    [("chek", "check"), ("runid", "run_id"), ("stop_befor", "stop_before"), ("attribute", "attributes")],
)
def test_a_misspelt_option_of_a_run_is_suggested(option: str, meant: str) -> None:
    options: dict[str, Any] = {option: "x"}
    with pytest.raises(InputError, match=f"did you mean '{meant}'"):
        Engine(Graph([double])).run({"n": 1}, **options)


@pytest.mark.parametrize("option, meant", [("max_step", "max_steps"), ("sed", "seed"), ("run_id", "run_id")])
def test_an_option_between_values_is_named(option: str, meant: str) -> None:
    inputs: dict[str, Any] = {"n": 1, option: 3}
    with pytest.raises(InputError, match=f"{meant}=..."):
        Graph([double]).run(**inputs)


@pytest.mark.parametrize(
    "value, instead",
    [
        (pandas.NaT, "None"),
        (pandas.NA, "None"),
        (pandas.Timestamp("2024-01-01"), ".to_pydatetime()"),
        (pandas.Timedelta("1D"), ".to_pytimedelta()"),
        (pandas.Period("2024"), "str"),
        (pandas.Interval(0, 1), "(left, right, closed)"),
    ],
)
def test_a_single_value_of_pandas_says_what_to_give_instead(value: Any, instead: str) -> None:
    with pytest.raises(EncodeError, match=re.escape(instead)) as raised:
        encode({"rows": [{"when": value}]}, at="state")
    assert str(raised.value).startswith("state.rows[0].when: ")


def test_a_numpy_bool_of_a_gate_is_named_as_such() -> None:
    @ifelse(when_true="double", when_false=END)
    def positive(n: int) -> Any:
        return numpy.int64(n) > 0

    with pytest.raises(DecisionError, match=r"a numpy\.bool"):
        Engine(Graph([positive, double])).run({"n": 1})


def test_a_list_of_retry_policies_counts_all_attempts() -> None:
    errors: list[Exception] = [ConnectionError(), ConnectionError(), ValueError(), ValueError()]
    policies = [
        RetryPolicy(max_attempts=6, base_delay=0, retry_on=(ConnectionError,)),
        RetryPolicy(max_attempts=3, base_delay=0),
    ]
    attempts: list[int] = []

    @node(output="out", retry=policies)
    def unstable(n: int, ctx: Context) -> int:
        attempts.append(ctx.attempt)
        raise errors[ctx.attempt]

    result = Engine(Graph([unstable])).run({"n": 1}, check=False)
    assert (type(result.error), attempts) == (ValueError, [0, 1, 2])


@pytest.mark.parametrize("option", ["run_id", "thread", "stop_before", "attributes"])
def test_an_option_of_stored_runs_names_the_engine(option: str) -> None:
    options: dict[str, Any] = {option: "x"}
    with pytest.raises(InputError, match=rf"Engine\(graph\)\.run\(values, {option}=\.\.\.\)"):
        Graph([double]).run({"n": 1}, **options)


def test_streaming_an_existing_run_says_how() -> None:
    engine = Engine(Graph([double]))
    engine.run({"n": 1}, run_id="r")
    with pytest.raises(RunExistsError, match="resume=True"):
        list(engine.stream(run_id="r"))
    with pytest.raises(InputError, match="missing"):
        list(engine.stream(run_id="new"))


def test_a_rescue_reads_inputs_of_its_node_only() -> None:
    with pytest.raises(GraphError, match="add the parameter to the node"):
        node(double.func, rescue=lambda error, state: 1)
    with pytest.raises(GraphError, match=r"instead of \*\* parameters"):
        node(double.func, rescue=lambda error, **more: 1)


class Chat(TypedDict, total=False):
    messages: list[str]


def test_a_node_that_returns_updates_is_shown_how_to_declare_them() -> None:
    def chat(state: Any) -> Any:
        return {"messages": ["hi"]}

    with pytest.raises(GraphError, match=r"@node\(writes="):
        Graph([chat], state=Chat)


def test_a_result_says_what_to_pickle_instead() -> None:
    result = Graph([double]).run(n=1)
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"dict\(result\.values\)"):
            duplicate(result)


def test_a_row_of_a_run_prints_no_bytes(tmp_path: Path) -> None:
    with Engine(Graph([double], name="g"), store=tmp_path / "runs.db") as engine:
        engine.run({"n": 1}, run_id="r")
        assert repr(engine.runs()) == "[<RunRow 'r' of 'g': completed>]"


def test_a_failure_in_a_group_says_where_in_a_child() -> None:
    def broken(n: int) -> int:
        raise ValueError(n)

    @node(output="y")
    async def outer(n: int, ctx: Context) -> int:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.run(Graph([broken]), {"n": n}))
        return 1

    failure = Engine(Graph([outer])).run({"n": 1}, check=False).failures[0]
    assert failure.inside is not None
    assert (failure.inside.node, failure.inside.path) == ("broken", "outer#0!0/broken#0")


@pytest.mark.parametrize("path", ["outer#0!0/double", "outer!0/double", "outer/double"])
def test_a_path_into_a_child_says_what_to_do_instead(path: str) -> None:
    inner = Graph([double], name="inner")

    @node(output="result")
    def outer(n: int, ctx: Context) -> Any:
        return ctx.run(inner, {"n": n})["doubled"]

    engine = Engine(Graph([outer]))
    engine.run({"n": 1}, run_id="r")
    for mistake in (
        lambda: engine.update("r", {"doubled": 1}, as_node=path),
        lambda: engine.run({"n": 1}, stop_before=path),
        lambda: engine.run({"n": 1}, stop_after=[path]),
    ):
        with pytest.raises(InputError, match=re.escape("fork(run_id, path='outer#0!0'")):
            mistake()
    (child,) = (row.run_id for row in engine.runs(children=True) if row.child_of)
    with pytest.raises(RunStateError, match="fork"):
        engine.update(child, {"doubled": 1}, as_node="double")

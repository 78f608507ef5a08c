"""Mistakes with the verbs of an engine and with values: each message says where the option or the value belongs."""

from __future__ import annotations

import re
from typing import Any

import numpy
import pandas
import pytest

from clew import END, Context, Engine, Graph, RetryPolicy, ifelse, node
from clew.errors import DecisionError, EncodeError, InputError, RunStateError
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

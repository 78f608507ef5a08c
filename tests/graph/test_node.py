"""Nodes: functions that read and write values."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any

import pytest

from clew.errors import GraphError
from clew.graph import END, Cache, Node, NodePolicy, RetryPolicy, SideEffectPolicy, as_node, node, route
from tests.messages import mentions


@node(output="docs")
def retrieve(query: str, k: int = 3) -> list[str]:
    """Find documents.

    As many as asked for.
    """
    return [query] * k


def test_a_node_reads_its_parameters_and_writes_its_output() -> None:
    assert (retrieve.name, retrieve.inputs, retrieve.outputs) == ("retrieve", ("query", "k"), ("docs",))


def test_what_has_no_default_is_required() -> None:
    assert retrieve.required == ("query",)


def test_a_node_is_still_a_function() -> None:
    assert retrieve("a", k=2) == ["a", "a"]


def test_the_bare_function_is_there_for_unit_tests() -> None:
    assert inspect.isfunction(retrieve.func)


def test_a_node_looks_like_its_function() -> None:
    assert (retrieve.__name__, retrieve.__module__) == ("retrieve", __name__)
    assert inspect.getdoc(retrieve) == inspect.getdoc(retrieve.func)
    assert inspect.signature(retrieve) == inspect.signature(retrieve.func)
    assert retrieve.__wrapped__ is retrieve.func


def test_a_node_shows_what_it_does() -> None:
    assert repr(retrieve) == "<node 'retrieve': query, k -> docs>"


def test_the_first_line_of_the_docstring_is_the_description() -> None:
    assert retrieve.description == "Find documents."


def test_a_description_can_be_given() -> None:
    assert node(retrieve.func, description="Look up.").description == "Look up."


def test_what_it_returns_is_known() -> None:
    assert retrieve.returns == list[str]


def test_a_bare_decorator_writes_a_value_of_the_functions_name() -> None:
    @node
    def answer(docs: list[str]) -> str:
        return docs[0]

    assert (answer.outputs, answer.shape) == (("answer",), "one")


def test_a_plain_function_becomes_such_a_node() -> None:
    def answer(docs: list[str]) -> str:
        return docs[0]

    made = as_node(answer)
    assert (made.name, made.outputs, made.kind) == ("answer", ("answer",), "node")


def test_a_node_stays_as_it_is() -> None:
    assert as_node(retrieve) is retrieve


def test_a_tuple_of_outputs_is_matched_in_order() -> None:
    made = node(lambda: (1, 2), name="bounds", output=("lo", "hi"))
    assert (made.outputs, made.shape) == (("lo", "hi"), "tuple")


@pytest.mark.parametrize("writes", [("errors", "plan"), ["errors", "plan"]])
def test_writes_is_a_partial_update(writes: Any) -> None:
    made = node(len, name="plan", writes=writes)
    assert (made.outputs, made.shape) == (("errors", "plan"), "update")


def test_writes_may_be_one_name() -> None:
    assert node(len, writes="errors").outputs == ("errors",)


def test_with_goto_only_a_node_writes_nothing() -> None:
    made = node(lambda: None, name="triage", goto=[retrieve, END])
    assert (made.outputs, made.shape, made.targets) == ((), "update", ("retrieve", "END"))


def test_with_goto_a_node_may_write() -> None:
    assert node(lambda: 1, name="triage", output="level", goto="retrieve").outputs == ("level",)


def test_the_whole_state_and_the_context_are_no_inputs() -> None:
    @node
    def plan(state, ctx, query): ...

    assert (plan.inputs, plan.reads_state) == (("query",), True)


def test_a_node_without_state_parameter_reads_no_state() -> None:
    assert not retrieve.reads_state


def test_a_node_is_no_gate() -> None:
    assert not retrieve.is_gate


def test_defaults_of_the_options() -> None:
    made = as_node(len)
    assert (made.after, made.eager, made.cache, made.cutoff) == ((), False, None, None)
    assert (made.policy, made.side_effects) == (NodePolicy(), SideEffectPolicy())


def test_options() -> None:
    effects = SideEffectPolicy(recordable=True)
    made = node(
        len, after=[retrieve, "plan"], eager=True, cache=True, retry=2, timeout=1.5, side_effects=effects
    )
    assert (made.after, made.eager, made.cache) == (("retrieve", "plan"), True, Cache())
    assert made.policy == NodePolicy(1.5, RetryPolicy(max_attempts=2))
    assert made.side_effects is effects


def test_a_node_may_run_after_one_other() -> None:
    assert node(len, after="plan").after == ("plan",)


@pytest.mark.parametrize("cutoff, kept", [(True, operator.eq), (False, None), (None, None), (max, max)])
def test_cutoff_is_equality_or_a_function(cutoff: Any, kept: Any) -> None:
    assert node(len, cutoff=cutoff).cutoff is kept


def test_a_cutoff_is_called() -> None:
    with pytest.raises(GraphError) as caught:
        node(len, cutoff=0.1)
    assert mentions(str(caught.value), "'len'", "True", "False", "0.1")


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(GraphError, match="retries"):
        node(len, retries=3)


def test_output_and_writes_contradict() -> None:
    with pytest.raises(GraphError) as caught:
        node(len, output="a", writes="b")
    assert mentions(str(caught.value), "'len'", "output=", "writes=")


def test_an_output_is_written_once() -> None:
    with pytest.raises(GraphError) as caught:
        node(len, output=("a", "a"))
    assert mentions(str(caught.value), "'len'", "'a'")


def test_an_output_is_an_identifier() -> None:
    with pytest.raises(GraphError, match="'two words'"):
        node(len, output="two words")


def test_an_output_cannot_be_the_state() -> None:
    with pytest.raises(GraphError, match="'state' is a reserved"):
        node(len, writes=["state"])


def test_goto_lists_a_target_once() -> None:
    with pytest.raises(GraphError, match=r"'len'.*'a'"):
        node(len, goto=["a", "a"])


def test_a_lambda_needs_a_name() -> None:
    func = lambda x: x
    with pytest.raises(GraphError) as caught:
        as_node(func)
    assert mentions(str(caught.value), repr(func), "name=")


def test_a_lambda_with_a_name_is_a_node() -> None:
    assert node(lambda x: x + 1, name="inc")(1) == 2


def test_a_partial_is_called_as_its_function() -> None:
    made = as_node(functools.partial(retrieve.func, k=1))
    assert (made.name, made("a")) == ("retrieve", ["a"])


def test_a_class_is_refused() -> None:
    class Doc: ...

    with pytest.raises(GraphError, match="Doc is a class"):
        as_node(Doc)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(GraphError, match="3 is not a function"):
        as_node(3)


def logged(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return call


@pytest.mark.parametrize(
    "wrap",
    [
        logged,
        lambda func: logged(logged(func)),
        functools.partial,
        lambda func: logged(functools.partial(func)),
    ],
)
def test_a_decorator_above_a_node_is_an_error(wrap: Callable[..., Any]) -> None:
    @node(output="total", retry=2)
    def compute(x: int) -> int:
        return x

    @route(targets=[END])
    def choose(x: int) -> Any:
        return END

    with pytest.raises(GraphError, match=r"wraps the node 'compute'.*put @node above"):
        node(wrap(compute), name="compute")
    with pytest.raises(GraphError, match=r"wraps the node 'choose'.*put @route above"):
        node(wrap(choose), name="choose")
    assert node(wrap(compute.func), name="compute").outputs == ("compute",)


def test_a_node_is_not_decorated_again() -> None:
    with pytest.raises(GraphError) as caught:
        node(retrieve, output="other")
    assert mentions(str(caught.value), "'retrieve'")


def test_rename_changes_names_and_not_the_function() -> None:
    made = retrieve.rename(inputs={"query": "question"}, outputs={"docs": "hits"}, name="lookup")
    assert (made.name, made.inputs, made.outputs) == ("lookup", ("question", "k"), ("hits",))
    assert (dict(made.writes), made.func) == ({"docs": "hits"}, retrieve.func)


def test_rename_leaves_the_node_as_it_was() -> None:
    retrieve.rename(outputs={"docs": "hits"})
    assert retrieve.outputs == ("docs",)


def test_a_renamed_node_is_renamed_by_its_new_names() -> None:
    once = retrieve.rename(inputs={"query": "a"}, outputs={"docs": "b"})
    twice = once.rename(inputs={"a": "c"}, outputs={"b": "d"})
    assert (twice.inputs, dict(twice.writes), twice.params[0].name) == (("c", "k"), {"docs": "d"}, "query")


def test_two_parameters_may_read_one_value() -> None:
    made = as_node(operator.sub).rename(inputs={"a": "x", "b": "x"})
    assert (made.inputs, made.required) == (("x",), ("x",))


def test_rename_of_an_unknown_input_suggests_the_nearest() -> None:
    with pytest.raises(GraphError, match=r"'retrieve'.*'qery'.*'query'"):
        retrieve.rename(inputs={"qery": "q"})


def test_rename_of_an_unknown_output_suggests_the_nearest() -> None:
    with pytest.raises(GraphError, match=r"'retrieve'.*'doc'.*'docs'"):
        retrieve.rename(outputs={"doc": "d"})


def test_rename_keeps_to_the_rules_of_names() -> None:
    with pytest.raises(GraphError, match="'a b'"):
        retrieve.rename(inputs={"query": "a b"})
    with pytest.raises(GraphError, match="'ctx' is a reserved"):
        retrieve.rename(outputs={"docs": "ctx"})
    with pytest.raises(GraphError, match="'/'"):
        retrieve.rename(name="a/b")


def test_rename_cannot_make_two_outputs_one() -> None:
    made = node(lambda: (1, 2), name="bounds", output=("lo", "hi"))
    with pytest.raises(GraphError, match=r"'bounds'.*'hi'"):
        made.rename(outputs={"lo": "hi"})


def test_nodes_are_compared_by_identity() -> None:
    assert retrieve.rename() != retrieve
    assert isinstance(retrieve.rename(), Node)

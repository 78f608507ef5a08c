"""Mistakes that people make, and the sentence that each of them gives."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from clew import END, Command, Context, Engine, Graph, GraphState, Send, ifelse, interrupt, node, route
from clew.errors import (
    ConflictError,
    DecisionError,
    DefinitionError,
    EncodeError,
    GraphError,
    InputError,
    MaxStepsError,
    MutationError,
    OutputError,
    RunStateError,
    StalledError,
    StateError,
)


@node(output="b")
def first(a: int) -> int:
    return a + 1


def raised(function: Any, *args: Any, **kwargs: Any) -> tuple[type, str]:
    """What a call raises."""
    try:
        function(*args, **kwargs)
    except Exception as error:
        return type(error), str(error)
    raise AssertionError("it raised nothing")


def failure(*nodes: Any, asynchronously: bool = False, **options: Any) -> tuple[type, str]:
    """What the run of some nodes on a=1 fails with."""
    graph = Graph(nodes)
    result = (
        asyncio.run(graph.arun({"a": 1}, **options, check=False))
        if asynchronously
        else graph.run({"a": 1}, **options, check=False)
    )
    return type(result.error), str(result.error)


# -- building a graph


def test_a_typo_in_a_target() -> None:
    @route(targets=["frist", END])
    def gate(a: int) -> Any:
        return END

    assert raised(Graph, [first, gate]) == (
        GraphError,
        "'gate' may go to 'frist', which is not a node of this graph; did you mean 'first'?",
    )


def test_two_nodes_that_write_the_same_value() -> None:
    @node(output="b")
    def second(a: int) -> int:
        return a

    assert raised(Graph, [first, second]) == (
        GraphError,
        "'b' is written by 'first' and 'second' in no defined order; order them with after=, "
        "let a gate choose between them, or give the value a reducer in the schema.",
    )


# -- starting a run


def test_an_input_that_is_missing() -> None:
    assert raised(Graph([first]).run) == (
        InputError,
        "'a' is missing: node 'first' reads it and nothing writes it; give it to the run, bind it, or give the "
        "parameter a default",
    )


def test_a_value_that_the_graph_does_not_have() -> None:
    assert raised(Graph([first]).run, a=1, c=2) == (
        InputError,
        "the graph has no value 'c'; known names: 'a', 'b'.",
    )


def test_a_typo_in_a_value() -> None:
    assert raised(Graph([first]).run, aa=1) == (InputError, "the graph has no value 'aa'; did you mean 'a'?")


@pytest.mark.parametrize(
    "option, value, essential",
    [
        ("max_workers", 3, "no option 'max_workers'; known names: 'max_concurrent_nodes'"),
        ("queue_dept", 3, "did you mean 'queue_depth'?"),
        ("max_concurrent_nodes", 0, "max_concurrent_nodes must be an int >= 1"),
        ("queue_depth", True, "queue_depth must be an int >= 1"),
        ("max_steps", 1.5, "max_steps must be an int >= 1"),
        ("on_error", "ignore", "on_error must be 'stop' or 'continue'"),
        ("on_conflict", "first", "on_conflict must be 'error' or 'last'"),
        ("default_node_timeout", 0, "default_node_timeout must be"),
        ("default_node_timeout", "9", "default_node_timeout must be"),
        ("executor", 5, "executor must be"),
        ("seed", "x", "seed must be"),
        ("check_mutation", "yes", "check_mutation must be"),
    ],
)
def test_an_option_that_is_unknown_or_invalid(option: str, value: Any, essential: str) -> None:
    error, message = raised(Graph([first]).run, {"a": 1}, **{option: value})
    assert error is DefinitionError
    assert essential in message


# -- what nodes return


def test_a_list_returned_for_a_pair() -> None:
    @node(output=("lo", "hi"))
    def bounds(a: int) -> Any:
        return [a, a + 1]

    assert failure(bounds) == (
        OutputError,
        "node 'bounds' returned a list, but declares output=('lo', 'hi'); return a tuple of 2",
    )


def test_a_tuple_of_the_wrong_length() -> None:
    @node(output=("lo", "hi"))
    def bounds(a: int) -> Any:
        return a, a + 1, a + 2

    assert failure(bounds) == (
        OutputError,
        "node 'bounds' returned a tuple of 3, but declares 2 outputs, ('lo', 'hi')",
    )


def test_a_key_that_was_not_declared() -> None:
    @node(writes=("plan", "errors"))
    def make(a: int) -> Any:
        return {"plann": a}

    assert failure(make) == (
        OutputError,
        "node 'make' returned 'plann', which it does not declare; did you mean 'plan'?",
    )


@pytest.mark.parametrize("asynchronously", [False, True])
@pytest.mark.parametrize("context", [False, True])
def test_a_forgotten_await(asynchronously: bool, context: bool) -> None:
    async def fetch(a: int) -> int:
        return a

    @node(output="b", name="get")
    def get(a: int) -> Any:
        return fetch(a)

    @node(output="b", name="get")
    def get_with_context(a: int, ctx: Context) -> Any:
        return fetch(a)

    kind, told = failure(get_with_context if context else get, asynchronously=asynchronously)
    assert kind is OutputError
    assert "declare the node with `async def` and write `await fetch(...)`" in told


def test_a_command_to_targets_that_were_not_declared() -> None:
    @node(output="c")
    def go(a: int) -> Any:
        return Command(goto="first")

    assert failure(first, go) == (
        DecisionError,
        "node 'go' returned a Command with goto='first', but declares no targets; add @node(goto=[...])",
    )


# -- what gates return


def test_something_true_that_is_not_true() -> None:
    @ifelse(when_true="first", when_false=END)
    def good(a: int) -> Any:
        return "yes"

    assert failure(first, good) == (
        DecisionError,
        "gate 'good' returned 'yes', a str; an ifelse gate returns True or False (wrap it in bool(...))",
    )


def test_a_target_that_the_gate_does_not_have() -> None:
    @route(targets=["first", END])
    def choose(a: int) -> str:
        return "frist"

    assert failure(first, choose) == (
        DecisionError,
        "gate 'choose' chose 'frist', which is not one of its targets: first, END (did you mean 'first'?)",
    )


def test_two_targets_from_a_gate_that_picks_one() -> None:
    @route(targets=["first", END])
    def choose(a: int) -> Any:
        return ["first", END]

    assert failure(first, choose) == (
        DecisionError,
        "gate 'choose' returned 2 targets, 'first', 'END'; return one, or declare it with multi=True",
    )


# -- what runs come to


def test_items_of_one_step_that_write_the_same_value() -> None:
    @route(targets=["part"])
    def split(a: int) -> list[Send]:
        return [Send("part", {"n": n}) for n in range(2)]

    @node(output="x")
    def part(n: int) -> int:
        return n

    assert failure(split, part) == (
        ConflictError,
        "part#0[0] and part#0[1] both wrote 'x' in one step; give 'x' a reducer (Annotated[..., clew.append] in "
        'the state schema), put one after the other, or run with on_conflict="last"',
    )


def test_a_node_that_is_selected_and_never_gets_its_inputs() -> None:
    @route(targets=["needs"])
    def choose(a: int) -> str:
        return "needs"

    @node(output="x")
    def needs(more: int) -> int:
        return more

    assert failure(choose, needs) == (
        StalledError,
        "the run cannot continue: 'needs' was selected but lacks 'more'; give these values, or let a node write them",
    )


def test_a_loop_that_never_ends() -> None:
    @node(output="n")
    def up(a: int) -> int:
        return a

    @route(targets=["up", END])
    def again(n: int) -> str:
        return "up"

    assert failure(up, again, max_steps=10) == (
        MaxStepsError,
        "the run did not settle in 10 steps; still due: 'up' (5 times); let a gate end the loop, or raise max_steps",
    )


# -- values


def test_a_mutable_default_works_and_is_fresh_for_each_run() -> None:
    @node(output="b")
    def collect(a: int, found: list[int] = []) -> list[int]:  # noqa: B006
        found.append(a)
        return found

    graph = Graph([collect])
    assert (graph.run(a=1)["b"], graph.run(a=2)["b"]) == ([1], [2])


def test_a_socket_in_the_state_is_fine_until_it_has_to_be_stored() -> None:
    with socket.socket() as client:

        @node(output="docs")
        def connect(a: int) -> list[Any]:
            return [a, {"client": client}]

        result = Graph([connect]).run(a=1)
        assert result["docs"][1]["client"] is client
        refused = (
            "docs[1].client: a socket cannot be stored; register it with clew.register_type, or keep it out of the "
            "state with Graph.bind"
        )
        for ask in (lambda: result.state.digest, result.state.to_checkpoint):
            kind, told = raised(ask)
            assert kind is EncodeError
            assert told.endswith(refused)


def test_a_node_that_edits_its_input() -> None:
    @node(output="n")
    def count(docs: list[int]) -> int:
        docs.append(1)
        return len(docs)

    for options in ({}, {"check_mutation": True}):
        error = Graph([count]).run({"docs": []}, **options, check=False).error
        assert isinstance(error, MutationError)
        assert "'docs' changed while node 'count' ran at count#0" in str(error)


# -- answers


@interrupt(output="fine")
def ask(a: int) -> str:
    return "sure?"


@pytest.mark.parametrize(
    "graph, answers, told",
    [
        (
            Graph([first]),
            {"answer": 1},
            "run 'r' is completed and has no open question; to change an answer, change the value with "
            "engine.update('r', ...), or start from a step before it with engine.fork('r', step=...)",
        ),
        (
            Graph([first]),
            {"answers": {"ask#0": 1}},
            "run 'r' has no question at 'ask#0'; open questions: none",
        ),
        (
            Graph([ask]),
            {"answers": {"aks#0": 1}},
            "run 'r' has no question at 'aks#0'; open questions: ask#0: 'sure?'",
        ),
        (
            Graph([ask]),
            {},
            "run 'r' waits for an answer (ask#0: 'sure?'); answer with engine.resume('r', answer=...)",
        ),
    ],
)
def test_an_answer_to_no_question_and_a_question_without_answer(
    graph: Graph, answers: Any, told: str
) -> None:
    engine = Engine(graph)
    engine.run({"a": 1}, run_id="r")
    assert raised(engine.resume, "r", **answers) == (RunStateError, told)


# -- habits from elsewhere


@pytest.mark.parametrize(
    "make, kind, told",
    [
        (
            lambda: node(outputs="b")(first.func),
            GraphError,
            "node 'first' has no option 'outputs'; did you mean 'output'?",
        ),
        (
            lambda: route(target="b")(first.func),
            GraphError,
            "gate 'first' has no option 'target'; did you mean 'targets'?",
        ),
        (
            lambda: route(targets=["b"], mult=True)(first.func),
            GraphError,
            "gate 'first' has no option 'mult'; did you mean 'multi'?",
        ),
        (lambda: Graph([None]), GraphError, "None is not a function, so it cannot be a node."),
        (
            lambda: GraphState([1]),
            StateError,
            "GraphState: expected a mapping of names to values, got type list",
        ),
        (
            lambda: Graph([first]).invoke({"a": 1}),
            AttributeError,
            "a graph has no 'invoke': call graph.run(values)",
        ),
        (
            lambda: Graph([first]).compile(),
            AttributeError,
            "a graph has no 'compile': call graph.run(values) directly, or use Engine(graph, store=...)",
        ),
        (lambda: Graph([first]).runn, AttributeError, "a graph has no 'runn'; did you mean 'run'?"),
        (lambda: Graph([first]).zzzzzz, AttributeError, "a graph has no 'zzzzzz'"),
    ],
)
def test_what_other_libraries_call_it(make: Any, kind: type, told: str) -> None:
    assert raised(make) == (kind, told)


@pytest.mark.parametrize(
    "returned, told", [(END, "END"), (Send("first", {}), "Send(target='first', payload={})")]
)
def test_a_node_that_routes(returned: Any, told: str) -> None:
    @node(output="c")
    def decide(a: int) -> Any:
        return returned

    for workers in (1, 8):
        result = Graph([first, decide]).run({"a": 1}, max_concurrent_nodes=workers, check=False)
        assert str(result.error) == (
            f"node 'decide' returned {told}, and only a gate decides what runs next; make it a gate with "
            "@route(targets=[...]), or return Command(update=..., goto=...) and declare @node(goto=[...])"
        )
    alone = Graph([decide]).run({"a": 1}, check=False)
    assert type(alone.error) is OutputError


def test_a_gate_that_returns_an_iterator() -> None:
    @route(targets=["first"])
    def spread(n: int) -> Any:
        return (Send("first", {"a": i}) for i in range(n))

    result = Graph([spread, first]).run({"n": 2}, check=False)
    assert (type(result.error), str(result.error)) == (
        DecisionError,
        "gate 'spread' returned a generator, which can be read only once; return a list",
    )


def test_a_single_node_can_be_forced_without_a_list() -> None:
    calls: list[int] = []

    def ask(a: int) -> int:
        calls.append(a)
        return a

    engine = Engine(Graph([ask]))
    engine.run({"a": 1}, run_id="r")
    engine.rerun("r", force="ask")
    assert calls == [1, 1]


def test_a_node_of_a_child_cannot_be_named() -> None:
    def inner(a: int) -> int:
        return a

    @node(output="b")
    def outer(a: int, ctx: Context) -> int:
        return ctx.run(Graph([inner]), {"a": a})["inner"]

    engine = Engine(Graph([outer]))
    engine.run({"a": 1}, run_id="r")
    for attempt in (
        lambda: engine.run({"a": 1}, stop_before=["outer/inner"]),
        lambda: engine.update("r", {"inner": 2}, as_node="outer#0!0/inner"),
    ):
        assert "child" in raised(attempt)[1]

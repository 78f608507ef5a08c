"""Wrong values for every parameter of every public name: each is refused, in words that name the parameter.

A row is a call with one parameter to fill in, a word (or one of several) that its refusal must have, and values that
are wrong for it. What is refused is refused at once: when
the thing is made, or when the verb is called, never in the middle of a run.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew import (
    END,
    Command,
    Context,
    Engine,
    Graph,
    GraphState,
    MemoryStore,
    NodePolicy,
    RetryPolicy,
    Send,
    SideEffectPolicy,
    SQLiteStore,
    ifelse,
    interrupt,
    node,
    register_type,
    route,
)
from clew.errors import ClewError
from clew.testing import Stepper, VirtualClock, run_in_order
from tests.messages import mentions

Row = tuple[str, str, Callable[[Any], Any], tuple[Any, ...]]
OBJECT = object()
NAN = float("nan")

NO_TEXT = (5, 1.5, OBJECT, b"x", ("x",), {})
NO_RUN = (5, 1.5, OBJECT, b"x", ("x",))
NO_BOOL = ("x", 3, 0, OBJECT, [])
NO_WHOLE = ("x", 1.5, OBJECT, True, [1])
NO_COUNT = (*NO_WHOLE, 0, -1)
NO_SECONDS = ("x", OBJECT, True, 0, -1, NAN, [1])
NO_DELAYS = ("x", OBJECT, True, -1, NAN, [1])
NO_FUNCTION = (5, "x", OBJECT, [])
NO_MAPPING = (5, 0, "x", OBJECT, [1], {1, 2})
NO_NAMES = (5, OBJECT, {"x": 1}, (5,), [None])


def f(x: int) -> int:
    return x + 1


F = node(f, output="y")
GRAPH = Graph([F], name="inner")
ASKS = Graph([interrupt(name="ask", output="ok")(lambda x: "?")])


def made(decorator: Any, **options: Any) -> Callable[[Any], Any]:
    """The decorator, applied with one more option."""
    (name,) = [key for key, value in options.items() if value is ...]
    return lambda value: decorator(**{**options, name: value})(f)


def ran() -> Engine:
    engine = Engine(GRAPH)
    engine.run({"x": 1}, run_id="r")
    return engine


def asked() -> Engine:
    engine = Engine(ASKS)
    engine.run({"x": 1}, run_id="r")
    return engine


def in_a_node(use: Callable[[Context, Any], Any]) -> Callable[[Any], Any]:
    """Use the context of a node that runs; what that raises."""

    def call(value: Any) -> Any:
        def uses(x: int, ctx: Context) -> int:
            use(ctx, value)
            return x

        result = Engine(Graph([node(uses, output="y")]), clock=VirtualClock()).run({"x": 1}, check=False)
        if result.error is not None:
            raise result.error

    return call


def options_of(what: str, decorator: Any, **needed: Any) -> list[Row]:
    """The options that nodes of all kinds have."""
    rows: list[Row] = [
        ("name", NO_TEXT),
        ("after", NO_NAMES),
        ("eager", NO_BOOL),
        ("retry", ("x", 0, -1, OBJECT, 1.5, True)),
        ("timeout", NO_SECONDS),
        ("policy", (5, "x", OBJECT, {})),
        ("side_effects", (True, "x", 5, {})),
        ("idempotency_key", (5, "x", OBJECT)),
        ("cache", NO_BOOL),
        ("description", NO_TEXT),
    ]
    return [(what, name, made(decorator, **needed, **{name: ...}), wrong) for name, wrong in rows]


NODES: list[Row] = [
    *options_of("node", node),
    (
        "node",
        "output|name for a value|name of a value|is a reserved",
        made(node, output=...),
        (*NO_NAMES, "not a name", ["state"], ""),
    ),
    ("node", "writes|name for a value", made(node, writes=...), (*NO_NAMES, "not a name")),
    ("node", "goto", made(node, goto=...), (*NO_NAMES, [])),
    ("node", "cutoff", made(node, cutoff=...), (5, "x", OBJECT)),
    ("node", "func|is a class|is already a node", node, (5, "x", [f], int, F)),
    *options_of("route", route, targets=[END]),
    ("route", "target", made(route, targets=...), (*NO_NAMES, [], {"a"}, ["a", "a"])),
    ("route", "multi", made(route, targets=[END], multi=...), NO_BOOL),
    *options_of("ifelse", ifelse, when_true="a", when_false=END),
    ("ifelse", "when_true", made(ifelse, when_true=..., when_false=END), (*NO_NAMES, END)),
    ("ifelse", "when_false", made(ifelse, when_true="a", when_false=...), (*NO_NAMES, "a")),
    *options_of("interrupt", interrupt),
    (
        "interrupt",
        "output|name for a value|name of a value|is a reserved",
        made(interrupt, output=...),
        (5, OBJECT, ("x",), "not a name", "state"),
    ),
    ("rename", "inputs|rename", lambda v: F.rename(inputs=v), (*NO_MAPPING, {"x": 5}, {"nope": "z"})),
    ("rename", "outputs|rename", lambda v: F.rename(outputs=v), (*NO_MAPPING, {"y": 5}, {"nope": "z"})),
    ("rename", "name", lambda v: F.rename(name=v), NO_TEXT),
    ("Send", "Send", Send, (5, OBJECT, END, "END", None)),
    ("Send", "payload", lambda v: Send("f", v), (*NO_MAPPING, {1: 2}, None)),
    ("Command", "update", lambda v: Command(update=v), NO_MAPPING),
    ("Command", "goto", lambda v: Command(goto=v), (5, OBJECT, 1.5, [5], {"f"}, {"f": 1})),
]

POLICIES: list[Row] = [
    ("RetryPolicy", "max_attempts", lambda v: RetryPolicy(max_attempts=v), NO_COUNT),
    ("RetryPolicy", "base_delay", lambda v: RetryPolicy(base_delay=v), NO_DELAYS),
    ("RetryPolicy", "max_delay", lambda v: RetryPolicy(max_delay=v), NO_SECONDS),
    ("RetryPolicy", "retryable", lambda v: RetryPolicy(retryable=v), NO_FUNCTION),
    ("NodePolicy", "timeout", lambda v: NodePolicy(timeout=v), NO_SECONDS),
    ("NodePolicy", "retry_policy", lambda v: NodePolicy(retry_policy=v), (5, "x", OBJECT)),
    ("NodePolicy", "idempotency_key_func", lambda v: NodePolicy(idempotency_key_func=v), NO_FUNCTION),
    ("SideEffectPolicy", "recordable", lambda v: SideEffectPolicy(recordable=v), NO_BOOL),
    ("SideEffectPolicy", "requires_idempotency", lambda v: SideEffectPolicy(requires_idempotency=v), NO_BOOL),
]

GRAPHS: list[Row] = [
    ("Graph", "node", Graph, (5, OBJECT, F, GRAPH, "f", [5], [None], ["f"], {"f": f}, f)),
    ("Graph", "name", lambda v: Graph([F], name=v), NO_TEXT),
    ("Graph", "state", lambda v: Graph([F], state=v), (5, "x", OBJECT, {}, int)),
    ("Graph", "edge", lambda v: Graph([F], edges=v), (5, OBJECT, "ff", [5], [("f",)], ["ff"], [("f", 5)])),
    ("Graph", "entry", lambda v: Graph([F], entry=v), (5, OBJECT, [5], {"f"}, "nope")),
    ("Graph", "strict_types", lambda v: Graph([F], strict_types=v), NO_BOOL),
    ("as_node", "name", lambda v: GRAPH.as_node(v), NO_TEXT),
    ("as_node", "input", lambda v: GRAPH.as_node(inputs=v), (5, OBJECT, "x", (5,), ("nope",))),
    (
        "as_node",
        "output|name for a value",
        lambda v: GRAPH.as_node(outputs=v),
        (5, OBJECT, "y", (5,), ("nope",)),
    ),
    ("as_node", "transform_input", lambda v: GRAPH.as_node(transform_input=v), NO_FUNCTION),
    ("as_node", "transform_output", lambda v: GRAPH.as_node(transform_output=v), NO_FUNCTION),
    ("as_node", "timeout", lambda v: GRAPH.as_node(timeout=v), NO_SECONDS),
    ("as_node", "nope", lambda v: GRAPH.as_node(nope=v), (1,)),
    ("map_over", "map_over()|to map over", GRAPH.map_over, (5, OBJECT, "nope", ["x"])),
    ("map_over", "mode", lambda v: GRAPH.map_over("x", mode=v), (5, "nope", None)),
    ("map_over", "name", lambda v: GRAPH.map_over("x", name=v), NO_TEXT),
    ("map_over", "nope", lambda v: GRAPH.map_over("x", nope=v), (1,)),
    ("bind", "nope", lambda v: GRAPH.bind(nope=v), (1,)),
    ("select", "select()|cannot be selected", GRAPH.select, (5, OBJECT, "nope", ["y"])),
    ("draw", "format", GRAPH.draw, (5, "png", None)),
    ("Graph.run", "values", GRAPH.run, NO_MAPPING),
    ("Graph.run", "nope", lambda v: GRAPH.run({"x": 1}, nope=v), (1,)),
    ("Graph.arun", "values", lambda v: asyncio.run(GRAPH.arun(v)), NO_MAPPING),
]

ENGINES: list[Row] = [
    ("Engine", "graph", Engine, (5, "x", None, [F], F)),
    ("Engine", "store", lambda v: Engine(GRAPH, store=v), (5, OBJECT, [])),
    ("Engine", "listeners", lambda v: Engine(GRAPH, listeners=v), (5, OBJECT, [5], "x", print, {"a": print})),
    ("Engine", "max_concurrent_nodes", lambda v: Engine(GRAPH, max_concurrent_nodes=v), NO_COUNT),
    ("Engine", "queue_depth", lambda v: Engine(GRAPH, queue_depth=v), NO_COUNT),
    ("Engine", "max_steps", lambda v: Engine(GRAPH, max_steps=v), NO_COUNT),
    ("Engine", "default_node_timeout", lambda v: Engine(GRAPH, default_node_timeout=v), NO_SECONDS),
    ("Engine", "seed", lambda v: Engine(GRAPH, seed=v), NO_WHOLE),
    ("Engine", "executor", lambda v: Engine(GRAPH, executor=v), (5, "x", OBJECT)),
    ("Engine", "on_error", lambda v: Engine(GRAPH, on_error=v), (5, "x", None, ["stop"])),
    ("Engine", "on_conflict", lambda v: Engine(GRAPH, on_conflict=v), (5, "x", None, ["last"])),
    ("Engine", "on_ambiguous", lambda v: Engine(GRAPH, on_ambiguous=v), (5, "x", None, ["ask"])),
    ("Engine", "durability", lambda v: Engine(GRAPH, durability=v), (5, "x", None, ["sync"])),
    ("Engine", "check_mutation", lambda v: Engine(GRAPH, check_mutation=v), NO_BOOL),
    ("Engine", "import_string", lambda v: Engine(GRAPH, import_string=v), (*NO_TEXT, "shop")),
    ("Engine", "lease", lambda v: Engine(GRAPH, lease=v), NO_SECONDS),
    ("Engine", "import_string", lambda v: Engine(GRAPH, import_string=v), NO_TEXT),
    ("Engine", "clock", lambda v: Engine(GRAPH, clock=v), (5, "x", None, OBJECT, VirtualClock)),
    ("Engine", "nope", lambda v: Engine(GRAPH, nope=v), (1,)),
    ("run", "values", lambda v: Engine(GRAPH).run(v), NO_MAPPING),
    ("run", "value|give it to the run", lambda v: Engine(GRAPH).run(v), ({5: 1}, {"nope": 1}, {})),
    ("run", "run_id", lambda v: Engine(GRAPH).run({"x": 1}, run_id=v), (*NO_TEXT, "")),
    ("stream", "values", lambda v: Engine(GRAPH).stream(v), NO_MAPPING),
    ("stream", "run_id", lambda v: Engine(GRAPH).stream({"x": 1}, run_id=v), NO_TEXT),
    ("resume", "run id", lambda v: ran().resume(v), NO_RUN),
    ("resume", "answers", lambda v: asked().resume("r", answers=v), NO_MAPPING),
    ("resume", "accept_changes", lambda v: asked().resume("r", answer=1, accept_changes=v), NO_BOOL),
    ("fork", "run id", lambda v: ran().fork(v), NO_RUN),
    ("fork", "step|label", lambda v: ran().fork("r", step=v), (1.5, OBJECT, "nope", True, -1, 9)),
    ("fork", "value", lambda v: ran().fork("r", values=v), (*NO_MAPPING, {5: 1})),
    ("fork", "run_id", lambda v: ran().fork("r", run_id=v), NO_TEXT),
    ("rerun", "run id", lambda v: ran().rerun(v), NO_RUN),
    ("rerun", "values", lambda v: ran().rerun("r", values=v), (*NO_MAPPING, {5: 1})),
    ("rerun", "run_id", lambda v: ran().rerun("r", run_id=v), NO_TEXT),
    ("replay", "run id", lambda v: ran().replay(v), NO_RUN),
    ("replay", "strict", lambda v: ran().replay("r", strict=v), NO_BOOL),
    ("history", "run id", lambda v: ran().history(v), NO_RUN),
    ("history", "nested", lambda v: ran().history("r", nested=v), NO_BOOL),
    ("state", "run id", lambda v: ran().state(v), NO_RUN),
    ("state", "step|label", lambda v: ran().state("r", step=v), (1.5, OBJECT, "nope", True, -1, 9)),
    ("checkpoint", "run id", lambda v: ran().label_checkpoint(v, label="a"), NO_RUN),
    ("checkpoint", "label", lambda v: ran().label_checkpoint("r", label=v), (*NO_TEXT, "")),
    ("why", "run id", lambda v: ran().why(v, "y"), NO_RUN),
    ("why", "target|no node or value", lambda v: ran().why("r", v), (*NO_TEXT, "nope")),
    ("diff", "run id", lambda v: ran().diff("r", v), NO_RUN),
    ("result", "run id", lambda v: ran().result(v), NO_RUN),
    ("cancel", "run id", lambda v: ran().cancel(v), NO_RUN),
    ("delete", "run id", lambda v: ran().delete(v), NO_RUN),
    ("scheduler", "run id", lambda v: ran().scheduler_state(v), NO_RUN),
    ("export", "run id", lambda v: ran().export_run(v), NO_RUN),
    ("runs", "status", lambda v: ran().runs(status=v), (*NO_TEXT, "foo")),
    ("prune", "keep", lambda v: ran().prune(keep=v), ("x", 1.5, OBJECT, True, -1)),
    ("run", "progress", lambda v: ran().run({"x": 1}, progress=v), NO_BOOL),
    ("resume", "progress", lambda v: ran().resume("r", progress=v), NO_BOOL),
    ("fork", "progress", lambda v: ran().fork("r", progress=v), NO_BOOL),
    ("rerun", "progress", lambda v: ran().rerun("r", progress=v), NO_BOOL),
    ("run", "timeout", lambda v: ran().run({"x": 1}, thread="t", timeout=v), NO_DELAYS),
    ("run", "drop", lambda v: ran().run({"x": 1}, thread="t", drop=v), NO_BOOL),
    ("stream", "resume", lambda v: list(ran().stream(run_id="r", resume=v)), NO_BOOL),
]

CONTEXTS: list[Row] = [
    ("sleep", "seconds", in_a_node(lambda ctx, v: ctx.sleep(v)), ("x", OBJECT, -1, NAN, None)),
    ("record", "name", in_a_node(lambda ctx, v: ctx.record(v, f, 1)), (*NO_TEXT, "", "clew.x")),
    ("record", "function", in_a_node(lambda ctx, v: ctx.record("n", v)), NO_FUNCTION),
    ("emit", "name", in_a_node(lambda ctx, v: ctx.emit(v)), NO_TEXT),
]

STATES: list[Row] = [
    ("GraphState", "value", GraphState, (*NO_MAPPING, {5: 1})),
    ("set", "name", lambda v: GraphState().set(v, 1), NO_TEXT),
    ("set_multiple", "values|name", lambda v: GraphState().set_multiple(v), (*NO_MAPPING, {5: 1})),
    ("get", "no value", lambda v: GraphState().get(v), (*NO_TEXT[:3], "nope")),
    ("get_version", "no value", lambda v: GraphState().get_version(v), (*NO_TEXT[:3], "nope")),
    ("record_execution", "name", lambda v: GraphState().record_execution(v, {}, 0, 0.0), NO_TEXT),
    (
        "record_execution",
        "input_versions",
        lambda v: GraphState().record_execution("n", v, 0, 0.0),
        NO_MAPPING,
    ),
    ("record_gate_decision", "name", lambda v: GraphState().record_gate_decision(v, "a"), NO_TEXT),
    ("record_gate_decision", "gate", lambda v: GraphState().record_gate_decision("g", v), (5, OBJECT, (5,))),
    ("from_checkpoint", "checkpoint", GraphState.from_checkpoint, (5, "x", OBJECT, b"", b"x")),
    ("register_type", "class|built in", register_type, (5, "x", OBJECT, int, f)),
]

STORES: list[Row] = [
    ("MemoryStore", "keep", lambda v: MemoryStore(keep=v), ("x", 1.5, OBJECT, True, -1)),
    ("SQLiteStore", "path", SQLiteStore, (5, OBJECT, None, b"x")),
    ("SQLiteStore", "synchronous", lambda v: SQLiteStore("runs.db", synchronous=v), (5, "x", None)),
    ("SQLiteStore", "timeout", lambda v: SQLiteStore("runs.db", timeout=v), ("x", OBJECT, -1, True, NAN)),
]

TOOLS: list[Row] = [
    ("VirtualClock", "start", VirtualClock, ("x", OBJECT, NAN)),
    ("VirtualClock.advance", "advance", VirtualClock().advance, ("x", OBJECT, NAN)),
    ("Stepper", "graph", Stepper, (5, "x", None)),
    ("Stepper", "workers", lambda v: Stepper(GRAPH, {"x": 1}, workers=v), NO_COUNT),
    ("Stepper.complete", "no item", lambda v: Stepper(GRAPH, {"x": 1}).complete(v), (5, "nope")),
    ("Stepper.fail", "error", lambda v: Stepper(GRAPH, {"x": 1}).fail("f#0", v), (5, "x", ValueError)),
    ("run_in_order", "choose", lambda v: run_in_order(GRAPH, {"x": 1}, choose=v), NO_FUNCTION),
]

ROWS = [*NODES, *POLICIES, *GRAPHS, *ENGINES, *CONTEXTS, *STATES, *STORES, *TOOLS]
CASES = [(*row[:3], wrong) for row in ROWS for wrong in row[3]]


def identity(case: tuple[Any, ...]) -> str:
    return f"{case[0]}-{case[1]}-{re.sub(' at 0x.*', '', repr(case[3]))}"


@pytest.mark.parametrize("case", CASES, ids=identity)
def test_a_wrong_value_is_refused_and_its_parameter_named(
    case: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    what, name, call, wrong = case
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ClewError, TypeError, ValueError)) as caught:
        call(wrong)
    text = str(caught.value)
    assert any(word in text for word in name.split("|")), f"{what}: {text}"
    frame = caught.traceback[-1]
    assert "clew" in str(frame.path), f"{what}: {text} comes from {frame.path}"


# -- decorators without parentheses


def test_an_interrupt_needs_no_parentheses() -> None:
    @interrupt
    def approved(x: int) -> str:
        return f"is {x} right?"

    engine = Engine(Graph([approved]))
    asked = engine.run({"x": 1}, run_id="r")
    assert asked.questions[0].question == "is 1 right?"
    assert engine.resume("r", answer=True)["approved"] is True


def test_gates_take_their_function_directly() -> None:
    assert route(f, targets=["a", END]).targets == ("a", "END")
    assert ifelse(f, when_true="a", when_false=END).when == ("a", "END")
    assert interrupt(f, output="answer").outputs == ("answer",)


@pytest.mark.parametrize(
    "use, told",
    [
        (route, "@route(targets=[...])"),
        (route(multi=True), "@route(targets=[...])"),
        (
            ifelse,
            "@ifelse(when_true=..., when_false=...)",
        ),
        (
            ifelse(when_true="a"),
            "@ifelse(when_true=..., when_false=...)",
        ),
    ],
)
def test_a_gate_without_targets_says_how_to_give_them(use: Any, told: str) -> None:
    with pytest.raises(ClewError) as caught:
        use(f)
    assert mentions(str(caught.value), "gate 'f'", told)


def test_what_is_right_is_taken() -> None:
    """The other side of the table: the same parameters with values that are meant."""
    policy = SideEffectPolicy(recordable=True)
    good = node(f, output="y", eager=True, cache=True, description="adds", retry=2, side_effects=policy)
    graph = Graph([good], name="a graph", strict_types=True, edges=iter([]))
    sub = graph.as_node(
        "sub",
        inputs=iter(["x"]),
        outputs={"y": 1}.keys(),
        transform_input=dict,
        transform_output=lambda s: {"y": s["y"]},
    )
    engine = Engine(
        Graph([sub]), listeners=iter([]), clock=VirtualClock(), seed=3, lease=1, import_string="a:b"
    )
    assert engine.run({"x": 1}, run_id="r")["y"] == 2
    assert [row.run_id for row in engine.runs(status="completed")] == ["r"]
    assert Command(goto=[Send("f", {}), END, good]).goto[1] is END

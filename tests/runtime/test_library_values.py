"""Arrays and frames as values of runs, on each store: nothing that compares, prints or restores them raises."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import (
    END,
    Context,
    DependencyGraph,
    Engine,
    Graph,
    GraphState,
    MemoryStore,
    Send,
    append,
    interrupt,
    node,
    register_type,
    route,
    schema,
)
from clew.errors import MutationError
from clew.explore import Action, Agent, Invariant, World, check_graph
from clew.state import LARGE, equal
from clew.stores import Store
from tests.explore.models import Box
from tests.store_fixtures import every_store

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

ROWS = LARGE // 8 + 100  # more than 64 KiB: separate contents
MAKERS: dict[str, Any] = {
    "small array": lambda: np.arange(6.0).reshape(2, 3),
    "array of one": lambda: np.array([1.0]),
    "empty array": lambda: np.zeros((0, 2)),
    "large array": lambda: np.arange(ROWS),
    "frame": lambda: pd.DataFrame({"a": [1.0, np.nan], "b": ["x", None]}),
    "large frame": lambda: pd.DataFrame({"a": np.arange(ROWS)}),
    "series": lambda: pd.Series([1, 2], name="s"),
    "polars": lambda: pl.DataFrame({"a": [1, None]}),
    "large polars": lambda: pl.DataFrame({"a": np.arange(ROWS)}),
    "table": lambda: pa.table({"a": [1, None]}),
    "array of arrow": lambda: pa.array([1, None]),
}


store = every_store


class Data(TypedDict, total=False):
    given: Any
    made: Any
    nested: Any
    rows: Annotated[list[Any], append]
    best: Annotated[list[Any], lambda current, update: [update, *current]]  # its deltas are stored


@dataclass(frozen=True)
class Fit:
    weights: Any


register_type(Fit, name="tests.library_values.Fit")


def a_graph(make: Any) -> Graph:
    @node(output="made")
    def produce(given: Any) -> Any:
        return make()

    @node(output=("nested", "rows", "best"))
    def combine(made: Any, given: Any) -> Any:
        return {"deep": [made, (given,)], "fit": Fit(made)}, made, given

    @route(targets=["each", END])
    def spread(nested: Any) -> Any:
        return [Send("each", {"part": nested["deep"][0]}), Send("each", {"part": nested["deep"][1][0]})]

    @node(output="rows")
    def each(part: Any) -> Any:
        return part

    return Graph([produce, combine, spread, each], state=Data, name="data")


@pytest.mark.parametrize("kind", MAKERS)
def test_a_run_is_the_same_from_the_store(store: Store, kind: str) -> None:
    make = MAKERS[kind]
    graph = a_graph(make)
    engine = Engine(graph, store=store, seed=1)
    result = engine.run({"given": make()}, run_id="r")
    assert (result.status, result.error) == ("completed", None)
    reader = Engine(graph, store=store)
    state = reader.state("r")
    assert state == result.state
    assert state.values == result.values
    assert state.digest == result.state.digest
    assert state != engine.state("r", 1)
    assert len(state.values["rows"]) == 3
    assert all(equal(row, make()) for row in state.values["rows"])
    for checkpoint in reader.history("r"):
        assert checkpoint.state == engine.state("r", checkpoint.step_id)
        assert "\n" not in repr(checkpoint.state)
    assert GraphState.from_checkpoint(state.to_checkpoint()) == state
    again = Engine(graph, store=store, seed=1).run({"given": make()}, run_id="s")
    assert again.state.digest == state.digest
    assert not engine.diff("r", "s").steps
    assert str(engine.diff("r", "s"))
    assert reader.replay("r").divergences == ()
    rerun = reader.rerun("r")
    assert rerun.status == "completed"
    assert rerun.state.values == state.values
    fork = reader.fork("r", step=1)
    assert fork.state.values == state.values
    reader.state(fork.run_id)
    document = reader.export_run("r")
    copy = Engine(graph, store=MemoryStore())
    copy.import_run(document)
    assert copy.state("r").digest == state.digest
    assert copy.state("r").values == state.values
    assert str(engine.why("r", "rows"))


@pytest.mark.parametrize("kind", MAKERS)
def test_a_change_is_found_and_shown_in_short_form(store: Store, kind: str) -> None:
    make = MAKERS[kind]
    engine = Engine(a_graph(make), store=store)
    engine.run({"given": make()}, run_id="r")
    other = Engine(a_graph(lambda: np.zeros(3)), store=store)
    other.run({"given": make()}, run_id="s")
    shown = str(engine.diff("r", "s"))
    assert "ndarray float64 (3,)" in shown
    assert len(shown) < 10_000
    report = other.replay("r", strict=False)
    assert [each.kind for each in report.divergences][:1] == ["update"]
    assert "ndarray float64 (3,)" in report.divergences[0].diff


def test_arrays_that_differ_in_one_item_have_different_lines(store: Store) -> None:
    for run_id, last in ("r", 1.0), ("s", 2.0):
        Engine(a_graph(lambda last=last: np.array([0.0, last])), store=store).run({"given": 1}, run_id=run_id)
    shown = str(Engine(store=store, graph=a_graph(int)).diff("r", "s"))
    assert shown.count("ndarray float64 (2,) #") >= 2


def test_questions_answers_and_recorded_calls(store: Store) -> None:
    made = []

    @node(output="scaled")
    def scale(x: Any, ctx: Context) -> Any:
        def call(factor: Any) -> Any:
            made.append(1)
            return x * factor

        return ctx.record("scale", call, np.float64(2))

    @interrupt(output="answer")
    def ask(scaled: Any) -> Any:
        return {"is this good?": scaled}

    @node(output="sum")
    def add(scaled: Any, answer: Any) -> Any:
        return scaled + answer

    graph = Graph([scale, ask, add])
    engine = Engine(graph, store=store)
    assert engine.run({"x": np.arange(ROWS)}, run_id="r").status == "waiting"
    result = Engine(graph, store=store).resume("r", answer=np.ones(ROWS))
    assert equal(result["sum"], np.arange(ROWS) * 2.0 + 1)
    assert made == [1]
    assert Engine(graph, store=store).replay("r").divergences == ()


def test_a_node_that_failed_goes_on_with_its_arrays(store: Store) -> None:
    broken = True

    @node(output="half")
    def halve(x: Any) -> Any:
        return x / 2

    @node(output="sum")
    def add(half: Any) -> Any:
        if broken:
            raise RuntimeError("not yet")
        return half.sum()

    engine = Engine(Graph([halve, add]), store=store)
    assert engine.run({"x": np.arange(ROWS)}, run_id="r", check=False).status == "failed"
    broken = False
    total = engine.resume("r")["sum"]
    assert type(total) is np.float64
    assert total == np.arange(ROWS).sum() / 2


def test_a_cached_node_is_found_by_content(store: Store) -> None:
    called = []

    @node(output="sum", cache=True)
    def add(x: Any, frame: Any) -> Any:
        called.append(1)
        return x.sum()

    engine = Engine(Graph([add]), store=store)
    for last in (1, 1, 2):
        engine.run({"x": np.array([0, last]), "frame": pd.DataFrame({"a": [1]})})
    assert called == [1, 1]


@pytest.mark.parametrize("kind", ["small array", "large array", "frame", "large frame", "series"])
def test_a_change_in_place_is_detected(store: Store, kind: str) -> None:
    @node(output="done")
    def edit(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            x[..., 0] = 9
        else:
            x.iloc[0] = 9
        return True

    @node(output="done")
    def look(x: Any) -> Any:
        return len(x)

    engine = Engine(Graph([edit]), store=store, check_mutation=True)
    with pytest.raises(MutationError):
        engine.run({"x": MAKERS[kind]()}, run_id="r")
    assert Engine(Graph([look]), store=store, check_mutation=True).run({"x": MAKERS[kind]()})["done"]


@pytest.mark.parametrize("where", [None, "deps.db"])
@pytest.mark.parametrize("kind", MAKERS)
def test_a_dependency_graph_compares_contents(kind: str, where: str | None, tmp_path: Path) -> None:
    make = MAKERS[kind]
    called: list[str] = []

    def copied(inputs: list[Any], old: Any, bindings: Any) -> Any:
        called.append("copy")
        return make()

    def length(inputs: list[Any], old: Any, bindings: Any) -> Any:
        called.append("length")
        return len(inputs[0])

    schemas = [schema("x"), schema("copy", ["x"], copied), schema("length", ["copy"], length)]
    graph = DependencyGraph(schemas, store=None if where is None else tmp_path / where, check_mutation=True)
    graph.set("x", make())
    assert graph.pull("length") == len(make())
    graph.set("x", make())
    graph.pull("length")
    assert called == ["copy", "length"]  # equal content is no change
    graph.set("x", np.zeros(7))
    graph.pull("length")
    assert called == ["copy", "length", "copy"]  # the copy is equal, so its length is up to date
    assert equal(graph.pull("copy"), make())
    assert str(graph.explain("length"))


def test_an_exploration_with_arrays() -> None:
    def grow(world: Any) -> None:
        box = world.systems["box"]
        box.value = {"x": np.append(box.value["x"], 1.0)}

    def reset(world: Any) -> None:
        world.systems["box"].value = {"x": np.zeros(1)}

    world = World(systems={"box": Box({"x": np.zeros(1)})})
    small = Invariant("small", lambda world: len(world.systems["box"].value["x"]) < 4)
    actions = [Action("grow", grow), Action("reset", reset)]
    result = Agent(world, actions, invariants=[small], max_steps=20).explore()

    assert {violation.invariant for violation in result.violations} == {"small"}
    assert len(result.graph.states) >= 4
    assert str(result)


def test_a_check_of_a_graph_with_arrays() -> None:
    @node(output="half")
    def halve(x: Any) -> Any:
        return x / 2

    @node(output="frame")
    def tabulate(half: Any) -> Any:
        return pd.DataFrame({"half": half})

    found = check_graph(Graph([halve, tabulate]), {"x": np.arange(3.0)})
    assert not found.violations

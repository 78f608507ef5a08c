"""A run knows the graph that it was made with: what has changed is recognised, and said."""

from __future__ import annotations

import operator
import warnings
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import Engine, Graph, MemoryStore, Send, SQLiteStore, node, route
from clew.errors import ConflictError, GraphChangedError, GraphWarning, ReplayError
from clew.runtime.log.checks.fingerprints import structure_changes


@pytest.fixture
def store(tmp_path: Path) -> SQLiteStore:
    return SQLiteStore(tmp_path / "runs.db")


def made(name: str, source: str, output: str, code: str) -> Any:
    return node(eval(f"lambda {source}: {code}"), name=name, output=output)


FIRST = made("first", "a", "b", "a + 1")
FAILS = made("second", "b", "c", "b / 0")
WORKS = made("second", "b", "c", "b * 10")


def failed(store: SQLiteStore, *nodes: Any, **graph: Any) -> None:
    Engine(Graph(list(nodes) or [FIRST, FAILS], **graph), store=store).run({"a": 1}, run_id="r", check=False)


def refusal(store: SQLiteStore, *nodes: Any, **graph: Any) -> str:
    with pytest.raises(GraphChangedError) as caught:
        Engine(Graph(list(nodes), **graph), store=store).resume("r")
    return str(caught.value)


def test_a_run_keeps_the_structure_and_the_code_of_its_graph(store: SQLiteStore) -> None:
    graph = Graph([FIRST, FAILS])
    failed(store)
    row = store.row("r")
    assert row.structure == graph.structure_hash
    assert {name: row.codes[name] for name in graph.nodes} == dict(graph.node_hashes)


def test_the_same_graph_goes_on_without_a_word(store: SQLiteStore) -> None:
    failed(store)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Engine(Graph([FIRST, FAILS]), store=store).resume("r", check=False)


def test_changed_code_goes_on_with_a_warning_that_names_the_nodes(store: SQLiteStore) -> None:
    failed(store)
    with pytest.warns(GraphWarning, match="changed code in 'second'$"):
        result = Engine(Graph([FIRST, WORKS]), store=store).resume("r")
    assert result["c"] == 20


def test_changed_code_inside_a_subgraph_is_named_by_its_way(store: SQLiteStore) -> None:
    failed(store, Graph([FIRST, FAILS], name="inner").as_node())
    with pytest.warns(GraphWarning, match=r"changed code in 'inner/second'$"):
        Engine(Graph([Graph([FIRST, WORKS], name="inner").as_node()]), store=store).resume("r")


def test_a_changed_structure_is_refused_with_what_changed_and_the_ways_on(store: SQLiteStore) -> None:
    failed(store)
    assert refusal(store, FIRST, WORKS, made("third", "c", "d", "c + 1")) == (
        "run 'r' was made with a different graph ('third' is new); fork from one of its steps with engine.fork('r', "
        "step=...), or accept the new graph with engine.resume('r', accept_changes=True)"
    )


def test_a_node_that_is_gone_is_named(store: SQLiteStore) -> None:
    failed(store)
    assert "('second' was removed)" in refusal(store, FIRST)


def test_other_inputs_are_named(store: SQLiteStore) -> None:
    failed(store)
    message = refusal(store, FIRST, made("second", "a", "c", "a"))
    assert (
        "('second' has different inputs, outputs, targets or a different subgraph (now: takes a, writes c; before: "
        "takes b, writes c))"
    ) in message


def test_other_edges_are_named(store: SQLiteStore) -> None:
    failed(store)
    assert "(the declared edges have changed (now: first to second; before: none))" in refusal(
        store, FIRST, WORKS, edges=[("first", "second")]
    )


class Plain(TypedDict, total=False):
    a: int
    b: int
    c: float


class Summed(TypedDict, total=False):
    a: int
    b: int
    c: Annotated[float, operator.add]


def test_another_schema_is_named(store: SQLiteStore) -> None:
    failed(store, FIRST, FAILS, state=Plain)
    assert (
        "(the state schema has changed (now: a: int, b: int, c: float by add; before: a: int, b: int, c: float))"
    ) in refusal(store, FIRST, WORKS, state=Summed)


def test_all_changes_are_reported_together(store: SQLiteStore) -> None:
    failed(store)
    message = refusal(store, FIRST, made("second", "a", "c", "a"), made("third", "c", "d", "c"))
    assert message.startswith(
        "run 'r' was made with a different graph ('third' is new; 'second' has different inputs"
    )


def test_nodes_inside_a_subgraph_are_named_by_their_way(store: SQLiteStore) -> None:
    failed(store, Graph([FIRST, FAILS], name="inner").as_node())
    more = Graph([FIRST, WORKS, made("third", "c", "d", "c")], name="inner").as_node()
    message = refusal(store, more)
    assert (
        "('inner/third' is new; 'inner' has different inputs, outputs, targets or a different subgraph"
        in message
    )


def test_a_run_without_descriptions_is_compared_by_digests(store: SQLiteStore) -> None:
    failed(store)
    codes = dict(store.row("r").codes)
    short = {name: code.partition(" ")[0] for name, code in codes.items()}
    assert short != codes
    row = store.row("r")
    row.codes = short
    assert structure_changes(row, Graph([FIRST, FAILS])) == []
    (message,) = structure_changes(row, Graph([FIRST, made("second", "a", "c", "a")]))
    assert message == "'second' has different inputs, outputs, targets or a different subgraph"


def test_a_replay_that_differs_says_that_the_graph_is_another(store: SQLiteStore) -> None:
    Engine(Graph([FIRST, WORKS]), store=store).run({"a": 1}, run_id="r")
    report = Engine(Graph([FIRST, made("second", "a", "c", "a")]), store=store).replay("r", strict=False)
    assert "'second' has different inputs" in report.graph
    assert (
        str(report)
        .splitlines()[1]
        .startswith("it was recorded with a different graph ('second' has different")
    )
    with pytest.raises(
        ReplayError, match=r"does not replay: it was recorded with a different graph \('second'"
    ):
        report.check()
    assert Engine(Graph([FIRST, WORKS]), store=store).replay("r").graph == ""


def test_a_refused_run_is_free_for_others(store: SQLiteStore) -> None:
    failed(store)
    refusal(store, FIRST, WORKS, made("third", "c", "d", "c + 1"))
    other = SQLiteStore(store.path)
    assert Engine(Graph([FIRST, FAILS]), store=other).resume("r", check=False).status == "failed"


def test_whoever_accepts_the_changes_goes_on(store: SQLiteStore) -> None:
    failed(store)
    engine = Engine(Graph([FIRST, WORKS, made("third", "c", "d", "c + 1")]), store=store)
    with pytest.warns(GraphWarning, match="changed code in 'second'"):
        assert engine.resume("r", accept_changes=True)["d"] == 21


def test_a_fork_goes_on_with_the_new_graph(store: SQLiteStore) -> None:
    failed(store)
    engine = Engine(Graph([FIRST, WORKS, made("third", "c", "d", "c + 1")]), store=store)
    assert engine.fork("r", step=1)["d"] == 21


@pytest.mark.parametrize("verb", ["resume", "fork"])
def test_a_node_that_has_run_cannot_be_gone(store: SQLiteStore, verb: str) -> None:
    failed(store)
    engine = Engine(Graph([made("begin", "a", "b", "a + 1"), FAILS]), store=store)
    how = {"step": 1} if verb == "fork" else {"accept_changes": True}
    with pytest.raises(GraphChangedError, match="has used node 'first', which this graph does not have"):
        getattr(engine, verb)("r", **how)


# -- what was accepted is remembered ---------------------------------------------------------------------------------


THIRD = made("third", "c", "d", "c / 0")


def test_accepted_changes_are_remembered(store: SQLiteStore) -> None:
    failed(store)
    new = Engine(Graph([FIRST, FAILS, THIRD]), store=store)
    assert new.resume("r", accept_changes=True, check=False).status == "failed"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert new.resume("r", check=False).status == "failed"
        assert new.replay("r")
    message = refusal(store, FIRST, FAILS)
    assert "'third' was removed" in message


def test_accepted_changes_go_with_an_export(store: SQLiteStore) -> None:
    failed(store)
    new = Engine(Graph([FIRST, FAILS, THIRD]), store=store)
    new.resume("r", accept_changes=True, check=False)
    other = Engine(new.graph)
    other.import_run(new.export_run("r"))
    assert other.resume("r", check=False).status == "failed"


# -- conflicts -------------------------------------------------------------------------------------------------------


def clashing() -> Graph:
    @route(targets=["write"])
    def send(a: int) -> list[Send]:
        return [Send("write", {"i": i}) for i in (1, 2)]

    return Graph([send, made("write", "i", "b", "i"), made("third", "b", "c", "b / 0")])


@pytest.mark.parametrize("durable", [False, True])
def test_a_run_keeps_what_it_does_about_conflicts(store: SQLiteStore, durable: bool) -> None:
    kept: Any = store if durable else MemoryStore()
    Engine(clashing(), store=kept, on_conflict="last").run({"a": 1}, run_id="r", check=False)
    engine = Engine(clashing(), store=kept)
    assert engine.state("r").get("b") == 2
    assert len(engine.history("r")) == 3
    assert engine.replay("r")
    assert engine.result("r").status == "failed"
    assert isinstance(engine.resume("r", check=False).error, ZeroDivisionError)
    assert engine.fork("r", step=1, run_id="f", check=False).state.get("b") == 2
    assert engine.rerun("r", run_id="again", check=False).state.get("b") == 2
    assert Engine(clashing(), store=kept).state("f").get("b") == 2
    other = Engine(clashing())
    other.import_run(engine.export_run("r"))
    assert other.state("r").get("b") == 2


@pytest.mark.parametrize("durable", [False, True])
def test_a_run_that_failed_of_a_conflict_goes_on_once_the_last_one_counts(
    store: SQLiteStore, durable: bool
) -> None:
    kept: Any = store if durable else MemoryStore()
    assert isinstance(
        Engine(clashing(), store=kept).run({"a": 1}, run_id="r", check=False).error, ConflictError
    )
    Engine(clashing(), store=kept, on_conflict="last").resume("r", check=False)
    assert Engine(clashing(), store=kept).state("r").get("b") == 2


# -- reducers --------------------------------------------------------------------------------------------------------


def total(old: int, new: int) -> int:
    return old + new


def greatest(old: int, new: int) -> int:
    return max(old, new)


def reducing(reducer: Any) -> Graph:
    fields = {"a": int, "n": Annotated[int, reducer]}
    state = TypedDict("Reduced", fields, total=False)
    return Graph([made("one", "a", "n", "1"), made("two", "a", "n", "2")], state=state)


WARNING = (
    r"^run 'r' was made with another reducer of 'n': its states are made again from what was given to it, and need not "
    r"be what they were$"
)


def renamed(function: Any) -> Any:
    function.__name__ = function.__qualname__ = "total"
    return function


def test_another_reducer_is_a_divergence(store: SQLiteStore) -> None:
    Engine(reducing(total), store=store).run({"a": 1, "n": 0}, run_id="r")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = Engine(reducing(greatest), store=store).replay("r")
    assert not report
    first = report.divergences[0]
    assert (first.kind, first.step) == ("reducer", 1)
    assert first.message == "the reducer of 'n' has changed since the run was recorded"


def test_another_reducer_of_the_same_name_is_too(store: SQLiteStore) -> None:
    Engine(reducing(total), store=store).run({"a": 1, "n": 0}, run_id="r")
    other = renamed(lambda old, new: old * new)
    assert not Engine(reducing(other), store=store).replay("r")


def test_a_reducer_of_a_value_that_nobody_wrote_is_none(store: SQLiteStore) -> None:
    graph = Graph([made("one", "a", "b", "1")], state=Unwritten)
    Engine(graph, store=store).run({"a": 1}, run_id="r")
    other = Graph([made("one", "a", "b", "1")], state=UnwrittenToo)
    assert Engine(other, store=store).replay("r")


class Unwritten(TypedDict, total=False):
    a: int
    b: int
    n: Annotated[int, total]


class UnwrittenToo(TypedDict, total=False):
    a: int
    b: int
    n: Annotated[int, greatest]


@pytest.mark.parametrize("verb", ["state", "history", "diff", "result", "why", "export_run"])
def test_under_another_reducer_a_run_reads_as_it_was(store: SQLiteStore, verb: str) -> None:
    before = Engine(reducing(total), store=store)
    before.run({"a": 1, "n": 0}, run_id="r")
    after = Engine(reducing(greatest), store=store)
    more = {"diff": ["r"], "why": ["n"]}.get(verb, ())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        was, now = (getattr(engine, verb)("r", *more) for engine in (before, after))
    if verb == "result":
        was, now = was.state, now.state
    if verb == "history":
        was, now = ([(each.step_id, each.state, each.digest) for each in chain] for chain in (was, now))
    assert was == now
    assert after.state("r").get("n") == 3


def test_where_reducers_are_the_same_nobody_is_warned(store: SQLiteStore) -> None:
    Engine(reducing(total), store=store).run({"a": 1, "n": 0}, run_id="r")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine = Engine(reducing(total), store=store)
        assert (engine.state("r").get("n"), bool(engine.replay("r"))) == (3, True)

"""Export and import: the specification's fields, the same digests elsewhere, and documents that were changed."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import (
    Context,
    Engine,
    Graph,
    MemoryStore,
    RetryPolicy,
    Send,
    SideEffectPolicy,
    SQLiteStore,
    append,
    interrupt,
    node,
    route,
)
from clew.errors import CheckpointError, RunExistsError
from clew.runtime.review.document_format import digest_of
from clew.stores import Store

WORK_ITEM = {"step_id", "order_key", "node_id", "state", "attempt", "parent_node_id", "edge_index", "clew"}
RECORDED_IO = {"node_id", "attempt", "request", "response", "hash", "timestamp", "duration_ms", "clew"}
CHECKPOINT = {
    "run_id",
    "step_id",
    "state",
    "frontier",
    "rng_seed",
    "recorded_ios",
    "idempotency_key",
    "timestamp",
    "label",
    "clew",
}
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


class State(TypedDict):
    words: list[str]
    word: str
    first: str
    found: Annotated[list[str], append]
    inner: str
    approved: bool
    big: str


@route(targets=["look"])
def spread(words: list[str]) -> list[Send]:
    return [Send("look", {"word": word}) for word in words]


@node(
    writes=("found",),
    side_effects=SideEffectPolicy(recordable=True),
    retry=RetryPolicy(max_attempts=2, base_delay=0.001, max_delay=0.01),
)
def look(word: str, ctx: Context) -> dict[str, str]:
    upper = ctx.record("upper", str.upper, word)
    if ctx.attempt == 0 and word == "b":
        raise OSError("once")
    return {"found": upper}


@node(output="first")
def first(words: list[str], ctx: Context) -> str:
    return ctx.record("pick", lambda given: given[0], words)


@interrupt(output="approved")
def approve(found: list[str], inner: str) -> str:
    return f"{found} and {inner}?"


@node(output="big")
def enlarge(approved: bool) -> str:
    return f"{approved}" * 30_000


@node(output="inner")
def twice(first: str) -> str:
    return first * 2


graph = Graph([spread, look, Graph([first, twice], name="sub"), approve, enlarge], state=State)


@pytest.fixture(params=["memory", "sqlite"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "source.db")


@pytest.fixture(params=["memory", "sqlite"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "target.db")


def waiting(store: Store) -> Engine:
    engine = Engine(graph, store=store, import_string="here:graph")
    assert engine.run({"words": ["a", "b", "c"]}, run_id="r").status == "waiting"
    engine.label_checkpoint("r", "looked", step=1)
    return engine


def document_of(engine: Engine, run_id: str = "r", **options: Any) -> dict[str, Any]:
    """A document as it arrives elsewhere."""
    found: dict[str, Any] = json.loads(json.dumps(engine.export_run(run_id, **options)))
    return found


def digests(engine: Engine, run_id: str = "r") -> list[str]:
    return [checkpoint.digest for checkpoint in engine.history(run_id)]


def test_the_fields_are_those_of_the_specification(source: Store) -> None:
    document = document_of(waiting(source))
    assert set(document) == {"run_id", "checkpoints", "clew"}
    calls = 0
    for checkpoint in document["checkpoints"]:
        assert set(checkpoint) == CHECKPOINT
        assert RFC_3339.fullmatch(checkpoint["timestamp"])
        assert re.fullmatch("sha256:[0-9a-f]{64}", checkpoint["idempotency_key"])
        assert re.fullmatch("[0-9]+", checkpoint["rng_seed"])
        for item in checkpoint["frontier"]:
            assert set(item) == WORK_ITEM
            assert re.fullmatch("[0-9a-f]{16}", item["order_key"])
            assert item["step_id"] == checkpoint["step_id"] + 1
        for call in checkpoint["recorded_ios"]:
            calls += 1
            assert set(call) == RECORDED_IO
            assert re.fullmatch("sha256:[0-9a-f]{64}", call["hash"])
            assert RFC_3339.fullmatch(call["timestamp"])
            assert call["duration_ms"] >= 0
    assert calls >= 4
    assert [checkpoint["label"] for checkpoint in document["checkpoints"]][1] == "looked"
    keys = [checkpoint["idempotency_key"] for checkpoint in document["checkpoints"]]
    assert len(set(keys)) == len(keys)


def test_the_frontier_is_what_runs_next(source: Store) -> None:
    engine = waiting(source)
    document = document_of(engine)
    for before, after in zip(document["checkpoints"], document["checkpoints"][1:]):
        assert [item["clew"]["path"] for item in before["frontier"]] == after["clew"]["items"]
        keys = [item["order_key"] for item in before["frontier"]]
        assert keys == sorted(keys)
    assert [item.node_id for item in engine.frontier("r")] == ["approve"]
    sent = [item for item in document["checkpoints"][1]["frontier"] if item["node_id"] == "look"]
    assert [(item["parent_node_id"], item["edge_index"]) for item in sent] == [
        ("spread", i) for i in range(3)
    ]
    assert [item["state"]["word"] for item in sent] == ["a", "b", "c"]


def test_a_run_goes_on_elsewhere_with_the_same_digests(source: Store, target: Store) -> None:
    engine, other = waiting(source), Engine(graph, store=target)
    row = other.import_run(document_of(engine))
    assert (row.run_id, row.status, row.target) == ("r", "waiting", "here:graph")
    assert digests(other) == digests(engine)
    assert other.replay("r").ok
    assert engine.resume("r", answer=True).status == "completed"
    assert other.resume("r", answer=True).status == "completed"
    assert digests(other) == digests(engine)
    assert other.replay("r").ok
    assert other.fork("r", step="looked", run_id="f").status == "waiting"


def test_a_document_of_an_imported_run_is_the_same(source: Store, target: Store) -> None:
    engine, other = waiting(source), Engine(graph, store=target)
    engine.resume("r", answer=True)
    document = document_of(engine)
    other.import_run(document)
    again = document_of(other)
    assert again["checkpoints"] == document["checkpoints"]
    steps = [
        [entry for entry in each["clew"]["entries"] if entry["kind"] == "step"] for each in (document, again)
    ]
    assert steps[0] == steps[1]


def test_a_failed_run_keeps_its_error(source: Store, target: Store) -> None:
    @node(output="b")
    def broken(a: int, ctx: Context) -> int:
        ctx.record("call", int, "1")
        raise ValueError("no")

    engine, other = (Engine(Graph([broken]), store=store) for store in (source, target))
    engine.run({"a": 1}, run_id="r", check=False)
    document = document_of(engine)
    assert [call["clew"]["name"] for call in document["clew"]["open_ios"]] == ["call"]
    assert isinstance(other.import_run(document).error, ValueError)
    assert other.resume("r", check=False).status == "failed"


def test_an_existing_id_is_refused(source: Store) -> None:
    engine = waiting(source)
    with pytest.raises(RunExistsError):
        engine.import_run(document_of(engine))


def test_a_fork_shares_its_parent_where_that_is_and_else_stands_alone(source: Store, target: Store) -> None:
    engine = waiting(source)
    engine.resume("r", answer=True)
    engine.fork("r", step=2, values={"inner": "x"}, run_id="f")
    parent, fork = document_of(engine), document_of(engine, "f")
    alone = Engine(graph)
    assert alone.import_run(fork).parent is None
    assert digests(alone, "f") == digests(engine, "f")
    assert alone.replay("f").ok
    assert alone.resume("f", answer=False).status == "completed"
    other = Engine(graph, store=target)
    other.import_run(parent)
    row = other.import_run(fork)
    assert (row.parent, row.parent_step) == ("r", 2)
    assert digests(other, "f") == digests(engine, "f")
    assert other.resume("f", answer=False).state.digest == alone.state("f").digest


def test_the_latest_checkpoint_alone(source: Store, target: Store) -> None:
    engine = waiting(source)
    document = document_of(engine, latest=True)
    assert len(document["checkpoints"]) == 1
    assert document["checkpoints"][0] == document_of(engine)["checkpoints"][-1]
    other = Engine(graph, store=target)
    other.import_run(document)
    assert digests(other) == digests(engine)


def test_a_long_run_is_read_from_a_snapshot(tmp_path: Path) -> None:
    from clew import END, ifelse

    class Log(TypedDict):
        n: int
        lines: Annotated[list[str], append]

    @node(writes=("n", "lines"))
    def more(n: int) -> dict[str, Any]:
        return {"n": n + 1, "lines": "x" * 1000}

    @ifelse(when_true="more", when_false=END)
    def again(n: int) -> bool:
        return n < 400

    long = Graph([more, again], state=Log, entry="more")
    engine = Engine(long, store=SQLiteStore(tmp_path / "a.db"), durability="async")
    engine.run({"n": 0}, run_id="r")
    other = Engine(long, store=SQLiteStore(tmp_path / "b.db"))
    other.import_run(document_of(engine, latest=True))
    assert len(other.store.find("r", "snapshot", "")) == 1
    assert other.state("r").digest == engine.state("r").digest


def _entry(document: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(e for e in document["clew"]["entries"] if e["kind"] == kind)
    return found


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda d: d["checkpoints"][1]["state"].update(words=["z"]),
            r'checkpoints\[1\]\.state\.words is \["z"\], but the log has \["a", "b", "c"\]',
        ),
        (lambda d: d["checkpoints"][1].update(rng_seed=3), r"checkpoints\[1\]\.rng_seed is 3"),
        (lambda d: d["checkpoints"][1].update(label="x"), r'label is "x", but the log has "looked"'),
        (lambda d: d["checkpoints"].pop(), "checkpoints is"),
        (lambda d: d["checkpoints"][0]["clew"]["versions"].update(words=7), "versions.words is 7"),
        (lambda d: d["clew"].update(status="completed"), "its digest does not match"),
        (lambda d: d["clew"].update(digest="sha256:0"), "its digest does not match"),
        (lambda d: d["clew"]["entries"].remove(_entry(d, "step")), r"run 'r': step 1 .*is missing"),
        (lambda d: _entry(d, "step").update(body="[]"), r"step 1 is damaged .digest mismatch"),
        (lambda d: _entry(d, "call").update(body="[]"), "digest mismatch"),
        (lambda d: _entry(d, "step").pop("body"), r"`body` - at `\$\.clew\.entries"),
        (lambda d: d["clew"].update(start="%"), "its initial state is damaged"),
        (lambda d: d["clew"].update(format=99), "its format is 99"),
        (lambda d: d.pop("clew"), 'it has no object "clew"'),
        (lambda d: d.update(run_id=""), r"\$\.run_id"),
    ],
)
def test_a_changed_document_is_refused_with_what_is_wrong(
    change: Callable[[dict[str, Any]], Any], message: str, tmp_path: Path
) -> None:
    document = document_of(waiting(MemoryStore()))
    engine = Engine(graph, store=SQLiteStore(tmp_path / "target.db"))
    changed = copy.deepcopy(document)
    change(changed)
    with pytest.raises(CheckpointError, match=message):
        engine.import_run(changed)
    assert engine.runs() == []
    engine.import_run(document)  # the original is good


def test_a_large_value_travels_and_is_checked(tmp_path: Path) -> None:
    engine = waiting(SQLiteStore(tmp_path / "a.db"))
    engine.resume("r", answer=True)
    document = document_of(engine)
    (digest,) = document["clew"]["blobs"]
    Engine(graph).import_run(document)
    document["clew"]["blobs"][digest] = '"another"'
    with pytest.raises(CheckpointError, match=r"the content .* was changed"):
        Engine(graph).import_run(document)
    del document["clew"]["blobs"][digest]
    with pytest.raises(CheckpointError, match=r"the content .* is missing"):
        Engine(graph).import_run(document)


@pytest.mark.parametrize("name", ["created", "updated"])
@pytest.mark.parametrize("time", [1e12, -1e13, 1e300, -1e300, 10**30])
def test_a_time_that_no_calendar_has_is_refused(name: str, time: float, target: Store) -> None:
    document = document_of(waiting(MemoryStore()))
    document["clew"][name] = time
    document["clew"]["digest"] = digest_of(document)  # whoever wrote it can count
    engine = Engine(graph, store=target)
    with pytest.raises(CheckpointError):
        engine.import_run(document)
    assert engine.runs() == []


def test_a_number_out_of_all_proportion_takes_no_memory(tmp_path: Path) -> None:
    document = document_of(waiting(MemoryStore()))
    _entry(document, "call")["n"] = 2**53 - 1
    document["clew"]["digest"] = digest_of(document)
    with pytest.raises(CheckpointError):
        Engine(graph).import_run(document)


@pytest.mark.parametrize("document", [None, [], {}, {"clew": 1}, "text"])
def test_what_is_no_document_is_refused(document: Any) -> None:
    with pytest.raises(CheckpointError, match="not an exported run"):
        Engine(graph).import_run(document)

"""Snapshots: large values apart, lists in pieces that later snapshots share, and large ones that are not fetched."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import END, Command, Engine, Graph, GraphState, SQLiteStore, append, node
from clew.errors import StoreCorruptError
from clew.runtime.log.entries.large_values import Kept
from clew.runtime.log.snapshots import NODE_ENTRY, PIECE, read_snapshot, snapshot_entry
from clew.state import assemble, position_of
from clew.state.position import NodeExecution, Position


def there_and_back(state: GraphState) -> tuple[GraphState, dict[str, bytes]]:
    blobs: dict[str, bytes] = {}
    entry, weight = snapshot_entry(state, blobs)
    again, read = read_snapshot(entry, blobs.__getitem__)
    assert read == weight
    return again, blobs


VALUES: dict[str, Any] = {
    "a long list": [{"role": "user", "content": f"message {n} " + "x" * 80} for n in range(3 * PIECE + 7)],
    "a list of one piece exactly": ["y" * 100] * PIECE,
    "a long text": "z" * 100_000,
    "a dict": {f"key {n}": "value" * 10 for n in range(5_000)},
    "a tuple": tuple(range(20_000)),
    "a long list of little": list(range(2 * PIECE)),
    "bytes": bytes(range(256)) * 400,
    "none": None,
    "an empty list": [],
}


@pytest.mark.parametrize("name", VALUES)
def test_values_come_back_as_they_were(name: str) -> None:
    state = GraphState({"small": 1, "it": VALUES[name], "last": "z"})
    again, _ = there_and_back(state)
    assert again == state
    assert type(again.get("it")) is type(VALUES[name])
    assert list(again.values) == list(state.values)
    assert again.digest == state.digest


def test_a_position_comes_back_as_it_was() -> None:
    """Also the names of the nodes that a join has seen."""
    position = Position(
        step=4,
        seed=2**200,
        given=frozenset({"query"}),
        digest="0f" * 32,
        visits={"plan": 2},
        wakes={"plan": 5},
        selections={"plan": (("decide", False), ("fan", True))},
        arrived={"join": ("left", "right")},
        sends={"scan": (("fan", {"q": (1,)}, False),)},
        failed=frozenset({"broken"}),
        began=2,
    )
    state = assemble(
        values={"query": 1},
        versions={"query": 1},
        decisions={},
        terminated=False,
        position=position,
        history={},
    )
    entry, _ = snapshot_entry(state, blobs := {})
    again, _ = read_snapshot(entry, blobs.__getitem__)
    assert position_of(again) == position


def test_what_is_small_is_not_kept_apart() -> None:
    for name in ("a long list of little", "none", "an empty list"):
        assert there_and_back(GraphState({"it": VALUES[name]}))[1] == {}


def test_a_list_that_has_grown_shares_its_pieces() -> None:
    messages = [f"{n} " + os.urandom(40).hex() for n in range(3 * PIECE)]
    _, before = there_and_back(GraphState({"messages": messages}))
    _, after = there_and_back(GraphState({"messages": [*messages, "one more"]}))
    assert len(before) == 3
    assert before.keys() < after.keys()
    assert len(after) == 4
    (new,) = after.keys() - before.keys()
    assert len(after[new]) < 100


class Talk(TypedDict, total=False):
    messages: Annotated[list[str], append]


@node(writes=["messages"], goto=["say", END])
def say(messages: list[str]) -> Command:
    number = len(messages)
    return Command(update={"messages": f"{number} " + "x" * 120}, goto="say" if number < 2_499 else END)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "runs.db"
    engine = Engine(Graph([say], state=Talk), store=SQLiteStore(file, synchronous="off"))
    for run_id in ("r0", "r1"):
        engine.run({"messages": []}, run_id=run_id)
    engine.close()
    return file


def test_a_lost_or_damaged_piece_is_named_with_run_and_step(file: Path) -> None:
    engine = Engine(Graph([say], state=Talk), store=SQLiteStore(file))
    step = max(entry.n for entry in engine.store.find("r1", "snapshot", ""))
    with closing(sqlite3.connect(file)) as db, db:
        assert db.execute("UPDATE blobs SET body = x'00' WHERE run = 0").rowcount
    message = rf"^run 'r1': the state at step {step} is damaged \(the content [0-9a-f]{{12}}… is damaged"
    with pytest.raises(StoreCorruptError, match=message):
        engine.state("r1")
    assert engine.state("r1", step - 1).step == step - 1  # which does not need it


def test_pieces_go_with_the_last_run_that_has_them(file: Path) -> None:
    """The first piece is the same in both runs; the end is not, as how long a step took is part of what it weighs."""
    store = SQLiteStore(file)

    def digests(run: int) -> set[str]:
        return {digest for (digest,) in store._db.execute("SELECT digest FROM blobs WHERE run = ?", (run,))}

    mine = digests(2)
    assert mine & digests(1)
    assert digests(0) == mine | digests(1)
    store.delete("r0")
    assert digests(0) == mine
    assert len(Engine(Graph([say], state=Talk), store=store).state("r1").values["messages"]) == 2_500
    store.delete("r1")
    assert store._db.execute("SELECT count(*) FROM blobs").fetchone() == (0,)


# -- large values ------------------------------------------------------------------------------------------------------

LARGE = bytes(range(256)) * 12_000  # a file next to a SQLite database


@node(output="doc")
def load(x: int) -> bytes:
    return LARGE


@node(output="size")
def measure(doc: bytes) -> int:
    return len(doc)


def test_a_large_value_is_written_once_and_no_snapshot_fetches_it(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "large.db")
    fetched: list[str] = []
    blob = store.blob
    store.blob = lambda digest: fetched.append(digest) or blob(digest)
    engine = Engine(Graph([load, measure]), store=store)
    for run_id in ("a", "b"):
        assert engine.run({"x": 1}, run_id=run_id)["size"] == len(LARGE)
        assert [entry.n for entry in store.find(run_id, "snapshot", "")] == [1]
    assert fetched == []
    assert (tmp_path / "large.db").stat().st_size + (tmp_path / "large.db-wal").stat().st_size < len(LARGE)
    assert [file.stat().st_size for file in (tmp_path / "large.db-blobs").iterdir()] == [len(LARGE)]
    assert engine.state("a").get("doc") == LARGE
    engine.delete("a")
    assert engine.state("b").get("doc") == LARGE
    engine.delete("b")
    assert list((tmp_path / "large.db-blobs").iterdir()) == []


def test_a_large_value_that_is_kept_is_written_as_the_same_reference() -> None:
    state = GraphState({"a": 1, "doc": LARGE, "z": ["x" * 70_000]})
    blobs: dict[str, bytes] = {}
    entry, _ = snapshot_entry(state, blobs)
    kept, _ = read_snapshot(entry, blobs.__getitem__, keeps=True)
    assert type(kept.get("doc")) is Kept
    assert list(kept.values) == ["a", "doc", "z"]
    again, _ = snapshot_entry(kept, more := {})
    assert kept.get("doc").digest not in more
    assert read_snapshot(again, blobs.__getitem__)[0] == state


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_state_is_read_from_at_most_a_thousand_small_steps(tmp_path: Path, durability: Any) -> None:
    @node(writes=["n"], goto=["count", END])
    def count(n: int) -> Command:
        return Command(update={"n": n + 1}, goto="count" if n < 2_999 else END)

    store = SQLiteStore(tmp_path / "runs.db", synchronous="off")
    with Engine(Graph([count]), store=store, durability=durability, max_steps=3_000) as engine:
        engine.run({"n": 0}, run_id="r")
        snapshots = [0, *(entry.n for entry in store.find("r", "snapshot", "")), 3_000]
        assert all(later - earlier <= 1_100 for earlier, later in pairwise(snapshots)), snapshots
        assert len(snapshots) <= 6  # and it stores no more of them than that needs
        assert [engine.state("r", step).get("n") for step in (0, 1_500, 3_000)] == [0, 1_500, 3_000]
    store.close()


def test_a_run_of_many_nodes_is_not_read_for_a_snapshot_that_is_too_large(tmp_path: Path) -> None:
    nodes = [
        node(name=f"n{n}", output=f"x{n + 1}")(lambda x: x + 1).rename(inputs={"x": f"x{n}"})
        for n in range(1_100)
    ]
    statements: list[str] = []
    with closing(SQLiteStore(tmp_path / "runs.db", synchronous="off")) as store:
        engine = Engine(Graph(nodes), store=store)
        engine.run({"x0": 0}, run_id="first")
        store._db.set_trace_callback(statements.append)
        assert engine.run({"x0": 0}, run_id="r")["x1100"] == 1_100
        store._db.set_trace_callback(None)
        assert not [each for each in statements if "body" in each and each.startswith("SELECT")]
        assert not store.find("r", "snapshot", "")


def test_the_bytes_that_a_node_takes_at_least_in_a_snapshot() -> None:
    names = [chr(ord("a") + n) for n in range(26)]
    history = {name: NodeExecution(name, {}, 0, 0.0, 0.0, False, {}, 1) for name in names}
    visits = dict.fromkeys(names, 1)
    parts: dict[str, Any] = {"values": {}, "versions": {}, "decisions": {}, "terminated": False}
    state = assemble(**parts, position=Position(step=26, visits=visits), history=history)
    assert snapshot_entry(state, {})[1] >= NODE_ENTRY * len(names)

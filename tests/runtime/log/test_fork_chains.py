"""Forks of forks of forks: each shares its parent's storage, and loading one takes a bounded number of them."""

from __future__ import annotations

import pytest

from clew import Engine, Graph, SQLiteStore, node
from clew.state import position_of

DEEP = 400


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    @node(output="y")
    def first(x: int) -> int:
        return x + 1

    @node(output="z")
    def second(y: int) -> int:
        return y + 1

    file = tmp_path_factory.mktemp("forks") / "runs.db"
    engine = Engine(Graph([first, second]), store=SQLiteStore(file, synchronous="off"))
    engine.run({"x": 0}, run_id="r0")
    for number in range(1, DEEP + 1):
        engine.fork(f"r{number - 1}", step=1, values={"x": number}, run_id=f"r{number}")
    return engine


def test_a_long_chain_of_forks_can_be_loaded(engine: Engine) -> None:
    state = engine.state(f"r{DEEP}")
    assert (state.get("x"), state.get("y"), state.get("z")) == (DEEP, DEEP + 1, DEEP + 2)


def test_every_verb_takes_it(engine: Engine) -> None:
    last = f"r{DEEP}"
    assert str(engine.why(last, "z"))
    assert engine.replay(last)
    assert engine.export_run(last)["run_id"] == last
    assert next(checkpoint.values["x"] for checkpoint in engine.history(last)) == DEEP


def test_loading_reads_a_bounded_number_of_runs(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    entries = SQLiteStore.entries

    def counted(store: SQLiteStore, run_id: str, **more: object) -> object:
        read.append(run_id)
        return entries(store, run_id, **more)

    monkeypatch.setattr(SQLiteStore, "entries", counted)
    engine.state(f"r{DEEP}")
    assert len(read) <= 20


def test_a_chain_that_was_read_is_the_chain_that_was_made(engine: Engine) -> None:
    """A fork's first state is its parent's with other values, and its digest builds on the parent's, whether it was
    read from a snapshot or made."""
    for number in (15, 16, 17, 33, DEEP):
        start = engine.state(f"r{number}", step=1)
        made = engine.state(f"r{number - 1}", step=1).rooted().set("x", number)
        assert (start.digest, dict(start.values)) == (made.digest, dict(made.values))
        assert position_of(start).touched == position_of(made).touched


def test_the_storage_is_shared(engine: Engine) -> None:
    kept = [row for row in engine.store.rows() if engine.store.find(row.run_id, "snapshot", "")]
    assert len(kept) <= DEEP / 8

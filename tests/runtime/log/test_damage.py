"""Damage in a store is found and named, with its run; other runs are read, listed and looked after as before."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, SQLiteStore, node
from clew.cli.commands.doctor import examine
from clew.errors import ClewError, StoreCorruptError
from clew.stores import RunRow


@node(output="y")
def first(x: str, ctx: Context) -> str:
    return ctx.record("call", str, x)


@node(output="z")
def second(y: str) -> str:
    if y == "fail":
        raise ValueError("no luck")
    return y * 2


@node(output="w")
def third(z: str) -> str:
    return "w" * 100_000


GRAPH = Graph([first, second, third])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "runs.db"
    engine = Engine(GRAPH, store=SQLiteStore(file), import_string=f"{__name__}:GRAPH")
    for number in range(3):
        engine.run({"x": f"value {number}"}, run_id=f"r{number}")
    engine.close()
    return file


def damage(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as db:
        assert db.execute(statement).rowcount
        db.commit()


ROWS = {
    "the digests of its code": "UPDATE origins SET codes = '{bad' WHERE run = 2",
    "a digest of its code": "UPDATE origins SET codes = replace(codes, 'a', 'b') WHERE run = 2",
    "its start": "UPDATE origins SET start = x'00' WHERE run = 2",
    "no start": "DELETE FROM origins WHERE run = 2",
    "its seed": "UPDATE runs SET seed = 'abc' WHERE id = 2",
    "another seed": "UPDATE runs SET seed = '5' WHERE id = 2",
    "its graph's structure": "UPDATE runs SET structure = 'f' WHERE id = 2",
    "its status": "UPDATE runs SET status = 'comqleted' WHERE id = 2",
    "its parent": "UPDATE runs SET parent = 'zz' WHERE id = 2",
    "its error": "UPDATE runs SET error = x'7b' WHERE id = 2",
}


SEEN_IN_LISTS = ("its seed", "its status", "its error")  # a page does not read what the checksum covers


@pytest.mark.parametrize("what", ROWS)
def test_a_damaged_row_is_named_and_the_others_are_listed(file: Path, what: str) -> None:
    damage(file, ROWS[what])
    engine = Engine(GRAPH, store=SQLiteStore(file))
    rows = engine.runs()
    assert [row.run_id for row in rows] == ["r0", "r1", "r2"]
    if what in SEEN_IN_LISTS:
        assert isinstance(rows[1].error, StoreCorruptError)
        assert str(rows[1].error).startswith("run 'r1': ")
    with pytest.raises(StoreCorruptError, match=r"^run 'r1': "):
        engine.result("r1")
    assert engine.state("r0").step == engine.state("r2").step == 3


@pytest.mark.parametrize("what", ROWS)
def test_a_damaged_row_is_refused_by_every_verb(file: Path, what: str) -> None:
    damage(file, ROWS[what])
    engine = Engine(GRAPH, store=SQLiteStore(file))
    verbs: list[Callable[[str], Any]] = [engine.state, engine.replay, engine.history, engine.export_run]
    verbs += [engine.result, engine.resume, engine.fork, engine.rerun]
    for verb in verbs:
        with pytest.raises(StoreCorruptError, match=r"^run 'r1': "):
            verb("r1")


@pytest.mark.parametrize("what", ROWS)
def test_the_doctor_names_it(file: Path, what: str) -> None:
    damage(file, ROWS[what])
    found = examine(SQLiteStore(file))
    assert [message for message in found["damage"] if "run 'r1'" in message]
    assert not [message for message in found["damage"] if "run 'r0'" in message or "run 'r2'" in message]


def test_a_damaged_run_can_be_deleted(file: Path) -> None:
    damage(file, ROWS["no start"])
    engine = Engine(GRAPH, store=SQLiteStore(file))
    engine.delete("r1")
    assert [row.run_id for row in engine.runs()] == ["r0", "r2"]


def test_one_bit_of_an_error_is_enough(tmp_path: Path) -> None:
    engine = Engine(GRAPH, store=SQLiteStore(tmp_path / "runs.db"))
    engine.run({"x": "fail"}, run_id="r", check=False)
    assert str(engine.runs()[0].error) == "no luck"
    damage(
        tmp_path / "runs.db",
        "UPDATE runs SET error = CAST(replace(CAST(error AS TEXT), 'luck', 'lucj') AS BLOB)",
    )
    assert "run 'r': its error is damaged" in str(engine.runs()[0].error)


STEPS = {
    "the first": ("min(id)", "step 1 is missing"),
    "one in the middle": ("min(id) + 1", "step 2 is missing"),
    "the last": ("max(id)", "step 3 is missing"),
}


@pytest.mark.parametrize("which", STEPS)
def test_the_doctor_names_a_missing_step(file: Path, which: str) -> None:
    place, message = STEPS[which]
    base = 2 << 32
    damage(
        file,
        f"DELETE FROM steps WHERE id = (SELECT {place} FROM steps WHERE id > {base} AND id < {base} * 3 / 2)",
    )
    assert [line for line in examine(SQLiteStore(file))["damage"] if f"run 'r1': {message}" in line]


@pytest.mark.parametrize("which", ["the first", "one in the middle"])
def test_a_missing_step_is_named(file: Path, which: str) -> None:
    place, message = STEPS[which]
    base = 2 << 32
    damage(
        file,
        f"DELETE FROM steps WHERE id = (SELECT {place} FROM steps WHERE id > {base} AND id < {base} * 3 / 2)",
    )
    engine = Engine(GRAPH, store=SQLiteStore(file))
    with pytest.raises(StoreCorruptError, match=f"^run 'r1': {message}"):
        engine.state("r1")
    assert engine.state("r0").step == 3


def test_a_damaged_content_is_named_with_run_and_step(file: Path) -> None:
    damage(file, "UPDATE blobs SET body = x'00'")
    engine = Engine(GRAPH, store=SQLiteStore(file))
    with pytest.raises(StoreCorruptError, match=r"^run 'r1': step 3: the content [0-9a-f]{12}… is damaged"):
        engine.state("r1")


def test_a_step_that_says_something_else_than_its_digest_is_named(file: Path) -> None:
    """Even where the checksum fits: somebody has changed both."""
    store = SQLiteStore(file)
    step = store.find("r1", "step", "")[1]
    from clew.stores import LogEntry
    from clew.stores.sql_rows import checksum

    other = LogEntry("step", "", 2, bytes(step.body).replace(b"value", b"other"), step.digest)
    assert other.body != step.body
    with closing(sqlite3.connect(file)) as db:
        db.execute(
            "UPDATE steps SET body = ?, crc = ? WHERE id = ?",
            (other.body, checksum("r1", *other.name, other.body, other.digest), (2 << 32) + 2),
        )
        db.commit()
    with pytest.raises(StoreCorruptError, match=r"run 'r1': step 2 is damaged .digest mismatch"):
        Engine(GRAPH, store=SQLiteStore(file)).state("r1")


def test_a_snapshot_of_something_else_is_named_by_the_doctor(file: Path) -> None:
    from clew.runtime.log.snapshots import snapshot_entry

    engine = Engine(GRAPH, store=SQLiteStore(file), import_string=f"{__name__}:GRAPH")
    entry, _ = snapshot_entry(engine.state("r0", step=1), {})
    other, _ = snapshot_entry(engine.state("r1", step=1), {})
    fence = engine.store.claim("r1", "me", lease=1.0)
    from clew.stores import LogEntry

    engine.store.append("r1", [LogEntry("snapshot", "", 1, entry.body, other.digest)], fence)
    engine.store.release("r1", fence)
    assert "run 'r1': the snapshot at step 1 belongs to a different state" in examine(engine.store)["damage"]


def test_whatever_is_wrong_with_a_run_the_doctor_goes_on(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clew.runtime.log.checks import verification

    def fail(*args: Any) -> Any:
        raise RecursionError("it is too deep")

    monkeypatch.setattr(verification, "check_log", fail)
    found = examine(SQLiteStore(file))
    assert [message for message in found["damage"] if "run 'r1'" in message and "it is too deep" in message]


def test_a_row_with_damage_is_a_row(file: Path) -> None:
    damage(file, ROWS["no start"])
    store = SQLiteStore(file)
    row = store.rows()[1]
    assert isinstance(row, RunRow)
    assert "run 'r1'" in row.damage
    with pytest.raises(ClewError):
        store.row("r1")

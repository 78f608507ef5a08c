"""Any column of a store with a value of another type: no command fails in a way that nobody expected.

Somebody edits a store with `sqlite3`, one column of the first row at a time. Damage is a `StoreCorruptError` of one
run: every other run can be read, `clew runs` lists all of them, and `clew doctor` says what is wrong.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, SideEffectPolicy, SQLiteStore, node
from clew.cli.app import run_command
from clew.errors import ClewError, StoreCorruptError

ESCAPES = "\x1b]0;title\x07\x1b[2J\r\n\x9b31m"
VALUES: list[Any] = [
    1e300,
    -1e300,
    float("inf"),
    -1,
    0,
    10**18,
    None,
    ESCAPES,
    "9" * 5000,
    "",
    "text",
    b"\xff\x00",
]
COLUMNS = {
    "runs": "run_id fence owner token status created updated graph seed parent parent_step structure target "
    "error census",
    "workers": "owner slot until boot dead",
    "origins": "start codes start_digest description crc",
    "steps": "body digest crc id",
    "log": "kind path n body digest crc",
    "blobs": "digest body",
}
DAMAGE = [(table, column) for table, columns in COLUMNS.items() for column in columns.split()]
VERBS = [
    ["runs"],
    ["runs", "--json"],
    ["show", "first"],
    ["show", "first", "--json"],
    ["why", "first", "y"],
    ["diff", "first", "second"],
    ["export", "first"],
    ["doctor"],
    ["doctor", "--json"],
    ["prune", "--keep", "1", "--dry-run"],
    ["prune", "--older-than", "1d", "--dry-run"],
    ["replay", "first"],
    ["resume", "first"],
]


@node(output="y", side_effects=SideEffectPolicy(recordable=True))
def listed(x: int, ctx: Context) -> list[int]:
    return [ctx.record("call", lambda: x)]


@node(output="z")
def fails(y: list[int]) -> int:
    raise ValueError("no")


GRAPH = Graph([listed, fails])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two runs in one file."""
    path = tmp_path_factory.mktemp("sound") / "runs.db"
    with Engine(GRAPH, store=SQLiteStore(path)) as engine:
        engine.run({"x": 1}, run_id="first", check=False)
        engine.run({"x": 2}, run_id="second", check=False)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    return path


def damaged(sound: Path, place: Path, table: str, column: str) -> Iterator[tuple[Any, Path]]:
    """A copy of the store for each value that the column takes."""
    for i, value in enumerate(VALUES):
        path = place / f"{i}.db"
        shutil.copy(sound, path)
        first = "" if table in ("blobs", "workers") else f"WHERE rowid = (SELECT min(rowid) FROM {table})"
        try:
            with closing(sqlite3.connect(path)) as db, db:
                db.execute(f"UPDATE {table} SET {column} = ? {first}", (value,))
        except (sqlite3.Error, OverflowError):
            continue  # the column does not take it
        yield value, path


@pytest.mark.parametrize("table, column", DAMAGE)
@pytest.mark.parametrize("sample", [1, pytest.param(len(VERBS), marks=pytest.mark.slow)])
def test_every_command_expects_it(
    sound: Path,
    tmp_path: Path,
    sample: int,
    table: str,
    column: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    verbs = islice(cycle(VERBS), DAMAGE.index((table, column)), None)
    for value, path in damaged(sound, tmp_path, table, column):
        for verb in islice(verbs, sample):
            code = run_command([*verb, "--store", str(path)])
            printed = "".join(capsys.readouterr())
            assert code in (0, 1, 2), (value, verb)
            assert "not foreseen" not in printed, (value, verb, printed)
            assert not set(printed) & set("\x1b\x07\r\x9b"), (value, verb, printed)


@pytest.mark.parametrize("table, column", [each for each in DAMAGE if each[0] != "blobs"])
def test_only_one_run_is_damaged(sound: Path, tmp_path: Path, table: str, column: str) -> None:
    for value, path in damaged(sound, tmp_path, table, column):
        with Engine(store=SQLiteStore(path)) as viewer:
            (second,) = (row for row in viewer.runs() if row.run_id == "second")
            assert second.damage == "", value
            assert viewer.state("second").get("y") == [2], value
            assert len(viewer.history("second")) == 2
            for verb in (viewer.result, viewer.state, viewer.history, viewer.export_run):
                try:
                    verb("first")
                except ClewError:
                    pass
            list(viewer.store.check())


@pytest.mark.parametrize(
    "table, column, value",
    [
        ("steps", "body", "text"),
        ("steps", "digest", 7),
        ("log", "body", 7),
        ("blobs", "body", 1 << 40),  # not that many zeros
        ("blobs", "body", None),
        ("runs", "error", 1 << 40),
        ("runs", "error", "text"),
        ("runs", "status", b"failed"),
        ("runs", "graph", b"graph"),
        ("runs", "target", b"flow:graph"),
        ("runs", "created", "text"),
        ("runs", "updated", "text"),
        ("runs", "updated", float("inf")),
        ("runs", "parent", b"second"),
        ("runs", "parent_step", "text"),
        ("runs", "token", b"token"),
        ("workers", "until", "text"),
        ("workers", "boot", b"boot"),
        ("workers", "slot", "text"),
        ("workers", "dead", "text"),
        ("origins", "start", "text"),
        ("origins", "codes", 7),
    ],
)
def test_it_is_damage_of_that_run_and_doctor_says_so(
    sound: Path, tmp_path: Path, table: str, column: str, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.db"
    shutil.copy(sound, path)
    first = "" if table in ("blobs", "workers") else f"WHERE rowid = (SELECT min(rowid) FROM {table})"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE {table} SET {column} = ? {first}", (value,))
        db.execute("UPDATE runs SET owner = (SELECT max(owner) FROM workers), status = status")
    with Engine(GRAPH, store=SQLiteStore(path), check=False) as engine, pytest.raises(StoreCorruptError):
        [verb("first") for verb in (engine.resume, engine.history, engine.export_run)]
    assert run_command(["doctor", "--store", str(path)]) == 1
    assert "damage: " in capsys.readouterr().out
    assert run_command(["runs", "--store", str(path)]) == 0
    assert "second" in capsys.readouterr().out


def test_a_run_whose_id_is_no_text_is_listed_as_damaged(sound: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    shutil.copy(sound, path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE runs SET run_id = x'ff00' WHERE id = 1")
    with Engine(store=SQLiteStore(path)) as viewer:
        first, second = viewer.runs()
        assert first.damage
        assert isinstance(first.error, StoreCorruptError)
        assert not second.damage
    assert run_command(["doctor", "--store", str(path)]) == 1

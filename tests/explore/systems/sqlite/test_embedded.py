"""SQLiteSystem(private=True): the application works on the system's own connection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.errors import RollbackError, SystemSetupError, UnknownCheckpointError
from clew.explore.model.system import System
from clew.explore.systems import SQLiteSystem
from tests.explore.systems.sqlite.test_system import CASES


@pytest.fixture(params=[":memory:", "file"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SQLiteSystem]:
    path = tmp_path / "private.db" if request.param == "file" else request.param
    with SQLiteSystem(path, private=True) as made:
        yield made


def contents(app: Any) -> dict[str, list[str]]:
    found = {}
    for _, name, kind, _, _, _ in app.execute("PRAGMA table_list"):
        if kind not in ("view", "shadow") and name not in ("sqlite_schema", "sqlite_temp_schema"):
            quoted = '"' + name.replace('"', '""') + '"'
            found[name] = sorted(map(repr, app.execute(f"SELECT * FROM {quoted}")))
    return found


@pytest.mark.parametrize("case", sorted(set(CASES) - {"every type", "WITHOUT ROWID, keys that collate"}))
def test_any_state_is_restored_from_any_other(case: str, system: SQLiteSystem) -> None:
    app = system.connection
    first, *steps = CASES[case]
    app.execute(first)
    found = [(system.checkpoint("initial"), contents(app), system.observe())]
    for step in steps:
        app.execute(step)
        found.append((system.checkpoint("step"), contents(app), system.observe()))
    for start, _, _ in found:
        for token, rows, observation in found:
            system.rollback(start)
            system.rollback(token)
            assert contents(app) == rows
            assert system.observe() == observation


def test_states_before_and_after_a_change_of_the_schema(system: SQLiteSystem) -> None:
    app = system.connection
    app.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t(v) VALUES ('a')")
    found = [(system.checkpoint("initial"), contents(app), system.observe())]
    for step in (
        "INSERT INTO t(v) VALUES ('b')",
        "ALTER TABLE t DROP COLUMN v",
        "INSERT INTO t DEFAULT VALUES; CREATE TABLE made(x)",
        "INSERT INTO made VALUES (1); DROP TABLE t",
    ):
        app.execute(step)
        found.append((system.checkpoint("step"), contents(app), system.observe()))
    for start, _, _ in found:
        for token, rows, observation in found:
            system.rollback(start)
            system.rollback(token)
            assert contents(app) == rows
            assert system.observe() == observation


def test_exact_values(system: SQLiteSystem) -> None:
    app = system.connection
    app.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a)")
    found = [(system.checkpoint("initial"), contents(app))]
    for value in (1, 1.0, 0.5, "1", b"1", None, float("inf"), 2**63 - 1, "a\0b"):
        app.execute("REPLACE INTO t VALUES (1, ?)", (value,))
        found.append((system.checkpoint("step"), contents(app)))
    for token, rows in reversed(found):
        system.rollback(token)
        assert contents(app) == rows


def test_there_is_nothing_of_ours_in_the_database(system: SQLiteSystem) -> None:
    app = system.connection
    app.execute("CREATE TABLE t(a)")
    system.checkpoint("start")
    assert list(app.execute("SELECT name FROM sqlite_master")) == [("t",)]


def test_a_transaction_must_end_before_a_rollback(system: SQLiteSystem) -> None:
    app = system.connection
    app.execute("CREATE TABLE t(a)")
    token = system.checkpoint("start")
    app.execute("BEGIN; INSERT INTO t VALUES (1)")
    with pytest.raises(RollbackError, match="transaction"):
        system.rollback(token)
    app.execute("COMMIT")
    system.rollback(token)
    assert contents(app)["t"] == []


def test_foreign_keys_and_triggers_are_on_again_after_a_restore(system: SQLiteSystem) -> None:
    app = system.connection
    app.execute(
        "PRAGMA foreign_keys = ON; CREATE TABLE p(id INTEGER PRIMARY KEY);"
        "CREATE TABLE c(p REFERENCES p ON DELETE CASCADE); CREATE TABLE log(x);"
        "CREATE TRIGGER tr AFTER DELETE ON p BEGIN INSERT INTO log VALUES (OLD.id); END;"
        "INSERT INTO p VALUES (1); INSERT INTO c VALUES (1)"
    )
    token = system.checkpoint("start")
    for _ in range(2):
        app.execute("DELETE FROM p")
        assert contents(app) == {"p": [], "c": [], "log": ["(1,)"]}
        system.rollback(token)
        assert contents(app) == {"p": ["(1,)"], "c": ["(1,)"], "log": []}


def test_keys_that_collate_are_refused(system: SQLiteSystem) -> None:
    system.connection.execute("CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY) WITHOUT ROWID")
    with pytest.raises(SystemSetupError, match="sessions cannot record"):
        system.checkpoint("start")


def test_tokens(system: SQLiteSystem) -> None:
    assert isinstance(system, System)
    with pytest.raises(UnknownCheckpointError, match="Checkpoint not found: 1"):
        system.rollback(1)
    token = system.checkpoint("a")
    system.release(token)
    assert not system.is_valid(token)


def test_a_shared_system_has_no_connection_to_give(tmp_path: Path) -> None:
    with SQLiteSystem(tmp_path / "a.db") as system, pytest.raises(SystemSetupError, match="private=True"):
        system.connection

"""SQLiteSystem(":memory:"): the application uses the connection that the system gives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.errors import SystemSetupError
from clew.explore.systems import SQLiteSystem


def test_states_are_restored_in_any_order_also_of_another_schema() -> None:
    with SQLiteSystem(":memory:") as system:
        app = system.connection
        app.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v)")
        found = [(system.checkpoint("initial"), system.observe())]
        for step in (
            "INSERT INTO t (v) VALUES ('a'), (1.0)",
            "ALTER TABLE t ADD COLUMN more",
            "UPDATE t SET more = x'00'",
            "DROP TABLE t",
        ):
            app.execute(step)
            found.append((system.checkpoint("step"), system.observe()))
        for start, _ in found:
            for token, observation in found:
                system.rollback(start)
                system.rollback(token)
                assert system.observe() == observation


def test_each_system_has_its_own_database() -> None:
    with SQLiteSystem(":memory:") as one, SQLiteSystem(":memory:") as other:
        one.connection.execute("CREATE TABLE t (v)")
        assert other.connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


def test_a_system_of_a_file_has_no_connection_to_give(tmp_path: Path) -> None:
    with SQLiteSystem(tmp_path / "a.db") as system, pytest.raises(SystemSetupError, match=":memory:"):
        system.connection

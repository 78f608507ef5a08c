"""SQLiteSystem on real files: the application writes through its own connections, and really commits."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.errors import (
    CheckpointError,
    ExplorationWarning,
    RollbackError,
    SystemSetupError,
    UnknownCheckpointError,
)
from clew.explore.model.system import System
from clew.explore.systems import SQLiteSystem

Open = Callable[..., SQLiteSystem]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def app(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of the application's, in WAL mode."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")
    yield connection
    connection.close()


@pytest.fixture
def open_system(path: Path) -> Iterator[Open]:
    opened: list[SQLiteSystem] = []

    def opening(**options: Any) -> SQLiteSystem:
        opened.append(SQLiteSystem(path, **options))
        return opened[-1]

    yield opening
    for system in opened:
        system.close()


def contents(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Every table of the application's with rowids, types and exact values, and the AUTOINCREMENT counters."""
    found: dict[str, list[str]] = {}
    connection.text_factory = bytes
    kinds = connection.execute("PRAGMA table_list").fetchall()
    for _, raw, kind, _, without_rowid, _ in kinds:
        name = raw.decode()
        if name.startswith("_clew_") or name in ("sqlite_schema", "sqlite_temp_schema") or kind == b"view":
            continue
        quoted = '"' + name.replace('"', '""') + '"'
        rowid = "" if without_rowid or kind == b"virtual" or name == "sqlite_sequence" else "rowid, "
        rows = connection.execute(f"SELECT {rowid}* FROM {quoted}").fetchall()
        found[name] = sorted(map(repr, rows))
        columns = [c[1].decode() for c in connection.execute(f"PRAGMA table_info({quoted})")]
        if kind != b"virtual" and columns:
            typed = ", ".join('typeof("' + c.replace('"', '""') + '")' for c in columns)
            found[name] += sorted(map(repr, connection.execute(f"SELECT {typed} FROM {quoted}")))
    connection.text_factory = str
    return found


def visits(
    system: SQLiteSystem, app: sqlite3.Connection, *steps: str | Callable[[], object]
) -> list[tuple[int, dict[str, list[str]], Any]]:
    """Checkpoints before the first step and after each, with what was there."""
    found = [(system.checkpoint("initial"), contents(app), system.observe())]
    for step in steps:
        if callable(step):
            step()
        else:
            app.executescript(step)
        found.append((system.checkpoint("step"), contents(app), system.observe()))
    return found


def restores_all(
    system: SQLiteSystem, app: sqlite3.Connection, found: list[tuple[int, dict[str, list[str]], Any]]
) -> None:
    """Every state from every other one, with what was there and what was observed."""
    for start, _, _ in found:
        for token, rows, observation in found:
            system.rollback(start)
            system.rollback(token)
            assert contents(app) == rows
            assert system.observe() == observation
            assert system.observe().digest == observation.digest


CASES = {
    "inserts, updates, deletes": [
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t(v) VALUES ('a'), ('b'), ('c')",
        "INSERT INTO t(v) VALUES ('d'); UPDATE t SET v = 'B' WHERE id = 2",
        "DELETE FROM t WHERE id = 1; UPDATE t SET id = 10 WHERE id = 3",
        "DELETE FROM t",
    ],
    "a table without a key, and equal rows": [
        "CREATE TABLE t(a, b); INSERT INTO t VALUES (1, 2), (1, 2), (1.0, '2')",
        "INSERT INTO t VALUES (1, 2); DELETE FROM t WHERE rowid = 1",
        "DELETE FROM t WHERE a = 1; INSERT INTO t(rowid, a) VALUES (-1, 'minus one')",
        "INSERT INTO t VALUES (NULL, NULL)",
    ],
    "WITHOUT ROWID, keys that collate": [
        "CREATE TABLE t(k TEXT COLLATE NOCASE, n INT, v REAL, PRIMARY KEY (k, n)) WITHOUT ROWID;"
        "INSERT INTO t VALUES ('A', 1, 1.5), ('b', 1, 2)",
        "REPLACE INTO t VALUES ('a', 1, 9)",
        "UPDATE OR REPLACE t SET k = 'B' WHERE k = 'a'",
        "DELETE FROM t",
    ],
    "every type": [
        "CREATE TABLE t(a, i INTEGER, r REAL, n NUMERIC, x TEXT, b BLOB)",
        "INSERT INTO t VALUES (1, 1, 1, 1, 1, 1), (1.0, 1.0, 1.0, 1.0, 1.0, 1.0), ('1', '1', '1', '1', '1', '1')",
        "INSERT INTO t VALUES (x'31', x'31', x'31', x'31', x'31', x'31'), (NULL, NULL, NULL, NULL, NULL, NULL)",
        "INSERT INTO t VALUES (9e999, -9e999, 1e300, 9223372036854775807, 'a' || char(0) || 'b', zeroblob(9))",
        "INSERT INTO t(a, x) VALUES (CAST(x'ff00fe' AS TEXT), CAST(x'c3' AS TEXT)), ('', x'')",
        "UPDATE t SET a = CAST(a AS BLOB), x = CAST(x AS BLOB); DELETE FROM t WHERE i = 1",
    ],
    "strict tables": [
        "CREATE TABLE t(id INT PRIMARY KEY, a ANY, r REAL) STRICT",
        "INSERT INTO t VALUES (1, '1', 1), (2, 1, 2)",
        "REPLACE INTO t VALUES (1, 1, 3)",
    ],
    "generated columns": [
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b AS (a * 2) STORED, c AS (a * 3), UNIQUE (b));"
        "INSERT INTO t(a) VALUES (1), (2)",
        "UPDATE t SET a = 5 WHERE id = 1",
        "REPLACE INTO t(id, a) VALUES (9, 2)",
    ],
    "AUTOINCREMENT": [
        "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v); INSERT INTO t(v) VALUES (1), (2)",
        "INSERT INTO t(v) VALUES (3)",
        "DELETE FROM t",
        "INSERT INTO t(v) VALUES (4); INSERT INTO t(id) VALUES (100)",
    ],
    "unique values that swap": [
        "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, v); INSERT INTO t VALUES (1, 'a', 0), (2, 'b', 0)",
        "UPDATE t SET u = 'c' WHERE id = 1; UPDATE t SET u = 'a' WHERE id = 2; UPDATE t SET u = 'b' WHERE id = 1",
        "UPDATE t SET id = 3 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2; UPDATE t SET id = 2 WHERE id = 3",
    ],
    "INSERT OR REPLACE over several unique columns": [
        "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, a, b, UNIQUE (a, b));"
        "INSERT INTO t VALUES (1, 'x', 1, 1), (2, 'y', 2, 2), (3, 'z', 3, 3), (4, 'w', NULL, 4)",
        "REPLACE INTO t VALUES (1, 'y', 3, 3)",
        "INSERT OR REPLACE INTO t(u, a, b) VALUES ('w', NULL, 4), ('w', NULL, 5)",
        "REPLACE INTO t VALUES (1, 'y', 3, 3)",
    ],
    "UPDATE OR REPLACE": [
        "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "UPDATE OR REPLACE t SET u = 'b' WHERE id = 1",
        "UPDATE OR REPLACE t SET id = 3 WHERE id = 1",
        "UPDATE OR REPLACE t SET u = 'same'",
    ],
    "UPDATE OR REPLACE of a hidden rowid": [
        "CREATE TABLE t(a); INSERT INTO t VALUES (1), (2), (3)",
        "UPDATE OR REPLACE t SET rowid = 1 WHERE a = 3",
        "INSERT OR REPLACE INTO t(rowid, a) VALUES (1, 'new')",
    ],
    "conflicts that a table's own clause resolves": [
        "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE ON CONFLICT REPLACE); INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "INSERT INTO t VALUES (3, 'a')",
        "UPDATE t SET u = 'b' WHERE id = 3",
    ],
    "conflicts that are not resolved by removing rows": [
        "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, n DEFAULT 0); INSERT INTO t(u) VALUES ('a'), ('b')",
        "INSERT OR IGNORE INTO t(u) VALUES ('a'), ('c')",
        "INSERT INTO t(u) VALUES ('b'), ('d') ON CONFLICT (u) DO UPDATE SET n = n + 1",
        "INSERT INTO t(u) VALUES ('b') ON CONFLICT DO NOTHING; DELETE FROM t WHERE u = 'b'",
        "INSERT INTO t(id, u) VALUES (2, 'b') ON CONFLICT (id) DO UPDATE SET u = 'z';"
        "REPLACE INTO t VALUES (1, 'z', 7)",
    ],
    "unique indexes: partial, and of another collation": [
        "CREATE TABLE t(a TEXT, b); CREATE UNIQUE INDEX i ON t(a COLLATE NOCASE) WHERE b > 0;"
        "INSERT INTO t VALUES ('x', 1), ('X', 0), ('y', 1)",
        "REPLACE INTO t VALUES ('X', 2)",
        "REPLACE INTO t VALUES ('Y', 0), ('x', -1)",
    ],
    "unique indexes on expressions": [
        "CREATE TABLE t(a TEXT, b INT, c AS (b * 10));"
        "CREATE UNIQUE INDEX i ON t(lower(a) || '(,' /* , */ DESC, b % 10 COLLATE BINARY ASC) WHERE b > 0;"
        "CREATE UNIQUE INDEX \"j, (\" ON t(abs(c - 5), a); INSERT INTO t VALUES ('x', 1), ('y', 2), ('z', 3)",
        "REPLACE INTO t VALUES ('X', 11)",
        "UPDATE OR REPLACE t SET a = 'Y' WHERE b = 3; UPDATE OR REPLACE t SET b = 12, a = 'y' WHERE a = 'Y'",
        "REPLACE INTO t VALUES ('y', -11), ('y', 12), ('X', NULL), (NULL, 1)",
    ],
    "foreign keys with cascades": [
        "PRAGMA foreign_keys = ON; CREATE TABLE p(id INTEGER PRIMARY KEY, n UNIQUE);"
        "CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p(n) ON DELETE CASCADE ON UPDATE CASCADE);"
        "CREATE TABLE s(id INTEGER PRIMARY KEY, c REFERENCES c(id) ON DELETE SET NULL,"
        "  me REFERENCES s(id) ON DELETE CASCADE);"
        "INSERT INTO p VALUES (1, 'a'), (2, 'b'); INSERT INTO c VALUES (1, 'a'), (2, 'a'), (3, 'b');"
        "INSERT INTO s VALUES (1, 1, NULL), (2, 2, 1), (3, 3, 2)",
        "UPDATE p SET n = 'A' WHERE id = 1",
        "DELETE FROM p WHERE id = 1",
        "REPLACE INTO p VALUES (2, 'q')",
        "DELETE FROM s",
    ],
    "triggers of the user's": [
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v, touched DEFAULT 0); CREATE TABLE log(what);"
        "CREATE TRIGGER t1 AFTER INSERT ON t BEGIN INSERT INTO log VALUES ('in ' || NEW.id);"
        "  UPDATE t SET touched = touched + 1 WHERE id = NEW.id; END;"
        "CREATE TRIGGER t2 BEFORE DELETE ON t BEGIN INSERT INTO log VALUES ('out ' || OLD.id); END;"
        "CREATE TRIGGER t3 AFTER DELETE ON log BEGIN SELECT RAISE(ABORT, 'the log stays'); END;"
        "INSERT INTO t(v) VALUES ('a'), ('b')",
        "INSERT INTO t(v) VALUES ('c')",
        "REPLACE INTO t VALUES (1, 'new', 0)",
        "DELETE FROM t WHERE id = 2; REPLACE INTO t VALUES (1, 'new', 0)",
    ],
    "triggers of the user's that write before": [
        "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, n);"
        "CREATE TRIGGER b BEFORE INSERT ON t WHEN NEW.n = 'make room' BEGIN"
        "  INSERT OR REPLACE INTO t VALUES (NEW.id + 100, NEW.u || '!', 'nested');"
        "  DELETE FROM t WHERE n = 'victim'; END;"
        "INSERT INTO t VALUES (1, 'a', 'victim'), (2, 'b', ''), (102, 'x', '')",
        "REPLACE INTO t VALUES (2, 'a', 'make room')",
        "REPLACE INTO t VALUES (2, 'x', ''), (3, 'a', 'make room')",
    ],
    "names with quotes, braces and emoji": [
        'CREATE TABLE "it\'s ""{0}"" 🧵"("rowid" PRIMARY KEY, "a ""b"" {}", "🐘" UNIQUE, "%s"); '
        'INSERT INTO "it\'s ""{0}"" 🧵" VALUES (1, 2, 3, 4)',
        'REPLACE INTO "it\'s ""{0}"" 🧵" VALUES (2, 2, 3, 5)',
        'UPDATE "it\'s ""{0}"" 🧵" SET "🐘" = \'🧶\'',
    ],
    "views": [
        "CREATE TABLE t(a, b); CREATE VIEW v AS SELECT a FROM t; CREATE TRIGGER iv INSTEAD OF INSERT ON v"
        " BEGIN INSERT INTO t VALUES (NEW.a, 'through the view'); END",
        "INSERT INTO v VALUES (1)",
        "INSERT INTO v VALUES (2)",
    ],
    "full-text search": [
        "CREATE VIRTUAL TABLE f USING fts5(a, b); INSERT INTO f VALUES ('a cat', 'sat')",
        "INSERT INTO f VALUES ('a dog', 'ran')",
        "DELETE FROM f WHERE f MATCH 'cat'",
        "UPDATE f SET b = 'slept'; INSERT INTO f(f) VALUES ('optimize')",
    ],
    "r-trees": [
        "CREATE VIRTUAL TABLE r USING rtree(id, x0, x1); INSERT INTO r VALUES (1, 0, 1)",
        "INSERT INTO r VALUES (2, 5, 6); UPDATE r SET x1 = 2 WHERE id = 1",
        "DELETE FROM r WHERE id = 1",
    ],
}


@pytest.mark.parametrize("recursive", [False, True], ids=["", "recursive_triggers"])
@pytest.mark.parametrize("case", CASES)
def test_any_state_is_restored_from_any_other(
    case: str, recursive: bool, app: sqlite3.Connection, open_system: Open
) -> None:
    first, *steps = CASES[case]
    app.executescript(first)
    app.execute(f"PRAGMA recursive_triggers = {recursive}")
    system = open_system()
    restores_all(system, app, visits(system, app, *steps))


def test_exact_values_bound_by_an_application(app: sqlite3.Connection, open_system: Open) -> None:
    app.execute("CREATE TABLE t(a, r REAL, n NUMERIC)")
    system = open_system()
    values = [-0.0, 0.0, float("nan"), 5e-324, 2**63 - 1, -(2**63), "\ud7ff\U0010ffff", b"\0", True, None]
    found = visits(
        system,
        app,
        *[
            lambda value=value: app.execute("INSERT INTO t VALUES (?, ?, ?)", (value,) * 3)
            for value in values
        ],
    )
    restores_all(system, app, found)
    assert len({observation.digest for _, _, observation in found}) == len(found)


def test_the_same_state_reached_another_way_is_the_same(app: sqlite3.Connection, open_system: Open) -> None:
    app.executescript(
        "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v); INSERT INTO t(v) VALUES ('a')"
    )
    system = open_system()
    start = system.observe()
    app.executescript("INSERT INTO t(v) VALUES ('b'); UPDATE t SET v = 'A' WHERE id = 1")
    assert system.observe().digest != start.digest
    app.executescript("DELETE FROM t WHERE v = 'b'; UPDATE t SET v = 'a' WHERE id = 1")
    assert system.observe() == start  # the counter is at 2 now, which counts for restoring only
    token = system.checkpoint("a")
    app.execute("INSERT INTO t(v) VALUES ('c')")
    system.rollback(token)
    app.execute("INSERT INTO t(v) VALUES ('c')")
    assert app.execute("SELECT max(id) FROM t").fetchone() == (3,)


@pytest.mark.parametrize("seed", range(40))
def test_writes_that_a_conflict_swallows(app: sqlite3.Connection, open_system: Open, seed: int) -> None:
    """What is observed and restored is what the rows are, whichever way a statement deals with a conflict."""
    rng = random.Random(seed)
    app.execute("CREATE TABLE p (id INTEGER PRIMARY KEY, k TEXT UNIQUE, n INT)")
    system = open_system()

    def rows() -> list[dict[str, Any]]:
        return [{"id": a, "k": b, "n": c} for a, b, c in app.execute("SELECT id, k, n FROM p ORDER BY id")]

    states = [(system.checkpoint("start"), rows())]
    for _ in range(60):
        key, other = rng.choice("abc"), rng.choice("abc")
        choice = rng.randrange(7)
        if choice < 2:
            how = rng.choice(["IGNORE", "REPLACE"])
            app.execute(f"INSERT OR {how} INTO p (k, n) VALUES (?, ?)", (key, rng.randrange(3)))
        elif choice == 2:
            app.execute(
                f"UPDATE OR {rng.choice(['IGNORE', 'REPLACE'])} p SET k = ? WHERE k = ?", (key, other)
            )
        elif choice == 3:
            app.execute("DELETE FROM p WHERE k = ?", (key,))
        elif choice == 4:
            app.execute("INSERT INTO p (k, n) VALUES (?, 1) ON CONFLICT (k) DO UPDATE SET n = n + 1", (key,))
        elif choice == 5:
            states.append((system.checkpoint("here"), rows()))
        else:
            token, were = rng.choice(states)
            system.rollback(token)
            assert rows() == were
        if rng.random() < 0.5:
            assert sorted(system.observe().data["p"], key=lambda row: row["id"]) == rows()


def test_what_an_observation_shows(app: sqlite3.Connection, open_system: Open) -> None:
    app.executescript('CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE "large 🐘"(a)')
    app.executescript(
        "INSERT INTO t VALUES (2, 'b'), (1, 1.5); INSERT INTO \"large 🐘\" VALUES " + ",".join(["(1)"] * 101)
    )
    data = open_system(rows_shown=100).observe().data
    assert data["t"] == [{"id": 1, "v": 1.5}, {"id": 2, "v": "b"}]
    assert data["large 🐘"]["rows"] == 101


def test_equal_numbers_of_different_types_are_different_states(
    app: sqlite3.Connection, open_system: Open
) -> None:
    app.executescript("CREATE TABLE t(a); INSERT INTO t VALUES (1)")
    system = open_system()
    digests = {system.observe().digest}
    for value in ("1.0", "'1'", "x'31'"):
        app.execute(f"UPDATE t SET a = {value}")
        digests.add(system.observe().digest)
    assert len(digests) == 4


def test_ignored_columns_do_not_count_and_are_restored(app: sqlite3.Connection, open_system: Open) -> None:
    app.executescript(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v, updated_at); INSERT INTO t VALUES (1, 'a', 10)"
    )
    system = open_system(ignore={"t": ["updated_at"]})
    start, token = system.observe(), system.checkpoint("start")
    app.execute("UPDATE t SET updated_at = 20")
    assert system.observe() == start
    system.rollback(token)
    assert app.execute("SELECT updated_at FROM t").fetchone() == (10,)


def test_tables_that_are_not_observed_are_restored(app: sqlite3.Connection, open_system: Open) -> None:
    app.executescript("CREATE TABLE t(a); CREATE TABLE audit_a(a); CREATE TABLE audit_b(a)")
    system = open_system(observe=["t", "audit_a*"])
    token, start = system.checkpoint("start"), system.observe()
    assert start.data == {"t": [], "audit_a": []}
    app.executescript("INSERT INTO audit_b VALUES (1)")
    assert system.observe() == start
    app.executescript("INSERT INTO audit_a VALUES (1)")
    assert system.observe() != start
    system.rollback(token)
    assert app.execute("SELECT (SELECT count(*) FROM audit_a) + count(*) FROM audit_b").fetchone() == (0,)


def test_columns_are_ignored_by_pattern(app: sqlite3.Connection, open_system: Open) -> None:
    app.executescript(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, created_at); CREATE TABLE u(created_at, updated_at, v); "
        "CREATE TABLE w(v); INSERT INTO t VALUES (1, 10); INSERT INTO u VALUES (1, 2, 3); INSERT INTO w VALUES (4)"
    )
    system = open_system(ignore=["*.created_at", "u.upd*"])
    token, start = system.checkpoint("start"), system.observe()
    assert start.data == {"t": [{"id": 1}], "u": [{"v": 3}], "w": [{"v": 4}]}
    app.executescript("UPDATE t SET created_at = 20; UPDATE u SET updated_at = 30")
    assert system.observe() == start
    system.rollback(token)
    assert app.execute("SELECT t.created_at, updated_at FROM t, u").fetchone() == (10, 2)


@pytest.mark.parametrize("ignore", [{"no": ["a"]}, {"t": ["no"]}, ["no*.a"], ["*.no"]])
def test_an_ignored_column_that_exists_nowhere_gets_a_warning(
    app: sqlite3.Connection, open_system: Open, ignore: Any
) -> None:
    app.execute("CREATE TABLE t(a)")
    system = open_system(ignore=ignore)
    with pytest.warns(ExplorationWarning, match=r"no column matches"):
        system.checkpoint("start")


def test_numbers_in_the_header_of_the_file_are_restored(app: sqlite3.Connection, open_system: Open) -> None:
    app.executescript("CREATE TABLE t(a); PRAGMA user_version = 3; PRAGMA application_id = 7")
    system = open_system()
    start, first = system.checkpoint("start"), system.observe()
    app.execute("PRAGMA user_version = 4")
    later = system.checkpoint("later")
    assert system.observe() == first
    app.executescript("INSERT INTO t VALUES (1); PRAGMA application_id = 8")

    def numbers() -> list[Any]:
        return [app.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id")]

    system.rollback(start)
    assert numbers() == [3, 7]
    system.rollback(later)
    assert numbers() == [4, 7]
    assert app.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_tables_that_are_not_watched_are_left_alone(app: sqlite3.Connection, open_system: Open) -> None:
    app.executescript("CREATE TABLE t(a); CREATE TABLE other(a)")
    system = open_system(tables=["t"])
    token, start = system.checkpoint("start"), system.observe()
    app.execute("INSERT INTO other VALUES (1)")
    assert system.observe() == start
    system.rollback(token)
    assert app.execute("SELECT count(*) FROM other").fetchone() == (1,)


def test_a_statement_that_fails_leaves_nothing_in_the_journal(
    app: sqlite3.Connection, open_system: Open
) -> None:
    app.executescript("CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE); INSERT INTO t VALUES (1, 'a')")
    system = open_system()
    start = system.observe()
    with pytest.raises(sqlite3.IntegrityError):
        app.execute("INSERT INTO t VALUES (2, 'b'), (3, 'a')")
    app.executescript(
        "BEGIN; DELETE FROM t; ROLLBACK; BEGIN; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; COMMIT"
    )
    assert system.observe() == start
    token = system.checkpoint("start")
    with pytest.raises(sqlite3.IntegrityError):
        app.execute("INSERT OR FAIL INTO t VALUES (2, 'b'), (3, 'a')")
    assert system.observe() != start
    system.rollback(token)
    assert app.execute("SELECT * FROM t").fetchall() == [(1, "a")]


# ------------------------------------------------------------------ DDL


def test_states_before_and_after_a_change_of_the_schema(app: sqlite3.Connection, open_system: Open) -> None:
    app.executescript("CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t(v) VALUES ('a')")
    system = open_system()
    found = visits(
        system,
        app,
        "INSERT INTO t(v) VALUES ('b')",
        "INSERT INTO t(v) VALUES ('c'); ALTER TABLE t ADD COLUMN extra; UPDATE t SET extra = v",
        "INSERT INTO t(v, extra) VALUES ('d', 'e')",
        "CREATE TABLE made(x); INSERT INTO made VALUES (1)",
        "DROP TABLE t",
        "VACUUM; INSERT INTO made VALUES (2)",
        'ALTER TABLE made RENAME TO "renamed 🧵"; CREATE INDEX i ON "renamed 🧵"(x)',
    )
    restores_all(system, app, found)


def test_a_change_of_the_schema_that_was_not_checkpointed_is_undone(
    app: sqlite3.Connection, open_system: Open
) -> None:
    app.executescript("CREATE TABLE t(a); INSERT INTO t VALUES (1)")
    system = open_system()
    token, rows = system.checkpoint("start"), contents(app)
    app.executescript("CREATE TABLE made(x); DROP TABLE t")
    system.rollback(token)
    assert contents(app) == rows
    app.execute("INSERT INTO t VALUES (2)")
    system.rollback(token)
    assert contents(app) == rows


def test_a_watched_table_may_be_dropped(app: sqlite3.Connection, open_system: Open) -> None:
    app.executescript("CREATE TABLE t(a, b); CREATE TABLE other(x)")
    system = open_system(tables=["t"], ignore={"t": ["b"]})
    token, start = system.checkpoint("start"), system.observe()
    app.execute("DROP TABLE t")
    assert system.observe().data == {}
    system.rollback(token)
    assert system.observe() == start


def test_a_column_cannot_be_dropped_while_it_is_watched(app: sqlite3.Connection, open_system: Open) -> None:
    app.execute("CREATE TABLE t(a, b)")
    system = open_system()
    system.checkpoint("start")
    with pytest.raises(sqlite3.OperationalError, match="_clew_"):
        app.execute("ALTER TABLE t DROP COLUMN b")
    system.close()
    app.execute("ALTER TABLE t DROP COLUMN b")


def test_an_empty_database_grows_tables(app: sqlite3.Connection, open_system: Open) -> None:
    system = open_system()
    found = visits(system, app, "CREATE TABLE t(a)", "INSERT INTO t VALUES (1)")
    restores_all(system, app, found)


# ------------------------------------------------------------------ other connections


def test_writers_that_go_on_between_restores(path: Path, app: sqlite3.Connection, open_system: Open) -> None:
    app.executescript("CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE u(a, b)")
    app.executemany("INSERT INTO t VALUES (?, ?)", [(n, "x") for n in range(200)])
    system = open_system(timeout=300)
    found = visits(system, app, "UPDATE t SET v = 'y' WHERE id % 7 = 0", "DELETE FROM t WHERE id > 100")
    go, done = threading.Event(), threading.Event()
    commits = [0] * 3

    def write(number: int) -> None:
        connection = sqlite3.connect(path, isolation_level=None, timeout=300)
        connection.execute("PRAGMA synchronous = OFF")
        go.wait()
        while not done.is_set():
            key = (commits[number] * 3 + number) % 250
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("REPLACE INTO t VALUES (?, ?)", (key, f"{number}"))
            connection.execute("INSERT INTO u VALUES (?, ?)", (number, key))
            connection.execute("COMMIT")
            commits[number] += 1
        connection.close()

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    go.set()
    for turn in range(60):
        token = found[turn % 3][0]
        system.rollback(token)
        if turn % 10 == 0:
            while not any(commits):
                done.wait(0.001)
    while min(commits) == 0 and all(writer.is_alive() for writer in writers):
        done.wait(0.001)
    done.set()
    for writer in writers:
        writer.join()
    assert min(commits) > 0
    restores_all(system, app, found)


def test_another_process_writes(path: Path, app: sqlite3.Connection, open_system: Open) -> None:
    app.executescript(
        "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v); INSERT INTO t(v) VALUES ('a')"
    )
    system = open_system()
    token, rows, start = system.checkpoint("start"), contents(app), system.observe()
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
        "c.execute(\"INSERT INTO t(v) VALUES ('b')\"); c.commit();"
        "c.execute('DELETE FROM t WHERE id = 1'); c.commit(); c.execute('DELETE FROM t'); import os; os._exit(9)"
    )
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", program, path], check=False).returncode == 9
        assert app.execute("SELECT id, v FROM t").fetchall() == [(2, "b")]  # what was not committed is gone
        assert system.observe() != start
        system.rollback(token)
        assert contents(app) == rows
        assert system.observe() == start


def test_an_open_reader_keeps_its_snapshot(path: Path, app: sqlite3.Connection, open_system: Open) -> None:
    app.executescript("CREATE TABLE t(a); INSERT INTO t VALUES (1)")
    system = open_system()
    token = system.checkpoint("start")
    app.execute("INSERT INTO t VALUES (2)")
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM t").fetchone() == (2,)
    system.rollback(token)
    assert reader.execute("SELECT count(*) FROM t").fetchone() == (2,)
    reader.execute("COMMIT")
    assert reader.execute("SELECT count(*) FROM t").fetchone() == (1,)
    reader.close()


@pytest.mark.parametrize("schema_changed", [False, True])
def test_a_writer_that_does_not_end_is_an_error_and_nothing_changed(
    schema_changed: bool, path: Path, app: sqlite3.Connection, open_system: Open
) -> None:
    app.executescript("CREATE TABLE t(a)")
    system = open_system(timeout=0.05)
    token = system.checkpoint("start")
    app.execute("CREATE TABLE made(b)" if schema_changed else "INSERT INTO t VALUES (2)")
    system.checkpoint("later")
    app.executescript("BEGIN IMMEDIATE; INSERT INTO t VALUES (3)")
    with pytest.raises(RollbackError, match="transaction"):
        system.rollback(token)
    app.execute("COMMIT")
    system.rollback(token)
    assert contents(app) == {"t": []}


def test_a_rollback_journal_works_too(path: Path, open_system: Open) -> None:
    app = sqlite3.connect(path, isolation_level=None)
    app.executescript(
        "PRAGMA journal_mode = DELETE; CREATE TABLE t(a UNIQUE, b); INSERT INTO t VALUES (1, 1)"
    )
    system = open_system()
    restores_all(
        system, app, visits(system, app, "REPLACE INTO t VALUES (1, 2)", "DELETE FROM t", "DROP TABLE t")
    )
    app.close()


def test_statements_prepared_before_the_system_came_are_journaled(
    app: sqlite3.Connection, open_system: Open
) -> None:
    app.execute("CREATE TABLE t(a)")
    app.execute("INSERT INTO t VALUES (?)", (1,))
    system = open_system()
    token = system.checkpoint("start")
    app.execute("INSERT INTO t VALUES (?)", (2,))
    system.rollback(token)
    assert app.execute("SELECT a FROM t").fetchall() == [(1,)]


# ------------------------------------------------------------------ tokens and life cycle


def test_it_is_a_system(open_system: Open) -> None:
    system = open_system()
    assert isinstance(system, System)
    assert system.ordering == "any"


def test_tokens_are_independent_of_their_names(app: sqlite3.Connection, open_system: Open) -> None:
    app.execute("CREATE TABLE t(a)")
    system = open_system()
    first = system.checkpoint("same ' \" name; DROP TABLE t")
    same_state = system.checkpoint("same")
    app.execute("INSERT INTO t VALUES (1)")
    second = system.checkpoint("same")
    assert len({first, same_state, second}) == 3
    system.release(first)
    assert not system.is_valid(first)
    assert system.is_valid(same_state)
    system.rollback(same_state)
    assert contents(app)["t"] == []
    system.rollback(second)
    assert len(app.execute("SELECT * FROM t").fetchall()) == 1
    system.release(first)
    system.release("never seen")


def test_a_token_that_is_not_there(app: sqlite3.Connection, open_system: Open) -> None:
    app.execute("CREATE TABLE t(a)")
    system = open_system()
    with pytest.raises(UnknownCheckpointError, match="Checkpoint not found: 1"):
        system.rollback(1)
    system.release(system.checkpoint("start"))
    app.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(KeyError):
        system.rollback(1)
    assert app.execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_released_states_between_others_do_not_break_the_way(
    app: sqlite3.Connection, open_system: Open
) -> None:
    app.execute("CREATE TABLE t(a)")
    system = open_system()
    found = visits(system, app, *[f"INSERT INTO t VALUES ({n})" for n in range(6)])
    for token, _, _ in found[1:-1:2]:
        system.release(token)
    restores_all(system, app, found[::2])


def test_closing_leaves_the_database_without_a_trace(path: Path, app: sqlite3.Connection) -> None:
    app.executescript("CREATE TABLE t(a); INSERT INTO t VALUES (1)")
    before = app.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    with SQLiteSystem(path) as system:
        system.checkpoint("start")
        assert app.execute("SELECT count(*) FROM sqlite_master").fetchone() != (len(before),)
    assert app.execute("SELECT type, name, sql FROM sqlite_master").fetchall() == before


def test_what_a_killed_process_left_behind_is_replaced(
    path: Path, app: sqlite3.Connection, open_system: Open
) -> None:
    app.executescript("CREATE TABLE t(a)")
    left = SQLiteSystem(path)
    left.checkpoint("start")
    app.execute("INSERT INTO t VALUES (1)")
    system = open_system()
    token = system.checkpoint("start")
    app.execute("INSERT INTO t VALUES (2)")
    system.rollback(token)
    assert app.execute("SELECT a FROM t").fetchall() == [(1,)]
    with pytest.raises(CheckpointError, match="another SQLiteSystem"):
        left.checkpoint("again")
    left.close()
    app.execute("INSERT INTO t VALUES (3)")
    system.rollback(token)
    assert app.execute("SELECT a FROM t").fetchall() == [(1,)]


def test_rows_that_changed_behind_the_journal_are_noticed(app: sqlite3.Connection, open_system: Open) -> None:
    app.executescript("CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
    system = open_system()
    token = system.checkpoint("start")
    app.executescript("INSERT INTO t VALUES (2); DELETE FROM _clew_journal WHERE side < 0; DELETE FROM t")
    app.execute("DELETE FROM _clew_journal WHERE side < 0")
    with pytest.raises(RollbackError, match="table 't' differs"):
        system.rollback(token)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"tables": ["t", "no"]}, "unknown tables"),
        ({"tables": "t"}, "expected a list of names"),
        ({"tables": ["v"]}, "views store no rows"),
        ({"observe": ["t", "no*"]}, "not rolled back"),
        ({"observe": "t"}, "expected a list of names"),
        ({"ignore": ["a"]}, "expected table.column"),
        ({"ignore": "t.a"}, "expected a list"),
        ({"ignore": {"t": "a"}}, "list of columns"),
    ],
)
def test_wrong_options(
    options: dict[str, Any], message: str, app: sqlite3.Connection, open_system: Open
) -> None:
    app.executescript("CREATE TABLE t(a); CREATE VIEW v AS SELECT 1")
    with pytest.raises(SystemSetupError, match=message):
        open_system(**options).checkpoint("start")


def test_files_that_are_no_database(tmp_path: Path) -> None:
    with pytest.raises(SystemSetupError, match="cannot open the database"):
        SQLiteSystem(tmp_path / "no folder" / "a.db")
    (tmp_path / "text").write_text("this is no database, and long enough to be seen as none" * 100)
    with pytest.raises(SystemSetupError, match="not a database"):
        SQLiteSystem(tmp_path / "text")


def test_functions_and_collations_of_the_application(app: sqlite3.Connection, open_system: Open) -> None:
    def prepare(connection: sqlite3.Connection) -> None:
        connection.create_collation("backwards", lambda one, other: (one < other) - (one > other))
        connection.create_function("double", 1, lambda n: n * 2, deterministic=True)

    prepare(app)
    app.executescript(
        "CREATE TABLE t(k TEXT COLLATE backwards PRIMARY KEY, n INT CHECK (double(n) >= 0), UNIQUE (n)) WITHOUT ROWID;"
        "CREATE INDEX i ON t(double(n)); INSERT INTO t VALUES ('a', 1), ('b', 2)"
    )
    system = open_system(prepare=prepare)
    restores_all(system, app, visits(system, app, "REPLACE INTO t VALUES ('b', 1)", "UPDATE t SET n = n + 5"))


# ------------------------------------------------------------------ any program of statements

STATEMENTS = [
    "INSERT OR {verb} INTO t(id, u, v) VALUES ({a}, {b}, {c})",
    "UPDATE OR {verb} t SET u = {a}, v = {c} WHERE id = {b}",
    "UPDATE OR {verb} t SET id = {a} WHERE u > {b}",
    "INSERT INTO t(id, u, v) VALUES ({a}, {b}, {c}) ON CONFLICT DO UPDATE SET v = v + 1",
    "DELETE FROM t WHERE id = {a} OR u = {b}",
    "INSERT OR {verb} INTO w VALUES ({a}, {b}, {c})",
    "UPDATE OR {verb} w SET a = {b}, b = {a} WHERE c >= {c}",
    "DELETE FROM w",
]


@pytest.mark.parametrize("user_triggers", [False, True])
@settings(
    max_examples=10,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    program=st.lists(
        st.tuples(
            st.sampled_from(STATEMENTS),
            st.sampled_from(["ABORT", "IGNORE", "REPLACE", "FAIL", "REPLACE"]),
            st.tuples(*[st.integers(0, 4)] * 3),
        ),
        min_size=3,
        max_size=7,
    )
)
def test_any_program_is_undone(
    program: list[tuple[str, str, tuple[int, int, int]]],
    user_triggers: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("program") / "app.db"
    app = sqlite3.connect(path, isolation_level=None)
    app.executescript(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;"
        "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, v); CREATE TABLE w(a, b, c, UNIQUE (a, b), UNIQUE (c));"
    )
    if user_triggers:
        app.executescript(
            "CREATE TRIGGER t1 AFTER INSERT ON t BEGIN REPLACE INTO w VALUES (NEW.id, NEW.u, NEW.v); END;"
            "CREATE TRIGGER t2 BEFORE INSERT ON t BEGIN DELETE FROM w WHERE a = NEW.id; END;"
            "CREATE TRIGGER t3 AFTER DELETE ON w BEGIN UPDATE t SET v = v + 10 WHERE id = OLD.a; END;"
        )
    with SQLiteSystem(path) as system:

        def run(sql: str) -> Callable[[], None]:
            def step() -> None:
                try:
                    app.execute(sql)
                except sqlite3.IntegrityError:
                    pass

            return step

        steps = [run(sql.format(verb=verb, a=a, b=b, c=c)) for sql, verb, (a, b, c) in program]
        restores_all(system, app, visits(system, app, *steps))
    app.close()


def test_a_checkpoint_is_as_large_as_the_rows_that_changed(tmp_path: Path) -> None:
    path = tmp_path / "size.db"
    with closing(sqlite3.connect(path)) as app:
        app.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")
        app.executemany("INSERT INTO t (v) VALUES (?)", [("x" * 100,)] * 1_000)
        app.commit()
    with SQLiteSystem(path) as system:
        first = system.checkpoint("first")
        with closing(sqlite3.connect(path)) as app:
            app.execute("UPDATE t SET v = ? WHERE id = 7", ("y" * 5_000,))
            app.commit()
        changed = system.checkpoint("changed")
        assert system.size(first) == 0
        assert 5_000 < system.size(changed) < 6_000


def test_a_path_is_needed() -> None:
    with pytest.raises(SystemSetupError, match=r"path: .* got None"):
        SQLiteSystem(None)

"""What is seen of a database: its rows, a digest that stands for them, and nothing of how they came about."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import ExplorationWarning, SystemSetupError
from clew.explore.systems import PostgresSystem
from clew.state.values.codec import decode, encode
from tests.explore.systems.postgres_databases import Database

SHOP = [
    "CREATE TABLE orders (id serial PRIMARY KEY, state text, updated_at timestamptz DEFAULT clock_timestamp())",
    "CREATE SCHEMA stock",
    "CREATE TABLE stock.items (sku text PRIMARY KEY, n int)",
    "INSERT INTO orders (state) SELECT 'new' FROM generate_series(1, 12)",
    "INSERT INTO stock.items VALUES ('b', 1), ('a', 2)",
]


def test_rows_are_in_the_order_of_the_key(database: Database) -> None:
    database.run(*SHOP)
    data = database.system().observe().data
    assert [row["id"] for row in data["orders"]] == list(range(1, 13))
    assert data["stock.items"] == [{"sku": "a", "n": 2}, {"sku": "b", "n": 1}]


def test_rows_without_a_key_are_in_the_order_of_their_text(database: Database) -> None:
    database.run(
        "CREATE TABLE bag (v text, n int)", "INSERT INTO bag VALUES ('b', 1), ('a', 2), ('a', 2), (NULL, 3)"
    )
    expected = [{"v": None, "n": 3}, {"v": "a", "n": 2}, {"v": "a", "n": 2}, {"v": "b", "n": 1}]
    assert database.system().observe().data["bag"] == expected


def test_the_same_state_looks_the_same_whatever_way_led_there(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, v int)")
    system = database.system()
    database.run("INSERT INTO t VALUES (1, 1), (2, 2)")
    one = system.observe()
    database.run("DELETE FROM t", "INSERT INTO t VALUES (2, 1), (1, 7)", "UPDATE t SET v = id")
    other = system.observe()
    assert (one.data, one.digest) == (other.data, other.digest)
    system.close()
    assert database.system().observe().digest == one.digest  # another process, another journal


def test_every_difference_is_seen(database: Database) -> None:
    database.run("CREATE TABLE t (a text, b text)", "CREATE TABLE u (a text, b text)")
    system = database.system()
    seen = {system.observe().digest}
    for change in (
        "INSERT INTO t VALUES ('x', 'y')",
        "INSERT INTO t VALUES ('x', 'y')",
        "UPDATE t SET a = 'y', b = 'x'",
        "DELETE FROM t; INSERT INTO u VALUES ('x', 'y')",
        "UPDATE u SET a = 'x,y', b = NULL",
        "UPDATE u SET a = NULL, b = 'x,y'",
        "UPDATE u SET a = '', b = 'x,y'",
    ):
        database.run(change)
        seen.add(system.observe().digest)
    assert len(seen) == 8


def test_ignored_columns_do_not_count_and_are_restored(database: Database) -> None:
    database.run(*SHOP)
    system = database.system(ignore={"orders": ["updated_at"], "stock.items": ["n"]})
    before, token, truth = system.observe(), system.checkpoint("before"), database.truth()
    database.run("UPDATE orders SET updated_at = now()", "UPDATE stock.items SET n = 9")
    after = system.observe()
    assert (after.data, after.digest) == (before.data, before.digest)
    assert after.data["orders"][0] == {"id": 1, "state": "new"}
    system.rollback(token)
    assert database.truth() == truth
    database.run("UPDATE orders SET state = 'paid' WHERE id = 3")
    assert system.observe().digest != before.digest


def test_rows_that_differ_in_ignored_columns_only_are_counted(database: Database) -> None:
    database.run("CREATE TABLE t (id serial PRIMARY KEY, v int)", "INSERT INTO t (v) VALUES (7), (7)")
    system = database.system(ignore={"t": ["id"]})
    two = system.observe()
    assert two.data["t"] == [{"v": 7}, {"v": 7}]
    database.run("DELETE FROM t WHERE id = 1")
    assert system.observe().data["t"] == [{"v": 7}]
    database.run("INSERT INTO t (v) VALUES (7)")
    assert system.observe().digest == two.digest


def test_tables_that_are_not_observed_are_restored(database: Database) -> None:
    database.run(*SHOP, "CREATE TABLE audit (v int)")
    system = database.system(observe=["orders", "stock.*"])
    before, token, truth = system.observe(), system.checkpoint("before"), database.truth()
    assert before.data.keys() == {"orders", "stock.items"}
    database.run("INSERT INTO audit VALUES (1)")
    assert system.observe().digest == before.digest
    database.run("DELETE FROM orders")
    assert system.observe().digest != before.digest
    system.rollback(token)
    assert database.truth() == truth
    assert system.observe().digest == before.digest


def test_columns_are_ignored_by_pattern(database: Database) -> None:
    database.run("CREATE TABLE t (id int, made_at int)", "CREATE TABLE u (made_at int, v int)")
    database.run("CREATE SCHEMA s", "CREATE TABLE s.w (made_at int, v int)", "CREATE TABLE x (v int)")
    system = database.system(ignore=["*.made_at", "s.w.v"])
    database.run(
        "INSERT INTO t VALUES (1, 2)", "INSERT INTO u VALUES (3, 4)", "INSERT INTO s.w VALUES (5, 6)"
    )
    assert system.observe().data == {"t": [{"id": 1}], "u": [{"v": 4}], "s.w": [{}], "x": []}


@pytest.mark.parametrize("ignore", [{"nothing": ["a"]}, {"orders": ["nothing"]}, ["*.nothing"]])
def test_an_ignored_column_that_exists_nowhere_gets_a_warning(database: Database, ignore: Any) -> None:
    database.run(*SHOP)
    with pytest.warns(ExplorationWarning, match="no column matches"):
        database.system(ignore=ignore)


def test_only_watched_tables_are_seen_and_restored(database: Database) -> None:
    database.run(*SHOP)
    system = database.system(tables=["stock.items"])
    before, token = system.observe(), system.checkpoint("before")
    assert before.data.keys() == {"stock.items"}
    database.run("DELETE FROM orders", "DELETE FROM stock.items")
    assert system.observe().digest != before.digest
    system.rollback(token)
    assert system.observe() == before
    assert database.run("SELECT count(*) FROM orders") == [(0,)]


def test_sequences_are_metadata(database: Database) -> None:
    database.run(*SHOP)
    system = database.system()
    before = system.observe()
    database.run("SELECT nextval('orders_id_seq')")
    after = system.observe()
    assert (after.data, after.digest) == (before.data, before.digest)
    assert (before.metadata["sequences"], after.metadata["sequences"]) == (
        {"orders_id_seq": [12, True]},
        {"orders_id_seq": [13, True]},
    )


def test_a_large_table_is_shown_by_count_and_digest(database: Database) -> None:
    database.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    system = database.system(rows_shown=10)
    seen: dict[int, Any] = {}
    for upto in (9, 10, 11, 30):
        database.run(
            f"INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, {upto}) i ON CONFLICT DO NOTHING"
        )
        seen[upto] = system.observe()
    assert [len(seen[upto].data["t"]) for upto in (9, 10)] == [9, 10]
    assert seen[11].data["t"]["rows"] == 11
    assert seen[30].data["t"].keys() == {"rows", "digest"}
    for upto in (11, 10, 9):  # and back: the rows that were not kept are read again
        database.run(f"DELETE FROM t WHERE id > {upto}")
        again = system.observe()
        assert (again.data, again.digest) == (seen[upto].data, seen[upto].digest)


@pytest.mark.parametrize("rows", [0, 1, 400])
def test_the_servers_digest_of_a_table_is_the_clients(database: Database, rows: int) -> None:
    database.run(
        "CREATE TABLE t (v text, n float8, skipped int)",
        f"INSERT INTO t SELECT repeat(chr(64 + i), i % 50), i / 7.0, i FROM generate_series(1, {rows}) i",
        "INSERT INTO t SELECT * FROM t",
    )
    digests = set()
    for shown in (0, 10_000):
        with PostgresSystem(database.dsn, rows_shown=shown, ignore={"t": ["skipped"]}) as system:
            digests.add(system.observe().digest)
    assert len(digests) == 1


def test_observations_have_a_canonical_encoding(database: Database) -> None:
    database.run(*SHOP)
    data = database.system().observe().data
    assert decode(encode(data)) == data


def test_an_observation_is_the_callers_own(database: Database) -> None:
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, j jsonb, a int[])",
        "INSERT INTO t VALUES (1, '{\"k\": []}', '{1}')",
    )
    system = database.system()
    spoiled = system.observe().data["t"]
    spoiled[0]["j"]["k"].append("spoiled")
    spoiled[0]["a"].append(2)
    spoiled.clear()
    assert system.observe().data["t"] == [{"id": 1, "j": {"k": []}, "a": [1]}]


def test_changes_before_the_first_look_are_seen_once(database: Database) -> None:
    database.run("CREATE TABLE t (v int)")
    system = database.system()
    database.run("INSERT INTO t VALUES (1)")
    assert system.observe().data["t"] == [{"v": 1}]
    assert system.observe().data["t"] == [{"v": 1}]


def test_partitions_are_seen_at_their_leaves(database: Database) -> None:
    database.run(
        "CREATE TABLE p (k int, v int) PARTITION BY LIST (k)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)",
        "CREATE TABLE other (v int)",
        "INSERT INTO p VALUES (1, 10), (2, 20)",
    )
    data = database.system(tables=["p"], ignore={"p": ["v"]}).observe().data
    assert data == {"p1": [{"k": 1}], "p2": [{"k": 2}]}


def test_materialised_views_are_seen(database: Database) -> None:
    database.run("CREATE TABLE t (v int)", "CREATE MATERIALIZED VIEW m AS SELECT count(*) AS n FROM t")
    database.run("CREATE MATERIALIZED VIEW empty AS SELECT 1 WITH NO DATA")
    assert database.system().observe().data == {"t": [], "m": [{"n": 0}]}


@pytest.mark.parametrize(
    "options, message",
    [
        ({"tables": ["nothing"]}, "table 'nothing' does not exist; .*: orders, stock.items"),
        ({"tables": "orders"}, "tables: expected a list"),
        ({"observe": ["nothing"]}, "table 'nothing' is not rolled back; .*: orders, stock.items"),
        ({"observe": ["orders"], "tables": ["stock.items"]}, "table 'orders' is not rolled back"),
        ({"ignore": ["state"]}, "expected table.column"),
        ({"ignore": {"orders": "state"}}, "expected a list of columns"),
        ({"mode": "snapshots"}, "mode: expected"),
        ({"schema": ""}, "schema"),
        ({"schema": "pg_mine"}, "schema"),
        ({"schema": "x" * 60}, "schema"),
    ],
)
def test_wrong_options_are_refused_at_once(database: Database, options: dict[str, Any], message: str) -> None:
    database.run(*SHOP)
    with pytest.raises(SystemSetupError, match=message):
        PostgresSystem(database.dsn, **options)
    assert database.run("SELECT FROM pg_namespace WHERE nspname = 'clew_explore'") == []

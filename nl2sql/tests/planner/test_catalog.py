"""Catalogs from SQLite files, also from odd ones."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from clew_nl2sql.planner import RulePlanner, catalog_from_sqlite
from clew_nl2sql.planner.linking.schema_index import SchemaIndex
from nl2sql.tests.planner.museums import build


def _made(path: Path, script: str) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()
    return path


def test_tables_columns_keys_and_values(tmp_path: Path) -> None:
    catalog = catalog_from_sqlite(build(tmp_path / "museums.sqlite"))
    tables = {table.name: table for table in catalog.tables}
    assert list(tables) == ["artist", "museum", "painting", "visit"]
    country = next(c for c in tables["artist"].columns if c.name == "country")
    assert country.values == ("Norway", "Ghana", "Italy")
    assert country.complete
    assert country.n_distinct == 3
    assert tables["artist"].columns[0].primary_key
    assert tables["artist"].row_count == len(tables["artist"].rows) == 4
    keys = {(k.table, k.column, k.target_table) for k in catalog.foreign_keys}
    assert keys == {
        ("painting", "artist_id", "artist"),
        ("painting", "museum_id", "museum"),
        ("visit", "museum_id", "museum"),
    }


def test_bytes_that_are_no_text_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "bytes.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE person (name TEXT, photo BLOB)")
    connection.execute("INSERT INTO person VALUES (CAST(x'4a6f73e9' AS TEXT), x'00ff')")
    connection.commit()
    connection.close()
    catalog = catalog_from_sqlite(path)
    assert catalog.tables[0].rows[0][0] == "Jos\ufffd"
    assert not RulePlanner(threshold=0.0).plan("Show the name of each person.", catalog).abstained


def test_a_view_over_nothing_and_a_key_to_nowhere(tmp_path: Path) -> None:
    path = _made(
        tmp_path / "odd.sqlite",
        """
        CREATE TABLE a (id INTEGER PRIMARY KEY, b_id INTEGER REFERENCES gone (id), "two words" TEXT);
        CREATE TABLE c (x); CREATE VIEW v AS SELECT x FROM c; DROP TABLE c;
        """,
    )
    catalog = catalog_from_sqlite(path)
    assert catalog.foreign_keys == ()
    plan = RulePlanner(threshold=0.0).plan("List the two words of every a.", catalog)
    assert plan.sql is not None
    assert '"two words"' in plan.sql


def test_a_key_that_nobody_declared_is_found_by_its_values(tmp_path: Path) -> None:
    path = _made(
        tmp_path / "undeclared.sqlite",
        """
        CREATE TABLE owner (owner_id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE dog (dog_id INTEGER PRIMARY KEY, owner_id INTEGER, name TEXT);
        INSERT INTO owner VALUES (1, 'Kim'), (2, 'Lee');
        INSERT INTO dog VALUES (1, 2, 'Rex'), (2, 2, 'Bo');
        """,
    )
    schema = SchemaIndex(catalog_from_sqlite(path))
    names = [(schema.columns[a].name, schema.columns[b].name) for a, b in schema.edges]
    assert names == [("owner_id", "owner_id")]

"""Dry runs: equal rows are one answer in any column order, and a candidate never runs for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew_nl2sql.planner import Catalog, Column, Table, catalog_from_sqlite
from clew_nl2sql.planner.building.dry_run import SampleDatabase, sample_database
from nl2sql.tests.planner.museums import build


@pytest.fixture
def stage(tmp_path: Path) -> SampleDatabase:
    return SampleDatabase(catalog_from_sqlite(build(tmp_path / "museums.sqlite")))


@pytest.mark.parametrize(
    "sql, kind",
    [
        ("SELECT name FROM artist", "ok"),
        ("SELECT name FROM artist WHERE age > 500", "empty"),
        ("SELECT max(age) FROM artist WHERE age > 500", "null"),
        ("SELECT count(*) FROM artist WHERE age > 500", "zero"),
        ("SELECT nothing FROM artist", "failed"),
        ("DELETE FROM artist", "failed"),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n", "failed"),
    ],
)
def test_outcomes(stage: SampleDatabase, sql: str, kind: str) -> None:
    assert stage.outcome(sql, ordered=False).kind == kind


def test_the_same_rows_are_the_same_answer(stage: SampleDatabase) -> None:
    first = stage.outcome("SELECT name, age FROM artist", ordered=False)
    turned = stage.outcome("SELECT age, name FROM artist ORDER BY age", ordered=False)
    other = stage.outcome("SELECT name, artist_id FROM artist", ordered=False)
    assert first.fingerprint == turned.fingerprint
    assert first.fingerprint != other.fingerprint


def test_order_counts_where_it_is_asked_for(stage: SampleDatabase) -> None:
    up = stage.outcome("SELECT name FROM artist ORDER BY age", ordered=True)
    down = stage.outcome("SELECT name FROM artist ORDER BY age DESC", ordered=True)
    assert up.fingerprint != down.fingerprint


def test_without_rows_there_is_nothing_to_rehearse_on() -> None:
    table = Table(name="artist", columns=(Column(name="name", kind="text"),))
    assert sample_database(Catalog(tables=(table,))) is None

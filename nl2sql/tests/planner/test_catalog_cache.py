"""What a planner prepares for a catalog goes with the catalog: most of all the database in memory."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from clew_nl2sql import Pipeline
from clew_nl2sql.planner import RulePlanner, catalog_from_sqlite
from clew_nl2sql.planner.building.dry_run import SampleDatabase, sample_database
from nl2sql.tests.planner.museums import build
from tests.connections import watched_connections


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return build(tmp_path / "museums.sqlite")


def test_a_catalog_is_prepared_once(database: Path) -> None:
    catalog = catalog_from_sqlite(database)
    with watched_connections() as connections:
        assert sample_database(catalog) is sample_database(catalog)
        RulePlanner().plan("How many paintings are there?", catalog)
        assert len(connections.open) == 1


def test_the_database_in_memory_is_closed_when_its_catalog_is_gone(database: Path) -> None:
    with watched_connections() as connections:
        catalog = catalog_from_sqlite(database)
        RulePlanner().plan("How many paintings are there?", catalog)
        assert len(connections.open) == 1
        del catalog
        gc.collect()
        assert not connections.open
    assert connections.leaked == []


def test_a_database_in_memory_that_is_garbage_is_closed(database: Path) -> None:
    catalog = catalog_from_sqlite(database)
    with watched_connections() as connections:
        stage = SampleDatabase(catalog)
        assert stage.outcome("SELECT count(*) FROM artist", ordered=False).kind == "ok"
        del stage
        assert not connections.open  # at once, without the garbage collector
    assert connections.leaked == []


def test_a_closed_pipeline_has_no_connection(samples: dict[str, str], tmp_path: Path) -> None:
    with watched_connections() as connections:
        pipeline = Pipeline(samples, store=tmp_path / "runs.db")
        pipeline.ask("How many customers are there?")
        assert len(connections.open) >= 2  # the store, and a sample database
        pipeline.close()
        gc.collect()
        assert not connections.open
    assert connections.leaked == []


def test_a_pipeline_that_nobody_closed_has_none_once_it_is_garbage(samples: dict[str, str]) -> None:
    with watched_connections() as connections:
        Pipeline(samples).ask("How many customers are there?")
        gc.collect()
        assert not connections.open
    assert connections.leaked == []

"""The sample databases, made once a worker, and databases on its PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import psycopg
import pytest

from clew_nl2sql import Pipeline
from clew_nl2sql.sample_data import make_erp_in_postgres, make_samples
from nl2sql.tests.patience import PATIENT_PROBES
from tests.connections import watched_connections
from tests.stores.servers import PostgresServer


@pytest.fixture(scope="module", autouse=True)
def _no_leaked_connections() -> Iterator[None]:
    """Fail a module that opens a SQLite connection which nobody closes."""
    with watched_connections() as connections:
        yield
    assert connections.leaked == []


@pytest.fixture(scope="session", autouse=True)
def _patient_probes() -> Iterator[None]:
    """Let probes and samples take a minute, so that no answer depends on how busy the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clew_nl2sql.probes.SECONDS", PATIENT_PROBES)
        for kind in ("duckdb", "postgres", "sqlite"):
            patch.setattr(f"clew_nl2sql.sources.{kind}.SECONDS", PATIENT_PROBES)
        yield


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return make_samples(tmp_path_factory.mktemp("samples"))


def address(server: PostgresServer, database: str) -> str:
    return f"postgresql://postgres@/{database}?host={server.folder}"


@pytest.fixture
def new_database(server: PostgresServer) -> Callable[..., str]:
    """Makes databases, and what a script makes in them; each is gone with the server."""

    def make(script: str = "") -> str:
        name = f"d_{token_hex(6)}"
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        made = address(server, name)
        if script:
            with psycopg.connect(made) as connection:
                connection.execute(script.replace("THIS_DATABASE", name))
        return made

    return make


@pytest.fixture(scope="session")
def erp(server: PostgresServer) -> str:
    """The books in PostgreSQL; nobody writes to them."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE DATABASE erp")
    made = address(server, "erp")
    make_erp_in_postgres(made)
    return made


@pytest.fixture
def three(samples: dict[str, str], erp: str) -> dict[str, str]:
    """SQLite, DuckDB and PostgreSQL."""
    return {**samples, "erp": erp}


@pytest.fixture
def new_pipeline(tmp_path: Path) -> Iterator[Callable[..., Pipeline]]:
    """Makes pipelines, on a store in the test's folder unless told otherwise, and closes them."""
    made: list[Pipeline] = []

    def make(sources: Any, **options: Any) -> Pipeline:
        options.setdefault("store", tmp_path / f"runs-{len(made)}.db")
        made.append(Pipeline(sources, **options))
        return made[-1]

    yield make
    for pipeline in made:
        pipeline.close()

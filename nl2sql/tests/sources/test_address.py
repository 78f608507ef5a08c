from __future__ import annotations

from pathlib import Path

import pytest

from clew_nl2sql import open_source
from clew_nl2sql.errors import UsageError
from clew_nl2sql.sources import Source


@pytest.mark.parametrize(
    "address, dialect, path",
    [
        ("sqlite:///sales.db", "sqlite", "sales.db"),
        ("sqlite:////data/sales.db", "sqlite", "/data/sales.db"),
        ("sales.sqlite3", "sqlite", "sales.sqlite3"),
        ("duckdb:///support.duckdb", "duckdb", "support.duckdb"),
        ("support.duckdb", "duckdb", "support.duckdb"),
    ],
)
def test_a_file(address: str, dialect: str, path: str) -> None:
    source = open_source(address)
    assert isinstance(source, Source)
    assert (source.dialect, str(source.path)) == (dialect, str(Path(path)))


def test_a_server() -> None:
    assert open_source("postgresql://ann@host/db").dialect == "postgres"


@pytest.mark.parametrize("address", ["mysql://host/db", "sqlite://", "notes.txt", "", "sqlite:///"])
def test_what_is_no_source_is_said_to_be_none(address: str) -> None:
    with pytest.raises(UsageError, match="address"):
        open_source(address)

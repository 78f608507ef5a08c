"""What a newcomer sees first: it answers, shows progress, and cleans up."""

from __future__ import annotations

import importlib
import io
from pathlib import Path

import pytest

from clew_nl2sql.sample_data import make_samples

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture(autouse=True)
def _as_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts import what is beside them."""
    monkeypatch.syspath_prepend(EXAMPLES)


@pytest.mark.parametrize("postgres", [False, True])
def test_the_demo_answers_and_shows_how(postgres: bool) -> None:
    out = io.StringIO()
    answer = importlib.import_module("demo").demo(postgres=postgres, out=out)
    told = out.getvalue()
    assert answer.status == "answered"
    assert len(answer.rows) == 12
    for word in (
        "datasource_resolver: done",
        "executor (6/6)",
        "aggregator: done",
        "Fathom Diving",
        "from erp:",
    ):
        assert word in told


def test_a_server_is_gone_when_it_is_not_needed_any_more() -> None:
    with importlib.import_module("sample_postgres").sample_server() as address:
        if address is None:
            pytest.skip("no PostgreSQL can be started here")
        folder = Path(address.partition("host=")[2])
        assert folder.exists()
    assert not folder.exists()


def test_the_samples_are_the_same_every_time(tmp_path: Path) -> None:
    from clew_nl2sql.artifacts import content_hash
    from clew_nl2sql.columnar import to_table
    from clew_nl2sql.sources import open_source
    from clew_nl2sql.sql.guard import check

    found = []
    for name in ("one", "two"):
        hashes = {}
        for source, address in make_samples(tmp_path / name).items():
            opened = open_source(address)
            catalog = opened.catalog()
            for table in catalog.tables:
                rows = opened.run(check(f"SELECT * FROM {table.name}", catalog), 1000)
                hashes[source, table.name] = content_hash(to_table(rows, ordered=False))
        found.append(hashes)
    assert found[0] == found[1]
    assert len(found[0]) == 8

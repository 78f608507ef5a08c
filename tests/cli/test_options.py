"""Runs by the beginning of their ids, as commands take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew import MemoryStore, SQLiteStore
from clew.cli.options import find_run
from clew.cli.output import CommandError
from clew.errors import UnknownRunError
from clew.stores import RunRow, Store


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    kind: type[Any] = MemoryStore if request.param == "memory" else SQLiteStore
    made: Store = kind() if request.param == "memory" else kind(tmp_path / "runs.db")

    def read_all(*args: Any, **options: Any) -> Any:
        raise AssertionError("it reads every run of the store")

    monkeypatch.setattr(kind, "rows", read_all)
    for run_id in ("order", "order-1", "order-2", "mail%1", "order-child"):
        row = RunRow(run_id, "order-graph", attributes={"tenant": "acme"})
        row.child_of = "order" if run_id == "order-child" else None
        made.create(row, {})
    yield made
    made.close()


@pytest.mark.parametrize(
    "text, found",
    [
        ("order", "order"),
        ("order-1", "order-1"),
        ("m", "mail%1"),
        ("mail%", "mail%1"),
        ("order-c", "order-child"),
    ],
)
def test_a_run_is_found_by_its_id_or_its_beginning(store: Store, text: str, found: str) -> None:
    row = find_run(store, text)
    assert (row.run_id, row.attributes) == (found, {"tenant": "acme"})


@pytest.mark.parametrize("text", ["", "rder", "Order-1", "%", "order-1x", "acme", "order-graph"])
def test_other_texts_find_no_run(store: Store, text: str) -> None:
    with pytest.raises(UnknownRunError):
        find_run(store, text)


def test_the_first_of_several_runs_are_named(store: Store) -> None:
    for n in range(5):
        store.create(RunRow(f"mail-{n}"), {})
    with pytest.raises(CommandError) as refused:
        find_run(store, "mail")
    assert refused.value.what.endswith(": mail%1, mail-0, mail-1, mail-2, mail-3, ...")

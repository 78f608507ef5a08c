"""An entry under another name is damaged: the doctor and every read of it say so, and no resume repeats its call."""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import Context, Engine, Graph, PostgresStore, Send, SQLiteStore, node, route
from clew.cli.commands.doctor import examine
from clew.errors import StoreCorruptError

Damage = Callable[[str], None]


class Payments(TypedDict, total=False):
    ids: list[int]
    paid: Annotated[list[str], operator.add]


class Shop:
    """A store with one run of three payments, of which one has failed after its call."""

    def __init__(self, store: Any, damage: Damage, path: str) -> None:
        self.store = store
        self._damage = damage
        self._path = path  # the column with the path
        self.calls: list[int] = []
        self.fails = True

        @route(targets=["pay"])
        def fan(ids: list[int]) -> list[Send]:
            return [Send("pay", {"i": i}) for i in ids]

        @node(output="paid")
        def pay(i: int, ctx: Context) -> list[str]:
            receipt = ctx.record("charge", self.charge, i)
            if self.fails and i == 2:
                raise ValueError("the parser is broken")
            return [receipt]

        self.engine = Engine(
            Graph([fan, pay], state=Payments), store=store, max_concurrent_nodes=1, check=False
        )
        assert self.engine.run({"ids": [0, 1, 2]}, run_id="r").status == "failed"
        assert self.engine.run({"ids": [0, 1, 2]}, run_id="other").status == "failed"
        self.fails = False
        self.calls.clear()

    def charge(self, i: int) -> str:
        self.calls.append(i)
        return f"receipt {i}"

    def damage(self, change: str) -> None:
        change = change.replace("path =", f"{self._path} =")
        self._damage(f"UPDATE log SET {change} WHERE run = 1 AND kind = 'call' AND {self._path} = 'pay#0[2]'")

    def forget_release(self) -> None:
        """Make the run look as if its process had died before it released the run."""
        self._damage("UPDATE runs SET census = NULL, status = 'running', error = NULL WHERE id = 1")


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    if request.param == "sqlite":
        file = tmp_path / "runs.db"

        def damage(sql: str) -> None:
            with closing(sqlite3.connect(file)) as db, db:
                assert db.execute(sql).rowcount == 1, sql

        yield Shop(SQLiteStore(file), damage, "path")
        return
    import psycopg

    store: PostgresStore = request.getfixturevalue("open_postgres")()

    def damage_there(sql: str) -> None:
        with psycopg.connect(request.getfixturevalue("server").dsn) as db:
            db.execute(f"SET search_path TO {store._link._schema}")
            assert db.execute(sql).rowcount == 1, sql

    yield Shop(store, damage_there, "key")
    store.close()


MOVES = {
    "to another item of its batch": "path = 'pay#0[7]'",
    "to a later visit": "path = 'pay#12'",
    "to a name that no node has": "path = 'zz'",
    "to another number": "n = 9",
    "to another kind with a path": "kind = 'intent'",
    "to the steps of a subgraph": "kind = 'step'",
    "to the snapshots": "kind = 'snapshot'",
    "to the labels": "kind = 'label'",
    "to a kind that does not exist": "kind = 'calk'",
    "to another run": "run = 2, n = 1",
}


@pytest.mark.parametrize("is_released", [True, False], ids=["released", "killed"])
@pytest.mark.parametrize("move", MOVES)
def test_a_moved_call_is_reported_by_doctor_and_resume(shop: Shop, move: str, is_released: bool) -> None:
    shop.damage(MOVES[move])
    if not is_released:
        shop.forget_release()
    assert examine(shop.store)["damage"]
    if move == "to another run" and not is_released:
        with pytest.raises(StoreCorruptError):  # nothing counted the calls of the run that it left
            shop.engine.resume("other")
        return
    with pytest.raises(StoreCorruptError):
        shop.engine.resume("r")
    assert not shop.calls


@pytest.mark.parametrize("verb", ["history", "export_run", "replay", "resume"])
def test_every_verb_that_reads_the_moved_call_reports_it(shop: Shop, verb: str) -> None:
    shop.damage("path = 'pay#0[7]'")
    with pytest.raises(StoreCorruptError):
        getattr(shop.engine, verb)("r")
    assert not shop.calls


def test_an_intact_run_resumes(shop: Shop) -> None:
    result = shop.engine.resume("r")
    assert result["paid"] == ["receipt 0", "receipt 1", "receipt 2"]
    assert not shop.calls
    assert not examine(shop.store)["damage"]

"""The other operations of an engine under the same faults: ``ctx.transaction``, fork, rerun, delete, prune, cancel.

On every path:

- **A write exists exactly if its step does**, and once: after each operation of the store, and at the end.
- **A fork or rerun that fails leaves nothing, or a run that can be resumed** and ends like the uninterrupted one. Its
  source is never changed, and has no owner.
- **A removed run is complete or entirely gone**; its parent outlives it (`driving.removing`).
- **A cancelled run stops**, and can be resumed to the end of the uninterrupted one.
- The store is intact at the end, as ``clew doctor`` checks it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path as File
from typing import Any

import pytest

from clew import SQLiteStore
from clew.errors import ClewError
from clew.runtime.derived_runs import DerivedRunOpener
from clew.runtime.drivers.session import Session
from clew.runtime.log.engine_owner import fresh_owner
from clew.runtime.log.writer import LogWriter
from clew.runtime.opener import RunOpener
from clew.runtime.review import retention
from clew.stores.sqlite import store as sqlite_store
from tests.explore.checking.driving.case import Case, Outside
from tests.explore.checking.driving.drivers import Explored, explore
from tests.explore.checking.driving.graphs import graph_of
from tests.explore.checking.driving.path import Path
from tests.explore.checking.driving.places import Place, in_postgres, in_sqlite
from tests.explore.checking.driving.program import PARENT, RUN
from tests.explore.checking.page import counts, rows
from tests.explore.checking.test_drivers import DRIVERS, LESS, TROUBLE

FORK: Any = ("fork", (PARENT,), {"step": 1, "values": {"paid": "other"}})
RERUN: Any = ("rerun", (PARENT,), {"values": {"x": 2}})


def is_written_with_its_step(path: Path) -> None:
    """What nodes have written is what the outcomes say that are kept."""
    kept: list[str] = []
    if path.disk.has(RUN):
        kept = [item for item, outcome in path._log().outcomes().items() if outcome.error is None]
    if path.disk.effects() != sorted(kept):
        path.fail(f"{sorted(kept)} are kept, and {path.disk.effects()} have written")


WRITING: Any = {"check": is_written_with_its_step}
REMOVED: Any = {"values": {"paid": "other"}}
VERBS: dict[
    str, tuple[str, dict[str, Any]]
] = {  # as the documentation calls it: the graph, and what may happen
    "writes with `ctx.transaction`": ("writing", WRITING),
    "a write at the second attempt": ("shaky", WRITING),
    "a write, and the attempt continues": (
        "sluggish",
        {**WRITING, "faults": frozenset({"timeout"}), "splits": True},
    ),
    "a write, an expired lease, and a takeover": ("writing", {**WRITING, "faults": frozenset({"takeover"})}),
    'writes with `durability="exit"`': ("writing", {**WRITING, "options": {"durability": "exit"}}),
    "a write, cancelled": ("writing", {**WRITING, "faults": frozenset({"cancel"})}),
    "`fork`": ("chain", {"begins": FORK}),
    "`fork`, and the parent is deleted": ("chain", {"begins": FORK, "faults": frozenset({"deletion"})}),
    "`fork` of a subgraph with parallel work": ("nested", {"begins": ("fork", (PARENT,), {"step": 0})}),
    "`rerun`": ("chain", {"begins": RERUN}),
    "`rerun`, with large values": ("large", {"begins": RERUN}),
}
TWO: dict[str, tuple[str, dict[str, Any]]] = {
    "writes in bodies that catch everything": ("careless", WRITING),
    "parallel writes": ("writing", {**WRITING, "faults": LESS}),
    "a fork, and the parent may be deleted": ("chain", {"begins": FORK, "faults": LESS | {"deletion"}}),
    "a rerun": ("chain", {"begins": RERUN, "faults": LESS}),
    "a fan-out that is cancelled": ("fan-out", {"faults": LESS | {"cancel"}}),
}
REMOVING: dict[str, tuple[str, dict[str, Any]]] = {  # no node is run, so there is one driver
    "`delete`": ("chain", {"begins": ("delete", (), REMOVED)}),
    "`prune`": ("chain", {"begins": ("prune", (), REMOVED)}),
}
SLOW = {
    "a write, and the attempt continues",
    "a write at the second attempt",
    "`fork` of a subgraph with parallel work",
    "parallel writes",
    "a fork, and the parent may be deleted",
    "a rerun",
    "a fan-out that is cancelled",
}


def case_of(
    name: str, driver: str, place: Callable[[], Place] | None, mark: str = "?", **options: Any
) -> Case:
    mode, kind = DRIVERS[driver]
    outside = Outside()
    graph, values = graph_of(name, outside, mode, mark)
    options = {"faults": TROUBLE, **options}
    return Case(graph=graph, values=values, outside=outside, driver=kind, place=place, **options)


def explored(case: Case) -> Explored:
    found = explore(case)
    assert not found.violation, found.violation
    return found


def numbers(case: Case) -> str:
    found = explored(case)
    return counts(found.states, found.transitions)


def _cases(table: dict[str, Any]) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in table]


@pytest.mark.parametrize("driver", ["blocking", "asyncio"])
@pytest.mark.parametrize("what", _cases(VERBS))
def test_one_fault(what: str, driver: str, tmp_path: File) -> None:
    name, options = VERBS[what]
    with in_sqlite(tmp_path) as place:
        found = numbers(case_of(name, driver, place, **options))
    assert found == rows(what)[0][driver == "asyncio"]


@pytest.mark.parametrize("driver", [pytest.param("blocking", marks=pytest.mark.slow), "asyncio"])
@pytest.mark.parametrize("what", _cases(TWO))
def test_two_faults(what: str, driver: str, tmp_path: File) -> None:
    name, options = TWO[what]
    with in_sqlite(tmp_path) as place:
        found = numbers(case_of(name, driver, place, max_faults=2, **options))
    assert found == rows(what)[0][driver == "asyncio"]


@pytest.mark.parametrize("max_faults", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("what", REMOVING)
def test_removing(what: str, max_faults: int, tmp_path: File) -> None:
    name, options = REMOVING[what]
    with in_sqlite(tmp_path) as place:
        found = numbers(case_of(name, "blocking", place, max_faults=max_faults, **options))
    assert found == rows(what)[0][max_faults - 1]


def test_large_values_go_with_the_last_run_that_has_them(tmp_path: File) -> None:
    with in_sqlite(tmp_path) as place:
        explored(
            case_of("large", "blocking", place, begins=("prune", (), {"values": {"b": "other"}}), faults=LESS)
        )


@pytest.mark.parametrize(
    "what",
    [
        "`fork`, and the parent is deleted",
        "`prune`",
        "a write, an expired lease, and a takeover",
        pytest.param("`delete`", marks=pytest.mark.slow),
        pytest.param("writes with `ctx.transaction`", marks=pytest.mark.slow),
    ],
)
def test_postgres_too(what: str, server: Any, open_postgres: Callable[[], Any]) -> None:
    """There are as many states there: nothing of them is the store's."""
    name, options = {**VERBS, **REMOVING}[what]
    with in_postgres(open_postgres(), server.dsn) as place:
        found = numbers(case_of(name, "blocking", place, "%s", **options))
    assert found == rows(what)[0][0]


def test_every_operation_that_removing_and_writing_need_fails_somewhere(tmp_path: File) -> None:
    tried: set[str] = set()
    with in_sqlite(tmp_path) as place:
        for name, options in (*REMOVING.values(), TWO["writes in bodies that catch everything"]):
            tried |= explored(case_of(name, "blocking", place, **options)).choices
    assert {f"delete {how}" for how in ("refused", "unconfirmed", "and die")} <= tried
    assert {"rehearse refused", "rows refused", "claim unconfirmed", "append unconfirmed"} <= tried


def unfailing(right: Any) -> Any:
    """A write that the store did not try out is an error of its node, and of nobody else."""

    def transact(self: Session, item: Any, attempt: int, statements: Any) -> None:
        failure = self.writer._failure
        try:
            right(self, item, attempt, statements)
        finally:
            self.writer._failure = failure

    return transact


def half(right: Any) -> Any:
    """The row of a run goes, and what it brought stays."""

    def delete(self: SQLiteStore, run_id: str) -> None:
        with self._writing(run_id) as db:
            db.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))

    return delete


def under_a_new_name(right: Any) -> Any:
    """Each removal claims for an owner of its own, so a claim that was not confirmed is somebody else's."""

    def remove(opener: RunOpener, run_id: str) -> None:
        fence = opener.store.claim(run_id, fresh_owner(), lease=30.0)
        try:
            opener.store.delete(run_id)
        except BaseException:
            with suppress(ClewError):
                opener.store.release(run_id, fence)
            raise

    return remove


def claiming(right: Any) -> Any:
    """Who forks a run becomes its owner."""

    def forked(self: RunOpener, parent: str, *args: Any) -> Any:
        self.claim(parent)
        return right(self, parent, *args)

    return forked


MISTAKES: dict[str, tuple[Any, str, Any, str, str]] = {
    "writes are let fall": (
        LogWriter,
        "attach",
        lambda right: lambda *_: None,
        "writes with `ctx.transaction`",
        "['pay#0'] are kept, and [] have written",
    ),
    "a store that is away is an error of the node": (
        Session,
        "transact",
        unfailing,
        "writes in bodies that catch everything",
        "['pay#0'] are kept, and [] have written",
    ),
    "a fork may have no parent": (
        sqlite_store,
        "needed_by",
        lambda right: lambda row: [],
        "`fork`, and the parent is deleted",
        "",
    ),
    "a fork owns its parent": (
        DerivedRunOpener,
        "forked",
        claiming,
        "`fork`",
        "the run that was there before was changed",
    ),
    "a run goes by half": (SQLiteStore, "delete", half, "`delete`", "there is something left"),
    "pruning claims for nobody": (
        retention,
        "delete",
        under_a_new_name,
        "`prune`",
        "without knowing",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str, tmp_path: File, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, change, what, said = MISTAKES[mistake]
    monkeypatch.setattr(owner, name, change(getattr(owner, name)))
    graph, options = {**VERBS, **TWO, **REMOVING}[what]
    with in_sqlite(tmp_path) as place:
        found = explore(case_of(graph, "blocking", place, **options), fail_fast=True)
    assert found.violation
    assert said in found.violation

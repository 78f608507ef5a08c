"""One table of entry kinds: nobody else spells a kind, and one path for reading: a resume reads the row once."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import clew
from clew import Engine, Graph, SQLiteStore, interrupt, node
from clew.engine.records import (
    FailedStep,
    FinishedItem,
    Question,
    Retry,
    SingleItemStep,
    Start,
    Step,
    Withdrawn,
)
from clew.runtime.log.entries.call_records import CallIntent, RecordedCall
from clew.runtime.log.entries.records import (
    KIND_OF,
    KINDS,
    SNAPSHOT,
    AcceptedChanges,
    AnswerRecord,
    LabelRecord,
    PublishedData,
    ResumeRecord,
)
from clew.runtime.log.entries.stop_records import StopsRecord
from clew.runtime.log.entries.wait_records import SignalRecord, WaitEnd, WaitRecord
from clew.runtime.log.metrics import Measured
from clew.runtime.log.run_log import _TAKE
from clew.stores import Store

SRC = Path(clew.__file__).parent
RECORDS = {
    Step,
    Start,
    FinishedItem,
    RecordedCall,
    CallIntent,
    Retry,
    Question,
    AnswerRecord,
    LabelRecord,
    ResumeRecord,
    AcceptedChanges,
    StopsRecord,
    Measured,
    PublishedData,
    FailedStep,
    WaitRecord,
    WaitEnd,
    SignalRecord,
}


def test_every_record_of_the_log_has_one_kind() -> None:
    assert set(KIND_OF) == RECORDS
    assert {kind.name for kind in KIND_OF.values()} | {SNAPSHOT.name} == set(KINDS)


def test_a_log_takes_every_record_in() -> None:
    assert set(_TAKE) == RECORDS - {PublishedData} | {SingleItemStep, Withdrawn}


def spelled_kinds(file: Path) -> list[tuple[int, str]]:
    """Where a module compares an entry's kind with a string, or looks a kind up in a store by a string."""
    found = []
    for each in ast.walk(ast.parse(file.read_text())):
        parts: list[ast.expr] = []
        if isinstance(each, ast.Compare):
            parts = [each.left, *each.comparators]
            names = {getattr(part, "attr", getattr(part, "id", "")) for part in parts}
            if not names & {"kind", "kinds"}:
                continue
        elif (
            isinstance(each, ast.Call) and getattr(each.func, "attr", "") in ("last", "find", "within")
        ) or (isinstance(each, ast.Call) and getattr(each.func, "id", "") == "Entry"):
            parts = [*each.args]
        found += [
            (part.lineno, part.value)
            for part in parts
            if isinstance(part, ast.Constant) and part.value in KINDS
        ]
    return found


@pytest.mark.parametrize("package", ["runtime", "stores", "cli"])
def test_nobody_else_spells_a_kind(package: str) -> None:
    modules = [file for file in (SRC / package).rglob("*.py") if "conformance" not in file.parts]
    spelled = {file.name: found for file in modules if (found := spelled_kinds(file))}
    # kinds of timers, not of entries
    timers = [*spelled.pop("session.py", []), *spelled.pop("durable_waits.py", [])]
    assert {kind for _, kind in timers} <= {"retry", "call", "wait"}
    assert spelled == {}


class Counting:
    """A store that counts the calls of its methods."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def counted(*args: Any, **more: Any) -> Any:
            self.calls[name] += 1
            return found(*args, **more)

        return counted


@node(output="b")
def double(a: int) -> int:
    return 2 * a


@interrupt(output="c")
def ask(b: int) -> str:
    return f"is {b} right?"


@node(output="d")
def end(c: bool) -> bool:
    return c


@pytest.fixture
def store(tmp_path: Path) -> Counting:
    return Counting(SQLiteStore(tmp_path / "runs.db"))


def test_a_resume_reads_the_row_once(store: Counting) -> None:
    engine = Engine(Graph([double, ask, end]), store=store)
    engine.run({"a": 1}, run_id="r")
    store.calls.clear()
    assert engine.resume("r", answer=True)["d"] is True
    assert store.calls["row"] == 1


def test_a_resume_of_a_completed_run_reads_the_row_once_and_leaves_it_to_others(store: Counting) -> None:
    engine = Engine(Graph([double]), store=store)
    engine.run({"a": 1}, run_id="r")
    store.calls.clear()
    assert engine.resume("r")["b"] == 2
    assert (store.calls["row"], store.owner("r")) == (1, None)


def test_a_completed_run_that_somebody_owns_is_returned_as_it_is(store: Counting) -> None:
    engine = Engine(Graph([double]), store=store)
    engine.run({"a": 1}, run_id="r")
    store.claim("r", "somebody", lease=1e9)
    assert engine.resume("r")["b"] == 2


# `result` looks again whether another process has continued the waiting run in the meantime.
@pytest.mark.parametrize("verb, reads", [("state", 1), ("history", 1), ("result", 2)])
def test_looking_at_a_run_reads_the_row_once(store: Counting, verb: str, reads: int) -> None:
    engine = Engine(Graph([double, ask, end]), store=store)
    engine.run({"a": 1}, run_id="r")
    store.calls.clear()
    getattr(engine, verb)("r")
    assert store.calls["row"] == reads

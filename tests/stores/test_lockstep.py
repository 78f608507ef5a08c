"""Three stores, one behaviour: whatever is done to memory, SQLite and PostgreSQL, they answer the same.

Fences are compared by the order in which they were given: what they look like is each store's own affair.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from clew.errors import ClewError
from clew.stores import LogEntry, MemoryStore, PostgresStore, RunRow, SQLiteStore, Store
from tests.stores.servers import PostgresServer

_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
_ids = st.sampled_from(["a", "a", "a", "b", "ü🧵"])
_owners = st.sampled_from(["one", "two", "three", "four"])
_kinds = st.sampled_from(["step", "step", "call", "journal", "z"])
_paths = st.sampled_from(["", "", "p", "q/🧵"]) | _texts
_numbers = st.integers(0, 4) | st.sampled_from([-1, 2**32 - 1, 2**32, 2**62])
_bodies = st.sampled_from([b"", b"x", b"y"]) | st.binary(max_size=20)
_entries = st.builds(
    lambda k, p, n, b: LogEntry(k, p, n, b, sha256(b).digest()), _kinds, _paths, _numbers, _bodies
)
_names = st.tuples(_kinds, _paths, _numbers)
_blobs = st.dictionaries(st.just(""), st.sampled_from([b"large", b"larger"]), max_size=1).map(
    lambda given: {sha256(content).hexdigest(): content for content in given.values()}
)
_fences = st.sampled_from([0, 0, 0, 1, 2])  # of a run: which of those given, from the latest


class Lockstep(RuleBasedStateMachine):
    """Does everything to all three."""

    openers: tuple[Callable[[], Store], ...]

    def __init__(self) -> None:
        super().__init__()
        self.stores = [open_store() for open_store in self.openers]
        self.closing: list[Store] = []
        self.now = 0.0
        self.born = 0  # a part of the names of owners, which are never used again
        self.fences: dict[str, list[tuple[int, ...]]] = {}  # id -> fences, one of each store

    def teardown(self) -> None:
        for store in (*self.stores, *self.closing):
            store.close()

    def all(self, act: Callable[[Store, int], Any]) -> tuple[Any, ...]:
        """Do it to all; the answers, which are the same but for fences."""
        answers, outcomes = [], []
        for i, store in enumerate(self.stores):
            try:
                answers.append(act(store, i))
                outcomes.append("done")
            except ClewError as error:
                answers.append(None)
                outcomes.append(
                    f"{type(error).__name__}: {re.sub('expires in [0-9]+ s', 'expires soon', str(error))}"
                    if "content" not in str(error)
                    else type(error).__name__
                )
        assert outcomes.count(outcomes[0]) == len(outcomes), outcomes
        return tuple(answers)

    def same(self, act: Callable[[Store, int], Any]) -> Any:
        answers = self.all(act)
        assert answers.count(answers[0]) == len(answers), answers
        return answers[0]

    def fence(self, run_id: str, back: int, i: int) -> int:
        given = self.fences.get(run_id, [])
        return given[-1 - back][i] if back < len(given) else 0

    @initialize(owner=_owners)
    def begin(self, owner: str) -> None:
        """Most of what follows is about a run that is owned."""
        self.create("a", None, b"", 0, {}, "")
        self.claim("a", owner, 3600.0)

    @rule(run_id=_ids, parent=st.none() | _ids, start=_bodies, seed=st.integers(), blobs=_blobs, graph=_texts)
    def create(
        self, run_id: str, parent: str | None, start: bytes, seed: int, blobs: Any, graph: str
    ) -> None:
        def row() -> RunRow:
            return RunRow(run_id, graph, start, seed, created=self.now, parent=parent, codes={graph: graph})

        self.same(lambda store, _: store.create(row(), blobs))

    @rule(
        run_id=_ids,
        entries=st.lists(_entries, max_size=4),
        drop=st.lists(_names, max_size=2),
        blobs=_blobs,
        back=_fences,
    )
    def append(self, run_id: str, entries: list[LogEntry], drop: list[Any], blobs: Any, back: int) -> None:
        self.same(
            lambda store, i: store.append(
                run_id, entries, self.fence(run_id, back, i), drop=drop, blobs=blobs
            )
        )

    @rule(run_id=_ids, entry=_entries)
    def append_one(self, run_id: str, entry: LogEntry) -> None:
        self.same(lambda store, i: store.append(run_id, [entry], self.fence(run_id, 0, i)))

    @rule(which=st.integers(0, 9), body=_bodies, before=st.lists(_entries, max_size=1))
    def append_under_a_name_that_is_taken(self, which: int, body: bytes, before: list[LogEntry]) -> None:
        taken = (
            self.stores[0].entries("a", after=-(2**62))
            if "a" in [r.run_id for r in self.stores[0].rows()]
            else ()
        )
        if taken:
            kind, path, n = taken[which % len(taken)].name
            entries = [*before, LogEntry(kind, path, n, body, sha256(body).digest())]
            self.same(lambda store, i: store.append("a", entries, self.fence("a", 0, i)))

    @rule(run_id=_ids, kind=_kinds, path=_paths, n=_numbers)
    def drop_one(self, run_id: str, kind: str, path: str, n: int) -> None:
        self.same(lambda store, i: store.append(run_id, [], self.fence(run_id, 0, i), drop=[(kind, path, n)]))

    @rule(run_id=_ids, owner=_owners, lease=st.sampled_from([0.0, 3600.0]))
    def claim(self, run_id: str, owner: str, lease: float) -> None:
        name = f"{owner} {self.born}"
        fences = self.all(lambda store, _: store.claim(run_id, name, lease=lease))
        if None not in fences:
            self.fences.setdefault(run_id, []).append(fences)

    @rule(owner=_owners, lease=st.sampled_from([0.0, 3600.0, 3600.0]))
    def renew(self, owner: str, lease: float) -> None:
        self.same(lambda store, _: store.renew(f"{owner} {self.born}", lease=lease))

    @rule()
    def expire(self) -> None:
        self.same(lambda store, _: store.expire())

    @rule(run_id=_ids, back=_fences)
    def release(self, run_id: str, back: int) -> None:
        self.same(lambda store, i: store.release(run_id, self.fence(run_id, back, i)))

    @rule(seconds=st.sampled_from([0.5, 5.0, 20.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule(
        run_id=_ids,
        back=_fences,
        status=st.sampled_from(["failed", "completed"]),
        error=st.none() | _bodies,
        release=st.booleans(),
    )
    def update(self, run_id: str, back: int, status: str, error: bytes | None, release: bool) -> None:
        def act(store: Store, i: int) -> None:
            fence = self.fence(run_id, back, i)
            store.update(run_id, status=status, updated=self.now, error=error, fence=fence, release=release)

        self.same(act)

    @rule(run_id=st.sampled_from(["a", "b", "b", "ü🧵", "ü🧵"]))
    def delete(self, run_id: str) -> None:
        self.same(lambda store, _: store.delete(run_id))

    @rule()
    def open_another(self) -> None:
        """Go on with other stores on the same places; the first ones stay, and so do their owners."""
        self.closing += self.stores
        self.stores = [open_store() for open_store in self.openers]

    @rule()
    def close_and_open(self) -> None:
        """What a closed store owned is free; the one in memory is told so, because it is never closed."""
        for worker in self.stores[0].workers():
            self.stores[0].retire(worker.owner)
        for store in (*self.stores, *self.closing):
            store.close()
        self.closing = []
        self.stores = [open_store() for open_store in self.openers]
        for store in self.stores[1:]:
            store.expire()
        self.born += 1

    @rule(run_id=_ids, after=_numbers, kind=_kinds, path=_paths, n=_numbers)
    def read(self, run_id: str, after: int, kind: str, path: str, n: int) -> None:
        self.same(lambda store, _: store.entries(run_id, after=after))
        self.same(lambda store, _: store.find(run_id, kind, path))
        self.same(lambda store, _: store.within(run_id, ("step", kind), [(path, f"{path}q")], after=after))
        self.same(lambda store, _: store.within(run_id, (kind,), upto=n))
        self.same(lambda store, _: store.last(run_id, kind, path, n))
        self.same(lambda store, _: store.log_end(run_id, (), base=kind.replace("step", ""), most=2))

    @invariant()
    def all_hold_the_same(self) -> None:
        for row in self.same(lambda store, _: store.rows()):
            self.same(
                lambda store, _, run_id=row.run_id: (store.row(run_id), store.entries(run_id, after=-(2**62)))
            )
        for status in ("running", "failed"):
            self.same(lambda store, _, status=status: store.rows(status))
        for digest in (sha256(b"large").hexdigest(), sha256(b"larger").hexdigest()):
            self.same(lambda store, _, digest=digest: store.blob(digest))


@pytest.mark.parametrize("examples", [12, pytest.param(1_000, marks=pytest.mark.slow)])
def test_lockstep(server: PostgresServer, examples: int) -> None:
    folders = []

    class Fresh(Lockstep):
        """On a fresh place each."""

        def __init__(self) -> None:
            memory, folder, schema = MemoryStore(), Path(tempfile.mkdtemp()), f"t_{token_hex(6)}"
            folders.append(folder)
            self.openers = (
                lambda: memory,
                lambda: SQLiteStore(folder / "runs.db", synchronous="off"),
                lambda: PostgresStore(server.dsn, schema=schema),
            )
            super().__init__()

    try:
        run_state_machine_as_test(
            Fresh,
            settings=settings(
                max_examples=examples,
                stateful_step_count=30,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)

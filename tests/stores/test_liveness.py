"""Owners that die, and owners that are silent: the same for both stores that several processes can share."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from clew.errors import RunOwnedError
from clew.stores import RunRow, Store, liveness
from tests.stores.processes import Process, opened, step


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    return f"{request.getfixturevalue('server').dsn}|t_{token_hex(6)}"


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    store = opened(address)
    store.create(RunRow("r"))
    yield store
    store.close()


def test_a_killed_owner_is_noticed_at_once(store: Store, address: str) -> None:
    with Process(address) as owner:
        fence = owner.do("claim", "r", "first", 0.0)
        assert owner.do("append", "r", 1, fence) is None
        with pytest.raises(RunOwnedError, match="first"):
            store.claim("r", "second", lease=30.0, now=1.0)
        owner.kill()
        assert store.claim("r", "second", lease=30.0, now=1.0) > fence
        assert [entry.n for entry in store.entries("r")] == [1]


def test_a_killed_owner_is_noticed_by_a_process_that_comes_later(store: Store, address: str) -> None:
    with Process(address) as first:
        first.do("claim", "r", "first", 0.0)
        first.kill()
    with Process(address) as second:
        assert second.do("claim", "r", "second", 1.0) > 0


def test_a_silent_owner_is_followed_when_its_lease_has_run_out(store: Store, address: str) -> None:
    with Process(address) as owner:
        fence = owner.do("claim", "r", "first", 0.0)
        owner.freeze()
        with pytest.raises(RunOwnedError):
            store.claim("r", "second", lease=30.0, now=29.0)
        owner.tell("append", "r", 1, fence)  # it would do that next
        successor = store.claim("r", "second", lease=30.0, now=31.0)
        store.append("r", [step(1, b"successor")], successor)
        owner.thaw()
        assert owner.answer() == "RunOwnedError"
        assert owner.do("append two", "r", 2, fence) == "RunOwnedError"
        assert list(store.entries("r")) == [step(1, b"successor")]


def test_of_processes_that_claim_at_once_one_wins(store: Store, address: str) -> None:
    with Process(address) as one, Process(address) as two, Process(address) as three:
        processes = (one, two, three)
        for i in range(5):
            store.create(RunRow(f"r{i}"))
            for process, name in zip(processes, "abc"):
                process.tell("claim", f"r{i}", name, 0.0)
            answers = [process.answer() for process in processes]
            assert sorted(type(answer).__name__ for answer in answers) == ["int", "str", "str"], answers
            assert answers.count("RunOwnedError") == 2


def test_processes_open_a_new_store_at_once(address: str) -> None:
    with Process(address) as one, Process(address) as two, Process(address) as three:
        for i in range(5):
            fresh = f"{address}{i}"
            for process in (one, two, three):
                process.tell("open", fresh)
            assert [process.answer() for process in (one, two, three)] == [None, None, None]


def test_processes_write_at_once(store: Store, address: str) -> None:
    with Process(address) as one, Process(address) as two:
        fences = {}
        for process, run_id in ((one, "a"), (two, "b")):
            process.do("create", run_id)
            fences[run_id] = process.do("claim", run_id, run_id, 0.0)
        for n in range(1, 51):
            one.tell("append", "a", n, fences["a"])
            two.tell("append", "b", n, fences["b"])
        assert [one.answer() for _ in range(50)] == [two.answer() for _ in range(50)] == [None] * 50
    assert (
        [entry.n for entry in store.entries("a")]
        == [entry.n for entry in store.entries("b")]
        == list(range(1, 51))
    )


def test_a_forked_process_has_a_connection_of_its_own(store: Store) -> None:
    """As with a server that loads a program once and then forks."""
    fence = store.claim("r", "parent", lease=30.0, now=0.0)
    store.append("r", [step(1)], fence)

    def child() -> bool:
        try:
            store.claim("r", "child", lease=30.0, now=1.0)
        except RunOwnedError:
            store.create(RunRow("childs"))
            own = store.claim("childs", "child", lease=30.0, now=1.0)
            store.append("childs", [step(1)], own)
            store.append("childs", [step(2), step(3)], own)
            return len(store.entries("childs")) == 3 and len(store.entries("r")) == 1
        return False

    assert _seen_by_a_child(child)
    store.append("r", [step(2)], fence)
    assert [entry.n for entry in store.entries("r")] == [1, 2]
    store.claim("childs", "parent", lease=30.0, now=2.0)  # its owner has ended
    assert _seen_by_a_child(lambda: store.close() is None)
    store.append("r", [step(3)], fence)


class TestLifeline:
    """The lock behind it, in a file."""

    def test_it_holds_until_it_is_closed(self, tmp_path: Path) -> None:
        line = liveness.Lifeline(tmp_path / "runs.db")
        assert liveness.is_alive(tmp_path / "runs.db", line.slot)
        line.close()
        line.close()
        assert not liveness.is_alive(tmp_path / "runs.db", line.slot)

    def test_two_names_of_a_file_are_one_file(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path)
        line = liveness.Lifeline(tmp_path / "runs.db")
        assert liveness.is_alive(tmp_path / "link" / "runs.db", line.slot)
        line.close()

    def test_one_that_closes_leaves_the_others_their_locks(self, tmp_path: Path) -> None:
        file = tmp_path / "runs.db"
        one, two = liveness.Lifeline(file), liveness.Lifeline(file)
        one.close()
        assert not liveness.is_alive(file, one.slot)
        assert _seen_by_a_child(lambda: liveness.is_alive(file, two.slot))
        two.close()
        assert not _seen_by_a_child(lambda: liveness.is_alive(file, two.slot))

    def test_a_forked_child_does_not_let_go_of_its_parents_lock(self, tmp_path: Path) -> None:
        file = tmp_path / "runs.db"
        line = liveness.Lifeline(file)

        def close() -> bool:
            line.close()
            return liveness.is_alive(file, line.slot)

        assert _seen_by_a_child(close)
        assert _seen_by_a_child(lambda: liveness.is_alive(file, line.slot))
        line.close()

    def test_without_locks_the_lease_decides(self, tmp_path: Path) -> None:
        nowhere = tmp_path / "not there" / "runs.db"
        line = liveness.Lifeline(nowhere)
        assert line.slot == 0
        assert liveness.is_alive(nowhere, 0)
        assert liveness.is_alive(nowhere, 5)
        line.close()


def _seen_by_a_child(question: Callable[[], bool]) -> bool:
    """What a forked process answers: locks belong to processes, so it is a stranger to its parent's."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # other threads of this process do not touch what it does
        child = os.fork()
    if child == 0:
        try:
            os._exit(0 if question() else 1)
        finally:
            os._exit(2)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 1)
    return status == 0

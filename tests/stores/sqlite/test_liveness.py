"""Owners that die, and owners that are silent: the same for both stores that several processes can share."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from clew.errors import OwnerDeadError, RunOwnedError
from clew.stores import RunRow, Store
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
        fence = owner.do("claim", "r", "first")
        assert owner.do("append", "r", 1, fence) is None
        with pytest.raises(RunOwnedError, match="first"):
            store.claim("r", "second", lease=600.0)
        owner.kill()
        assert store.claim("r", "second", lease=600.0) > fence
        assert [entry.n for entry in store.entries("r")] == [1]


def test_a_killed_owner_is_noticed_by_a_process_that_comes_later(store: Store, address: str) -> None:
    with Process(address) as first:
        first.do("claim", "r", "first")
        first.kill()
    with Process(address) as second:
        assert second.do("claim", "r", "second") > 0


def test_a_silent_owner_is_followed_when_its_lease_has_run_out(store: Store, address: str) -> None:
    with Process(address) as owner:
        fence = owner.do("claim", "r", "first")
        with pytest.raises(RunOwnedError):
            store.claim("r", "second", lease=600.0)
        owner.do("renew", "first", 0.0)
        owner.freeze()
        owner.tell("append", "r", 1, fence)  # it would do that next
        successor = store.claim("r", "second", lease=600.0)
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
                process.tell("claim", f"r{i}", name)
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
            fences[run_id] = process.do("claim", run_id, run_id)
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
    fence = store.claim("r", "parent", lease=600.0)
    store.append("r", [step(1)], fence)

    def child() -> bool:
        try:
            store.claim("r", "child", lease=600.0)
        except RunOwnedError:
            store.create(RunRow("childs"))
            own = store.claim("childs", "child", lease=600.0)
            store.append("childs", [step(1)], own)
            store.append("childs", [step(2), step(3)], own)
            return len(store.entries("childs")) == 3 and len(store.entries("r")) == 1
        return False

    assert _seen_by_a_child(child)
    store.append("r", [step(2)], fence)
    assert [entry.n for entry in store.entries("r")] == [1, 2]
    store.claim("childs", "parent", lease=600.0)  # its owner has ended
    assert _seen_by_a_child(lambda: store.close() is None)
    store.append("r", [step(3)], fence)


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
def test_a_wrong_wall_clock_takes_no_run(store: Store, address: str, ahead: float) -> None:
    """An owner that renews its lease keeps its run, whoever's clock is wrong, and loses it when it stops renewing."""
    with Process(address, shift=ahead) as wrong:
        fence = store.claim("r", "right", lease=600.0)
        store.renew("right", lease=600.0)
        assert wrong.do("claim", "r", "wrong") == "RunOwnedError"
        store.append("r", [step(1)], fence)
        store.renew("right", lease=0.0)
        taken = wrong.do("claim", "r", "wrong")
        assert taken > fence
        assert wrong.do("renew", "wrong") is None
        with pytest.raises(OwnerDeadError):
            store.claim("r", "right", lease=600.0)
        with pytest.raises(RunOwnedError):
            store.claim("r", "right again", lease=600.0)
        wrong.do("renew", "wrong", 0.0)
        assert store.claim("r", "right again", lease=600.0) > taken


OUTLIVING = {
    "os.fork": "child = os.fork()\nif not child:\n    live()\n",
    "multiprocessing": (
        "import multiprocessing\nprocess = multiprocessing.get_context('fork').Process(target=live)\n"
        "process.start()\nchild = process.pid\n"
    ),
    "subprocess": (
        "import subprocess\nchild = subprocess.Popen([sys.executable, '-c', 'import os, sys; "
        "os.write(1, bytes([97, 108, 105, 118, 101, 10])); sys.stdin.read()']).pid\n"
    ),
}
PARENT = """
import os, sys, time
from tests.stores.processes import opened

end = os.dup(0)  # multiprocessing closes the first one

def live():
    os.write(1, b"alive\\n")
    os.read(end, 1)  # until the test ends
    os._exit(0)

store = opened(sys.argv[1])
store.claim("r", "parent", lease=600.0)
{start}
os.write(1, f"{{child}}\\n".encode())
time.sleep(600)
"""


@pytest.mark.parametrize("start", OUTLIVING)
def test_a_child_that_outlives_its_killed_parent_does_not_keep_the_run(
    store: Store, address: str, start: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PARENT.format(start=OUTLIVING[start]), address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        try:
            lines = [parent.stdout.readline(), parent.stdout.readline()]
            child = int(next(line for line in lines if line != "alive\n"))
            with pytest.raises(RunOwnedError):
                store.claim("r", "second", lease=600.0)
            parent.kill()
            parent.wait()
            os.kill(child, 0)  # it lives
            assert store.claim("r", "second", lease=600.0)
        finally:
            parent.kill()
            parent.stdin.close()  # ends the child


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

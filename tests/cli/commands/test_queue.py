"""Queues on the command line: ``clew submit``, ``clew worker``, ``clew queues`` and ``clew workers``."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from clew import Graph, MemoryStore, SQLiteStore, Worker, node
from clew.cli.commands import worker
from tests.cli.command import Folder

JOBS = """
import os
import time
from pathlib import Path

from clew import Graph, node


def note(line):
    with open("effects.log", "a") as effects:
        effects.write(line + "\\\\n")


@node(output="b")
def begin(a: int) -> int:
    note(f"begin {a}")
    return a + 1


@node(output="c", timeout=None)
def wait(b: int) -> int:
    note(f"wait {b}")
    while not Path("go").exists():
        time.sleep(0.01)
    return b + 1


@node(output="d")
def end(c: int) -> int:
    note(f"end {c}")
    return c + 1


@node(output="z")
def kills(y: int) -> int:
    note("kills")
    os._exit(9)


slow = Graph([begin, wait, end], name="slow")
quick = Graph([begin], name="quick")
poison = Graph([kills], name="poison")
""".replace("\\\\n", "\\n")


@pytest.fixture
def jobs(folder: Folder) -> Iterator[Folder]:
    (folder.path / "jobs.py").write_text(JOBS)
    started: list[subprocess.Popen[str]] = []
    start = folder.start

    def starting(*words: str, **env: str) -> subprocess.Popen[str]:
        started.append(start(*words, **env))
        return started[-1]

    folder.start = starting
    yield folder
    (folder.path / "go").touch()
    for process in started:
        process.kill()
        process.communicate()


def until(condition: Callable[[], Any], seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def statuses(folder: Folder) -> dict[str, str]:
    return {row["run_id"]: row["status"] for row in folder.json("runs")}


def test_a_submitted_run_is_executed_by_a_worker(jobs: Folder) -> None:
    said = jobs.json("submit", "jobs:quick", "a=1", "--run-id", "r", "--attribute", "tenant=acme")
    assert (said["run_id"], said["status"], said["queue"]) == ("r", "queued", "default")
    assert statuses(jobs) == {"r": "queued"}
    found = jobs.json("queues")
    assert [(each["queue"], each["ready"], each["taken"]) for each in found["queues"]] == [("default", 1, 0)]
    done = jobs.clew("worker", "jobs:quick", "--until-idle")
    assert "completed: r" in done.stdout
    assert (statuses(jobs), jobs.lines("effects.log")) == ({"r": "completed"}, ["begin 1"])
    assert jobs.json("queues") == {"queues": [], "unserved": []}


def test_runs_that_no_worker_can_take_are_named(jobs: Folder) -> None:
    for n in range(7):
        jobs.clew("submit", "jobs:quick", "a=1", "--run-id", f"r{n}")
    (group,) = jobs.json("queues")["unserved"]
    assert (group["graph"], group["target"], group["count"], len(group["runs"])) == (
        "quick",
        "jobs:quick",
        7,
        5,
    )
    assert "clew worker jobs:quick" in jobs.clew("queues").stdout
    assert jobs.json("doctor")["unserved"][0]["count"] == 7
    assert "clew worker jobs:quick" in jobs.clew("doctor").stdout
    jobs.clew("worker", "jobs:slow", "--until-idle")
    assert set(statuses(jobs).values()) == {"queued"}
    jobs.start("worker", "jobs:quick", "jobs:slow", "--label", "both")
    until(lambda: set(statuses(jobs).values()) == {"completed"})
    jobs.clew("submit", "jobs:quick", "a=1", "--at", "2999-01-01T00:00:00Z")
    assert jobs.json("queues")["unserved"] == []


def test_sigterm_drains(jobs: Folder) -> None:
    jobs.clew("submit", "jobs:slow", "a=1", "--run-id", "r")
    worker = jobs.start("worker", "jobs:slow", "--grace", "600", "--label", "one")
    until(lambda: "wait 2" in jobs.lines("effects.log"))
    (listed,) = jobs.json("workers")["workers"]
    assert (listed["label"], listed["state"], listed["slots"]) == ("one", "alive", 8)
    worker.send_signal(signal.SIGTERM)
    until(lambda: jobs.json("workers")["workers"][0]["state"] == "draining")
    (jobs.path / "go").touch()
    out, err = worker.communicate(timeout=300)
    assert (worker.returncode, err) == (0, "")
    assert "released: r" in out
    assert (statuses(jobs), jobs.lines("effects.log")) == ({"r": "queued"}, ["begin 1", "wait 2"])
    assert jobs.json("workers")["workers"] == []
    jobs.clew("worker", "jobs:slow", "--until-idle")
    assert jobs.lines("effects.log") == ["begin 1", "wait 2", "end 3"]


def test_a_second_signal_ends_the_grace_time(jobs: Folder) -> None:
    jobs.clew("submit", "jobs:slow", "a=1", "--run-id", "r")
    worker = jobs.start("worker", "jobs:slow", "--grace", "600")
    until(lambda: "wait 2" in jobs.lines("effects.log"))
    worker.send_signal(signal.SIGINT)
    until(lambda: jobs.json("workers")["workers"][0]["state"] == "draining")
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=300)
    assert (worker.returncode, statuses(jobs)) == (0, {"r": "queued"})
    (jobs.path / "go").touch()
    jobs.clew("worker", "jobs:slow", "--until-idle")
    assert jobs.lines("effects.log") == ["begin 1", "wait 2", "wait 2", "end 3"]


def test_a_killed_worker_loses_its_runs_to_another(jobs: Folder) -> None:
    for n in range(4):
        jobs.clew("submit", "jobs:slow", f"a={n}", "--run-id", f"r{n}")
    first = jobs.start("worker", "jobs:slow")
    until(lambda: sum(line.startswith("wait") for line in jobs.lines("effects.log")) == 4)
    second = jobs.start("worker", "jobs:slow")
    os.kill(first.pid, signal.SIGKILL)
    first.wait(300)
    (jobs.path / "go").touch()
    until(lambda: set(statuses(jobs).values()) == {"completed"})
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=300)
    lines = jobs.lines("effects.log")
    assert second.returncode == 0
    assert sorted(line for line in lines if line.startswith("begin")) == [f"begin {n}" for n in range(4)]
    assert sorted(line for line in lines if line.startswith("end")) == [f"end {n + 2}" for n in range(4)]


def test_a_run_that_kills_its_worker_fails(jobs: Folder) -> None:
    jobs.clew("submit", "jobs:poison", "y=1", "--run-id", "bad")
    jobs.clew("submit", "jobs:quick", "a=1", "--run-id", "good", "--priority", "1")
    for _ in range(3):
        jobs.clew("worker", "jobs:poison", "jobs:quick", "--until-idle", "--tries", "3", code=9)
    jobs.clew("worker", "jobs:poison", "jobs:quick", "--until-idle", "--tries", "3")
    assert jobs.lines("effects.log").count("kills") == 3
    assert "begin 1" in jobs.lines("effects.log")
    found = {row["run_id"]: row for row in jobs.json("runs")}
    assert (found["good"]["status"], found["bad"]["status"]) == ("completed", "failed")
    assert found["bad"]["error"]["type"].endswith("TriesExhaustedError")
    assert "the worker died" in found["bad"]["error"]["message"]


def test_workers_with_different_code(jobs: Folder) -> None:
    jobs.clew("run", "jobs:quick", "a=1")  # the store exists
    jobs.start("worker", "jobs:quick", "--label", "old")
    until(lambda: [each["label"] for each in jobs.json("workers")["workers"]] == ["old"])
    (jobs.path / "jobs.py").write_text(JOBS.replace("a + 1", "a + 2"))
    refused = jobs.clew("worker", "jobs:quick", "--same-code", "--until-idle", code=2)
    assert "old" in refused.stderr
    new = jobs.start("worker", "jobs:quick", "--label", "new")
    until(lambda: len(jobs.json("workers")["workers"]) == 2)
    (group,) = jobs.json("workers")["different_code"]
    assert (group["graph"], len(set(group["workers"].values()))) == ("quick", 2)
    assert "different code for graph 'quick'" in jobs.clew("workers").stdout
    new.send_signal(signal.SIGTERM)
    _, err = new.communicate(timeout=300)
    assert "note: " in err
    assert "other code" in err


def test_a_terminal_shows_what_a_worker_does(jobs: Folder) -> None:
    jobs.clew("submit", "jobs:quick", "a=1", "--run-id", "r")
    code, got = jobs.in_terminal("worker", "jobs:quick", "--until-idle")
    assert code == 0
    assert "slots busy" in got
    assert "stopped: 1 completed" in got


def test_the_rate_is_that_of_the_last_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        now = 1000.0

        def monotonic(self) -> float:
            return self.now

    clock = Clock()
    monkeypatch.setattr(worker, "time", clock)

    @node(output="b")
    def only(a: int) -> int:
        return a

    display = worker._Display(Worker(Graph([only]), store=MemoryStore()))
    clock.now += 10
    for _ in range(30):
        display.count_end("r", "completed", 0.1)
    assert display.rate() == 3  # in the ten seconds since it started
    clock.now += 45
    assert display.rate() == 30 / 55
    clock.now += 16
    assert display.rate() == 0


@pytest.mark.parametrize(
    "words",
    [
        ("submit", "jobs:missing", "a=1"),
        ("submit", "nothing:graph", "a=1"),
        ("submit", "jobs:quick", "b=1"),
        ("submit", "jobs:quick", "a=1", "--at", "2001-01-01T00:00:00Z"),
        ("submit", "jobs:quick", "a=1", "--at", "2999-01-01T00:00:00"),
        ("submit", "jobs:quick", "a=1", "--at", "tomorrow"),
        ("submit", "jobs:quick", "a=1", "--queue", ""),
        ("submit", "jobs:quick", "a=1", "--queue", "low,high"),
        ("submit", "jobs:quick", "a=1", "--at", "1800000000000"),
        ("submit", "jobs:quick", "a=1", "--attribute", "tenant"),
        ("submit", "jobs:quick", "a=1", "--attribute", "tenant=a", "--attribute", "tenant=b"),
        ("submit", "jobs:quick", "a=1", "--priority", "high"),
        ("worker",),
        ("worker", "jobs:missing"),
        ("worker", "jobs:quick", "jobs:quick"),
        ("worker", "jobs:quick", "--slots", "0"),
        ("worker", "jobs:quick", "--queue", ","),
    ],
    ids=" ".join,
)
def test_a_mistake_is_explained(jobs: Folder, words: tuple[str, ...]) -> None:
    done = jobs.clew(*words, code=2)
    assert done.stderr.startswith("error: ")
    assert "\nhint: " in done.stderr


def test_workers_of_a_store_that_is_read_only_are_listed(jobs: Folder) -> None:
    jobs.clew("submit", "jobs:quick", "a=1")
    with closing(SQLiteStore(jobs.path / "clew.db")) as store:
        store.register("w", lease=1e-6, label="one", info={"graphs": [], "queues": []})
    with closing(sqlite3.connect(jobs.path / "clew.db")) as db:  # as for a user who may not write
        db.execute("CREATE TRIGGER refusing BEFORE UPDATE ON workers BEGIN SELECT RAISE(ABORT, 'no'); END")
        db.commit()
    jobs.clew("workers")


def test_an_unknown_queue_is_a_note_with_the_known_names(jobs: Folder) -> None:
    jobs.clew("submit", "jobs:quick", "a=1", "--queue", "low")
    said = jobs.clew("submit", "jobs:quick", "a=1", "--queue", "lwo").stderr
    assert said.startswith("note: ")
    assert "default, low" in said
    assert "low" in jobs.clew("worker", "jobs:quick", "--queue", "hihg", "--until-idle").stderr
    assert jobs.clew("worker", "jobs:quick", "--queue", "low,lwo", "--until-idle").stderr == ""
    assert Path(jobs.path / "clew.db").exists()


# -- many runs ---------------------------------------------------------------------------------------------------


def test_runs_are_listed_by_pages(jobs: Folder) -> None:
    for n in range(3):
        jobs.clew("submit", "jobs:quick", "a=1", "--run-id", f"r{n}", "--attribute", f"n={n}")
    done = jobs.clew("runs", "--limit", "2", "--json")
    assert [row["run_id"] for row in json.loads(done.stdout)] == ["r1", "r2"]
    cursor = done.stderr.split("--cursor ")[1].strip()
    assert [row["run_id"] for row in jobs.json("runs", "--limit", "2", "--cursor", cursor)] == ["r0"]
    (row,) = jobs.json("runs", "--attribute", "n=1")
    assert (row["run_id"], row["attributes"]) == ("r1", {"n": "1"})
    assert [row["run_id"] for row in jobs.json("runs", "--text", "R2", "--status", "queued")] == ["r2"]
    assert jobs.json("runs", "--name", "slow") == []
    assert jobs.json("runs", "--before", "2001-01-01T00:00:00Z") == []
    jobs.clew("runs", "--cursor", "nonsense", code=2)


def test_many_runs_are_cancelled_resubmitted_and_deleted(jobs: Folder) -> None:
    for n in range(3):
        tenant = "a" if n else "b"
        jobs.clew("submit", "jobs:quick", "a=1", "--run-id", f"r{n}", "--attribute", f"tenant={tenant}")
    chosen = ("--attribute", "tenant=a")
    assert jobs.json("cancel", *chosen, "--dry-run")["runs"] == ["r2", "r1"]
    assert set(statuses(jobs).values()) == {"queued"}
    assert jobs.json("cancel", *chosen)["runs"] == ["r2", "r1"]
    assert statuses(jobs) == {"r0": "queued", "r1": "cancelled", "r2": "cancelled"}
    assert jobs.json("cancel", *chosen)["runs"] == []
    done = jobs.json("resubmit", "--status", "cancelled", "--queue", "low", "--graph", "jobs:quick")
    assert done["runs"] == ["r2", "r1"]
    jobs.clew("worker", "jobs:quick", "--queue", "low", "--until-idle")
    assert statuses(jobs) == {"r0": "queued", "r1": "completed", "r2": "completed"}
    assert jobs.json("delete", "--status", "completed")["runs"] == ["r2", "r1"]
    assert jobs.json("delete", "r0")["runs"] == ["r0"]
    assert jobs.json("runs") == []
    for words in (("cancel",), ("delete", "r0", "--status", "failed"), ("delete", "none")):
        assert jobs.clew(*words, code=2).stderr.startswith("error: ")

"""The demo ends by itself with exit code 0: as plain text, as JSON, and live in a terminal.

The terminal is a real one, a pseudo-terminal, since that is what the demo asks about. Artificial slowness is left
out, or made less where something must be seen to go on beside something else.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, SQLiteStore
from clew.stores import RunRow
from clew.testing import VirtualClock

DEMO = Path(__file__).resolve().parents[2] / "examples/demo"
COMMAND = [sys.executable, "-W", "error", str(DEMO / "triage.py")]
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def demo(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONUTF8": "1", **environment},
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def as_data(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(demo("--json", *arguments))
    return found


def in_a_terminal(
    *arguments: str, columns: int = 80, path: Path | None = None, kind: str = "xterm-256color"
) -> tuple[int, str]:
    """The exit code, and everything that was drawn."""
    pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONUTF8": "1", "TERM": kind, "COLUMNS": str(columns), "LINES": "50"}
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        environment.pop(name, None)
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    running = subprocess.Popen(
        [*COMMAND, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True
    )
    os.close(theirs)
    drawn = b""
    try:
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux says so when the other side is closed
                break
            if not part:
                break
            drawn += part
        return running.wait(timeout=300), drawn.decode("utf-8")
    finally:
        running.kill()
        running.wait()
        os.close(ours)


def test_plain_text_has_every_part_and_no_control_codes() -> None:
    told = demo("--quick")
    assert "\x1b" not in told
    assert told.isascii()
    for part in (
        "Triage of",
        "The answer",
        "The chain of states",
        "'answer' was written by report",
        "What if",
        "was killed (SIGKILL)",
        "Resumed in this process",
        "Replayed, with the network off",
        "after a word was added to a prompt",
        "Forked from S(",
    ):
        assert part in told
    assert "did not run again" in told
    assert re.search(r"^ +- +\d+ ", told, re.MULTILINE), "the fork's answer lacks something"
    assert re.search(r"^ +\+ +\d+ ", told, re.MULTILINE), "the fork's answer has something else"


def test_the_slow_branch_holds_nobody_up() -> None:
    found = as_data("--pace", "0.9")
    ends = {span["path"]: span["end"] for span in found["timeline"]}
    begins = {span["path"]: span["begin"] for span in found["timeline"]}
    assert ends["fold#0"] < ends["run_book#0"]  # by seconds, so that a busy machine does not matter
    assert ends["run_book#0"] <= begins["report#0"] + 1
    assert sum(ends[path] - begins[path] for path in ends) > found["seconds"] * 1.5


def test_the_slow_branch_is_one_item_at_the_usual_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long sleep would end the item and begin it again: the bar would show only its end."""
    monkeypatch.syspath_prepend(DEMO)
    triage = importlib.import_module("triage")
    with Engine(triage.graph.bind(pace=1.0), seed=7, clock=VirtualClock()) as engine:
        found = triage.first_act(engine, 7, triage.Plain())
    spans = {span["path"]: span["end"] - span["begin"] for span in found["timeline"]}
    assert max(spans, key=spans.__getitem__) == "run_book#0"
    assert spans["run_book#0"] > 5


def test_digests_depend_on_the_seed_and_not_on_the_pace() -> None:
    def digests(found: dict[str, Any]) -> list[str]:
        return [state["digest"] for state in found["chain"] + found["fork"]["chain"]]

    quick = digests(as_data("--quick"))
    assert digests(as_data("--quick")) == quick
    assert digests(as_data("--pace", "0.1")) == quick
    assert digests(as_data("--quick", "--seed", "8")) != quick


def test_the_fork_shares_the_chain_up_to_where_it_starts() -> None:
    found = as_data("--quick")
    fork = found["fork"]
    assert fork["chain"][0]["step"] == fork["from"]
    assert not any(
        path.startswith(("scan", "run_book")) for state in fork["chain"] for path in state["items"]
    )
    assert fork["answer"] != found["answer"]


def test_a_killed_run_goes_on_and_no_finished_call_is_made_again() -> None:
    durable = as_data("--quick")["durable"]
    killed, resumed = durable["killed"], durable["resumed"]
    assert (killed["signal"], killed["status"], killed["owner_alive"]) == ("SIGKILL", "running", False)
    calls = [path for kind, path, _ in killed["entries"] if kind == "call"]
    assert calls == ["write#0", "write#0", "write#1"], "it was killed in the middle of an item"
    assert len(killed["effects"]) == 3
    assert resumed["status"] == "completed"
    assert resumed["effects"][:3] == killed["effects"]
    assert len(resumed["effects"]) == resumed["keys"] == 6


def test_a_replay_calls_nobody_and_shows_a_changed_prompt() -> None:
    durable = as_data("--quick")["durable"]
    replayed, changed = durable["replayed"], durable["changed"]
    assert (replayed["ok"], replayed["answered"], replayed["calls"], replayed["sockets"]) == (True, 6, 0, 0)
    assert "the network is off" in replayed["by_hand"], "a call that is made would have been refused"
    assert (changed["ok"], changed["calls"]) == (False, 0)
    assert "-    Write one sentence.\n+    Write one short sentence.\n" in changed["divergence"]


def test_the_fork_of_the_resumed_run_makes_the_calls_after_its_step_only() -> None:
    durable = as_data("--quick")["durable"]
    fork, story = durable["fork"], durable["resumed"]["story"]
    assert fork["status"] == "completed"
    assert len(fork["effects"]) == 4
    assert not {key for key, _ in fork["effects"]} & {key for key, _ in durable["resumed"]["effects"]}
    first, *others = story.rstrip(".").split(". ")
    assert fork["story"] == " ".join([f"{first}.", *(f"{other.upper()}!" for other in others)])
    assert any("manner" in line for line in fork["difference"])


def test_the_runs_can_be_kept_and_those_of_an_earlier_demo_are_removed(tmp_path: Path) -> None:
    file = tmp_path / "demo.db"
    for _ in range(2):
        demo("--quick", "--store", str(file))
        with closing(SQLiteStore(file)) as store:
            found = {row.run_id: row.status for row in store.rows()}
        assert found == dict.fromkeys(("triage", "strict-triage", "story", "loud-story"), "completed")


@pytest.mark.parametrize("kind", ["store", "text"])
def test_a_file_of_something_else_is_not_touched(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.db"
    if kind == "text":
        file.write_text("mine")
    else:
        with closing(SQLiteStore(file)) as store:
            store.create(RunRow("mine"))
    before = file.read_bytes()
    done = subprocess.run(
        [*COMMAND, "--quick", "--store", str(file)], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert str(file) in done.stderr
    assert file.read_bytes() == before


def test_the_second_act_is_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DEMO)
    crash = importlib.import_module("crash")

    shown: list[tuple[Any, ...]] = []
    slow = crash.act(1.0, lambda *told: shown.append(told))
    assert len(shown) == 5
    assert crash.act(0.0, lambda *told: None) == slow


@pytest.mark.parametrize("seed", [1, 4])
def test_any_seed_will_do(seed: int) -> None:
    found = as_data("--quick", "--seed", str(seed))
    assert found["status"] == "completed"
    assert found["answer"]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_it_is_drawn_live_in_a_terminal(columns: int) -> None:
    pytest.importorskip("rich")
    code, drawn = in_a_terminal("--pace", "0.4", columns=columns)
    assert code == 0, drawn
    assert drawn.count("Triage of") > 3, "it is drawn again and again"
    assert {"waits", "runs", "ran", "done"} <= set(re.findall(r"[a-z]+", CONTROL.sub("", drawn)))
    told = re.sub(r"\s+", " ", CONTROL.sub("", drawn))
    assert "did not run again" in told
    assert "Replayed, with the network off" in told
    lines = CONTROL.sub("", drawn).replace("\r", "\n").splitlines()
    assert max(map(len, lines)) <= columns


def test_without_rich_it_is_plain_text_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise ImportError('not here')\n")
    code, drawn = in_a_terminal("--quick", path=tmp_path)
    assert code == 0
    assert "rich is not installed" in drawn
    assert "\x1b" not in drawn


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_text() -> None:
    code, drawn = in_a_terminal("--quick", kind="dumb")
    assert code == 0
    assert "\x1b" not in drawn


def test_a_wrong_command_is_told_apart() -> None:
    done = subprocess.run([*COMMAND, "--seed", "x"], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert "--seed" in done.stderr


@pytest.mark.parametrize("pace", ["-1", "nan", "soon", "1e9"])
def test_a_pace_is_a_number_that_one_can_wait_for(pace: str) -> None:
    done = subprocess.run(
        [*COMMAND, f"--pace={pace}"], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, "--pace" in done.stderr) == (2, True)

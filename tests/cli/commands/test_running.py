"""Verbs that run something: run, resume, fork, rerun."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from tests.cli.command import Folder, until


def test_a_run_says_what_it_made(folder: Folder) -> None:
    done = folder.clew("run", "flow:graph", 'query="hi"', "marks=2", "--run-id", "r")
    assert done.stdout.splitlines()[0] == "run r completed after 2 steps"
    assert 'answer  "HI!!"' in done.stdout
    assert done.stderr == ""
    assert (folder.path / "clew.db").exists()


def test_a_result_as_json(folder: Folder) -> None:
    result = folder.json("run", "flow:graph", "query=hi", "--run-id", "r")
    assert result["run_id"] == "r"
    assert result["status"] == "completed"
    assert result["values"]["answer"] == "HI!"
    assert result["error"] is None
    assert result["metrics"]["total_steps"] == 2
    assert len(result["digest"]) == 64


def test_a_run_without_an_id_gets_one_that_can_be_typed(folder: Folder) -> None:
    run_id = folder.json("run", "flow:graph", "query=hi")["run_id"]
    assert run_id.startswith("hello-")
    assert folder.json("show", run_id[:8])["run"]["run_id"] == run_id


def test_values_come_from_a_file_or_standard_input_and_pairs_win(folder: Folder) -> None:
    (folder.path / "values.json").write_text('{"query": "file", "marks": 3}')
    assert folder.json("run", "flow:graph", "--values", "values.json")["values"]["answer"] == "FILE!!!"
    given = folder.json("run", "flow:graph", "marks=1", "--values", "values.json")
    assert given["values"]["answer"] == "FILE!"
    done = folder.clew("run", "flow:graph", "--values", "-", "--json", stdin='{"query": "in"}')
    assert json.loads(done.stdout)["values"]["answer"] == "IN!"


@pytest.mark.parametrize("target", ["flow:graph", "flow:made"])
def test_a_graph_is_an_object_or_a_function_that_makes_one(folder: Folder, target: str) -> None:
    assert folder.json("run", target, "query=hi")["status"] == "completed"


def test_the_store_is_an_option_or_in_the_environment(folder: Folder) -> None:
    folder.clew("run", "flow:graph", "query=hi", "--run-id", "a", "--store", "one.db")
    folder.clew("run", "flow:graph", "query=hi", "--run-id", "b", CLEW_STORE="two.db")
    assert [row["run_id"] for row in folder.json("runs", "--store", "one.db")] == ["a"]
    assert [row["run_id"] for row in folder.json("runs", CLEW_STORE="two.db")] == ["b"]
    assert not (folder.path / "clew.db").exists()


def test_a_failed_run_says_so_and_goes_on_when_it_is_mended(folder: Folder) -> None:
    done = folder.clew("run", "flow:failing", "a=1", "--run-id", "r", code=1)
    what, hint = done.stderr.splitlines()
    assert what.startswith("error: run 'r' failed after step 0: ValueError: the pipe is broken")
    assert "broken#0" in what
    assert "clew resume r" in hint
    assert folder.json("resume", "r", code=1)["error"]["type"] == "builtins:ValueError"
    (folder.path / "mended").touch()
    assert folder.json("resume", "r")["values"]["b"] == 2
    assert folder.json("resume", "r")["status"] == "completed"  # a finished one is shown as it is


def test_a_confined_failure_is_run_again_and_not_resumed(folder: Folder) -> None:
    program = "import flow; from clew import Engine; "
    program += "Engine(flow.confining, store='clew.db', on_error='continue').run({'a': 1}, run_id='r')"
    subprocess.run([sys.executable, "-c", program], cwd=folder.path, check=True, env=folder.environment())
    done = folder.clew("resume", "r", "--graph", "flow:confining", code=1)
    assert "clew rerun r" in done.stderr.splitlines()[1]
    (folder.path / "mended").touch()
    again = folder.json("rerun", "r", "--graph", "flow:confining")
    assert (again["values"]["b"], again["values"]["c"]) == (2, 3)


def test_a_question_is_answered_by_another_process(folder: Folder) -> None:
    done = folder.clew("run", "flow:asking", "topic=rain", "--run-id", "r")
    assert "approve#0 asks: send 'about rain'?" in done.stdout
    assert "answer with: clew resume r --answer JSON" in done.stdout
    done = folder.clew("resume", "r", code=2)
    assert "waits for an answer" in done.stderr
    assert "clew resume r --answer JSON" in done.stderr
    assert folder.json("resume", "r", "--answer", "true")["values"]["sent"] == "about rain"


def test_answers_by_path_come_from_a_file(folder: Folder) -> None:
    folder.clew("run", "flow:asking", "topic=rain", "--run-id", "r")
    (folder.path / "answers.json").write_text('{"approve#0": false}')
    assert folder.json("resume", "r", "--answers", "answers.json")["values"]["sent"] == "nothing"


def test_a_fork_goes_on_from_a_step_with_other_values(folder: Folder) -> None:
    folder.clew("run", "flow:graph", "query=hi", "--run-id", "r")
    fork = folder.json("fork", "r", 'shout="HO"', "--step", "1", "--run-id", "f")
    assert fork["values"]["answer"] == "HO!"
    assert folder.lines("effects.log") == ["hi"]
    (row,) = [row for row in folder.json("runs") if row["run_id"] == "f"]
    assert (row["parent"], row["parent_step"], row["target"]) == ("r", 1, "flow:graph")


def test_a_rerun_uses_again_what_is_unaffected(folder: Folder) -> None:
    folder.clew("run", "flow:graph", "query=hi", "--run-id", "r")
    assert folder.json("rerun", "r", "marks=3")["values"]["answer"] == "HI!!!"
    assert folder.lines("effects.log") == ["hi"]


def test_a_rerun_runs_the_forced_nodes(folder: Folder) -> None:
    folder.clew("run", "flow:graph", "query=hi", "--run-id", "r")
    again = folder.json("rerun", "r", "--force", "call", "--run-id", "s")
    assert (again["values"]["answer"], folder.lines("effects.log")) == ("HI!", ["hi", "hi"])
    assert (again["metrics"]["total_nodes_executed"], again["metrics"]["total_cache_hits"]) == (1, 1)
    last = folder.json("show", "s")["checkpoints"][-1]["clew"]
    assert last["cached"] == ["finish#0"]
    assert "finish#0 (cached)" in folder.clew("show", "s").stdout
    assert folder.json("why", "s", "answer")["cached"] is True
    wrong = folder.clew("rerun", "r", "--force", "cal", code=2)
    assert "did you mean 'call'?" in wrong.stderr


def test_killed_in_the_middle_and_resumed(folder: Folder) -> None:
    (folder.path / "hold").write_text("5")
    with folder.start("run", "flow:slow", "count=0", "pause=0.02", "--run-id", "r") as process:
        until(lambda: len(folder.lines("ticks.log")) > 5)
        process.kill()
    (folder.path / "hold").unlink()
    (row,) = folder.json("runs")
    assert row["status"] == "running"
    (orphan,) = folder.json("doctor")["orphans"]
    assert orphan["command"] == "clew resume r"
    assert "has ended" in orphan["reason"]
    resumed = folder.json("resume", "r")
    assert resumed["values"]["seen"] == list(range(20))
    ticks = [int(line) for line in folder.lines("ticks.log")]
    assert sorted(set(ticks)) == list(range(20))
    assert len(ticks) <= 21  # at most the one in flight was done twice
    unbroken = folder.json("run", "flow:slow", "count=0", "pause=0", "--run-id", "other")
    assert unbroken["values"]["seen"] == resumed["values"]["seen"]
    assert folder.json("doctor")["orphans"] == []


def test_two_processes_resume_one_run_and_one_wins(folder: Folder) -> None:
    (folder.path / "hold").write_text("18")
    with folder.start("run", "flow:slow", "count=18", "pause=0", "--run-id", "r") as process:
        until(lambda: len(folder.lines("ticks.log")) >= 1)
        done = folder.clew("resume", "r", code=1)
        assert "is owned by" in done.stderr
        assert folder.json("doctor")["owners"][0]["run_id"] == "r"
        process.kill()


def test_ctrl_c_leaves_the_run_resumable_and_says_how(folder: Folder) -> None:
    (folder.path / "hold").write_text("3")
    with folder.start("run", "flow:slow", "count=0", "pause=0", "--run-id", "r") as process:
        until(lambda: len(folder.lines("ticks.log")) > 3)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    (folder.path / "hold").unlink()
    assert process.returncode == 1
    what, hint = said.splitlines()
    assert what.startswith("error: run 'r' was interrupted")
    assert "clew resume r" in hint
    assert folder.json("resume", "r")["values"]["seen"] == list(range(20))


def test_progress_is_shown_on_a_terminal(folder: Folder) -> None:
    code, shown = folder.in_terminal("run", "flow:slow", "count=0", "pause=0.03", "--run-id", "r")
    assert code == 0
    assert "tick" in shown
    assert "running" in shown
    assert "run r completed after" in shown


def test_changed_structure_is_refused_with_the_ways_on(folder: Folder) -> None:
    folder.clew("run", "flow:asking", "topic=rain", "--run-id", "r")
    flow = folder.path / "flow.py"
    flow.write_text(
        flow.read_text().replace(
            "def send(approved: bool, draft: str)", "def send(approved: bool, draft: str, topic: str)"
        )
    )
    done = folder.clew("resume", "r", "--answer", "true", code=2)
    assert "clew resume r --accept-changes" in done.stderr
    done = folder.clew("resume", "r", "--answer", "true", "--accept-changes", code=0)
    assert "run r completed" in done.stdout


def test_changed_code_is_a_note(folder: Folder) -> None:
    folder.clew("run", "flow:asking", "topic=rain", "--run-id", "r")
    flow = folder.path / "flow.py"
    flow.write_text(flow.read_text().replace('else "nothing"', 'else "nothing at all"'))
    done = folder.clew("resume", "r", "--answer", "false")
    assert "changed code in 'send'" in done.stderr
    assert '"nothing at all"' in done.stdout


def test_failures_can_be_confined(folder: Folder) -> None:
    (folder.path / "two.py").write_text(
        "from clew import Graph, node\n"
        "@node(output='b')\ndef bad(a):\n    raise ValueError('no')\n"
        "@node(output='c')\ndef good(a):\n    return a\n"
        "@node(output='d')\ndef after(c):\n    return c\n"
        "graph = Graph([bad, good, after])\n"
    )
    done = folder.clew("run", "two:graph", "a=1", "--run-id", "r", "--on-error", "continue", "--json", code=1)
    assert json.loads(done.stdout)["values"]["d"] == 1
    done = folder.clew("run", "two:graph", "a=1", "--run-id", "s", code=1)
    done = folder.clew("resume", "s", "--graph", "two:graph", "--on-error", "continue", "--json", code=1)
    assert json.loads(done.stdout)["values"]["d"] == 1


def test_failures_are_printed_with_their_place(folder: Folder) -> None:
    (folder.path / "three.py").write_text(
        "from clew import Graph, node\n"
        "@node(output='b')\ndef bad(a):\n    raise ValueError('no luck')\n"
        "@node(output='c', rescue=lambda error: 7)\ndef saved(a):\n    raise OSError('away')\n"
        "graph = Graph([bad, saved])\n"
        "fine = Graph([saved])\n"
    )
    done = folder.clew("run", "three:graph", "a=1", "--run-id", "r", "--on-error", "continue", code=1)
    assert "failed: node 'bad' at bad#0 in step 1, attempt 1: ValueError: no luck" in done.stdout
    assert "rescued: node 'saved' at saved#0 in step 1, attempt 1: OSError: away" in done.stdout
    assert "clew rerun" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    shown = folder.clew("show", "r").stdout
    assert "failed: node 'bad'" in shown
    assert "rescued: node 'saved'" in shown
    done = folder.clew("run", "three:fine", "a=1", "--run-id", "s", "--json")
    (failure,) = json.loads(done.stdout)["failures"]
    assert (failure["at"]["path"], failure["at"]["rescued"]) == ("saved#0", True)
    done = folder.clew("run", "three:graph", "a=1", "--run-id", "t", code=1)
    assert "ValueError: no luck (node 'bad' at bad#0 in step 1, attempt 1)" in done.stderr
    assert "clew resume" in done.stderr

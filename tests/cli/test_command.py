"""The command as such: help, version, mistakes, exit codes, and what it costs to start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from tests.cli.command import Folder

VERBS = [
    "run",
    "submit",
    "worker",
    "queues",
    "workers",
    "resubmit",
    "signal",
    "answer",
    "cancel",
    "delete",
    "resume",
    "replay",
    "fork",
    "rerun",
    "runs",
    "show",
    "threads",
    "thread",
    "why",
    "diff",
    "export",
    "import",
    "prune",
    "doctor",
    "explore",
    "check",
    "pull",
    "set",
    "invalidate",
    "explain",
    "graph",
]


@pytest.fixture(scope="session")
def with_a_run(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A folder with a finished run, for commands that change nothing."""
    folder = Folder(tmp_path_factory.mktemp("with_a_run"))
    folder.clew("run", "flow:graph", "query=a", "--run-id", "r")
    return folder


def test_version(folder: Folder) -> None:
    assert folder.clew("--version").stdout == f"clew {clew.__version__}\n"


@pytest.mark.parametrize("words", [["--help"], ["--help", "run"]])
def test_help_lists_the_verbs(folder: Folder, words: list[str]) -> None:
    said = folder.clew(*words).stdout
    assert [verb for verb in VERBS if f"\n  {verb} " not in said] == []
    assert "..." not in said.partition("Commands:")[2]  # no sentence is cut off


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_has_examples(folder: Folder, verb: str) -> None:
    said = folder.clew(verb, "--help").stdout
    assert "Examples:" in said
    assert f"clew {verb}" in said
    assert "--json" in said or verb == "worker"  # it has no result


def test_the_script_is_the_command(folder: Folder) -> None:
    script = Path(sys.executable).with_name("clew")
    if not script.exists():
        if os.environ.get("CI"):
            pytest.fail("the script `clew` is not installed")
        pytest.skip("the script `clew` is not installed here: `make test` installs it")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, cwd=folder.path, check=True)
    assert done.stdout == f"clew {clew.__version__}\n"


def test_without_arguments_it_says_what_there_is(folder: Folder) -> None:
    done = folder.clew(code=2)
    assert "Usage: clew" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "words, what, hint",
    [
        (["rnu"], "no such command 'rnu'", "clew --help"),
        (["run"], "missing argument 'MODULE:GRAPH'", "clew run --help"),
        (["run", "flow:graph", "--frob"], "no such option: --frob", "clew run --help"),
        (["run", "flow:grahp", "query=a"], "module 'flow' has no 'grahp'", "did you mean 'graph'?"),
        (["run", "flow", "query=a"], "module 'flow' has more than one graph", "flow:asking"),
        (["run", "flow:Path", "query=a"], "flow:Path must be a clew.Graph", "known names"),
        (["run", "folw:graph"], "module 'folw' does not exist", "PYTHONPATH"),
        (["run", "flow.py:graph"], "'flow.py:graph' does not name a graph", "MODULE:GRAPH"),
        (["run", "flow:graph"], "'query' is missing", "NAME=JSON"),
        (["run", "flow:graph", "qurey=a"], "the graph has no value 'qurey'", "did you mean 'query'?"),
        (["run", "flow:graph", "query"], "'query' is not an input value", "NAME=JSON"),
        (["run", "flow:graph", 'query="a'], "query is not valid JSON", "quote it for the shell"),
        (["run", "flow:graph", "--values", "none.json"], "none.json cannot be read", "file"),
        (["run", "flow:graph", "query=a", "--durability", "most"], "durability must be", "clew run --help"),
        (
            ["run", "flow:graph", "query=a", "--store", "ftp://x"],
            "'ftp://x' is not a store",
            "postgresql://",
        ),
        (["runs", "--store", "none.db"], "store 'none.db' does not exist", "--store or CLEW_STORE"),
        (["runs", "--status", "happy"], "unknown status 'happy'", "completed"),
        (["show", "nope"], "run 'nope' does not exist", "`clew runs`"),
        (["show", "r", "--step", "9"], "run 'r' has no step or label 9", "steps 0 to 2"),
        (["rerun", "r", "--graph", "flow:none"], "module 'flow' has no 'none'", "known names"),
        (["why", "r", "anser"], "this run has no node or value 'anser'", "did you mean 'answer'?"),
        (["fork", "r", "--step", "9"], "run 'r' has no step 9", "it has steps 0 to 2"),
        (["fork", "r", "--step", "then"], "run 'r' has no label 'then'", "its labels: none"),
        (["run", "flow:graph", "query=a", "--run-id", "r"], "run 'r' already exists", "--run-id"),
        (["resume", "r", "--answer", "1"], "run 'r' is completed", "fork"),
        (["resume", "r", "--answer", "1", "--answers", "f"], "both given", "one of them"),
        (["replay"], "replay needs a run", "--all"),
        (["prune"], "prune needs a selection", "--keep"),
        (["prune", "--older-than", "long"], "'long' is not a duration", "30d"),
        (["prune", "--older-than", "3"], "'3' is not a duration", "30d"),
        (["prune", "--keep", "-1"], "--keep", "clew prune --help"),
        (["runs", "--limit", "0"], "--limit", "clew runs --help"),
        (["runs", "--store", "."], "it is a folder", "runs.db"),
        (["export", "r", "-o", "none/run.json"], "none/run.json cannot be written", "--output"),
        (["serve", "--port", "99999"], "'--port'", "clew serve --help"),
        (
            ["check", "flow:graph", "query=a", "--replay", "none.json"],
            "none.json cannot be read: No",
            "check",
        ),
        (["import", "flow.py"], "flow.py is not valid JSON", "file"),
        (["graph", "flow:graph", "--format", "png"], "'png'", "svg"),
    ],
)
def test_a_wrong_command_is_told_what_and_what_to_do(
    with_a_run: Folder, words: list[str], what: str, hint: str
) -> None:
    done = with_a_run.clew(*words, code=2)
    told = done.stderr.splitlines()
    assert len(told) == 2, done.stderr
    assert told[0].startswith("error: ")
    assert what in told[0]
    assert told[1].startswith("hint: ")
    assert hint in told[1]
    assert done.stdout == ""


def test_a_module_with_one_graph_names_it(folder: Folder) -> None:
    (folder.path / "single.py").write_text(
        "from clew import Graph, node\n\ngraph = Graph([node(lambda x: 2 * x, name='double', output='y')])\n"
    )
    folder.clew("run", "single", "x=1", "--run-id", "ran")
    folder.clew("submit", "single", "x=2", "--run-id", "sent")
    assert {row["target"] for row in folder.json("runs")} == {"single:graph"}
    assert folder.json("rerun", "ran", "--graph", "single")["values"]["y"] == 2


def test_a_module_that_cannot_be_imported_is_named_with_the_line(folder: Folder) -> None:
    (folder.path / "bad.py").write_text("x = 1\ny = x / 0\n")
    done = folder.clew("run", "bad:graph", code=2)
    assert (
        "module 'bad' cannot be imported: ZeroDivisionError: division by zero (bad.py, line 2)" in done.stderr
    )


def test_a_traceback_is_shown_on_request(folder: Folder) -> None:
    folder.clew("run", "flow:graph", "query=a", "--run-id", "r")
    assert "Traceback" in folder.clew("show", "nope", code=2, CLEW_DEBUG="1").stderr
    done = folder.clew("run", "flow:failing", "a=1", code=1, CLEW_DEBUG="1")
    assert 'raise ValueError("the pipe is broken")' in done.stderr


def test_a_damaged_store_is_no_traceback(folder: Folder) -> None:
    (folder.path / "clew.db").write_bytes(b"this is no database, but long enough to be taken for one" * 40)
    done = folder.clew("runs", code=1)
    assert done.stderr.startswith("error: ")
    assert "clew.db" in done.stderr


def test_whoever_stops_reading_is_not_told_about_it(folder: Folder) -> None:
    folder.clew("run", "flow:slow", "count=0", "pause=0", "--run-id", "r")
    done = subprocess.run(
        f"{sys.executable} -m clew export r | head -c 10",
        shell=True,
        cwd=folder.path,
        env=folder.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


def test_the_library_does_not_import_the_command_line() -> None:
    probe = "import sys, clew; print([m for m in ('typer', 'rich', 'click', 'clew.cli') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_help_loads_neither_rich_nor_databases() -> None:
    probe = (
        "import sys, clew.cli\n"
        "try: clew.cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('rich.live', 'sqlite3', 'psycopg', 'asyncio') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"

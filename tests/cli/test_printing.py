"""What is printed holds no control characters, whatever a store holds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from clew import Engine, Graph, SQLiteStore, node
from clew.cli import output
from clew.cli.app import run_command
from clew.cli.output import command, fitted, inline, json_text, printable, remember_option
from clew.cli.values import read_object
from tests.cli.command import Folder

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\r\n\x7f"
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


def test_text_is_escaped() -> None:
    assert not UNSAFE.search(printable(EVIL))
    assert printable("a\nb") == "a\nb"
    assert inline("a\nb") == "a\\x0ab"
    assert inline("héllo 日本 😀") == "héllo 日本 😀"
    assert not UNSAFE.search(inline(EVIL))


def test_json_reads_back_the_same() -> None:
    data = {"a": EVIL, "b": [1, "\ud800"]}
    assert not UNSAFE.search(json_text(data))
    assert json.loads(json_text(data, indent=2)) == data


def test_lines_are_cut_to_columns() -> None:
    assert fitted("x" * 100, 10) == "x" * 9 + "…"
    assert fitted("日" * 100, 10) == "日" * 4 + " …"
    assert fitted("short", 10) == "short"


def test_a_long_id_hides_no_other_column(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "width", lambda: 80)
    output.say_table(("run", "status", ""), [("x" * 255, "completed", ""), ("r", "failed", "no")])
    assert [line.split()[1:] for line in capsys.readouterr().out.splitlines()] == [
        ["status"],
        ["completed"],
        ["failed", "no"],
    ]


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "values.json"
    file.write_text('{"a": 1}', "utf-8-sig")
    assert read_object(str(file)) == {"a": 1}


def test_a_command_can_be_copied_into_a_shell() -> None:
    remember_option("--store", None)  # of a command that another test ran in this process
    assert command("resume", "monday") == "clew resume monday"
    assert command("resume", "a; rm -rf ~") == "clew resume 'a; rm -rf ~'"


@pytest.fixture
def hostile(folder: Folder) -> Folder:
    @node(output="answer", name="an\x1bswer\x9b")
    def answer(query: str) -> str:
        return query

    def broken(answer: str) -> str:
        raise ValueError(EVIL)

    with Engine(Graph([answer, broken]), store=SQLiteStore(folder.path / "clew.db")) as engine:
        engine.run({"query": EVIL}, run_id="r", check=False)
        engine.label_checkpoint("r", EVIL)
        engine.run({"query": EVIL + "other"}, run_id="s", check=False)
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["runs"],
        ["show", "r"],
        ["show", "r", "--step", "1"],
        ["why", "r", "answer"],
        ["diff", "r", "s"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_commands_print_no_control_characters(hostile: Folder, words: list[str]) -> None:
    done = hostile.clew(*words)
    assert done.stdout
    assert not UNSAFE.search(done.stdout + done.stderr)


def test_json_of_commands_is_safe_and_exact(hostile: Folder) -> None:
    done = hostile.clew("show", "r", "--json")
    assert not UNSAFE.search(done.stdout)
    assert json.loads(done.stdout)["checkpoints"][0]["state"]["query"] == EVIL


def test_a_label_adds_no_line_to_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "runs.db")

    @node(output="y")
    def same(x: int) -> int:
        return x

    with Engine(Graph([same]), store=SQLiteStore(path)) as engine:
        engine.run({"x": 1}, run_id="r")
        engine.label_checkpoint("r", "one\nerror: forged")
    assert run_command(["show", "r", "--step", "other", "--store", path]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "hint"]


@pytest.mark.parametrize("opening, closing", [("[", "]"), ('{"a":', "}")])
def test_json_that_is_nested_too_deeply_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], opening: str, closing: str
) -> None:
    file = tmp_path / "deep.json"
    file.write_text(opening * 100_000 + "1" + closing * 100_000)
    assert run_command(["import", str(file), "--store", str(tmp_path / "runs.db")]) == 2
    told = capsys.readouterr().err
    assert "not foreseen" not in told
    assert "nested too deeply" in told

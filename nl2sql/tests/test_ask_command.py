"""``clew ask``, the real command, on the sample databases."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from clew_nl2sql.sample_data import make_samples
from nl2sql.tests.models.endpoint import Endpoint, says, serving
from tests.cli.command import Folder, until

HOW_MANY = "How many orders are there?"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "work").mkdir()
    made = Folder(tmp_path / "work")
    make_samples(made.path)
    return made


SALES = ("--source", "sales=sqlite:///sales.db")
SUPPORT = ("--source", "support=duckdb:///support.duckdb")
ERP = ("--source", "erp=sqlite:///erp.db")


def test_an_answer_with_its_query_and_where_it_came_from(folder: Folder) -> None:
    said = folder.clew("ask", HOW_MANY, *SALES, "--run-id", "mine").stdout.splitlines()
    assert said[0].endswith("180.")
    assert any(line.startswith("sales: SELECT COUNT(*)") for line in said)
    assert any(line.startswith("from sales: orders (1 row, sha256 ") for line in said)
    assert said[-1] == "run mine"


def test_a_question_across_sources_is_a_table(folder: Folder) -> None:
    question = "How many orders and how many tickets are there?"
    said = folder.clew("ask", question, *SALES, *SUPPORT).stdout
    assert "sales_count  support_count  difference" in said
    assert "180          72             108" in said


def test_for_programs(folder: Folder) -> None:
    found = folder.json("ask", HOW_MANY, *SALES)
    assert (found["status"], found["rows"], found["columns"]) == ("answered", [[180]], ["count"])
    assert found["sql"]["sales"].startswith("SELECT COUNT(*)")
    assert {"plan_hash", "provenance", "errors", "warnings", "run_id", "scans", "text"} <= set(found)


def test_the_plan_behind_it(folder: Folder) -> None:
    said = folder.clew("ask", HOW_MANY, *SALES, *SUPPORT, "--explain").stdout
    assert "1 scan, standalone" in said
    assert f"scan_1_sales: {HOW_MANY!r} -> sales (success, certainty " in said
    assert ".parquet" in said
    assert "or: SELECT COUNT(*) FROM orders\n" not in said  # that is the answer itself, not another reading


def test_the_samples(folder: Folder) -> None:
    assert folder.json("ask", "How many tickets are there?", "--samples")["rows"] == [[72]]


@pytest.mark.parametrize(
    "words, told",
    [
        ((HOW_MANY,), "error: no source given"),
        ((HOW_MANY, "--source", "sales"), "error: 'sales' is not a source"),
        ((HOW_MANY, "--source", "sales=mysql://x"), "error: 'mysql://x' is not the address"),
        ((HOW_MANY, *SALES, *SALES), "error: two sources have the name 'sales'"),
        ((HOW_MANY, *SALES, "--only", "hr"), "error: unknown source 'hr'"),
        ((HOW_MANY, *SALES, "--allow", "sales"), "error: 'sales' is not a grant"),
        ((HOW_MANY, *SALES, "--model", "gpt"), "error: 'gpt' is not a model"),
        (("--resume", "nope", *SALES), "error: run 'nope' does not exist"),
    ],
)
def test_a_wrong_command_is_said_in_two_lines(folder: Folder, words: tuple[str, ...], told: str) -> None:
    done = folder.clew("ask", *words, code=2)
    first, second = done.stderr.splitlines()
    assert first.startswith(told)
    assert second.startswith("hint: ")
    assert done.stdout == ""


def test_no_answer_is_exit_code_4(folder: Folder) -> None:
    done = folder.clew("ask", "Will it rain?", *SALES, *SUPPORT, code=4)
    assert "could not be answered" in done.stdout
    assert "note: QUESTION_UNMAPPED" in done.stderr


def test_a_part_of_an_answer_is_an_answer_and_says_so(folder: Folder) -> None:
    away = ("--source", "erp=sqlite:///nowhere.db")
    done = folder.clew("ask", HOW_MANY, *SALES, *away, code=3)
    assert "erp: the SQLite file nowhere.db cannot be read" in done.stdout
    assert "note: DATASOURCE_UNAVAILABLE" in done.stderr
    shown = folder.clew("ask", HOW_MANY, *SALES, *away, "--json", code=3)
    assert json.loads(shown.stdout)["status"] == "partial"


def test_somebody_with_few_rights(folder: Folder) -> None:
    assert folder.json("ask", HOW_MANY, *SALES, "--allow", "sales.orders")["rows"] == [[180]]
    denied = folder.clew("ask", "How many products are there?", *SALES, "--allow", "sales.orders", code=5)
    assert "SECURITY_VIOLATION" in denied.stderr


def test_one_question_after_the_other(folder: Folder) -> None:
    lines = (
        "How many orders are there?\n\n.sources\n.explain\nHow many customers are there?\n.quit\nHow many?\n"
    )
    said = folder.clew("ask", *SALES, stdin=lines).stdout
    assert "180." in said
    assert "sales: SQLiteSource('sales.db')" in said
    assert "explain is on" in said
    assert "12." in said
    assert said.count("\nrun ask-") == 2


def test_a_conversation_ends_with_its_input(folder: Folder) -> None:
    folder.clew("ask", *SALES, *SUPPORT, stdin="Will it rain?\n", code=4)
    assert folder.clew("ask", *SALES, stdin="").stdout == ""


def test_on_a_terminal_there_is_progress_for_each_node(folder: Folder) -> None:
    code, shown = folder.in_terminal("ask", HOW_MANY, *SALES, *SUPPORT)
    assert code == 0
    for node in ("datasource_resolver", "decomposer", "sql_agent", "executor", "aggregator"):
        assert node in shown
    assert "180." in shown


def test_a_run_is_shown_and_replayed_when_the_databases_are_gone(folder: Folder) -> None:
    folder.clew("ask", HOW_MANY, *SALES, "--run-id", "kept")
    (folder.path / "sales.db").unlink()
    assert "run 'kept' replays" in folder.clew("ask", "--replay", "kept").stdout
    assert "aggregator#0" in folder.clew("show", "kept").stdout


def test_a_finished_run_is_shown_again_by_resuming_it(folder: Folder) -> None:
    first = folder.json("ask", HOW_MANY, *SALES, "--run-id", "kept")
    assert folder.json("ask", "--resume", "kept", *SALES) == first


def test_with_a_language_model(folder: Folder) -> None:
    reply = {"sql": "SELECT max(amount) FROM orders", "certainty": 1.0, "answer": "A lot.", "unmapped": []}
    reply |= {"parts": [{"source": "sales", "question": "?"}], "operation": "standalone"}
    with serving(Endpoint(says(reply))) as endpoint:
        found = folder.json(
            "ask", "What is dearest?", *SALES, "--model", f"m@{endpoint.url}", CLEW_MODEL_KEY="k"
        )
    assert (found["text"], found["status"]) == ("A lot.", "answered")
    assert endpoint.headers[0]["Authorization"] == "Bearer k"
    assert json.dumps(endpoint.requests).count('"model": "m"') == 3


def test_an_error_that_repeats_is_told_once(folder: Folder) -> None:
    with sqlite3.connect(folder.path / "v.db") as db:
        db.executescript("CREATE TABLE t (a); CREATE VIEW broken AS SELECT * FROM t; DROP TABLE t")
    db.close()
    done = folder.clew("ask", "Show all broken", "--source", "v=v.db", code=4)
    assert done.stderr.count("PHYSICAL_VALIDATION_FAILED") == 1
    assert "(4 times)" in done.stderr


def test_at_a_terminal_an_interrupt_ends_the_line_and_not_the_conversation(folder: Folder) -> None:
    talk = folder.talk("ask", *SALES)
    talk.expect("ask> ")
    talk.send("How many ord")
    talk.expect("How many ord")  # the editor shows what it has read
    talk.interrupt()
    talk.expect("ask> ")
    talk.send(".nonsense\n")
    talk.expect("unknown command '.nonsense'")
    talk.expect("ask> ")
    talk.send("Will it rain?\n")
    talk.expect("could not be answered")
    talk.expect("ask> ")
    talk.send("How many orders are there?\n")
    talk.expect("180.")
    talk.expect("ask> ")
    talk.send("\x04")
    assert talk.ended() == 0


def has_a_run(store: Path) -> bool:
    db = sqlite3.connect(store)
    try:
        return bool(db.execute("SELECT count(*) FROM runs").fetchone()[0])
    finally:
        db.close()


def test_at_a_terminal_a_question_is_interrupted_and_the_next_one_answered(folder: Folder) -> None:
    with sqlite3.connect(folder.path / "slow.db") as db:
        db.execute("CREATE TABLE t (i INTEGER)")
        db.executemany("INSERT INTO t VALUES (?)", [(number,) for number in range(3000)])
        db.execute(
            "CREATE VIEW rides AS SELECT a.i AS id FROM t a, t b, t c, t d WHERE a.i + b.i + c.i > d.i"
        )
    db.close()
    talk = folder.talk("ask", "--source", "slow=slow.db")
    talk.expect("ask> ")
    talk.send("How many rides are there?\n")
    until(lambda: has_a_run(folder.path / "clew.db"), seconds=120)  # its query takes 30 seconds
    talk.send("\x03")
    talk.expect("was interrupted")
    talk.expect("ask> ")
    talk.send(".quit\n")
    assert talk.ended() == 0


UNCERTAIN = "Which loyal customers are from Norway?"


def test_a_script_gets_the_readings_and_chooses_later(folder: Folder) -> None:
    waiting = folder.json("ask", UNCERTAIN, *SALES, "--readings", "--run-id", "norway", code=4)
    (asked,) = waiting["questions"]
    assert len(asked["readings"]) == 3
    assert asked["readings"][0]["row"] == ["Borealis Sails"]
    assert asked["readings"][0]["unread"] == ["loyal"]
    chosen = folder.json("ask", "--resume", "norway", "--choose", "1", "--remember", *SALES)
    assert (chosen["status"], chosen["rows"][0]) == ("answered", ["Borealis Sails"])
    again = folder.json("ask", UNCERTAIN, *SALES)
    assert (again["status"], again["rows"]) == ("answered", chosen["rows"])
    assert folder.clew("ask", "--replay", "norway").stdout.startswith("run 'norway' replays")


def test_a_choice_needs_a_question_that_waits(folder: Folder) -> None:
    assert "--resume RUN" in folder.clew("ask", HOW_MANY, *SALES, "--choose", "1", code=2).stderr
    folder.clew("ask", HOW_MANY, *SALES, "--run-id", "sure")
    assert "does not wait" in folder.clew("ask", "--resume", "sure", "--choose", "1", *SALES, code=2).stderr


def test_without_a_terminal_nobody_is_asked(folder: Folder) -> None:
    assert folder.json("ask", UNCERTAIN, *SALES, code=3)["questions"] == []


def test_a_person_at_a_terminal_chooses(folder: Folder) -> None:
    talk = folder.talk("ask", UNCERTAIN, *SALES)
    talk.expect("1. name of customers, where country is 'Norway'")
    talk.expect("first row: Borealis Sails")
    talk.expect("does not use: 'loyal'")
    talk.expect("Which one?")
    talk.send("7\n")
    talk.expect("Which one?")
    talk.send("1\n")
    talk.expect("Chosen: name of customers, where country is 'Norway'.")
    assert talk.ended() == 0


def test_questions_on_lines_continue_each_other(folder: Folder) -> None:
    lines = "How many customers are from Norway?\nAnd from Denmark?\n"
    said = folder.clew("ask", *SALES, stdin=lines).stdout
    assert "Read as: How many customers are from Denmark?" in said

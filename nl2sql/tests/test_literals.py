"""What the user wrote verbatim is looked up in the database, and never replaced by something similar."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew_nl2sql import Pipeline, UserContext
from clew_nl2sql import probes as probing
from clew_nl2sql.planner.words.tokens import tokenize
from clew_nl2sql.sources.sqlite import SQLiteSource

ORDERS = 5_000


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> str:
    """5,000 orders; a sample holds the numbers of one in five."""
    path = tmp_path_factory.mktemp("shop") / "shop.db"
    with sqlite3.connect(path) as opened:
        opened.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, order_number TEXT, status TEXT, carrier TEXT)"
        )
        opened.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", map(order, range(1, ORDERS + 1)))
        opened.execute(
            "CREATE TABLE towns (id INTEGER PRIMARY KEY, town TEXT, postcode TEXT, people INTEGER)"
        )
        opened.executemany(
            "INSERT INTO towns VALUES (?, ?, ?, ?)",
            [
                (1, "Lyon", "69001", 500),
                (2, "Vaduz", "00650", 6),
                (3, "Bern", "03000", 130),
                (4, "Metz", "57000", 120),
            ],
        )
    opened.close()
    return f"sqlite:///{path}"


def order(number: int) -> tuple[object, ...]:
    status = ("open", "paid", "sent", "lost")[number % 4]
    return number, f"ORD-{10000 + 2 * number}", status, f"Carrier {number % 7}"


@pytest.fixture
def ask(shop: str, new_pipeline: Callable[..., Pipeline]) -> Callable[..., Any]:
    return new_pipeline({"shop": shop}).ask


@pytest.mark.parametrize(
    "text",
    ["ORD-13107", "ord-13107", "A320", "ada.l@mail.example", "00650", "INV/2024/17",
     "3f2a1b4c-0000-4a5b-9c9c-aabbccddeeff"],
)  # fmt: skip
def test_a_code_is_one_token(text: str) -> None:
    kinds = [(t.text, t.kind) for t in tokenize(f"what about {text}, then?")]
    assert (text, "quoted") in kinds


@pytest.mark.parametrize(
    "text", ["18-year-old", "mid-2010", "no-show", "Q3", "1990s", "08:30", "3.5", "5-star", "top-10"]
)
def test_a_word_with_a_number_is_not_a_code(text: str) -> None:
    assert "quoted" not in {t.kind for t in tokenize(f"what about {text}, then?")}


@pytest.mark.parametrize("quoted", ["{}", "'{}'"])
def test_an_answer_is_never_about_another_order(ask: Callable[..., Any], quoted: str) -> None:
    """Every second number exists. What exists is found, and what does not is not replaced."""
    for number in range(10_001, 20_000, 1_111):
        answer = ask(f"What is the status of order {quoted.format(f'ORD-{number}')}?")
        expected = [order((number - 10000) // 2)[2]] if number % 2 == 0 else []
        assert (answer.status, [row[0] for row in answer.rows]) == ("answered", expected), number
        assert f"= 'ORD-{number}'" in answer.sql["shop"]


def test_the_case_of_letters_is_that_of_the_database(ask: Callable[..., Any]) -> None:
    answer = ask("What is the status of order ord-19998?")
    assert (answer.status, answer.rows) == ("answered", ((order(4999)[2],),))


def test_leading_zeros_stay(ask: Callable[..., Any]) -> None:
    answer = ask("Which town has the postcode 00650?")
    assert (answer.status, answer.rows) == ("answered", (("Vaduz",),))


def test_a_similar_name_is_a_different_name(ask: Callable[..., Any]) -> None:
    right, other = ask("What is the postcode of Lyon?"), ask("What is the postcode of Lyons?")
    assert (right.status, right.rows) == ("answered", (("69001",),))
    assert other.status in ("partial", "unanswered")


def test_another_spelling_is_told_in_the_first_line(
    tmp_path: Path, new_pipeline: Callable[..., Pipeline]
) -> None:
    with sqlite3.connect(tmp_path / "staff.db") as opened:
        opened.execute("CREATE TABLE staff (id INTEGER PRIMARY KEY, name TEXT, gender TEXT)")
        opened.executemany(
            "INSERT INTO staff VALUES (?, ?, ?)", [(1, "Ida", "F"), (2, "Bo", "M"), (3, "Eva", "F")]
        )
    opened.close()
    answer = new_pipeline({"staff": f"sqlite:///{tmp_path}/staff.db"}).ask("How many staff are female?")
    assert (answer.status, answer.rows) == ("answered", ((2,),))
    assert answer.text.splitlines()[0] == "'female' is read as: gender = 'F'."


def test_probes_are_recorded(ask: Callable[..., Any], shop: str, tmp_path: Path) -> None:
    with Pipeline({"shop": shop}, store=tmp_path / "runs.db") as pipeline:
        answer = pipeline.ask("What is the status of order ORD-19998?", run_id="one")
        assert answer.rows
        pipeline.resources.sources["shop"].path = tmp_path / "gone.db"
        assert pipeline.replay("one").ok


def test_probes_stay_within_the_grants_of_the_user(shop: str, new_pipeline: Callable[..., Pipeline]) -> None:
    user = UserContext(user_id="u", policies=("shop.towns",))
    answer = new_pipeline({"shop": shop}).ask("Which town has the postcode ORD-19998?", user=user)
    assert all("orders" not in sql for sql in answer.sql.values())
    assert answer.rows == ()


def test_a_literal_that_could_not_be_looked_up_is_never_answered(
    ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "SECONDS", 0.0)
    assert ask("What is the status of order ORD-19998?").status in ("partial", "unanswered")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of all queries to a SQLite source that read a table."""
    asked: list[str] = []
    run = SQLiteSource.run

    def counted(self: SQLiteSource, query: Any, max_rows: int) -> Any:
        if "FROM" in query.sql:
            asked.append(query.sql)
        return run(self, query, max_rows)

    monkeypatch.setattr(SQLiteSource, "run", counted)
    return asked


def test_at_most_twenty_probes_a_question(shop: str, asked: list[str]) -> None:
    source = SQLiteSource(shop.removeprefix("sqlite:///"))
    question = "Compare " + " and ".join(f"'X-{n}-y'" for n in range(40))
    found = probing.probed(question, source.catalog(), source)
    assert len(asked) == probing.MOST
    assert len(found.unchecked) >= 30


def test_one_probe_looks_in_all_columns_of_a_table(tmp_path: Path, asked: list[str]) -> None:
    with sqlite3.connect(tmp_path / "wide.db") as opened:
        opened.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, a TEXT, b TEXT, c TEXT, d TEXT)")
        rows = ((n, f"a{n}", f"b{n}", f"c{n}", f"D-{n}-x") for n in range(ORDERS))
        opened.executemany("INSERT INTO notes VALUES (?, ?, ?, ?, ?)", rows)
    opened.close()
    source = SQLiteSource(tmp_path / "wide.db")
    found = probing.probed("the note 'Z-4999-y'", source.catalog(), source)
    assert len(asked) == 4  # the column that looks like it, and the others; as it is written, and in any case
    assert found.unchecked == ()
    row = probing.probed("the note 'd-4999-X'", source.catalog(), source).catalog.tables[0].rows[-1]
    assert row == (4999, "a4999", "b4999", "c4999", "D-4999-x")


def test_the_rows_found_are_part_of_the_dry_run(shop: str) -> None:
    source = SQLiteSource(shop.removeprefix("sqlite:///"))
    catalog = source.catalog()
    found = probing.probed("the order ORD-19998", catalog, source).catalog
    orders = next(t for t in found.tables if t.name == "orders")
    assert order(4999) in orders.rows
    assert order(4999) not in next(t for t in catalog.tables if t.name == "orders").rows

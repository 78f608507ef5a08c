"""Offline, without a key: questions to the default pipeline, compared with what SQL written by hand gives."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest

from clew_nl2sql import Pipeline
from clew_nl2sql.decompose import LinkingDecomposer
from clew_nl2sql.sample_data import CUSTOMERS, SUPPLIERS
from nl2sql.tests.scripted import EVERYBODY

New = Callable[..., Pipeline]


@pytest.fixture
def pipeline(samples: dict[str, str], new_pipeline: New) -> Pipeline:
    return new_pipeline(samples)


def by_hand(samples: dict[str, str], source: str, sql: str) -> list[tuple[Any, ...]]:
    path = Path(samples[source].partition(":///")[2])
    if source == "support":
        with duckdb.connect(str(path), read_only=True) as duck:
            found: list[tuple[Any, ...]] = duck.execute(sql).fetchall()
            return found
    lite = sqlite3.connect(path)
    try:
        return lite.execute(sql).fetchall()
    finally:
        lite.close()


QUESTIONS = {
    "a count": ("sales", "How many customers are there?", "SELECT count(*) FROM customers"),
    "a filter": (
        "sales",
        "List the names of customers from Norway",
        "SELECT name FROM customers WHERE country = 'Norway'",
    ),
    "a group with a having": (
        "sales",
        "Which countries have more than one customer?",
        "SELECT country FROM customers GROUP BY country HAVING count(*) > 1",
    ),
    "a top-k, descending": (
        "sales",
        "What are the names of the 3 products with the highest price?",
        "SELECT name FROM products ORDER BY price DESC LIMIT 3",
    ),
    "a join": (
        "sales",
        "What are the names and prices of products with an item of quantity 9?",
        "SELECT p.name, p.price FROM products p JOIN order_items i ON i.product_id = p.id WHERE i.quantity = 9",
    ),
    "a nested average": (
        "sales",
        "What are the names of products whose price is above the average price?",
        "SELECT name FROM products WHERE price > (SELECT avg(price) FROM products)",
    ),
    "a set difference": (
        "sales",
        "What are the names of customers who have no orders?",
        "SELECT name FROM customers WHERE id NOT IN (SELECT customer_id FROM orders)",
    ),
    "a date range": (
        "sales",
        "How many orders have an order date between 2024-03-01 and 2024-06-30?",
        "SELECT count(*) FROM orders WHERE order_date BETWEEN '2024-03-01' AND '2024-06-30'",
    ),
    "a count in DuckDB": (
        "support",
        "How many tickets have urgent priority?",
        "SELECT count(*) FROM tickets WHERE priority = 'urgent'",
    ),
    "a group in DuckDB": (
        "support",
        "How many tickets are there for each topic?",
        "SELECT topic, count(*) FROM tickets GROUP BY topic",
    ),
    "a sum": (
        "erp",
        "What is the total amount of overdue invoices?",
        "SELECT sum(amount) FROM invoices WHERE status = 'overdue'",
    ),
}


@pytest.mark.parametrize("what", QUESTIONS)
def test_a_question_without_a_model(samples: dict[str, str], pipeline: Pipeline, what: str) -> None:
    source, question, sql = QUESTIONS[what]
    answer = pipeline.ask(question)
    assert answer.status == "answered", answer
    assert list(answer.sql) == [source]
    expected = by_hand(samples, source, sql)
    if "ORDER BY" in sql:
        assert list(answer.rows) == expected
    else:
        # the columns may come in another order, the rows in any
        assert sorted(map(str, map(_as_set, answer.rows))) == sorted(map(str, map(_as_set, expected)))


def _as_set(row: tuple[Any, ...]) -> list[str]:
    return sorted(map(str, row))


@pytest.mark.parametrize("what", list(QUESTIONS)[::3])  # of each kind; all are asked above
def test_the_same_question_twice_gives_the_same_plan_query_and_artifact(
    samples: dict[str, str], new_pipeline: New, what: str
) -> None:
    _, question, _ = QUESTIONS[what]
    one, other = (new_pipeline(samples).ask(question) for _ in range(2))
    assert (one.plan_hash, one.sql) == (other.plan_hash, other.sql)
    assert [scan.content_hash for scan in one.scans] == [scan.content_hash for scan in other.scans]
    assert one.plan_hash


def test_three_databases_at_once_equal_the_answer_by_hand(three: dict[str, str], new_pipeline: New) -> None:
    from nl2sql.tests.test_pipeline import by_hand as for_each_customer

    answer = new_pipeline(three).ask(
        "For each customer, what is the total amount of orders, how many tickets were opened"
        " and how many invoices are there?",
        user=EVERYBODY,
    )
    assert answer.status == "answered", answer
    ordered = {row[0]: row[1] for row in answer.rows}
    tickets = {row[0]: row[2] for row in answer.rows}
    expected = for_each_customer()
    assert ordered == {name: values[0] for name, values in expected.items()}
    assert tickets == {name: values[1] for name, values in expected.items()}


def test_a_question_that_maps_only_in_part_says_which_part(pipeline: Pipeline) -> None:
    answer = pipeline.ask("How many customers are there, and what is the weather in Paris?")
    assert (answer.status, answer.rows) == ("partial", ((12,),))
    assert answer.unmapped == ("what is the weather in Paris",)


def test_counts_of_all_sources_are_added_up_and_it_is_said(pipeline: Pipeline) -> None:
    answer = pipeline.ask("How many countries are there in all sources combined?")
    customers, suppliers = ({row[1] for row in rows} for rows in (CUSTOMERS, SUPPLIERS))
    assert (answer.status, answer.rows) == ("answered", ((len(customers) + len(suppliers),),))
    assert any("counted several times" in warning for warning in answer.warnings)


def test_a_run_replays_with_the_planner_and_without_the_databases(tmp_path: Path, new_pipeline: New) -> None:
    import shutil

    from clew_nl2sql.sample_data import make_samples

    pipeline = new_pipeline(make_samples(tmp_path / "data"))
    answer = pipeline.ask("How many orders and how many tickets are there?")
    shutil.rmtree(tmp_path / "data")
    report = pipeline.replay(answer.run_id)
    assert report.ok, str(report)


def test_who_spent_most_last_year_and_what_did_support_say(
    samples: dict[str, str], new_pipeline: New
) -> None:
    pipeline = new_pipeline(samples, decomposer=LinkingDecomposer(today=lambda _: date(2025, 6, 1)))
    answer = pipeline.ask("Which five customers spent most last year, and what did support say about them?")
    assert answer.status == "answered", answer
    spent = by_hand(
        samples,
        "sales",
        "SELECT c.name FROM customers c JOIN orders o ON o.customer_id = c.id"
        " WHERE o.order_date BETWEEN '2024-01-01' AND '2024-12-31' GROUP BY c.id ORDER BY sum(o.amount) DESC LIMIT 5",
    )
    best = [name for (name,) in spent]
    said = by_hand(samples, "support", "SELECT customer, topic FROM tickets")
    # a left join: whoever has no ticket is there once, without a topic
    expected = [(name, topic) for name, topic in said if name in best]
    expected += [(name, None) for name in best if name not in {customer for customer, _ in said}]
    assert sorted(answer.rows, key=str) == sorted(expected, key=str)
    assert list(dict.fromkeys(row[0] for row in answer.rows)) == best

"""Eight kinds of question, asked of the sample databases as anybody would: no key, no option, no network.

What each should give is computed here in Python, from the numbers that the samples are made of, and not by SQL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import pytest

from clew_nl2sql import Answer, Pipeline
from clew_nl2sql.sample_data import CUSTOMERS, PRODUCTS, _orders, make_samples
from tests.cli.command import Folder

ORDERS, ITEMS = _orders()  # (id, customer, day, amount), (order, product, quantity)
CUSTOMER_OF = {number: customer for number, customer, *_ in ORDERS}
DAY_OF = {number: day for number, _, day, _ in ORDERS}


def country(order: int) -> str:
    return CUSTOMERS[CUSTOMER_OF[order] - 1][1]


class Shape(NamedTuple):
    question: str
    expected: list[tuple[Any, ...]]
    joins: int = 0
    ordered: bool = False


SHAPES = {
    "a count": Shape("How many customers are there?", [(len(CUSTOMERS),)]),
    "a filter": Shape(
        "List the names of customers from Norway",
        [(name,) for name, where, _ in CUSTOMERS if where == "Norway"],
    ),
    "a group with a having": Shape(
        "Which countries have more than one customer?",
        [(where,) for where, many in Counter(where for _, where, _ in CUSTOMERS).items() if many > 1],
    ),
    "a top-k, descending": Shape(
        "What are the names of the 3 products with the highest price?",
        [(name,) for name, _, _ in sorted(PRODUCTS, key=lambda product: -product[2])[:3]],
        ordered=True,
    ),
    "a join over two foreign keys": Shape(
        "What is the total quantity of order items for customers from Norway?",
        [(sum(quantity for order, _, quantity in ITEMS if country(order) == "Norway"),)],
        joins=2,
    ),
    "another join over two foreign keys": Shape(
        "What are the order dates of orders of the product named 'Silk thread'?",
        [
            (DAY_OF[order].isoformat(),)
            for order, product, _ in ITEMS
            if PRODUCTS[product - 1][0] == "Silk thread"
        ],
        joins=2,
    ),
    "a join over three foreign keys": Shape(
        "What is the total quantity of order items of products in the category rope for customers from France?",
        [
            (
                sum(
                    quantity
                    for order, product, quantity in ITEMS
                    if country(order) == "France" and PRODUCTS[product - 1][1] == "rope"
                ),
            )
        ],
        joins=3,
    ),
    "a nested average": Shape(
        "What are the names of products whose price is above the average price?",
        [(name,) for name, _, price in PRODUCTS if price > mean(price for _, _, price in PRODUCTS)],
    ),
    "a set difference": Shape(
        "What are the names of customers who have no orders?",
        [(name,) for number, (name, *_) in enumerate(CUSTOMERS, 1) if number not in CUSTOMER_OF.values()],
    ),
    "a date range": Shape(
        "How many orders have an order date between 2024-03-01 and 2024-06-30?",
        [(sum(date(2024, 3, 1) <= day <= date(2024, 6, 30) for day in DAY_OF.values()),)],
    ),
}


@pytest.mark.parametrize("what", SHAPES)
def test_it_is_answered_as_computed_by_hand_and_twice_the_same(
    samples: dict[str, str], new_pipeline: Callable[..., Pipeline], what: str
) -> None:
    shape = SHAPES[what]
    one, other = (new_pipeline(samples).ask(shape.question) for _ in range(2))
    assert one.status == "answered", one
    assert shape.expected, "a question without an answer would show little"
    if shape.ordered:
        assert list(one.rows) == shape.expected
    else:
        assert sorted(one.rows) == sorted(shape.expected)
    assert one.sql["sales"].count(" JOIN ") == shape.joins
    assert identity(one) == identity(other)
    assert all(identity(one))


def identity(answer: Answer) -> tuple[Any, ...]:
    (scan,) = answer.scans
    return answer.plan_hash, scan.sql, scan.content_hash, answer.content_hash


def test_the_command_says_the_same(tmp_path: Path) -> None:
    make_samples(tmp_path)
    folder = Folder(tmp_path)
    sources = ("--source", "sales=sales.db", "--source", "support=support.duckdb", "--source", "erp=erp.db")
    for what in ("a join over two foreign keys", "a group with a having"):
        found = folder.json("ask", SHAPES[what].question, *sources)
        assert found["status"] == "answered"
        assert sorted(map(tuple, found["rows"])) == sorted(SHAPES[what].expected)

"""Which part of a question goes to which source."""

from __future__ import annotations

from datetime import date

import pytest

from clew_nl2sql.decompose import LinkingDecomposer
from clew_nl2sql.decompose.normalization import name_words, stem
from clew_nl2sql.planner.catalog import Catalog, Column, Table
from clew_nl2sql.schemas import DecomposerResponse
from clew_nl2sql.sources import open_source
from nl2sql.tests.scripted import FOR_EACH, TOP_FIVE


@pytest.fixture(scope="module")
def catalogs(samples: dict[str, str]) -> dict[str, Catalog]:
    return {name: open_source(address).catalog() for name, address in samples.items()}


def decompose(question: str, catalogs: dict[str, Catalog]) -> DecomposerResponse:
    return LinkingDecomposer(today=lambda _: date(2025, 3, 31)).decompose(question, catalogs)


def parts(response: DecomposerResponse) -> list[tuple[str, str]]:
    return [(query.datasource_id, query.intent) for query in response.sub_queries]


@pytest.mark.parametrize(
    "question, source",
    [
        ("How many customers are there?", "sales"),
        ("What is the average price of products in the rope category?", "sales"),
        ("List the names and countries of customers", "sales"),
        ("Which orders have an amount between 100 and 200, and are late?", "sales"),
        ("How many urgent tickets are there?", "support"),
        ("Which agents are in the desk team?", "support"),
        ("How many overdue invoices are there?", "erp"),
        ("Which suppliers are from France?", "erp"),
    ],
)
def test_a_question_about_one_source_reaches_it_word_for_word(
    catalogs: dict[str, Catalog], question: str, source: str
) -> None:
    response = decompose(question, catalogs)
    assert parts(response) == [(source, question)]
    assert response.combine.operation == "standalone"
    assert response.unmapped == ()


def test_for_each_is_given_to_every_part(catalogs: dict[str, Catalog]) -> None:
    response = decompose(FOR_EACH, catalogs)
    assert parts(response) == [
        ("sales", "Show the total amount of orders for each customer name"),
        ("support", "How many tickets are there for each customer"),
        ("erp", "Show the total amount of unpaid invoices for each customer"),
    ]
    combine = response.combine
    assert (combine.operation, combine.how, combine.entity) == ("join", "full", "customer")


def test_they_are_those_that_the_first_part_asks_for(catalogs: dict[str, Catalog]) -> None:
    response = decompose(TOP_FIVE, catalogs)
    assert parts(response) == [
        ("sales", "What are the names of the 5 customers with the highest total amount of orders"),
        ("support", "How many tickets are there for each customer"),
        ("erp", "Show the total unpaid invoice amount for each customer"),
    ]
    assert (response.combine.operation, response.combine.how) == ("join", "left")


def test_what_parts_lean_on_is_given_back_to_them(catalogs: dict[str, Catalog]) -> None:
    response = decompose("Show the number of orders, tickets and invoices per customer", catalogs)
    assert parts(response) == [
        ("sales", "Show the number of orders for each customer name"),
        ("support", "Show the number of tickets for each customer"),
        ("erp", "Show the number of invoices for each customer"),
    ]


def test_conditions_on_one_subject_must_all_hold(catalogs: dict[str, Catalog]) -> None:
    response = decompose("Which customers have more than 15 orders and more than 6 tickets?", catalogs)
    assert parts(response) == [
        ("sales", "What are the names of the customers with more than 15 orders"),
        ("support", "Which customers have more than 6 tickets"),
    ]
    assert (response.combine.operation, response.combine.how) == ("join", "inner")


@pytest.mark.parametrize(
    "question",
    [
        "Compare the number of orders with the number of tickets",
        "How many orders and how many tickets are there?",
        "What is the difference between the number of orders and the number of tickets?",
    ],
)
def test_single_numbers_are_compared(catalogs: dict[str, Catalog], question: str) -> None:
    response = decompose(question, catalogs)
    assert [source for source, _ in parts(response)] == ["sales", "support"]
    assert response.combine.operation == "compare"


def test_one_question_to_all_sources_that_know_what_it_is_about(catalogs: dict[str, Catalog]) -> None:
    response = decompose("List the country names in all sources", catalogs)
    assert parts(response) == [("sales", "List the country names"), ("erp", "List the country names")]
    assert response.combine.operation == "union"


def test_what_maps_to_no_source_is_named(catalogs: dict[str, Catalog]) -> None:
    response = decompose("How many customers are there, and what is the weather in Paris?", catalogs)
    assert parts(response) == [("sales", "How many customers are there")]
    assert response.unmapped == ("what is the weather in Paris",)
    assert decompose("Will it rain?", catalogs).unmapped == ("Will it rain",)


def test_a_question_to_one_source_is_not_split(catalogs: dict[str, Catalog]) -> None:
    only = {"sales": catalogs["sales"]}
    assert parts(decompose("Who are the big spenders?", only)) == [("sales", "Who are the big spenders?")]
    question = "How many orders are there, and what is the weather in Paris?"
    response = decompose(question, only)
    assert (parts(response), response.unmapped) == ([("sales", question)], ())


def test_a_clause_that_is_no_question_of_its_own_is_not_taken_away(catalogs: dict[str, Catalog]) -> None:
    question = "Which orders are large and still pending?"
    response = decompose(question, catalogs)
    assert (parts(response), response.unmapped) == ([("sales", question)], ())


def test_a_source_may_be_named_and_its_name_is_no_table(catalogs: dict[str, Catalog]) -> None:
    response = decompose("How many customers in sales and how many suppliers in the erp database?", catalogs)
    assert parts(response) == [("sales", "How many customers"), ("erp", "How many suppliers")]


def test_values_lead_to_their_source(catalogs: dict[str, Catalog]) -> None:
    response = decompose("How much silk thread was sold?", catalogs)
    assert [source for source, _ in parts(response)] == ["sales"]


def test_the_same_question_gives_the_same_parts(catalogs: dict[str, Catalog]) -> None:
    assert len({str(decompose(TOP_FIVE, catalogs)) for _ in range(20)}) == 1


@pytest.mark.parametrize(
    "one, other",
    [
        ("customers", "customer"),
        ("countries", "country"),
        ("opened", "open"),
        ("invoices", "invoice"),
        ("boxes", "box"),
    ],
)
def test_words_are_brought_to_one_form(one: str, other: str) -> None:
    assert stem(one) == stem(other)


def test_names_are_words() -> None:
    assert name_words("order_items") == name_words("OrderItems") == ["order", "items"]


def test_what_a_source_says_is_in_the_column_that_holds_words(catalogs: dict[str, Catalog]) -> None:
    response = decompose("Which five customers spent most, and what did support say about them?", catalogs)
    assert parts(response) == [
        ("sales", "What are the names of the five customers with the highest total amount of orders"),
        ("support", "List the customer and topic of tickets"),
    ]


@pytest.mark.parametrize(
    "said, meant",
    [
        ("last year", "with order date between 2024-01-01 and 2024-12-31"),
        ("in the last year", "with order date between 2024-01-01 and 2024-12-31"),
        ("this year", "with order date between 2025-01-01 and 2025-12-31"),
        ("last month", "with order date between 2025-02-01 and 2025-02-28"),
        ("this month", "with order date between 2025-03-01 and 2025-03-31"),
        ("in 2024", "with order date between 2024-01-01 and 2024-12-31"),
        ("in 2024 or later", "with order date since 2024-01-01"),
        ("in 2024 or earlier", "with order date until 2024-12-31"),
        ("in March 2024 or later", "with order date since 2024-03-01"),
        ("with a date in 2024", "with a date between 2024-01-01 and 2024-12-31"),
        ("on 2024-05-01", "on 2024-05-01"),
    ],
)
def test_times_in_words_are_days(catalogs: dict[str, Catalog], said: str, meant: str) -> None:
    response = decompose(f"How many orders were placed {said}?", catalogs)
    assert parts(response) == [("sales", f"How many orders were placed {meant}?")]


def test_a_year_stays_a_year_where_years_are_kept() -> None:
    years = (Column(name="season", kind="number", values=(2023, 2024)), Column(name="day", kind="date"))
    catalog = {"club": Catalog(tables=(Table(name="games", columns=years),))}
    assert parts(decompose("How many games were in 2024?", catalog)) == [
        ("club", "How many games were in 2024?")
    ]


def test_a_source_without_dates_is_asked_as_it_was_said(catalogs: dict[str, Catalog]) -> None:
    only = {"list": Catalog(tables=(Table(name="people", columns=(Column(name="name", kind="text"),)),))}
    assert parts(decompose("How many people last year?", only)) == [("list", "How many people last year?")]


def test_who_spent_most_is_asked_by_what_was_spent(catalogs: dict[str, Catalog]) -> None:
    assert parts(decompose("Which five customers spent most?", catalogs)) == [
        ("sales", "What are the names of the five customers with the highest total amount of orders?")
    ]
    response = decompose(
        "Which 3 customers spent the least last year, and how many tickets did they open?", catalogs
    )
    assert parts(response)[0] == (
        "sales",
        "What are the names of the 3 customers with the lowest total amount of orders"
        " with order date between 2024-01-01 and 2024-12-31",
    )


def test_how_many_of_them_are_something(catalogs: dict[str, Catalog]) -> None:
    question = "Which five customers spent most, and how many of their invoices are overdue?"
    assert parts(decompose(question, catalogs))[1] == (
        "erp",
        "How many overdue invoices are there for each customer",
    )

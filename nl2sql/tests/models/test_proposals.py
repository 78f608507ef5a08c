"""Several proposals of a model: the database and the words of the question decide, and a person if they disagree."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from clew import Engine
from clew_nl2sql import Answer, ChatModel, ErrorCode, ModelPlanner, Pipeline, UserContext
from clew_nl2sql.models.narrowing import narrowed
from clew_nl2sql.models.prompts import schema_text
from clew_nl2sql.models.unread_words import unread_words
from clew_nl2sql.planner.catalog import Catalog, Column, ForeignKey, Table
from clew_nl2sql.replay_graphs import graph_for
from nl2sql.tests.models.endpoint import Endpoint, Reply, refuses, says, serving

New = Callable[..., Pipeline]
HOW_MANY = "How many orders are there?"
COUNT = "SELECT count(*) FROM orders"
SAME = "SELECT count(id) FROM orders"
OTHER = "SELECT count(*) FROM orders WHERE amount > 100"


def proposes(*sql: str, reads: tuple[tuple[str, str], ...] = ()) -> Reply:
    pairs = [{"words": words, "sql": part} for words, part in reads]
    return says({"queries": [{"sql": one, "certainty": 0.9, "reads": pairs} for one in sql]})


@pytest.fixture
def answer_to(samples: dict[str, str], new_pipeline: New) -> Callable[..., tuple[Answer, Endpoint]]:
    def asked(question: str, *replies: Reply, **options: Any) -> tuple[Answer, Endpoint]:
        with serving(Endpoint(*replies)) as endpoint:
            chat = ChatModel(endpoint.url, "m", wait=lambda _: None)
            pipeline = new_pipeline(
                {"sales": samples["sales"]}, planner=ModelPlanner(chat, today=lambda _: date(2025, 6, 18))
            )
            return pipeline.ask(question, **options), endpoint

    return asked


Ask = Callable[..., tuple[Answer, Endpoint]]


def test_proposals_that_agree_are_answered(answer_to: Ask) -> None:
    answer, endpoint = answer_to(HOW_MANY, proposes(COUNT, SAME))
    assert (answer.status, answer.rows, len(endpoint.requests)) == ("answered", ((180,),), 1)


def test_proposals_that_disagree_are_not(answer_to: Ask) -> None:
    answer, endpoint = answer_to(HOW_MANY, proposes(COUNT, OTHER))
    assert answer.status == "unanswered"
    assert [error.code for error in answer.errors] == [ErrorCode.PLAN_ABSTAINED]
    assert len(endpoint.requests) == 1


def test_a_person_decides_between_them(answer_to: Ask) -> None:
    def last(asked: Any) -> int:
        return len(asked.readings)

    answer, _ = answer_to(HOW_MANY, proposes(COUNT, SAME, OTHER), choose=last)
    assert answer.status == "answered"
    assert answer.scans[0].chosen == "the number of orders, where amount is more than 100"


def test_a_proposal_that_fails_does_not_count(answer_to: Ask) -> None:
    bad = ("SELECT nope FROM orders", "DROP TABLE orders", COUNT)
    answer, endpoint = answer_to(HOW_MANY, proposes(*bad))
    assert (answer.status, answer.rows, len(endpoint.requests)) == ("answered", ((180,),), 1)


def test_if_all_fail_the_model_is_told_and_asked_again(answer_to: Ask) -> None:
    answer, endpoint = answer_to(
        HOW_MANY, proposes("SELECT x FROM orders", "SELECT y FROM orders"), proposes(COUNT)
    )
    assert (answer.status, answer.scans[0].retries) == ("answered", 1)
    assert "COLUMN_NOT_FOUND" in endpoint.requests[1]["messages"][1]["content"]


def test_a_forbidden_proposal_is_never_sent(answer_to: Ask) -> None:
    hidden = "SELECT count(*) FROM customers"
    user = UserContext(policies=("sales.orders",))
    answer, _ = answer_to(HOW_MANY, proposes(hidden, COUNT), user=user)
    assert (answer.rows, [scan.tables for scan in answer.scans]) == (((180,),), [("orders",)])
    answer, endpoint = answer_to(HOW_MANY, proposes(hidden, f"{hidden} WHERE id > 0"), user=user)
    assert (answer.status, len(endpoint.requests)) == ("refused", 1)


def test_a_word_that_no_proposal_reads_makes_the_answer_partial(answer_to: Ask) -> None:
    answer, _ = answer_to("How many urgent orders are there?", proposes(COUNT, SAME))
    assert (answer.status, answer.rows) == ("partial", ((180,),))
    assert "'urgent'" in answer.text.splitlines()[0]


def test_an_endpoint_that_refuses_is_not_asked_again(answer_to: Ask) -> None:
    answer, endpoint = answer_to(HOW_MANY, refuses(403))
    assert (answer.status, len(endpoint.requests)) == ("unanswered", 1)
    assert [error.code for error in answer.errors] == [ErrorCode.MODEL_REFUSED]


def test_the_prompt_has_the_date_the_dialect_samples_and_what_may_be_read(answer_to: Ask) -> None:
    _, endpoint = answer_to(
        HOW_MANY, proposes(COUNT), user=UserContext(policies=("sales.customers", "sales.orders"))
    )
    system, user = (message["content"] for message in endpoint.requests[0]["messages"])
    assert "2025-06-18" in system
    assert "sqlite" in system
    assert "table customers" in user
    assert "'Norway'" in user
    assert "table products" not in user


@pytest.mark.parametrize("sql", [(COUNT, SAME), (COUNT, OTHER)])
def test_a_replay_makes_no_call_and_asks_no_database(
    samples: dict[str, str], new_pipeline: New, sql: tuple[str, ...]
) -> None:
    with serving(Endpoint(proposes(*sql))) as endpoint:
        planner = ModelPlanner(ChatModel(endpoint.url, "m"), today=lambda _: date(2025, 6, 18))
        pipeline = new_pipeline({"sales": samples["sales"]}, planner=planner)
        answer = pipeline.ask(HOW_MANY, ask_back=True)
        if answer.questions:
            answer = pipeline.choose(answer.run_id, 2)
        asked = len(endpoint.requests)
    graph = graph_for(pipeline.engine.runs()[0].target)
    assert graph is not None
    report = Engine(graph, store=pipeline.engine.store).replay(answer.run_id)
    assert report.ok, str(report)
    assert (asked, answer.status) == (1, "answered")


# -- the words -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "question, sql, pairs, unread",
    [
        ("How many orders are there?", "SELECT COUNT(*) FROM orders", (), ()),
        ("How many urgent orders are there?", "SELECT COUNT(*) FROM orders", (), ("urgent",)),
        (
            "How many urgent orders are there?",
            "SELECT COUNT(*) FROM orders WHERE prio = 1",
            (("urgent", "prio = 1"),),
            (),
        ),
        (  # not in the SQL, or only the beginning of a clause
            "How many urgent orders are there?",
            "SELECT COUNT(*) FROM orders WHERE prio = 1",
            (("urgent", "prio = 2"), ("urgent", "SELECT"), ("urgent", ""), ("other", "prio = 1")),
            ("urgent",),
        ),
        ("Orders of 'ORD-17'?", "SELECT id FROM orders WHERE code = 'ORD-17'", (), ()),
        (  # a literal is verbatim, whatever a model says
            "Orders of 'ORD-17'?",
            "SELECT id FROM orders WHERE code = 'ORD-71'",
            (("'ORD-17'", "code = 'ORD-71'"),),
            ("ORD-17",),
        ),
        ("Which customers live in Lyon?", "SELECT name FROM customers WHERE city = 'Lyon'", (), ()),
        ("Which customers live in Lyons?", "SELECT name FROM customers WHERE city = 'Lyon'", (), ("Lyons",)),
        ("Orders above 50", "SELECT id FROM orders WHERE amount > 50", (), ()),
        ("Orders above 50", "SELECT id FROM orders WHERE amount > 5", (), ("50",)),
        ("Orders in 2024", "SELECT id FROM orders WHERE day BETWEEN '2024-01-01' AND '2024-12-31'", (), ()),
        ("Customers without a phone", "SELECT name FROM customers WHERE phone IS NULL", (), ()),
        ("Orders that were not paid", "SELECT id FROM orders WHERE paid", (), ("not",)),
    ],
)
def test_unread_words(
    question: str, sql: str, pairs: tuple[tuple[str, str], ...], unread: tuple[str, ...]
) -> None:
    assert unread_words(question, sql, pairs, "sqlite") == unread


# -- wide schemas ----------------------------------------------------------------------------------------------


def wide(tables: int) -> Catalog:
    made = [
        Table(
            name=f"log_{number}",
            columns=tuple(Column(name=f"c{n}", type="TEXT", kind="text") for n in range(30)),
        )
        for number in range(tables)
    ]
    orders = Table(
        name="orders", columns=(Column(name="id", kind="number"), Column(name="customer_id", kind="number"))
    )
    customers = Table(
        name="customers", columns=(Column(name="id", kind="number"), Column(name="name", kind="text"))
    )
    key = ForeignKey(table="orders", column="customer_id", target_table="customers", target_column="id")
    return Catalog(tables=(*made, orders, customers), foreign_keys=(key,))


def test_a_wide_schema_is_narrowed_to_what_the_question_needs() -> None:
    catalog = narrowed("How many orders are there?", wide(500), 1_000, 5)
    names = {table.name for table in catalog.tables}
    assert {"orders", "customers"} <= names
    assert len(catalog.foreign_keys) == 1
    assert len(schema_text(catalog, 5)) <= 1_000 * 4 * 1.1
    assert narrowed("How many orders are there?", wide(3), 1_000, 5) == wide(3)
    assert [t.name for t in narrowed("orders?", wide(500), 1, 5).tables] == ["orders"]


def test_a_planner_sends_no_more_than_its_budget() -> None:
    with serving(Endpoint(proposes("SELECT count(*) FROM orders"))) as endpoint:
        ModelPlanner(ChatModel(endpoint.url, "m"), schema_tokens=1_000).plan(HOW_MANY, wide(500))
    (request,) = endpoint.requests
    assert "table orders" in request["messages"][1]["content"]
    assert "other tables are not shown" in request["messages"][1]["content"]
    assert len(json.dumps(request["messages"])) < 10_000

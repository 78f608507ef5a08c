"""The pipeline with a language model in all three roles: it works, it replays, and it gets away with nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from clew_nl2sql import (
    ChatModel,
    ErrorCode,
    ModelDecomposer,
    ModelPlanner,
    ModelSynthesizer,
    Pipeline,
    UserContext,
)
from clew_nl2sql.planner.catalog import Catalog
from nl2sql.tests.models.endpoint import Endpoint, plays, refuses, says, serving

New = Callable[..., Pipeline]
QUESTION = "Who ordered most, and did they complain?"
SQL = {
    "orders": "SELECT name, sum(amount) AS spent FROM customers JOIN orders ON customers.id = customer_id"
    " GROUP BY name ORDER BY spent DESC LIMIT 3",
    "tickets": "SELECT customer, count(*) AS complaints FROM tickets GROUP BY customer",
}


def planner(user: str) -> dict[str, Any]:
    asked = re.search(r"<question>\n(.*)\n</question>", user)
    assert asked
    reads = [{"words": "often", "sql": "count(*)"}, {"words": "complain", "sql": "tickets"}]
    return {
        "queries": [
            {"sql": SQL["tickets" if "complain" in asked[1] else "orders"], "certainty": 0.9, "reads": reads}
        ]
    }


def decomposer(_: str) -> dict[str, Any]:
    parts = [
        {"source": "sales", "question": "Who ordered most?"},
        {"source": "support", "question": "How often did each customer complain?"},
    ]
    return {"parts": parts, "operation": "join", "how": "left", "entity": "customer", "unmapped": []}


MODEL = {
    "translate": planner,
    "split": decomposer,
    "answer a question": lambda user: {"answer": "Fathom Diving ordered most."},
}


def roles(endpoint: Endpoint) -> dict[str, Any]:
    chat = ChatModel(endpoint.url, "m", api_key="very-secret", wait=lambda _: None)
    return {
        "planner": ModelPlanner(chat),
        "decomposer": ModelDecomposer(chat),
        "synthesizer": ModelSynthesizer(chat),
    }


def test_a_model_in_all_three_roles(samples: dict[str, str], new_pipeline: New) -> None:
    with serving(Endpoint(plays(MODEL))) as endpoint:
        answer = new_pipeline(samples, **roles(endpoint)).ask(QUESTION)
    assert answer.status == "answered", answer
    assert answer.text == "Fathom Diving ordered most."
    assert answer.columns == ("name", "sales_spent", "support_complaints")
    assert len(answer.rows) == 3
    assert len(endpoint.requests) == 4


def test_a_run_replays_without_the_model_and_the_key_is_stored_nowhere(
    samples: dict[str, str], new_pipeline: New, tmp_path: Any
) -> None:
    with serving(Endpoint(plays(MODEL))) as endpoint:
        pipeline = new_pipeline(samples, store=tmp_path / "m.db", **roles(endpoint))
        answer = pipeline.ask(QUESTION)
        asked = len(endpoint.requests)
    report = pipeline.replay(answer.run_id)
    assert report.ok, str(report)
    assert len(endpoint.requests) == asked
    stored = json.dumps(pipeline.engine.export_run(answer.run_id))
    assert "Who ordered most" in stored
    assert "very-secret" not in stored


def test_the_graph_that_the_run_remembers_replays_it_too(samples: dict[str, str], new_pipeline: New) -> None:
    from clew import Engine
    from clew_nl2sql.replay_graphs import graph_for

    with serving(Endpoint(plays(MODEL))) as endpoint:
        pipeline = new_pipeline(samples, **roles(endpoint))
        answer = pipeline.ask(QUESTION)
    graph = graph_for(pipeline.engine.runs()[0].target)
    report = Engine(graph, store=pipeline.engine.store).replay(answer.run_id)
    assert report.ok, str(report)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM customers",
        "SELECT id FROM orders WHERE customer_id IN (SELECT id FROM customers)",
        "WITH c AS (SELECT * FROM customers) SELECT * FROM c",
        "DROP TABLE orders",
        "SELECT 1; DELETE FROM orders",
        "ATTACH 'x' AS y",
        "SELECT load_extension('x')",
    ],
)
def test_hostile_sql_of_a_model_is_a_violation_and_is_not_asked_for_again(
    samples: dict[str, str], new_pipeline: New, sql: str
) -> None:
    with serving(Endpoint(says({"sql": sql, "certainty": 1.0}))) as endpoint:
        pipeline = new_pipeline(samples, planner=roles(endpoint)["planner"])
        user = UserContext(policies=("sales.orders",))
        answer = pipeline.ask("How many orders are there?", user=user)
    assert [error.code for error in answer.errors] == [ErrorCode.SECURITY_VIOLATION]
    assert (answer.status, answer.scans[0].retries, len(endpoint.requests)) == ("refused", 0, 1)


def test_a_model_is_not_told_of_what_its_user_may_not_see(samples: dict[str, str], new_pipeline: New) -> None:
    with serving(Endpoint(says({"sql": "SELECT count(*) FROM orders", "certainty": 1.0}))) as endpoint:
        pipeline = new_pipeline(samples, planner=roles(endpoint)["planner"])
        pipeline.ask("How many orders are there?", user=UserContext(policies=("sales.orders",)))
    told = json.dumps(endpoint.requests)
    assert "table orders" in told
    assert "table customers" not in told
    assert "segment" not in told


def test_a_model_is_told_what_was_wrong_and_does_better(samples: dict[str, str], new_pipeline: New) -> None:
    bad = {"sql": "SELECT count(*) FROM purchases", "certainty": 1.0}
    good = {"sql": "SELECT count(*) FROM orders;", "certainty": 1.0}
    with serving(Endpoint(says(bad), says(good))) as endpoint:
        answer = new_pipeline(samples, planner=roles(endpoint)["planner"]).ask("How many orders are there?")
    assert (answer.rows, answer.scans[0].retries) == (((180,),), 1)
    assert "TABLE_NOT_FOUND" in endpoint.requests[1]["messages"][1]["content"]
    assert "do not propose again" in endpoint.requests[1]["messages"][1]["content"]


def test_a_model_that_never_replies_sensibly_is_three_retries_and_a_typed_error(
    samples: dict[str, str], new_pipeline: New
) -> None:
    with serving(Endpoint(refuses(429))) as endpoint:
        answer = new_pipeline(samples, planner=roles(endpoint)["planner"]).ask("How many orders are there?")
    assert answer.status == "unanswered"
    assert {error.code for error in answer.errors} == {ErrorCode.MODEL_FAILED}
    assert answer.scans[0].retries == 3


def test_a_model_that_declines_is_an_abstention(samples: dict[str, str], new_pipeline: New) -> None:
    with serving(Endpoint(says({"sql": None, "certainty": 0.0, "reason": "no such data"}))) as endpoint:
        answer = new_pipeline(samples, planner=roles(endpoint)["planner"]).ask("How many orders are there?")
    assert [error.code for error in answer.errors] == [ErrorCode.PLAN_ABSTAINED]
    assert len(endpoint.requests) == 1


def test_a_decomposer_that_sends_a_part_to_a_source_that_may_not_be_seen(
    samples: dict[str, str], new_pipeline: New
) -> None:
    reply = {"parts": [{"source": "erp", "question": "?"}], "operation": "standalone", "unmapped": []}
    with serving(Endpoint(says(reply))) as endpoint:
        pipeline = new_pipeline(samples, **roles(endpoint))
        answer = pipeline.ask("How many orders are there?", user=UserContext(policies=("sales.*",)))
    assert [error.code for error in answer.errors] == [ErrorCode.SECURITY_VIOLATION]
    assert answer.scans == ()


def test_words_fail_and_the_answer_is_there_all_the_same(samples: dict[str, str], new_pipeline: New) -> None:
    model = {**MODEL, "answer a question": lambda _: "no JSON"}
    with serving(Endpoint(plays(model))) as endpoint:
        answer = new_pipeline(samples, **roles(endpoint)).ask(QUESTION)
    assert answer.status == "answered"
    assert "Fathom Diving" in answer.text
    assert [error.code for error in answer.errors] == [ErrorCode.MODEL_FAILED]


def test_a_model_cannot_leave_out_what_is_missing(samples: dict[str, str], new_pipeline: New) -> None:
    def half(user: str) -> dict[str, Any]:
        return {**decomposer(user), "unmapped": ["the weather"]}

    with serving(Endpoint(plays({**MODEL, "split": half}))) as endpoint:
        answer = new_pipeline(samples, **roles(endpoint)).ask(QUESTION)
    assert answer.status == "partial"
    assert answer.text.endswith("Not answered: 'the weather', which matches nothing in the sources.")


@pytest.mark.parametrize("said, meant", [(7.0, 1.0), (-3.0, 0.0), (0.4, 0.4)])
def test_a_certainty_is_a_share_whatever_a_model_says(said: float, meant: float) -> None:
    with serving(Endpoint(says({"sql": "SELECT 1", "certainty": said}))) as endpoint:
        plan = ModelPlanner(ChatModel(endpoint.url, "m")).plan("?", Catalog(tables=()))
    assert plan.certainty == meant

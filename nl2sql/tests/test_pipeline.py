"""The pipeline as a whole, on real databases, with planners that do as they are told."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, MemoryStore
from clew_nl2sql import ErrorCode, Pipeline, PipelineError, PlanModel, UserContext
from clew_nl2sql.errors import ErrorSeverity, NeedsSourcesError, UsageError
from clew_nl2sql.pipeline import run_with_graph
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.sample_data import CUSTOMERS, _invoices, _orders, _tickets, make_samples
from clew_nl2sql.schemas import CandidateModel, DecomposerResponse, SubQuery
from clew_nl2sql.sources import QueryResult, Source, open_source
from clew_nl2sql.sql.guard import CheckedQuery, check
from clew_nl2sql.state import GraphState
from nl2sql.tests.scripted import (
    EVERYBODY,
    FOR_EACH,
    SPENDING,
    TICKETS,
    TOP_CUSTOMERS,
    TOP_FIVE,
    UNPAID,
    Scripted,
)

New = Callable[..., Pipeline]
PLANS = {"sales": TOP_CUSTOMERS, "support": TICKETS, "erp": UNPAID}


class Watched:
    """A source that counts what it is asked."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.sent: list[str] = []

    @property
    def dialect(self) -> str:
        return self.source.dialect

    def catalog(self) -> Catalog:
        return self.source.catalog()

    def explain(self, query: CheckedQuery) -> str:
        self.sent.append(f"EXPLAIN {query.sql}")
        return self.source.explain(query)

    def run(self, query: CheckedQuery, max_rows: int) -> QueryResult:
        self.sent.append(query.sql)
        return self.source.run(query, max_rows)


@pytest.fixture
def watched(samples: dict[str, str]) -> dict[str, Watched]:
    return {name: Watched(open_source(address)) for name, address in samples.items()}


def bytes_of(samples: dict[str, str]) -> list[str]:
    files = [address.partition(":///")[2] for address in samples.values()]
    return [hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files]


def codes(errors: tuple[PipelineError, ...]) -> list[ErrorCode]:
    return [error.code for error in errors]


# -- across sources --------------------------------------------------------------------------------------------


def by_hand() -> dict[str, tuple[int | None, int, int | None]]:
    """For each customer: what was ordered, how many tickets there are, what is unpaid."""
    orders, _ = _orders()
    unpaid = [(name, amount) for _, name, _, amount, status in _invoices() if status != "paid"]
    found: dict[str, tuple[int | None, int, int | None]] = {}
    for number, (name, *_) in enumerate(CUSTOMERS, 1):
        spent = [amount for _, customer, _, amount in orders if customer == number]
        owed = [amount for customer, amount in unpaid if customer == name]
        tickets = sum(ticket[1] == name for ticket in _tickets())
        if spent or tickets or owed:
            found[name] = (sum(spent) if spent else None, tickets, sum(owed) if owed else None)
    return found


def test_one_question_over_sqlite_duckdb_and_postgresql_equals_the_answer_by_hand(
    three: dict[str, str], new_pipeline: New
) -> None:
    pipeline = new_pipeline(three, planner=Scripted({**PLANS, "sales": SPENDING}))
    answer = pipeline.ask(FOR_EACH, user=EVERYBODY)
    assert answer.status == "answered"
    assert answer.columns == ("name", "sales_sum_amount", "support_count", "erp_sum_amount")
    assert {row[0]: row[1:] for row in answer.rows} == by_hand()
    assert set(answer.sql) == {"sales", "support", "erp"}
    assert answer.operation == "join"
    assert len(answer.provenance) == 5  # three sources, two joins


def test_what_a_later_part_adds_does_not_change_which_rows_there_are(
    three: dict[str, str], new_pipeline: New
) -> None:
    answer = new_pipeline(three, planner=Scripted(PLANS)).ask(TOP_FIVE, user=EVERYBODY)
    best = sorted(by_hand().items(), key=lambda item: -(item[1][0] or 0))[:5]
    assert [row[0] for row in answer.rows] == [name for name, _ in best]
    assert [row[1:] for row in answer.rows] == [values for _, values in best]


@pytest.mark.parametrize("repeats", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_repeats_agree(three: dict[str, str], new_pipeline: New, repeats: int) -> None:
    pipeline = new_pipeline(three, planner=Scripted(PLANS), store=MemoryStore())
    found = {
        (a.text, a.rows, a.plan_hash, a.content_hash, tuple(s.content_hash for s in a.scans))
        for a in (pipeline.ask(TOP_FIVE, user=EVERYBODY) for _ in range(repeats))
    }
    assert len(found) == 1


def test_the_same_question_in_another_pipeline_has_the_same_hashes(
    samples: dict[str, str], new_pipeline: New
) -> None:
    one, other = (new_pipeline(samples, planner=Scripted(PLANS)).ask(TOP_FIVE) for _ in range(2))
    assert one.run_id != other.run_id
    assert (one.plan_hash, one.sql, one.content_hash) == (other.plan_hash, other.sql, other.content_hash)
    assert [s.content_hash for s in one.scans] == [s.content_hash for s in other.scans]


def test_the_entrance_owns_its_values_and_the_run_is_called_by_its_trace(
    samples: dict[str, str], new_pipeline: New
) -> None:
    pipeline = new_pipeline(samples, planner=Scripted(PLANS))
    initial = GraphState(user_query=TOP_FIVE, user_context=EVERYBODY)
    result = run_with_graph(pipeline.engine, initial)
    assert (result.run_id, result.status) == (initial.trace_id, "completed")
    assert pipeline.answer(initial.trace_id).status == "answered"
    first = pipeline.engine.history(initial.trace_id)[0].values
    given = {name for name, value in first.items() if value not in (None, [], {}, (), False)}
    assert given == {"trace_id", "user_query", "user_context"}  # and a source, if one was named, and choices


def test_scans_enter_the_subgraph_one_by_one_and_side_by_side(
    samples: dict[str, str], new_pipeline: New
) -> None:
    pipeline = new_pipeline(samples, planner=Scripted(PLANS))
    pipeline.ask(TOP_FIVE, run_id="r")
    steps = [list(state.items) for state in pipeline.engine.history("r")[1:]]
    assert steps == [
        ["datasource_resolver#0"],
        ["resolver_route#0"],
        ["decomposer#0"],
        ["global_planner#0"],
        ["layer_router#0"],
        ["sql_agent#0[0]", "sql_agent#0[1]", "sql_agent#0[2]"],
        ["layer_router#1"],
        ["aggregator#0"],
        ["answer_synthesizer#0"],
    ]


# -- one source down -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("down", ["sales", "support", "erp"])
def test_one_source_that_goes_down_costs_its_part_and_the_answer_says_so(
    tmp_path: Path, new_pipeline: New, down: str
) -> None:
    sources = make_samples(tmp_path / "data")
    pipeline = new_pipeline(sources, planner=Scripted({**PLANS, "sales": SPENDING}))
    whole = pipeline.ask(FOR_EACH)
    Path(sources[down].partition(":///")[2]).rename(tmp_path / "away")
    answer = pipeline.ask(FOR_EACH)
    assert (whole.status, answer.status) == ("answered", "partial")
    assert codes(answer.errors) == [ErrorCode.DATASOURCE_UNAVAILABLE]
    assert answer.errors[0].source == down
    assert f"from {down}" in answer.text
    failed = next(scan for scan in answer.scans if scan.source == down)
    assert (failed.status, failed.retries) == ("error", 0)
    assert len(answer.rows) >= 11
    assert len(answer.columns) == len(whole.columns) - 1


def test_a_source_that_is_down_is_remembered_as_it_was(tmp_path: Path, new_pipeline: New) -> None:
    sources = make_samples(tmp_path / "data")
    pipeline = new_pipeline(
        sources, planner=Scripted({**PLANS, "sales": SPENDING}), catalog_ttl=0.0
    )  # no catalog is kept for longer than a question
    pipeline.ask(FOR_EACH)
    Path(sources["erp"].partition(":///")[2]).rename(tmp_path / "away")
    answer = pipeline.ask(FOR_EACH)
    assert (answer.status, codes(answer.errors)) == ("partial", [ErrorCode.DATASOURCE_UNAVAILABLE])
    assert "Missing: " in answer.text
    assert [scan.source for scan in answer.scans] == ["sales", "support", "erp"]


def test_a_source_that_was_never_there_is_told_of(samples: dict[str, str], new_pipeline: New) -> None:
    sources = {**samples, "erp": "postgresql://nobody@127.0.0.1:1/none"}
    answer = new_pipeline(sources, planner=Scripted(PLANS)).ask(
        "Which 5 customers have the highest total amount of orders and how many tickets did they open?"
    )
    assert answer.status == "partial"
    assert codes(answer.errors) == [ErrorCode.DATASOURCE_UNAVAILABLE]
    assert "erp: PostgreSQL cannot be reached" in answer.text
    assert len(answer.rows) == 5


def test_all_sources_down_is_no_answer(tmp_path: Path, new_pipeline: New) -> None:
    answer = new_pipeline({"a": f"sqlite:///{tmp_path}/a.db"}, planner=Scripted({})).ask("How many?")
    assert answer.status == "unanswered"
    assert codes(answer.errors) == [ErrorCode.DATASOURCE_UNAVAILABLE]
    assert "could not be answered" in answer.text


def test_a_question_that_maps_only_in_part_says_which_part(
    samples: dict[str, str], new_pipeline: New
) -> None:
    planner = Scripted({"sales": "SELECT count(*) FROM customers WHERE country = 'Norway'"})
    answer = new_pipeline(samples, planner=planner).ask(
        "How many customers from Norway are there, and what is the weather in Paris?"
    )
    assert answer.status == "partial"
    assert answer.rows == ((2,),)
    assert answer.unmapped == ("what is the weather in Paris",)
    assert "Not answered: 'what is the weather in Paris'" in answer.text
    assert planner.asked == [("sales", "How many customers from Norway are there")]


def test_a_question_that_maps_to_nothing_is_not_answered(samples: dict[str, str], new_pipeline: New) -> None:
    answer = new_pipeline(samples, planner=Scripted({})).ask("Will it rain?")
    assert answer.status == "unanswered"
    assert codes(answer.errors) == [ErrorCode.QUESTION_UNMAPPED]


# -- retries ---------------------------------------------------------------------------------------------------

GOOD = "SELECT count(*) FROM orders"
BAD_PLANS = {
    "a table that is not there": ("SELECT count(*) FROM nope", ErrorCode.TABLE_NOT_FOUND),
    "a column that is not there": ("SELECT nope FROM orders", ErrorCode.COLUMN_NOT_FOUND),
    "no SQL": ("SELECT FROM FROM", ErrorCode.INVALID_PLAN_STRUCTURE),
    "what EXPLAIN refuses": ("SELECT id FROM orders, customers", ErrorCode.PHYSICAL_VALIDATION_FAILED),
    "what fails only when it runs": (
        "SELECT sum(9223372036854775807 - id + id) FROM orders",
        ErrorCode.EXECUTION_ERROR,
    ),
}


@pytest.mark.parametrize("bad", BAD_PLANS)
def test_a_bad_plan_then_a_good_one_is_a_success_with_one_retry(
    samples: dict[str, str], new_pipeline: New, bad: str
) -> None:
    sql, code = BAD_PLANS[bad]
    planner = Scripted({"sales": [sql, GOOD]})
    answer = new_pipeline(samples, planner=planner).ask("How many orders are there?")
    assert (answer.status, answer.rows) == ("answered", ((180,),))
    (scan,) = answer.scans
    assert (scan.status, scan.retries, codes(scan.errors)) == ("success", 1, [code])
    assert [(error.code, error.severity) for error in answer.errors] == [(code, ErrorSeverity.WARNING)]
    assert len(planner.asked) == 2


@pytest.mark.parametrize("bad", BAD_PLANS)
def test_always_bad_is_exactly_three_retries_and_a_typed_error(
    watched: dict[str, Watched], new_pipeline: New, bad: str
) -> None:
    sql, code = BAD_PLANS[bad]
    planner = Scripted({"sales": sql})
    answer = new_pipeline(watched, planner=planner).ask("How many orders are there?")
    assert answer.status == "unanswered"
    (scan,) = answer.scans
    assert (scan.status, scan.retries, codes(scan.errors)) == ("error", 3, [code] * 4)
    assert len(planner.asked) == 4
    if code is not ErrorCode.EXECUTION_ERROR:
        assert all(sent.startswith("EXPLAIN") for sent in watched["sales"].sent)


def test_of_a_plan_that_failed_the_next_candidate_is_taken(
    samples: dict[str, str], new_pipeline: New
) -> None:
    class Candidates:
        def plan(self, question: str, catalog: Catalog) -> PlanModel:
            others = (CandidateModel(sql="SELECT nope FROM orders"), CandidateModel(sql=GOOD))
            return PlanModel(sql="SELECT nope FROM orders", candidates=others)

    answer = new_pipeline(samples, planner=Candidates()).ask("How many orders are there?")
    assert (answer.rows, answer.scans[0].retries) == (((180,),), 1)


def test_a_planner_that_wants_to_know_is_told_what_was_wrong(
    samples: dict[str, str], new_pipeline: New
) -> None:
    told: list[Any] = []

    class Learning(Scripted):
        def refine(self, question: str, catalog: Catalog, feedback: Any) -> PlanModel:
            told.append(feedback)
            return PlanModel(sql=GOOD)

    planner = Learning({"sales": "SELECT nope FROM orders"})
    answer = new_pipeline(samples, planner=planner).ask("How many orders are there?")
    assert answer.status == "answered"
    assert told[0].feedback == ("COLUMN_NOT_FOUND: the column nope does not exist",)
    assert told[0].rejected == ("SELECT nope FROM orders",)


def test_a_planner_is_told_of_every_plan_that_failed_before(
    samples: dict[str, str], new_pipeline: New
) -> None:
    told: list[Any] = []

    class Stubborn(Scripted):
        def refine(self, question: str, catalog: Catalog, feedback: Any) -> PlanModel:
            told.append(feedback)
            return PlanModel(sql=f"SELECT nope_{len(told)} FROM orders")

    planner = Stubborn({"sales": "SELECT nope FROM orders"})
    new_pipeline(samples, planner=planner).ask("How many orders are there?")
    assert [len(feedback.feedback) for feedback in told] == [1, 2, 3]
    assert told[-1].rejected == tuple(f"SELECT {name} FROM orders" for name in ("nope", "nope_1", "nope_2"))


def test_an_abstention_is_final_and_shows_what_was_considered(
    samples: dict[str, str], new_pipeline: New
) -> None:
    class Unsure:
        calls = 0

        def plan(self, question: str, catalog: Catalog) -> PlanModel:
            self.calls += 1
            return PlanModel(abstained=True, certainty=0.2, candidates=(CandidateModel(sql=GOOD),))

    planner = Unsure()
    answer = new_pipeline(samples, planner=planner).ask("How many orders are there?")
    assert (answer.status, planner.calls) == ("unanswered", 1)
    assert codes(answer.errors) == [ErrorCode.PLAN_ABSTAINED]
    assert answer.scans[0].candidates == (GOOD,)
    assert GOOD in answer.text


def test_a_query_that_its_own_planner_does_not_trust_is_not_sent(
    watched: dict[str, Watched], new_pipeline: New
) -> None:
    class Doubtful:
        def plan(self, question: str, catalog: Catalog) -> PlanModel:
            return PlanModel(sql=GOOD, abstained=True, certainty=0.2)

    answer = new_pipeline(watched, planner=Doubtful()).ask("How many orders are there?")
    assert (answer.status, codes(answer.errors)) == ("unanswered", [ErrorCode.PLAN_ABSTAINED])
    assert watched["sales"].sent == []


# -- who may see what ------------------------------------------------------------------------------------------

FORBIDDEN = {
    "plain": "SELECT count(*) FROM customers",
    "subquery": "SELECT id FROM orders WHERE customer_id IN (SELECT id FROM customers)",
    "with": "WITH c AS (SELECT * FROM customers) SELECT count(*) FROM c",
    "union": "SELECT id FROM orders UNION SELECT id FROM customers",
}


@pytest.mark.parametrize("form", FORBIDDEN)
def test_a_forbidden_table_is_a_violation_without_retry_and_nothing_is_sent(
    watched: dict[str, Watched], new_pipeline: New, form: str
) -> None:
    planner = Scripted({"sales": FORBIDDEN[form]})
    clerk = UserContext(user_id="clerk", policies=("sales.orders",))
    answer = new_pipeline(watched, planner=planner).ask("How many orders are there?", user=clerk)
    assert answer.status == "refused"
    assert codes(answer.errors) == [ErrorCode.SECURITY_VIOLATION]
    assert answer.scans[0].retries == 0
    assert len(planner.asked) == 1
    assert watched["sales"].sent == []


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE orders",
        "SELECT 1; DROP TABLE orders",
        "SELECT pg_read_file('x')",
        "ATTACH 'x.db' AS x",
        "COPY orders TO 'x'",
        "SELECT soundex(id) FROM orders",
    ],
)
def test_a_hostile_plan_is_blocked_and_the_databases_keep_their_bytes(
    samples: dict[str, str], watched: dict[str, Watched], new_pipeline: New, sql: str
) -> None:
    before = bytes_of(samples)
    answer = new_pipeline(watched, planner=Scripted({"sales": sql})).ask("How many orders are there?")
    assert codes(answer.errors) == [ErrorCode.SECURITY_VIOLATION]
    assert answer.scans[0].retries == 0
    assert watched["sales"].sent == []
    assert bytes_of(samples) == before


@pytest.mark.parametrize("also", [(), ("clew_nl2sql.nodes.validator.checked",)])
def test_a_query_that_changes_after_it_was_looked_at_is_not_sent(
    watched: dict[str, Watched], new_pipeline: New, monkeypatch: pytest.MonkeyPatch, also: tuple[str, ...]
) -> None:
    """Whoever sends looks for themselves: first EXPLAIN, and the executor even if that looked away."""
    forbidden = "SELECT count(*) FROM customers"
    monkeypatch.setattr("clew_nl2sql.nodes.generator.rendered", lambda sql, catalog: forbidden)
    for name in also:
        monkeypatch.setattr(name, lambda state, resources, ctx, sql: check(sql, resources.catalog("sales")))
    clerk = UserContext(user_id="clerk", policies=("sales.orders",))
    pipeline = new_pipeline(watched, planner=Scripted({"sales": GOOD}))
    answer = pipeline.ask("How many orders are there?", user=clerk)
    assert codes(answer.errors) == [ErrorCode.SECURITY_VIOLATION]
    assert all(sent.startswith("EXPLAIN") for sent in watched["sales"].sent)


def test_a_planner_is_not_shown_what_its_user_may_not_see(samples: dict[str, str], new_pipeline: New) -> None:
    planner = Scripted({"sales": GOOD})
    clerk = UserContext(policies=("sales.orders",))
    new_pipeline(samples, planner=planner).ask("How many orders are there?", user=clerk)
    assert [table.name for catalog in planner.catalogs for table in catalog.tables] == ["orders"]


def test_a_word_that_names_only_what_is_hidden_is_a_denial(
    watched: dict[str, Watched], new_pipeline: New
) -> None:
    planner = Scripted({})
    clerk = UserContext(policies=("sales.orders",))
    answer = new_pipeline(watched, planner=planner).ask("How many products are there?", user=clerk)
    assert codes(answer.errors) == [ErrorCode.SECURITY_VIOLATION]
    assert "'products'" in answer.text
    assert (planner.asked, watched["sales"].sent) == ([], [])


def test_somebody_without_grants_sees_nothing(watched: dict[str, Watched], new_pipeline: New) -> None:
    answer = new_pipeline(watched, planner=Scripted({})).ask("How many orders?", user=UserContext())
    assert answer.status == "refused"
    assert codes(answer.errors) == [ErrorCode.SECURITY_VIOLATION]


def test_a_source_that_is_asked_for_by_name_and_denied_is_a_violation(
    samples: dict[str, str], new_pipeline: New
) -> None:
    user = UserContext(policies=("support.*",))
    answer = new_pipeline(samples, planner=Scripted({})).ask("How many orders?", user=user, source="sales")
    assert codes(answer.errors) == [ErrorCode.SECURITY_VIOLATION]


def test_a_grant_for_a_table_that_is_not_there_grants_nothing(
    samples: dict[str, str], new_pipeline: New
) -> None:
    user = UserContext(policies=("sales.nothing",))
    answer = new_pipeline(samples, planner=Scripted({})).ask("How many orders are there?", user=user)
    assert codes(answer.errors) == [ErrorCode.SECURITY_VIOLATION]
    assert "may not see any source" in answer.text


def test_a_database_without_tables_is_said_to_have_none(tmp_path: Path, new_pipeline: New) -> None:
    (tmp_path / "empty.db").touch()
    sources = {"new": f"sqlite:///{tmp_path / 'empty.db'}"}
    answer = new_pipeline(sources, planner=Scripted({})).ask("How many orders are there?")
    assert (answer.status, codes(answer.errors)) == ("unanswered", [ErrorCode.QUESTION_UNMAPPED])
    assert "There are no tables in new" in answer.text


def test_a_database_without_tables_costs_the_others_nothing(
    samples: dict[str, str], tmp_path: Path, new_pipeline: New
) -> None:
    (tmp_path / "empty.db").touch()
    sources = {**samples, "new": f"sqlite:///{tmp_path / 'empty.db'}"}
    answer = new_pipeline(sources, planner=Scripted({"sales": GOOD})).ask("How many orders are there?")
    assert (answer.status, answer.rows) == ("answered", ((180,),))
    assert answer.warnings == ("new has no tables",)


def test_two_sources_that_know_the_same_are_told_of(samples: dict[str, str], new_pipeline: New) -> None:
    sources = {"sales": samples["sales"], "archive": samples["sales"]}
    answer = new_pipeline(sources, planner=Scripted({"sales": GOOD})).ask("How many orders are there?")
    assert answer.status == "answered"
    assert answer.warnings == (
        "sales was queried; archive may also answer this, so name the source you mean",
    )


def test_parts_of_one_name_are_refused(samples: dict[str, str], new_pipeline: New) -> None:
    class Confused:
        def decompose(self, question: str, catalogs: Any) -> DecomposerResponse:
            part = SubQuery(id="same", datasource_id="sales", intent="?")
            return DecomposerResponse(sub_queries=(part, part))

    answer = new_pipeline(samples, planner=Scripted({}), decomposer=Confused()).ask("How many?")
    assert codes(answer.errors) == [ErrorCode.INVALID_PLAN_STRUCTURE]
    assert "'same'" in answer.text


def test_roles_have_their_grants_from_the_pipeline(samples: dict[str, str], new_pipeline: New) -> None:
    pipeline = new_pipeline(samples, planner=Scripted({"sales": GOOD}), policies={"clerk": ["sales.*"]})
    clerk = UserContext(user_id="c", roles=("clerk",))
    assert pipeline.ask("How many orders are there?", user=clerk).rows == ((180,),)
    with pytest.raises(UsageError, match="needs a user"):
        pipeline.ask("How many orders are there?")


def test_artifacts_of_tenants_lie_apart(samples: dict[str, str], new_pipeline: New, tmp_path: Path) -> None:
    pipeline = new_pipeline(samples, planner=Scripted({"sales": GOOD}), artifacts=tmp_path / "made")
    for tenant in ("acme", "../etc"):
        user = UserContext(tenant_id=tenant, policies=("*",))
        pipeline.ask("How many orders are there?", user=user)
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["%2e%2e%2fetc", "acme"]


# -- runs ------------------------------------------------------------------------------------------------------


@pytest.fixture
def gone(tmp_path: Path) -> dict[str, str]:
    return make_samples(tmp_path / "gone")


def test_a_run_replays_without_databases_planner_and_files(
    gone: dict[str, str], new_pipeline: New, tmp_path: Path
) -> None:
    import shutil

    planner = Scripted(PLANS)
    pipeline = new_pipeline(gone, planner=planner, artifacts=tmp_path / "made")
    answer = pipeline.ask(TOP_FIVE)
    asked = len(planner.asked)
    shutil.rmtree(tmp_path / "gone")
    shutil.rmtree(tmp_path / "made")
    report = pipeline.replay(answer.run_id)
    assert report.ok, str(report)
    assert report.calls > 10
    assert len(planner.asked) == asked
    assert pipeline.answer(answer.run_id) == answer


def test_a_run_remembers_a_graph_that_can_replay_it_and_not_resume_it(
    samples: dict[str, str], new_pipeline: New
) -> None:
    from clew_nl2sql.replay_graphs import graph_for

    class Broken(Scripted):
        def plan(self, question: str, catalog: Catalog) -> PlanModel:
            raise ValueError("a mistake in the planner")

    pipeline = new_pipeline(samples, planner=Scripted(PLANS))
    pipeline.ask(TOP_FIVE, run_id="whole")
    new_pipeline(samples, planner=Broken({}), store=pipeline.engine.store).ask(TOP_FIVE, run_id="half")
    row = next(row for row in pipeline.engine.runs() if row.run_id == "whole")
    graph = graph_for(row.target)
    assert graph is not None
    elsewhere = Engine(graph, store=pipeline.engine.store)
    assert elsewhere.replay("whole").ok
    result = elsewhere.resume("half", check=False)
    assert result.status == "failed"
    assert isinstance(result.error, NeedsSourcesError)
    answer = pipeline.resume("half")
    assert answer.status == "answered"


@pytest.mark.parametrize(
    "target",
    [
        "",
        "shop:graph",
        "clew_nl2sql.replay_graphs:Shape",
        "clew_nl2sql.replay_graphs:graph_",
        "os:graph_5b5d",
    ],
)
def test_what_no_pipeline_recorded_gives_no_graph_to_replay_with(target: str) -> None:
    from clew_nl2sql.replay_graphs import graph_for

    assert graph_for(target) is None


def test_a_mistake_in_a_planner_fails_the_run_and_is_not_hidden(
    samples: dict[str, str], new_pipeline: New
) -> None:
    class Broken:
        def plan(self, question: str, catalog: Catalog) -> PlanModel:
            raise ValueError("a mistake")

    answer = new_pipeline(samples, planner=Broken()).ask("How many orders are there?")
    assert answer.status == "failed"
    assert "a mistake" in answer.text


def test_a_tampered_artifact_is_refused_and_no_row_of_it_is_seen(
    samples: dict[str, str], tmp_path: Path, new_pipeline: New
) -> None:
    from clew_nl2sql.artifacts import ArtifactStore
    from clew_nl2sql.schemas import ArtifactRef

    class Tampered(ArtifactStore):
        def write(self, *args: Any, **options: Any) -> ArtifactRef:
            import pyarrow as pa
            import pyarrow.parquet as pq

            ref = super().write(*args, **options)
            pq.write_table(pa.table({"count": pa.array([181])}), self.root / ref.uri)
            return ref

    pipeline = new_pipeline(samples, planner=Scripted({"sales": GOOD}), artifacts=Tampered(tmp_path / "a"))
    answer = pipeline.ask("How many orders are there?")
    assert (answer.status, answer.rows) == ("unanswered", ())
    assert codes(answer.errors) == [ErrorCode.ARTIFACT_CORRUPT]


def test_asking_on_an_event_loop_leaves_the_loop_free(samples: dict[str, str], new_pipeline: New) -> None:
    pipeline = new_pipeline(samples, planner=Scripted(PLANS), store=MemoryStore())

    async def main() -> Any:
        return await asyncio.gather(*(pipeline.aask(TOP_FIVE) for _ in range(3)))

    answers = asyncio.run(main())
    assert {answer.status for answer in answers} == {"answered"}
    assert len({answer.content_hash for answer in answers}) == 1


def test_more_rows_than_wanted_are_cut_and_told_of(samples: dict[str, str], new_pipeline: New) -> None:
    planner = Scripted({"sales": "SELECT id FROM orders"})
    pipeline = new_pipeline(samples, planner=planner, max_scan_rows=20, max_rows=10)
    answer = pipeline.ask("List the ids of orders")
    assert (len(answer.rows), answer.truncated) == (10, True)
    assert any("more rows than were fetched (20)" in warning for warning in answer.warnings)


@pytest.mark.parametrize(
    "sources, options, told",
    [
        ({}, {}, "no sources"),
        ({"my sales": "sqlite:///x.db"}, {}, "not a valid source name"),
        ({"a": "sqlite:///x.db", "A": "sqlite:///y.db"}, {}, "differ only in case"),
        ({"a": 7}, {}, "it needs dialect, catalog, explain and run"),
        ({"a": "sqlite:///x.db"}, {"policies": {"r": "sales.*"}}, "must be a list"),
        ({"a": "sqlite:///x.db"}, {"policies": {"r": ["sales"]}}, "is not a grant"),
        ({"a": "sqlite:///x.db"}, {"policies": {"r": [7]}}, "is not a grant"),
        ({"a": "sqlite:///x.db"}, {"policies": {"r": None}}, "must be a list"),
        ({"a": "sqlite:///x.db"}, {"policies": ["sales.*"]}, "map roles to grants"),
        ({"a": "sqlite:///x.db"}, {"max_rows": 0}, "max_rows is 0"),
        ({"a": "sqlite:///x.db"}, {"max_scan_rows": -1}, "max_scan_rows is -1"),
        ({"a": "sqlite:///x.db"}, {"timeout": 0}, "timeout is 0"),
    ],
)
def test_what_is_set_up_wrongly_is_said_at_once(sources: Any, options: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Pipeline(sources, planner=Scripted({}), **options)


def test_a_question_to_a_source_that_is_not_there_is_refused(
    samples: dict[str, str], new_pipeline: New
) -> None:
    pipeline = new_pipeline(samples, planner=Scripted({}))
    with pytest.raises(UsageError, match="unknown source 'hr'"):
        pipeline.ask("How many?", source="hr")
    for nothing in ("  ", None, 7):
        with pytest.raises(UsageError, match="empty"):
            pipeline.ask(nothing)


@pytest.mark.parametrize(
    "user, told",
    [
        ({"policies": ["*"]}, "is not a user"),
        (UserContext(policies="*"), "must be a list"),
        (UserContext(policies=None), "must be a list"),
        (UserContext(policies=("sales",)), "is not a grant"),
    ],
)
def test_what_is_no_user_is_refused(samples: dict[str, str], new_pipeline: New, user: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        new_pipeline(samples, planner=Scripted({})).ask("How many orders are there?", user=user)


def test_a_question_without_end_is_refused_before_anybody_plans_it(
    samples: dict[str, str], new_pipeline: New
) -> None:
    pipeline = new_pipeline(samples, planner=Scripted({}))
    with pytest.raises(UsageError, match="limit is 2,000"):
        pipeline.ask("How many orders " * 3_000)


def test_a_changed_database_gives_another_hash(tmp_path: Path, new_pipeline: New) -> None:
    sources = make_samples(tmp_path / "data")
    pipeline = new_pipeline(sources, planner=Scripted({"sales": "SELECT sum(amount) FROM orders"}))
    before = pipeline.ask("What is the total amount of orders?")
    with sqlite3.connect(tmp_path / "data" / "sales.db") as db:
        db.execute("UPDATE orders SET amount = amount + 1 WHERE id = 1")
    db.close()
    after = pipeline.ask("What is the total amount of orders?")
    assert before.plan_hash == after.plan_hash
    assert before.scans[0].content_hash != after.scans[0].content_hash


def test_results_of_a_pipeline_in_memory_are_gone_with_it(samples: dict[str, str]) -> None:
    with Pipeline(samples, planner=Scripted({"sales": GOOD})) as pipeline:
        answer = pipeline.ask("How many orders are there?")
        folder = pipeline.resources.artifacts.root
        assert (folder / str(answer.scans[0].artifact)).exists()
    assert not folder.exists()


def test_words_that_were_not_taken_into_account_are_named(samples: dict[str, str], new_pipeline: New) -> None:
    class Deaf:
        def plan(self, question: str, catalog: Catalog) -> PlanModel:
            return PlanModel(sql=GOOD, unmapped=("enormous",))

    answer = new_pipeline(samples, planner=Deaf()).ask("How many enormous orders are there?")
    assert (answer.status, answer.text) == ("partial", "Not understood: 'enormous'.\nCount: 180.")
    assert answer.warnings == ("'enormous' was not understood",)

"""Conditions and figures mean what their words say: years are no amounts, events no states, and flags no figures."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clew_nl2sql.planner import RulePlanner
from clew_nl2sql.planner.building.render import UnjoinableTablesError, to_expression, to_sql
from clew_nl2sql.planner.candidates import candidates
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.planner.deciding.acts import Filter
from clew_nl2sql.planner.deciding.assignment_search import Assignment
from clew_nl2sql.planner.deciding.decisions import Decision, Option
from clew_nl2sql.planner.judging.misread import misreads_condition
from clew_nl2sql.planner.judging.sense import makes_sense
from clew_nl2sql.planner.linear_model import shipped
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.linking.schema_index import SchemaIndex
from clew_nl2sql.planner.query import Query, SelectItem
from nl2sql.tests.planner.ferries import ferries


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return ferries(tmp_path_factory.mktemp("ferries"))


@pytest.fixture(scope="module")
def queries(catalog: Catalog) -> Callable[[str], list[str]]:
    """Return every query that is a candidate for a question."""

    def find(question: str) -> list[str]:
        parsed = ParsedQuestion(question, catalog)
        found = []
        for candidate in candidates(parsed, shipped()):
            try:
                found.append(to_sql(to_expression(candidate.query, parsed.schema), "sqlite"))
            except UnjoinableTablesError:
                continue
        return found

    return find


@pytest.mark.parametrize(
    "question, never",
    [
        ("How many trips were priced before 2020?", "price < 2020"),
        ("How many trips have a price since 2020?", "price >= 2020"),
    ],
)
def test_a_misread_condition_is_no_candidate(
    queries: Callable[[str], list[str]], question: str, never: str
) -> None:
    assert not [sql for sql in queries(question) if never in sql]


@pytest.mark.parametrize(
    "question, sql",
    [
        ("How many trips have a price above 2020?", "SELECT COUNT(*) FROM trips WHERE price > 2020"),
        ("How many faults are open?", "SELECT COUNT(*) FROM faults WHERE state = 'open'"),
    ],
)
def test_amounts_and_states_stay(queries: Callable[[str], list[str]], question: str, sql: str) -> None:
    assert sql in queries(question)


@pytest.mark.parametrize(
    "question, is_misread",
    [("Which sailors never opened a fault?", True), ("Which faults are opened?", False)],
)
def test_an_event_is_no_state(catalog: Catalog, question: str, is_misread: bool) -> None:
    parsed = ParsedQuestion(question, catalog)
    state, at = parsed.schema.column_id("faults", "state"), parsed.low.index("opened")
    assert state is not None
    option = Option("eq", Filter(state, "=", "open"), (), ())
    decision = Decision("v0", "value", at, at + 1, (option,))
    assert misreads_condition(parsed, Assignment(0.0, ((decision, option),), 0.0, frozenset())) is is_misread


def test_the_values_of_a_flag_are_not_counted(catalog: Catalog) -> None:
    schema = SchemaIndex(catalog)
    urgent, sailor = schema.column_id("faults", "is_urgent"), schema.column_id("trips", "sailor_id")
    assert not makes_sense(Query((SelectItem(urgent, "count", True),)), schema)
    assert makes_sense(Query((SelectItem(urgent, "sum"),)), schema)
    assert makes_sense(Query((SelectItem(sailor, "count", True),)), schema)


def test_a_flag_that_denies_is_a_denial(catalog: Catalog) -> None:
    made = RulePlanner().plan("Which sailors do not want a call?", catalog)
    assert any("do_not_call = 'Y'" in candidate.sql for candidate in made.candidates[:3])

"""Next to a candidate are the readings that a person may mean instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clew_nl2sql.planner.asking.other_readings import other_readings
from clew_nl2sql.planner.building.render import UnjoinableTablesError, to_expression, to_sql
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.query import Condition, Query, SelectItem
from nl2sql.tests.planner.ferries import ferries

COUNT = SelectItem(None, "count")


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return ferries(tmp_path_factory.mktemp("ferries"))


class Asked:
    """A question, with the numbers of tables and columns."""

    def __init__(self, question: str, catalog: Catalog):
        self.parsed = ParsedQuestion(question, catalog)

    def column(self, name: str) -> int:
        table, _, column = name.partition(".")
        found = self.parsed.schema.column_id(table, column)
        assert found is not None
        return found

    def item(self, name: str, agg: str = "") -> SelectItem:
        return SelectItem(self.column(name), agg)

    def table(self, name: str) -> frozenset[int]:
        return frozenset(t.id for t in self.parsed.schema.tables if t.name == name)

    def readings(self, query: Query, *unread: str) -> list[str]:
        """Return the readings next to a query, as SQL."""
        found = []
        for other in other_readings(self.parsed, query, list(unread)):
            try:
                found.append(to_sql(to_expression(other, self.parsed.schema), "sqlite"))
            except UnjoinableTablesError:
                continue
        return found


New = Callable[[str], Asked]


@pytest.fixture(scope="module")
def asked(catalog: Catalog) -> New:
    return lambda question: Asked(question, catalog)


def test_a_period_of_another_date(asked: New) -> None:
    q = asked("How many faults were there in 2024?")
    query = Query((COUNT,), q.table("faults"), (Condition(q.item("faults.closed_at"), "=", 2024),))
    expected = "SELECT COUNT(*) FROM faults WHERE opened_at >= '2024-01-01' AND opened_at < '2025-01-01'"
    assert expected in q.readings(query)


def test_a_date_that_is_named_stays(asked: New) -> None:
    q = asked("How many faults were closed in 2024?")
    query = Query((COUNT,), q.table("faults"), (Condition(q.item("faults.closed_at"), "=", 2024),))
    assert not any("opened_at" in sql for sql in q.readings(query))


def test_a_year_is_a_date_and_not_a_number(asked: New) -> None:
    q = asked("How many trips were there in 2024?")
    query = Query((COUNT,), q.table("trips"), (Condition(q.item("trips.price"), "=", 2024),))
    expected = "SELECT COUNT(*) FROM trips WHERE sailed_at >= '2024-01-01' AND sailed_at < '2025-01-01'"
    assert expected in q.readings(query)


def test_unread_words_name_a_flag(asked: New) -> None:
    q = asked("Which sailors get the newsletter?")
    query = Query((q.item("sailors.full_name"),))
    assert q.readings(query, "newsletter") == ["SELECT full_name FROM sailors WHERE newsletter_reader = 1"]


def test_a_flag_is_a_condition_and_not_shown(asked: New) -> None:
    q = asked("How many urgent faults are there?")
    assert q.readings(Query((q.item("faults.is_urgent", "sum"),))) == [
        "SELECT COUNT(*) FROM faults WHERE is_urgent = 1",
        "SELECT COUNT(*) FROM faults WHERE is_urgent = 0",
    ]


def test_an_unread_comparison_belongs_to_a_measure(asked: New) -> None:
    q = asked("Which sailors had trips of more than 900?")
    query = Query((q.item("sailors.full_name"),), q.table("trips"))
    expected = (
        "SELECT T1.full_name FROM sailors AS T1 JOIN trips AS T2 ON T1.sailor_id = T2.sailor_id "
        "WHERE T2.price > 900"
    )
    assert expected in q.readings(query, "more", "900")


def test_what_happened_has_a_date(asked: New) -> None:
    q = asked("Which harbours have closed?")
    query = Query((q.item("harbours.name"), q.item("harbours.closed")))
    assert q.readings(query)[0] == "SELECT name FROM harbours WHERE NOT closed IS NULL"


def test_what_still_goes_on_has_no_date(asked: New) -> None:
    q = asked("Which faults are still pending?")
    query = Query((q.item("faults.fault_id"),))
    assert "SELECT fault_id FROM faults WHERE closed_at IS NULL" in q.readings(query, "pending")


def test_no_reference_and_no_row_that_refers(asked: New) -> None:
    q = asked("How many trips have no harbour?")
    query = Query((COUNT,), q.table("trips"))
    assert "SELECT COUNT(*) FROM trips WHERE harbour_id IS NULL" in q.readings(query, "no", "harbour")
    q = asked("Which sailors never sailed?")
    expected = "SELECT full_name FROM sailors WHERE NOT sailor_id IN (SELECT sailor_id FROM trips)"
    assert expected in q.readings(Query((q.item("sailors.full_name"),)), "never", "sailed")


def test_most_may_be_a_sum(asked: New) -> None:
    q = asked("Which sailor made us the most money?")
    name, key = q.item("sailors.full_name"), q.column("sailors.sailor_id")
    query = Query((name,), q.table("trips"), group=(key,), order=((COUNT, True),), limit=1)
    assert any("ORDER BY SUM(T2.price) DESC" in sql for sql in q.readings(query))


def test_a_figure_of_rows_is_that_of_their_measure(asked: New) -> None:
    q = asked("What is the average trip?")
    found = q.readings(Query((q.item("trips.trip_id"),)))
    assert {"SELECT AVG(hours) FROM trips", "SELECT AVG(price) FROM trips"} <= set(found)
    assert not any("_id)" in sql for sql in found)


def test_a_figure_for_each(asked: New) -> None:
    q = asked("How much did each sailor pay for trips?")
    found = q.readings(Query((q.item("sailors.full_name"),), q.table("trips")))
    assert any(sql.startswith("SELECT T1.full_name, SUM(T2.price)") and "GROUP BY" in sql for sql in found)


def test_who_is_a_person(asked: New) -> None:
    q = asked("Who made trip 12?")
    query = Query((q.item("trips.trip_id"),), where=(Condition(q.item("trips.trip_id"), "=", 12),))
    assert any(sql.startswith("SELECT T2.full_name") or "full_name" in sql for sql in q.readings(query))


def test_people_of_the_same_table(asked: New) -> None:
    q = asked("Who is the captain of Kim Berg7?")
    named = (Condition(q.item("sailors.full_name"), "=", "Kim Berg7"),)
    expected = (
        "SELECT full_name FROM sailors WHERE sailor_id IN "
        "(SELECT captain_id FROM sailors WHERE full_name = 'Kim Berg7')"
    )
    assert expected in q.readings(Query((q.item("sailors.captain_id"),), where=named))
    q = asked("How many sailors have Kim Berg2 as captain?")
    named = (Condition(q.item("sailors.full_name"), "=", "Kim Berg2"),)
    assert q.readings(Query((COUNT,), where=named), "captain") == [
        "SELECT COUNT(*) FROM sailors WHERE captain_id IN "
        "(SELECT sailor_id FROM sailors WHERE full_name = 'Kim Berg2')"
    ]


def test_the_latest_by_a_date(asked: New) -> None:
    q = asked("What is the number of the latest trip?")
    found = q.readings(Query((COUNT,), q.table("trips")), "latest")
    assert any(sql.endswith("FROM trips ORDER BY sailed_at DESC LIMIT 1") for sql in found)
    q = asked("When did Kim Berg7 last sail?")
    found = q.readings(Query((q.item("trips.sailed_at"),)), "last")
    assert "SELECT MAX(sailed_at) FROM trips" in found


def test_a_percentage_is_that_of_the_last_condition(asked: New) -> None:
    q = asked("What percentage of the faults is open?")
    query = Query((q.item("faults.fault_id"),), where=(Condition(q.item("faults.state"), "=", "open"),))
    assert q.readings(query)[0] == ("SELECT AVG(CASE WHEN state = 'open' THEN 100.0 ELSE 0 END) FROM faults")

from report import graph

from clew import DependencyGraph

SALES = [
    {"region": "north", "amount": 10, "currency": "EUR"},
    {"region": "south", "amount": 10, "currency": "USD"},
]


def test_a_change_reaches_only_what_depends_on_it():
    values = DependencyGraph(graph)
    values.set("sales", SALES)
    values.set("rates", {"EUR": 1.0, "USD": 0.9})
    assert values.pull("line(north)") == "north: 10.0 of 19.0 EUR"
    values.set("sales", [*SALES, {"region": "south", "amount": 1, "currency": "EUR"}])
    assert values.pull("line(north)") == "north: 10.0 of 20.0 EUR"
    assert values.freshness("total_of(north)") == "up-to-date"

"""Roles that do as they are told, and users, for tests of what the pipeline does around them."""

from __future__ import annotations

from collections.abc import Mapping

from clew_nl2sql import Pipeline, PlanModel, UserContext
from clew_nl2sql.planner.catalog import Catalog

EVERYBODY = UserContext(user_id="ann", policies=("*",))

TOP_CUSTOMERS = (
    "SELECT T1.name, sum(T2.amount) FROM customers AS T1 JOIN orders AS T2 ON T1.id = T2.customer_id"
    " GROUP BY T1.name ORDER BY sum(T2.amount) DESC LIMIT 5"
)
SPENDING = TOP_CUSTOMERS.partition(" ORDER BY")[0]
TICKETS = "SELECT customer, count(*) FROM tickets GROUP BY customer"
UNPAID = "SELECT customer, sum(amount) FROM invoices WHERE status <> 'paid' GROUP BY customer"

FOR_EACH = (
    "For each customer, what is the total amount of orders, how many tickets were opened"
    " and what is the total amount of unpaid invoices?"
)
TOP_FIVE = (
    "Which 5 customers have the highest total amount of orders, how many tickets did they open,"
    " and what is their total unpaid invoice amount?"
)


class Scripted:
    """A planner with its plans written down: for each source one, or several for one try after the other."""

    def __init__(self, plans: Mapping[str, str | list[str]]) -> None:
        self.plans = plans
        self.asked: list[tuple[str, str]] = []
        self.catalogs: list[Catalog] = []

    def plan(self, question: str, catalog: Catalog) -> PlanModel:
        tries = sum(source == catalog.name for source, _ in self.asked)
        self.asked.append((catalog.name, question))
        self.catalogs.append(catalog)
        found = self.plans[catalog.name]
        return PlanModel(sql=found if isinstance(found, str) else found[min(tries, len(found) - 1)])


def one_plan(pipeline: Pipeline, source: str, sql: str) -> Scripted:
    """Make a pipeline's scripted planner answer with one query."""
    planner = pipeline.resources.planner
    assert isinstance(planner, Scripted)
    planner.plans = {**planner.plans, source: sql}
    return planner

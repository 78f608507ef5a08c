"""A lost update: two branches read an external balance, and each writes back its own result.

The branches share no value of the graph, so Clew sees no conflict: the result depends on the order of their external
reads and writes. In the fixed version, the external system does the addition.
"""

from clew import Graph, node
from clew.explore import Check, Invariant, at_end
from clew.explore.systems import MemoryStorage

accounts = MemoryStorage()
accounts.put("balance", 100)


@node(output="seen_by_salary")
def look_for_salary(salary: int) -> int:
    return accounts.get("balance")


@node(output="salary_paid")
def pay_salary(seen_by_salary: int, salary: int) -> bool:
    accounts.put("balance", seen_by_salary + salary)
    return True


@node(output="seen_by_rent")
def look_for_rent(rent: int) -> int:
    return accounts.get("balance")


@node(output="rent_paid")
def pay_rent(seen_by_rent: int, rent: int) -> bool:
    accounts.put("balance", seen_by_rent - rent)
    return True


def add(amount: int) -> bool:
    accounts.put("balance", accounts.get("balance") + amount)  # one step, as in `SET balance = balance + ?`
    return True


@node(name="pay_salary", output="salary_paid")
def add_salary(salary: int) -> bool:
    return add(salary)


@node(name="pay_rent", output="rent_paid")
def take_rent(rent: int) -> bool:
    return add(-rent)


@node(output="done")
def close(salary_paid: bool, rent_paid: bool) -> bool:
    return salary_paid and rent_paid


def adds_up(world):
    balance = world.systems["accounts"].get("balance")
    return balance == 100 + 50 - 30 or f"the balance is {balance}, expected 120"


values = {"salary": 50, "rent": 30}
nothing_lost = Invariant("nothing lost", at_end(adds_up))
graph = Graph([look_for_salary, pay_salary, look_for_rent, pay_rent, close], name="month")
fixed_graph = Graph([add_salary, take_rent, close], name="month")

check = Check(graph, values, [nothing_lost], faults=(), systems={"accounts": accounts})
fixed = Check(
    fixed_graph, values, [nothing_lost, "schedule_independent"], faults=(), systems={"accounts": accounts}
)

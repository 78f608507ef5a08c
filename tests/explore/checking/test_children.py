"""A check looks inside children: at every crash point, every order and every fault in them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clew import Context, Graph, RetryPolicy, SideEffectPolicy, interrupt, node
from clew.explore import CheckResult, Invariant, at_end, check_graph
from clew.explore.checking.child_schedules import scheduled
from clew.explore.checking.run_system import RunSystem
from clew.explore.systems import MemoryStorage


def _bank(*, records: bool, is_async: bool = False) -> tuple[Graph, MemoryStorage]:
    """Return a graph whose child takes money twice: in one node, then in a second one."""
    bank = MemoryStorage()
    bank.put("taken", 0)

    def take(amount: int, key: str) -> int:
        bank.put("taken", bank.get("taken") + amount)
        return amount

    def first(a: int, ctx: Context) -> int:
        return ctx.record("take", take, a, "first") if records else take(a, "first")

    def second(b: int, ctx: Context) -> int:
        return ctx.record("take", take, b, "second") if records else take(b, "second")

    child = Graph([node(output="b")(first), node(output="c")(second)], name="child")

    def pay(x: int, ctx: Context) -> int:
        return int(ctx.run(child, {"a": x})["c"])

    async def apay(x: int, ctx: Context) -> int:
        results = await asyncio.gather(ctx.run(child, {"a": x}))
        return int(results[0]["c"])

    return Graph([node(output="y", name="pay")(apay if is_async else pay)]), bank


def _is_taken_once(bank: MemoryStorage) -> Invariant:
    return Invariant("taken once", at_end(lambda world: bank.get("taken") <= 2))


def _paths(result: CheckResult) -> list[str]:
    return [choice for violation in result.violations for choice in violation.actions]


@pytest.mark.parametrize("is_async", [False, True])
def test_an_effect_in_a_child_is_repeated_after_a_crash(is_async: bool) -> None:
    graph, bank = _bank(records=False, is_async=is_async)
    result = check_graph(
        graph, {"x": 1}, [_is_taken_once(bank)], faults="crash", systems={"bank": bank}, progress=False
    )
    assert [violation.name for violation in result.violations] == ["taken once"]
    assert any(choice.startswith("crash in complete pay#0 at") for choice in _paths(result))
    assert "taken once" in str(result)


def test_a_child_continues_after_a_crash_between_its_nodes() -> None:
    graph, bank = _bank(records=False)
    taken = []
    for number in range(1, 7):
        bank.put("taken", 0)
        run = RunSystem(graph, {"x": 1}, faults="crash")
        run.choose(f"crash in complete pay#0 at after-append {number}")
        run.choose("resume")
        if run.running:
            run.choose("complete pay#0")
        assert run.status == "completed"
        taken.append(bank.get("taken"))
    assert taken == [2] * 6  # the store has what a node has done: nothing is repeated


@pytest.mark.parametrize("is_async", [False, True])
def test_recorded_calls_in_a_child_are_not_repeated(is_async: bool) -> None:
    graph, bank = _bank(records=True, is_async=is_async)
    result = check_graph(graph, {"x": 1}, faults=("crash", "fail", "timeout"), systems={"bank": bank})
    assert result.ok, str(result)
    assert result.ends["completed"] > 1


def test_a_store_that_fails_inside_a_child() -> None:
    graph, bank = _bank(records=True)
    assert check_graph(graph, {"x": 1}, faults="store", systems={"bank": bank}, progress=False).ok


def test_an_idempotency_key_in_a_child_that_changes() -> None:
    counter = MemoryStorage()
    counter.put("n", 0)

    def next_key() -> str:
        counter.put("n", counter.get("n") + 1)
        return str(counter.get("n"))

    @node(output="b", side_effects=SideEffectPolicy(recordable=True))
    def charge(a: int, ctx: Context) -> Any:
        return ctx.record("charge", lambda amount, key: amount, a, key=next_key())

    child = Graph([charge], name="child")

    @node(output="y")
    def pay(x: int, ctx: Context) -> int:
        return int(ctx.run(child, {"a": x})["b"])

    result = check_graph(Graph([pay]), {"x": 1}, faults="crash", systems={"n": counter}, progress=False)
    assert [violation.name for violation in result.violations] == ["stable_idempotency_key"]
    assert "pay#0!0/charge#0" in str(result)


def _racing() -> tuple[Graph, MemoryStorage]:
    """Return a graph whose child has two nodes that use one system, and a result that depends on their order."""
    seats = MemoryStorage()
    seats.put("log", ())

    @node(output="b")
    def left(a: int) -> int:
        seats.put("log", (*seats.get("log"), "left"))
        return len(seats.get("log"))

    @node(output="c")
    def right(a: int) -> int:
        seats.put("log", (*seats.get("log"), "right"))
        return len(seats.get("log"))

    child = Graph([left, right], name="child")

    @node(output="y")
    def book(x: int, ctx: Context) -> list[int]:
        result = ctx.run(child, {"a": x})
        return [result["b"], result["c"]]

    return Graph([book]), seats


def test_the_order_inside_a_child_is_explored() -> None:
    graph, seats = _racing()
    result = check_graph(graph, {"x": 1}, faults=(), systems={"seats": seats}, progress=False)
    assert [violation.name for violation in result.violations] == ["schedule_independent"]
    assert _paths(result) == ["complete book#0 in order 1"]
    assert result.check.replay(["complete book#0 in order 1"])


@pytest.mark.parametrize("fault", ["fail", "timeout"])
@pytest.mark.parametrize("attempts", [1, 2])
def test_faults_inside_a_child(fault: str, attempts: int) -> None:
    @node(output="b", retry=RetryPolicy(max_attempts=attempts, base_delay=0))
    def fragile(a: int) -> int:
        return a

    child = Graph([fragile], name="child")

    @node(output="y")
    def careful(x: int, ctx: Context) -> int:
        try:
            return int(ctx.run(child, {"a": x})["b"])
        except Exception:
            return -1

    survives = Invariant("survives", at_end(lambda world: world.systems["run"].state.get("y") == 1))
    result = check_graph(Graph([careful]), {"x": 1}, [survives], faults=fault, progress=False)
    verb = "fail" if fault == "fail" else "time out"
    expected = [f"{verb} careful#0!0/fragile#0 1 in complete careful#0"] if attempts == 1 else []
    assert _paths(result) == expected


def test_questions_of_a_child() -> None:
    @interrupt(output="ok")
    def ask(a: int) -> str:
        return "ok?"

    child = Graph([ask], name="child")

    @node(output="y")
    def outer(x: int, ctx: Context) -> bool:
        return bool(ctx.run(child, {"a": x})["ok"])

    result = check_graph(Graph([outer]), {"x": 1}, faults="crash", progress=False)
    assert result.ok, str(result)


def test_children_of_children() -> None:
    graph, bank = _bank(records=False)

    @node(output="z")
    def top(x: int, ctx: Context) -> int:
        return int(ctx.run(graph, {"x": x})["y"])

    result = check_graph(
        Graph([top]), {"x": 1}, [_is_taken_once(bank)], faults="crash", systems={"bank": bank}, progress=False
    )
    assert [violation.name for violation in result.violations] == ["taken once"]


def test_a_choice_is_read() -> None:
    choice, schedule = scheduled("fail p#0!0/a#0 2 in complete p#0 in order 1.0.2")
    assert choice == "complete p#0"
    assert [schedule.fault_of("p#0!0/a#0") for _ in range(3)] == ["", "fail", ""]
    assert [schedule.decide("abc") for _ in range(4)] == ["b", "a", "c", "a"]
    assert scheduled("time out p#0 in order 1 in call 2")[0] == "time out p#0 in call 2"

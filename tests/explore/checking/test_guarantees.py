"""What each guarantee means for runs that fail, get different answers, or catch their own crash."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clew import END, Context, Graph, RetryPolicy, SideEffectPolicy, interrupt, node, route
from clew.errors import MutationError
from clew.explore import Check, CheckResult, Invariant, check_graph
from clew.explore.systems import MemoryStorage


def names(result: CheckResult) -> list[str]:
    return sorted(violation.name for violation in result.violations)


# -- runs that fail ----------------------------------------


def test_a_resumed_run_that_always_fails_is_not_equivalent() -> None:
    rows = MemoryStorage()

    @node(output="row")
    def insert(x: int) -> int:
        if "k" in rows.list():
            raise ValueError("duplicate key")
        rows.put("k", x)
        return x

    result = check_graph(Graph([insert]), {"x": 1}, faults={"crash"}, systems={"rows": rows})
    assert names(result) == ["resume_equivalent"]
    assert "it failed with ValueError: duplicate key" in str(result)


def test_a_failure_in_one_order_only_breaks_the_schedule() -> None:
    seats = MemoryStorage()

    @node(output="a")
    def first(x: int) -> int:
        if "taken" in seats.list():
            raise ValueError("too late")
        return x

    @node(output="b")
    def second(x: int) -> int:
        seats.put("taken", True)
        return x

    result = check_graph(Graph([first, second]), {"x": 1}, faults=(), systems={"seats": seats})
    assert names(result) == ["completes", "schedule_independent"]
    assert result.violations[0].actions == ("complete second#0", "complete first#0")


def test_a_last_state_that_depends_on_the_order_breaks_the_schedule() -> None:
    queue = MemoryStorage()

    def take() -> int:
        number = len(queue.list())
        queue.put(f"n{number}", True)
        return number

    graph = Graph(
        [node(output="a", name="a")(lambda x: take()), node(output="b", name="b")(lambda x: take())]
    )
    result = check_graph(graph, {"x": 1}, faults=(), systems={"queue": queue})
    assert names(result) == ["schedule_independent"]


def test_a_graph_that_always_fails_violates_completes() -> None:
    @node(output="y")
    def broken(x: int) -> int:
        raise NameError("name 'undefined' is not defined")

    result = check_graph(Graph([broken]), {"x": 1})
    assert names(result) == ["completes"]
    assert "without a fault: NameError" in str(result)
    assert set(result.ends) == {"failed"}
    without = check_graph(Graph([broken]), {"x": 1}, ["resume_equivalent", "terminates"], faults=())
    assert (without.ok, without.ends) == (True, {"failed": 1})
    assert "ends: 1 failed" in str(without)


def test_a_transaction_cannot_be_checked() -> None:
    @node(output="y")
    def write(x: int, ctx: Context) -> int:
        with ctx.transaction() as database:
            database.execute("insert into t values (1)")
        return x

    result = check_graph(Graph([write]), {"x": 1}, faults=())
    assert names(result) == ["completes"]
    assert "transaction" in str(result)


def test_a_loop_without_an_end_is_found() -> None:
    @node(output="n")
    def more(n: int) -> int:
        return n + 1

    @route(targets=["more", END])
    def again(n: int) -> str:
        return "more"

    result = check_graph(Graph([more, again]), {"n": 0}, ["terminates"], faults=(), max_run_steps=20)
    assert names(result) == ["terminates"]
    assert "the run did not settle in 20 steps" in str(result)


# -- async bodies ----------------------------------------


def test_async_bodies_are_executed_also_where_a_loop_is_running() -> None:
    @node(output="y")
    async def body(x: int) -> int:
        await asyncio.sleep(0)
        return x + 1

    async def main() -> CheckResult:
        return check_graph(Graph([body]), {"x": 1})

    result = asyncio.run(main())
    assert result.ok, str(result)
    assert "completed" in result.ends


# -- answers ----------------------------------------


def asking() -> Graph:
    @interrupt(output="ok")
    def approve(x: int) -> str:
        return "pay?"

    @node(output="paid")
    def pay(ok: bool) -> bool:
        return ok

    return Graph([approve, pay])


def test_another_answer_may_lead_to_another_end() -> None:
    result = check_graph(asking(), {"x": 1}, faults={"crash", "store"})
    assert result.ok, str(result)
    assert result.ends["completed"] >= 2


def test_each_answer_is_compared_with_its_own_uninterrupted_run() -> None:
    """Resumed after a crash, the node forgets that the answer was no."""
    seen = MemoryStorage()

    @interrupt(output="ok")
    def approve(x: int) -> str:
        return "pay?"

    @node(output="paid")
    def pay(ok: bool) -> bool:
        again = "tried" in seen.list()
        seen.put("tried", True)
        return ok or again

    result = check_graph(Graph([approve, pay]), {"x": 1}, faults={"crash"}, systems={"seen": seen})
    assert names(result) == ["resume_equivalent"]
    assert "answer approve#0: false" in result.violations[0].actions


# -- effects ----------------------------------------


def test_a_call_that_moves_to_another_number_is_made_again() -> None:
    @node(output="y", retry=RetryPolicy(max_attempts=2, base_delay=1.0))
    def pay(x: int, ctx: Context) -> Any:
        if ctx.attempt == 0:
            ctx.record("ping", lambda: 1)
        paid = ctx.record("pay", lambda: 1)
        if ctx.attempt == 0:
            raise OSError("no more network")
        return paid

    result = check_graph(Graph([pay]), {"x": 1}, ["exactly_once_effects"], faults=())
    assert names(result) == ["exactly_once_effects"]


def test_the_same_call_twice_in_a_body_is_two_effects() -> None:
    @node(output="y", retry=RetryPolicy(max_attempts=2, base_delay=1.0))
    def tick(x: int, ctx: Context) -> int:
        return int(ctx.record("tick", lambda: 1)) + int(ctx.record("tick", lambda: 1))

    result = check_graph(Graph([tick]), {"x": 1})
    assert result.ok, str(result)


def test_effects_do_not_show_the_order_of_time() -> None:
    """States that differ only in that order are the same, so an invariant must not see it."""
    shown = set()

    @node(output="pay")
    def pay(x: int, ctx: Context) -> Any:
        return ctx.record("pay", lambda: 1)

    @node(output="ship")
    def ship(x: int, ctx: Context) -> Any:
        return ctx.record("ship", lambda: 1)

    def look(world: Any) -> bool:
        shown.add(tuple(effect.name for effect in world.systems["run"].effects))
        return True

    check_graph(Graph([pay, ship]), {"x": 1}, [Invariant("look", look)], faults=())
    assert shown == {(), ("pay",), ("ship",), ("pay", "ship")}


def test_bound_values_are_not_part_of_a_request() -> None:
    class Tool:
        def go(self) -> int:
            return 1

    @node(output="y", side_effects=SideEffectPolicy(recordable=True))
    def use(x: int, tools: list[Tool]) -> int:
        return tools[0].go() + x

    result = check_graph(Graph([use]).bind(tools=[Tool()]), {"x": 1})
    assert result.ok, str(result)


# -- crashes ----------------------------------------


def test_a_group_of_tasks_dies_like_any_body() -> None:
    notes = MemoryStorage()

    @node(output="y")
    async def both(x: int, ctx: Context) -> list[int]:
        async def put(i: int) -> int:
            notes.put(f"k{i}", 1)
            return i

        async def one(name: str, i: int) -> int:
            return int(await ctx.record(name, put, i))

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one("a", 1)), group.create_task(one("b", 2))]
        return [task.result() for task in tasks]

    result = check_graph(Graph([both]), {"x": 1}, systems={"notes": notes}, faults={"crash"})
    assert result.ok, str(result)
    assert notes.list() == []


@pytest.mark.parametrize("how", ["returns", "calls", "raises", "gathers"])
def test_a_body_that_catches_its_crash_has_no_effects(how: str) -> None:
    notes = MemoryStorage()

    @node(output="y")
    async def body(x: int, ctx: Context) -> Any:
        async def put() -> int:
            notes.put("done", 1)
            return 1

        if how == "gathers":
            return len(await asyncio.gather(ctx.record("a", put), return_exceptions=True))
        try:
            return await ctx.record("a", put)
        except BaseException:
            if how == "calls":
                ctx.record("after death", notes.put, "after death", 1)
            if how == "raises":
                raise ValueError("instead") from None
            return 2

    def is_dead(world: Any) -> bool:
        run = world.systems["run"]
        return "after death" not in world.systems["notes"].list() and (
            not run.had or run.status != "completed" or run.state.values["y"] == 1
        )

    invariants = ["resume_equivalent", "exactly_once_effects", "terminates", Invariant("dead", is_dead)]
    result = check_graph(Graph([body]), {"x": 1}, invariants, systems={"notes": notes}, faults={"crash"})
    assert result.ok, str(result)


# -- values that change ----------------------------------------


def test_a_value_that_is_changed_in_place_would_leak_into_other_paths() -> None:
    @node(output="items")
    def make(x: int) -> list[int]:
        return [x]

    @node(output="many")
    def add(items: list[int]) -> int:
        items[0] = 2
        return len(items)

    graph = Graph([make, add])
    with pytest.raises(MutationError, match="'items' changed while node 'add' ran at add#0"):
        check_graph(graph, {"x": 1})
    assert Check(graph, {"x": 1}, ["terminates"], faults=(), check_mutation=False).run().ok


def test_a_value_that_is_changed_on_some_paths_only_is_a_violation_there() -> None:
    seen = MemoryStorage()

    @node(output="items")
    def make(x: int) -> list[int]:
        return [x]

    @node(output="many")
    def add(items: list[int]) -> int:
        if "tried" in seen.list():
            items.append(2)
        seen.put("tried", True)
        return len(items)

    result = check_graph(
        Graph([make, add]), {"x": 1}, ["terminates"], faults={"crash"}, systems={"seen": seen}
    )
    assert {violation.exception for violation in result.violations} == {"MutationError"}
    assert "'items' changed while node 'add' ran" in str(result)


def test_faults_do_not_show_the_order_of_time() -> None:
    shown = set()

    @node(output="y", retry=RetryPolicy(max_attempts=3, base_delay=1.0))
    def work(x: int) -> int:
        return x

    def look(world: Any) -> bool:
        shown.add(tuple(world.systems["run"].had))
        return True

    check_graph(Graph([work]), {"x": 1}, [Invariant("look", look)], faults={"crash", "fail"}, max_faults=2)
    assert shown == {(), ("crash",), ("fail",), ("crash", "crash"), ("crash", "fail"), ("fail", "fail")}

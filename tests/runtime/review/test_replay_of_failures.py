"""A run that failed is replayed up to its failure, and through it: the same calls, and the same error."""

from __future__ import annotations

import asyncio
import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import (
    Context,
    Engine,
    Graph,
    RetryPolicy,
    Send,
    SideEffectPolicy,
    SQLiteStore,
    node,
    route,
)
from clew.errors import ConflictError, NodeTimeoutError
from clew.graph import Node
from clew.runtime.review.replay_report import ReplayReport
from clew.stores import Store
from clew.testing import Stepper, VirtualClock
from tests.store_fixtures import local_store

store = local_store


class Unavailable(Exception):
    """A class of the service's own."""


class Service:
    """Something outside. When it is down, whoever calls it is at fault."""

    def __init__(self) -> None:
        self.is_down = False

    def get(self, what: str) -> str:
        assert not self.is_down, "a replay made a call"
        if what == "nothing":
            raise Unavailable("there is nothing")
        return what.upper()


SERVICE = Service()


@pytest.fixture(autouse=True)
def up() -> None:
    SERVICE.is_down = False


@node(output="first")
def first(x: str, ctx: Context) -> str:
    return ctx.record("get", SERVICE.get, x)


def second(*, asks: str = "more", says: str = "too much: {}", raises: type[Exception] = ValueError) -> Node:
    """Makes two calls, and fails."""

    @node(output="second")
    def second(first: str, ctx: Context) -> str:
        found = ctx.record("get", SERVICE.get, first)
        found += ctx.record("get", SERVICE.get, asks)
        if says:
            raise raises(says.format(found))
        return found

    return second


def failed(store: Store, *nodes: Node, status: str = "failed", **options: Any) -> Engine:
    engine = Engine(
        Graph(list(nodes), **options.pop("graph", {})), store=store, clock=VirtualClock(), **options
    )
    assert engine.run({"x": "a"}, run_id="r", check=False).status == status
    SERVICE.is_down = True
    return engine


def replayed(engine: Engine, *nodes: Node, strict: bool = False, **graph: Any) -> ReplayReport:
    return Engine(Graph(list(nodes), **graph), store=engine.store).replay("r", strict=strict)


def test_the_failure_itself_is_replayed(store: Store) -> None:
    report = failed(store, first, second()).replay("r")
    assert str(report) == "run 'r' replays: 1 step, 2 items, 3 recorded calls"


def test_a_failure_that_is_mended_is_a_difference(store: Store) -> None:
    (found,) = replayed(failed(store, first, second()), first, second(says="")).divergences
    assert str(found) == (
        "step 2, second#0: it raised ValueError: too much: AMORE when recorded, but returns now"
    )
    assert (found.kind, found.node) == ("error", "second")


@pytest.mark.parametrize("now", [{"says": "too little: {}"}, {"raises": KeyError}])
def test_another_error_is_shown(store: Store, now: dict[str, Any]) -> None:
    (found,) = replayed(failed(store, first, second()), first, second(**now)).divergences
    assert (found.kind, found.message) == ("error", "it raises a different error")
    assert "-ValueError: too much: AMORE" in found.diff.replace('"', "")


def test_another_call_before_the_failure_is_named(store: Store) -> None:
    (found,) = replayed(failed(store, first, second()), first, second(asks="less")).divergences
    assert (found.kind, "call 1 ('get') has different arguments" in found.message) == ("call", True)


def test_an_error_of_the_service_is_met_again(store: Store) -> None:
    report = failed(store, first, second(asks="nothing")).replay("r")
    assert (report.ok, report.items, report.calls) == (True, 2, 3)


def test_a_confined_failure_is_replayed(store: Store) -> None:
    @node(output="beside")
    def beside(x: str) -> str:
        return x

    engine = failed(store, first, second(), beside, on_error="continue", status="completed")
    assert engine.replay("r").items == 3
    (found,) = replayed(engine, first, second(says=""), beside).divergences
    assert found.kind == "error"


def test_the_last_attempt_is_the_one_that_is_replayed(store: Store) -> None:
    """With an hour of backoff that took no time, and draws that are the same."""

    @node(output="tried", retry=RetryPolicy(max_attempts=3, base_delay=3600.0, max_delay=7200.0))
    def tries(x: str, ctx: Context) -> str:
        found = ctx.record("get", SERVICE.get, x) + ctx.record("get", SERVICE.get, f"{x} {ctx.attempt}")
        raise ValueError(f"{found} {ctx.random.random()} {ctx.now()}")

    report = failed(store, tries).replay("r")
    assert (report.ok, report.items, report.divergences) == (True, 1, ())


def test_a_failure_inside_a_subgraph_is_replayed(store: Store) -> None:
    inside = Graph([first, second()], name="inside").as_node(inputs=("x",), outputs=("second",))
    engine = failed(store, inside)
    assert engine.replay("r").calls == 3
    mended = Graph([first, second(says="")], name="inside").as_node(inputs=("x",), outputs=("second",))
    (found,) = replayed(engine, mended).divergences
    assert (found.kind, found.path) == ("error", "inside#0/second#0")


def test_two_failures_of_one_step_are_both_replayed(store: Store) -> None:
    def fails(name: str, says: str) -> Node:
        @node(name=name, output=name)
        def fails(x: str, ctx: Context) -> str:
            raise ValueError(says + str(ctx.record("get", SERVICE.get, x)))

        return fails

    engine = failed(store, fails("one", "first "), fails("other", "second "), max_concurrent_nodes=1)
    assert engine.replay("r").items == 2
    report = replayed(engine, fails("one", "first "), fails("other", "2nd "))
    assert [found.path for found in report.divergences] == ["other#0"]


def test_what_a_node_returns_and_may_not_is_replayed(store: Store) -> None:
    pair = node(name="pair", output=("p", "q"))(lambda x: [x, x])
    engine = failed(store, pair)
    assert engine.replay("r").items == 1
    (found,) = replayed(engine, node(name="pair", output=("p", "q"))(lambda x: (x, x))).divergences
    assert found.message.endswith("when recorded, but returns now")


def test_what_took_too_long_is_not_waited_for(store: Store) -> None:
    @node(output="slow", timeout=1.0)
    async def slow(x: str, ctx: Context) -> str:
        assert not SERVICE.is_down
        await ctx.sleep(5)
        return x

    engine = failed(store, slow)
    assert isinstance(engine.result("r").error, NodeTimeoutError)
    assert engine.replay("r").ok


def test_what_may_not_be_called_is_not(store: Store) -> None:
    @node(output="sent", side_effects=SideEffectPolicy(recordable=True))
    def send(x: str) -> str:
        assert not SERVICE.is_down
        raise ValueError("not sent")

    assert failed(store, send).replay("r").ok


class Sums(TypedDict, total=False):
    x: str
    total: Annotated[int, operator.add]


@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_an_update_that_was_refused_is_that_of_an_item_that_returned(store: Store, on_error: str) -> None:
    def adds(made: str) -> Node:
        return node(name="adds", output="total")(lambda x: {"a": made, "b": 1}[x])

    status = "failed" if on_error == "stop" else "completed"
    engine = failed(store, adds("one"), graph={"state": Sums}, on_error=on_error, status=status)
    assert engine.replay("r").ok
    raising = node(name="adds", output="total")(lambda x: 1 // 0)
    (found,) = replayed(engine, raising, state=Sums).divergences
    assert found.message.startswith("it raises ZeroDivisionError")


def test_an_address_in_a_message_is_no_difference(store: Store) -> None:
    @node(output="odd")
    def odd(x: str) -> str:
        raise ValueError(f"what is {object()!r}?")

    assert failed(store, odd).replay("r").ok


def test_it_is_replayed_by_another_process_days_later(tmp_path: Path) -> None:
    """The error comes from the file, as far as its class is known here."""
    failed(SQLiteStore(tmp_path / "runs.db"), first, second(asks="nothing"))
    report = Engine(Graph([first, second(asks="nothing")]), store=SQLiteStore(tmp_path / "runs.db")).replay(
        "r"
    )
    assert (report.ok, report.calls) == (True, 3)


def test_how_far_a_run_was_ahead_when_it_failed_is_no_difference(store: Store) -> None:
    """``three`` of step 3 had run when the writes of step 2 met."""

    @route(targets=["write"])
    def twice(x: str) -> list[Send]:
        return [Send("write", {"what": "a"}), Send("write", {"what": "b"})]

    def after(name: str, before: str) -> Node:
        return node(name=name, output=name)(lambda seen: seen).rename(inputs={"seen": before})

    write = node(name="write", output="v")(lambda what: what)
    graph = Graph(
        [after("slow", "x"), twice, write, after("one", "x"), after("two", "one"), after("three", "two")]
    )
    run = Stepper(Engine(graph, store=store, clock=VirtualClock()), {"x": "a"}, run_id="r")
    for path in ("twice#0", "one#0", "two#0", "three#0", "write#0[0]", "write#0[1]", "slow#0"):
        run.complete(path)
    assert isinstance(run.finish().error, ConflictError)
    assert run.engine.replay("r", strict=False).divergences == ()


def test_what_was_let_fall_beside_a_failure_in_a_subgraph_is_no_difference(store: Store) -> None:
    """The second of two that are mapped over had made a step when the first failed."""

    @node(output="half")
    def half(each: int) -> int:
        return each // 2

    @node(output="whole")
    def whole(half: int) -> int:
        if not half:
            raise ValueError("nothing")
        return half

    mapped = Graph([half, whole], name="mapped").map_over("each")
    engine = Engine(Graph([mapped.nodes["mapped"]]), store=store, clock=VirtualClock())
    run = Stepper(engine, {"each": [1, 8]}, run_id="r")
    for path in ("mapped#0[0]/half#0", "mapped#0[1]/half#0", "mapped#0[0]/whole#0"):
        run.complete(path)
    assert str(run.finish().error) == "nothing"
    assert run.engine.replay("r", strict=False).divergences == ()


def test_a_node_that_raises_a_cancellation_of_its_own(store: Store) -> None:
    @node(output="a")
    async def bad(x: int) -> int:
        raise asyncio.CancelledError

    engine = Engine(Graph([bad]), store=store)
    assert engine.run({"x": 1}, run_id="r", check=False).status == "failed"
    assert engine.replay("r").ok


# -- rescues ---------------------------------------------------------------------------------------------------


def failing(x: int) -> int:
    raise ValueError(x)


def raises(error: Exception, x: int) -> int:
    raise KeyError(x) from error


def reraises(error: Exception, x: int) -> int:
    raise error


def returns_another(error: Exception, x: int) -> Any:
    return {"q": 1}


async def araises(error: Exception, x: int) -> int:
    raise KeyError(x)


@pytest.mark.parametrize("rescue", [raises, reraises, returns_another, araises])
@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_a_rescue_that_failed_fails_again(store: Store, rescue: Any, on_error: Any) -> None:
    graph = Graph([node(failing, writes=("y",), rescue=rescue)])
    engine = Engine(graph, store=store, on_error=on_error)
    asyncio.run(engine.arun({"x": 1}, run_id="r", check=False))
    assert engine.replay("r").divergences == ()


def test_a_rescue_that_fails_otherwise_is_a_difference(store: Store) -> None:
    was = Graph([node(failing, writes=("y",), rescue=raises)])
    Engine(was, store=store).run({"x": 1}, run_id="r", check=False)

    def otherwise(error: Exception, x: int) -> int:
        raise KeyError(x + 1)

    for rescue in (otherwise, lambda error, x: {"y": 1}):
        report = Engine(Graph([node(failing, writes=("y",), rescue=rescue)]), store=store).replay("r")
        assert [each.kind for each in report.divergences] == ["error"]


def test_a_timeout_before_a_rescue_is_not_checked(store: Store) -> None:
    is_quick = False

    @node(output="y", timeout=0.01, rescue=raises)
    async def slow(x: int) -> int:
        await asyncio.sleep(0 if is_quick else 60)
        return x

    engine = Engine(Graph([slow]), store=store)
    assert isinstance(engine.run({"x": 1}, run_id="r", check=False).error, KeyError)
    is_quick = True
    assert engine.replay("r").ok

"""The tools of `clew.testing`: time that obeys, and completion in any order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from clew import Context, Engine, Graph, RetryPolicy, interrupt, node
from clew.errors import NodeTimeoutError, RunStateError
from clew.testing import Stepper, VirtualClock, random_order, run_in_order


def writes(name: str, *reads: str) -> Any:
    """A node that writes its inputs' names, joined."""
    if len(reads) == 1:
        return node(lambda one: f"{one}{name}", name=name, output=name).rename(inputs={"one": reads[0]})
    return node(lambda one, two: f"{one}{two}{name}", name=name, output=name).rename(
        inputs={"one": reads[0], "two": reads[1]}
    )


DIAMOND = Graph([writes("x", "a"), writes("y", "a"), writes("z", "x", "y")])


# -- the clock


def test_a_virtual_clock_stands_still() -> None:
    clock = VirtualClock(start=100.0)
    assert (clock.time(), clock.monotonic(), clock.virtual) == (100.0, 0.0, True)


def test_a_virtual_clock_is_moved_and_never_back() -> None:
    clock = VirtualClock(start=100.0)
    clock.advance(5.0)
    clock.advance(3.0)
    assert (clock.time(), clock.monotonic(), repr(clock)) == (105.0, 5.0, "VirtualClock(+5 s)")


# -- the stepper


def test_a_stepper_starts_what_may_run_and_completes_nothing() -> None:
    stepper = Stepper(DIAMOND, {"a": "-"})
    assert stepper.running == ["x#0", "y#0"]


def test_items_complete_in_the_order_that_one_chooses() -> None:
    stepper = Stepper(DIAMOND, {"a": "-"})
    stepper.complete("y#0")
    assert stepper.running == ["x#0"]
    stepper.complete("x#0")
    assert stepper.running == ["z#0"]
    stepper.complete("z#0")
    assert (stepper.running, stepper.finish()["z"]) == ([], "-x-yz")


def test_no_more_items_are_started_than_there_are_workers() -> None:
    stepper = Stepper(DIAMOND, {"a": "-"}, workers=1)
    assert stepper.running == ["x#0"]
    stepper.complete("x#0")
    assert stepper.running == ["y#0"]


def test_an_item_fails_without_being_executed() -> None:
    stepper = Stepper(DIAMOND, {"a": "-"})
    error = OSError("down")
    stepper.fail("x#0", error)
    stepper.complete("y#0")
    result = stepper.finish()
    assert (result.status, result.error) == ("failed", error)


def test_an_item_times_out() -> None:
    stepper = Stepper(DIAMOND, {"a": "-"})
    stepper.time_out("x#0")
    stepper.complete("y#0")
    error = stepper.finish().error
    assert (type(error), str(error)) == (NodeTimeoutError, "node 'x' at x#0 was timed out by a test")


def test_a_retry_comes_when_nothing_else_runs() -> None:
    @node(output="x", retry=RetryPolicy(max_attempts=2, base_delay=10.0))
    def flaky(a: str) -> str:
        return a

    clock = VirtualClock()
    stepper = Stepper(Graph([flaky, writes("y", "a")]), {"a": "-"}, clock=clock)
    stepper.fail("flaky#0", OSError())
    assert (stepper.running, clock.monotonic()) == (["y#0"], 0)
    stepper.complete("y#0")
    assert stepper.running == ["flaky#0"]
    assert clock.monotonic() >= 10
    stepper.complete("flaky#0")
    assert stepper.finish()["x"] == "-"


def test_what_an_item_raises_is_its_failure() -> None:
    @node(output="x")
    def fails(a: str) -> str:
        raise ValueError(a)

    stepper = Stepper(Graph([fails]), {"a": "-"})
    stepper.complete("fails#0")
    assert repr(stepper.finish().error) == "ValueError('-')"


def test_async_items_and_generators_are_executed() -> None:
    @node(output="x")
    async def one(a: str) -> str:
        return a

    @node(output="y")
    async def many(a: str) -> AsyncIterator[str]:
        yield a
        yield a

    result = run_in_order(Graph([one, many]), {"a": "-"}, choose=lambda running: running[-1])
    assert (result["x"], result["y"]) == ("-", ["-", "-"])


def test_an_item_asks() -> None:
    @node(output="x")
    def ask(a: str, ctx: Context) -> Any:
        return ctx.interrupt("well?")

    stepper = Stepper(Graph([ask]), {"a": "-"})
    stepper.complete("ask#0")
    assert [question.question for question in stepper.finish().questions] == ["well?"]


def test_an_item_that_is_not_running() -> None:
    stepper = Stepper(DIAMOND, {"a": "-"})
    with pytest.raises(RunStateError, match="no item 'z#0' is running; running: x#0, y#0"):
        stepper.complete("z#0")


def test_nothing_is_running_any_more() -> None:
    stepper = Stepper(Graph([writes("x", "a")]), {"a": "-"})
    stepper.complete("x#0")
    with pytest.raises(RunStateError, match="no item 'x#0' is running; running: none"):
        stepper.fail("x#0", OSError())


def test_a_run_that_is_left_in_the_middle_is_cancelled_and_can_be_resumed() -> None:
    engine = Engine(DIAMOND)
    stepper = Stepper(engine, {"a": "-"}, run_id="r")
    stepper.complete("y#0")
    assert stepper.finish().status == "cancelled"
    assert engine.resume("r")["z"] == "-x-yz"


def test_a_stepper_of_an_engine_takes_no_options() -> None:
    with pytest.raises(TypeError, match="give options to the Engine, not to the Stepper"):
        Stepper(Engine(DIAMOND), {"a": "-"}, seed=1)


def test_options_of_the_engine_are_passed_on() -> None:
    stepper = Stepper(DIAMOND, {"a": "-"}, run_id="r", seed=7)
    assert stepper.engine.runs()[0].seed == 7


def test_a_sleep_of_an_async_item_moves_the_clock() -> None:
    @node(output="x")
    async def nap(a: str, ctx: Context) -> str:
        await ctx.sleep(3600)
        return a

    clock = VirtualClock()
    stepper = Stepper(Graph([nap]), {"a": "-"}, clock=clock)
    stepper.complete("nap#0")
    assert (stepper.running, clock.monotonic()) == (["nap#0"], 3600)
    stepper.complete("nap#0")
    assert (stepper.finish()["x"], clock.monotonic()) == ("-", 3600)


def test_a_run_in_a_stepper_can_be_cancelled() -> None:
    stepper = Stepper(DIAMOND, {"a": "-"}, run_id="r")
    assert stepper.engine.cancel("r") is True
    assert stepper.finish().status == "cancelled"


# -- running in an order


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("workers", [1, 2, None])
def test_the_chain_does_not_depend_on_the_order_of_completion(seed: int, workers: int | None) -> None:
    result = run_in_order(DIAMOND, {"a": "-"}, choose=random_order(seed), workers=workers)
    assert result.state.digest == DIAMOND.run(a="-").state.digest


def test_shuffled_is_the_same_for_the_same_seed() -> None:
    running = [str(n) for n in range(100)]
    one, same, other = random_order(1), random_order(1), random_order(2)
    drawn = [[choose(running) for _ in range(10)] for choose in (one, same, other)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_run_in_order_waits_where_it_is_asked() -> None:
    @interrupt(output="x")
    def ask(a: str) -> str:
        return "well?"

    engine = Engine(Graph([ask]))
    assert run_in_order(engine, {"a": "-"}, choose=random_order(0), run_id="r").status == "waiting"
    assert engine.resume("r", answer=1)["x"] == 1

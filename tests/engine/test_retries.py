"""Retries: seeded delays, counted attempts, and no worker occupied during the delay."""

from __future__ import annotations

from typing import Any

import pytest

from clew import Context, Engine, Graph, NodePolicy, RetryPolicy, node
from clew.engine.options import stream
from clew.engine.records import Retry
from clew.graph import Node
from clew.testing import Stepper, VirtualClock

RUN = "run"


def flaky(failures: int, *, name: str = "flaky", error: type[Exception] = ValueError, **policy: Any) -> Node:
    """Fails that often, then returns the number of the attempt."""

    def work(x: int, ctx: Context) -> int:
        if ctx.attempt < failures:
            raise error(f"attempt {ctx.attempt}")
        return ctx.attempt

    options = {"max_attempts": 3, "base_delay": 1.0, "max_delay": 30.0, **policy}
    return node(name=name, output=f"v_{name}", policy=NodePolicy(retry_policy=RetryPolicy(**options)))(work)


def run(graph: Graph, **options: Any) -> tuple[Any, list[Retry], VirtualClock]:
    clock = VirtualClock()
    engine = Engine(graph, clock=clock, **{"seed": 5, **options})
    result = engine.run({"x": 1}, run_id=RUN, check=False)
    return result, [e for e in engine.store.entries(RUN) if isinstance(e, Retry)], clock


def test_a_node_is_tried_again_until_it_succeeds() -> None:
    result, retries, _ = run(Graph([flaky(2)]))
    assert (result["v_flaky"], result.metrics.total_retries) == (2, 2)
    assert [(retry.path, retry.attempt) for retry in retries] == [("flaky#0", 1), ("flaky#0", 2)]


def test_the_last_error_is_told_when_all_attempts_are_spent() -> None:
    result, retries, _ = run(Graph([flaky(9)]))
    assert (result.status, str(result.error), len(retries)) == ("failed", "attempt 2", 2)
    assert [(found.path, found.step, found.attempts) for found in result.failures] == [("flaky#0", 1, 3)]


@pytest.mark.parametrize("seed", [0, 5, 99])
def test_the_delay_is_the_formula_with_jitter_from_the_items_own_stream(seed: int) -> None:
    _, retries, clock = run(Graph([flaky(9, max_attempts=4, base_delay=2.0)]), seed=seed)
    jitters = [stream(seed, "flaky#0", attempt, "retry").random() * 2.0 for attempt in range(3)]
    expected = [2.0 * 2**attempt + jitter for attempt, jitter in enumerate(jitters)]
    assert [retry.delay for retry in retries] == expected
    assert clock.monotonic() == pytest.approx(sum(expected))


def test_no_delay_is_longer_than_the_longest() -> None:
    _, retries, _ = run(Graph([flaky(9, max_attempts=8, base_delay=2.0, max_delay=5.0)]))
    assert [retry.delay for retry in retries][2:] == [5.0] * 5


def test_the_jitter_of_one_branch_does_not_move_that_of_another() -> None:
    _, alone, _ = run(Graph([flaky(1, name="a")]))
    _, both, _ = run(Graph([flaky(2, name="b"), flaky(1, name="a")]))
    assert [r.delay for r in both if r.path == "a#0"] == [r.delay for r in alone]
    assert len({retry.delay for retry in both}) == 3


def test_streams_differ_by_seed_path_attempt_and_name() -> None:
    parts = [(1, "a#0", 0, "retry"), (2, "a#0", 0, "retry"), (1, "a#1", 0, "retry"), (1, "a#0", 1, "retry")]
    drawn = {stream(*part).random() for part in [*parts, (1, "a#0", 0, "random")]}
    assert len(drawn) == 5
    assert stream(1, "a#0", 0, "retry").random() in drawn


def test_only_errors_that_the_policy_calls_retryable_are_tried_again() -> None:
    retryable = lambda error: isinstance(error, TimeoutError)
    assert run(Graph([flaky(1, retryable=retryable)]))[0].status == "failed"
    assert run(Graph([flaky(1, retryable=retryable, error=TimeoutError)]))[0].status == "completed"


def test_others_go_on_while_one_waits_for_its_next_attempt() -> None:
    quick = node(name="quick", output="q")(lambda x: x)
    later = node(name="later", output="l")(lambda q: q)
    stepper = Stepper(Graph([flaky(1), quick, later]), {"x": 1}, workers=1)
    stepper.complete("flaky#0")
    assert stepper.running == ["quick#0"]
    stepper.complete("quick#0")
    stepper.complete("later#0")
    assert stepper.running == ["flaky#0"], "its delay is over as soon as nothing else can happen"
    stepper.complete("flaky#0")
    assert stepper.finish().status == "completed"


def test_a_retry_changes_no_digest() -> None:
    steady = node(name="flaky", output="v_flaky")(lambda x: 0)
    calm, _, _ = run(Graph([steady]))

    failed = []

    @node(name="flaky", output="v_flaky", retry=3)
    def shaky(x: int) -> int:
        if not failed:
            failed.append(1)
            raise ValueError
        return 0

    shaken, _, _ = run(Graph([shaky]))
    assert shaken.state.digest == calm.state.digest


def test_a_resumed_run_continues_the_attempt_count() -> None:
    engine = Engine(Graph([flaky(1)]), clock=VirtualClock())
    stepper = Stepper(engine, {"x": 1}, run_id=RUN)
    stepper.complete("flaky#0")
    stepper.finish()
    assert engine.resume(RUN)["v_flaky"] == 1


def test_an_attempt_that_is_over_is_let_fall() -> None:
    stepper = Stepper(Graph([flaky(0)]), {"x": 1})
    machine = stepper._session.machine
    (item,) = stepper._running.values()
    stepper.time_out("flaky#0")
    assert stepper.running == ["flaky#0"]
    stepper._session.returned(item, 0, "too late", 0.0, 0.0)
    assert machine.status == "running"
    stepper.complete("flaky#0")
    assert stepper.finish()["v_flaky"] == 1


def test_the_first_policy_that_is_about_an_error_decides() -> None:
    policies = [
        RetryPolicy(max_attempts=4, base_delay=10.0, jitter=0, retry_on=(OSError,)),
        RetryPolicy(max_attempts=2, base_delay=1.0, jitter=0, factor=5.0),
    ]
    errors = [ConnectionError("a"), ConnectionError("b"), ValueError("c")]

    @node(output="y", retry=policies)
    def act(x: int, ctx: Context) -> int:
        raise errors[ctx.attempt]

    clock = VirtualClock()
    result = Graph([act]).run({"x": 1}, clock=clock, check=False)
    assert (type(result.error), result.failures[0].attempts) == (ValueError, 3)
    assert clock.monotonic() == 30.0


def test_a_retry_without_a_delay_waits_for_nothing() -> None:
    @node(output="y", retry=RetryPolicy(max_attempts=3, base_delay=0))
    def act(x: int, ctx: Context) -> int:
        if ctx.attempt < 2:
            raise ValueError("no")
        return ctx.attempt

    clock = VirtualClock()
    assert (Graph([act]).run({"x": 1}, clock=clock)["y"], clock.monotonic()) == (2, 0.0)

"""What holds on every executor of ``clew.runtime.remote``. Each check gets one with two workers, and a folder."""

from __future__ import annotations

import asyncio
import operator
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

from clew import Engine, Graph
from clew.errors import (
    AmbiguousCallError,
    MutationError,
    NodeError,
    NodeTimeoutError,
    WorkerLostError,
)
from clew.runtime.remote.executor import RemoteExecutor
from clew.testing import VirtualClock
from tests.runtime.remote import flow

Check = Callable[[RemoteExecutor, Path], None]


class Fan(TypedDict, total=False):
    n: int
    folder: str
    fan: list[int]
    done: Annotated[list[Any], operator.add]
    slow: Annotated[list[int], operator.add]


fan_out = Graph([flow.fan, flow.spread, flow.work], state=Fan, name="fan_out")


def digests(engine: Engine, run_id: str) -> list[str]:
    return [state.digest for state in engine.history(run_id)]


def recordings(engine: Engine) -> list[Any]:
    """Everything about the recorded calls of a run, except when they were made."""
    calls = engine._opener.runs.open("r").log().calls
    return sorted(
        [call.path, call.place, call.name, call.request, call.response, call.attempt, call.awaited]
        for call in calls
    )


def has_zombies(on: RemoteExecutor) -> bool:
    """Whether a body can survive the end of its attempt: other backends kill its process."""
    return type(on.backend).__name__ == "DaskBackend"


def lines(path: Path) -> list[str]:
    return sorted(path.read_text().splitlines()) if path.exists() else []


# -- what crosses


def every_use_of_the_context_gives_the_chain_of_the_local_run(on: RemoteExecutor, folder: Path) -> None:
    with Engine(flow.everything, store=folder / "there.db", executor=on, seed=4) as there:
        result = there.run({"a": 3}, run_id="r")
        with Engine(flow.everything, store=folder / "here.db", seed=4) as here:
            here.run({"a": 3}, run_id="r")
            assert digests(there, "r") == digests(here, "r")
            assert recordings(there) == recordings(here)
    assert result["kid"][2:4] == ["completed", 1]


def async_runs_cross_too(on: RemoteExecutor, folder: Path) -> None:
    with Engine(flow.everything, store=folder / "there.db", executor=on, seed=4) as there:
        asyncio.run(there.arun({"a": 3}, run_id="r"))
        with Engine(flow.everything, store=folder / "here.db", seed=4) as here:
            asyncio.run(here.arun({"a": 3}, run_id="r"))
            assert digests(there, "r") == digests(here, "r")
        assert there.replay("r").ok


def nodes_cross_and_those_on_the_driver_stay(on: RemoteExecutor, folder: Path) -> None:
    result = Graph([flow.pid]).run({"a": 1}, executor=on)
    assert result["pid"] != os.getpid(), "also if it is alone"
    result = Graph([flow.pid, flow.driver_pid]).run({"a": 1}, executor=on)
    assert (result["pid"] != os.getpid(), result["driver_pid"]) == (True, os.getpid())


def events_arrive_in_order(on: RemoteExecutor, folder: Path) -> None:
    seen: list[Any] = []
    engine = Engine(
        Graph([flow.sync_context, flow.chunks]), executor=on, listeners=[lambda event: seen.append(event)]
    )
    engine.run({"a": 5})
    emitted = [(event.kind, event.path, event.data.get("name")) for event in seen if event.kind == "emitted"]
    assert emitted == [("emitted", "sync_context#0", "seen")]
    assert [event.data["chunk"] for event in seen if event.kind == "chunk"] == [5, 6]


def questions_are_asked_and_answered(on: RemoteExecutor, folder: Path) -> None:
    with Engine(Graph([flow.asks, flow.asks_awaited]), store=folder / "r.db", executor=on) as engine:
        result = engine.run({"a": 2}, run_id="r")
        assert {asked.path: asked.question for asked in result.questions} == {
            "asks#0": "what about 4?",
            "asks_awaited#0": {"q": 4},
        }
        result = engine.resume("r", answers={"asks#0": "yes", "asks_awaited#0": "no"})
        assert (result["said"], result["asaid"]) == ("yes 4", "no 4")


def a_node_waits_for_a_signal_without_a_worker(on: RemoteExecutor, folder: Path) -> None:
    with Engine(Graph([flow.waits, flow.plain]), store=folder / "r.db", executor=on) as engine:
        handle = engine.start({"a": 2}, run_id="r")
        until = time.monotonic() + 300
        while on.desk.open_calls():
            assert time.monotonic() < until
            time.sleep(0.01)
        handle.signal("paid", {"amount": 3})
        assert handle.result(timeout=60)["paid"] == {"amount": 3}


def long_sleeps_follow_the_clock_of_the_run(on: RemoteExecutor, folder: Path) -> None:
    clock = VirtualClock()
    result = Graph([flow.sleeps_long, flow.async_context]).run({"a": 1}, executor=on, clock=clock)
    assert (result["slept"], clock.monotonic() >= 3600) == (0, True)


def statements_are_committed_with_the_outcome(on: RemoteExecutor, folder: Path) -> None:
    with Engine(Graph([flow.writes]), store=folder / "r.db", executor=on) as engine:
        connection = sqlite3.connect(folder / "r.db")
        connection.execute("CREATE TABLE paid (a)")
        connection.commit()
        engine.run({"a": 7})
        assert connection.execute("SELECT a FROM paid").fetchall() == [(7,)]
        connection.close()


# -- errors


def errors_keep_their_type_or_their_text(on: RemoteExecutor, folder: Path) -> None:
    result = Graph([flow.fails]).run({"a": 1}, executor=on, check=False)
    error: Any = result.error
    assert (type(error), str(error), error.code) == (flow.OwnError, "7: no", 7)
    assert any("flow.py" in note for note in error.__notes__), "the remote traceback"
    held = Graph([flow.fails_with_a_lock]).run({"a": 1}, executor=on, check=False)
    assert (type(held.error), "LockError: locked" in str(held.error)) == (NodeError, True)
    locked = Graph([flow.returns_a_lock]).run({"a": 1}, executor=on, check=False)
    assert (type(locked.error), 'on="driver"' in str(locked.error)) == (NodeError, True)


def a_changed_input_is_noticed(on: RemoteExecutor, folder: Path) -> None:
    result = Graph([flow.mutates]).run({"items": [1]}, executor=on, check=False)
    assert type(result.error) is MutationError


def what_cannot_be_pickled_names_the_way_out(on: RemoteExecutor, folder: Path) -> None:
    result = Graph([flow.plain]).bind(a=threading.Lock()).run({}, executor=on, check=False)
    assert (type(result.error), 'on="driver"' in str(result.error)) == (NodeError, True)


# -- timeouts and cancellation


def waiting_for_a_worker_is_not_time_of_the_node(on: RemoteExecutor, folder: Path) -> None:
    """Twelve items of 1 s on two workers, each of which has 5 s: only together they take longer."""
    graph = Graph([flow.fan, flow.spread_slow, flow.slow], state=Fan)
    result = graph.run({"n": 12}, executor=on, default_node_timeout=5.0, check=False)
    assert (result.error, sorted(result["slow"])) == (None, list(range(12)))


def frames_of_an_attempt_that_is_over_are_rejected(on: RemoteExecutor, folder: Path) -> None:
    before = on.desk.rejected
    result = Graph([flow.zombie]).run({"folder": str(folder)}, executor=on, check=False)
    assert type(result.error) is NodeTimeoutError
    (folder / "go").touch()
    until = time.monotonic() + 300
    while has_zombies(on) and on.desk.rejected == before and time.monotonic() < until:
        time.sleep(0.01)
    assert on.desk.rejected > before or not has_zombies(on)
    assert lines(folder / "effects") == [], "the recorded call of a zombie is not made"
    assert not (folder / "continued").exists()


def cancelling_ends_the_run(on: RemoteExecutor, folder: Path) -> None:
    def cancel() -> None:
        while not (folder / "began").exists():
            time.sleep(0.01)
        engine.cancel("r")

    engine = Engine(Graph([flow.zombie]), executor=on, default_node_timeout=60)
    thread = threading.Thread(target=cancel)
    thread.start()
    result = engine.run({"folder": str(folder)}, run_id="r", check=False)
    (folder / "go").touch()
    thread.join()
    assert result.status in ("cancelled", "failed")
    assert lines(folder / "effects") == []


# -- large inputs


def a_large_input_is_put_once(on: RemoteExecutor, folder: Path) -> None:
    data = os.urandom(1_000_000)
    before = on.inputs.puts
    result = Graph([flow.size_of, flow.size_again]).run({"data": data}, executor=on)
    assert (result["total"], result["total2"], on.inputs.puts - before) == (1_000_000, 1_000_000, 1)
    again = Graph([flow.size_of]).run({"data": bytes(bytearray(data))}, executor=on)
    assert (again["total"], on.inputs.puts - before) == (1_000_000, 1), "known by its digest"


def a_lost_input_is_put_again(on: RemoteExecutor, folder: Path) -> None:
    data = os.urandom(1_000_001)
    assert Graph([flow.size_of]).run({"data": data}, executor=on)["total"] == len(data)
    before = on.inputs.puts
    (known,) = [each for each in on.inputs._by_digest.values() if each.value is data]
    on.backend.drop(known.handle)
    if not on.backend.is_lost(known.handle):
        on.inputs.forget(known)
    assert Graph([flow.size_of]).run({"data": data}, executor=on)["total"] == len(data)
    assert on.inputs.puts == before + 1


# -- lost workers


def a_worker_that_dies_in_a_recorded_call_changes_no_digest(on: RemoteExecutor, folder: Path) -> None:
    values = {"n": 8, "folder": str(folder)}
    with Engine(fan_out, store=folder / "there.db", executor=on, seed=9) as there:
        result = there.run(values, run_id="r")
        assert (folder / "killed").exists()
        assert [each[3] for each in result["done"]] == [0] * 8, "no attempt has failed"
        starts, effects = lines(folder / "starts"), lines(folder / "effects")
        assert there.replay("r").ok
        with Engine(fan_out, store=folder / "here.db", seed=9) as here:
            here.run(values, run_id="r")
            assert digests(there, "r") == digests(here, "r")
    assert set(starts) == set(map(str, range(8)))
    assert effects.count("item 3") == 2, "made once by the worker that died, and once again"
    others = [line for line in effects if line != "item 3"]
    assert len(others) == len(set(others)), "recorded calls of the others are made once"


def with_fail_a_lost_effect_is_ambiguous(on: RemoteExecutor, folder: Path) -> None:
    with Engine(
        Graph([flow.pays]), store=folder / "r.db", executor=on, on_ambiguous="fail", default_node_timeout=60
    ) as engine:
        result = engine.run({"folder": str(folder)}, check=False)
    assert (type(result.error), lines(folder / "effects")) == (AmbiguousCallError, ["paid"])


def with_retry_a_lost_effect_is_repeated_in_the_same_attempt(on: RemoteExecutor, folder: Path) -> None:
    with Engine(Graph([flow.pays]), store=folder / "r.db", executor=on) as engine:
        result = engine.run({"folder": str(folder)}, run_id="r")
        assert (result["once"], lines(folder / "effects")) == ("paid", ["paid", "paid"])
        assert result.metrics.total_retries == 0


def too_many_lost_workers_fail_the_node(on: RemoteExecutor, folder: Path) -> None:
    result = Graph([flow.always_dies, flow.plain]).run(
        {"a": 1}, executor=on, on_error="continue", check=False
    )
    assert (type(result.error), result["plain"]) == (WorkerLostError, 2)


CHECKS: list[Check] = [
    every_use_of_the_context_gives_the_chain_of_the_local_run,
    async_runs_cross_too,
    nodes_cross_and_those_on_the_driver_stay,
    events_arrive_in_order,
    questions_are_asked_and_answered,
    a_node_waits_for_a_signal_without_a_worker,
    long_sleeps_follow_the_clock_of_the_run,
    statements_are_committed_with_the_outcome,
    errors_keep_their_type_or_their_text,
    a_changed_input_is_noticed,
    what_cannot_be_pickled_names_the_way_out,
    waiting_for_a_worker_is_not_time_of_the_node,
    frames_of_an_attempt_that_is_over_are_rejected,
    cancelling_ends_the_run,
    a_large_input_is_put_once,
    a_lost_input_is_put_again,
    a_worker_that_dies_in_a_recorded_call_changes_no_digest,
    with_fail_a_lost_effect_is_ambiguous,
    with_retry_a_lost_effect_is_repeated_in_the_same_attempt,
    too_many_lost_workers_fail_the_node,
]

# Worker processes start again in seconds on a cluster, so these are for campaigns there.
LONG: list[Check] = [
    too_many_lost_workers_fail_the_node,
    with_fail_a_lost_effect_is_ambiguous,
    with_retry_a_lost_effect_is_repeated_in_the_same_attempt,
]

# What is checked by default where a cluster takes long to start.
CORE: list[Check] = [
    every_use_of_the_context_gives_the_chain_of_the_local_run,
    questions_are_asked_and_answered,
    a_large_input_is_put_once,
    a_worker_that_dies_in_a_recorded_call_changes_no_digest,
]

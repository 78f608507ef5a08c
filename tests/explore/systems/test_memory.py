"""The fakes held in memory: what they do for an application, and that checkpoints are references."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.errors import EncodeError, SystemSetupError, UnknownCheckpointError
from clew.explore.system import System
from clew.explore.systems import MemoryClock, MemoryMail, MemoryQueue, MemoryStorage


def test_a_queue_is_first_in_first_out() -> None:
    queue = MemoryQueue(["a", "b"])
    queue.push({"c": 1})
    assert (len(queue), queue.peek(), list(queue)) == (3, "a", ["a", "b", {"c": 1}])
    assert [queue.pop() for _ in range(4)] == ["a", "b", {"c": 1}, None]
    assert (len(queue), queue.peek(), queue.receive()) == (0, None, None)
    assert queue  # it is there, though empty


def test_a_message_is_in_flight_until_it_is_acknowledged() -> None:
    queue = MemoryQueue(["a", "b"])
    empty_after = MemoryQueue(["b"]).observe()
    first = queue.receive()
    assert first is not None
    assert (first.message, len(queue), queue.in_flight) == ("a", 1, 1)
    assert queue.observe().data == {"ready": ["b"], "in_flight": ["a"]}
    token = queue.checkpoint("in flight")
    queue.ack(first)
    assert queue.observe() == empty_after
    with pytest.raises(KeyError, match="not in flight"):
        queue.ack(first)
    queue.rollback(token)
    queue.nack(first.id)
    assert list(queue) == ["a", "b"]
    assert queue.observe() == MemoryQueue(["a", "b"]).observe()
    queue.clear()
    assert queue.observe() == MemoryQueue().observe()


@settings(max_examples=60, derandomize=True)
@given(st.lists(st.sampled_from(["push a", "push b", "pop", "receive", "ack", "nack"]), max_size=30))
def test_a_queue_is_identified_by_what_it_holds_now(operations: list[str]) -> None:
    queue, ready, flying = MemoryQueue(), [], []
    for operation in operations:
        if operation.startswith("push"):
            queue.push(operation[-1])
            ready.append(operation[-1])
        elif operation == "pop":
            assert queue.pop() == (ready.pop(0) if ready else None)
        elif operation == "receive":
            if delivery := queue.receive():
                assert delivery.message == ready.pop(0)
                flying.append(delivery)
        elif flying:
            delivery = flying.pop()
            getattr(queue, operation)(delivery)
            if operation == "nack":
                ready.insert(0, delivery.message)
    again = MemoryQueue([*(each.message for each in flying), *ready])
    for _ in flying:
        again.receive()
    assert list(queue) == ready
    assert queue.observe().digest == again.observe().digest
    again.push("more")
    assert queue.observe().digest != again.observe().digest


def test_the_order_of_a_queue_counts() -> None:
    assert MemoryQueue(["a", "b"]).observe().digest != MemoryQueue(["b", "a"]).observe().digest
    assert MemoryQueue([1]).observe().digest != MemoryQueue([1.0]).observe().digest
    assert MemoryQueue([0.0]).observe().digest != MemoryQueue([-0.0]).observe().digest
    assert MemoryQueue([None]).observe().digest != MemoryQueue().observe().digest


def test_mail() -> None:
    mail = MemoryMail()
    mail.send("ann@example.org", "Hello", "Dear Ann", sender="me@example.org", headers={"X-A": "1"})
    mail.send(["ann@example.org", "bob@example.org"], "To both")
    assert [each.subject for each in mail.inbox("ann@example.org")] == ["Hello", "To both"]
    assert [each.subject for each in mail.inbox("bob@example.org")] == ["To both"]
    assert (mail.inbox("eve@example.org"), len(mail), mail.sent[0].headers) == ([], 2, {"X-A": "1"})
    assert mail.observe().data["sent"][1]["to"] == ("ann@example.org", "bob@example.org")
    mail.clear()
    assert mail.observe() == MemoryMail().observe()


def test_a_clock_moves_when_it_is_told_to() -> None:
    clock = MemoryClock(datetime(2024, 2, 28, tzinfo=UTC))
    clock.sleep(3600)
    assert clock.advance(timedelta(days=1)) == datetime(2024, 2, 29, 1, tzinfo=UTC)
    assert (clock.monotonic(), clock.time()) == (90_000.0, 1709168400.0)
    token = clock.checkpoint("then")
    clock.advance(0.5)
    clock.rollback(token)
    assert clock.now() == datetime(2024, 2, 29, 1, tzinfo=UTC)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)
    with pytest.raises(SystemSetupError, match="time zone"):
        MemoryClock(datetime(2024, 1, 1))


def test_storage() -> None:
    storage = MemoryStorage({"a/1": b"\xff", "b": {"x": [1]}})
    storage.put("a/2", "two")
    assert (storage.get("a/1"), storage["b"], storage.get("no"), storage.get("no", 5)) == (
        b"\xff",
        {"x": [1]},
        None,
        5,
    )
    assert (storage.list("a/"), storage.list(), len(storage)) == (["a/1", "a/2"], ["a/1", "a/2", "b"], 3)
    assert ("b" in storage, storage.delete("b"), storage.delete("b"), "b" in storage) == (
        True,
        True,
        False,
        False,
    )
    with pytest.raises(KeyError):
        storage["b"]
    storage.clear()
    assert storage.observe() == MemoryStorage().observe()


def test_storage_is_identified_by_what_it_holds_now() -> None:
    one, other = MemoryStorage({"a": 1, "b": 2}), MemoryStorage({"b": 3, "c": 0, "a": 1})
    other.put("b", 2)
    other.delete("c")
    assert one.observe() == other.observe()
    assert (
        MemoryStorage({"a": 1, "b": 2}).observe().digest != MemoryStorage({"a": 2, "b": 1}).observe().digest
    )


SYSTEMS = {
    "queue": (lambda: MemoryQueue(), lambda system, value: system.push(value)),
    "mail": (lambda: MemoryMail(), lambda system, value: system.send("a", str(value))),
    "clock": (lambda: MemoryClock(), lambda system, value: system.advance(value + 1)),
    "storage": (lambda: MemoryStorage(), lambda system, value: system.put(f"{value}", value)),
}


@pytest.mark.parametrize("kind", SYSTEMS)
def test_any_checkpoint_is_restored_from_any_other(kind: str) -> None:
    make, change = SYSTEMS[kind]
    system: Any = make()
    assert isinstance(system, System)
    assert system.ordering == "any"
    found = [(system.checkpoint("initial"), system.observe())]
    for value in range(4):
        change(system, value)
        found.append((system.checkpoint("step"), system.observe()))
    assert len({repr((each.data, each.digest)) for _, each in found}) == 5
    for start, _ in found:
        for token, observation in found:
            system.rollback(start)
            change(system, 9)
            system.rollback(token)
            assert system.observe() == observation


@pytest.mark.parametrize("kind", SYSTEMS)
def test_tokens(kind: str) -> None:
    make, change = SYSTEMS[kind]
    system: Any = make()
    token = system.checkpoint("a")
    assert system.checkpoint("a") != token
    change(system, 1)
    with pytest.raises(UnknownCheckpointError, match="Checkpoint not found: 99"):
        system.rollback(99)
    assert (system.is_valid(token), system.is_valid([])) == (True, False)
    system.release(token)
    system.release(token)
    with pytest.raises(KeyError):
        system.rollback(token)


def test_values_are_copies() -> None:
    message = {"items": [1]}
    queue, storage = MemoryQueue([message]), MemoryStorage({"a": message})
    start, token = queue.observe(), queue.checkpoint("start")
    message["items"].append(2)
    queue.peek()["items"].append(3)
    storage["a"]["items"].append(3)
    assert queue.observe() == start
    assert (queue.pop(), storage["a"]) == ({"items": [1]}, {"items": [1]})
    queue.rollback(token)
    assert queue.pop() == {"items": [1]}


def test_a_value_without_an_encoding_is_refused() -> None:
    with pytest.raises(EncodeError, match="message"):
        MemoryQueue().push(object())
    with pytest.raises(EncodeError, match=r"storage\['a'\]"):
        MemoryStorage().put("a", object())


def test_a_checkpoint_costs_the_same_at_any_size() -> None:
    queue, storage = MemoryQueue(), MemoryStorage()
    for n in range(20_000):
        queue.push(n)
        storage.put(f"{n}", n)
    for system in (queue, storage):
        system.observe()
        best = min(
            _seconds(lambda system=system: (system.checkpoint("x"), system.observe())) for _ in range(200)
        )
        assert best < 0.01e-3
        assert system.observe().data != {}
    assert queue.observe().data["ready"] == {"count": 20_000}


def _seconds(function: Any) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin

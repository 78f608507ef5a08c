"""The fakes held in memory: what they do for an application, and that checkpoints are references."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew.errors import DefinitionError, EncodeError, SystemSetupError, UnknownCheckpointError
from clew.explore.model.system import System
from clew.explore.systems import HTTPFake, MemoryClock, MemoryMail, MemoryQueue, MemoryStorage


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
    with pytest.raises(ValueError, match="by: expected"):
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
    def filled(size: int) -> tuple[MemoryQueue, MemoryStorage]:
        queue, storage = MemoryQueue(), MemoryStorage()
        for n in range(size):
            queue.push(n)
            storage.put(f"{n}", n)
        return queue, storage

    for small, large in zip(filled(10), filled(20_000), strict=True):
        assert _least(large) < 20 * _least(small)  # copying would be a thousand times as much
        assert large.observe().data != small.observe().data
    assert filled(20_000)[0].observe().data["ready"]["count"] == 20_000


def _least(system: MemoryQueue | MemoryStorage) -> float:
    """Seconds of the quickest of many checkpoints, which no other work on the machine has lengthened."""
    system.observe()
    times = []
    for _ in range(200):
        begin = time.perf_counter()
        system.checkpoint("x")
        system.observe()
        times.append(time.perf_counter() - begin)
    return min(times)


def test_messages_in_flight_count_with_the_numbers_of_their_deliveries() -> None:
    """Deliveries are known by their numbers: acknowledging number 0 leaves another message behind."""

    def both_in_flight(*messages: str) -> MemoryQueue:
        queue = MemoryQueue(messages)
        for _ in messages:
            queue.receive()
        return queue

    one, other = both_in_flight("a", "b"), both_in_flight("b", "a")
    assert one.observe().data != other.observe().data
    assert one.observe().digest != other.observe().digest
    for queue in (one, other):
        queue.ack(0)
    assert (one.observe().data["in_flight"], other.observe().data["in_flight"]) == (["b"], ["a"])


@pytest.mark.parametrize("size", [100, 101, 300])
def test_what_holds_many_values_is_shown_by_their_number_and_a_digest(size: int) -> None:
    def shown(last: int) -> list[Any]:
        queue, storage, mail = MemoryQueue(range(size - 1)), MemoryStorage(), MemoryMail()
        queue.push(last)
        for number in range(size):
            storage.put(f"k{number}", last if number == size - 1 else number)
            mail.send("ann", str(last if number == size - 1 else number))
        return [queue.observe().data["ready"], storage.observe().data, mail.observe().data["sent"]]

    for one, other in zip(shown(1), shown(2)):
        assert one != other
        assert ("digest" in one) is (size > 100)


def test_keys_of_a_storage_are_text() -> None:
    with pytest.raises(DefinitionError, match=r"key: .* got 1"):
        MemoryStorage().put(1, "x")


def test_a_clock_starts_at_a_time() -> None:
    with pytest.raises(SystemSetupError, match=r"start: .* got '2020'"):
        MemoryClock("2020")


def filled(kind: str) -> Any:
    """A fake that holds something, some of it in flight or on its way."""
    if kind == "queue":
        queue = MemoryQueue(["gone", "in flight", {"a": [1, 2.5]}, b"x"])
        queue.pop()
        queue.receive()
        return queue
    if kind == "mail":
        mail = MemoryMail()
        mail.send(["ann", "bob"], "hello", "é🙂", headers={"x": "1"})
        return mail
    if kind == "clock":
        clock = MemoryClock()
        clock.advance(90.5)
        return clock
    if kind == "storage":
        return MemoryStorage({"a": 1, "b": [datetime(2024, 1, 1, tzinfo=UTC)], "": None})
    fake = HTTPFake({"charges": {"b": 1, "a": {2, 3}}}, {"GET /": lambda request, state: None})
    with fake:
        httpx.get(f"{fake.url}/?q=1", trust_env=False)
    return fake


def changed(fake: Any) -> None:
    for method, arguments in (
        ("push", ["more"]),
        ("receive", []),
        ("send", ["cid"]),
        ("advance", [1]),
        ("put", ["a", 2]),
    ):
        if hasattr(fake, method):
            getattr(fake, method)(*arguments)
    if isinstance(fake, HTTPFake):
        fake.state["charges"].clear()


FAKES = ("queue", "mail", "clock", "storage", "http")


@pytest.mark.parametrize("kind", FAKES)
def test_a_checkpoint_that_was_written_down_is_the_same_when_it_is_read_back(kind: str) -> None:
    fake = filled(kind)
    before, token = fake.observe(), fake.checkpoint("here")
    written = list(fake.save_baseline(token))
    fake.release(token)
    changed(fake)
    assert fake.observe() != before
    assert fake.restore_baseline(written)
    assert fake.observe() == before
    assert list(fake.save_baseline(fake.checkpoint("again"))) == written
    if kind == "queue":
        fake.ack(0)  # the delivery that was in flight
        assert fake.in_flight == 0
    if kind == "http":
        assert [request.query for request in fake.requests] == [{"q": "1"}]


@pytest.mark.parametrize("kind", ["queue", "mail", "storage"])
def test_a_checkpoint_is_as_large_as_what_came_since_the_one_before(kind: str) -> None:
    fake = filled(kind)

    def add(value: str) -> None:
        {"queue": lambda: fake.push(value), "mail": lambda: fake.send("ann", value)}.get(
            kind, lambda: fake.put("big", value)
        )()

    add("x" * 100_000)
    large, same = fake.checkpoint("large"), fake.checkpoint("same")
    assert 100_000 < fake.size(large) < 102_000
    assert fake.size(same) < 1_000
    add("y")
    fake.rollback(same)
    assert fake.size(fake.checkpoint("again")) < 1_000
    fake.release(large)
    assert fake.size(large) == 0


def test_the_state_of_a_fake_service_is_a_dict() -> None:
    with pytest.raises(DefinitionError, match="state: expected a dict"):
        HTTPFake([1])


NACK_THE_FIRST = [("push", 0), ("push", 0), ("receive", 0), ("receive", 0), ("nack", 0), ("receive", 0)]


@example(NACK_THE_FIRST)
@settings(max_examples=200, derandomize=True)
@given(
    st.lists(
        st.tuples(st.sampled_from(["push", "pop", "receive", "ack", "nack"]), st.integers(0, 9)), max_size=40
    )
)
def test_no_message_is_lost_whatever_is_acknowledged_in_whatever_order(
    operations: list[tuple[str, int]],
) -> None:
    queue, flying, sent, done = MemoryQueue(), {}, 0, []
    for operation, which in operations:
        if operation == "push":
            queue.push(sent)
            sent += 1
        elif operation == "pop" and len(queue):
            done.append(queue.pop())
        elif operation == "receive" and (delivery := queue.receive()):
            assert delivery.id not in flying
            flying[delivery.id] = delivery.message
        elif operation in ("ack", "nack") and flying:
            number = sorted(flying)[which % len(flying)]
            getattr(queue, operation)(number)
            message = flying.pop(number)
            done += [message] if operation == "ack" else []
        assert queue.in_flight == len(flying)
        assert queue.observe().data["in_flight"] == [flying[number] for number in sorted(flying)]
    assert sorted([*queue, *flying.values(), *done]) == list(range(sent))


def test_the_numbers_of_deliveries_depend_on_nothing_but_the_state() -> None:
    """A path with more messages behind it leads to the same number, so what an application notes is the same too."""
    fresh, used = MemoryQueue(["a"]), MemoryQueue(["x", "y", "a"])
    used.pop()
    used.ack(used.receive())
    assert fresh.observe() == used.observe()
    assert fresh.receive() == used.receive()
    assert fresh.observe() == used.observe()


def test_messages_that_go_by_other_numbers_are_another_state() -> None:
    first, second = MemoryQueue(["a"]), MemoryQueue(["b", "a"])
    first.receive()
    second.receive()
    second.receive()
    second.ack(0)
    assert first.observe().data == {"ready": [], "in_flight": ["a"]}
    assert second.observe().data == {"ready": [], "in_flight": ["a"], "deliveries": [1]}
    assert first.observe().digest != second.observe().digest

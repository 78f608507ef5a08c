"""Checks of messages: each is stored once, numbered per run, and removed by the append that logs it."""

from __future__ import annotations

import time

from clew.errors import CommitConflictError, RunOwnedError, UnknownRunError
from clew.stores.conformance.harness import (
    LEASE,
    NAMES,
    StoreHarness,
    an_entry,
    check,
    concurrently,
    expect,
    names,
    refuses,
)
from clew.stores.protocol import Message, QueueEntry, RunRow, Store, TakenRun


@check
def a_message_is_in_the_inbox_until_it_is_received(place: StoreHarness) -> None:
    store, fence = place.owned()
    other = place.open()
    expect(store.inbox("r"), [], "an empty inbox")
    expect(other.send("r", "m1", "signal", b"\x00paid"), 1, "the number of the first message")
    expect(other.send("r", "m2", "answer", b""), 2, "the number of the second message")
    expect(other.send("r", "m3", "cancel", b"{}"), 3, "the number of the third message")
    first, second, third = store.inbox("r")
    expect(first, Message(1, "m1", "signal", b"\x00paid"), "the first message")
    expect((second.kind, third.kind), ("answer", "cancel"), "the kinds of the others")
    store.append("r", [an_entry(1, kind="signal")], fence, received=[1, 3])
    expect(other.inbox("r"), [second], "the inbox after an append")
    expect(names(other.entries("r")), [("signal", "", 1)], "the log")
    store.append("r", [], fence, received=[2, 99])
    expect(other.inbox("r"), [], "the inbox after the last message")
    expect(other.send("r", "m4", "signal", b""), 4, "the number of a later message")


@check
def a_repeated_id_is_one_message(place: StoreHarness) -> None:
    store, fence = place.owned()
    store.create(RunRow("s"))
    for _ in range(2):
        expect(store.send("r", "m", "signal", b"1"), 1, "the number")
    expect(place.open().send("r", "m", "signal", b"2"), 1, "the number of the same id with another body")
    expect(store.send("s", "m", "signal", b"3"), 1, "the number of the same id to another run")
    expect([each.body for each in store.inbox("r")], [b"1"], "the bodies")
    store.append("r", [an_entry(1)], fence, received=[1])
    expect(store.send("r", "m", "signal", b"1"), 1, "the number of a message that was received")
    expect(store.inbox("r"), [], "the inbox after a received message was sent again")
    for name in NAMES[:-1]:
        store.send("s", name, "signal", b"x")
    expect([each.id for each in store.inbox("s")], ["m", *NAMES[:-1]], "unusual ids")


@check
def messages_stay_if_an_append_is_rejected(place: StoreHarness) -> None:
    store, fence = place.owned()
    store.append("r", [an_entry(1)], fence)
    store.send("r", "m", "signal", b"x")
    with refuses(RunOwnedError):
        store.append("r", [an_entry(2)], fence - 1, received=[1])
    with refuses(CommitConflictError):
        store.append("r", [an_entry(1, b"clash")], fence, received=[1])
    expect([each.n for each in store.inbox("r")], [1], "the inbox")


@check
def messages_are_numbered_without_gaps_by_several_senders(place: StoreHarness) -> None:
    stores = [place.open() for _ in range(4)]
    stores[0].create(RunRow("r"))
    numbers: list[int] = []

    def send(i: int) -> None:
        for n in range(10):
            numbers.append(stores[i].send("r", f"{i} {n}", "signal", b"x"))

    concurrently(send, len(stores))
    expect(sorted(numbers), list(range(1, 41)), "the numbers")
    expect([each.n for each in stores[0].inbox("r")], list(range(1, 41)), "the inbox")


@check
def messages_belong_to_a_run(place: StoreHarness) -> None:
    store = place.open()
    for use in (lambda: store.send("r", "m", "signal", b""), lambda: store.inbox("r")):
        with refuses(UnknownRunError):
            use()
    store.create(RunRow("r"))
    store.create(RunRow("c", child_of="r", place="a#0!0"))
    for run_id in ("r", "c"):
        store.send(run_id, "m", "signal", b"")
    store.delete("r")
    store.create(RunRow("r"))
    expect(store.inbox("r"), [], "the inbox of a new run with the id of a deleted one")
    expect(store.send("r", "m", "signal", b""), 1, "the number of its first message")


@check
def a_mark_changes_with_a_message(place: StoreHarness) -> None:
    store, fence = place.owned()
    reader = place.open()
    mark = reader.change_mark("r", ("question",))
    store.send("r", "m1", "signal", b"x")
    second = reader.change_mark("r", ("question",))
    expect(second != mark, True, "the mark changes with a message")
    store.append("r", [an_entry(1)], fence, received=[1])
    third = reader.change_mark("r", ("question",))
    store.send("r", "m2", "signal", b"x")
    expect(reader.change_mark("r", ("question",)) != third, True, "the mark changes with the next message")


@check
def runs_with_messages_are_addressed(place: StoreHarness) -> None:
    store, fence = place.owned()
    for name in NAMES[1:]:
        store.create(RunRow(name))
    expect(list(store.addressed([])), [], "of no runs")
    expect(list(store.addressed(["unknown", *NAMES])), [], "runs without messages")
    for run_id in NAMES:
        store.send(run_id, "m", "signal", b"")
        store.send(run_id, "m2", "signal", b"")
    other = place.open()
    expect(sorted(other.addressed(["unknown", *NAMES])), sorted(NAMES), "with messages")
    expect(list(other.addressed(["unknown"])), [], "a run that does not exist")
    store.append("r", [], fence, received=[1])
    expect(list(other.addressed(["r"])), ["r"], "a run with another message")
    store.append("r", [], fence, received=[2])
    expect(list(other.addressed(["r"])), [], "a run that has received its messages")


def _release(store: Store, run_id: str, fence: int, status: str, due: float | None) -> None:
    store.update(run_id, status=status, updated=1.0, error=None, fence=fence, release=True, due=due)


def _taken(store: Store, limit: int = 9) -> list[TakenRun]:
    return store.take("me", structures=["s"], queues=["default"], limit=limit, lease=LEASE)


@check
def a_message_wakes_a_run_that_sleeps_or_waits(place: StoreHarness) -> None:
    store, later = place.open(), time.time() + 1e6
    for run_id, due in (("sleeping", later), ("waiting", None), ("paused", None)):
        store.create(RunRow(run_id, structure="s"), queue=QueueEntry())
        (taken,) = _taken(store)
        _release(store, run_id, taken.fence, run_id, due)
    store.create(RunRow("queued", structure="s"), queue=QueueEntry(due=later))
    expect(_taken(store), [], "what is due")
    for run_id in ("sleeping", "waiting", "paused", "queued"):
        store.send(run_id, "m", "signal", b"")
    woken = sorted(each.row.run_id for each in _taken(store))
    expect(woken, ["sleeping", "waiting"], "what is due after messages")


@check
def a_message_before_a_release_wakes_the_run(place: StoreHarness) -> None:
    store, later = place.open(), time.time() + 1e6
    given = [(status, due) for status in ("sleeping", "waiting", "paused") for due in (None, later)]
    for status, due in given:
        store.create(RunRow(f"{status} {due is None}", structure="s"), queue=QueueEntry())
    fences = {each.row.run_id: each.fence for each in _taken(store)}
    for status, due in given:
        run_id = f"{status} {due is None}"
        store.send(run_id, "m", "signal", b"")  # after its owner has looked
        _release(store, run_id, fences[run_id], status, due)
    store.create(RunRow("not queued", structure="s"))
    fence = store.claim("not queued", "me", lease=LEASE)
    store.send("not queued", "m", "signal", b"")
    _release(store, "not queued", fence, "waiting", None)
    woken = _taken(store)
    expected = ["sleeping False", "sleeping True", "waiting False", "waiting True"]
    expect(sorted(each.row.run_id for each in woken), expected, "what is due")
    for each in woken:
        store.append(each.row.run_id, [], each.fence, received=[1])
        _release(store, each.row.run_id, each.fence, "sleeping", later)
    expect(_taken(store), [], "what is due once its message was received")


@check
def a_message_wakes_a_run_that_was_claimed_and_released(place: StoreHarness) -> None:
    store, later = place.open(), time.time() + 1e6
    store.create(RunRow("r", structure="s"), queue=QueueEntry())
    (taken,) = _taken(store)
    _release(store, "r", taken.fence, "sleeping", later)
    fence = store.claim("r", "you", lease=LEASE)
    store.send("r", "m", "signal", b"")
    expect(_taken(store), [], "what is due while another one has it")
    store.release("r", fence)
    expect([each.row.run_id for each in _taken(store)], ["r"], "what is due then")


@check
def no_message_is_missed_by_a_release_at_the_same_time(place: StoreHarness) -> None:
    store, other, later = place.open(), place.open(), time.time() + 1e6
    for n in range(20):
        store.create(RunRow(f"r{n}", structure="s"), queue=QueueEntry())
    fences = {each.row.run_id: each.fence for each in _taken(store, 20)}

    def work(i: int) -> None:
        for run_id, fence in fences.items():
            if i:
                other.send(run_id, "m", "signal", b"")
            else:
                _release(store, run_id, fence, "sleeping", later)

    concurrently(work, 2)
    expect(len(_taken(store, 20)), 20, "the runs that are due")

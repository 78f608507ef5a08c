"""The pure protocol: which starts are granted, which frames count, and that each call ends once."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.runtime.remote import frames
from clew.runtime.remote.grants import Grants


def fresh(lost_workers: int = 3) -> Grants[str]:
    numbers = count()
    return Grants(lambda: f"t{next(numbers)}", lost_workers)


def test_a_token_is_granted_once() -> None:
    grants = fresh()
    call = grants.submit()
    assert grants.begin(call.token, "a") is call
    assert grants.begin(call.token, "b") is None, "the cluster has started the task again"
    assert grants.begin(call.token, "a") is None
    assert call.grants == 1


def test_frames_count_only_from_the_worker_that_was_granted() -> None:
    grants = fresh()
    call = grants.submit()
    assert grants.accept(call.token, "a") is None, "not granted yet"
    grants.begin(call.token, "a")
    assert grants.accept(call.token, "a") is call
    assert grants.accept(call.token, "b") is None
    assert grants.accept("unknown", "a") is None


def test_a_lost_worker_gives_the_call_a_new_token_and_the_old_one_is_dead() -> None:
    grants = fresh()
    call = grants.submit()
    old = call.token
    grants.begin(old, "a")
    assert grants.lose(call, old) == "again"
    assert (call.state, call.token != old) == ("queued", True)
    assert grants.accept(old, "a") is None
    assert grants.begin(old, "b") is None
    assert grants.lose(call, old) == "ignored", "it was lost before"
    assert grants.begin(call.token, "b") is call


def test_too_many_lost_workers_end_a_call() -> None:
    grants = fresh(lost_workers=1)
    call = grants.submit()
    assert grants.lose(call, call.token) == "again"
    assert grants.lose(call, call.token) == "failed"
    assert grants.begin(call.token, "a") is None
    assert not grants.end(call)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "repeat", "lose", "end", "cancel", "late end", "gone"]),
        st.integers(0, 2),
        st.sampled_from("abc"),
    ),
    max_size=60,
)


@settings(max_examples=300)
@given(ACTIONS)
def test_in_any_order_each_grant_starts_once_and_each_call_ends_once(
    actions: list[tuple[str, int, str]],
) -> None:
    grants = fresh()
    calls = [grants.submit() for _ in range(3)]
    tokens: list[list[str]] = [[call.token] for call in calls]
    started: dict[str, str] = {}  # token -> link
    ends = [0, 0, 0]
    for action, number, link in actions:
        call = calls[number]
        if action in ("begin", "repeat"):
            token = call.token if action == "begin" else tokens[number][0]
            if grants.begin(token, link) is not None:
                assert token not in started, "granted twice"
                started[token] = link
        elif action == "lose":
            before = call.token
            if grants.lose(call, before) == "again":
                assert call.token != before
                tokens[number].append(call.token)
        elif action in ("end", "late end"):
            token = call.token if action == "end" else tokens[number][0]
            found = grants.accept(token, link)
            if found is not None:
                assert started[token] == link, "a frame of a worker that was never granted"
                ends[number] += grants.end(found)
        elif action == "cancel":
            ends[number] += grants.end(call)
        else:
            for held in grants.held_by(link):
                assert started[held.token] == link
                if grants.lose(held, held.token) == "again":
                    tokens[calls.index(held)].append(held.token)
            assert grants.held_by(link) == []
    assert all(end <= 1 for end in ends)
    assert all(call.losses <= 4 for call in calls)


@pytest.mark.parametrize(
    "frame",
    [
        frames.Ready(),
        frames.Begin("t", 1),
        frames.BodyRequest("t", 2, "record"),
        frames.Made("t", 2, "error", True),
        frames.BodyEvent("t", "chunk"),
        frames.End("t", "value"),
        frames.Ping(),
        frames.Grant(1),
        frames.DriverReply(2, "make"),
        frames.Cancel("t"),
        frames.Task("t"),
    ],
    ids=lambda frame: type(frame).__name__,
)
def test_frames_cross(frame: frames.Frame) -> None:
    assert frames.decode(frames.encode(frame)) == frame

"""Server-sent events from a real server: what changes is sent, and a lost connection loses nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from clew import Engine, SQLiteStore, Worker
from clew.web.event_streams import StreamPosition, position_of
from tests.browser import flows
from tests.web.serving import served

Event = tuple[str, str, Any]


@contextmanager
def stream(port: int, query: str, last: str = "") -> Iterator[Iterator[Event]]:
    headers = {"last-event-id": last} if last else {}
    with (
        httpx.Client(timeout=300) as client,
        client.stream("GET", f"http://localhost:{port}/api/events?{query}", headers=headers) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield events(answer.iter_lines())


def events(lines: Iterator[str]) -> Iterator[Event]:
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line and name in ("id", "event", "data"):
            found[name] = value
        elif not line and "data" in found:
            yield found["event"], found["id"], json.loads(found["data"])
            found = {}


def until(found: Iterator[Event], kind: str, test: Any = lambda data: True) -> tuple[list[Event], Event]:
    seen = []
    for event in found:
        seen.append(event)
        if event[0] == kind and test(event[2]):
            return seen, event
    raise AssertionError(f"the stream ended without {kind}: {seen}")


def answered(store: SQLiteStore, run: str) -> None:
    Engine(store=store).answer(run, True)
    Worker([flows.letter], store=store, grace=0.0).run(until_idle=True)


def test_what_changes_in_a_run_is_sent(store: SQLiteStore) -> None:
    with served(store) as port, stream(port, "runs=letter-331&at=0") as found:
        seen, _ = until(found, "status")
        assert seen[0][0] == "hello"
        assert seen[0][2]["resumed"] is False
        answered(store, "letter-331")
        seen, (_, _, steps) = until(found, "steps")
        assert (steps["run"], steps["from"]) == ("letter-331", 1)
        seen, (_, _, status) = until(found, "status", lambda data: data["status"] == "completed")
        assert status["last"] == 2


def test_a_stream_continues_where_it_was_lost(store: SQLiteStore) -> None:
    with served(store) as port:
        with stream(port, "runs=letter-331") as found:
            _, (_, last, _) = until(found, "status")
        answered(store, "letter-331")  # while nobody listens
        with stream(port, "runs=letter-331", last) as found:
            seen, (_, last, steps) = until(found, "steps")
            assert seen[0][2]["resumed"] is True
            assert (steps["from"], steps["to"]) == (1, 2)
            assert steps["items"]["columns"]["path"] == ["ask_editor#0", "publish#0"]
        with stream(port, "runs=letter-331", last) as found:
            seen, _ = until(found, "status")
            assert "steps" not in [kind for kind, _, _ in seen]  # nothing is repeated


def test_the_list_sends_new_and_changed_rows(store: SQLiteStore) -> None:
    with served(store) as port, stream(port, "list=1") as found:
        _, (_, _, first) = until(found, "rows")
        assert len(first["runs"]) == 11
        Engine(flows.walk, store=store).run({"at": 0, "upto": 2}, run_id="new")
        _, (_, _, rows) = until(found, "rows", lambda data: [r["id"] for r in data["runs"]] == ["new"])
        assert rows["counts"]["all"] == 12
        Engine(store=store).delete("new")
        _, (_, _, rows) = until(found, "rows", lambda data: data["gone"] == ["new"])


def test_a_deleted_run_is_gone(store: SQLiteStore) -> None:
    with served(store) as port, stream(port, "runs=audit-0931") as found:
        until(found, "status")
        Engine(store=store).delete("audit-0931")
        until(found, "gone", lambda data: data["run"] == "audit-0931")


def test_an_unknown_run_is_gone_and_the_stream_goes_on(store: SQLiteStore) -> None:
    with served(store) as port, stream(port, "runs=nobody&runs=walk-77") as found:
        until(found, "gone", lambda data: data["run"] == "nobody")
        until(found, "status", lambda data: data["run"] == "walk-77")


def test_positions_survive_anything() -> None:
    assert position_of(StreamPosition({"a": 5, 'ü"': 0}).cursor()) == StreamPosition({"a": 5, 'ü"': 0})


@pytest.mark.parametrize("text", [None, "", "x", "////", "W10", "bnVsbA", "eyJhIjoxfQ", "é", "A" * 30_000])
def test_a_strange_position_is_none_or_empty(text: str | None) -> None:
    assert position_of(text) in (None, StreamPosition())

"""What a handle on an idle run of another process costs, in statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clew import Engine
from clew.runtime.handles import change_watch, follower
from tests.runtime.handles.worker import Worker

Open = Callable[..., Engine]


class FastClock:
    """A clock that only sleeping moves; after `limit` seconds it lets the run go on."""

    def __init__(self, limit: float, wake: Callable[[], None]) -> None:
        self.now = 0.0
        self._limit = limit
        self._wake = wake

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        before, self.now = self.now, self.now + seconds
        if before < self._limit <= self.now:
            self._wake()


def statements(store: Any) -> list[str]:
    """The statements of a store, from now on."""
    found: list[str] = []
    if hasattr(store, "_link"):
        run = store._link.run

        def counted(what: str, work: Any) -> Any:
            found.append(what)
            return run(what, work)

        store._link.run = counted
    else:
        store._db.set_trace_callback(found.append)
        store._data_version._db.set_trace_callback(found.append)
    return found


@pytest.mark.parametrize("waits_for", ["events", "result"])
def test_an_idle_handle_only_polls(
    address: str, engine_on: Open, monkeypatch: pytest.MonkeyPatch, waits_for: str
) -> None:
    engine = engine_on(lease=1_000.0)
    handle = engine.handle("r")
    with Worker(address) as worker:
        worker.tell("run", "r", {"n": 2})
        assert worker.hear() == "paced"
        seen: list[str] = []
        idle: list[str] = []

        def wake() -> None:
            idle.extend(seen)
            worker.tell("go")
            assert worker.finish() == "completed"

        clock = FastClock(100.0, wake)
        monkeypatch.setattr(change_watch, "time", clock)
        monkeypatch.setattr(follower, "time", clock)
        events = handle.events()
        while next(events).kind != "step_committed":
            pass
        seen = statements(engine.store)
        if waits_for == "events":
            assert next(events).kind == "item_finished"
        else:
            monkeypatch.setattr("clew.runtime.handles.handle.time", clock)
            assert handle.result().status == "completed"
    if "|" in address:
        assert len(idle) <= 100 + 8
    else:
        beginning = idle.index("PRAGMA data_version")
        assert set(idle[beginning + 12 :]) == {"PRAGMA data_version"}
        assert len(idle) <= 400 + 16


def test_a_run_here_is_not_polled(tmp_path: Any) -> None:
    from clew import Graph, SQLiteStore, node

    store = SQLiteStore(tmp_path / "runs.db")
    calls: list[str] = []
    mark = store.change_mark
    store.change_mark = lambda *args: calls.append("mark") or mark(*args)
    with Engine(Graph([node(name="up", output="m")(lambda n: n + 1)]), store=store) as engine:
        handle = engine.start({"n": 1})
        assert handle.result()["m"] == 2
        assert len(calls) <= 1  # whether another process has changed it since

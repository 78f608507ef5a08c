"""An interrupt at any instant leaves no run of a memory store `running`."""

from __future__ import annotations

from typing import Any

import pytest

from clew import Engine, Graph, MemoryStore, node


@node(output="b")
def double(a: int) -> int:
    return 2 * a


@node(output="c")
def add(b: int) -> int:
    return b + 1


GRAPH = Graph([double, add])


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("operation", ["create", "append", "update"])
def test_an_interrupted_run_can_be_resumed(
    operation: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    engine = Engine(GRAPH, store=store)
    engine.run({"a": 1}, run_id="other")
    method, pending = getattr(store, operation), [True]

    def interrupted(*args: Any, **options: Any) -> Any:
        is_first = bool(pending and pending.pop())
        if is_first and when == "before":
            raise KeyboardInterrupt
        result = method(*args, **options)
        if is_first:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(store, operation, interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.run({"a": 1}, run_id="r")
    known = {row.run_id: row.status for row in store.rows()}
    assert known.get("r") in (None, "cancelled", "completed")
    assert known["other"] == "completed"
    if "r" in known:
        assert engine.resume("r")["c"] == 3
    engine.close()


def test_an_interrupt_leaves_a_run_of_another_thread_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The id that an interrupted call was given may be that of a run that executes elsewhere in the process."""
    store = MemoryStore()
    engine = Engine(GRAPH, store=store)
    other = Engine(GRAPH, store=store)
    session = other._execution.open_session({"a": 1}, "r")

    def interrupted(*args: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(store, "create", interrupted)
        with pytest.raises(KeyboardInterrupt):
            other.run({"a": 1}, run_id="r")
    assert store.row("r").status == "running"
    assert other._execution.close_session(session).status
    engine.close()
    other.close()

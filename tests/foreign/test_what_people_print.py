"""What people print, and return by mistake: reprs that never raise and stay short, errors that say what to return."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, SQLiteStore, node
from clew.errors import EncodeError


class SilentError(Exception):
    """An exception that cannot be printed."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@node(output="b")
def fail(a):
    raise SilentError(a)


@node(output="b", rescue=lambda error: 0)
def fail_gently(a):
    raise SilentError(a)


def test_failures_and_events_print_although_their_error_does_not() -> None:
    events: list[Any] = []
    engine = Engine(Graph([fail], name="f"), listeners=[events.append])
    result = engine.run({"a": 1}, check=False)
    assert "SilentError" in repr(result)
    assert "fail#0" in repr(result.failures)
    assert "SilentError" in repr(result.failures)
    assert {event.kind for event in events if "SilentError" in repr(event)} == {"item_failed", "run_finished"}
    gently = Graph([fail_gently]).run({"a": 1}).failures
    assert "rescued" in repr(gently)


def test_an_event_with_a_large_value_prints_as_one_short_line() -> None:
    events: list[Any] = []
    Engine(Graph([node(output="b", name="n")(lambda a: b"x" * 100_000)]), listeners=[events.append]).run(
        {"a": ["y" * 1000] * 1000}
    )
    assert max(len(repr(event)) for event in events) < 600


def test_an_engine_whose_graph_has_no_name() -> None:
    assert "None" not in repr(Engine(Graph([fail])))
    assert "'f'" in repr(Engine(Graph([fail], name="f")))


@pytest.mark.parametrize(
    "made",
    [
        lambda: (n for n in range(3)),
        lambda: {"a": 1}.keys(),
        lambda: map(str, [1]),
        lambda: range(3),
        lambda: deque([1]),
    ],
    ids=["generator", "view", "map", "range", "deque"],
)
def test_an_iterator_is_to_be_converted_not_registered(tmp_path: Path, made: Callable[[], Any]) -> None:
    with (
        Engine(
            Graph([node(output="b", name="n")(lambda a: made())]), store=SQLiteStore(tmp_path / "r.db")
        ) as engine,
        pytest.raises(EncodeError) as caught,
    ):
        engine.run({"a": 1})
    assert "list" in str(caught.value)
    assert "register_type" not in str(caught.value)


def test_the_result_of_a_child_is_no_value(tmp_path: Path) -> None:
    child = Graph([node(output="b", name="n")(lambda a: a)])

    @node(output="c")
    def outer(a, ctx: Context):
        return ctx.run(child, {"a": a})

    with (
        Engine(Graph([outer]), store=SQLiteStore(tmp_path / "r.db")) as engine,
        pytest.raises(EncodeError) as caught,
    ):
        engine.run({"a": 1})
    assert "result.values" in str(caught.value)
    assert "register_type" not in str(caught.value)


def test_the_path_of_a_deep_value_is_short(tmp_path: Path) -> None:
    def deep(a):
        value: list[Any] = []
        value.append(value)
        return value

    with (
        Engine(Graph([node(output="b")(deep)]), store=SQLiteStore(tmp_path / "r.db")) as engine,
        pytest.raises(EncodeError) as caught,
    ):
        engine.run({"a": 1})
    assert len(str(caught.value)) < 250

"""Nodes that raise what people's libraries raise: classes that cannot be printed, copied or compared."""

from __future__ import annotations

import dataclasses
import threading
import urllib.error
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Graph, node, result_of


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    code: int


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not printable")

    __repr__ = __str__


class Uncopyable(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("not copyable")


class Meta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        raise RuntimeError("nobody is an instance")


class Uncheckable(Exception, metaclass=Meta):
    pass


class Incomparable(Exception):
    __hash__ = None

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")


class Unreadable(Exception):
    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)

    def add_note(self, note: str) -> None:
        raise RuntimeError("no notes")


class Demanding(Exception):
    def __init__(self, one: int, *, other: int) -> None:
        super().__init__()


def endless() -> Exception:
    error = ValueError()
    error.args = (error,)
    return error


def causes() -> Exception:
    error = ValueError("first")
    for number in range(3_000):
        later = ValueError(str(number))
        later.__cause__, error = error, later
    return error


MAKERS: dict[str, Callable[[], Exception]] = {
    "frozen": lambda: Frozen(3),
    "http": lambda: urllib.error.HTTPError("http://localhost", 404, "gone", Message(), None),
    "unprintable": lambda: Unprintable("x"),
    "uncopyable": lambda: Uncopyable("x"),
    "uncheckable": lambda: Uncheckable("x"),
    "incomparable": lambda: Incomparable("x"),
    "unreadable": lambda: Unreadable("x"),
    "demanding": lambda: Demanding(1, other=2),
    "its own argument": endless,
    "many causes": causes,
    "a group": lambda: ExceptionGroup("two", [ValueError(1), ExceptionGroup("one", [KeyError("k")])]),
    "half a character": lambda: ValueError("\ud800"),
    "a lock": lambda: ValueError(threading.Lock()),
    "a local class": lambda: type("Local", (Exception,), {})("x"),
    "long": lambda: ValueError("x" * 1_000_000),
}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("kind", MAKERS)
def test_a_strange_exception_fails_its_run_and_no_more(kind: str, asynchronous: bool, tmp_path: Path) -> None:
    raised: list[Exception] = []

    def fail(kind: str) -> None:
        raised.append(MAKERS[kind]())
        raise raised[-1]

    async def afail(kind: str) -> None:
        fail(kind)

    graph = Graph([node(afail if asynchronous else fail, output="x")])
    with Engine(graph, store=tmp_path / "runs.db") as engine:
        caught: list[Exception] = []
        try:  # not pytest.raises, which asks the class
            engine.run({"kind": kind}, run_id="r")
        except Exception as error:
            caught.append(error)
        assert caught[0] is raised[0]
        result = result_of(caught[0])
        assert result is not None
        assert (result.status, [failure.path for failure in result.failures]) == (
            "failed",
            [f"{next(iter(graph.nodes))}#0"],
        )
        assert engine.replay("r").ok
    with Engine(store=tmp_path / "runs.db") as reader:  # without the code
        found = reader.result("r")
        assert type(found.error).__name__ == type(raised[0]).__name__
        assert repr(found)
        assert found._repr_html_()

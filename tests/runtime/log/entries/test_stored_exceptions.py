"""An exception of any class can be raised by a node: its run fails, is stored, looked at, resumed and replayed."""

from __future__ import annotations

import asyncio
import dataclasses
import email.message
import io
import sys
import types
import urllib.error
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, RetryPolicy, SQLiteStore, node
from clew.error_text import add_note, kind_of, line_of, message_of, notes_of
from clew.runtime.log.entries.stored_errors import error_of, name_of, plain_error
from clew.state import decode, encode
from clew.stores import Store
from tests.runtime.killed import as_if_killed
from tests.store_fixtures import local_store

pytestmark = pytest.mark.filterwarnings(
    "ignore::clew.errors.GraphWarning"
)  # closures change between two runs


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    code: int
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlots(Exception):
    code: int = 3


class NoStr(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class NoRepr(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class NotText(Exception):
    def __str__(self) -> Any:
        return 3


class NoReduce(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("no reduce")

    __reduce_ex__ = __reduce__


class NoInit(Exception):
    def __init__(self, a: int, b: int) -> None:
        self.sum = a + b


class NoEq(Exception):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = None


class NoNotes(Exception):
    @property
    def __notes__(self) -> Any:
        raise RuntimeError("no notes")

    def add_note(self, note: str) -> None:
        raise RuntimeError("no notes")


class NoAttributes(Exception):
    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise KeyError(name)


class NothingAtAll(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise KeyError(name)


class Selfish(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.me = self
        self.mine = [self]
        self.__cause__ = self


class Loud(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Meta(type):
    def __call__(cls, *args: Any) -> Any:
        return super().__call__(*args)

    def __instancecheck__(cls, instance: Any) -> bool:
        raise RuntimeError("no check")


class OfMeta(Exception, metaclass=Meta):
    pass


def http_error() -> Exception:
    return urllib.error.HTTPError("http://x", 503, "busy", email.message.Message(), None)


def http_error_with_a_body() -> Exception:
    return urllib.error.HTTPError("http://x", 503, "busy", email.message.Message(), io.BytesIO(b"no"))


def in_a_circle() -> Exception:
    one, other = ValueError("one"), KeyError("other")
    one.__cause__, other.__cause__ = other, one
    one.other, other.one = other, one
    return one


def a_long_line_of_causes() -> Exception:
    error = ValueError("first")
    for number in range(3000):
        after = ValueError(number)
        after.__cause__ = error
        error = after
    return error


def deep_groups() -> Exception:
    error: Exception = ValueError("deep")
    for _ in range(500):
        error = ExceptionGroup("in", [error])
    return error


def a_note_that_is_none() -> Exception:
    error = ValueError("noted")
    error.__notes__ = "not a list"
    return error


ERRORS: dict[str, Callable[[], Exception]] = {
    "frozen": lambda: Frozen(3, "cold"),
    "frozen with slots": FrozenSlots,
    "no str": lambda: NoStr("x"),
    "no repr": lambda: NoRepr("x"),
    "str gives a number": lambda: NotText("x"),
    "no reduce": lambda: NoReduce("x"),
    "init takes others": lambda: NoInit(1, 2),
    "no eq, no hash": lambda: NoEq("x"),
    "no notes": lambda: NoNotes("x"),
    "no attributes": lambda: NoAttributes("x"),
    "nothing at all": lambda: NothingAtAll("x"),
    "str exits": lambda: Loud("x"),
    "a metaclass": lambda: OfMeta("x"),
    "HTTPError": http_error,
    "HTTPError with a body": http_error_with_a_body,
    "a group": lambda: ExceptionGroup("two", [Frozen(1, "a"), http_error(), NoStr("x")]),
    "deep groups": deep_groups,
    "a very long message": lambda: ValueError("x" * 3_000_000),
    "half a surrogate pair": lambda: ValueError("a \ud800 b"),
    "a NUL": lambda: ValueError("a \0 b"),
    "holds itself": lambda: Selfish("x"),
    "a circle": in_a_circle,
    "a long line of causes": a_long_line_of_causes,
    "arguments that cannot be stored": lambda: ValueError(object, io.BytesIO(), {1: object()}),
    "notes that are no list": a_note_that_is_none,
}


store = local_store


def failing(make: Callable[[], Exception], **options: Any) -> Graph:
    @node(output="y", **options)
    def act(x: int) -> int:
        if x:
            raise make()
        return x

    return Graph([node(name="first", output="one")(lambda x: 1), act])


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("asynchronously", [False, True])
def test_its_run_fails_and_says_where(store: Store, kind: str, asynchronously: bool) -> None:
    engine = Engine(failing(ERRORS[kind]), store=store)
    if asynchronously:
        result = asyncio.run(engine.arun({"x": 1}, run_id="r", check=False))
    else:
        result = engine.run({"x": 1}, run_id="r", check=False)
    for found in (result, engine.result("r")):
        (failure,) = found.failures
        assert (failure.node, failure.path, failure.step, failure.attempts) == ("act", "act#0", 1, 1)
        assert name_of(failure.error)[0] == kind_of(type(ERRORS[kind]()))
        assert line_of(failure.error)
        assert repr(found)
    assert engine.runs()[0].status == "failed"


@pytest.mark.parametrize("kind", ERRORS)
def test_it_is_stored_completely_enough_to_be_raised_again(kind: str) -> None:
    error = ERRORS[kind]()
    data = encode(plain_error(error), ordered=True)
    for to_handle in (False, True):
        found = error_of(decode(data), to_handle=to_handle)
        assert name_of(found) == name_of(error)
        encode(plain_error(found), ordered=True)


@pytest.mark.parametrize("kind", ERRORS)
def test_a_node_that_catches_its_class_does_so_again(tmp_path: Path, kind: str) -> None:
    make, left = ERRORS[kind], list[SQLiteStore]()
    caught_as, met = type(make()), list[bool]()

    def call(name: str) -> str:
        if name == "bad":
            raise make()
        left.append(as_if_killed(tmp_path / "runs.db"))
        return name

    @node(output="y")
    def act(x: int, ctx: Context) -> str:
        try:
            return ctx.record("call", call, "bad")
        except Exception as error:
            met.append(caught_as in type(error).__mro__ or caught_as is OfMeta)
            return ctx.record("call", call, "good")

    with closing(SQLiteStore(tmp_path / "runs.db")) as store:
        Engine(Graph([act]), store=store).run({"x": 1}, run_id="r")
    engine = Engine(Graph([act]), store=left[0])
    assert engine.resume("r")["y"] == "good"
    assert engine.replay("r").ok
    assert met == [True, True, True]


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_retried_confined_exported_and_imported(
    tmp_path: Path, store: Store, kind: str, on_error: str
) -> None:
    graph = failing(ERRORS[kind], retry=RetryPolicy(max_attempts=2, base_delay=0.0001))
    engine = Engine(graph, store=store, on_error=on_error)
    assert engine.run({"x": 1}, run_id="r", check=False).failures[0].attempts == 2
    with closing(SQLiteStore(tmp_path / "other.db")) as other:
        there = Engine(graph, store=other, on_error=on_error)
        there.import_run(engine.export_run("r"))
        (failure,) = there.result("r").failures
        assert (failure.path, failure.attempts) == ("act#0", 2)


def test_another_engine_resumes_a_run_that_failed_with_an_http_error(tmp_path: Path) -> None:
    is_down = [True]

    @node(output="page")
    def fetch(x: int) -> str:
        if is_down:
            raise http_error()
        return "page"

    with closing(SQLiteStore(tmp_path / "runs.db")) as store:
        assert Engine(Graph([fetch]), store=store).run({"x": 1}, run_id="r", check=False).status == "failed"
    is_down.clear()
    with closing(SQLiteStore(tmp_path / "runs.db")) as store:
        engine = Engine(Graph([fetch]), store=store)
        seen = engine.result("r")
        assert isinstance(seen.error, OSError)
        assert message_of(seen.error) == "HTTP Error 503: busy"
        assert engine.resume("r")["page"] == "page"


# -- replay ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_error", ["stop", "continue"])
@pytest.mark.parametrize("kind", [kind for kind in ERRORS if kind != "arguments that cannot be stored"])
def test_a_replay_raises_the_same(store: Store, kind: str, on_error: str) -> None:
    graph = failing(ERRORS[kind])
    Engine(graph, store=store, on_error=on_error).run({"x": 1}, run_id="r", check=False)
    report = Engine(graph, store=store).replay("r", strict=False)
    assert report.divergences == ()
    assert report.items == 2


@pytest.mark.parametrize("on_error", ["stop", "continue"])
@pytest.mark.parametrize(
    "now",
    [lambda: Frozen(4, "cold"), lambda: Frozen(3, "hot"), lambda: FrozenSlots(3), lambda: ValueError("x")],
)
def test_a_replay_of_a_frozen_exception_reports_another_one(
    store: Store, on_error: str, now: Callable[[], Exception]
) -> None:
    Engine(failing(lambda: Frozen(3, "cold")), store=store, on_error=on_error).run(
        {"x": 1}, run_id="r", check=False
    )
    (found,) = Engine(failing(now), store=store).replay("r", strict=False).divergences
    assert (found.kind, found.path, found.step) == ("error", "act#0", 1)


def test_a_replay_reports_a_failure_that_is_mended(store: Store) -> None:
    Engine(failing(lambda: Frozen(3, "cold")), store=store).run({"x": 1}, run_id="r", check=False)
    mended = Graph([node(name="first", output="one")(lambda x: 1), node(name="act", output="y")(lambda x: x)])
    (found,) = Engine(mended, store=store).replay("r", strict=False).divergences
    assert (found.kind, found.path) == ("error", "act#0")


def test_a_replay_reports_a_failure_in_another_place(store: Store) -> None:
    """The same error, and another node raises it: the one that did does not run any more."""
    Engine(failing(lambda: Frozen(3, "cold")), store=store).run({"x": 1}, run_id="r", check=False)

    @node(output="y")
    def other(x: int) -> int:
        raise Frozen(3, "cold")

    moved = Graph([node(name="first", output="one")(lambda x: 1), other])
    found = Engine(moved, store=store).replay("r", strict=False).divergences
    assert [(each.kind, each.path) for each in found] == [("absent", "act#0")]


# -- no code of a class runs while it is read ----------------------------------------------------------------------


def watched(said: list[str], module: str) -> type[Exception]:
    """A class that tells of each of its methods that is called, in a module of its own."""

    class Watched(ValueError):
        def __new__(cls, *args: Any) -> Any:
            said.append("new")
            return super().__new__(cls, *args)

        def __init__(self, *args: Any) -> None:
            said.append("init")
            super().__init__(*args)

        def __init_subclass__(cls, **options: Any) -> None:
            said.append("init_subclass")

        def __str__(self) -> str:
            said.append("str")
            return "watched"

        def __repr__(self) -> str:
            said.append("repr")
            return "watched"

        def __setattr__(self, name: str, value: Any) -> None:
            said.append("setattr")

        def __getattribute__(self, name: str) -> Any:
            said.append("getattribute")
            return super().__getattribute__(name)

        def __eq__(self, other: object) -> bool:
            said.append("eq")
            return self is other

        def __del__(self) -> None:
            """What ends a Python object's life is Python's to call."""

        __hash__ = Exception.__hash__

    Watched.__module__, Watched.__qualname__ = module, "Watched"
    return Watched


@pytest.mark.parametrize("to_handle", [False, True])
@pytest.mark.parametrize("is_partial", [False, True])
def test_nothing_of_it_is_called(monkeypatch: pytest.MonkeyPatch, to_handle: bool, is_partial: bool) -> None:
    said: list[str] = []
    module = types.ModuleType("watched_module")
    module.__getattr__ = lambda name: said.append(name)
    module.Watched = watched(said, "watched_module")
    monkeypatch.setitem(sys.modules, "watched_module", module)
    error = module.Watched("x", object()) if is_partial else module.Watched("x")
    data = encode(plain_error(error), ordered=True)
    said.clear()
    found = error_of(decode(data), to_handle=to_handle)
    error_of(decode(encode({**plain_error(ValueError()), "type": "watched_module:Gone.away"}, ordered=True)))
    assert said == []
    assert (type(found) is module.Watched) == (to_handle and not is_partial)
    assert isinstance(found, ValueError)


@pytest.mark.parametrize(
    "kind", ["os:system", "builtins:print", "builtins:dict", "builtins:SystemExit", "nowhere:X"]
)
@pytest.mark.parametrize("to_handle", [False, True])
@pytest.mark.parametrize("where", ["type", "bases", "within", "cause", "group"])
def test_only_exception_classes_are_built(
    monkeypatch: pytest.MonkeyPatch, kind: str, to_handle: bool, where: str
) -> None:
    called: list[Any] = []
    monkeypatch.setattr("os.system", called.append)
    named = {"type": kind, "message": "touch owned", "args": ["touch owned"]}
    plain: dict[str, Any] = {"type": "nowhere:Y", "message": "m"}
    plain |= {
        "type": named,
        "bases": {"bases": [kind]},
        "within": {"within": {"a": named}},
        "cause": {"cause": named},
        "group": {"type": "builtins:ExceptionGroup", "group": ["two", [named]]},
    }[where]
    found = error_of(plain, to_handle=to_handle)
    assert type(found) is not SystemExit
    assert called == []


# -- telling -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ERRORS)
def test_text_of_it_and_a_note_on_it(kind: str) -> None:
    error = ERRORS[kind]()
    assert message_of(error).encode() or not message_of(error)
    add_note(error, "once")
    add_note(error, "once")
    assert notes_of(error) == ["once"]


@pytest.mark.parametrize("kind", [kind for kind in ERRORS if kind != "a long line of causes"])
def test_a_retryable_that_raises_leaves_the_error_as_it_was(kind: str) -> None:
    def retryable(error: BaseException) -> bool:
        raise ZeroDivisionError("in retryable")

    result = failing(
        ERRORS[kind], retry=RetryPolicy(max_attempts=2, base_delay=0.1, retryable=retryable)
    ).run({"x": 1}, check=False)
    assert type(result.failures[0].error) is type(ERRORS[kind]())
    assert "retryable raised ZeroDivisionError" in notes_of(result.failures[0].error)[0]

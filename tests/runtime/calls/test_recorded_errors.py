"""An exception that was recorded is met again, whatever its class: the call that raised it is not made again."""

from __future__ import annotations

import asyncio
import json
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pydantic
import pydantic_core
import pytest

from clew import Context, Engine, Graph, SQLiteStore, node
from clew.errors import ClewError
from clew.runtime.log.entries.stored_errors import error_of, plain_error
from tests.runtime.killed import as_if_killed


class Response:
    """What client libraries hang on their errors, and nobody can store."""

    text = "no"


class Refused(ConnectionError):
    """An error that says what its response said."""

    def __init__(self, code: int, *, response: Any) -> None:
        super().__init__(code)
        self.response = response

    def __str__(self) -> str:
        return f"{self.args[0]} because {self.response.text}"


def plain_local_error() -> Exception:
    class Plain(Exception):
        pass

    return Plain("not here")


def local_error() -> Exception:
    class Local(LookupError):
        pass

    return Local("not here")


def pydantic_error() -> Exception:
    class Model(pydantic.BaseModel):
        a: int

    try:
        Model(a="x")
    except ValueError as error:
        return error
    raise AssertionError


ERRORS: dict[str, tuple[Callable[[], Exception], type[Exception]]] = {
    "a response that cannot be stored": (lambda: Refused(503, response=Response()), Refused),
    "an error within": (lambda: urllib.error.URLError(OSError(111, "refused")), urllib.error.URLError),
    "a local class": (local_error, LookupError),
    "a local class of no kind": (plain_local_error, Exception),
    "a group": (lambda: ExceptionGroup("two", [ValueError(1), KeyError("a")]), ExceptionGroup),
    "a class that cannot be derived from": (pydantic_error, pydantic.ValidationError),
}


def stored(error: BaseException) -> Exception:
    """What comes back of an error."""
    found = error_of(json.loads(json.dumps(plain_error(error))), to_handle=True)
    assert isinstance(found, Exception)
    return found


@pytest.mark.parametrize("kind", ERRORS)
def test_it_comes_back_as_something_that_the_same_handlers_catch(kind: str) -> None:
    make, caught_as = ERRORS[kind]
    error = make()
    found = stored(error)
    assert isinstance(found, caught_as)
    assert not isinstance(found, ClewError)
    assert (str(found), type(found).__name__) == (str(error), type(error).__name__)


@pytest.mark.parametrize("kind", ERRORS)
def test_and_once_more(kind: str) -> None:
    make, caught_as = ERRORS[kind]
    found = stored(stored(make()))
    assert isinstance(found, caught_as)
    assert str(found) == str(make())


def test_what_could_be_stored_of_it_is_there() -> None:
    reason = stored(urllib.error.URLError(OSError(111, "refused"))).reason
    assert (type(reason), reason.errno) == (ConnectionRefusedError, 111)


def test_what_could_not_be_stored_says_so() -> None:
    found = stored(stored(Refused(503, response=Response())))
    with pytest.raises(
        AttributeError, match=r"has no attribute 'response'.*not be stored: response"
    ) as raised:
        found.response
    assert (raised.value.name, raised.value.obj) == ("response", found)
    assert not hasattr(found, "response")


class Order(pydantic.BaseModel):
    count: int
    code: str
    size: tuple[int, ...] = ()
    handle: object = None

    @pydantic.field_validator("code")
    @classmethod
    def check_code(cls, code: str) -> str:
        raise ValueError("no " + code)

    @pydantic.field_validator("size", mode="before")
    @classmethod
    def check_size(cls, size: Any) -> Any:
        raise pydantic_core.PydanticCustomError("odd_size", "an odd {size}", {"size": size})

    @pydantic.field_validator("handle")
    @classmethod
    def check_handle(cls, handle: object) -> object:
        assert handle is None
        return handle


def test_a_validation_error_has_its_problems() -> None:
    with pytest.raises(pydantic.ValidationError) as raised:
        Order.model_validate_json('{"count": "x", "code": "c", "size": 3}')
    found = stored(stored(raised.value))
    assert type(found) is pydantic.ValidationError
    assert (found.title, found.error_count(), str(found)) == ("Order", 3, str(raised.value))
    told, original = found.errors(), raised.value.errors()
    assert [(each["type"], each["loc"], each["msg"], each["input"]) for each in told] == [
        (each["type"], each["loc"], each["msg"], each["input"]) for each in original
    ]
    assert [type(told[1]["ctx"]["error"]), told[2]["ctx"]] == [ValueError, {"size": 3}]


def test_a_validation_error_of_what_cannot_be_stored_has_its_text() -> None:
    with pytest.raises(pydantic.ValidationError) as raised:
        Order(count=Response(), code="c", handle=Response())
    found = stored(raised.value)
    assert isinstance(found, pydantic.ValidationError)
    assert [(each["loc"], each["type"]) for each in found.errors()] == [
        (("count",), "int_type"),
        (("code",), "value_error"),
        (("handle",), "assertion_error"),
    ]
    assert "Response object" in found.errors()[0]["input"]


def test_a_validation_error_that_pydantic_cannot_build_is_a_stand_in() -> None:
    plain = plain_error(pydantic_error())
    plain["problems"]["rows"][0]["type"] = ["of another version"]
    found = error_of(plain, to_handle=True)
    assert (type(found).__name__, type(found).__bases__) == ("ValidationError", (ValueError,))


def test_the_members_of_a_group_are_there() -> None:
    found = stored(ExceptionGroup("two", [ValueError(1), ExceptionGroup("in", [KeyError("a")])]))
    assert isinstance(found, ExceptionGroup)
    assert [type(each) for each in found.exceptions] == [ValueError, ExceptionGroup]
    assert found.subgroup(KeyError) is not None


def test_of_an_error_about_which_nothing_is_known_the_name_is() -> None:
    found = error_of({"type": "gone:Away", "message": "m", "bases": ["gone:Base", "builtins:Exception"]})
    assert (type(found).__name__, type(found).__bases__, str(found)) == ("Away", (Exception,), "m")


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("is_async", [False, True])
def test_the_call_is_not_made_again(tmp_path: Path, kind: str, is_async: bool) -> None:
    make, caught_as = ERRORS[kind]
    calls: list[str] = []
    left: list[SQLiteStore] = []

    def call(name: str) -> str:
        calls.append(name)
        if name == "first":
            raise make()
        if not left:
            left.append(as_if_killed(tmp_path / "runs.db"))
        return name

    async def acall(name: str) -> str:
        await asyncio.sleep(0)
        return call(name)

    @node(output="said")
    def act(x: int, ctx: Context) -> list[str]:
        try:
            ctx.record("call", call, "first")
        except caught_as as error:
            return [str(error), ctx.record("call", call, "second")]
        raise AssertionError

    @node(output="said", name="act")
    async def aact(x: int, ctx: Context) -> list[str]:
        try:
            await ctx.record("call", acall, "first")
        except caught_as as error:
            return [str(error), await ctx.record("call", acall, "second")]
        raise AssertionError

    graph = Graph([aact if is_async else act])
    done = Engine(graph, store=SQLiteStore(tmp_path / "runs.db")).run({"x": 1}, run_id="r")
    assert (done.status, calls) == ("completed", ["first", "second"])
    engine = Engine(graph, store=left[0])
    result = engine.resume("r")
    assert result["said"] == done["said"]
    assert calls == ["first", "second", "second"]
    assert result.state.digest == done.state.digest
    assert engine.replay("r")

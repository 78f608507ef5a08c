"""Errors as data: what comes back of an exception that was stored."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from clew import errors
from clew.errors import ClewError, InputError
from clew.runtime.log.entries.stored_errors import RecordedError, error_of, plain_error
from clew.state import decode, encode


class Plain(ValueError):
    """No code of its own."""


class Built(Exception):
    """Takes something else than a message."""

    calls = 0

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        Built.calls += 1


class Spoken(Exception):
    """Says something of its own."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __str__(self) -> str:
        return f"no {self.what}"


class Outer:
    class Inner(Exception):
        """A class in a class."""


def again(error: BaseException, *, to_handle: bool = False) -> Any:
    """An error that was stored and read."""
    return error_of(decode(encode(plain_error(error), ordered=True)), to_handle=to_handle)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        ValueError(),
        ValueError("a", 2),
        KeyError("name"),
        FileNotFoundError(2, "No such file", "x.txt"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        StopIteration(3),
        InputError("the graph has no value 'x'"),
    ],
    ids=repr,
)
def test_errors_of_python_and_of_this_library_come_back_as_they_were(error: Exception) -> None:
    for found in (again(error), again(error, to_handle=True)):
        assert (type(found), str(found), found.args) == (type(error), str(error), error.args)


@pytest.mark.parametrize(
    "error",
    [
        Plain("one"),
        Built(404, "gone"),
        Spoken("way"),
        Outer.Inner("deep"),
    ],
    ids=repr,
)
def test_others_come_back_to_the_node_that_handles_them(error: Exception) -> None:
    found = again(error, to_handle=True)
    assert (type(found), str(found), found.args) == (type(error), str(error), error.args)


def test_who_looks_gets_a_stand_in_and_not_the_class() -> None:
    found = again(Plain("one"))
    assert isinstance(found, ValueError)
    assert not isinstance(found, Plain)
    assert (str(found), type(found).__qualname__) == ("one", "Plain")


def test_attributes_come_back() -> None:
    found = again(Built(404, "gone"), to_handle=True)
    assert isinstance(found, Built)
    assert found.status == 404


def test_of_an_os_error_too() -> None:
    found = again(FileNotFoundError(2, "No such file", "x.txt"))
    assert isinstance(found, OSError)
    assert (found.errno, found.filename) == (2, "x.txt")


def test_no_code_of_the_class_runs() -> None:
    plain, before = plain_error(Built(404, "gone")), Built.calls
    error_of(plain)
    error_of(plain, to_handle=True)
    assert Built.calls == before


def is_stand_in(error: BaseException, name: str, message: str) -> bool:
    """Whether an error has the name and the message of another one, and is an Exception of no program's class."""
    return (type(error).__name__, str(error), type(error).__bases__) == (name, message, (Exception,))


def test_nothing_is_imported() -> None:
    sys.modules.pop("this", None)
    assert is_stand_in(error_of({"type": "this:d", "message": "no"}), "d", "no")
    assert "this" not in sys.modules


def local() -> BaseException:
    class Local(Exception):
        """Nobody finds it by its name."""

    return Local("here")


def test_an_exception_without_a_nearer_base_has_its_name_and_message() -> None:
    found = again(local())
    assert is_stand_in(found, "Local", "here")
    assert type(found).__qualname__ == type(local()).__qualname__


def test_what_is_not_built_again_says_what_it_was() -> None:
    found = again(KeyboardInterrupt("^C"))
    assert isinstance(found, RecordedError)
    assert (found.kind, found.message) == ("builtins:KeyboardInterrupt", "^C")


def test_and_keeps_saying_so_however_often_it_is_stored() -> None:
    once = again(local())
    assert is_stand_in(again(once), "Local", "here")


@pytest.mark.parametrize(
    "kind", ["builtins:print", "builtins:dict", "builtins:SystemExit", "x", "os:", "os:1", "os:path.no name"]
)
def test_only_exceptions_are_built(kind: str) -> None:
    assert type(error_of({"type": kind, "message": "m"})) is RecordedError


@pytest.mark.parametrize("kind", ["nowhere:path", "os:path", "os:outer.path"])
def test_what_is_no_exception_here_is_not_used(kind: str) -> None:
    assert is_stand_in(error_of({"type": kind, "message": "m"}), "path", "m")


class Stubborn(Exception):
    """Says something that cannot be stored."""

    response: object = None

    def __str__(self) -> str:
        return f"no {type(self.response).__name__}"


def test_for_a_class_that_would_say_something_else_there_is_a_stand_in() -> None:
    error = Stubborn()
    error.response = object()
    found = again(error, to_handle=True)
    assert isinstance(found, Stubborn)
    assert type(found) is not Stubborn
    assert (str(found), type(found).__qualname__) == ("no object", "Stubborn")


def test_arguments_that_cannot_be_stored_are_said_in_the_message() -> None:
    found = again(ValueError(object))
    assert isinstance(found, ValueError)
    assert str(found) == "<class 'object'>"


def test_attributes_that_cannot_be_stored_are_left_out() -> None:
    error = Built(404, "gone")
    error.response = object()
    assert vars(again(error, to_handle=True)) == {"status": 404}


def test_notes_come_back() -> None:
    error = ValueError("no")
    error.add_note("while it was raining")
    assert again(error).__notes__ == ["while it was raining"]


def test_the_cause_comes_back() -> None:
    error = ValueError("no")
    error.__cause__ = KeyError("x")
    cause = again(error).__cause__
    assert (type(cause), str(cause)) == (KeyError, "'x'")


def test_where_it_was_raised_is_stored() -> None:
    with pytest.raises(ValueError, match="no") as caught:
        raise ValueError("no")
    assert "test_where_it_was_raised_is_stored" in plain_error(caught.value)["traceback"]


def test_of_a_long_traceback_the_innermost_calls_are_stored() -> None:
    def down(level: int) -> None:
        if level:
            further(level - 1)
        raise ValueError("here")

    def further(level: int) -> None:
        down(level)

    with pytest.raises(ValueError, match="here") as caught:
        down(150)
    stored = plain_error(caught.value)["traceback"]
    assert stored.count("File ") == 100
    assert stored.rstrip().splitlines()[-1].strip() == 'raise ValueError("here")'


@pytest.mark.parametrize(
    "cls", [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, ClewError)]
)
def test_every_error_of_this_library_comes_back(cls: type[ClewError]) -> None:
    assert repr(again(cls("what, where, what to do"))) == repr(cls("what, where, what to do"))

"""Exceptions cross as they are: with their type, text and attributes, whatever their constructor takes."""

from __future__ import annotations

import copyreg
import threading
from subprocess import CalledProcessError
from typing import Any

import pytest

from clew.errors import NodeError
from clew.runtime.remote.pickling import loads, pack_error, plain_dumps


class CodeError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


class NamedError(KeyError):
    def __init__(self, *, key: str, table: str) -> None:
        super().__init__(key)
        self.table = table


class ExitError(SystemExit):
    def __init__(self, why: str) -> None:
        super().__init__(3)
        self.why = why


class MadeError(Exception):
    def __new__(cls, a: int, b: int) -> MadeError:
        return super().__new__(cls, a)

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} of {b}")


class ReducedError(Exception):
    def __init__(self, lock: Any) -> None:
        super().__init__("reduced")
        self.lock = lock

    def __reduce__(self) -> Any:
        return ReducedError, (None,)


def crossed(error: BaseException) -> Any:
    return loads(pack_error(error, plain_dumps))


@pytest.mark.parametrize(
    "error",
    [
        CodeError(7),
        NamedError(key="k", table="t"),
        ExitError("done"),
        MadeError(1, 2),
        UnicodeDecodeError("utf-8", b"a", 0, 1, "bad"),
        CalledProcessError(2, ["ls"]),
        FileNotFoundError(2, "no such file", "a.txt"),
        ExceptionGroup("many", [CodeError(1), ValueError("v")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_exceptions_keep_type_text_and_attributes(error: BaseException) -> None:
    error.add_note("seen")
    found = crossed(error)
    assert (type(found), str(found), repr(found)) == (type(error), str(error), repr(error))
    assert vars(found).keys() == vars(error).keys()
    assert found.__notes__ == ["seen"]


def test_what_a_library_registers_for_exceptions_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing distributed registers a reducer for every exception, which loses those of decoding."""
    monkeypatch.setitem(copyreg.dispatch_table, UnicodeDecodeError, lambda error: (ValueError, ()))
    error = UnicodeDecodeError("utf-8", b"a", 0, 1, "bad")
    assert repr(crossed(error)) == repr(error)


def test_members_of_a_group_keep_theirs() -> None:
    (found,) = crossed(ExceptionGroup("many", [CodeError(1)])).exceptions
    assert (type(found), found.code) == (CodeError, 1)


def test_a_class_decides_how_it_is_pickled() -> None:
    assert type(crossed(ReducedError(threading.Lock()))) is ReducedError


def test_what_cannot_cross_becomes_a_node_error_with_its_text() -> None:
    error = CodeError(7)
    error.code = threading.Lock()
    found = crossed(error)
    assert (type(found), "CodeError: code 7" in str(found)) == (NodeError, True)

"""How functions, values and exceptions are sent between a driver and its workers.

- A function is sent by its import path, with the hash of its code. If the module has a node under that name, this means
  the function of the node. Other functions are sent by value if the cluster's pickler can do that.
- The same applies to nodes inside other values, such as the graph of a child. Functions of a script are sent to a
  cluster by value, because its workers have a different ``__main__``.
- Exceptions keep their type, their text and their attributes. Pickle would call the constructor with `args`. A
  constructor with different parameters would reject or misinterpret them. So exceptions are built without their
  constructor. The traceback becomes a note. An exception that cannot be built becomes a `NodeError` with its text.
- Questions, waits and the end of an attempt (`Asking`, `Waiting`, `Leaving`) are sent as their parts.
"""

from __future__ import annotations

import importlib
import io
import pickle
import sys
from collections.abc import Callable
from functools import cache, reduce
from traceback import format_exception
from types import FunctionType, MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from clew.error_text import add_note, line_of, safely
from clew.errors import NodeError
from clew.graph import Node
from clew.graph.hashing.code_hashes import CodeHash, code_hash
from clew.runtime.calls.scopes import Asking, Leaving
from clew.runtime.calls.waiting import Waiting
from clew.runtime.remote.frames import How
from clew.runtime.remote.results import pack_result
from clew.runtime.result import RunResult

Dumps = Callable[[Any], bytes]
Path = tuple[str, str]

_MAIN = ("__main__", "__mp_main__")


class FunctionRef(msgspec.Struct, frozen=True):
    """A function by import path, and the hash of its code; of a script, the hash is empty."""

    module: str
    name: str
    digest: str = ""


class CodeDiffersError(Exception):
    """A worker has other code for a function."""


def path_of(func: Any) -> Path | None:
    """Return the module and the name by which another process finds a function; None if it would not."""
    module = getattr(func, "__module__", None)
    name = getattr(func, "__qualname__", None)
    if type(module) is not str or type(name) is not str or "<" in name:
        return None
    try:
        return (module, name) if by_path(module, name) is func else None
    except (ImportError, AttributeError):
        return None


def by_path(module: str, name: str) -> Any:
    """Return the function at a path; if a node is there, its function."""
    found = _at(module, name)
    return found.func if isinstance(found, Node) else found


def _at(module: str, name: str) -> Any:
    return reduce(getattr, name.split("."), sys.modules.get(module) or importlib.import_module(module))


_hashes: WeakKeyDictionary[Any, CodeHash] = WeakKeyDictionary()


def reference(func: Any, *, is_cluster: bool) -> FunctionRef | None:
    """Return a function by reference; None if it has to be sent by value."""
    path = path_of(func)
    if path is None or (is_cluster and path[0] in _MAIN):
        return None
    return FunctionRef(*path, "" if path[0] in _MAIN else _digest(func))


def resolve(ref: FunctionRef) -> Any:
    """Return the function of a reference; raise `CodeDiffersError` if its code here differs."""
    func = by_path(ref.module, ref.name)
    if ref.digest and (mine := _digest(func)) != ref.digest:
        version = ".".join(map(str, sys.version_info[:3]))
        raise CodeDiffersError(
            f"{ref.module}.{ref.name} has code hash {mine[:12]} here, and {ref.digest[:12]} in the driver "
            f"(Python {version} here, from {getattr(sys.modules[ref.module], '__file__', '?')})"
        )
    return func


def _digest(func: Any) -> str:
    try:
        known = _hashes.get(func)
    except TypeError:  # cannot be referenced weakly
        return code_hash(func).digest
    if known is None or not known.is_current():
        known = _hashes[func] = code_hash(func)
    return known.digest


# -- values ----------------------------------------------------------------------------------------------------


def pickling(base: type[pickle.Pickler], *, is_cluster: bool) -> Dumps:
    """Return a function that pickles values with a pickler, and functions and nodes by import path."""
    inherited = getattr(base, "reducer_override", None)

    def reduced(obj: Any) -> Any:
        if isinstance(obj, Node):
            path = path_of(obj.func)
            if path is not None and not (is_cluster and path[0] in _MAIN) and _at(*path) is obj:
                return _at, path
        elif type(obj) is FunctionType:
            path = path_of(obj)
            if path is not None and not (is_cluster and path[0] in _MAIN) and _at(*path) is not obj:
                return by_path, path  # the function of a node
        elif type(obj) is MappingProxyType:
            return _view, (dict(obj),)
        elif isinstance(obj, RunResult):
            return pack_result(obj)
        elif isinstance(obj, BaseException):
            if _has_own_constructor(type(obj)):
                return _built, (type(obj), obj.args), obj.__dict__ or None
            return obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)  # not as a library has registered for its class
        return NotImplemented

    class Pickler(base):  # type: ignore[misc, valid-type]
        def reducer_override(self, obj: Any) -> Any:
            found = reduced(obj)
            return inherited(self, obj) if found is NotImplemented and inherited is not None else found

    def dumps(value: Any) -> bytes:
        file = io.BytesIO()
        Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
        return file.getvalue()

    return dumps


def _has_own_constructor(kind: type[BaseException]) -> bool:
    """Return whether pickle would call a constructor written in Python, with arguments that are not its own."""
    is_own = isinstance(kind.__init__, FunctionType) or isinstance(kind.__new__, FunctionType)
    return (
        is_own and kind.__reduce__ is BaseException.__reduce__ and kind.__reduce_ex__ is object.__reduce_ex__
    )


def _built(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """Return an exception with the constructor of the built-in class that it extends."""
    known = next(each for each in kind.__mro__ if each.__module__ == "builtins")
    error: BaseException = known.__new__(kind, *args)
    known.__init__(error, *args)  # type: ignore[misc]
    return error


def _view(values: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(values)  # pickle does not find the class itself


@cache
def cluster_dumps(base: type[pickle.Pickler]) -> Dumps:
    """Return the function that pickles values for a cluster, with the pickler of the cluster."""
    return pickling(base, is_cluster=True)


loads = pickle.loads
plain_dumps = pickling(pickle.Pickler, is_cluster=False)


# -- ends ------------------------------------------------------------------------------------------------------


def pack_raised(error: BaseException, dumps: Dumps) -> tuple[How, bytes]:
    """Return what is sent for an exception that ends a body, a recorded call or a request."""
    if isinstance(error, Asking):
        parts = (
            type(error) is Waiting,
            *(error.question, error.about, error.position),
            tuple(error.others),
            error.refusal,
        )
        return "unwind", dumps(parts)
    if isinstance(error, Leaving):
        return "unwind", dumps(str(error))
    return "error", pack_error(error, dumps)


def unpack_raised(how: str, data: bytes) -> BaseException:
    """Return the exception that was sent."""
    found: Any = loads(data)
    if how == "error":
        error: BaseException = found
        return error
    if isinstance(found, str):
        return Leaving(found)
    is_waiting, question, about, position, others, refusal = found
    asking = Waiting() if is_waiting else Asking(question, about, position)
    asking.others, asking.refusal = others, refusal
    return asking


def pack_error(error: BaseException, dumps: Dumps) -> bytes:
    """Pickle an exception; one that cannot be pickled becomes a NodeError."""
    try:
        data = dumps(error)
        found = loads(data)
        if type(found) is type(error) and line_of(found) == line_of(error):
            return data
    except Exception:
        pass
    stand_in = NodeError(f"{line_of(error)} (the exception itself cannot be pickled)")
    for note in getattr(error, "__notes__", ()):
        add_note(stand_in, str(note))
    return dumps(stand_in)


def with_traceback(error: BaseException) -> BaseException:
    """Add the traceback as a note, because pickle drops it."""
    add_note(error, safely(lambda: "".join(format_exception(error)).rstrip(), line_of(error)))
    return error

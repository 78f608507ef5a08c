"""Read the parameters and annotations of a node's function.

Rules:

- A parameter names a value that the function reads. A parameter named ``state`` receives the whole state; one annotated
  ``Context`` (or named ``ctx`` without an annotation) receives the context.
- Annotations may be strings, and may name classes that do not exist at run time (``if TYPE_CHECKING``, local classes).
  These count as ``Any``. ``Param.hint`` holds their text, so that a graph can recognise its schema by name.
- ``*args`` and ``**kwargs`` are rejected, because they name no values. Arguments fixed by a ``functools.partial`` are
  not inputs.
- A method that is not bound to an object is rejected: no value provides its ``self``.
- Classes are rejected: a call could construct an instance or run a step, and the graph could not show which.
"""

from __future__ import annotations

import builtins
import copy
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, final

from clew.errors import GraphError
from clew.graph.context import Context

Mode = Literal["sync", "async", "generator", "async_generator"]
ParamKind = Literal["value", "state", "context", "error"]  # "error": the exception that a rescue gets


@final
class Sentinel:
    """A marker for a missing value; compared by identity, and copied to itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return self._name


MISSING: Final = Sentinel("MISSING")
"""The default of a parameter that has none."""

ABSENT: Final = Sentinel("ABSENT")
"""The default of an optional input of a subgraph: the value is not passed, so the default inside applies."""


@dataclass(frozen=True)
class Param:
    """One parameter of a node's function, and the value that it reads.

    ``default`` is the original object; the engine copies a mutable one for each run.
    """

    name: str
    source: str
    kind: ParamKind
    keyword_only: bool = False
    default: Any = MISSING
    annotation: Any = Any
    hint: str = ""


def name_of_function(func: Callable[..., Any]) -> str | None:
    """Return the name of a function, or None if it has none."""
    while isinstance(func, partial):
        func = func.func
    name = getattr(func, "__name__", None)
    return name if isinstance(name, str) and name != "<lambda>" else None


def read_params(func: Callable[..., Any], where: str) -> tuple[Param, ...]:
    """Return the parameters of ``func``, in order."""
    fixed = func.keywords if isinstance(func, partial) else {}
    found = [p for p in _signature(func, where).parameters.values() if p.name not in fixed]
    if found and found[0].name in ("self", "cls") and found[0].kind is not found[0].KEYWORD_ONLY:
        name = name_of_function(func)
        if name is None:
            raise GraphError(
                f"{where}: the name {found[0].name!r} is reserved for methods; rename the parameter."
            )
        raise GraphError(
            f"{where}: it is a method that is not bound to an object, so {found[0].name!r} has no value; remove the "
            f"decorator and make a node of the bound method, node(obj.{name}), or use a function."
        )
    hints = _hints(func)
    return tuple(_param(p, hints.get(p.name, inspect.Parameter.empty), where) for p in found)


def read_returns(func: Callable[..., Any]) -> Any:
    """Return the return annotation of ``func``, or Any."""
    annotation = _hints(func).get("return", Any)
    return Any if isinstance(annotation, _Unresolved) else annotation


def mode_of(func: Callable[..., Any]) -> Mode:
    """Return how ``func`` is run. A wrapper (``functools.wraps``) is run as the function that it wraps."""
    inner = _plain(func)
    while True:
        if inspect.iscoroutinefunction(inner):
            return "async"
        if inspect.isasyncgenfunction(inner):
            return "async_generator"
        if inspect.isgeneratorfunction(inner):
            return "generator"
        wrapped = getattr(inner, "__wrapped__", None)
        if wrapped is None:
            return "sync"
        inner = _plain(wrapped)


def _signature(func: Callable[..., Any], where: str) -> inspect.Signature:
    try:
        return inspect.signature(func)
    except (TypeError, ValueError) as error:
        raise GraphError(f"{where}: cannot read its signature; wrap it in a function.") from error


def _param(p: inspect.Parameter, annotation: Any, where: str) -> Param:
    if p.kind is p.VAR_POSITIONAL:
        raise GraphError(f"{where}: *{p.name} does not name the values to read; list the parameters.")
    if p.kind is p.VAR_KEYWORD:
        raise GraphError(
            f"{where}: **{p.name} does not name the values to read; list the parameters, "
            "or read the whole state with a parameter named 'state'."
        )
    default = MISSING if p.default is p.empty else p.default
    _check_copyable(default, p.name, where)
    hint = annotation.text if isinstance(annotation, _Unresolved) else ""
    return Param(
        name=p.name,
        source=p.name,
        kind=_kind(p.name, annotation),
        keyword_only=p.kind is p.KEYWORD_ONLY,
        default=default,
        annotation=Any if hint or annotation is p.empty else annotation,
        hint=hint,
    )


def _check_copyable(default: Any, name: str, where: str) -> None:
    # A mutable default is copied for each run; fail now, not in the first run.
    if isinstance(default, (list, dict, set, bytearray)):
        try:
            copy.deepcopy(default)
        except Exception as error:
            raise GraphError(
                f"{where}: cannot copy the default of {name!r} for each run ({error}); "
                "use None and create it in the function, or pass it with Graph.bind."
            ) from error


def _kind(name: str, annotation: Any) -> ParamKind:
    if _is_context(annotation):
        return "context"
    if name == "state":
        return "state"
    if name == "ctx" and annotation is inspect.Parameter.empty:
        return "context"
    return "value"


def _is_context(annotation: Any) -> bool:
    if isinstance(annotation, _Unresolved):
        return re.search(r"(^|[\s.\[|'\"])Context($|[\s\]|'\"])", annotation.text) is not None
    if isinstance(annotation, type):
        return Context in annotation.__mro__
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return any(_is_context(arg) for arg in typing.get_args(annotation))
    return False


@dataclass(frozen=True)
class _Unresolved:
    text: str


class _Annotated:
    """An object with one annotation, for ``typing.get_type_hints``."""

    def __init__(self, annotation: Any) -> None:
        self.__annotations__ = {"it": annotation}


def _hints(func: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the annotations of ``func``, each resolved separately, so that one failure does not affect the others."""
    inner = inspect.unwrap(_plain(func))
    scope = {**vars(builtins), **getattr(inner, "__globals__", {}), **_closure(inner)}
    annotations = getattr(inner, "__annotations__", {})
    return {name: _resolve(annotation, scope) for name, annotation in annotations.items()}


def _resolve(annotation: Any, scope: dict[str, Any]) -> Any:
    try:
        return typing.get_type_hints(_Annotated(annotation), scope)["it"]
    except Exception:  # evaluating a user's annotation may raise anything
        return _Unresolved(annotation if isinstance(annotation, str) else str(annotation))


def _closure(func: Any) -> dict[str, Any]:
    names = getattr(getattr(func, "__code__", None), "co_freevars", ())
    found = {}
    for name, cell in zip(names, getattr(func, "__closure__", None) or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _plain(func: Any) -> Any:
    """Return the function inside partials, bound methods and callable objects."""
    while isinstance(func, partial):
        func = func.func
    if inspect.ismethod(func):
        return func.__func__
    return func if inspect.isroutine(func) else _plain(type(func).__call__)

"""Signatures: what a function reads, as its parameters and annotations say.

Rules:

- A parameter is a value that the function reads. One named ``state`` is the whole state; one annotated
  ``Context`` (or not annotated and named ``ctx``) is the context.
- Annotations may be strings, and may name what cannot be found at run time (``if TYPE_CHECKING``, a class
  local to a test): such a one counts as ``Any``, and its text is kept in ``Param.hint``, so that a graph
  can still recognise its own schema by name.
- ``*args`` and ``**kwargs`` name no values, so they are refused. An argument that a ``functools.partial``
  has bound is fixed, and so is no input.
- Classes are refused: whether a call makes an instance or runs a step could not be read off the graph.
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
ParamKind = Literal["value", "state", "context"]


@final
class Sentinel:
    """A value that stands for the lack of one; compared by identity, and copied to itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return self._name


MISSING: Final = Sentinel("MISSING")
"""A parameter's default where it has none: the value must come from somewhere."""

ABSENT: Final = Sentinel("ABSENT")
"""The default of an optional input of a subgraph: it is left out when the subgraph is entered, so that the
default inside holds."""


@dataclass(frozen=True)
class Param:
    """One parameter of a node's function, and the value that it reads.

    ``default`` is the original object; whoever runs the node copies a mutable one for each run.
    """

    name: str
    source: str
    kind: ParamKind
    keyword_only: bool = False
    default: Any = MISSING
    annotation: Any = Any
    hint: str = ""


def name_of_function(func: Callable[..., Any]) -> str | None:
    """What a function is called, or None where it has no name of its own."""
    while isinstance(func, partial):
        func = func.func
    name = getattr(func, "__name__", None)
    return name if isinstance(name, str) and name != "<lambda>" else None


def read_params(func: Callable[..., Any], where: str) -> tuple[Param, ...]:
    """The parameters of ``func``, in order."""
    fixed = func.keywords if isinstance(func, partial) else {}
    found = [p for p in _signature(func, where).parameters.values() if p.name not in fixed]
    hints = _hints(func)
    return tuple(_param(p, hints.get(p.name, inspect.Parameter.empty), where) for p in found)


def read_returns(func: Callable[..., Any]) -> Any:
    """The annotation of what ``func`` returns, or Any."""
    annotation = _hints(func).get("return", Any)
    return Any if isinstance(annotation, _Unresolved) else annotation


def mode_of(func: Callable[..., Any]) -> Mode:
    """How ``func`` is run. A plain wrapper (``functools.wraps``) is run as what it wraps."""
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
        raise GraphError(f"{where}: its signature cannot be read; wrap it in a function.") from error


def _param(p: inspect.Parameter, annotation: Any, where: str) -> Param:
    if p.kind is p.VAR_POSITIONAL:
        raise GraphError(f"{where}: *{p.name} names no values to read; write the parameters out.")
    if p.kind is p.VAR_KEYWORD:
        raise GraphError(
            f"{where}: **{p.name} names no values to read; write the parameters out, "
            "or take the whole state with a parameter named 'state'."
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
    # Such a default is copied for each run; better to learn now than in the first run that it cannot be.
    if isinstance(default, (list, dict, set, bytearray)):
        try:
            copy.deepcopy(default)
        except Exception as error:
            raise GraphError(
                f"{where}: the default of {name!r} cannot be copied for each run ({error}); "
                "use None and make it inside, or give it with Graph.bind."
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
    """Something with one annotation, which is all that ``typing.get_type_hints`` needs to see."""

    def __init__(self, annotation: Any) -> None:
        self.__annotations__ = {"it": annotation}


def _hints(func: Callable[..., Any]) -> Mapping[str, Any]:
    """The annotations of ``func``, each resolved by itself: one that cannot be found spoils no other."""
    inner = inspect.unwrap(_plain(func))
    scope = {**vars(builtins), **getattr(inner, "__globals__", {}), **_closure(inner)}
    annotations = getattr(inner, "__annotations__", {})
    return {name: _resolve(annotation, scope) for name, annotation in annotations.items()}


def _resolve(annotation: Any, scope: dict[str, Any]) -> Any:
    try:
        return typing.get_type_hints(_Annotated(annotation), scope)["it"]
    except Exception:  # whatever evaluating somebody's annotation raises, it only means: not known
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
    """The function inside partials, bound methods and callable objects."""
    while isinstance(func, partial):
        func = func.func
    if inspect.ismethod(func):
        return func.__func__
    return func if inspect.isroutine(func) else _plain(type(func).__call__)

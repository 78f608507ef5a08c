"""Load a graph, or another object, by its import string.

An import string is ``MODULE:NAME``. The module is imported with the working directory first on the path, as
``python -m`` does. NAME is an object in the module, or a function that returns one. Arguments of the function are
literals in the string: ``flows:make_graph("staging", limit=10)``. A run stores the whole string, with the arguments.
``MODULE`` is enough if the module has only one such object.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from clew.errors import ClewError, DefinitionError
from clew.graph import Graph
from clew.graph.names import nearest
from clew.graph.node import Node
from clew.state.type_names import with_article

T = TypeVar("T")


def load_graph(import_string: str) -> Graph:
    """Return the graph that ``MODULE:GRAPH`` names; raise DefinitionError if it cannot be loaded."""
    return load_target(import_string, Graph, "graph", "flow")


def complete(import_string: str) -> str:
    """Return ``MODULE:GRAPH`` for a module that has only one graph; return any other import string unchanged."""
    if not import_string.replace(".", "_").isidentifier() or import_string.endswith(".py"):
        return import_string
    known = [key for key, value in vars(load_module(import_string)).items() if isinstance(value, Graph)]
    return f"{import_string}:{_only(known, import_string, 'graph')}"


def _only(known: list[str], module: str, what: str) -> str:
    """Return the only object of a module."""
    if not known:
        raise DefinitionError(f"module {module!r} has no {what}; give MODULE:{what.upper()}")
    if len(known) > 1:
        names = ", ".join(f"{module}:{key}" for key in known)
        raise DefinitionError(f"module {module!r} has more than one {what}; choose one of {names}")
    return known[0]


def load_target(
    import_string: str,
    kind: type[T] | tuple[type[T], ...],
    what: str,
    example: str,
    *,
    is_one: Callable[[Any], bool] | None = None,
) -> T:
    """Return the object of type `kind` that ``MODULE:NAME`` names, or that a function of that name returns.

    `what` and `example` are used in messages: a word for the object, and a sample module name. `is_one` says more about
    the object than its type.
    """

    def fits(value: Any) -> bool:
        return isinstance(value, kind) and (is_one is None or is_one(value))

    name, _, path = import_string.partition(":")
    if not name or name.endswith(".py") or "/" in name:
        raise DefinitionError(
            f"{import_string!r} does not name {with_article(what)}; give MODULE:{what.upper()}, such as "
            f"{example}:{what} for `{what}` in {example}.py"
        )
    module = load_module(name)
    known = [key for key, value in vars(module).items() if fits(value)]
    path, arguments = _parse_call(import_string, path or _only(known, name, what))
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            raise DefinitionError(f"module {name!r} has no {path!r}; {nearest(path, known)}")
        found = getattr(found, part)
    if arguments is not None and (fits(found) or not callable(found)):
        raise DefinitionError(
            f"{import_string}: {path!r} is not a function and takes no arguments; remove the parentheses"
        )
    if isinstance(found, Node):  # a node is callable, but does not return a graph
        raise DefinitionError(
            f"{import_string} is a node, not {with_article(what)}; put it into a clew.Graph and name the graph"
        )
    if not fits(found) and callable(found) and not isinstance(found, type):
        found = _call(import_string, found, what, arguments)
    if not fits(found):
        others = nearest(path, known) if known else f"module {name!r} has none"
        raise DefinitionError(
            f"{import_string} must be {with_article(_path(kind))}, got {type(found).__name__}; {others}"
        )
    result: T = found
    return result


Arguments = tuple[list[Any], dict[str, Any]]


def _parse_call(import_string: str, path: str) -> tuple[str, Arguments | None]:
    """Split ``NAME(...)`` into the name and its literal arguments; None without parentheses."""
    name, opened, _ = path.partition("(")
    if not opened:
        return path, None
    try:
        call = ast.parse(path, mode="eval").body
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != name.strip():
            raise ValueError
        positional = [ast.literal_eval(argument) for argument in call.args]
        named = {
            str(word.arg): ast.literal_eval(word.value) for word in call.keywords if word.arg is not None
        }
        if len(named) < len(call.keywords):
            raise ValueError
    except (SyntaxError, ValueError):
        raise DefinitionError(
            f"{import_string!r} cannot be parsed; arguments must be literals, such as "
            f"""{name or "make"}("staging", limit=10)"""
        ) from None
    return name.strip(), (positional, named)


def _call(import_string: str, function: Any, what: str, arguments: Arguments | None) -> Any:
    positional, named = arguments or ([], {})
    _check_arguments(import_string, function, positional, named)
    try:
        return function(*positional, **named)
    except ClewError:
        raise
    except Exception as error:
        raise DefinitionError(
            f"{import_string} raised instead of returning {with_article(what)}: {_describe(error)}"
        ) from error


def _check_arguments(import_string: str, function: Any, positional: list[Any], named: dict[str, Any]) -> None:
    """Raise DefinitionError if a function does not take these arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function without one: the call fails instead
        return
    try:
        signature.bind(*positional, **named)
    except TypeError as error:
        plain = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
        call = f"{import_string.partition('(')[0]}{inspect.Signature(plain)}"
        raise DefinitionError(
            f"{import_string} cannot be called: {error}; give its arguments as literals: {call}"
        ) from error


def _path(kind: Any) -> str:
    kind = kind[0] if isinstance(kind, tuple) else kind
    return (
        f"{'.'.join(kind.__module__.split('.')[:2])}.{kind.__name__}" if kind is not Graph else "clew.Graph"
    )


def load_module(name: str) -> ModuleType:
    """Import a module of the working directory or of the path; raise DefinitionError if that fails."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise DefinitionError(
                f"module {name!r} does not exist; change to its directory, or set PYTHONPATH"
            ) from error
        raise DefinitionError(
            f"module {name!r} cannot be imported: {_describe(error)}; install the missing module"
        ) from error
    except ClewError as error:
        raise DefinitionError(f"module {name!r} cannot be imported: {_describe(error)}") from error
    except (Exception, SystemExit) as error:
        raise DefinitionError(
            f"module {name!r} cannot be imported: {_describe(error)}; run `python -c 'import {name}'` for the traceback"
        ) from error


def _describe(error: BaseException) -> str:
    lines = str(error).splitlines()
    where = ""
    # a call that fails before it enters the function has no place in the user's code
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename != __file__]
    if not isinstance(error, (SyntaxError, ClewError)) and frames:
        where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
    return f"{type(error).__name__}: {lines[0] if lines else ''}{where}"

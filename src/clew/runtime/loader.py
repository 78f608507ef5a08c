"""Graphs and stores by name, as commands and tests give them.

A graph is ``MODULE:GRAPH``: the module is imported with the current folder first on the path, as ``python -m`` would,
and GRAPH is a `Graph` in it, or a function that makes one. What the function is to be given stands in the name, as
plain values: ``flows:make_graph("staging", limit=10)``. So a run that keeps its target keeps how its graph was made.
``MODULE`` alone will do where the module has one graph. A store is a file (SQLite) or ``postgresql://...``.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from clew.errors import ClewError, DefinitionError
from clew.graph import Graph
from clew.graph.names import nearest
from clew.graph.node import Node

T = TypeVar("T")


def load_graph(target: str) -> Graph:
    """The graph that ``MODULE:GRAPH`` names. DefinitionError says what is wrong with the name or the module."""
    return load_target(target, Graph, "graph", "flow")


def load_target(target: str, kind: type[T] | tuple[type[T], ...], what: str, example: str) -> T:
    """What ``MODULE:NAME`` names, of that kind, or made by a function of that name.

    `what` and `example` are for messages: what it is called, and the name of a module that has one.
    """
    name, _, path = target.partition(":")
    if not name or name.endswith(".py") or "/" in name:
        raise DefinitionError(
            f"{target!r} names no {what}; give MODULE:{what.upper()}, like {example}:{what} for the {what} `{what}` in "
            f"{example}.py"
        )
    module = _module(name)
    known = [key for key, value in vars(module).items() if isinstance(value, kind)]
    if not path:
        if len(known) != 1:
            told = ", ".join(f"{name}:{key}" for key in known) or "none"
            raise DefinitionError(f"which {what} of {name!r} is meant? name it; there are: {told}")
        path = known[0]
    path, arguments = _call(target, path)
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            raise DefinitionError(f"module {name!r} has no {path!r}; {nearest(path, known)}")
        found = getattr(found, part)
    if arguments is not None and (isinstance(found, kind) or not callable(found)):
        raise DefinitionError(
            f"{target}: {path!r} is no function, so it takes no arguments; name it without parentheses"
        )
    if isinstance(found, Node):  # it can be called, and must not be
        raise DefinitionError(f"{target} is a node, not a {what}; put it into a clew.Graph, and name that")
    if not isinstance(found, kind) and callable(found) and not isinstance(found, type):
        found = _made(target, found, what, arguments)
    if not isinstance(found, kind):
        article = "an" if what[0] in "aeiou" else "a"
        raise DefinitionError(
            f"{target} is {type(found).__name__}, not {article} {what}; name a {_path(kind)}"
        )
    return found


Arguments = tuple[list[Any], dict[str, Any]]


def _call(target: str, path: str) -> tuple[str, Arguments | None]:
    """The name in ``NAME(...)``, and the plain values that it is called with; None without parentheses."""
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
            f"{target!r} cannot be read; in the parentheses stand plain values (text, numbers, None, lists), like "
            f"""{name or "make"}("staging", limit=10)"""
        ) from None
    return name.strip(), (positional, named)


def _made(target: str, maker: Any, what: str, arguments: Arguments | None) -> Any:
    positional, named = arguments or ([], {})
    try:
        return maker(*positional, **named)
    except ClewError:
        raise
    except Exception as error:
        told = (
            "it is called without arguments"
            if arguments is None
            else "it is called with what is in the parentheses"
        )
        hint = f"; give it some: {target}(...)" if arguments is None and isinstance(error, TypeError) else ""
        raise DefinitionError(
            f"{target} could not make {'an' if what[0] in 'aeiou' else 'a'} {what}: {_told(error)}; {told}{hint}"
        ) from error


def _path(kind: Any) -> str:
    kind = kind[0] if isinstance(kind, tuple) else kind
    return (
        f"{'.'.join(kind.__module__.split('.')[:2])}.{kind.__name__}" if kind is not Graph else "clew.Graph"
    )


def _module(name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise DefinitionError(
                f"there is no module {name!r}; go to the folder that has it, or set PYTHONPATH"
            ) from error
        raise DefinitionError(
            f"module {name!r} cannot be imported: {_told(error)}; install what it needs"
        ) from error
    except ClewError as error:
        raise DefinitionError(f"module {name!r} cannot be imported: {_told(error)}") from error
    except (Exception, SystemExit) as error:
        raise DefinitionError(
            f"module {name!r} cannot be imported: {_told(error)}; `python -c 'import {name}'` shows where"
        ) from error


def _told(error: BaseException) -> str:
    told = str(error).splitlines()
    where = ""
    frames = traceback.extract_tb(error.__traceback__)
    if not isinstance(error, (SyntaxError, ClewError)) and frames:
        where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
    return f"{type(error).__name__}: {told[0] if told else ''}{where}"

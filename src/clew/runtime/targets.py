"""Graphs and stores by name, as commands and tests give them.

A graph is ``MODULE:GRAPH``: the module is imported with the current folder first on the path, as ``python -m`` would,
and GRAPH is a `Graph` in it, or a function without parameters that makes one. ``MODULE`` alone will do where the module
has one graph. A store is a file (SQLite) or ``postgresql://...``.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from clew.errors import ClewError, DefinitionError, StoreError
from clew.graph import Graph
from clew.graph.names import nearest
from clew.stores import Store


def load_graph(target: str) -> Graph:
    """The graph that ``MODULE:GRAPH`` names. DefinitionError says what is wrong with the name or the module."""
    name, _, path = target.partition(":")
    if not name or name.endswith(".py") or "/" in name:
        raise DefinitionError(
            f"{target!r} names no graph; give MODULE:GRAPH, like flow:graph for the graph `graph` in flow.py"
        )
    module = _module(name)
    if not path:
        graphs = [key for key, value in vars(module).items() if isinstance(value, Graph)]
        if len(graphs) != 1:
            told = ", ".join(f"{name}:{key}" for key in graphs) or "none"
            raise DefinitionError(f"which graph of {name!r} is meant? name it; there are: {told}")
        path = graphs[0]
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            known = [key for key, value in vars(module).items() if isinstance(value, Graph)]
            raise DefinitionError(f"module {name!r} has no {path!r}; {nearest(path, known)}")
        found = getattr(found, part)
    if not isinstance(found, Graph) and callable(found) and not isinstance(found, type):
        try:
            found = found()
        except ClewError:
            raise
        except Exception as error:
            raise DefinitionError(
                f"{target} could not make a graph: {_told(error)}; it is called without arguments"
            ) from error
    if not isinstance(found, Graph):
        raise DefinitionError(f"{target} is {type(found).__name__}, not a graph; name a clew.Graph")
    return found


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


def open_store(address: str | os.PathLike[str], *, create: bool = True) -> Store:
    """The store at an address. Without `create` it has to be there."""
    text = os.fspath(address)
    if text.startswith(("postgresql://", "postgres://")):
        try:
            from clew.stores import PostgresStore
        except ModuleNotFoundError as error:
            raise StoreError(
                f"PostgreSQL needs a driver, and {error.name!r} is not installed; pip install 'clew[postgres]'"
            ) from error
        return PostgresStore(text)
    if "://" in text:
        raise StoreError(f"{text!r} is no store; give a file, or postgresql://...")
    from clew.stores import SQLiteStore

    if not create and not Path(text).is_file():
        raise StoreError(
            f"there is no store {text!r}; name it with --store or CLEW_STORE, or start a run there"
        )
    return SQLiteStore(text)

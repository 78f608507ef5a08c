"""The graphs that a project lists, and which graph a recorded run may be run with.

A run records the import string of the graph that made it, such as ``shop:graph``. That string is untrusted
data, so Clew never imports it. A command that runs nodes takes its graph from the caller, or from the list
that the user keeps in the ``pyproject.toml`` of the working directory::

    [tool.clew]
    graphs = ["shop:graph", "shop:make_graph('staging')"]

The recorded string is only compared with this list. Files next to the store are ignored.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clew.errors import DefinitionError, InputError
from clew.graph import Graph
from clew.runtime.loader import load_graph
from clew.stores import RunRow

LIST = "[tool.clew] graphs in pyproject.toml"


def listed_graphs() -> tuple[str, ...]:
    """Return the import strings that the project in the working directory lists."""
    file = Path("pyproject.toml")
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DefinitionError(
            f"{file} cannot be read: {error}; fix it, or pass --graph MODULE:GRAPH"
        ) from error
    section: Any = document.get("tool", {})
    section = section.get("clew", {}) if isinstance(section, dict) else {}
    found = section.get("graphs", []) if isinstance(section, dict) else None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise DefinitionError(f'{LIST} is not a list of strings; write graphs = ["shop:graph"]')
    return tuple(found)


def graph_for(
    row: RunRow, given: str | None = None, *, load: Callable[[str], Graph] = load_graph
) -> tuple[Graph, str]:
    """Return the graph to run `row` with, and its import string.

    Args:
        row: The run. Its recorded import string is compared, never imported.
        given: The import string that the caller passed; it is used as it is.
        load: Imports a graph.
    """
    if given is not None:
        return load(given), given
    listed = listed_graphs()
    if row.target in listed:
        return load(row.target), row.target
    if not row.target:  # a run that was started from Python: find a listed graph with the same structure
        for name in listed:
            graph = load(name)
            if row.structure and graph.structure_hash == row.structure:
                return graph, name
    raise InputError(_missing(row, listed))


def _missing(row: RunRow, listed: tuple[str, ...]) -> str:
    made = f"belongs to graph {row.target!r}" if row.target else "has no import string"
    known = f"which lists {', '.join(map(repr, listed))}" if listed else "which is empty"
    name = repr(row.target) if row.target else "MODULE:GRAPH"
    return (
        f"run {row.run_id!r} {made}; Clew imports only the graphs in {LIST}, {known}; if you trust the graph, "
        f"pass --graph {name} (in Python: graph=), or add it to the list"
    )

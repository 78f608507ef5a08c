"""The dependency graph that a command works on: found by its name, opened on a database.

In ``MODULE:GRAPH``, GRAPH is a `DependencyGraph`, a list of schemas, or a function without parameters that makes one.
The database is ``--store``, or ``CLEW_STORE``; else the one that a `DependencyGraph` was made with; else ``clew.db``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clew.cli.output import CommandError
from clew.error_text import line_of, notes_of
from clew.errors import (
    ClewError,
    DefinitionError,
    InvalidExpressionError,
    MissingValueError,
    SchemaPatternError,
)
from clew.graph.names import nearest
from clew.runtime.loader import _module as load_module

if TYPE_CHECKING:
    from clew import DependencyGraph
    from clew.incremental import NodeSchema

TargetArgument = Annotated[
    str,
    typer.Argument(metavar="MODULE:GRAPH", help="events:graph is the DependencyGraph `graph` in events.py."),
]
NodeArgument = Annotated[
    str, typer.Argument(metavar="NODE", help="A node: meta_events, or 'event_context(id123)'.")
]


@contextmanager
def dependency_graph(
    target: str, address: str | None, *, create: bool = False, pulled: str | None = None
) -> Iterator[DependencyGraph]:
    """The graph that ``MODULE:GRAPH`` names, opened on its database and closed at the end.

    No database is made for a node that is to be `pulled` and cannot be while nothing is set.
    """
    from clew import DependencyGraph

    found = _found(target)
    where = address or os.environ.get("CLEW_STORE")
    if isinstance(found, DependencyGraph) and not where and found._persistence is not None:
        graph = found
    else:
        schemas = _schemas(found) if isinstance(found, DependencyGraph) else found
        options = found.options if isinstance(found, DependencyGraph) else {}
        store = _checked(where or "clew.db", create)
        if pulled is not None and "://" not in store and not Path(store).exists():
            with _errors_told(target):
                _check_new(DependencyGraph(schemas, **options), pulled)
        graph = DependencyGraph(schemas, store=store, **options)
    try:
        with _errors_told(target):
            yield graph
    finally:
        graph.close()
        if isinstance(found, DependencyGraph):
            found.close()


def _check_new(graph: DependencyGraph, name: str) -> None:
    """Raise what a pull from a graph without values would raise before it computes anything."""
    from clew.incremental.freshness import all_sources
    from clew.incremental.sync_pull import never_set

    node = graph._node(name, ())
    for source in (node, *all_sources(graph._table, node)[0]):
        if source.rule.computor is None:
            raise never_set(source)


@contextmanager
def _errors_told(target: str) -> Iterator[None]:
    """What goes wrong with a graph, for who gave the command."""
    try:
        yield
    except InvalidExpressionError as error:
        raise CommandError(
            str(error), "a node is a name, or a name with arguments, quoted for the shell: 'photo(p5)'"
        ) from error
    except (MissingValueError, SchemaPatternError) as error:
        raise CommandError(str(error).partition("; ")[0], _advice(error, target)) from error
    except Exception as error:
        if issubclass(type(error), ClewError):  # the graph's own, and not a computor's
            raise
        notes = notes_of(error)
        where = f" ({notes[0]})" if notes else ""
        raise CommandError(
            f"{line_of(error)}{where}", "mend it and pull again; what was computed before it is kept", code=1
        ) from error


def _advice(error: ClewError, target: str) -> str:
    if isinstance(error, MissingValueError):
        return f"set it: clew set {target} NODE VALUE"
    return "write one node's own arguments; put a word in quotes if it is meant as it stands: 'photo(\"p\")'"


def _schemas(graph: DependencyGraph) -> list[NodeSchema]:
    """The schemas that a graph was made with."""
    from clew import schema
    from clew.incremental.expressions import pattern_text

    return [
        schema(
            rule.key,
            inputs=[pattern_text(pattern) for pattern in rule.inputs],
            computor=rule.computor,
            version=rule.version,
            stateful=rule.stateful,
        )
        for rule in graph.registry.rules
    ]


def _checked(where: str, create: bool) -> str:
    if where.startswith(("postgresql://", "postgres://")):
        return where
    if "://" in where:
        raise CommandError(f"{where!r} is no store", "give a file, or postgresql://...")
    if not create and not Path(where).is_file():
        raise CommandError(
            f"there is no store {where!r}",
            "name it with --store or CLEW_STORE, or make it: `clew set MODULE:GRAPH NODE VALUE`",
        )
    return where


def _found(target: str) -> DependencyGraph | list[NodeSchema]:
    name, _, path = target.partition(":")
    if not name or name.endswith(".py") or "/" in name:
        raise CommandError(
            f"{target!r} names no graph", "give MODULE:GRAPH, like events:graph for `graph` in events.py"
        )
    module = load_module(name)
    if not path:
        path = _only(name, vars(module))
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            known = [key for key, value in vars(module).items() if _is_one(value)]
            raise CommandError(f"module {name!r} has no {path!r}", nearest(path, known))
        found = getattr(found, part)
    if callable(found) and not isinstance(found, type):
        found = _made(target, found)
    if not _is_one(found):
        raise CommandError(
            f"{target} is {type(found).__name__}, not a dependency graph",
            "name a clew.DependencyGraph, a list of schemas, or a function that makes one",
        )
    return list(found) if isinstance(found, Sequence) else found


def _is_one(value: Any) -> bool:
    from clew.incremental import DependencyGraph, NodeSchema

    return isinstance(value, DependencyGraph) or (
        isinstance(value, Sequence) and bool(value) and all(isinstance(one, NodeSchema) for one in value)
    )


def _only(name: str, values: dict[str, Any]) -> str:
    found = [key for key, value in values.items() if _is_one(value)]
    if len(found) != 1:
        told = ", ".join(f"{name}:{key}" for key in found) or "none"
        raise CommandError(f"which graph of {name!r} is meant? name it", f"there are: {told}")
    return found[0]


def _made(target: str, make: Any) -> Any:
    try:
        return make()
    except ClewError:
        raise
    except Exception as error:
        raise DefinitionError(
            f"{target} could not make a graph: {type(error).__name__}: {error}; it is called without arguments"
        ) from error

"""Commands about the values of a dependency graph: ``clew pull``, ``set``, ``invalidate`` and ``explain``.

In ``MODULE:GRAPH``, GRAPH is a `DependencyGraph`, a list of schemas, or a function without parameters that returns one
of them. The database is ``--store``, or ``CLEW_STORE``, or the store of the `DependencyGraph`, or ``clew.db``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from clew.cli.declarations import argument
from clew.cli.options import JsonOption, StoreOption
from clew.cli.output import CommandError, plain, say, say_json
from clew.cli.values import read_file, read_json
from clew.error_text import line_of, notes_of
from clew.errors import ClewError, InvalidExpressionError, MissingValueError, SchemaPatternError
from clew.runtime.loader import load_target
from clew.state import from_tree

if TYPE_CHECKING:
    from clew import DependencyGraph
    from clew.incremental import NodeSchema


TargetArgument = Annotated[
    str, argument("MODULE:GRAPH", "Dependency graph to use; events:graph is `graph` in events.py.")
]
NodeArgument = Annotated[str, argument("NODE", "Node to use, such as meta_events or 'event_context(id123)'.")]


@contextmanager
def dependency_graph(
    target: str, address: str | None, *, create: bool = False, pulled: str | None = None
) -> Iterator[DependencyGraph]:
    """Open the graph that ``MODULE:GRAPH`` names on its database, and close it at the end.

    For a `pulled` node that needs a source to be set first, no database is created.
    """
    from clew import DependencyGraph

    found = _found(target)
    where = address or os.environ.get("CLEW_STORE")
    if isinstance(found, DependencyGraph) and not where and found._persistence is not None:
        graph = found
    else:
        schemas = found.schemas if isinstance(found, DependencyGraph) else found
        options = found.options if isinstance(found, DependencyGraph) else {}
        store = _checked(where or "clew.db", create)
        if pulled is not None and "://" not in store and not Path(store).exists():
            with _report_errors(target):
                _check_new(DependencyGraph(schemas, **options), pulled)
        graph = DependencyGraph(schemas, store=store, **options)
    try:
        with _report_errors(target):
            yield graph
    finally:
        graph.close()
        if isinstance(found, DependencyGraph):
            found.close()


def _check_new(graph: DependencyGraph, name: str) -> None:
    """Raise the error that a pull from a graph without values would raise before it computes anything."""
    from clew.incremental.freshness import all_sources
    from clew.incremental.sync_pull import never_set

    node = graph._node(name, ())
    for source in (node, *all_sources(graph._table, node)[0]):
        if source.rule.computor is None:
            raise never_set(source)


@contextmanager
def _report_errors(target: str) -> Iterator[None]:
    """Turn errors of the graph and its computors into messages for the command line."""
    try:
        yield
    except InvalidExpressionError as error:
        raise CommandError(
            str(error), "write a name, or a name with arguments in shell quotes, such as 'photo(p5)'"
        ) from error
    except (MissingValueError, SchemaPatternError) as error:
        raise CommandError(str(error).partition("; ")[0], _advice(error, target)) from error
    except Exception as error:
        if issubclass(type(error), ClewError):  # raised by the graph, not by a computor
            raise
        notes = notes_of(error)
        where = f" ({notes[0]})" if notes else ""
        raise CommandError(
            f"{line_of(error)}{where}",
            "fix the computor and pull again; results computed before it are stored",
            code=1,
        ) from error


def _advice(error: ClewError, target: str) -> str:
    if isinstance(error, MissingValueError):
        return f"set it with: clew set {target} NODE VALUE"
    return "write the arguments of one node; quote a word to use it literally: 'photo(\"p\")'"


def _checked(where: str, create: bool) -> str:
    if where.startswith(("postgresql://", "postgres://")):
        return where
    if "://" in where:
        raise CommandError(f"{where!r} is not a store", "give a file or a postgresql:// URL")
    if not create and not Path(where).is_file():
        raise CommandError(
            f"store {where!r} does not exist",
            "name it with --store or CLEW_STORE, or create it with `clew set MODULE:GRAPH NODE VALUE`",
        )
    return where


def _found(target: str) -> DependencyGraph | list[NodeSchema]:
    from clew.incremental import DependencyGraph

    kinds: tuple[type[Any], ...] = (DependencyGraph, list, tuple)
    found: Any = load_target(target, kinds, "graph", "events", is_one=_is_one)
    return list(found) if isinstance(found, tuple) else found


def _is_one(value: Any) -> bool:
    from clew.incremental import DependencyGraph, NodeSchema

    return isinstance(value, DependencyGraph) or (
        bool(value) and all(isinstance(one, NodeSchema) for one in value)
    )


def pull(
    target: TargetArgument, node: NodeArgument, store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """Compute and print the current value of a node.

    \b
    Examples:
      clew pull events:graph 'event_context(id123)' --store events.db
      clew pull events:graph meta_events --json

    Only outdated nodes are computed. All results are stored in the database.
    """
    import asyncio

    with dependency_graph(target, store, create=True, pulled=node) as graph:
        value = asyncio.run(graph.apull(node))
        if as_json:
            explanation = graph.explain(node)
            say_json({"node": explanation.node, "value": plain(value), "revision": explanation.revision})
        else:
            say(json.dumps(plain(value), indent=2, ensure_ascii=False))


def set_(
    target: TargetArgument,
    node: NodeArgument,
    value: Annotated[
        str, argument("VALUE", "Value as JSON, @FILE to read JSON from a file, or - for standard input.")
    ],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set the value of a node of a dependency graph.

    \b
    Examples:
      clew set events:graph all_events '[{"id": "id123"}]' --store events.db
      clew set events:graph all_events @events.json
      fetch-events | clew set events:graph all_events -

    Anything that is not valid JSON is treated as a string. Setting a computed node pins its value
    until the node, or a source that it depends on, is set or invalidated.
    """
    import asyncio

    given = _read(value, node)
    with dependency_graph(target, store, create=True) as graph:
        asyncio.run(graph.aset(node, given))
        status = graph.explain(node)
    if as_json:
        say_json({"node": status.node, "origin": status.origin, "revision": status.revision})
    else:
        say(f"{status.node} is {status.origin} at revision {status.revision}")


def _read(text: str, node: str) -> Any:
    if text == "-" or text.startswith("@"):
        return from_tree(read_file(text.removeprefix("@")))
    return read_json(text, f"the value of {node}")


def invalidate(
    target: TargetArgument, node: NodeArgument, store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """Mark a node so that the next pull recomputes it.

    \b
    Examples:
      clew invalidate events:graph 'photo(p5)' --store events.db

    Dependents are recomputed if the value of the node changes. Does nothing for a node without a value.
    """
    with dependency_graph(target, store) as graph:
        graph.invalidate(node)
        status = graph.explain(node)
    if as_json:
        say_json({"node": status.node, "freshness": status.freshness, "revision": status.revision})
    elif status.freshness is None:
        say(f"{status.node} has no value; nothing to invalidate")
    else:
        say(f"{status.node} is {status.freshness} at revision {status.revision}")


def explain(
    target: TargetArgument, node: NodeArgument, store: StoreOption = None, as_json: JsonOption = False
) -> None:
    """Explain why a node is up to date or outdated.

    \b
    Examples:
      clew explain events:graph 'event_context(id123)' --store events.db

    The command computes nothing.
    """
    with dependency_graph(target, store) as graph:
        explanation = graph.explain(node)
        name = graph.options["name"]
    if as_json:
        say_json({"graph": name, **msgspec.to_builtins(explanation)})
    else:
        say(explanation)

"""The commands that run nodes: ``run``, ``resume``, ``fork``, ``rerun`` and ``update``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, cast

import typer

from clew.cli.options import (
    GraphOption,
    IdOption,
    JsonOption,
    OnErrorOption,
    RunArgument,
    StopAfterOption,
    StopBeforeOption,
    StoreOption,
    engine_of,
    find_run,
    remember_graph,
    store_at,
)
from clew.cli.output import CommandError
from clew.cli.run_output import drive, id_of
from clew.cli.values import ValuesArgument, ValuesFile, read_json, read_object, read_values, step_of
from clew.runtime import Engine, RunResult
from clew.runtime.loader import load_graph
from clew.runtime.settings import Durability, OnError


def run(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:GRAPH", help="Graph to run: flow:graph is `graph` in flow.py.")
    ],
    pairs: ValuesArgument = None,
    values: ValuesFile = None,
    run_id: IdOption = None,
    store: StoreOption = None,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", help="Run at most N nodes at the same time.")
    ] = 8,
    durability: Annotated[
        str, typer.Option("--durability", metavar="MODE", help="When to write steps: sync, async or exit.")
    ] = "sync",
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", metavar="N", help="Seed of random streams. [default: derived from the run id]"
        ),
    ] = None,
    on_error: OnErrorOption = "stop",
    stop_before: StopBeforeOption = None,
    stop_after: StopAfterOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run a graph.

    \b
    Examples:
      clew run flow:graph query='"hello"' limit=3
      clew run flow:graph --values question.json --run-id monday
      clew run flow:graph query='"hello"' --stop-before tool
      echo '{"query": "hello"}' | clew run flow:graph --values - --json

    You can kill the process at any time and continue with `clew resume RUN`.
    """
    graph = load_graph(target)
    remember_graph(target)
    given = read_values(pairs, values)
    with store_at(store, create=True) as opened:
        name = id_of(run_id, graph.name or target.partition(":")[0])
        return drive(
            name,
            lambda listeners: Engine(
                graph,
                store=opened,
                listeners=listeners,
                import_string=target,
                max_concurrent_nodes=workers,
                durability=cast(Durability, durability),  # the engine checks both
                on_error=cast(OnError, on_error),
                seed=seed,
                check=False,
            ),
            lambda engine: engine.run(
                given, run_id=name, stop_before=stop_before or None, stop_after=stop_after or None
            ),
            as_json,
        )


def resume(
    run: RunArgument,
    answer: Annotated[
        str | None,
        typer.Option("--answer", metavar="JSON", help="Answer to the question of the run. [default: none]"),
    ] = None,
    answers: Annotated[
        str | None,
        typer.Option(
            "--answers",
            metavar="FILE",
            help='Read answers to several questions, a JSON object by path, from a file ("-" for standard input).',
        ),
    ] = None,
    accept_changes: Annotated[
        bool, typer.Option("--accept-changes", help="Resume although the structure of the graph has changed.")
    ] = False,
    on_error: OnErrorOption = "stop",
    stop_before: StopBeforeOption = None,
    stop_after: StopAfterOption = None,
    graph: GraphOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Resume a failed, killed, waiting or paused run.

    \b
    Examples:
      clew resume flow-1a2b3c
      clew resume flow-1a2b3c --answer true
      clew resume flow-1a2b3c --answers answers.json

    Finished work is not repeated. A paused run keeps its stops, unless new ones are given. For a completed run, its
    result is printed.
    """
    if answer is not None and answers is not None:
        raise CommandError("--answer and --answers were both given", "give one of them")

    def given() -> dict[str, Any]:
        if answer is not None:
            return {"answer": read_json(answer, "--answer")}
        return {"answers": read_object(answers)} if answers is not None else {}

    with store_at(store) as opened:
        row = find_run(opened, run)
        return drive(
            row.run_id,
            lambda listeners: engine_of(opened, row, graph, listeners, on_error=on_error),
            lambda engine: engine.resume(
                row.run_id,
                accept_changes=accept_changes,
                stop_before=stop_before or None,
                stop_after=stop_after or None,
                **given(),
            ),
            as_json,
        )


_Make = Callable[[Engine, str, str], RunResult]


"""Starts the new run, given an engine, the id of the parent and the id of the new run."""


def _derived(
    run: str,
    kind: str,
    make: _Make,
    *,
    run_id: str | None,
    graph: str | None,
    store: str | None,
    as_json: bool,
) -> int:
    """Find a run, start a run from it, print the result and return the exit code."""
    with store_at(store) as opened:
        row = find_run(opened, run)
        name = id_of(run_id, f"{row.run_id}-{kind}")
        return drive(
            name,
            lambda listeners: engine_of(opened, row, graph, listeners),
            lambda engine: make(engine, row.run_id, name),
            as_json,
        )


def fork(
    run: RunArgument,
    pairs: ValuesArgument = None,
    step: Annotated[
        str | None,
        typer.Option("--step", metavar="N|LABEL", help="Step to start from. [default: the latest]"),
    ] = None,
    values: ValuesFile = None,
    run_id: IdOption = None,
    graph: GraphOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Start a new run from a step of an existing run.

    \b
    Examples:
      clew fork flow-1a2b3c --step 3 query='"ho"'
      clew fork flow-1a2b3c --step before_summary --run-id what-if

    The existing run does not change. Steps that both runs share are stored once.
    """
    return _derived(
        run,
        "fork",
        lambda engine, parent, name: engine.fork(
            parent, step=step_of(step), values=read_values(pairs, values) or None, run_id=name
        ),
        run_id=run_id,
        graph=graph,
        store=store,
        as_json=as_json,
    )


def rerun(
    run: RunArgument,
    pairs: ValuesArgument = None,
    values: ValuesFile = None,
    force: Annotated[
        list[str] | None,
        typer.Option(
            "--force",
            metavar="NODE",
            help="Run this node even if nothing has changed. Repeatable; nodes of subgraphs as SUB/NODE.",
        ),
    ] = None,
    run_id: IdOption = None,
    graph: GraphOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run again and reuse the results that are still valid.

    \b
    Examples:
      clew rerun flow-1a2b3c
      clew rerun flow-1a2b3c limit=5
      clew rerun flow-1a2b3c --force ask --force sub/embed

    An item whose node has the same code and the same inputs is not executed: its result is reused.
    """
    return _derived(
        run,
        "rerun",
        lambda engine, parent, name: engine.rerun(
            parent, values=read_values(pairs, values) or None, run_id=name, force=force or ()
        ),
        run_id=run_id,
        graph=graph,
        store=store,
        as_json=as_json,
    )


def update(
    run: RunArgument,
    pairs: ValuesArgument = None,
    values: ValuesFile = None,
    as_node: Annotated[
        str | None,
        typer.Option(
            "--as-node",
            metavar="NODE",
            help="Write the values as the next run of this node. [default: a change from outside]",
        ),
    ] = None,
    decision: Annotated[
        str | None,
        typer.Option(
            "--decision", metavar="JSON", help="What the gate of --as-node decides. [default: nothing]"
        ),
    ] = None,
    graph: GraphOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Commit one step of a run by hand, and leave the run paused.

    \b
    Examples:
      clew update flow-1a2b3c plan='"shorter"'
      clew update flow-1a2b3c plan='"shorter"' --as-node think
      clew update flow-1a2b3c --as-node approve --decision send

    Values go through the reducers. Open work that read a changed value is withdrawn. `clew resume RUN` continues the
    run.
    """
    with store_at(store) as opened:
        row = find_run(opened, run)
        return drive(
            row.run_id,
            lambda listeners: engine_of(opened, row, graph, listeners),
            lambda engine: engine.update(
                row.run_id,
                read_values(pairs, values),
                as_node=as_node,
                decision=None if decision is None else read_json(decision, "--decision"),
            ),
            as_json,
        )

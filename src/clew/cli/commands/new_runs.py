"""Commands that start a run: ``clew run``, and from another run ``clew fork`` and ``clew rerun``."""

from __future__ import annotations

from typing import Annotated, cast

from clew import Engine
from clew.cli.declarations import option
from clew.cli.options import (
    DropOption,
    GraphOption,
    HeadOption,
    IdOption,
    JsonOption,
    OnErrorOption,
    RunArgument,
    StopAfterOption,
    StopBeforeOption,
    StoreOption,
    TargetArgument,
    ThreadOption,
    TimeoutOption,
    remember_graph,
    store_at,
    turn_of,
)
from clew.cli.run_output import drive, id_of, make_run
from clew.cli.values import ValuesArgument, ValuesFile, read_values
from clew.runtime.loader import complete, load_graph
from clew.runtime.settings import Durability, OnError


def run(
    target: TargetArgument,
    pairs: ValuesArgument = None,
    values: ValuesFile = None,
    run_id: IdOption = None,
    store: StoreOption = None,
    workers: Annotated[int, option("--workers", "N", "Run at most N nodes at the same time.")] = 8,
    durability: Annotated[
        str, option("--durability", "MODE", "When to write steps: sync, async or exit.")
    ] = "sync",
    seed: Annotated[
        int | None,
        option("--seed", "N", "Seed for the random numbers of nodes. [default: derived from the run id]"),
    ] = None,
    on_error: OnErrorOption = "stop",
    stop_before: StopBeforeOption = None,
    stop_after: StopAfterOption = None,
    thread: ThreadOption = None,
    timeout: TimeoutOption = None,
    drop: DropOption = False,
    as_json: JsonOption = False,
) -> int:
    """Run a graph.

    \b
    Examples:
      clew run flow:graph query='"hello"' limit=3
      clew run flow:graph --values question.json --run-id monday
      clew run flow:graph query='"hello"' --stop-before tool
      clew run chat:graph messages='["hello"]' --thread user-42
      echo '{"query": "hello"}' | clew run flow:graph --values - --json

    You can kill the process at any time and continue with `clew resume RUN`.
    """
    target = complete(target)
    graph = load_graph(target)
    remember_graph(target)
    given, turn = read_values(pairs, values), turn_of(thread, timeout, drop)
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
                given,
                run_id=name,
                thread=thread,
                stop_before=stop_before or None,
                stop_after=stop_after or None,
                **turn,
            ),
            as_json,
        )


def fork(
    run: RunArgument,
    pairs: ValuesArgument = None,
    step: Annotated[
        str | None, option("--step", "N|LABEL", "Step to start from. [default: the latest]")
    ] = None,
    values: ValuesFile = None,
    run_id: IdOption = None,
    graph: GraphOption = None,
    store: StoreOption = None,
    thread: HeadOption = None,
    timeout: TimeoutOption = None,
    drop: DropOption = False,
    as_json: JsonOption = False,
) -> int:
    """Start a new run from a step of an existing run.

    \b
    Examples:
      clew fork flow-1a2b3c --step 3 query='"ho"'
      clew fork flow-1a2b3c --step before_summary --run-id what-if
      clew fork chat-1a2b3c --thread user-42

    The existing run does not change. Steps that both runs share are stored once.
    """
    turn = turn_of(thread, timeout, drop)
    return make_run(
        run,
        "fork",
        lambda engine, parent, name: engine.fork(
            parent,
            step=step_of(step),
            values=read_values(pairs, values) or None,
            run_id=name,
            thread=thread,
            **turn,
        ),
        run_id=run_id,
        graph=graph,
        store=store,
        as_json=as_json,
    )


def step_of(text: str | None) -> int | str | None:
    """Return a step as typed: a number or a label."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else text


def rerun(
    run: RunArgument,
    pairs: ValuesArgument = None,
    values: ValuesFile = None,
    force: Annotated[
        list[str] | None,
        option(
            "--force",
            "NODE",
            "Run this node even if nothing has changed (SUB/NODE inside a subgraph). Can be repeated.",
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

    A node whose code and inputs have not changed is not executed: its result is reused.
    """
    return make_run(
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

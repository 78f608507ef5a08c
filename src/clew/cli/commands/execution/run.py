"""``clew run``: run a graph."""

from __future__ import annotations

from typing import Annotated, cast

from clew import Engine
from clew.cli.declarations import option
from clew.cli.options import (
    DropOption,
    IdOption,
    JsonOption,
    OnErrorOption,
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
from clew.cli.run_output import drive, id_of
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

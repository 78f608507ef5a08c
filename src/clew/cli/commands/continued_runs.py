"""Commands that continue a run: ``clew resume``, and ``clew update`` by hand."""

from __future__ import annotations

from typing import Annotated, Any

from clew.cli.declarations import flag, option
from clew.cli.options import (
    GraphOption,
    JsonOption,
    OnErrorOption,
    RunArgument,
    StopAfterOption,
    StopBeforeOption,
    StoreOption,
    engine_of,
    find_run,
    store_at,
)
from clew.cli.output import CommandError
from clew.cli.run_output import drive
from clew.cli.values import ValuesArgument, ValuesFile, read_json, read_object, read_values


def resume(
    run: RunArgument,
    answer: Annotated[
        str | None, option("--answer", "JSON", "Answer to the question of the run. [default: none]")
    ] = None,
    answers: Annotated[
        str | None,
        option(
            "--answers",
            "FILE",
            'Read answers to several questions, a JSON object by path, from a file ("-" for standard input).',
        ),
    ] = None,
    accept_changes: Annotated[
        bool, flag("--accept-changes", "Resume although the structure of the graph has changed.")
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
      clew resume flow-1a2b3c --stop-before ""

    Finished work is not repeated. A paused run keeps its --stop-before and --stop-after, unless you give new ones.
    --stop-before "" removes them.
    For a completed run, the command prints the result.
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
                stop_before=_stops(stop_before),
                stop_after=_stops(stop_after),
                **given(),
            ),
            as_json,
        )


def _stops(nodes: list[str] | None) -> list[str] | None:
    """Return the nodes of an option; an empty list, which removes the stops of the run, if its only node is ""."""
    return [] if nodes == [""] else nodes or None


def update(
    run: RunArgument,
    pairs: ValuesArgument = None,
    values: ValuesFile = None,
    as_node: Annotated[
        str | None,
        option(
            "--as-node",
            "NODE",
            "Write the values as if this node had returned them. [default: as a change from outside the graph]",
        ),
    ] = None,
    decision: Annotated[
        str | None, option("--decision", "JSON", "Decision of the gate that --as-node names. [default: none]")
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

    Values go through the reducers. Unfinished work that read a changed value is discarded. Continue with
    `clew resume RUN`.
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

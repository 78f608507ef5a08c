"""``clew update``: commit one step of a run by hand."""

from __future__ import annotations

from typing import Annotated

from clew.cli.declarations import option
from clew.cli.options import GraphOption, JsonOption, RunArgument, StoreOption, engine_of, find_run, store_at
from clew.cli.run_output import drive
from clew.cli.values import ValuesArgument, ValuesFile, read_json, read_values


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

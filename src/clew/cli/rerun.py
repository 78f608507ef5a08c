"""``clew rerun``: a run once more, using again what is unaffected."""

from __future__ import annotations

from typing import Annotated

import typer

from clew.cli.outcome import drive, id_of
from clew.cli.place import (
    GraphOption,
    IdOption,
    JsonOption,
    RunArgument,
    StoreOption,
    engine_of,
    find_run,
    store_at,
)
from clew.cli.values import ValuesArgument, read_values


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("rerun")(rerun)


def rerun(
    run: RunArgument,
    pairs: ValuesArgument = None,
    values: Annotated[
        str | None,
        typer.Option("--values", metavar="FILE", help="Values as a JSON object; - is standard input."),
    ] = None,
    run_id: IdOption = None,
    graph: GraphOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run again, reusing whatever is unaffected.

    \b
    Examples:
      clew rerun flow-1a2b3c
      clew rerun flow-1a2b3c limit=5

    Items whose node has the same code and sees the same values are not executed: their results are taken over.
    """
    given = read_values(pairs, values)
    with store_at(store) as opened:
        row = find_run(opened, run)
        name = id_of(run_id, f"{row.run_id}-rerun")
        return drive(
            name,
            lambda listeners: engine_of(opened, row, graph, listeners),
            lambda engine: engine.rerun(row.run_id, values=given or None, run_id=name),
            as_json,
        )

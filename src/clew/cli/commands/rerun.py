"""``clew rerun``: a run once more, using again what is unaffected."""

from __future__ import annotations

import typer

from clew.cli.derived_runs import make_run
from clew.cli.options import GraphOption, IdOption, JsonOption, RunArgument, StoreOption
from clew.cli.values import ValuesArgument, ValuesFile, read_values


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("rerun")(rerun)


def rerun(
    run: RunArgument,
    pairs: ValuesArgument = None,
    values: ValuesFile = None,
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
    return make_run(
        run,
        "rerun",
        lambda engine, parent, name: engine.rerun(
            parent, values=read_values(pairs, values) or None, run_id=name
        ),
        run_id=run_id,
        graph=graph,
        store=store,
        as_json=as_json,
    )

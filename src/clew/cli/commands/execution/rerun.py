"""``clew rerun``: run again and reuse the results that are still valid."""

from __future__ import annotations

from typing import Annotated

from clew.cli.declarations import option
from clew.cli.options import GraphOption, IdOption, JsonOption, RunArgument, StoreOption
from clew.cli.run_output import make_run
from clew.cli.values import ValuesArgument, ValuesFile, read_values


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

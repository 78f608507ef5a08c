"""``clew fork``: start a new run from a step of an existing run."""

from __future__ import annotations

from typing import Annotated

from clew.cli.declarations import option
from clew.cli.options import (
    DropOption,
    GraphOption,
    HeadOption,
    IdOption,
    JsonOption,
    RunArgument,
    StoreOption,
    TimeoutOption,
    turn_of,
)
from clew.cli.run_output import make_run
from clew.cli.values import ValuesArgument, ValuesFile, read_values


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

"""``clew resume``: go on with a run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from clew.cli.options import GraphOption, JsonOption, RunArgument, StoreOption, engine_of, find_run, store_at
from clew.cli.output import CommandError
from clew.cli.run_output import drive
from clew.cli.values import read_json, read_object


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("resume")(resume)


def resume(
    run: RunArgument,
    answer: Annotated[
        str | None, typer.Option("--answer", metavar="JSON", help="The answer to the question that it asks.")
    ] = None,
    answers: Annotated[
        str | None,
        typer.Option(
            "--answers",
            metavar="FILE",
            help="Answers to several: a JSON object by path; - is standard input.",
        ),
    ] = None,
    accept_changes: Annotated[
        bool, typer.Option("--accept-changes", help="Go on although the graph has another structure now.")
    ] = False,
    graph: GraphOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Go on with a run that failed, was killed, or waits.

    \b
    Examples:
      clew resume flow-1a2b3c
      clew resume flow-1a2b3c --answer true
      clew resume flow-1a2b3c --answers answers.json

    What it finished is not done again. A finished run is shown as it is.
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
            lambda listeners: engine_of(opened, row, graph, listeners),
            lambda engine: engine.resume(row.run_id, accept_changes=accept_changes, **given()),
            as_json,
        )

"""``clew export``: a run as a JSON document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from clew.cli.options import JsonOption, RunArgument, StoreOption, find_run, inspector, store_at
from clew.cli.output import count, say_json, say_line


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("export")(export)


def export(
    run: RunArgument,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Where to; standard output by default."),
    ] = None,
    latest: Annotated[
        bool, typer.Option("--latest", help="Of the checkpoints only the last; the log is whole in any case.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write a run as one JSON document.

    \b
    Examples:
      clew export flow-1a2b3c -o run.json
      clew export flow-1a2b3c | jq '.checkpoints[-1].state'

    It has the checkpoints with the specification's fields, and all that an import needs.
    """
    with store_at(store) as opened:
        row = find_run(opened, run)
        document = inspector(opened).export_run(row.run_id, latest=latest)
    if output is None:
        say_json(document)
        return 0
    output.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")
    about = {"run_id": row.run_id, "file": str(output), "checkpoints": len(document["checkpoints"])}
    if as_json:
        say_json(about)
    else:
        say_line(f"run {row.run_id} is in {output}: {count(len(document['checkpoints']), 'checkpoint')}")
    return 0

"""``clew export``: write a run to a JSON file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from clew.cli.declarations import flag
from clew.cli.options import JsonOption, RunArgument, StoreOption, find_run, inspector, store_at
from clew.cli.output import CommandError, count, say_json, say_line


def export(
    run: RunArgument,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="File to write. [default: standard output]"),
    ] = None,
    latest: Annotated[
        bool, flag("--latest", "Export only the last checkpoint. The log is always complete.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write a run as one JSON document.

    \b
    Examples:
      clew export flow-1a2b3c -o run.json
      clew export flow-1a2b3c | jq '.checkpoints[-1].state'

    The document has the checkpoints of the run and its log, which `clew import` reads.
    """
    with store_at(store) as opened:
        row = find_run(opened, run)
        document = inspector(opened).export_run(row.run_id, latest=latest)
    if output is None:
        say_json(document)
        return 0
    try:
        output.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        raise CommandError(
            f"{output} cannot be written: {error.strerror}", "give another file with --output"
        ) from error
    about = {"run_id": row.run_id, "file": str(output), "checkpoints": len(document["checkpoints"])}
    if as_json:
        say_json(about)
    else:
        say_line(
            f"exported run {row.run_id} to {output}: {count(len(document['checkpoints']), 'checkpoint')}"
        )
    return 0

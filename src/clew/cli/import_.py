"""``clew import``: a run from a JSON document."""

from __future__ import annotations

from typing import Annotated

import typer

from clew import Engine
from clew.cli.place import GraphOption, JsonOption, StoreOption, store_at
from clew.cli.runs import row_json
from clew.cli.speech import Failed, say_json
from clew.cli.values import read_file
from clew.errors import CheckpointError
from clew.runtime.targets import load_graph


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("import")(import_run)


def import_run(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What export wrote; - is standard input.")],
    graph: GraphOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Keep a run that `clew export` wrote.

    \b
    Examples:
      clew import run.json --store other.db

    A document that was changed since is refused.
    """
    document = read_file(file)
    beside = document.get("clew") if isinstance(document, dict) else None
    if not isinstance(beside, dict):
        raise Failed(f"{file} is no export of a run", "make one with: clew export RUN -o FILE")
    target = graph or beside.get("target")
    if not target:
        raise Failed(f"{file} does not say which graph made the run", "name it: --graph MODULE:GRAPH")
    loaded = load_graph(str(target))
    with store_at(store, create=True) as opened:
        try:
            row = Engine(loaded, store=opened, target=str(target)).import_run(document)
        except CheckpointError as error:
            what, _, hint = str(error).rpartition("; ")
            raise Failed(what or hint, hint if what else "export it again", code=1) from error
        if as_json:
            say_json(row_json(opened, opened.row(row.run_id)))
        else:
            print(f"run {row.run_id} is in the store: {row.status}")
    return 0

"""``clew why``: which change made a node run."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from clew.cli.options import JsonOption, RunArgument, StoreOption, find_run, inspector, store_at
from clew.cli.output import say, say_json


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("why")(why)


def why(
    run: RunArgument,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="A value or a node.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Say which change made a node run, or a value.

    \b
    Examples:
      clew why flow-1a2b3c answer
    """
    with store_at(store) as opened:
        row = find_run(opened, run)
        found = inspector(opened).why(row.run_id, value)
    if as_json:
        say_json(msgspec.to_builtins(found))
    else:
        say(found)
    return 0

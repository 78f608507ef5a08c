"""``clew signal``: send a signal to a run."""

from __future__ import annotations

from typing import Annotated

from clew import Engine
from clew.cli.declarations import argument, option
from clew.cli.options import JsonOption, RunArgument, StoreOption, find_run, store_at
from clew.cli.output import say_json, say_line
from clew.cli.values import read_json


def signal(
    run: RunArgument,
    name: Annotated[str, argument("NAME", "Name of the signal.")],
    value: Annotated[str | None, argument("JSON", "Value of the signal.", show_default=False)] = None,
    signal_id: Annotated[
        str | None, option("--id", "ID", "Deliver signals with the same id only once. [default: a new id]")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Send a signal to a run, wherever it executes.

    \b
    Examples:
      clew signal order-1 paid
      clew signal order-1 paid '{"amount": 3}' --id payment-77

    A node that waits with `ctx.wait_for(NAME)` gets the value. A signal that arrives
    earlier is stored until then.
    """
    given = None if value is None else read_json(value, "the value")
    with store_at(store) as opened:
        row = find_run(opened, run)
        Engine(store=opened).signal(row.run_id, name, given, id=signal_id)
    if as_json:
        say_json({"run_id": row.run_id, "signal": name, "value": given})
    else:
        say_line(f"signal {name!r} was sent to run {row.run_id}")
    return 0

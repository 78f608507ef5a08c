"""``clew why``: explain why a node ran, or which node wrote a value."""

from __future__ import annotations

from typing import Annotated

import msgspec

from clew.cli.declarations import argument
from clew.cli.options import JsonOption, PathOption, RunArgument, StoreOption, find_run, inspector, store_at
from clew.cli.output import say, say_json


def why(
    run: RunArgument,
    value: Annotated[str, argument("NAME", "Name of a value or a node.")],
    path: PathOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Explain why a node ran, or which node wrote a value.

    \b
    Examples:
      clew why flow-1a2b3c answer
      clew why flow-1a2b3c answer --path 'ask#0!0'
    """
    with store_at(store) as opened:
        row = find_run(opened, run)
        found = inspector(opened).why(row.run_id, value, path=path)
    if as_json:
        say_json(msgspec.to_builtins(found))
    else:
        say(found)
    return 0

"""``clew thread``: show the turns and the last state of a thread."""

from __future__ import annotations

from typing import Annotated, Any

from clew.cli.commands.inspection.runs import row_json
from clew.cli.declarations import argument
from clew.cli.options import JsonOption, StoreOption, inspector, store_at
from clew.cli.output import (
    count,
    local_time,
    one_line,
    plain_values,
    say_json,
    say_line,
    say_table,
    say_values,
)
from clew.cli.run_output import say_failures
from clew.runtime.log.run_rows import opened_row


def thread(
    name: Annotated[str, argument("NAME", "Name of the thread.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show a thread: its turns, oldest first, and its last state.

    \b
    Examples:
      clew thread user-42
      clew thread user-42 --json

    A turn is a run: `clew show RUN` shows its steps.
    """
    with store_at(store) as opened:
        engine = inspector(opened)
        found = engine.thread(name)
        rows, values = found.runs, found.state.values
        turns = [row_json(opened, row) for row in rows]
        head = opened_row(rows[-1])
        questions = engine.result(head.run_id).questions if head.status in ("waiting", "paused") else ()
    if as_json:
        about: dict[str, Any] = {"thread": name, "head": head.run_id, "status": head.status}
        say_json({**about, "turns": turns, "values": plain_values(values)})
        return 0
    say_line(f"thread {name}: {count(len(rows), 'turn')}, the last run {head.run_id} is {head.status}")
    say_table(
        ("run", "status", "steps", "changed"),
        [
            (turn["run_id"], turn["status"], str(turn["steps"]), local_time(row.updated))
            for turn, row in zip(turns, rows)
        ],
    )
    say_values(values)
    say_failures(head.failures)
    for question in questions:
        say_line(f"{question.path} asks: {one_line(question.question, 200)}")
    return 0

"""Commands that list what a store has: ``clew runs``, ``threads`` and ``thread``."""

from __future__ import annotations

from typing import Annotated, Any

from clew import Engine
from clew.cli.declarations import argument, flag, option
from clew.cli.options import JsonOption, StoreOption, graph_option, inspector, store_at
from clew.cli.output import (
    command,
    count,
    fitted,
    local_time,
    note,
    one_line,
    plain_values,
    say,
    say_json,
    say_line,
    say_table,
    say_values,
)
from clew.cli.run_output import say_failures
from clew.cli.selection import selecting
from clew.errors import StoreCorruptError
from clew.runtime.log.run_rows import opened_row
from clew.runtime.review.json_documents import error_json, time_json
from clew.runtime.run_pages import RunFilter
from clew.stores import RunRow, Store
from clew.stores.protocol import LAST, OWN_STEP


@selecting
def runs(
    chosen: RunFilter,
    limit: Annotated[int, option("--limit", "N", "List at most N runs.")] = 100,
    cursor: Annotated[str | None, option("--cursor", "CURSOR", "Continue where the last list ended.")] = None,
    children: Annotated[
        bool, flag("--children", "Also list children: runs that a node of another run started.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest runs in the store.

    The list is sorted from oldest to newest.

    \b
    Examples:
      clew runs
      clew runs --status failed --json
      clew runs --attribute tenant=acme --after 2030-01-31T00:00:00Z
      clew runs --children

    If the store has older runs, a note shows how to list them.
    """
    given: RunFilter = {**chosen, "children": children}
    with store_at(store) as opened:
        page = Engine(store=opened).runs(limit=limit, cursor=cursor, **given)
        found = [row_json(opened, row) for row in page]
        times = [local_time(row.updated) for row in page]
        lost = [lost_remark(opened, row) for row in page]
    if page.cursor is not None:
        note(f"there are older runs; list them with --cursor {page.cursor}")
    if as_json:
        say_json(found)
    elif not found:
        has_others = bool({*chosen} - {"status"})
        say(
            "no runs match"
            if has_others
            else f"no runs with status {chosen['status']}"
            if chosen
            else "no runs"
        )
    else:
        say_table(
            ("run", "status", "steps", "changed", "graph", ""),
            [
                (
                    row["run_id"],
                    row["status"],
                    str(row["steps"]),
                    time,
                    row["target"] or row["graph"],
                    remark or _remark(row),
                )
                for row, time, remark in zip(found, times, lost)
            ],
        )


def lost_remark(store: Store, row: RunRow) -> str:
    """Return what to do about a run whose process is gone, or an empty text."""
    if row.status != "running" or row.child_of is not None:
        return ""
    owner = store.owner(row.run_id)
    is_lost = owner is None or not owner.holds
    return (
        f"its process is gone; continue it with: {command('resume', row.run_id, graph=graph_option(row))}"
        if is_lost
        else ""
    )


def row_json(store: Store, row: RunRow) -> dict[str, Any]:
    """Return a run as JSON data."""
    row = opened_row(row) if isinstance(row.error, bytes) else row
    error = StoreCorruptError(row.damage) if row.damage else row.error
    last = None
    if not row.damage:
        try:
            last = store.last(row.run_id, OWN_STEP, "", LAST)
        except StoreCorruptError as damage:
            error = damage
    return {
        "run_id": row.run_id,
        "status": row.status,
        "steps": last.n if last is not None else row.parent_step or 0,
        "graph": row.graph,
        "target": row.target,
        "created": time_json(row.created),
        "updated": time_json(row.updated),
        "parent": row.parent,
        "parent_step": row.parent_step,
        "child_of": row.child_of,
        "place": row.place,
        "attributes": dict(row.attributes),
        "error": None if error is None else error_json(error),
    }


_ERROR = 160  # columns; `clew show` has the whole message


def _remark(row: dict[str, Any]) -> str:
    if row["error"] is not None:
        first, _, more = str(row["error"]["message"]).partition("\n")
        text = f"{row['error']['type'].rpartition(':')[2]}: {first}"
        return fitted(f"{text} …" if more and len(text) < _ERROR else text, _ERROR)
    if row["child_of"] is not None:
        return f"child of {row['child_of']} at {row['place']}"
    return f"fork of {row['parent']} at step {row['parent_step']}" if row["parent"] is not None else ""


def threads(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the threads in the store, each with its last run.

    \b
    Examples:
      clew threads
      clew threads --json
    """
    with store_at(store) as opened:
        rows = {row.run_id: row for row in opened.rows(of="")}
        turns: dict[str | None, int] = {None: 0}
        for row in rows.values():  # a run is newer than its parent
            turns[row.run_id] = 1 + turns.get(row.parent, 0)
        found = [(name, rows[head]) for name, head in opened.threads() if head in rows]
    if as_json:
        say_json([_thread_json(name, row, turns[row.run_id]) for name, row in found])
    elif not found:
        say("no threads")
    else:
        say_table(
            ("thread", "head", "status", "turns", "changed", "graph"),
            [
                (
                    name,
                    row.run_id,
                    row.status,
                    str(turns[row.run_id]),
                    local_time(row.updated),
                    row.target or row.graph,
                )
                for name, row in found
            ],
        )


def _thread_json(name: str, row: Any, turns: int) -> dict[str, Any]:
    return {
        "thread": name,
        "head": row.run_id,
        "status": row.status,
        "turns": turns,
        "graph": row.graph,
        "target": row.target,
        "updated": time_json(row.updated),
    }


def thread(
    name: Annotated[str, argument("NAME", "Name of the thread.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
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
        return
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

"""``clew doctor``: a store looked at from end to end."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import typer

from clew.cli.place import JsonOption, StoreOption, store_at
from clew.cli.speech import command, count, local_time, say_json, say_line
from clew.runtime.documents import time_json
from clew.runtime.soundness import complaints
from clew.stores import RunRow, Store


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("doctor")(doctor)


def doctor(store: StoreOption = None, as_json: JsonOption = False) -> int:
    """Check a store from end to end.

    Is it sound, does each run's content fit its digests, who owns what, what was left behind?

    \b
    Examples:
      clew doctor
      clew doctor --store postgresql://localhost/runs --json

    The exit code is 1 if something is damaged. Runs whose process is gone are no damage: they are listed with the
    command that goes on with them.
    """
    with store_at(store) as opened:
        found = examine(opened)
        name = repr(opened)
    if as_json:
        say_json({"store": name, **found})
    else:
        _say(name, found)
    return 1 if found["damage"] else 0


def examine(store: Store) -> dict[str, Any]:
    """All that there is to say about a store."""
    damage = list(store.check())
    rows = store.rows()
    owners: list[dict[str, Any]] = []
    orphans: list[dict[str, Any]] = []
    for row in rows:
        damage += [told for told in complaints(store, row) if told not in damage]
        _ownership(store, row, owners, orphans)
    return {
        "runs": len(rows),
        "statuses": dict(Counter(row.status for row in rows)),
        "damage": damage,
        "owners": owners,
        "orphans": orphans,
    }


def _ownership(
    store: Store, row: RunRow, owners: list[dict[str, Any]], orphans: list[dict[str, Any]]
) -> None:
    owner = store.owner(row.run_id)
    is_owned = owner is not None and owner.is_alive and owner.until > time.time()
    if owner is not None and is_owned:
        owners.append({"run_id": row.run_id, "owner": owner.name, "until": time_json(owner.until)})
    elif row.status == "running":
        if owner is None:
            why = "nobody owns it"
        elif not owner.is_alive:
            why = f"its owner, {owner.name}, is dead"
        else:
            why = f"the lease of its owner, {owner.name}, ran out at {local_time(owner.until)}"
        orphans.append({"run_id": row.run_id, "reason": why, "command": command("resume", row.run_id)})


def _say(name: str, found: dict[str, Any]) -> None:
    told = ", ".join(f"{count} {status}" for status, count in found["statuses"].items())
    say_line(f"{name}: {count(found['runs'], 'run')}" + (f" ({told})" if told else ""))
    for line in found["damage"]:
        say_line(f"damage: {line}")
    for each in found["owners"]:
        say_line(f"running: {each['run_id']}, by {each['owner']}")
    for each in found["orphans"]:
        say_line(f"left behind: {each['run_id']}: {each['reason']}; go on with: {each['command']}")
    if not found["damage"]:
        say_line("the store is sound: every log was read, every digest fits")

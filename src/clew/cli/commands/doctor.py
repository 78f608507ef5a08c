"""``clew doctor``: a store looked at from end to end."""

from __future__ import annotations

from collections import Counter
from typing import Any

import typer

from clew.cli.options import JsonOption, StoreOption, store_at
from clew.cli.output import command, count, say_json, say_line
from clew.errors import StoreCorruptError
from clew.runtime.log.verification import problems
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
        damage += [told for told in problems(store, row) if told not in damage]
        if not row.damage:
            try:
                _ownership(store, row, owners, orphans)
            except StoreCorruptError as error:
                damage.append(str(error))
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
    if owner is not None and owner.holds:
        lease = {"owner": owner.name, "expires_in": round(owner.expires_in, 3)}
        owners.append({"run_id": row.run_id, **lease})
    elif row.status == "running":
        if owner is None:
            why = "nobody owns it"
        elif not owner.is_alive:
            why = f"its owner, {owner.name}, is dead"
        else:
            why = f"the lease of its owner, {owner.name}, ran out {-owner.expires_in:.0f} s ago"
        orphans.append({"run_id": row.run_id, "reason": why, "command": command("resume", row.run_id)})


def _say(name: str, found: dict[str, Any]) -> None:
    told = ", ".join(f"{count} {status}" for status, count in found["statuses"].items())
    say_line(f"{name}: {count(found['runs'], 'run')}" + (f" ({told})" if told else ""))
    for line in found["damage"]:
        say_line(f"damage: {line}")
    for each in found["owners"]:
        lease = f"lease: another {each['expires_in']:.0f} s"
        say_line(f"running: {each['run_id']}, by {each['owner']} ({lease})")
    for each in found["orphans"]:
        say_line(f"left behind: {each['run_id']}: {each['reason']}; go on with: {each['command']}")
    if not found["damage"]:
        say_line("the store is sound: every log was read, every digest fits")

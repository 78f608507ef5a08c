"""``clew doctor``: check a store for damage."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from clew.cli.commands.queues import described
from clew.cli.options import JsonOption, StoreOption, graph_option, store_at
from clew.cli.output import CommandError, command, count, say_json, say_line
from clew.errors import StoreCorruptError
from clew.runtime.log.checks.verification import problems
from clew.runtime.workers.unserved import Unserved, unserved_runs
from clew.stores import RunRow, Store


def doctor(store: StoreOption = None, as_json: JsonOption = False) -> int:
    """Check the store for damage.

    Verify the digests of every run, and list owners, abandoned runs, and queued runs that no worker can take.

    \b
    Examples:
      clew doctor
      clew doctor --store postgresql://localhost/runs --json

    The exit code is 1 if something is damaged. Abandoned runs, whose process has ended, are not damage: they are
    listed with the command that resumes them.
    """
    try:
        with store_at(store) as opened:
            found = examine(opened)
            name = repr(opened)
    except StoreCorruptError as error:  # the file itself cannot be read
        what = str(error).partition("; ")[0]
        raise CommandError(what, "use another store, or restore this one from a backup", code=1) from error
    if as_json:
        say_json({"store": name, **found})
    else:
        _say(name, found)
    return 1 if found["damage"] else 0


def examine(store: Store) -> dict[str, Any]:
    """Return the report about a store as JSON data."""
    damage = list(store.check())
    rows = store.rows()
    owners: list[dict[str, Any]] = []
    orphans: list[dict[str, Any]] = []
    for row in rows:
        damage += [line for line in problems(store, row) if line not in damage]
        if not row.damage:
            try:
                _ownership(store, row, owners, orphans)
            except StoreCorruptError as error:
                damage.append(str(error))
    unserved: list[Any] = []
    try:
        unserved = [msgspec.to_builtins(each) for each in unserved_runs(store)]
    except StoreCorruptError as error:  # the row of a worker
        if str(error) not in damage:
            damage.append(str(error))
    return {
        "runs": len(rows),
        "statuses": dict(Counter(row.status for row in rows)),
        "damage": damage,
        "owners": owners,
        "orphans": orphans,
        "unserved": unserved,
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
            why = "it has no owner"
        elif not owner.is_alive:
            why = f"the process of its owner {owner.name} has ended"
        else:
            why = f"the lease of its owner {owner.name} expired {-owner.expires_in:.0f} s ago"
        resume = command("resume", row.run_id, graph=graph_option(row))
        orphans.append({"run_id": row.run_id, "reason": why, "command": resume})


def _say(name: str, found: dict[str, Any]) -> None:
    statuses = ", ".join(f"{count} {status}" for status, count in found["statuses"].items())
    say_line(f"{name}: {count(found['runs'], 'run')}" + (f" ({statuses})" if statuses else ""))
    for line in found["damage"]:
        say_line(f"damage: {line}")
    for each in found["owners"]:
        lease = f"lease expires in {each['expires_in']:.0f} s"
        say_line(f"running: {each['run_id']}, by {each['owner']} ({lease})")
    for each in found["orphans"]:
        say_line(f"abandoned: {each['run_id']}: {each['reason']}; resume with: {each['command']}")
    for each in found["unserved"]:
        say_line(f"queued: {described(msgspec.convert(each, Unserved))}")
    if not found["damage"]:
        say_line("no damage found: all logs are readable and all digests match")

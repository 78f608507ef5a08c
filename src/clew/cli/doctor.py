"""``clew doctor``: a store looked at from end to end."""

from __future__ import annotations

from collections import Counter
from typing import Any

import typer

from clew import Graph
from clew.cli.place import GraphOption, JsonOption, StoreOption, store_at
from clew.cli.speech import count, say_json
from clew.errors import DefinitionError
from clew.runtime.soundness import complaints, needs_graph
from clew.runtime.targets import load_graph
from clew.stores import RunRow, Store


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("doctor")(doctor)


def doctor(graph: GraphOption = None, store: StoreOption = None, as_json: JsonOption = False) -> int:
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
        found = examine(opened, graph)
        name = repr(opened)
    if as_json:
        say_json({"store": name, **found})
    else:
        _say(name, found)
    return 1 if found["damage"] else 0


def examine(store: Store, graph: str | None) -> dict[str, Any]:
    """All that there is to say about a store."""
    damage = list(store.check())
    rows = store.rows()
    graphs = {
        target: _load(target) for target in dict.fromkeys(graph or row.target for row in rows) if target
    }
    unverified: list[dict[str, str]] = []
    owners: list[dict[str, Any]] = []
    orphans: list[dict[str, Any]] = []
    for row in rows:
        loaded = graphs.get(graph or row.target)
        known = loaded if isinstance(loaded, Graph) else None
        if known is None and needs_graph(store, row):
            unverified.append(
                {"run_id": row.run_id, "reason": str(loaded or "it does not say which graph made it")}
            )
        else:
            damage += [told for told in complaints(store, row, known) if told not in damage]
        _ownership(store, row, owners, orphans)
    return {
        "runs": len(rows),
        "statuses": dict(Counter(row.status for row in rows)),
        "damage": damage,
        "unverified": unverified,
        "owners": owners,
        "orphans": orphans,
    }


def _load(target: str) -> Graph | DefinitionError:
    try:
        return load_graph(target)
    except DefinitionError as error:
        return error


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
        orphans.append({"run_id": row.run_id, "reason": why, "command": f"clew resume {row.run_id}"})


def _say(name: str, found: dict[str, Any]) -> None:
    told = ", ".join(f"{count} {status}" for status, count in found["statuses"].items())
    print(f"{name}: {count(found['runs'], 'run')}" + (f" ({told})" if told else ""))
    for line in found["damage"]:
        print(f"damage: {line}")
    for each in found["unverified"]:
        print(f"not verified: {each['run_id']}: {each['reason']}")
    for each in found["owners"]:
        print(f"running: {each['run_id']}, by {each['owner']} (lease: another {each['expires_in']:.0f} s)")
    for each in found["orphans"]:
        print(f"left behind: {each['run_id']}: {each['reason']}; go on with: {each['command']}")
    if not found["damage"]:
        print(
            "the store is sound" + ("" if found["unverified"] else ": every log was read, every digest fits")
        )

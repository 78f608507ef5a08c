"""What earlier responses created: the resources in the context of the world.

A resource is a plain dict, so that the context can encode it:

    fields  scalar values of the response and of the request, by name
    former  earlier values of fields that an update changed
    rows    for a field, the column that holds it: [system, table, column]
    args    the path arguments with which it was created, as references
    actor   the actor that created it, or None
    gone    whether it was deleted

References are `[operation, index]`: the index-th resource that an operation created on this path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

from clew.explore.api.transports.messages import NOT_JSON, HttpResponse

MADE = "made"
_FIELDS = 40  # of one resource

Resource = dict[str, Any]
Made = dict[str, list[Resource]]


def scalars(value: Any) -> dict[str, Any]:
    """Return the strings and ints of a JSON object by name, also of objects inside it; outer ones win."""
    found: dict[str, Any] = {}
    for name, part in _walk(value, 0):
        if name not in found and len(found) < _FIELDS:
            found[name] = part
    return found


def _walk(value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping) or depth > 3:
        return
    for name, part in value.items():
        if isinstance(part, str | int) and not isinstance(part, bool) and isinstance(name, str):
            yield name, part
    for part in value.values():
        yield from _walk(part, depth + 1)


def fields_of(request_json: Any, response: HttpResponse) -> dict[str, Any]:
    """Return the fields of a resource that a request created."""
    sent = scalars(request_json) if request_json is not NOT_JSON else {}
    found = {**sent, **scalars(response.json)}
    location = response.header("location")
    if location and "id" not in found:
        last = location.rstrip("/").rsplit("/", 1)[-1]
        if last:
            found["id"] = int(last) if last.isdigit() else last
    return found


def new_resource(
    fields: Mapping[str, Any], args: Mapping[str, Any], actor: str | None, rows: Mapping[str, list[str]]
) -> Resource:
    """Return a resource that has just been created."""
    return {
        "fields": dict(fields),
        "former": {},
        "rows": dict(rows),
        "args": dict(args),
        "actor": actor,
        "gone": False,
    }


def update(resource: Resource, fields: Mapping[str, Any]) -> None:
    """Take over the fields that an update returned; earlier values of changed ones remain as former values."""
    known = resource["fields"]
    for name, value in fields.items():
        if name in known and known[name] != value:
            resource["former"][name] = known[name]
        if name in known or len(known) < _FIELDS:
            known[name] = value


def forget_rows(made: Made, values: Callable[[tuple[str, str, str]], Set[str]], deletes: bool) -> None:
    """Forget the columns of resources whose rows do not exist any more; `values` returns those of a column.

    A key that a database gives to a later row must not connect that row with the resource that had it before. What a
    deletion removes is gone, also if it deletes something else: a database deletes the parts with the whole.
    """
    for resources in made.values():
        for resource in resources:
            kept = {
                name: column
                for name, column in resource["rows"].items()
                if str(resource["fields"].get(name)) in values((column[0], column[1], column[2]))
            }
            if kept != resource["rows"]:
                resource["gone"] = resource["gone"] or (deletes and not kept)
                resource["rows"] = kept


def may_hold(name: str, value: Any, column: str) -> bool:
    """Return whether a column may hold a field; small numbers are equal by chance, unless they are ids."""
    return not isinstance(value, int) or name == column or name.lower().endswith(("id", "pk"))


def same_args(resource: Resource, args: Mapping[str, Any]) -> bool:
    """Return whether a resource was created with these path arguments."""
    return bool(resource["args"] == dict(args))

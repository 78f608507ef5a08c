"""Whether a resource belongs to the actor that created it, or is shared.

If another actor changes a resource, it breaks a rule only if the resource belongs to one actor. What the service stores
shows that: a column differs when another actor creates the same resource, and does not differ when the same actor
creates it again. The service shows it too, if it does not let another actor create the resource at that place. A
resource without such evidence is shared, like the books of a library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from clew.explore.api.calls import Argument, Call
from clew.explore.api.checks import ACCEPTED
from clew.explore.api.openapi.links import field_for
from clew.explore.api.resources import MADE, Made, Resource
from clew.explore.api.table_changes import Column, new_rows
from clew.explore.model.world import World

if TYPE_CHECKING:
    from clew.explore.api.sending import Sender

NUMBER = 90  # of the values of a comparison: no other call uses it
Values = dict[Column, list[str]]


def is_owned(sender: Sender, world: World, maker: str, resource: Resource, other: str | None) -> bool:
    """Create the same resource twice as its owner and once as another actor, and compare. Everything is undone."""
    owner = resource["actor"]
    if owner is None or other is None:
        return True
    here = world.checkpoint("before a comparison")
    try:
        for actor in (owner, other):  # first, so that a sign-up is not among the differences
            sender.credentials_of(world, actor)
        signed_in = world.checkpoint("before a comparison")
        try:
            seen = []
            for actor in (owner, owner, other):
                seen.append(_created(sender, world, maker, resource, actor))
                world.rollback(signed_in)
        finally:
            world.release(signed_in)
    finally:
        world.rollback(here)
        world.release(here)
    first, again, others = seen
    if first is None or again is None or others is None:
        return True
    return any(again.get(column) == values != others.get(column) for column, values in first.items())


def _created(sender: Sender, world: World, maker: str, resource: Resource, actor: str) -> Values | None:
    """Return the values of the rows that a creation adds, by column; None if it is rejected."""
    made: Made = world.context.get(MADE) or {}
    args = tuple(
        (name, _argument(sender, made, name, reference)) for name, reference in resource["args"].items()
    )
    call = Call(maker, args, number=NUMBER, actor=actor)
    request = sender.builder.build(call, made, sender.credentials_of(world, actor))
    before = sender.snapshot()
    response = sender.send(request, "follow-up")
    if response.status >= ACCEPTED:
        return None
    after = sender.after(sender.document.by_name[maker], before, response)
    found: Values = {}
    for system, table, row in new_rows(before, after, sender.schemas):
        for column, value in row.items():
            found.setdefault((system, table, column), []).append(str(value))
    return {column: sorted(values) for column, values in found.items()}


def _argument(sender: Sender, made: Made, name: str, reference: list[Any]) -> Argument:
    argument = Argument("made", reference[0], reference[1])
    parent = sender.table.resource(argument, made)
    return msgspec.structs.replace(argument, field=field_for(name, parent["fields"] if parent else {}) or "")

"""Publishing: store what nodes emit, so that handles in other processes can read it.

Published data is a part of the log that nothing else reads: it is in no digest, and a resume ignores it. The log has
the last 1,000 pieces of a run, each of at most 64 KiB, and loses them with the run. A node that runs again after a
failure or a crash emits again. Data of a child is in the log of the run itself, with the path of the child.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from clew.errors import EncodeError
from clew.runtime.log.entries.records import LARGEST_PUBLISHED, PUBLISHED, PublishedData
from clew.runtime.reporting.events import Event
from clew.state import stored_value
from clew.stores import Store
from clew.stores.protocol import LAST

if TYPE_CHECKING:
    from clew.runtime.drivers.session import Session


def publish(session: Session, event: Event) -> Event:
    """Store data that a node emits, from any thread, and return the event with its number.

    A child passes its data on to the run that contains it, which stores it: `number` is 0 until then. Raise EncodeError
    if the data cannot be stored.
    """
    node, name, data = event.data["node"], event.data["name"], event.data["data"]
    where, blobs = f"node {node!r} at {event.path} emitted {name!r}", dict[str, bytes]()
    try:
        stored = stored_value(data, at=name, blobs=blobs)
    except EncodeError as error:
        raise EncodeError(f"{where}, which cannot be stored: {error}") from error
    if blobs or len(stored) > LARGEST_PUBLISHED:
        raise EncodeError(
            f"{where} with more than {LARGEST_PUBLISHED // 1024} KiB, which publish=True does not store; emit a part "
            f"of it, or its location"
        )
    n = 0
    if session.outer is None:
        session.emitted += 1
        n, after = session.emitted, session.machine.root.step
        session.writer.write([PublishedData(n, event.path, node, name, data, event.step, after, event.time)])
    return replace(event, data={**event.data, "number": n})


def last_emitted(store: Store, run_id: str) -> int:
    """Return the number of the last published data of a run; 0 without any."""
    last = store.last(run_id, PUBLISHED.name, "", LAST)
    return 0 if last is None else int(last.n)

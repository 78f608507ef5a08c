"""Publishing: store what nodes emit, so that handles in other processes can read it.

Published data is a part of the log that nothing else reads: it is in no digest, and a resume ignores it. The log has
the last 1,000 pieces of a run, each of at most 64 KiB, and loses them with the run. A node that runs again after a
failure or a crash emits again.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

from clew.engine.frame import Item
from clew.errors import EncodeError
from clew.runtime.log.records import LARGEST_PUBLISHED, PUBLISHED, PublishedData
from clew.state import stored_value
from clew.stores import Store
from clew.stores.protocol import LAST

if TYPE_CHECKING:
    from clew.runtime.drivers.session import Session

_numbering = Lock()


def publish(session: Session, item: Item, name: str, data: Any) -> int:
    """Store data, from any thread, and return its number. Raise EncodeError if it cannot be stored."""
    where, blobs = f"node {item.node.name!r} at {item.path} emitted {name!r}", dict[str, bytes]()
    try:
        stored = stored_value(data, at=name, blobs=blobs)
    except EncodeError as error:
        raise EncodeError(f"{where}, which cannot be stored: {error}") from error
    if blobs or len(stored) > LARGEST_PUBLISHED:
        raise EncodeError(
            f"{where} with more than {LARGEST_PUBLISHED // 1024} KiB, which publish=True does not store; emit a part "
            f"of it, or its location"
        )
    now, after = session.clock.time(), session.machine.root.step
    with _numbering:
        session.emitted += 1
        n = session.emitted
    session.writer.write([PublishedData(n, item.path, item.node.name, name, data, item.step, after, now)])
    return n


def last_emitted(store: Store, run_id: str) -> int:
    """Return the number of the last published data of a run; 0 without any."""
    last = store.last(run_id, PUBLISHED.name, "", LAST)
    return 0 if last is None else int(last.n)

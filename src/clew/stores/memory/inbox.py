"""Messages to runs in memory: methods of `MemoryStore`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from clew.stores.memory import queue
from clew.stores.protocol import Message

if TYPE_CHECKING:
    from clew.stores.memory.store import MemoryStore


def send(store: MemoryStore, run_id: str, message_id: str, kind: str, body: Any) -> int:
    with store._lock:
        run = store._find(run_id)
        n = run.sent.get(message_id)
        if n is None:
            n = run.sent[message_id] = len(run.sent) + 1
            run.inbox[n] = Message(n, message_id, kind, body)
            queue.wake(store, run)
        return int(n)


def inbox(store: MemoryStore, run_id: str) -> list[Message]:
    with store._lock:
        return list(store._find(run_id).inbox.values())


def addressed(store: MemoryStore, run_ids: Sequence[str]) -> list[str]:
    with store._lock:
        return [run_id for run_id in run_ids if (run := store._runs.get(run_id)) is not None and run.inbox]


def receive(run: Any, numbers: Iterable[int]) -> None:
    """Remove messages."""
    for n in numbers:
        run.inbox.pop(n, None)

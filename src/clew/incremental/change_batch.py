"""Batches that are open: where a change goes that is made within one.

Which batch is open is a matter of context, so two tasks, or two threads, may each have one. A task that is started
within a batch takes part in it, and may live longer than it does.

Rules:

- A batch that is over takes nothing more. What would have gone there goes to the batch around it; if there is none, it
  is a change of its own.
- A batch within another hands on what it holds when it ends well, and holds it back until then. If that other one has
  ended meanwhile, it is a batch of its own.
"""

from __future__ import annotations

from contextvars import ContextVar, Token

from clew.incremental.changes import NodeChange

_open: ContextVar[dict[int, ChangeBatch] | None] = ContextVar("_open", default=None)  # by the id of the graph


class ChangeBatch:
    """The changes of one batch of one graph."""

    __slots__ = ("around", "changes", "is_over")

    def __init__(self, around: ChangeBatch | None) -> None:
        self.around = around
        self.changes: list[NodeChange] = []
        self.is_over = False


def batch_here(graph: int) -> ChangeBatch | None:
    """The innermost batch of a graph that takes changes from here."""
    batches = _open.get()
    batch = None if batches is None else batches.get(graph)
    while batch is not None and batch.is_over:
        batch = batch.around
    return batch


def opened(graph: int) -> tuple[ChangeBatch, Token[dict[int, ChangeBatch] | None]]:
    """A new batch, within the one that is here."""
    batch = ChangeBatch(batch_here(graph))
    return batch, _open.set({**(_open.get() or {}), graph: batch})


def left(token: Token[dict[int, ChangeBatch] | None]) -> None:
    """Changes from here go again where they went before."""
    _open.reset(token)

"""Submit an item to an executor.

Thread pools get the function itself. Other executors may pickle a call, and a decorated function cannot be pickled,
because its module has the node under that name. So they get the import path of the node, and the arguments. Nodes that
take a context, generators and rescue functions, whose exception may not survive pickling, cannot leave this process;
they always run on threads.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import reduce
from typing import Any

from clew.engine.frame import Item
from clew.errors import NodeError, RunCancelledError
from clew.graph import Node
from clew.runtime.calls.arguments import arguments
from clew.runtime.drivers.session import Session
from clew.runtime.drivers.thread_pool import DaemonThreadPool


def submit(
    session: Session, item: Item, executor: Executor, own_threads: Callable[[], DaemonThreadPool]
) -> Future[Any]:
    """Start an item on an executor."""
    if isinstance(executor, DaemonThreadPool):
        return executor.submit(_called, session, item, item.attempt)
    from clew.runtime.drivers.executor_queue import note_start

    future = _submit(session, item, executor, own_threads)
    note_start(session, item, executor, future)
    return future


def _submit(
    session: Session, item: Item, executor: Executor, own_threads: Callable[[], DaemonThreadPool]
) -> Future[Any]:
    if isinstance(executor, ThreadPoolExecutor):
        return executor.submit(_called, session, item, item.attempt)
    node = item.node
    if node.mode != "sync" or any(param.kind in ("context", "error") for param in node.params):
        return own_threads().submit(_called, session, item, item.attempt)
    if node.side_effects.recordable or node.side_effects.requires_idempotency:
        given = session.before_effects(item)
        if given:
            known: Future[Any] = Future()
            known.set_result(given[0])
            return known
    args, kwargs = arguments(item, None)
    path = import_path(node)
    if path is None:
        return executor.submit(node.func, *args, **kwargs)
    return executor.submit(call_by_path, *path, args, kwargs)


def _called(session: Session, item: Item, attempt: int) -> Any:
    """Call an item's function on a thread. A StopIteration becomes a NodeError, because asyncio futures reject it.

    The thread may start after its attempt has ended and the next one is running; then it does nothing.
    """
    if item.attempt != attempt:
        raise RunCancelledError(f"{item.path}: attempt {attempt} ended before its thread started")
    try:
        return session.call(item, attempt)
    except StopIteration as error:
        raise NodeError(
            f"node {item.node.name!r} at {item.path} raised StopIteration; give next() a default"
        ) from error


def import_path(node: Node) -> tuple[str, str] | None:
    """Return the module and the name of a node for import in another process; None if that name is not the node."""
    module = getattr(node.func, "__module__", None)
    name = getattr(node.func, "__qualname__", None)
    if module is None or name is None or "<" in name:
        return None
    try:
        found = reduce(getattr, name.split("."), importlib.import_module(module))
    except (ImportError, AttributeError):
        return None
    return (module, name) if isinstance(found, Node) else None


def call_by_path(module: str, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call a node's function in another process."""
    found: Any = reduce(getattr, name.split("."), importlib.import_module(module))
    return found.func(*args, **kwargs)

"""Find work that a node returned without awaiting it, and say which line to fix.

Rules:

- Pending work is a coroutine, an async generator, or a task or future of asyncio that is not done. A sync node must not
  return one. An async node or generator must not return one, nor a list, tuple, set, dict or `Command` that holds one,
  up to six containers deep. Of each container, the first 16 values are examined, and below the second at most 64 in
  all, so the search is cheap. A store rejects what the search does not find, because pending work cannot be encoded.
- What was found is closed or cancelled: Python would warn about each coroutine when it is collected.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from itertools import islice
from types import AsyncGeneratorType, CoroutineType
from typing import Any

from clew.engine.frame import Item
from clew.errors import OutputError
from clew.graph import Command
from clew.runtime.calls import recorder
from clew.state.type_names import a

CONTAINERS: frozenset[type] = frozenset({list, tuple, set, frozenset, dict})
PENDING: set[type] = {CoroutineType, AsyncGeneratorType}  # and the futures of asyncio, once it is imported
RISKY: set[type] = {*CONTAINERS, *PENDING, Command}
"""The classes of return values that `holds_pending` has to examine."""

_EXAMINED = 16
_DEEP, _EXAMINED_DEEP = 6, 64


def know_futures() -> None:
    """Count the futures of asyncio as pending work. The module of the driver that needs asyncio calls it."""
    import asyncio

    gathered: type = asyncio.tasks._GatheringFuture  # type: ignore[attr-defined]
    futures: set[type] = {asyncio.Future, asyncio.Task, gathered}
    PENDING.update(futures)
    RISKY.update(futures)


def holds_pending(value: Any) -> bool:
    """Return whether a value is pending work, or a container that holds some."""
    kind = type(value)
    if kind in PENDING:
        return is_pending(value)
    if kind is Command:
        value, kind = value.update, type(value.update)
    if kind is dict:
        value = value.values()
    elif kind not in CONTAINERS:
        return False
    deep: list[Any] = []
    for each in islice(value, _EXAMINED):  # plain loops: this runs after each call of an async node
        kind = type(each)
        if kind in PENDING:
            if is_pending(each):
                return True
        elif kind in CONTAINERS:
            for inner in islice(each.values() if kind is dict else each, _EXAMINED):
                kind = type(inner)
                if kind in CONTAINERS:
                    deep.append(inner)
                elif kind in PENDING and is_pending(inner):
                    return True
    return bool(deep) and bool(_pending(deep, _DEEP - 1, _EXAMINED_DEEP))


def is_forgotten(item: Item, value: Any) -> bool:
    """Return whether a node returned pending work. A sync node may return a container that holds some."""
    return (item.node.mode[:5] == "async" or type(value) in PENDING) and holds_pending(value)


def is_pending(work: Any) -> bool:
    """Return whether something of a class in `PENDING` waits to be awaited: a future that is done does not, and a node
    may return the task that runs it."""
    if type(work) in (CoroutineType, AsyncGeneratorType):
        return True
    import asyncio

    return not work.done() and asyncio._get_running_loop() is not None and work is not asyncio.current_task()


def forgotten_await(item: Item, value: Any) -> OutputError:
    """Return the error of a node that did not await pending work, and close the work that it returned."""
    found = _pending(value, _DEEP, None)
    for work in found:
        if isinstance(work, CoroutineType):
            work.close()
        elif not isinstance(work, AsyncGeneratorType):
            work.cancel()
    node, (what, name) = item.node, _what(found[0])
    place = _place(node.func, name.rpartition(".")[2])
    if node.mode == "sync":
        return OutputError(
            f"node {node.name!r} returned the {what} {name!r} without awaiting it ({place}); declare the node with "
            f"`async def` and write `{_fix(found)}`"
        )
    returned = "returned" if type(value) in PENDING else f"returned {a(type(value))} that holds"
    return OutputError(
        f"node {node.name!r} {returned} the {what} {name!r}, which was never awaited ({place}); write `{_fix(found)}`"
    )


def _fix(found: list[Any]) -> str:
    what, name = _what(found[0])
    if what == "async generator":
        return f"[each async for each in {name}(...)]"
    if len(found) > 1:
        return "await asyncio.gather(...)"
    return f"await {name}(...)" if what == "coroutine" else "await " + what


def _what(work: Any) -> tuple[str, str]:
    """Return the kind of pending work, and the name of its function."""
    if isinstance(work, AsyncGeneratorType):
        return "async generator", work.__name__
    if not isinstance(work, CoroutineType):
        # a task has one, other futures do not
        coroutine = work.get_coro() if hasattr(work, "get_coro") else None
        return ("future", "future") if coroutine is None else ("task", _what(coroutine)[1])
    is_recorded = work.cr_code.co_filename == recorder.__file__
    return "coroutine", "ctx.record" if is_recorded else work.__name__


def _pending(value: Any, depth: int, most: int | None) -> list[Any]:
    """Return the pending work in a value, down to ``depth`` containers; examine at most ``most`` values."""
    found: list[Any] = []
    level: list[Any] = [value.update if type(value) is Command else value]
    for _ in range(depth + 1):
        deeper: list[Any] = []
        for each in level:
            if type(each) in PENDING:
                found += [each] if is_pending(each) else []
            elif type(each) in CONTAINERS:
                deeper.extend(islice(each.values() if type(each) is dict else each, most))
        if most is not None:
            most -= min(most, len(deeper))
        level = deeper
    return found


def _place(func: Callable[..., Any], name: str) -> str:
    """Return file and line of the first call of `name` in a function that is not awaited; otherwise of the function."""
    inner = inspect.unwrap(func)
    code = getattr(inner, "__code__", None)
    if code is None:
        return f"in {func!r}"
    line = code.co_firstlineno
    try:
        lines, first = inspect.getsourcelines(inner)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):  # a function without source
        return f"{code.co_filename}:{line}"
    awaited = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Await)}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and id(call) not in awaited and _called(call) == name:
            line = first + call.lineno - 1
            break
    return f"{code.co_filename}:{line}"


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")

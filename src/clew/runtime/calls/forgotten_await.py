"""Find a coroutine that a node returned without awaiting it, and say which line to fix.

Rules:

- A sync node must not return a coroutine. An async node must not return one, nor a list, tuple, set or dict that holds
  one, up to two containers deep. Of each container, the first 16 values are examined, so the search is cheap.
- The coroutines that were found are closed: Python would warn about each of them when it is collected.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from itertools import islice
from types import CoroutineType
from typing import Any

from clew.engine.frame import Item
from clew.errors import OutputError
from clew.runtime.calls import recorder
from clew.state.type_names import a

CONTAINERS: frozenset[type] = frozenset({list, tuple, set, frozenset, dict})
RISKY = CONTAINERS | {CoroutineType}
"""The classes of return values that `holds_coroutine` has to examine."""

_EXAMINED = 16


def holds_coroutine(value: Any) -> bool:
    """Return whether a value is a coroutine, or a container that holds one."""
    kind = type(value)
    if kind is CoroutineType:
        return True
    if kind is dict:
        value = value.values()
    elif kind not in CONTAINERS:
        return False
    for each in islice(value, _EXAMINED):  # plain loops: this runs after each call of an async node
        kind = type(each)
        if kind is CoroutineType:
            return True
        if kind in CONTAINERS:
            for inner in islice(each.values() if kind is dict else each, _EXAMINED):
                if type(inner) is CoroutineType:
                    return True
    return False


def forgotten_await(item: Item, value: Any) -> OutputError:
    """Return the error of a node that did not await a coroutine, and close the coroutines that it returned."""
    found = _coroutines(value, 2)
    for coroutine in found:
        coroutine.close()
    node, name = item.node, _name(found[0])
    place = _place(node.func, name.rpartition(".")[2])
    if node.mode == "sync":
        return OutputError(
            f"node {node.name!r} returned the coroutine {name!r} without awaiting it ({place}); declare the node with "
            f"`async def` and write `await {name}(...)`"
        )
    what = "returned" if type(value) is CoroutineType else f"returned {a(type(value))} that holds"
    fix = f"await {name}(...)" if len(found) == 1 else "await asyncio.gather(...)"
    return OutputError(
        f"node {node.name!r} {what} the coroutine {name!r}, which was never awaited ({place}); write `{fix}`"
    )


def _name(coroutine: CoroutineType[Any, Any, Any]) -> str:
    is_recorded = coroutine.cr_code.co_filename == recorder.__file__
    return "ctx.record" if is_recorded else coroutine.__name__


def _coroutines(value: Any, depth: int) -> list[CoroutineType[Any, Any, Any]]:
    if type(value) is CoroutineType:
        return [value]
    if type(value) not in CONTAINERS or not depth:
        return []
    inside = value.values() if type(value) is dict else value
    return [found for each in inside for found in _coroutines(each, depth - 1)]


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

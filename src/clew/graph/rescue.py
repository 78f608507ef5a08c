"""Rescue functions: what runs in the place of a node after its last attempt has failed.

``@node(..., rescue=fn)``: the engine calls ``fn(error, ...)``. Its return value is read like that of the node: a value,
a partial update, a ``Command``, the choice of a gate. Rules:

- The first parameter gets the exception. Every other one has the name of a parameter of the node, and gets the same
  argument; with a default, it may have another name.
- The function is a plain or an async function, without a ``Context``: it makes no recorded calls and asks nothing.
- It runs under the timeout of the node, and is not retried.
- An interrupt has no rescue: its return value is a question.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from clew.errors import GraphError
from clew.graph.names import nearest
from clew.graph.signature import MISSING, Mode, Param, mode_of, read_params


@dataclass(frozen=True, eq=False)
class Rescue:
    """A rescue function and its parameters; the first one gets the exception."""

    func: Callable[..., Any]
    params: tuple[Param, ...]
    mode: Mode

    def params_for(self, node: tuple[Param, ...]) -> tuple[Param, ...]:
        """Return the parameters with the sources of those of the node."""
        known = {param.name: param for param in node}
        first, *others = self.params
        found = [
            replace(known[param.name], keyword_only=param.keyword_only)
            for param in others
            if param.name in known
        ]
        return (replace(first, kind="error"), *found)


def read_rescue(func: Any, kind: str, node: tuple[Param, ...], where: str) -> Rescue | None:
    """Return the rescue function of a node. Raises GraphError if it cannot be one."""
    if func is None:
        return None
    what = f"rescue= of {where}"
    if kind == "interrupt":
        raise GraphError(f"{what}: an interrupt returns a question and has no rescue; remove it.")
    if not callable(func) or isinstance(func, type):
        raise GraphError(f"{what}: expected a function that takes the exception, got {func!r}.")
    if any(each.kind is each.VAR_KEYWORD for each in _parameters(func)):
        raise GraphError(f"{what}: list the inputs of the node that it reads, instead of ** parameters.")
    params, mode = read_params(func, what), mode_of(func)
    if mode not in ("sync", "async"):
        raise GraphError(f"{what}: a generator cannot be a rescue; return the value.")
    if not params or params[0].keyword_only:
        raise GraphError(f"{what}: its first parameter gets the exception; write def rescue(error, ...).")
    names = [param.name for param in node if param.kind != "context"]
    for param in params[1:]:
        if param.kind == "context":
            raise GraphError(f"{what}: a rescue takes no Context; remove the parameter {param.name!r}.")
        if param.name not in names and param.default is MISSING:
            raise GraphError(
                f"{what}: {param.name!r} is not an input of the node, and a rescue gets only those; add the parameter "
                f"to the node too, or remove it; {nearest(param.name, names)}"
            )
    return Rescue(func, params, mode)


def _parameters(func: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(func).parameters.values())
    except (TypeError, ValueError):  # `read_params` reports it
        return []

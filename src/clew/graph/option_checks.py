"""Checks of what people give as options: each refuses in one sentence that names the option and says what it takes.

They run when a node or a graph is made, never while one runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from clew.errors import GraphError
from clew.graph.policies import SideEffectPolicy


def check_flag(value: Any, what: str) -> bool:
    """``value`` if it is True or False."""
    if not isinstance(value, bool):
        raise GraphError(f"{what} is True or False, not {value!r}.")
    return value


def check_text(value: Any, what: str) -> str:
    """``value`` if it is text."""
    if not isinstance(value, str):
        raise GraphError(f"{what} is text, not {value!r}.")
    return value


def check_function(value: Any, what: str, takes: str) -> Any:
    """``value`` if it is None or can be called."""
    if value is not None and not callable(value):
        raise GraphError(f"{what} is a function {takes}, not {value!r}.")
    return value


def check_names(names: Any, what: str) -> tuple[str, ...]:
    """The names in a list, each of them once."""
    if isinstance(names, str):
        raise GraphError(f"{what} is a list of names, not the string {names!r}; write ({names!r},).")
    if not isinstance(names, Iterable) or isinstance(names, Mapping):
        raise GraphError(f"{what} is a list of names, not {names!r}.")
    listed = list(names)
    for name in listed:
        if not isinstance(name, str):
            raise GraphError(f"{what} is a list of names, and {name!r} is none.")
    return tuple(dict.fromkeys(listed))


def check_renaming(names: Any, what: str) -> Mapping[str, str]:
    """A mapping of old names to new ones."""
    if names is None:
        return {}
    if not isinstance(names, Mapping):
        raise GraphError(f"{what} maps old names to new ones, like {{'old': 'new'}}, not {names!r}.")
    return names


def check_side_effects(value: Any, what: str) -> SideEffectPolicy:
    """What a node does to the outside world; nothing, unless it says so."""
    if value is None:
        return SideEffectPolicy()
    if not isinstance(value, SideEffectPolicy):
        raise GraphError(
            f"{what} is a SideEffectPolicy, not {value!r}; write side_effects=SideEffectPolicy(recordable=True)."
        )
    return value

"""Checks of options. Each returns the value, or raises `GraphError` with the option and what it accepts.

They run when a node or a graph is built, never during a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from clew.errors import GraphError
from clew.graph.names import is_text
from clew.graph.policies import Cache, SideEffectPolicy


def check_bare(func: Any, usage: str) -> None:
    """Reject a name or a list in the place of the function: the caller meant an option."""
    if isinstance(func, (str, list, tuple)):
        raise GraphError(f"{func!r} is not a function; give options by name: {usage}.")


def check_flag(value: Any, what: str) -> bool:
    """Return ``value`` if it is True or False."""
    if not isinstance(value, bool):
        raise GraphError(f"{what}: expected True or False, got {value!r}.")
    return value


def check_on(value: Any, what: str) -> Literal["anywhere", "driver"]:
    """Return where a node may run."""
    if value != "anywhere" and value != "driver":
        raise GraphError(f"{what}: expected 'anywhere' or 'driver', got {value!r}.")
    return value  # type: ignore[no-any-return]


def check_cache(value: Any, what: str) -> Cache | None:
    """Return the caching of a node: a `Cache`, or None if it is not cached."""
    if isinstance(value, Cache):
        return value
    if not isinstance(value, bool):
        raise GraphError(f"{what}: expected True, False or a Cache, got {value!r}.")
    return Cache() if value else None


def check_text(value: Any, what: str) -> str:
    """Return ``value`` if it is a string that can be stored."""
    if not isinstance(value, str):
        raise GraphError(f"{what}: expected a string, got {value!r}.")
    if not is_text(value):
        raise GraphError(f"{what}: {value!r} has a lone surrogate, which cannot be stored.")
    return value


def check_function(value: Any, what: str, takes: str) -> Any:
    """Return ``value`` if it is None or callable."""
    if value is not None and not callable(value):
        raise GraphError(f"{what}: expected a function {takes}, got {value!r}.")
    return value


def check_names(names: Any, what: str) -> tuple[str, ...]:
    """Return the names in a list, without duplicates."""
    if isinstance(names, str):
        raise GraphError(f"{what}: expected a list of names, got the string {names!r}; write ({names!r},).")
    if not isinstance(names, Iterable) or isinstance(names, Mapping):
        raise GraphError(f"{what}: expected a list of names, got {names!r}.")
    listed = list(names)
    for name in listed:
        if not isinstance(name, str):
            raise GraphError(f"{what}: expected a list of names, but it contains {name!r}.")
    return tuple(dict.fromkeys(listed))


def check_renaming(names: Any, what: str) -> Mapping[str, str]:
    """Return a mapping of old names to new ones; empty for None."""
    if names is None:
        return {}
    if not isinstance(names, Mapping):
        raise GraphError(f"{what}: expected a mapping such as {{'old': 'new'}}, got {names!r}.")
    return names


def check_side_effects(value: Any, what: str) -> SideEffectPolicy:
    """Return the side-effect policy of a node; the default policy for None."""
    if value is None:
        return SideEffectPolicy()
    if not isinstance(value, SideEffectPolicy):
        raise GraphError(
            f"{what}: expected a SideEffectPolicy, got {value!r}; write side_effects=SideEffectPolicy(recordable=True)."
        )
    return value

"""Classes that were defined again do not outlive their test.

Tests define classes of one name again and again, in parametrised tests and in modules that call `make_dataclass`. While
the registry holds an older definition, whatever is read from a memory store is searched for instances of it: that
doubles the time of a run in memory, for all later tests of the process.
"""

from __future__ import annotations

import sys

_registered = 0  # how many there were at the last look


def forget_replaced_classes() -> None:
    """Drop the definitions that are not the newest ones of their classes from the registry."""
    global _registered
    registry = sys.modules.get("clew.state.registry")
    if registry is None or len(registry._by_class) == _registered:
        return
    newest = registry.newest_entries()
    for cls in list(registry._by_class):
        entry = newest.get(registry.origin_of(cls))
        if entry is not None and entry.cls is not cls:
            del registry._by_class[cls]
    _registered = len(registry._by_class)

"""The values that a fork or a rerun sets. They replace those of the state; no reducer is called.

For a field with a reducer the caller may have meant to add. So a value that drops something of the old one warns.
`Overwrite` says that replacing is meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from clew.graph import Graph
from clew.graph_warnings import warn
from clew.runtime.log.run_checks import check_mapping
from clew.state import GraphState, Overwrite, equal


def replacements(
    graph: Graph, what: str, parent: str, state: GraphState, values: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return the values without `Overwrite`; warn if a reduced value of the state would be lost.

    `what` is the verb, and `state` is where the new run starts.
    """
    if values is None:
        return None
    check_mapping(values)
    fields = {} if graph.schema is None else graph.schema.fields
    for name, value in values.items():
        is_reduced = name in fields and fields[name].reducer is not None and state.has(name)
        if is_reduced and not isinstance(value, Overwrite) and not _extends(value, state.get(name)):
            old = f"engine.state({parent!r}, {state.step}).get({name!r})"
            warn(
                f"{what} of {parent!r}: {name!r} has a reducer, but values= replaces it and does not add to it; to "
                f"add, give the old value and the new one, combined (the old one is {old}); to replace it without "
                f"this warning, give Overwrite(...)"
            )
    return {name: value.value if isinstance(value, Overwrite) else value for name, value in values.items()}


def _extends(value: Any, old: Any) -> bool:
    """Return whether a value has everything that the old one has."""
    try:
        if isinstance(old, (list, tuple)):
            return equal(list(value)[: len(old)], list(old))
        if isinstance(old, Mapping):
            return all(key in value and equal(value[key], item) for key, item in old.items())
        return bool(value >= old) if isinstance(old, Set) else equal(value, old)
    except Exception:  # the new value may be of another kind
        return False

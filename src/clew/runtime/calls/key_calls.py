"""Call a key function of a node with the inputs of an item: ``idempotency_key=`` and ``Cache(key=...)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clew.engine.frame import Item
from clew.graph.key_functions import state_names, wanted_by_key
from clew.runtime.calls.arguments import whole_state


def call_key_function(item: Item, function: Callable[..., Any], option: str) -> Any:
    """Return what a key function returns for the inputs of an item."""
    node = item.node
    positional, named = wanted_by_key(node, function, option)
    values = {p.name: item.lookup(p.source, p.default) for p in node.params if p.kind == "value"}
    wanted = state_names(node) & {*positional, *named}
    if wanted:
        values.update(dict.fromkeys(wanted, whole_state(item, item.values())))
    return function(*[values[name] for name in positional], **{name: values[name] for name in named})

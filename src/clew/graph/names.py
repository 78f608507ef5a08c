"""Names: what a node and a value may be called, and which name somebody probably meant.

Rules:

- A node's name is part of an item's path (``scan#1[3]/executor#2``), so it holds none of ``/ # [ ]``.
- ``END`` is where a path ends; no node may be called that.
- A value's name is a Python identifier, because functions read it as a parameter.
- ``state`` and ``ctx`` are what a node is given; no node may write them.
- Whoever names something that does not exist is told the nearest name that does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, final

from clew.errors import GraphError

RESERVED_IN_PATHS: Final = "/#[]"
RESERVED_VALUES: Final = frozenset({"state", "ctx"})


@final
class _End:
    """The type of :data:`END`; there is one instance, which copies and pickles to itself."""

    _only: _End | None = None

    def __new__(cls) -> _End:
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __str__(self) -> str:
        return "END"

    def __repr__(self) -> str:
        return "END"

    def __reduce__(self) -> str:
        return "END"


END: Any = _End()
"""The target that ends a path: a gate that returns it selects nothing."""


def name_of(target: Any, where: str) -> str:
    """The name of a target given as a name, a node, a plain function or END."""
    if isinstance(target, str):
        return target
    if target is END:
        return str(END)
    name = getattr(target, "name", None)
    if not isinstance(name, str):
        name = getattr(target, "__name__", None)
    if isinstance(name, str) and not isinstance(target, type) and name != "<lambda>":
        return name
    raise GraphError(f"{where}: {target!r} names no node; give a node's name, the node itself, or END.")


def names_of(targets: Any, where: str) -> tuple[str, ...]:
    """The names of one target or of several."""
    if isinstance(targets, (list, tuple)):
        return tuple(name_of(target, where) for target in targets)
    if isinstance(targets, (set, frozenset)):
        raise GraphError(f"{where}: a set has no order; give a list or a tuple.")
    return (name_of(targets, where),)


def check_node_name(name: Any) -> str:
    """``name`` if a node may be called that."""
    if not isinstance(name, str):
        raise GraphError(f"a node's name is a string, not {name!r}.")
    if not name:
        raise GraphError("a node's name cannot be empty; give it one with name=.")
    if name == str(END):
        raise GraphError("a node cannot be called 'END': that is where a path ends; choose another name.")
    for character in RESERVED_IN_PATHS:
        if character in name:
            raise GraphError(
                f"a node cannot be called {name!r}: {character!r} is used in paths; choose another name."
            )
    return name


def check_value_name(name: Any, where: str) -> str:
    """``name`` if a value may be called that."""
    if not isinstance(name, str) or not name.isidentifier():
        raise GraphError(f"{where}: {name!r} cannot be the name of a value; use a Python identifier.")
    return name


def check_output_name(name: Any, where: str) -> str:
    """``name`` if a node may write a value of that name."""
    if check_value_name(name, where) in RESERVED_VALUES:
        raise GraphError(f"{where}: {name!r} is reserved for what a node is given; write another value.")
    return str(name)


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the nearest known name, or all of them if none is near."""
    from difflib import get_close_matches  # for those who made a mistake

    names = list(dict.fromkeys(known))
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    if names:
        return f"there are: {', '.join(map(repr, names))}."
    return "there are none."

"""Names of nodes and values.

Rules:

- A node's name is part of an item's path (``scan#1[3]/executor#2``), so it must not contain ``/ # [ ]``. Paths are
  stored, so it must have an encoding.
- ``END`` ends a path and cannot be the name of a node.
- A value's name is a Python identifier, because functions read it as a parameter.
- ``state`` and ``ctx`` are parameters with a special meaning; no node may write them.
- An error about an unknown name suggests the most similar known name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, final

from clew.errors import GraphError

RESERVED_IN_PATHS: Final = "/#[]"
RESERVED_VALUES: Final = frozenset({"state", "ctx"})


@final
class _End:
    """The type of :data:`END`. Its only instance copies and pickles to itself."""

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
    """Return the name of a target: a name, a node, a plain function or END."""
    if isinstance(target, str):
        return target
    if target is END:
        return str(END)
    name = getattr(target, "name", None)
    if not isinstance(name, str):
        name = getattr(target, "__name__", None)
    if isinstance(name, str) and not isinstance(target, type) and name != "<lambda>":
        return name
    raise GraphError(f"{where}: expected a node, the name of a node or END, got {target!r}.")


def names_of(targets: Any, where: str) -> tuple[str, ...]:
    """Return the names of one target or of several."""
    if isinstance(targets, (list, tuple)):
        return tuple(name_of(target, where) for target in targets)
    if isinstance(targets, (set, frozenset)):
        raise GraphError(f"{where}: a set has no order; give a list or a tuple.")
    return (name_of(targets, where),)


def check_node_name(name: Any) -> str:
    """Return ``name`` if it is valid for a node, else raise GraphError."""
    if not isinstance(name, str):
        raise GraphError(f"name of a node: expected a string, got {name!r}.")
    if not name:
        raise GraphError("the name of a node is empty; set it with name=.")
    if name == str(END):
        raise GraphError("a node cannot be named 'END', which ends a path; choose another name.")
    for character in RESERVED_IN_PATHS:
        if character in name:
            raise GraphError(
                f"a node cannot be named {name!r}: {character!r} is reserved for paths; choose another name."
            )
    if not is_text(name):
        raise GraphError(
            f"a node cannot be named {name!r}: a lone surrogate cannot be stored; choose another name."
        )
    return name


def is_text(text: str) -> bool:
    """Return whether a string can be encoded as UTF-8: a lone surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_value_name(name: Any, where: str) -> str:
    """Return ``name`` if it is valid for a value, else raise GraphError."""
    if not isinstance(name, str) or not name.isidentifier():
        raise GraphError(f"{where}: {name!r} is not a valid name for a value; use a Python identifier.")
    return name


def check_output_name(name: Any, where: str) -> str:
    """Return ``name`` if it is valid for a value that a node writes, else raise GraphError."""
    if check_value_name(name, where) in RESERVED_VALUES:
        raise GraphError(f"{where}: {name!r} is a reserved parameter name; write to a value of another name.")
    return str(name)


def similar(name: str, known: Iterable[str]) -> str | None:
    """Return the most similar of the other known names, or None if none is similar."""
    from difflib import get_close_matches  # only needed for errors

    close = get_close_matches(name, sorted({*known} - {name}), n=1, cutoff=0.6)
    return close[0] if close else None


def is_misspelt(name: str, other: str) -> bool:
    """Return whether two names differ by one letter, or by two letters that changed places."""
    if len(name) > len(other):
        name, other = other, name
    start = next((i for i, letter in enumerate(name) if letter != other[i]), len(name))
    if len(name) < len(other):
        return name[start:] == other[start + 1 :]
    swapped = other[start + 1 : start + 2] + other[start : start + 1]
    return name != other and (
        name[start + 1 :] == other[start + 1 :]
        or (name[start : start + 2] == swapped and name[start + 2 :] == other[start + 2 :])
    )


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message: the most similar known name, or all of them."""
    names = list(dict.fromkeys(known))
    close = similar(name, names)
    if close is not None:
        return f"did you mean {close!r}?"
    if names:
        return f"known names: {', '.join(map(repr, names))}."
    return "none are defined."

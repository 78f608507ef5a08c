"""Building msgspec structs without ``__post_init__``.

msgspec runs ``__post_init__`` whenever it creates a struct, except when it copies one. So one blank instance of the
class is made, and each struct is a copy of it whose fields are then set.

The blank instance is made by a subclass without ``__post_init__``, and then becomes an instance of the class. The
subclass is dropped at once, so that it does not stay among the subclasses of the class.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import msgspec

_set_class = object.__dict__["__class__"].__set__  # bypasses the __setattr__ of a frozen struct
_copy: Callable[[Any], Any] = msgspec.Struct.__copy__  # type: ignore[attr-defined] # not in its stubs


class _WithoutHooks:
    """Comes before the class, so that its own hooks do not run."""

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        """Do nothing: the program does not know the subclass."""

    def __post_init__(self) -> None:
        """Do nothing."""


def blank_copies(cls: type[msgspec.Struct]) -> Callable[..., Any]:
    """Return a function that takes all fields by name and returns an instance, without running ``__post_init__``."""
    blank = _blank(cls)
    setters = {name: getattr(cls, name).__set__ for name in cls.__struct_fields__}

    def make(**fields: Any) -> Any:
        instance = _copy(blank)
        for name, value in fields.items():
            setters[name](instance, value)
        return instance

    return make


def _blank(cls: type[msgspec.Struct]) -> msgspec.Struct:
    subclass: Any = types.new_class(cls.__name__, (_WithoutHooks, cls), {}, lambda body: None)
    # A list in each field: a struct of plain values is hidden from the garbage collector, and so are its copies.
    blank = subclass(**{name: [] for name in cls.__struct_fields__})
    _set_class(blank, cls)
    return blank  # type: ignore[no-any-return]

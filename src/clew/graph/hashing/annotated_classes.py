"""The methods of the classes that parameters are annotated with: a function may call them on its arguments.

Only functions that the user wrote count: plain, static and class methods, and properties. Fields, docstrings,
validators, and methods that a decorator such as ``dataclass`` made do not. Classes in generics, base classes and the
types of fields are followed, because a method may call theirs.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from clew.graph.annotations import classes_in


def methods_of(
    annotations: Iterable[Any], is_own: Callable[[Any], bool]
) -> Iterator[tuple[str, types.FunctionType]]:
    """Yield the methods of the classes in these annotations, by qualified name, in alphabetical order.

    `is_own` tells whether a class or a function belongs to the package whose code counts.
    """
    waiting, known = list(classes_in(annotations)), set[type]()
    while waiting:
        cls = waiting.pop()
        if cls not in known and is_own(cls):
            known.add(cls)
            waiting += [*cls.__bases__, *classes_in(_hints(cls))]
    found = {
        f"{cls.__module__}:{cls.__qualname__}.{name} {number}": function
        for cls in known
        for name, member in vars(cls).items()
        for number, function in enumerate(_functions(member))
        if is_own(function) and not function.__code__.co_filename.startswith("<")
    }
    for name in sorted(found):
        yield name, found[name]


def parts_of(member: Any) -> tuple[Any, ...]:
    """Return the functions that a member of a class is made of; any other member itself."""
    if isinstance(member, staticmethod | classmethod):
        return (member.__func__,)
    if isinstance(member, property):
        return member.fget, member.fset, member.fdel
    return (member.func,) if isinstance(member, functools.cached_property) else (member,)


def _functions(member: Any) -> Iterator[types.FunctionType]:
    for part in parts_of(member):
        function = getattr(part, "__wrapped__", part) if callable(part) else part
        if isinstance(function, types.FunctionType):
            yield function


def _hints(cls: type) -> Iterable[Any]:
    try:
        return list(typing.get_type_hints(cls).values())
    except Exception:  # an annotation that cannot be evaluated names no class that is known
        return ()

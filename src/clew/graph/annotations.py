"""Type annotations of signatures and schemas.

- `register_classes` registers storable classes with the codec, also inside generics and fields, so that users need not
  register them.
- `fits` returns whether a value of one type may be read as another, for ``strict_types=True``. It understands classes,
  unions, ``Optional``, ``Literal`` and generics, and accepts all other types: a check that rejected valid graphs
  would be useless.
- `shown` formats a type so that the text is the same in every process.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from clew.state.registry import is_storable_kind, register_type

_UNIONS = (typing.Union, types.UnionType)
# The numeric tower of PEP 484: an int is accepted as a float.
_PROMOTED = {(int, float), (int, complex), (float, complex), (bool, float), (bool, complex)}


def register_classes(annotations: Iterable[Any]) -> None:
    """Register every storable class in these annotations and in the fields of those classes."""
    waiting = list(annotations)
    seen: set[int] = set()
    while waiting:
        annotation = waiting.pop()
        if id(annotation) in seen:
            continue
        seen.add(id(annotation))
        waiting.extend((typing.get_origin(annotation), *typing.get_args(annotation)))
        if isinstance(annotation, type) and annotation.__module__ != "builtins":
            if is_storable_kind(annotation):
                register_type(annotation)
            elif not typing.is_typeddict(annotation):
                continue
            waiting.extend(_fields(annotation))


def _fields(cls: type) -> Iterable[Any]:
    try:
        return list(typing.get_type_hints(cls, include_extras=True).values())
    except Exception:  # an annotation that cannot be evaluated contains no class to register
        return ()


def classes_in(annotations: Iterable[Any]) -> Iterator[type]:
    """Yield the classes that annotations name, also inside generics and unions."""
    for annotation in annotations:
        if isinstance(annotation, type) and not typing.get_args(annotation):
            yield annotation
        yield from classes_in(part for part in typing.get_args(annotation) if part is not annotation)


def mentions(annotation: Any, cls: type) -> bool:
    """Return whether the annotation contains ``cls``."""
    return annotation is cls or any(mentions(arg, cls) for arg in typing.get_args(annotation))


def fits(produced: Any, wanted: Any) -> bool:
    """Return whether a value of type ``produced`` may be read as ``wanted``."""
    produced, wanted = _bare(produced), _bare(wanted)
    if produced is Any or wanted is Any or wanted is object or produced == wanted:
        return True
    if typing.get_origin(produced) in _UNIONS:
        return all(fits(part, wanted) for part in typing.get_args(produced))
    if typing.get_origin(wanted) in _UNIONS:
        return any(fits(produced, part) for part in typing.get_args(wanted))
    if typing.get_origin(produced) is typing.Literal:
        return all(_literal_fits(value, wanted) for value in typing.get_args(produced))
    if typing.get_origin(wanted) is typing.Literal:
        return False
    return _class_fits(produced, wanted)


def _bare(annotation: Any) -> Any:
    if typing.get_origin(annotation) is typing.Annotated:
        return _bare(typing.get_args(annotation)[0])
    return types.NoneType if annotation is None else annotation


def _literal_fits(value: Any, wanted: Any) -> bool:
    if typing.get_origin(wanted) is typing.Literal:
        return value in typing.get_args(wanted)
    return fits(type(value), wanted)


def _class_fits(produced: Any, wanted: Any) -> bool:
    origin, expected = typing.get_origin(produced) or produced, typing.get_origin(wanted) or wanted
    if not isinstance(origin, type) or not isinstance(expected, type):
        return True
    if getattr(expected, "_is_protocol", False):
        return True
    if typing.is_typeddict(origin) and not typing.is_typeddict(expected):
        origin = dict
    if (origin, expected) in _PROMOTED:
        return True
    if typing.is_typeddict(expected):
        return issubclass(origin, dict)
    if not issubclass(origin, expected):
        return False
    given, asked = typing.get_args(produced), typing.get_args(wanted)
    if origin is not expected or not given or not asked:
        return True
    if origin is tuple:
        return _tuple_fits(given, asked)
    return all(fits(part, as_part) for part, as_part in zip(given, asked, strict=False))


def _tuple_fits(given: tuple[Any, ...], asked: tuple[Any, ...]) -> bool:
    """Compare the types of tuples by position; ``tuple[T, ...]`` matches any length."""
    if given[-1] is ...:
        given = given[:1] * (1 if asked[-1] is ... else len(asked))
    if asked[-1] is ...:
        asked = asked[:1] * len(given)
    return len(given) == len(asked) and all(map(fits, given, asked))


def shown(annotation: Any) -> str:
    """Return a type as text that is the same in every process: no addresses, unions in alphabetical order."""
    annotation = _bare(annotation)
    if annotation is ...:
        return "..."
    if annotation is types.NoneType:
        return "None"
    args = typing.get_args(annotation)
    if typing.get_origin(annotation) in _UNIONS:
        return " | ".join(sorted(map(shown, args)))
    if typing.get_origin(annotation) is typing.Literal:
        return f"Literal[{', '.join(map(repr, args))}]"
    if isinstance(annotation, list):  # the parameters of a Callable
        return f"[{', '.join(map(shown, annotation))}]"
    name = _name(typing.get_origin(annotation) if args else annotation)
    return f"{name}[{', '.join(map(shown, args))}]" if args else name


def _name(annotation: Any) -> str:
    for attribute in ("__qualname__", "__name__", "_name"):
        name = getattr(annotation, attribute, None)
        if isinstance(name, str):
            return name
    return str(annotation) if isinstance(annotation, str) else type(annotation).__qualname__


def function_name(func: Callable[..., Any]) -> str:
    """Return a function as ``module:qualified.name``."""
    return f"{getattr(func, '__module__', None) or 'builtins'}:{_name(func)}"

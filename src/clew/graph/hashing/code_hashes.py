"""Hashes of code: they change when what a function does changes.

The hash of a function covers

- its instructions with their constants and names, its defaults and closure values, and the object of a bound method;
- the constants that it reads from its module, or as attributes of another module: strings, numbers, tuples, frozensets,
  enums, dates, paths, patterns and instances of frozen classes;
- the functions and classes of *its own package* that it names, transitively. A class counts with its methods, fields
  and constants, also if the function names an instance of it;
- the methods of the classes of its package that its parameters are annotated with (``annotated_classes``);
- the graphs that it names or that are closure values, such as a child for ``ctx.run``: their structure, the functions
  of their nodes, reducers and bound values.

Its own package (``own_code``) is everything with the same top-level package, in the same folder of top-level modules,
or in the same namespace (a notebook). Other code counts by its name. The standard library and Clew itself are never
followed.

The hash does not cover line numbers, docstrings, comments, annotations of functions, file names and addresses. It is
the same in every process, and depends on the Python version, because instructions do.

What cannot be hashed counts by its class, and is listed in `CodeHash.unhashed`: mutable module values (lists, dicts,
clients), modules that are imported inside a function or used as a value (``getattr(prompts, name)``), ``globals()``,
and the user's code in other packages. A global that the function itself assigns is a variable, and not covered.

A `CodeHash` remembers what it has read. `is_current` compares identities, so a notebook that assigns a module value
again gets a new hash, and all others pay a few dict lookups.
"""

from __future__ import annotations

import builtins
import dataclasses
import dis
import enum
import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec

from clew.errors import EncodeError
from clew.graph.annotations import function_name, shown
from clew.graph.hashing.annotated_classes import methods_of, parts_of
from clew.graph.hashing.class_fields import default_of, frozen_fields
from clew.graph.hashing.instructions import SKIPPED, instructions_of
from clew.graph.hashing.own_code import OwnPackage
from clew.graph.json_schema import json_schema
from clew.graph.signature import MISSING
from clew.state.values.codec import digest, encode
from clew.state.values.equality import fingerprint

if TYPE_CHECKING:
    from clew.graph.graph import Graph

_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_STORES = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_LONG = 10_000  # bits; Python refuses to print longer integers
_SCALARS = frozenset({str, bytes, int, float, complex, bool, type(None), type(...)})
# Modules whose classes are immutable and have a complete repr. Importing them here would cost more than hashing does.
_BY_TEXT = frozenset({"datetime", "decimal", "fractions", "pathlib", "uuid", "zoneinfo"})
_LOGGING = frozenset({"logging"})  # a logger does not change results
_IMMUTABLE = (
    *(type, enum.Enum, tuple, frozenset, range, re.Pattern),
    *(types.MappingProxyType, types.ModuleType),
)
_MUTABLE = (list, dict, set, bytearray)
_BY_COMPUTED_NAME = frozenset({"globals()", "eval()", "exec()"})


Read = tuple[Mapping[str, Any], str, Any]
"""A namespace, a name in it, and the value that was read."""


def are_current(reads: Iterable[Read]) -> bool:
    """Return whether names still have the values that were read."""
    return all(names.get(name, MISSING) is value for names, name, value in reads)


@dataclasses.dataclass(frozen=True, eq=False)
class CodeHash:
    """The hash of a function, what it does not cover, and the module values that it has read."""

    digest: str
    unhashed: tuple[str, ...]
    reads: tuple[Read, ...] = dataclasses.field(repr=False)

    def is_current(self) -> bool:
        """Return whether the module values are still the same objects."""
        return are_current(self.reads)


def code_hash(func: Callable[..., Any], annotations: Iterable[Any] = ()) -> CodeHash:
    """Hash a function, or another callable, with the methods of the classes in the annotations of its parameters."""
    hashing = _Hashing(func)
    made = digest(b"clew:code", *hashing.parts(func, annotations))
    return CodeHash(made, tuple(sorted(hashing.unhashed)), tuple(hashing.reads))


def rules_hash(cls: type, annotation: Any, *rules: Any) -> str:
    """Hash how a field of a class is validated: its annotation with the classes that it names, and its rules."""
    hashing = _Hashing(cls)

    def parts() -> Iterator[bytes]:
        yield from hashing.annotation(annotation)
        yield from hashing.given(rules, cls.__qualname__)
        yield from hashing.later_parts()

    return digest(b"clew:rules", *parts())


def _function_in(func: Any) -> types.FunctionType | None:
    """Return the innermost function of a callable."""
    for _ in range(100):  # a chain of wrappers may hold itself
        if isinstance(func, functools.partial):
            func = func.func
        elif hasattr(func, "__wrapped__"):
            func = func.__wrapped__
        elif inspect.ismethod(func):
            func = func.__func__
        elif isinstance(func, types.FunctionType):
            return func
        elif isinstance(func, type) or inspect.isroutine(func):
            return None
        else:
            func = getattr(type(func), "__call__", None)  # noqa: B004 - the function itself is wanted
    return None


class _Hashing:
    """Yields the parts of a callable.

    Code may be recursive, and chains of calls long. So a function or class that code names is a number in its place,
    and its parts come later (`_waiting`). `_seen` numbers what is hashed in its place: closure values, defaults.
    """

    def __init__(self, root: Any) -> None:
        self.unhashed: set[str] = set()
        self.reads: list[Read] = []
        self._seen: dict[int, int] = {}
        self._waiting: list[Any] = []
        self._numbers: dict[int, int] = {}  # of what is in `_waiting`
        self._alive: list[Any] = []  # so that no id is used twice
        function = _function_in(root)
        names = None if function is None else function.__globals__
        if isinstance(root, type) and root.__module__ in sys.modules:
            names = vars(sys.modules[root.__module__])
        self._package = OwnPackage(names)

    def _is_again(self, value: Any) -> bytes | None:
        """Return the number of a value that was seen before; register a new one."""
        number = self._seen.get(id(value))
        if number is None:
            self._seen[id(value)] = len(self._seen)
            self._alive.append(value)
            return None
        return b"seen %d" % number

    def parts(self, root: Any, annotations: Iterable[Any]) -> Iterator[bytes]:
        """Yield the parts of the root, and of everything of its package that it names."""
        yield from self.callable(root)
        yield from self._methods(annotations)
        yield from self.later_parts()

    def later_parts(self) -> Iterator[bytes]:
        """Yield the parts of everything of the package that was named."""
        for value in self._waiting:  # it grows
            if isinstance(value, type):
                yield from self._class_parts(value)
            elif _is_graph(value):
                yield from self._graph_parts(value)
            else:
                yield from self.callable(value)

    def _later(self, value: Any) -> bytes:
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._waiting)
            self._waiting.append(value)
        return b"named %d" % number

    # -- code ------------------------------------------------------------------------------------------------

    def callable(self, func: Any) -> Iterator[bytes]:
        """Yield the parts of a callable that is given: the root, a default, a closure value."""
        if isinstance(func, types.FunctionType):
            yield from self._function(func)
        elif isinstance(func, functools.partial):
            yield b"partial"
            yield from self.callable(func.func)
            yield from self.given(func.args, "partial")
            yield from self.given(func.keywords, "partial")
        elif inspect.ismethod(func):
            yield from self.callable(func.__func__)
            owner = func.__self__
            yield from self._class(owner if isinstance(owner, type) else type(owner))
            if not isinstance(owner, type):
                yield from self.given(owner, "self")
        elif hasattr(func, "__wrapped__"):  # a node, or what functools.lru_cache makes
            yield from self.callable(func.__wrapped__)
        elif isinstance(func, type) or inspect.isroutine(func):
            yield function_name(func).encode()
        elif (again := self._is_again(func)) is not None:
            yield again
        else:
            yield from self._class(type(func))
            yield from self.callable(type(func).__call__)
            yield from self.given(dict(vars(func)) if hasattr(func, "__dict__") else None, _named(func))

    def _function(self, func: types.FunctionType) -> Iterator[bytes]:
        again = self._is_again(func)
        if again is not None:
            yield again
            return
        yield from instructions_of(func.__code__)
        yield from self.given(func.__defaults__, f"a default of {func.__name__}")
        yield from self.given(func.__kwdefaults__, f"a default of {func.__name__}")
        for name, cell in zip(func.__code__.co_freevars, func.__closure__ or (), strict=True):
            yield name.encode()
            try:
                value = cell.cell_contents
            except ValueError:
                yield b"empty"
            else:
                yield from self.given(value, name)
        if self._package.has(func.__globals__.get("__name__"), func.__globals__):
            yield from self._globals(func.__code__, func.__globals__)

    def _globals(self, code: types.CodeType, names: Mapping[str, Any]) -> Iterator[bytes]:
        """Yield the module values that a code object names."""
        chains, stored = dict[tuple[str, ...], None](), set[str]()
        self._scan(code, chains, stored)
        for name, *attributes in chains:
            if name in stored or name.startswith("__"):
                continue
            value, path = names.get(name, MISSING), name
            self.reads.append((names, name, value))
            if value is MISSING and hasattr(builtins, name):
                self.unhashed.update({f"{name}()"} & _BY_COMPUTED_NAME)
                continue
            while attributes and attributes[0] != "__dict__" and isinstance(value, types.ModuleType):
                within = vars(value)
                if not self._package.has(value.__name__, within):
                    break
                attribute = attributes.pop(0)
                value, path = within.get(attribute, MISSING), f"{path}.{attribute}"
                self.reads.append((within, attribute, value))
            yield path.encode()
            yield from self._constant(value, path)

    def _scan(self, code: types.CodeType, chains: dict[tuple[str, ...], None], stored: set[str]) -> None:
        """Find names with their attributes (``prompts.SYSTEM``), assigned names, and imports."""
        chain: tuple[str, ...] = ()
        consts: list[Any] = [None, None]
        for instruction in dis.get_instructions(code):
            operation, value = instruction.opname, instruction.argval
            if operation in SKIPPED:
                continue
            if chain and operation in _ATTRIBUTES:
                chain = (*chain, value)
                continue
            if chain:
                chains[chain] = None
            chain = (value,) if operation in _LOADS else ()
            if operation in _STORES:
                stored.add(value)
            elif operation == "IMPORT_NAME" and (consts[-2] or self._package.has_imported(value)):
                self.unhashed.add(f"{value or '.'} (imported inside {code.co_name})")
            elif instruction.opcode in dis.hasconst:
                consts.append(value)
                if isinstance(value, types.CodeType):
                    self._scan(value, chains, stored)

    # -- values ----------------------------------------------------------------------------------------------

    def given(self, value: Any, name: str) -> Iterator[bytes]:
        """Yield the parts of a default or a closure value, also of a mutable one."""
        if type(value) is dict and all(isinstance(key, str) for key in value):
            again = self._is_again(value)
            yield again or b"dict %d" % len(value)
            for key in sorted(value) if again is None else ():
                yield key.encode()
                yield from self.given(value[key], name)
        elif type(value) is tuple:
            yield b"tuple %d" % len(value)
            for item in value:
                yield from self.given(item, name)
        elif callable(value) and not isinstance(value, type) and not isinstance(value, enum.Enum):
            yield b"function"
            yield from self.callable(value)
        elif _is_constant(value) or _is_graph(value):
            yield from self._constant(value, name)
        else:
            try:
                yield fingerprint(value)
            except EncodeError:
                yield from self._unhashable(value, name)

    def _constant(self, value: Any, name: str) -> Iterable[bytes]:
        """Return the parts of a module value, by the first row of `_PARTS` that it matches."""
        return next(parts for is_kind, parts in _PARTS if is_kind(value))(self, value, name)

    def _tuple(self, value: tuple[Any, ...], name: str) -> Iterator[bytes]:
        yield f"{_named(value)} {len(value)}".encode()
        for item in value:
            yield from self._constant(item, name)

    def _module(self, value: types.ModuleType, name: str) -> Iterator[bytes]:
        if self._package.has(value.__name__, vars(value)):  # as in getattr(prompts, name)
            self.unhashed.add(f"{name} (module)")
        self._note_left_out(value.__name__, name)
        yield value.__name__.encode()

    def _instance(self, value: Any, name: str) -> Iterator[bytes]:
        again = self._is_again(value)
        if again is not None:
            yield again
            return
        yield from self._class(type(value))
        for field, item in (frozen_fields(value) or {}).items():
            yield field.encode()
            yield from self.given(item, f"{name}.{field}")

    def _named_function(self, func: Any) -> Iterator[bytes]:
        """Yield the parts of a function that code names: its code, or the name of a library's function."""
        inner = _function_in(func)
        if inner is not None and self._package.has(inner.__globals__.get("__name__"), inner.__globals__):
            yield self._later(func)
        else:
            self._note_left_out(getattr(inner, "__module__", None), getattr(inner, "__qualname__", ""))
            yield function_name(func if inner is None else inner).encode()

    def _note_left_out(self, module: Any, name: str) -> None:
        if self._package.leaves_out(module):
            self.unhashed.add(f"{name} (of another package)")

    def _unordered(self, items: Iterable[Any], name: str) -> list[bytes]:
        return sorted(digest(*self._constant(tuple(item), name)).encode() for item in items)

    def _unhashable(self, value: Any, name: str) -> Iterator[bytes]:
        self.unhashed.add(f"{name} ({type(value).__qualname__})")
        yield from self._class(type(value))

    def _graph_parts(self, graph: Graph) -> Iterator[bytes]:
        """Yield the parts of a graph that code names."""
        yield graph.structure_hash.encode()
        for name, node in graph.nodes.items():
            yield name.encode(errors="surrogatepass")
            inner, rescue = node.subgraph, node.rescue
            functions = [node.cutoff, None if rescue is None else rescue.func]
            if inner is None:
                functions.append(node.func)
            else:
                yield self._later(inner.graph)
                functions += [inner.transform_input, inner.transform_output]
            for function in functions:
                yield from (b"none",) if function is None else self.callable(function)
            yield from self._methods(p.annotation for p in node.params)
        for field in () if graph.schema is None else graph.schema.fields.values():
            if field.reducer is not None:
                yield from (field.name.encode(errors="surrogatepass"), *self.callable(field.reducer))
        yield from self.given(dict(graph.bound), "a bound value")

    # -- annotations -----------------------------------------------------------------------------------------

    def annotation(self, annotation: Any) -> Iterator[bytes]:
        """Yield the parts of an annotation, with the classes of the package and the metadata that it names."""
        yield shown(annotation).encode(errors="surrogatepass")
        for part in typing.get_args(annotation):
            yield from self.annotation(part)
        for rule in getattr(annotation, "__metadata__", ()):
            yield from (repr(rule).encode(),) if _is_meta(rule) else self.given(rule, "an annotation")
        if isinstance(annotation, type):
            yield from self._class(annotation)

    def _methods(self, annotations: Iterable[Any]) -> Iterator[bytes]:
        """Yield the methods of the classes of the package that annotate parameters."""
        for name, function in methods_of(annotations, self._is_own):
            yield name.encode(errors="surrogatepass")
            yield from self.callable(function)

    def _is_own(self, value: Any) -> bool:
        if isinstance(value, types.FunctionType):
            return self._package.has(value.__globals__.get("__name__"), value.__globals__)
        return self._package.has(value.__module__)

    # -- classes ---------------------------------------------------------------------------------------------

    def _class(self, cls: type) -> Iterator[bytes]:
        yield self._later(cls) if self._package.has(cls.__module__) else function_name(cls).encode()

    def _class_parts(self, cls: type) -> Iterator[bytes]:
        yield cls.__qualname__.encode()
        for base in cls.__bases__:
            yield from self._class(base)
        if issubclass(cls, enum.Enum):
            for name, member in cls.__members__.items():
                yield name.encode()
                yield from self._constant(member._value_, f"{cls.__qualname__}.{name}")
        for name, annotation in inspect.get_annotations(cls).items():
            yield f"{name}: {annotation if isinstance(annotation, str) else shown(annotation)}".encode()
        if hasattr(cls, "model_json_schema"):  # a pydantic model: its descriptions may be part of a prompt
            yield encode(json_schema(cls))
        for name in sorted(vars(cls)):
            yield from self._member(cls, name, vars(cls)[name])
        for field in getattr(cls, "__dataclass_fields__", {}).values():
            defaults = (default_of(field.default), default_of(field.default_factory))
            yield from self.given((field.name, *defaults), cls.__qualname__)
        of_struct = getattr(cls, "__struct_defaults__", None) or ()
        yield from self.given(tuple(map(default_of, of_struct)), cls.__qualname__)

    def _member(self, cls: type, name: str, member: Any) -> Iterator[bytes]:
        if isinstance(member, staticmethod | classmethod):
            member = member.__func__
        for function in parts_of(member):
            inner = _function_in(function) if hasattr(function, "__get__") else None
            if inner is not None:
                if not inner.__code__.co_filename.startswith("<string>"):  # not made by @dataclass
                    yield name.encode()
                    yield from self.callable(function)
            elif not name.startswith("_") and _is_constant(member) and not isinstance(member, enum.Enum):
                yield name.encode()
                yield from self._constant(member, f"{cls.__qualname__}.{name}")
            elif isinstance(member, _MUTABLE) and not name.startswith(("_", "model_")):  # of pydantic
                self.unhashed.add(f"{cls.__qualname__}.{name} ({type(member).__qualname__})")


def _is_constant(value: Any) -> bool:
    """Return whether a value is immutable, as far as its type says."""
    return (
        type(value) in _SCALARS
        or isinstance(value, _IMMUTABLE)
        or _comes_from(type(value), _BY_TEXT | _LOGGING)
        or frozen_fields(value) is not None
    )


def _is_meta(rule: Any) -> bool:
    return isinstance(rule, msgspec.Meta)  # its text is complete


def _is_graph(value: Any) -> TypeGuard[Graph]:
    from clew.graph.graph import Graph  # it imports this module

    return isinstance(value, Graph)


def _comes_from(kind: type, modules: frozenset[str]) -> bool:
    return any(base.__module__.partition(".")[0] in modules for base in kind.__mro__)


def _named(value: Any) -> str:
    return type(value).__qualname__


def _scalar(value: Any) -> Iterator[bytes]:
    is_long = type(value) is int and value.bit_length() > _LONG
    yield type(value).__name__.encode()
    yield (hex(value) if is_long else repr(value)).encode(errors="surrogatepass")


def _is_function(value: Any) -> bool:
    return isinstance(value, functools.partial) or hasattr(value, "__wrapped__") or inspect.isroutine(value)


_PARTS: tuple[tuple[Callable[[Any], bool], Callable[[_Hashing, Any, str], Iterable[bytes]]], ...] = (
    (lambda v: v is MISSING, lambda h, v, at: (b"missing",)),
    (lambda v: type(v) in _SCALARS, lambda h, v, at: _scalar(v)),
    (lambda v: isinstance(v, type), lambda h, v, at: h._class(v)),
    (lambda v: isinstance(v, enum.Enum), lambda h, v, at: (*h._class(type(v)), v.name.encode())),
    (lambda v: isinstance(v, tuple), _Hashing._tuple),
    (lambda v: isinstance(v, frozenset), lambda h, v, at: (b"frozenset", *h._unordered(zip(v), at))),
    (
        lambda v: isinstance(v, types.MappingProxyType),
        lambda h, v, at: (b"mapping", *h._unordered(v.items(), at)),
    ),
    (lambda v: isinstance(v, types.ModuleType), _Hashing._module),
    (
        lambda v: type(v) is range or _comes_from(type(v), _BY_TEXT),
        lambda h, v, at: (_named(v).encode(), repr(v).encode()),
    ),
    (
        lambda v: isinstance(v, re.Pattern),
        lambda h, v, at: (b"pattern", repr(v.pattern).encode(), str(v.flags).encode()),
    ),
    (lambda v: _comes_from(type(v), _LOGGING), lambda h, v, at: (b"logger",)),
    (lambda v: frozen_fields(v) is not None, _Hashing._instance),
    (_is_function, lambda h, v, at: h._named_function(v)),
    (lambda v: type(v).__module__ in ("typing", "types"), lambda h, v, at: (shown(v).encode(),)),
    (_is_graph, lambda h, v, at: (h._later(v),)),
    (lambda v: True, _Hashing._unhashable),
)
"""How the parts of a module value are found: the first row whose test it passes."""

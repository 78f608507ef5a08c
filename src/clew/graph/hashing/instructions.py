"""The instructions of a code object as bytes, for ``code_hashes``: the same in every process of one Python version."""

from __future__ import annotations

import dis
import inspect
import types
from collections.abc import Iterator
from typing import Any

from clew.state.values.codec import digest

# Only the flags that affect how a function is called and run.
_FLAGS = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)
SKIPPED = frozenset({"EXTENDED_ARG", "CACHE", "NOP", "RESUME"})


def instructions_of(code: types.CodeType) -> Iterator[bytes]:
    """Yield the parts of a code object. Constants are hashed by value, because a docstring shifts their numbers."""
    shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _FLAGS)
    yield repr((shape, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])).encode()
    yield code.co_exceptiontable
    for instruction in dis.get_instructions(code):
        if instruction.opname in SKIPPED:
            continue
        yield instruction.opname.encode()
        if instruction.opcode in dis.hasconst:
            yield from _literal(instruction.argval)
        else:
            yield instruction.argrepr.encode() or repr(instruction.argval).encode()


def _literal(value: Any) -> Iterator[bytes]:
    """Yield the parts of a constant in code."""
    if isinstance(value, types.CodeType):
        yield b"code"
        yield from instructions_of(value)
    elif type(value) is tuple:
        yield b"tuple %d" % len(value)
        for item in value:
            yield from _literal(item)
    elif type(value) is frozenset:
        yield b"frozenset"
        yield from sorted(digest(*_literal(item)).encode() for item in value)
    else:
        yield from (type(value).__name__.encode(), repr(value).encode(errors="surrogatepass"))

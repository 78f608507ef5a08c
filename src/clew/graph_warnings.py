"""Warnings about graphs and runs, shown at the line of the user's code that led to them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType
from typing import Any, TypeVar

from clew.errors import GraphWarning

T = TypeVar("T")

_Line = tuple[str, int, str, dict[Any, Any]]  # file, line, module, and the warnings that the module has shown
_elsewhere: ContextVar[_Line | None] = ContextVar("_elsewhere", default=None)


def warn(message: str) -> None:
    """Issue a GraphWarning at the innermost line outside Clew."""
    file, line, module, registry = _elsewhere.get() or _line_outside(sys._getframe(1))
    warnings.warn_explicit(message, GraphWarning, file, line, module, registry)


def with_this_line(work: Callable[..., T]) -> Callable[..., T]:
    """Return work for another thread whose warnings are shown at the line that calls Clew here."""
    line = _line_outside(sys._getframe(1))

    def call(*args: Any, **options: Any) -> T:
        token = _elsewhere.set(line)
        try:
            return work(*args, **options)
        finally:
            _elsewhere.reset(token)

    return call


def _line_outside(frame: FrameType) -> _Line:
    while frame.f_back is not None and _module(frame).partition(".")[0] == "clew":
        frame = frame.f_back
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    return frame.f_code.co_filename, frame.f_lineno, _module(frame), registry


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))

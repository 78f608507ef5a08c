"""Docstrings for `help`: store methods that are functions of other modules get the docstrings of the protocol."""

from __future__ import annotations

from types import FunctionType
from typing import TypeVar

from clew.stores.protocol import Store

S = TypeVar("S", bound=type[Store])


def with_docs(cls: S) -> S:
    """Give the methods of a store that have no docstring the one of the protocol."""
    for name, method in vars(cls).items():
        if isinstance(method, FunctionType) and not name.startswith("_") and method.__doc__ is None:
            method.__doc__ = getattr(Store, name).__doc__
    return cls

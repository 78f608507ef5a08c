"""Nodes at the top of a module, where another process finds them by name."""

from __future__ import annotations

import os

from clew import Context, node


@node(output="here")
def here(a: int) -> int:
    return os.getpid()


@node(output="there")
def there(a: int) -> int:
    return os.getpid()


@node(output="fails")
def fails(a: int) -> int:
    raise ValueError(f"no {a}")


@node(output="told")
def with_context(a: int, ctx: Context) -> int:
    return os.getpid()


def bare(a: int) -> int:
    return os.getpid()


class Box:
    @staticmethod
    @node(output="boxed")
    def boxed(a: int) -> int:
        return os.getpid()

"""Names of types in messages."""

from __future__ import annotations


def a(cls: type) -> str:
    """Return the name of a class with its article: ``an int``."""
    name = cls.__name__
    return f"{'an' if name[:1] in set('AEIOUaeiou') else 'a'} {name}"

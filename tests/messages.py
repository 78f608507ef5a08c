"""Assertions on messages: what a message names is tested, not how it is worded."""

from __future__ import annotations


def mentions(message: str, *parts: object) -> bool:
    """Return whether a message contains these parts, in this order."""
    start = 0
    for part in parts:
        found = message.find(str(part), start)
        if found < 0:
            return False
        start = found + len(str(part))
    return True

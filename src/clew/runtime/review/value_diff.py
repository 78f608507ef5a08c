"""Two values as a diff that a person can read.

A value is laid out one leaf a line, each with the way to it; a text of several lines is laid out line by line, so that
a changed word in a long prompt is one changed line.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any

from clew.errors import EncodeError
from clew.state import encode


def difference(then: Any, now: Any) -> str:
    """What was recorded, and what is there now."""
    return "\n".join(
        difflib.unified_diff(list(_lines(then)), list(_lines(now)), "recorded", "now", lineterm="", n=2)
    )


def _lines(value: Any) -> Iterator[str]:
    try:
        tree = json.loads(encode(value, ordered=True))
    except EncodeError:
        yield from repr(value).splitlines()
    else:
        yield from _laid_out(tree, "")


def _laid_out(tree: Any, at: str) -> Iterator[str]:
    if isinstance(tree, dict) and tree:
        for name, value in tree.items():
            yield from _laid_out(value, f"{at}.{name}" if at else name)
    elif isinstance(tree, list) and tree:
        for index, value in enumerate(tree):
            yield from _laid_out(value, f"{at}[{index}]")
    elif isinstance(tree, str) and "\n" in tree:
        yield f"{at}:" if at else "text:"
        yield from (f"    {line}" for line in tree.split("\n"))
    else:
        leaf = json.dumps(tree, ensure_ascii=False)
        yield f"{at} = {leaf}" if at else leaf

"""Readable diffs of two values.

Each leaf of a value is one line with its path. A text of several lines is compared line by line, so a changed word in a
long prompt is one changed line. An instance is shown as its class and its fields, an array or a frame in short form.
The set of explicitly set fields of a model is shown only if nothing else differs.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any

from clew.errors import EncodeError
from clew.state.stored_object import UNSET
from clew.state.values.display import ShortForm, display_tree


def difference(then: Any, now: Any) -> str:
    """Return a unified diff of a recorded value and the current one."""
    for whole in (False, True):
        old, new = list(_lines(then, whole)), list(_lines(now, whole))
        if old != new:
            break
    return "\n".join(difflib.unified_diff(old, new, "recorded", "now", lineterm="", n=2))


def _lines(value: Any, whole: bool) -> Iterator[str]:
    try:
        tree = display_tree(value, identified=True)
    except EncodeError:
        yield from repr(value).splitlines()
    else:
        yield from _laid_out(tree, "", whole)


def _laid_out(tree: Any, at: str, whole: bool) -> Iterator[str]:
    if isinstance(tree, dict) and tree.keys() == {"$object"}:
        yield from _instance_laid_out(tree, at, whole)
    elif isinstance(tree, dict) and tree:
        for name, value in tree.items():
            yield from _laid_out(value, f"{at}.{name}" if at else name, whole)
    elif isinstance(tree, list) and tree:
        for index, value in enumerate(tree):
            yield from _laid_out(value, f"{at}[{index}]", whole)
    elif isinstance(tree, str) and "\n" in tree and not isinstance(tree, ShortForm):
        yield f"{at}:" if at else "text:"
        yield from (f"    {line}" for line in tree.split("\n"))
    else:
        yield _leaf(tree, at)


def _instance_laid_out(tree: dict[str, Any], at: str, whole: bool) -> Iterator[str]:
    named, fields = _instance(tree)
    if not isinstance(fields, dict) or not fields.keys() - {UNSET}:
        yield _leaf(tree, at)
        return
    yield f"{at}: {named}" if at else f"{named}:"
    yield from _laid_out({name: each for name, each in fields.items() if whole or name != UNSET}, at, whole)


def _leaf(tree: Any, at: str) -> str:
    return f"{at} = {tree_line(tree)}" if at else tree_line(tree)


def one_line(value: Any) -> str:
    """Return a value as one line: as JSON, with instances as ``Name(field=...)``, arrays and frames in short form.

    Short forms end with the first digits of a digest, so different values have different lines.
    """
    try:
        return tree_line(display_tree(value, identified=True))
    except EncodeError:
        return repr(value)


def tree_line(tree: Any) -> str:
    """Return a tree for people as one line."""
    if isinstance(tree, list):
        return f"[{', '.join(map(tree_line, tree))}]"
    if isinstance(tree, ShortForm):
        return tree
    if not isinstance(tree, dict):
        return json.dumps(tree, ensure_ascii=False)
    if tree.keys() == {"$object"}:
        named, fields = _instance(tree)
        if not isinstance(fields, dict):
            return f"{named}({tree_line(fields)})"
        return f"{named}({', '.join(f'{name}={tree_line(part)}' for name, part in fields.items() if name != UNSET)})"
    return f"{{{', '.join(f'{tree_line(name)}: {tree_line(part)}' for name, part in tree.items())}}}"


def _instance(tree: dict[str, Any]) -> tuple[str, Any]:
    name, fields = tree["$object"]
    return name.rpartition(":")[2], fields

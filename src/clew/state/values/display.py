"""Values as trees for people: JSON trees in which arrays, frames and large bytes are a short text.

A `ShortForm` replaces a value that is unreadable as JSON: ``ndarray float64 (1000, 3)``, ``DataFrame 500×4``. With
`identified`, it ends with the first digits of the SHA-256 of the content, so different values have different texts.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from clew.errors import EncodeError
from clew.state.stored_object import StoredContent
from clew.state.values.decoding import Reading
from clew.state.values.encoding import NO_ROOM, EncodingFailure, write
from clew.state.values.libraries import BY_TAG, brief
from clew.state.values.scalars import from_base64


class ShortForm(str):
    """A text that stands for a value."""

    __slots__ = ()


def display_tree(value: Any, *, identified: bool = False) -> Any:
    """Return a value as a tree for people, in the order of its dicts. Raises EncodeError if it has no encoding."""
    contents: dict[str, bytes] = {}
    try:
        return _shown(write(value, 0, contents), contents, identified)
    except EncodingFailure as refusal:
        raise EncodeError(refusal.at("value")) from refusal.__cause__
    except RecursionError:
        raise EncodeError(f"value: {NO_ROOM}") from None


def _shown(tree: Any, contents: dict[str, bytes], identified: bool) -> Any:
    if isinstance(tree, list):
        return [_shown(item, contents, identified) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if len(tree) == 1:
        ((tag, payload),) = tree.items()
        if tag == "$blob":
            kind, digest = payload
            return _content(kind, contents[digest], digest if identified else "")
        if tag[1:] in BY_TAG and tag[0] == "$":
            form = BY_TAG[tag[1:]]
            content = payload if form.is_tree else from_base64(payload)
            digest = sha256(content).hexdigest() if identified and not form.is_tree else ""
            return _content(form.tag, content, digest)
    return {name: _shown(item, contents, identified) for name, item in tree.items()}


def _content(kind: str, content: Any, digest: str) -> Any:
    if kind == "str":
        return content.decode()
    if kind == "json":  # text with lone surrogates
        return msgspec.json.decode(content)
    if kind in BY_TAG:
        value = Reading().library_value(BY_TAG[kind], content)
        text = repr(value) if isinstance(value, StoredContent) else brief(value)
    else:
        text = f"{kind} ({len(content)},)"
    return ShortForm(f"{text} #{digest[:8]}" if digest else text)

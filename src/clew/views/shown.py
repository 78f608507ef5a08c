"""Values as JSON for people: plain data as it is, everything else as an object with the key ``$``, its kind.

- A value is cut when a budget of bytes is spent. What is left out is counted, never guessed.
- Numbers that a browser would change (integers beyond 2^53, not finite floats) are texts.
- An instance is shown by the name of its class and its fields; its class is not imported.
- A large value that was not fetched is shown as ``large``.
- Nothing here raises, and nothing calls the ``repr`` of an unknown class.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import PurePath
from typing import Any
from uuid import UUID

from clew.display import brief
from clew.error_text import encodable
from clew.errors import EncodeError
from clew.runtime.log.entries.large_values import Kept
from clew.state import to_tree
from clew.state.stored_object import UNSET, StoredContent, StoredObject
from clew.state.values.libraries import brief as library_form

SAFE = 2**53
_DEEP = 24
_MEDIA = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_BIG = re.compile(r'\{"\$int":"(-?0x[0-9a-f]+)"\}')  # quotes in texts are escaped, so only integers match
_TEXTS = (datetime, date, time, timedelta, UUID, PurePath, complex)


class Budget:
    """The bytes that may still be shown."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.is_cut = False

    def spend(self, size: int) -> bool:
        """Use some bytes; return whether they were left."""
        self.left -= size
        return self.left >= 0


def shown(value: Any, limit: int) -> tuple[Any, bool]:
    """Return a value as JSON of about `limit` bytes, and whether it was cut."""
    budget = Budget(limit)
    return _shown(value, budget, _DEEP), budget.is_cut


def exact(value: Any, most: int) -> str | None:
    """Return a value as the JSON text that commands print and accept; None if that has more than `most` characters, or
    the value has no encoding."""
    if type(value) is Kept:
        return None
    try:
        text = json.dumps(to_tree(value), ensure_ascii=False, separators=(",", ":"))
    except EncodeError:
        return None
    if len(text) > most:
        return None
    return _BIG.sub(lambda found: _decimal(found[0], found[1]), text)


def _decimal(form: str, digits: str) -> str:
    try:
        return str(int(digits, 16))
    except ValueError:  # too long to convert
        return form


def _shown(value: Any, budget: Budget, depth: int) -> Any:
    kind = type(value)
    if value is None or kind is bool:
        budget.spend(4)
        return value
    if kind is str:
        return _text(value, budget)
    if kind is int:
        budget.spend(8)
        return value if -SAFE <= value <= SAFE else {"$": "number", "text": _digits(value)}
    if kind is float:
        budget.spend(8)
        return value if math.isfinite(value) else {"$": "number", "text": repr(value)}
    if depth <= 0:
        budget.is_cut = True
        return {"$": "text", "kind": kind.__name__, "text": brief(value, 60)}
    if kind is list:
        items, is_cut = _items(value, budget, depth)
        return {"$": "cut", "of": "list", "shown": items, "size": len(value)} if is_cut else items
    if kind is dict:
        return _mapping(value, budget, depth)
    if kind in (tuple, set, frozenset):
        items, is_cut = _items(value, budget, depth)
        name = kind.__name__
        if is_cut:
            return {"$": "cut", "of": name, "shown": items, "size": len(value)}
        return {"$": name, "items": items}
    return _other(value, budget, depth)


def _text(value: str, budget: Budget) -> Any:
    left = max(budget.left, 0)
    if len(value) > left:
        budget.spend(left)
        budget.is_cut = True
        return {"$": "cut", "of": "str", "shown": encodable(value[:left]), "size": len(value)}
    budget.spend(len(value) + 2)
    return encodable(value)


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # too long to convert
        return hex(value)


def _items(value: Iterable[Any], budget: Budget, depth: int) -> tuple[list[Any], bool]:
    found: list[Any] = []
    budget.spend(2)
    for each in value:
        if budget.left <= 0:
            budget.is_cut = True
            return found, True
        budget.spend(1)
        found.append(_shown(each, budget, depth - 1))
    return found, False


def _mapping(value: dict[Any, Any], budget: Budget, depth: int) -> Any:
    budget.spend(2)
    if all(type(key) is str for key in value) and "$" not in value:
        fields, is_cut = _fields(value, budget, depth)
        return {"$": "cut", "of": "dict", "shown": fields, "size": len(value)} if is_cut else fields
    pairs: list[Any] = []
    for key, each in value.items():
        if budget.left <= 0:
            budget.is_cut = True
            return {"$": "cut", "of": "map", "shown": pairs, "size": len(value)}
        pairs.append([_shown(key, budget, depth - 1), _shown(each, budget, depth - 1)])
    return {"$": "map", "items": pairs}


def _fields(value: Mapping[str, Any], budget: Budget, depth: int) -> tuple[dict[str, Any], bool]:
    found: dict[str, Any] = {}
    for name, each in value.items():
        if budget.left <= 0:
            budget.is_cut = True
            return found, True
        budget.spend(len(name) + 4)
        found[encodable(name)] = _shown(each, budget, depth - 1)
    return found, False


def _other(value: Any, budget: Budget, depth: int) -> Any:
    kind = type(value)
    if kind in (bytes, bytearray):
        return _bytes(bytes(value), budget)
    if kind is Kept:
        budget.is_cut = True
        return {"$": "large", "kind": value.kind}
    if isinstance(value, StoredContent):
        return {"$": "text", "kind": value.name, "text": repr(value)}
    if isinstance(value, StoredObject):
        return _object(value.name, value.fields, budget, depth)
    if isinstance(value, Decimal):
        return {"$": "number", "text": str(value)}
    if isinstance(value, datetime | date | time):
        return {"$": "text", "kind": kind.__name__, "text": value.isoformat()}
    if isinstance(value, _TEXTS):
        return {"$": "text", "kind": kind.__name__, "text": str(value)}
    form = library_form(value)
    if form is not None:
        budget.spend(len(form))
        return {"$": "text", "kind": kind.__name__, "text": form}
    if isinstance(value, BaseException):
        return {"$": "text", "kind": kind.__name__, "text": brief(value, 400)}
    return {"$": "text", "kind": kind.__name__, "text": brief(value, 200)}


def _bytes(value: bytes, budget: Budget) -> Any:
    found: dict[str, Any] = {"$": "bytes", "size": len(value), "media": media_of(value)}
    if budget.spend(len(value) * 4 // 3):
        found["base64"] = b64encode(value).decode()
    else:
        budget.is_cut = True
    return found


def _object(name: str, fields: Any, budget: Budget, depth: int) -> Any:
    module, _, cls = name.rpartition(":")
    budget.spend(len(name))
    if isinstance(fields, str):
        return {"$": "enum", "class": cls, "module": module, "text": fields}
    found: dict[str, Any] = {"$": "object", "class": cls, "module": module}
    if isinstance(fields, dict) and all(type(key) is str for key in fields):
        own = {key: each for key, each in fields.items() if key != UNSET}
        found["fields"], _ = _fields(own, budget, depth)
        return found
    return {**found, "fields": {"value": _shown(fields, budget, depth - 1)}}


def media_of(content: bytes) -> str | None:
    """Return the media type of bytes by their first ones; None if it is not known. SVG is not among them: it may hold
    scripts."""
    return next((media for start, media in _MEDIA if content.startswith(start)), None)


def size_of(value: Any, most: int = 100_000) -> int | None:
    """Return about how many bytes a value has as JSON; None if it is a large value that was not fetched."""
    if type(value) is Kept:
        return None
    return _size(value, most, _DEEP)


def _size(value: Any, most: int, depth: int) -> int:
    kind = type(value)
    if kind in (str, bytes, bytearray):
        return len(value)
    if depth <= 0 or kind not in (list, tuple, dict, set, frozenset):
        return 8
    parts = islice(value.items() if kind is dict else value, most)
    if kind is dict:
        return 2 + sum(len(str(k)) + 4 + _size(v, most, depth - 1) for k, v in parts)
    return 2 + sum(1 + _size(each, most, depth - 1) for each in parts)

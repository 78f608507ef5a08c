"""Failures as JSON: type, message, place, and the traceback with the user's frames marked.

A traceback is stored as text. Its frames are read from that text alone: no file is opened.
"""

from __future__ import annotations

import re
from typing import Any

from clew.error_text import encodable
from clew.errors import DecodeError
from clew.state import decode
from clew.stores import RunRow

Json = dict[str, Any]

_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)$')
_MARKS = re.compile(r"^[\s~^]+$")
_OTHERS = (
    "/clew/runtime/",
    "/clew/engine/",
    "/clew/graph/",
    "/clew/state/",
    "/site-packages/",
    "/lib/python",
)
_MOST_FRAMES = 60
_LONGEST = 20_000
_MOST = 100
_DEEP = 8


def failures_json(row: RunRow) -> list[Json]:
    """Return the failures of a run, as its row has them (`row` is not opened)."""
    if row.error is None or not isinstance(row.error, bytes | memoryview):
        return []
    try:
        plain = decode(bytes(row.error)[8:], classes=False)
    except DecodeError:
        return []
    return [failure_json(each) for each in plain[:_MOST] if isinstance(each, dict)]


def failure_json(plain: Json) -> Json:
    """Return a failure, given what `clew.runtime.log.entries.stored_errors` has stored."""
    at = plain.get("at")
    place: Json = at if isinstance(at, dict) else {}
    return {
        **error_json(plain),
        "path": place.get("path") or None,
        "node": place.get("node") or None,
        "step": place.get("step"),
        "attempts": place.get("attempts"),
        "rescued": bool(place.get("rescued")),
        "around": list(place.get("around", ())),
        "started": place.get("started"),
        "duration": place.get("duration"),
    }


def error_json(plain: Json, depth: int = _DEEP) -> Json:
    """Return an error: its type, message, notes, cause and traceback."""
    module, _, name = str(plain.get("type", "?:?")).rpartition(":")
    cause = plain.get("cause")
    notes = plain.get("notes")
    return {
        "type": encodable(name),
        "module": encodable(module),
        "message": encodable(str(plain.get("message", "")))[:_LONGEST],
        "notes": [encodable(str(note))[:_LONGEST] for note in notes] if isinstance(notes, list) else [],
        "cause": error_json(cause, depth - 1) if isinstance(cause, dict) and depth else None,
        "traceback": frames_of(str(plain.get("traceback", ""))),
    }


def frames_of(text: str) -> list[Json]:
    """Return the frames of a traceback, outermost first."""
    found: list[Json] = []
    for line in encodable(text).splitlines():
        match = _FRAME.match(line)
        if match is not None:
            file = match["file"]
            is_own = not any(part in file.replace("\\", "/") for part in _OTHERS)
            frame: Json = {"file": file, "line": int(match["line"]), "function": match["function"]}
            found.append({**frame, "code": "", "own": is_own})
        elif found and not _MARKS.match(line):
            code = found[-1]["code"]
            found[-1]["code"] = f"{code}\n{line.strip()}" if code else line.strip()
    return found[-_MOST_FRAMES:]

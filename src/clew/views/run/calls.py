"""Recorded calls of a run: what was asked and what came back."""

from __future__ import annotations

import keyword
from typing import Any

from clew.display import brief
from clew.error_text import encodable, line_of
from clew.runtime.log.entries.call_records import RecordedCall
from clew.runtime.log.entries.records import CALL, INTENT
from clew.runtime.log.reader import StoredRun
from clew.views.run.stored_steps import record_of
from clew.views.shown import shown

Json = dict[str, Any]

MOST = 200
_SHOWN = 16_000
_LONGEST = 2_000


def calls_json(run: StoredRun, item: str, after: int, limit: int) -> Json:
    """Return recorded calls: of one item and of what is inside it, or of all."""
    spans = [(item, f"{item}\x01"), (f"{item}/", f"{item}0"), (f"{item}[", f"{item}\\")] if item else None
    if spans is not None:
        spans.sort()
    entries = list(run.store.within(run.row.run_id, (CALL.name,), spans))
    page = entries[after : after + limit]
    calls = [_call(record_of(run, entry), run.row.created) for entry in page]
    more = len(entries) > after + limit
    return {
        "calls": calls,
        "next": after + limit if more else None,
        "count": len(entries),
        "open": _open_calls(run, spans, entries),
    }


def _open_calls(run: StoredRun, spans: Any, calls: Any) -> list[Json]:
    """Return calls that were about to be made and have no result: it is not known whether they were made."""
    if run.row.status in ("completed",):
        return []
    made = {(each.path, record.attempt, record.place) for each in calls for record in [record_of(run, each)]}
    found = []
    for entry in run.store.within(run.row.run_id, (INTENT.name,), spans):
        intent = record_of(run, entry)
        if not intent.is_settled and (entry.path, intent.attempt, intent.place) not in made:
            name = encodable(str(intent.name)) or None
            found.append({"path": encodable(entry.path), "name": name, "state": "unknown"})
    return found


def _call(call: RecordedCall, origin: float) -> Json:
    args, kwargs = call.request
    name = str(call.name)
    return {
        "path": encodable(call.path),
        "number": call.number,
        "n": call.n,
        "within": list(call.within),
        "attempt": call.attempt,
        "name": encodable(name),
        "start": round(call.timestamp - origin, 6),
        "duration": call.duration,
        "args": [shown(each, _SHOWN)[0] for each in args],
        "kwargs": {encodable(str(key)): shown(each, _SHOWN)[0] for key, each in kwargs.items()},
        "response": None if call.error is not None else shown(call.response, _SHOWN)[0],
        "error": None if call.error is None else encodable(line_of(call.error))[:_LONGEST],
        "reused": False,
        "python": _python(name, args, kwargs),
    }


def _python(name: str, args: Any, kwargs: Any) -> str:
    function = name if name.isidentifier() and not keyword.iskeyword(name) else "call"
    given = [brief(each, 400) for each in args] + [
        f"{key}={brief(each, 400)}" for key, each in kwargs.items()
    ]
    return encodable(f"{function}({', '.join(given)})")[:_LONGEST]

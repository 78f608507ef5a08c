"""The answer of a run that asked databases (the application `clew-nl2sql`): question, table, and SQL by source.

The application is not imported: what it left in the state is read by names. A state of another form has no answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clew.error_text import encodable
from clew.state.stored_object import StoredObject
from clew.views.shown import shown

Json = dict[str, Any]

GRAPH = "nl2sql"
_MOST_ROWS = 1_000
_CELL = 2_000


def answer_json(values: Mapping[str, Any]) -> Json | None:
    """Return the answer in a state; None if it has none."""
    result = _fields(values.get("aggregator_response"))
    said = _fields(values.get("answer_synthesizer_response"))
    if not result or not said or not isinstance(values.get("user_query"), str):
        return None
    rows = result.get("rows")
    outputs = values.get("subgraph_outputs")
    sources = [_source(_fields(each)) for each in outputs.values()] if isinstance(outputs, dict) else []
    return {
        "question": encodable(values["user_query"]),
        "text": _text(said.get("answer")),
        "status": _status(result, said),
        "columns": [_text(name) for name in result.get("columns") or ()],
        "rows": [[shown(cell, _CELL)[0] for cell in row] for row in (rows or ())[:_MOST_ROWS]],
        "count": len(rows or ()),
        "sources": [each for each in sources if each is not None],
        "combined": [_text(note) for note in result.get("notes") or ()],
        "sql": _text(result.get("sql")),
    }


def answer_line(values: Mapping[str, Any]) -> str:
    """Return in one line whether there is an answer, and from how many rows and sources; "" without one."""
    found = answer_json(values)
    if found is None:
        return ""
    if found["status"] == "unanswered":
        return "could not be answered"
    rows, sources = found["count"], len(found["sources"])
    how = "answered in part" if found["status"] == "partial" else "answered"
    return f"{how} · {rows:,} row{'s' * (rows != 1)} from {sources} source{'s' * (sources != 1)}"


def _status(result: Json, said: Json) -> str:
    if not result.get("columns"):
        return "unanswered"
    return "partial" if said.get("partial") is True else "answered"


def _source(output: Json) -> Json | None:
    asked, artifact = _fields(output.get("sub_query")), _fields(output.get("artifact"))
    if not asked:
        return None
    return {
        "name": _text(asked.get("datasource_id")),
        "sql": _text(output.get("sql_draft")),
        "rows": artifact.get("row_count"),
        "digest": _text(artifact.get("content_hash")) or None,
        "status": _text(output.get("status")) or None,
    }


def _fields(value: Any) -> Json:
    found = value.fields if isinstance(value, StoredObject) else value
    return found if isinstance(found, dict) else {}


def _text(value: Any) -> str:
    return encodable(value) if isinstance(value, str) else ""

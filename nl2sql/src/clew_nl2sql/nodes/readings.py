"""Execute candidates, for a person who chooses one, or for the question whether they agree.

A candidate has passed the guard before the database receives it. The call is recorded, so a replay makes none.
"""

from __future__ import annotations

import hashlib
from typing import Any

from clew import Context
from clew_nl2sql.errors import Nl2sqlError
from clew_nl2sql.nodes.generator import rendered
from clew_nl2sql.nodes.schema_retriever import query_of, visible_catalog
from clew_nl2sql.nodes.validator import checked
from clew_nl2sql.resources import Resources
from clew_nl2sql.schemas import CandidateModel, QuestionReading, ReadingSample
from clew_nl2sql.sql.guard import CheckedQuery
from clew_nl2sql.sql.in_words import in_words
from clew_nl2sql.state import SubgraphExecutionState

COMPARED = 1_000  # rows; readings that agree on them are one


def reading_of(
    state: SubgraphExecutionState, resources: Resources, ctx: Context, candidate: CandidateModel
) -> tuple[QuestionReading, str] | None:
    """Return a reading and the digest of its rows; None if the query is not allowed or fails."""
    source = query_of(state).datasource_id
    try:
        query = checked(state, resources, ctx, rendered(candidate.sql, visible_catalog(state, resources)))
        sample: ReadingSample = ctx.record(
            "reading", lambda *_: _sample(resources, source, query), source, query.sql
        )
    except Nl2sqlError:
        return None
    reading = QuestionReading(
        words=in_words(query.tree),
        sql=query.sql,
        columns=sample.columns,
        row=sample.row,
        unread=candidate.unmapped,
    )
    return reading, sample.digest


def _sample(resources: Resources, source: str, query: CheckedQuery) -> ReadingSample:
    result = resources.sources[source].run(query, COMPARED)
    rows = sorted(map(repr, result.rows))
    return ReadingSample(
        columns=result.columns,
        row=tuple(map(_plain, result.rows[0])) if result.rows else None,
        digest=hashlib.sha256("\n".join(rows).encode()).hexdigest(),
    )


def _plain(value: Any) -> str | int | float | bool | None:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)

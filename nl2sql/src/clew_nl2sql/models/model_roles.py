"""Planner, decomposer and synthesizer that use a language model.

Each takes a `ChatModel`. In a run, their requests are recorded calls (`through`), so a resumed or replayed
run does not repeat them. Their results are proposals like any other: the guard checks them, and the database
explains them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, Literal

import msgspec

from clew_nl2sql.errors import ModelError
from clew_nl2sql.models import prompts
from clew_nl2sql.models.chat import ChatModel, Record
from clew_nl2sql.models.narrowing import narrowed
from clew_nl2sql.models.unread_words import unread_words
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.schemas import (
    AggregatorResponse,
    CandidateModel,
    CombineGroup,
    DecomposerResponse,
    PlanModel,
    RefinerResponse,
    SubQuery,
)
from clew_nl2sql.timezones import today_in

MOST = 3  # queries of one reply
SCHEMA_TOKENS = 12_000
_FENCED_SQL = re.compile(r"```(?:sql\w*)?\s*(.*?)```", re.DOTALL | re.IGNORECASE)
_QUERY = re.compile(r"\s*(?:select|with)\b", re.IGNORECASE)


# The docstrings of the replies are part of the schema that the model receives and the run records.
class ReadReply(msgspec.Struct, kw_only=True):
    """Words of the question, and the part of the SQL that reads them."""

    words: str
    sql: str


class QueryProposal(msgspec.Struct, kw_only=True):
    """One proposed query."""

    sql: str
    certainty: float
    reads: list[ReadReply] = []


class PlanReply(msgspec.Struct, kw_only=True):
    """What a planner's model replies."""

    queries: list[QueryProposal]
    reason: str = ""


class PartReply(msgspec.Struct, kw_only=True):
    """One part of a question."""

    source: str
    question: str


class DecompositionReply(msgspec.Struct, kw_only=True):
    """What a decomposer's model replies."""

    parts: list[PartReply]
    operation: Literal["standalone", "compare", "join", "union"]
    how: Literal["inner", "left", "full"] = "left"
    entity: str = ""
    unmapped: list[str] = []


class SynthesisReply(msgspec.Struct, kw_only=True):
    """What a synthesizer's model replies."""

    answer: str


class ModelPlanner:
    """Translates questions to SQL with a model, which proposes up to three queries.

    Args:
        model: The endpoint.
        values: How many examples of each text column the prompt includes; 0 includes none.
        threshold: A reply with a lower certainty is an abstention.
        schema_tokens: About how many tokens the schema may take. A larger one is narrowed to the tables that the
            question is likely to need.
        today: Returns the date of a question, in the time zone of its source.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        values: int = prompts.VALUES,
        threshold: float = 0.0,
        schema_tokens: int = SCHEMA_TOKENS,
        today: Callable[[str], date] = today_in,
        record: Record | None = None,
    ) -> None:
        self._model, self._values, self._threshold, self._record = model, values, threshold, record
        self._schema_tokens, self._today = schema_tokens, today

    def through(self, record: Record) -> ModelPlanner:
        """Return a copy that records its requests in a run."""
        return ModelPlanner(
            self._model,
            values=self._values,
            threshold=self._threshold,
            schema_tokens=self._schema_tokens,
            today=self._today,
            record=record,
        )

    def plan(self, question: str, catalog: Catalog) -> PlanModel:
        """Return the model's queries."""
        return self._asked(question, catalog, None)

    def refine(self, question: str, catalog: Catalog, feedback: RefinerResponse) -> PlanModel:
        """Return other queries; the prompt includes the feedback on earlier ones."""
        return self._asked(question, catalog, feedback)

    def _iso_today(self, timezone: str) -> str:
        return self._today(timezone).isoformat()

    def _asked(self, question: str, catalog: Catalog, feedback: RefinerResponse | None) -> PlanModel:
        zone = catalog.timezone
        day = self._record("today", self._iso_today, zone) if self._record else self._iso_today(zone)
        shown = narrowed(question, catalog, self._schema_tokens, self._values)
        left_out = len(catalog.tables) - len(shown.tables)
        reply = self._model.ask(
            self._record,
            prompts.PLANNER.format(dialect=catalog.dialect, today=day),
            prompts.planner_text(question, shown, feedback, self._values, left_out),
            PlanReply,
            accept_query,
        )
        candidates = tuple(_candidate(question, one, catalog.dialect) for one in reply.queries[:MOST])
        candidates = tuple({one.sql: one for one in reversed(candidates) if one.sql}.values())[::-1]
        if not candidates:
            return PlanModel(abstained=True, certainty=0.0)
        best = candidates[0]
        return PlanModel(
            sql=best.sql,
            certainty=best.certainty,
            abstained=best.certainty < self._threshold,
            candidates=candidates,
            unmapped=best.unmapped,
            threshold=self._threshold,
            needs_agreement=True,
            hash=hashlib.sha256(best.sql.encode()).hexdigest(),
        )


def _candidate(question: str, one: QueryProposal, dialect: str) -> CandidateModel:
    sql = one.sql.strip().rstrip(";").strip()
    pairs = [(pair.words, pair.sql) for pair in one.reads]
    return CandidateModel(
        sql=sql,
        certainty=min(max(one.certainty, 0.0), 1.0),
        unmapped=unread_words(question, sql, pairs, dialect),
    )


def accept_query(said: Any) -> dict[str, Any] | None:
    """Read a single query, which is what many models reply: an object with `sql`, or text with SQL in it."""
    if isinstance(said, dict):
        if "sql" not in said:
            return None
        sql, certainty = said["sql"], said.get("certainty", 1.0)
        queries = [{"sql": sql, "certainty": certainty, "reads": said.get("reads") or []}] if sql else []
        return {"queries": queries, "reason": str(said.get("reason") or "")}
    fenced = _FENCED_SQL.search(said)
    sql = fenced[1] if fenced else said
    if not _QUERY.match(sql):
        return None
    return {"queries": [{"sql": sql.strip(), "certainty": 1.0, "reads": []}]}


class ModelDecomposer:
    """Splits questions into parts with a model."""

    def __init__(self, model: ChatModel, *, values: int = 0, record: Record | None = None) -> None:
        self._model, self._values, self._record = model, values, record

    def through(self, record: Record) -> ModelDecomposer:
        """Return a copy that records its requests in a run."""
        return ModelDecomposer(self._model, values=self._values, record=record)

    def decompose(self, question: str, catalogs: Mapping[str, Catalog]) -> DecomposerResponse:
        """Return the model's parts."""
        reply = self._model.ask(
            self._record,
            prompts.DECOMPOSER,
            prompts.decomposer_text(question, catalogs, self._values),
            DecompositionReply,
        )
        if not reply.parts and not reply.unmapped:
            raise ModelError("the model returned neither parts nor unmapped words")
        queries = tuple(
            SubQuery(
                id=f"scan_{number}_{part.source}",
                datasource_id=part.source,
                intent=part.question,
                text=part.question,
                entity=reply.entity,
            )
            for number, part in enumerate(reply.parts, 1)
        )
        operation = reply.operation if len(queries) > 1 else "standalone"
        combine = CombineGroup(operation=operation, how=reply.how, entity=reply.entity)
        return DecomposerResponse(sub_queries=queries, combine=combine, unmapped=tuple(reply.unmapped))


class ModelSynthesizer:
    """Writes answers with a model. The prompt includes the first rows of the result."""

    def __init__(self, model: ChatModel, *, record: Record | None = None) -> None:
        self._model, self._record = model, record

    def through(self, record: Record) -> ModelSynthesizer:
        """Return a copy that records its requests in a run."""
        return ModelSynthesizer(self._model, record=record)

    def synthesize(self, question: str, result: AggregatorResponse) -> str:
        """Return the model's text."""
        asked = prompts.synthesizer_text(question, result)
        return self._model.ask(self._record, prompts.SYNTHESIZER, asked, SynthesisReply).answer

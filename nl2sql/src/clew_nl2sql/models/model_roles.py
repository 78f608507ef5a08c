"""Planner, decomposer and synthesizer that use a language model.

Each takes a `ChatModel`. In a run, their requests are recorded calls (`through`), so a resumed or replayed
run does not repeat them. Their results are proposals like any other: the guard checks them, and the database
explains them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal

import msgspec

from clew_nl2sql.errors import ModelError
from clew_nl2sql.models import prompts
from clew_nl2sql.models.chat import ChatModel, Record
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.schemas import (
    AggregatorResponse,
    CombineGroup,
    DecomposerResponse,
    PlanModel,
    RefinerResponse,
    SubQuery,
)


# The docstrings of the replies are part of the schema that the model receives and the run records.
class PlanReply(msgspec.Struct, kw_only=True):
    """What a planner's model replies."""

    sql: str | None
    certainty: float
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
    """Translates questions to SQL with a model.

    The prompt includes `values` examples of each text column; 0 includes none. A reply with a certainty below
    `threshold` is an abstention.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        values: int = prompts.VALUES,
        threshold: float = 0.0,
        record: Record | None = None,
    ) -> None:
        self._model, self._values, self._threshold, self._record = model, values, threshold, record

    def through(self, record: Record) -> ModelPlanner:
        """Return a copy that records its requests in a run."""
        return ModelPlanner(self._model, values=self._values, threshold=self._threshold, record=record)

    def plan(self, question: str, catalog: Catalog) -> PlanModel:
        """Return the model's query."""
        return self._asked(question, catalog, None)

    def refine(self, question: str, catalog: Catalog, feedback: RefinerResponse) -> PlanModel:
        """Return another query; the prompt includes the feedback on earlier ones."""
        return self._asked(question, catalog, feedback)

    def _asked(self, question: str, catalog: Catalog, feedback: RefinerResponse | None) -> PlanModel:
        reply = self._model.ask(
            self._record,
            prompts.PLANNER.format(dialect=catalog.dialect),
            prompts.planner_text(question, catalog, feedback, self._values),
            PlanReply,
        )
        sql = (reply.sql or "").strip().rstrip(";").strip() or None
        certainty = min(max(reply.certainty, 0.0), 1.0)
        return PlanModel(
            sql=sql,
            certainty=certainty,
            abstained=sql is None or certainty < self._threshold,
            hash=hashlib.sha256((sql or "").encode()).hexdigest(),
        )


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

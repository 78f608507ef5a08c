"""Planner, decomposer and synthesizer that ask a language model.

Each takes a `ChatModel`. Within a run their requests go through the run's journal (`through`), so a run that is
resumed or replayed asks nothing again. What they return is a proposal like any other: the guard reads it, the
database explains it."""

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
    """Questions to SQL by a model. `values` examples of each text column are sent along; 0 sends none.

    A reply below `threshold` is an abstention.
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
        """The same, with its requests in a run's journal."""
        return ModelPlanner(self._model, values=self._values, threshold=self._threshold, record=record)

    def plan(self, question: str, catalog: Catalog) -> PlanModel:
        """The model's query."""
        return self._asked(question, catalog, None)

    def refine(self, question: str, catalog: Catalog, feedback: RefinerResponse) -> PlanModel:
        """Another query, after the model was told what was wrong with those before."""
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
    """Questions to parts by a model."""

    def __init__(self, model: ChatModel, *, values: int = 0, record: Record | None = None) -> None:
        self._model, self._values, self._record = model, values, record

    def through(self, record: Record) -> ModelDecomposer:
        """The same, with its requests in a run's journal."""
        return ModelDecomposer(self._model, values=self._values, record=record)

    def decompose(self, question: str, catalogs: Mapping[str, Catalog]) -> DecomposerResponse:
        """The model's parts."""
        reply = self._model.ask(
            self._record,
            prompts.DECOMPOSER,
            prompts.decomposer_text(question, catalogs, self._values),
            DecompositionReply,
        )
        if not reply.parts and not reply.unmapped:
            raise ModelError("the model found no part of the question, and nothing that maps to no source")
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
    """Results to words by a model. It is sent the first rows of the result."""

    def __init__(self, model: ChatModel, *, record: Record | None = None) -> None:
        self._model, self._record = model, record

    def through(self, record: Record) -> ModelSynthesizer:
        """The same, with its requests in a run's journal."""
        return ModelSynthesizer(self._model, record=record)

    def synthesize(self, question: str, result: AggregatorResponse) -> str:
        """The model's words."""
        asked = prompts.synthesizer_text(question, result)
        return self._model.ask(self._record, prompts.SYNTHESIZER, asked, SynthesisReply).answer

"""The state of a question, for the whole pipeline and for one scan.

A field with a reducer is shared: several nodes write it, and the reducer merges their updates. Every other
field has one writer. The two states share nothing; `clew_nl2sql.boundary` builds the data that moves between
them.
"""

from __future__ import annotations

import operator
from typing import Annotated, Any
from uuid import uuid4

import msgspec

from clew import merge as update_results
from clew_nl2sql.access import UserContext
from clew_nl2sql.errors import PipelineError
from clew_nl2sql.planner.catalog import ForeignKey, Table
from clew_nl2sql.schemas import (
    AggregatorResponse,
    AnswerSynthesizerResponse,
    ArtifactRef,
    ASTPlannerResponse,
    ChoiceResponse,
    DatasourceResolverResponse,
    DecomposerResponse,
    ExecutorResponse,
    GeneratorResponse,
    GlobalPlannerResponse,
    LogicalValidatorResponse,
    PhysicalValidatorResponse,
    PlanModel,
    RefinerResponse,
    RememberedChoice,
    SubgraphOutput,
    SubQuery,
)

__all__ = ["GraphState", "SubgraphExecutionState", "plan_of", "update_results"]


def _new_trace() -> str:
    return str(uuid4())


class GraphState(msgspec.Struct, kw_only=True):
    """The state of the pipeline."""

    trace_id: str = msgspec.field(default_factory=_new_trace)
    user_query: str
    user_context: UserContext = msgspec.field(default_factory=UserContext)
    datasource_id: str | None = None
    ask_back: bool = False  # a person can choose between readings
    remembered: tuple[RememberedChoice, ...] = ()
    datasource_resolver_response: DatasourceResolverResponse | None = None
    decomposer_response: DecomposerResponse | None = None
    global_planner_response: GlobalPlannerResponse | None = None
    aggregator_response: AggregatorResponse | None = None
    answer_synthesizer_response: AnswerSynthesizerResponse | None = None
    artifact_refs: Annotated[dict[str, ArtifactRef], update_results] = {}
    subgraph_outputs: Annotated[dict[str, SubgraphOutput], update_results] = {}
    errors: Annotated[list[PipelineError], operator.add] = []
    reasoning: Annotated[list[dict[str, Any]], operator.add] = []
    warnings: Annotated[list[dict[str, Any]], operator.add] = []
    subgraph_id: str | None = None
    subgraph_name: str | None = None


class SubgraphExecutionState(msgspec.Struct, kw_only=True):
    """The state of one scan, inside the sql_agent subgraph."""

    trace_id: str
    sub_query: SubQuery | None = None
    user_context: UserContext | None = None
    subgraph_id: str | None = None
    subgraph_name: str | None = None
    ask_back: bool = False
    remembered: tuple[RememberedChoice, ...] = ()
    relevant_tables: list[Table] = []
    relevant_keys: list[ForeignKey] = []
    ast_planner_response: ASTPlannerResponse | None = None
    choice_response: ChoiceResponse | None = None
    logical_validator_response: LogicalValidatorResponse | None = None
    physical_validator_response: PhysicalValidatorResponse | None = None
    generator_response: GeneratorResponse | None = None
    executor_response: ExecutorResponse | None = None
    refiner_response: RefinerResponse | None = None
    retry_count: int = 0
    errors: Annotated[list[PipelineError], operator.add] = []
    reasoning: Annotated[list[dict[str, Any]], operator.add] = []
    warnings: Annotated[list[dict[str, Any]], operator.add] = []


def plan_of(state: SubgraphExecutionState) -> PlanModel | None:
    """Return the plan that a person chose, or the planner's."""
    if state.choice_response is not None and state.choice_response.plan is not None:
        return state.choice_response.plan
    return state.ast_planner_response.plan if state.ast_planner_response else None

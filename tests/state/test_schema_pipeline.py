"""A realistic pair of schemas: a pipeline that answers questions with SQL, and one SQL agent inside it."""

from __future__ import annotations

import operator
import uuid
from typing import Annotated, Any

import pydantic
import pytest

from clew.errors import UnknownValueError
from clew.state.reducers import Overwrite, merge
from clew.state.schema import read_schema


class UserContext(pydantic.BaseModel):
    user_id: str | None = None
    roles: list[str] = []


class PipelineError(pydantic.BaseModel):
    node: str
    message: str


class ArtifactRef(pydantic.BaseModel):
    uri: str
    content_hash: str


class SubQuery(pydantic.BaseModel):
    id: str
    intent: str


class DecomposerResponse(pydantic.BaseModel):
    sub_queries: list[SubQuery] = []


class SubgraphOutput(pydantic.BaseModel):
    subgraph_id: str
    retry_count: int = 0
    errors: list[PipelineError] = []
    status: str | None = None


class PipelineState(pydantic.BaseModel):
    """The fields of the main graph as the specification lists them; most responses are plain mappings."""

    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    trace_id: str = pydantic.Field(default_factory=lambda: str(uuid.uuid4()))
    user_query: str
    user_context: UserContext = pydantic.Field(default_factory=UserContext)
    datasource_id: str | None = None
    datasource_resolver_response: dict[str, Any] | None = None
    decomposer_response: DecomposerResponse | None = None
    global_planner_response: dict[str, Any] | None = None
    aggregator_response: dict[str, Any] | None = None
    answer_synthesizer_response: dict[str, Any] | None = None
    artifact_refs: Annotated[dict[str, ArtifactRef], merge] = pydantic.Field(default_factory=dict)
    subgraph_outputs: Annotated[dict[str, SubgraphOutput], merge] = pydantic.Field(default_factory=dict)
    errors: Annotated[list[PipelineError], operator.add] = pydantic.Field(default_factory=list)
    reasoning: Annotated[list[dict[str, Any]], operator.add] = pydantic.Field(default_factory=list)
    warnings: Annotated[list[dict[str, Any]], operator.add] = pydantic.Field(default_factory=list)
    subgraph_id: str | None = None
    subgraph_name: str | None = None


class SubgraphExecutionState(pydantic.BaseModel):
    """The fields of one SQL agent, as the specification lists them."""

    trace_id: str
    sub_query: SubQuery | None = None
    user_context: UserContext | None = None
    subgraph_id: str | None = None
    subgraph_name: str | None = None
    relevant_tables: list[dict[str, Any]] = pydantic.Field(default_factory=list)
    ast_planner_response: dict[str, Any] | None = None
    logical_validator_response: dict[str, Any] | None = None
    physical_validator_response: dict[str, Any] | None = None
    generator_response: dict[str, Any] | None = None
    executor_response: dict[str, Any] | None = None
    refiner_response: dict[str, Any] | None = None
    retry_count: int = 0
    errors: Annotated[list[PipelineError], operator.add]
    reasoning: Annotated[list[dict[str, Any]], operator.add]
    warnings: Annotated[list[dict[str, Any]], operator.add]


def test_the_pipeline_state_merges_and_concatenates() -> None:
    schema = read_schema(PipelineState)
    reduced = {name: field.reducer for name, field in schema.fields.items() if field.reducer}
    assert reduced == {
        "artifact_refs": merge,
        "subgraph_outputs": merge,
        "errors": operator.add,
        "reasoning": operator.add,
        "warnings": operator.add,
    }
    seed = schema.defaults({"user_query"})
    assert set(seed) == set(schema.fields) - {"user_query"}
    assert seed["user_context"] == UserContext()


def test_the_pipeline_state_checks_what_nodes_return() -> None:
    schema = read_schema(PipelineState)
    error = PipelineError(node="decomposer", message="no tables")
    assert schema.validate_update("errors", [error])[0] is error
    assert schema.validate_update("errors", [{"node": "x", "message": "y"}]) == [
        PipelineError(node="x", message="y")
    ]
    assert schema.validate_update("errors", Overwrite([])) == Overwrite([])
    with pytest.raises(ValueError, match=r"^artifact_refs\.q1\.content_hash: Field required"):
        schema.validate_update("artifact_refs", {"q1": {"uri": "file:a"}})
    with pytest.raises(UnknownValueError, match="did you mean 'artifact_refs'"):
        schema.check_name("artifact_ref", "node 'sql_agent'")


def test_the_pipeline_state_reads_as_the_class_it_is() -> None:
    schema = read_schema(PipelineState)
    state = schema.instance({**schema.defaults(()), "user_query": "How many?"})
    assert isinstance(state, PipelineState)
    assert state.user_context.roles == []
    assert state.model_dump()["user_query"] == "How many?"
    changed = state.model_copy(update={"user_query": "Who?"})
    assert (changed.user_query, state.user_query) == ("Who?", "How many?")


def test_the_subgraph_state_starts_from_what_it_is_given() -> None:
    schema = read_schema(SubgraphExecutionState)
    seed = schema.defaults({"trace_id", "sub_query"})
    assert (seed["retry_count"], seed["errors"], seed["relevant_tables"]) == (0, [], [])
    assert schema.validate("sub_query", {"id": "q1", "intent": "count"}) == SubQuery(id="q1", intent="count")

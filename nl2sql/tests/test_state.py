"""The typed state: every field and reducer that the specification names, and the boundary between the two states."""

from __future__ import annotations

import operator
from typing import Annotated, Any, get_origin, get_type_hints

import msgspec
import pytest

from clew import merge
from clew_nl2sql import ErrorCode, ErrorSeverity, GraphState, PipelineError, SubgraphExecutionState
from clew_nl2sql.boundary import PAYLOAD, build_scan_payload, transform_input, transform_output
from clew_nl2sql.schemas import (
    ArtifactRef,
    ColumnRef,
    DecomposerResponse,
    ExecutorResponse,
    SubgraphOutput,
    SubQuery,
)
from clew_nl2sql.state import update_results

MAIN = [
    "trace_id",
    "user_query",
    "user_context",
    "datasource_id",
    "datasource_resolver_response",
    "decomposer_response",
    "global_planner_response",
    "aggregator_response",
    "answer_synthesizer_response",
    "artifact_refs",
    "subgraph_outputs",
    "errors",
    "reasoning",
    "warnings",
    "subgraph_id",
    "subgraph_name",
]
SUB = [
    "trace_id",
    "sub_query",
    "user_context",
    "subgraph_id",
    "subgraph_name",
    "relevant_tables",
    "ast_planner_response",
    "logical_validator_response",
    "physical_validator_response",
    "generator_response",
    "executor_response",
    "refiner_response",
    "retry_count",
    "errors",
    "reasoning",
    "warnings",
]
OUTPUT = [
    "sub_query",
    "subgraph_id",
    "subgraph_name",
    "retry_count",
    "plan",
    "sql_draft",
    "artifact",
    "errors",
    "reasoning",
    "status",
]


def fields(cls: Any) -> list[str]:
    return [field.name for field in msgspec.structs.fields(cls)]


def reducers(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if get_origin(hint) is Annotated}


CHOICE = {"ask_back", "remembered", "choice_response", "choice"}  # what choosing a reading adds


def specified(cls: Any) -> list[str]:
    return [name for name in fields(cls) if name not in CHOICE]


def test_the_pipeline_has_the_specified_fields() -> None:
    assert specified(GraphState) == MAIN


def test_a_scan_has_the_specified_fields_and_the_keys_of_its_tables() -> None:
    assert [name for name in specified(SubgraphExecutionState) if name != "relevant_keys"] == SUB


def test_an_output_has_the_specified_fields() -> None:
    assert specified(SubgraphOutput) == OUTPUT


@pytest.mark.parametrize("name", ["uri", "backend", "format", "content_hash"])
def test_an_artifact_is_referred_to_as_specified(name: str) -> None:
    assert name in fields(ArtifactRef)


def test_the_specified_reducers() -> None:
    adds = dict.fromkeys(("errors", "reasoning", "warnings"), operator.add)
    assert reducers(SubgraphExecutionState) == adds
    assert reducers(GraphState) == {**adds, "artifact_refs": merge, "subgraph_outputs": merge}


def test_update_results_joins_and_the_new_one_wins() -> None:
    assert update_results({"a": 1, "b": 1}, {"b": 2}) == {"a": 1, "b": 2}


def test_each_question_has_a_trace_of_its_own() -> None:
    assert GraphState(user_query="?").trace_id != GraphState(user_query="?").trace_id


def state_with_two_parts() -> GraphState:
    queries = tuple(SubQuery(id=f"scan_{n}", datasource_id=f"s{n}", intent="?") for n in (1, 2))
    return GraphState(
        trace_id="t", user_query="?", decomposer_response=DecomposerResponse(sub_queries=queries)
    )


def test_a_scan_is_entered_with_its_own_part_and_nothing_else() -> None:
    payload = build_scan_payload(state_with_two_parts(), "scan_2", "sql_agent")
    assert tuple(payload) == PAYLOAD
    begun = SubgraphExecutionState(**transform_input(payload))
    assert begun.sub_query is not None
    assert begun.sub_query.datasource_id == "s2"
    assert (begun.subgraph_id, begun.subgraph_name, begun.trace_id) == ("scan_2", "sql_agent", "t")
    assert begun.errors == []


BAD = PipelineError(node="executor", message="no", code=ErrorCode.EXECUTION_ERROR)
REF = ArtifactRef(
    uri="u",
    backend="local",
    format="parquet",
    content_hash="h",
    tenant_id="t",
    trace_id="t",
    node_id="scan_1",
    row_count=1,
    columns=(ColumnRef(name="n", type="int64"),),
)


def test_a_scan_that_failed_leaves_an_output_and_no_artifact() -> None:
    update = transform_output(
        SubgraphExecutionState(trace_id="t", subgraph_id="scan_1", errors=[BAD], retry_count=3)
    )
    assert update["artifact_refs"] == {}
    assert update["errors"] == [BAD]
    output = update["subgraph_outputs"]["scan_1"]
    assert (output.status, output.retry_count, output.errors) == ("error", 3, [BAD])


def test_a_scan_that_succeeded_after_a_retry_keeps_its_errors_as_history() -> None:
    update = transform_output(
        SubgraphExecutionState(
            trace_id="t",
            subgraph_id="scan_1",
            errors=[BAD],
            retry_count=1,
            executor_response=ExecutorResponse(artifact=REF),
        )
    )
    assert update["artifact_refs"] == {"scan_1": REF}
    assert update["subgraph_outputs"]["scan_1"].status == "success"
    assert update["subgraph_outputs"]["scan_1"].errors == [BAD]
    assert [error.severity for error in update["errors"]] == [ErrorSeverity.WARNING]

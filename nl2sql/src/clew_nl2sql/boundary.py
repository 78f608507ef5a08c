"""The boundary between the pipeline and one scan.

The two share no state. A scan starts from a payload (`build_scan_payload`) and returns a `SubgraphOutput`.
Clew encodes and validates the data in both directions.

Rules:

- A scan that succeeded after retries keeps its errors as history; the pipeline's state lists them as
  warnings.
- A failed scan appears in `subgraph_outputs` and not in `artifact_refs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from clew import Graph, Node
from clew_nl2sql.errors import ErrorSeverity, PipelineError
from clew_nl2sql.schemas import SubgraphOutput
from clew_nl2sql.state import GraphState, SubgraphExecutionState, plan_of

PAYLOAD = (
    "subgraph_id",
    "subgraph_name",
    "trace_id",
    "user_context",
    "ask_back",
    "remembered",
    "decomposer_response",
    "datasource_resolver_response",
)


def build_scan_payload(state: GraphState, scan: str, subgraph_name: str) -> dict[str, Any]:
    """Return the input of one scan."""
    return {
        "subgraph_id": scan,
        "subgraph_name": subgraph_name,
        "trace_id": state.trace_id,
        "user_context": state.user_context,
        "ask_back": state.ask_back,
        "remembered": state.remembered,
        "decomposer_response": state.decomposer_response,
        "datasource_resolver_response": state.datasource_resolver_response,
    }


def wrap_subgraph(subgraph: Graph, name: str) -> Node:
    """Return the subgraph as a node of the pipeline."""
    return subgraph.as_node(
        name,
        inputs=PAYLOAD,
        outputs=("artifact_refs", "subgraph_outputs", "errors", "reasoning", "warnings"),
        transform_input=transform_input,
        transform_output=transform_output,
        description="answers one part of the question from its source",
    )


def transform_input(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the initial state of a scan."""
    scan = values["subgraph_id"]
    queries = values["decomposer_response"].sub_queries
    return {
        "trace_id": values["trace_id"],
        "sub_query": next(query for query in queries if query.id == scan),
        "user_context": values["user_context"],
        "ask_back": values["ask_back"],
        "remembered": values["remembered"],
        "subgraph_id": scan,
        "subgraph_name": values["subgraph_name"],
    }


def transform_output(state: SubgraphExecutionState) -> dict[str, Any]:
    """Return the state update that a finished scan makes."""
    scan = state.subgraph_id or ""
    artifact = state.executor_response.artifact if state.executor_response else None
    output = SubgraphOutput(
        sub_query=state.sub_query,
        subgraph_id=scan,
        subgraph_name=state.subgraph_name,
        retry_count=state.retry_count,
        plan=plan_of(state),
        choice=state.choice_response,
        sql_draft=state.generator_response.sql_draft if state.generator_response else None,
        artifact=artifact,
        errors=list(state.errors),
        reasoning=list(state.reasoning),
        status="success" if artifact else "error",
    )
    return {
        "artifact_refs": {scan: artifact} if artifact else {},
        "subgraph_outputs": {scan: output},
        "errors": [_history(error) for error in state.errors] if artifact else list(state.errors),
        "reasoning": [{"node": "sql_agent", "scan": scan, **step} for step in state.reasoning],
        "warnings": list(state.warnings),
    }


def _history(error: PipelineError) -> PipelineError:
    return msgspec.structs.replace(error, severity=ErrorSeverity.WARNING)

"""The gates: what runs next, decided from the state alone.

In the main graph `resolver_route` asks whether there is a source at all, and `layer_router` sends every scan that
is neither finished nor failed for good. A scan that failed counts as done, or the router would send it forever.

In the subgraph each gate looks at what the node before it made: go on, go back through the retry handler, or end.
Going back needs an error that another plan could cure, and fewer than MAX_RETRIES tries so far.
"""

from __future__ import annotations

from clew import END, Node, Send, route
from clew_nl2sql.boundary import build_scan_payload
from clew_nl2sql.resources import MAX_RETRIES
from clew_nl2sql.state import GraphState, SubgraphExecutionState


@route(targets=["decomposer", "answer_synthesizer"], after="datasource_resolver")
def resolver_route(state: GraphState) -> str:
    """On, if there is a source to ask; else to the answer, which says why there is none."""
    response = state.datasource_resolver_response
    return "decomposer" if response and response.resolved_datasources else "answer_synthesizer"


def build_scan_layer_router(subgraph_name: str) -> Node:
    """The gate that sends each pending scan into the subgraph, and goes on to the aggregator when none is left."""

    @route(
        name="layer_router", targets=[subgraph_name, "aggregator"], after=["global_planner", subgraph_name]
    )
    def layer_router(state: GraphState) -> list[Send] | str:
        return [
            Send(subgraph_name, build_scan_payload(state, scan, subgraph_name))
            for scan in pending_scans(state)
        ] or "aggregator"

    return layer_router


def pending_scans(state: GraphState) -> list[str]:
    """Scans of the plan that have neither a result nor a final failure."""
    response = state.global_planner_response
    scans = response.execution_dag.scans if response else ()
    done = {*state.artifact_refs, *state.subgraph_outputs}
    return [scan.node_id for scan in scans if scan.node_id not in done]


def _back_or_end(state: SubgraphExecutionState) -> object:
    can_be_cured = bool(state.errors) and state.errors[-1].retryable
    return "retry_handler" if can_be_cured and state.retry_count < MAX_RETRIES else END


@route(targets=["ast_planner", END], after="schema_retriever")
def schema_route(state: SubgraphExecutionState) -> object:
    """On, if there is anything to plan with."""
    return "ast_planner" if state.relevant_tables else END


@route(targets=["logical_validator", "retry_handler", END], after="ast_planner")
def planner_route(state: SubgraphExecutionState) -> object:
    """On with a proposal; an abstention is an end."""
    plan = state.ast_planner_response.plan if state.ast_planner_response else None
    if plan is None:
        return _back_or_end(state)
    return "logical_validator" if plan.sql and not plan.abstained else END


@route(targets=["generator", "retry_handler", END], after="logical_validator")
def logical_route(state: SubgraphExecutionState) -> object:
    """On with what may be sent. A denial is an end."""
    response = state.logical_validator_response
    return "generator" if response and response.valid else _back_or_end(state)


@route(targets=["physical_validator", "retry_handler", END], after="generator")
def generator_route(state: SubgraphExecutionState) -> object:
    """On with a rendered query."""
    response = state.generator_response
    return "physical_validator" if response and response.sql_draft else _back_or_end(state)


@route(targets=["executor", "retry_handler", END], after="physical_validator")
def physical_route(state: SubgraphExecutionState) -> object:
    """On with what the database takes."""
    response = state.physical_validator_response
    return "executor" if response and response.valid else _back_or_end(state)


@route(targets=["retry_handler", END], after="executor")
def executor_route(state: SubgraphExecutionState) -> object:
    """Done, or back."""
    response = state.executor_response
    return END if response and response.artifact else _back_or_end(state)

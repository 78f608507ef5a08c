"""The gates, which choose the next node from the state alone.

In the main graph, `resolver_route` checks that a source is available, and `layer_router` starts every scan
that has neither finished nor failed. A failed scan counts as done; otherwise the router would start it
forever.

In the subgraph, each gate checks the result of the node before it, and continues, retries through the retry
handler, or ends. A retry needs an error that another plan may avoid, and fewer than MAX_RETRIES earlier
retries.
"""

from __future__ import annotations

from clew import END, Node, Send, route
from clew_nl2sql.boundary import build_scan_payload
from clew_nl2sql.resources import MAX_RETRIES
from clew_nl2sql.schemas import PlanModel
from clew_nl2sql.state import GraphState, SubgraphExecutionState, plan_of


@route(targets=["decomposer", "answer_synthesizer"], after="datasource_resolver")
def resolver_route(state: GraphState) -> str:
    """Continue if a source is available; otherwise go to the answer, which names the reason."""
    response = state.datasource_resolver_response
    return "decomposer" if response and response.resolved_datasources else "answer_synthesizer"


def build_scan_layer_router(subgraph_name: str) -> Node:
    """Return the gate that starts each pending scan, and continues with the aggregator after the last one."""

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
    """Return the scans of the plan that have neither a result nor a final failure."""
    response = state.global_planner_response
    scans = response.execution_dag.scans if response else ()
    done = {*state.artifact_refs, *state.subgraph_outputs}
    return [scan.node_id for scan in scans if scan.node_id not in done]


def _retry_or_end(state: SubgraphExecutionState) -> object:
    chosen = state.choice_response is not None and state.choice_response.plan is not None
    can_retry = bool(state.errors) and state.errors[-1].retryable and not chosen
    return "retry_handler" if can_retry and state.retry_count < MAX_RETRIES else END


@route(targets=["ast_planner", END], after="schema_retriever")
def schema_route(state: SubgraphExecutionState) -> object:
    """Continue if the user may see any table."""
    return "ast_planner" if state.relevant_tables else END


@route(targets=["logical_validator", "reading_chooser", "retry_handler", END], after="ast_planner")
def planner_route(state: SubgraphExecutionState) -> object:
    """Continue with a proposal; if it is not certain, ask a person, or end."""
    plan = state.ast_planner_response.plan if state.ast_planner_response else None
    if plan is None:
        return _retry_or_end(state)
    uncertain = plan.unmapped or not _answers(plan)
    if uncertain and state.choice_response is None and (state.remembered or state.ask_back):
        return "reading_chooser"
    return "logical_validator" if _answers(plan) else END


def _answers(plan: PlanModel) -> bool:
    return bool(plan.sql) and not plan.abstained


@route(targets=["logical_validator", END], after="reading_chooser")
def choice_route(state: SubgraphExecutionState) -> object:
    """Continue with the choice, or with the planner's proposal if it made one."""
    plan = plan_of(state)
    return "logical_validator" if plan is not None and _answers(plan) else END


@route(targets=["generator", "retry_handler", END], after="logical_validator")
def logical_route(state: SubgraphExecutionState) -> object:
    """Continue with a valid query; end if access was denied."""
    response = state.logical_validator_response
    return "generator" if response and response.valid else _retry_or_end(state)


@route(targets=["physical_validator", "retry_handler", END], after="generator")
def generator_route(state: SubgraphExecutionState) -> object:
    """Continue with a rendered query."""
    response = state.generator_response
    return "physical_validator" if response and response.sql_draft else _retry_or_end(state)


@route(targets=["executor", "retry_handler", END], after="physical_validator")
def physical_route(state: SubgraphExecutionState) -> object:
    """Continue with a query that the database accepts."""
    response = state.physical_validator_response
    return "executor" if response and response.valid else _retry_or_end(state)


@route(targets=["retry_handler", END], after="executor")
def executor_route(state: SubgraphExecutionState) -> object:
    """End with a result, or retry."""
    response = state.executor_response
    return END if response and response.artifact else _retry_or_end(state)

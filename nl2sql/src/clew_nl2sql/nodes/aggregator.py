"""EngineAggregatorNode combines the results of all scans.

Writes `aggregator_response`. Failed scans are listed as missing, and the other results are combined. The
combined result is recorded, so a replay does not need the files.
"""

from __future__ import annotations

from typing import Any

from clew import Context, node
from clew_nl2sql.aggregate.execution import aggregate
from clew_nl2sql.errors import ErrorSeverity, Nl2sqlError, PipelineError
from clew_nl2sql.resources import Resources
from clew_nl2sql.schemas import AggregatorResponse, ArtifactRef, ExecutionDAG
from clew_nl2sql.state import GraphState

NAME = "aggregator"


@node(name=NAME, writes=("aggregator_response", "errors", "reasoning"), timeout=600.0)
def EngineAggregatorNode(state: GraphState, resources: Resources, ctx: Context) -> dict[str, Any]:
    """Combine the artifacts as planned."""
    dag = state.global_planner_response.execution_dag if state.global_planner_response else None
    scans = [scan.node_id for scan in dag.scans] if dag else []
    refs = {name: state.artifact_refs[name] for name in scans if name in state.artifact_refs}
    missing = tuple(name for name in scans if name not in refs)
    if dag is None or not refs:
        return {"aggregator_response": AggregatorResponse(missing=missing)}

    def combined(_: str, __: dict[str, ArtifactRef]) -> AggregatorResponse:
        tables = {name: resources.artifacts.read(ref) for name, ref in refs.items()}
        return aggregate(dag, refs, tables, resources.max_rows)

    try:
        response: AggregatorResponse = ctx.record("aggregate", combined, _identity(dag), refs)
    except Nl2sqlError as error:
        failed = PipelineError.of(error, NAME, severity=ErrorSeverity.CRITICAL)
        return {"aggregator_response": AggregatorResponse(missing=missing), "errors": [failed]}
    return {
        "aggregator_response": response,
        "reasoning": [{"node": NAME, "notes": list(response.notes), "rows": len(response.rows)}],
    }


def _identity(dag: ExecutionDAG) -> str:
    return dag.dag_id

"""executor sends the query, and stores its rows as an artifact.

Writes `executor_response`. Sending and storing are one recorded call that returns the reference. A resumed
run therefore does not send the query again, and a replay needs neither the database nor the file.
"""

from __future__ import annotations

from typing import Any

from clew import Context, SideEffectPolicy, node
from clew_nl2sql.errors import Nl2sqlError, PipelineError
from clew_nl2sql.nodes.schema_retriever import query_of
from clew_nl2sql.nodes.validator import checked
from clew_nl2sql.resources import Resources
from clew_nl2sql.schemas import ArtifactRef, ExecutorRequest, ExecutorResponse
from clew_nl2sql.sql.guard import CheckedQuery
from clew_nl2sql.sql.output_columns import is_ordered, roles_of
from clew_nl2sql.state import SubgraphExecutionState

NAME = "executor"


@node(
    name=NAME,
    writes=("executor_response", "errors", "warnings"),
    timeout=600.0,
    side_effects=SideEffectPolicy(recordable=True),
)
def ExecutorNode(state: SubgraphExecutionState, resources: Resources, ctx: Context) -> dict[str, Any]:
    """Run the validated query."""
    source = query_of(state).datasource_id
    draft = state.generator_response.sql_draft if state.generator_response else None
    try:
        query = checked(state, resources, ctx, draft or "")
        request = ExecutorRequest(
            trace_id=state.trace_id,
            subgraph_id=state.subgraph_id or "",
            subgraph_name=state.subgraph_name or "",
            datasource_id=source,
            tenant_id=state.user_context.tenant_id if state.user_context else "default",
            sql=query.sql,
        )
        artifact: ArtifactRef = ctx.record("execute", lambda asked: execute(resources, asked, query), request)
    except Nl2sqlError as error:
        failed = PipelineError.of(error, NAME, source=source)
        return {"executor_response": ExecutorResponse(), "errors": [failed]}
    message = f"{source} has more rows than were fetched ({artifact.row_count})"
    return {
        "executor_response": ExecutorResponse(artifact=artifact),
        "warnings": [{"node": NAME, "source": source, "message": message}] if artifact.truncated else [],
    }


def execute(resources: Resources, request: ExecutorRequest, query: CheckedQuery) -> ArtifactRef:
    """Send a query and store its result."""
    result = resources.sources[request.datasource_id].run(query, resources.max_scan_rows)
    return resources.artifacts.write(
        result,
        tenant_id=request.tenant_id,
        trace_id=request.trace_id,
        node_id=request.subgraph_id,
        roles=list(roles_of(query.tree)),
        ordered=is_ordered(query.tree),
    )

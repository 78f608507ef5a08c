"""DatasourceResolverNode: which sources this question may go to.

Owns `datasource_resolver_response`. A source that the user may not see is left out, and named only if the question
was addressed to it. A source that cannot be reached costs its part of the answer, not the answer.
"""

from __future__ import annotations

from typing import Any

from clew import Context, node
from clew_nl2sql.equipment import Equipment, fingerprint
from clew_nl2sql.errors import ErrorCode, ErrorSeverity, Nl2sqlError, PipelineError
from clew_nl2sql.schemas import DatasourceResolverResponse, ResolvedDatasource
from clew_nl2sql.state import GraphState

NAME = "datasource_resolver"


@node(
    name=NAME,
    writes=("datasource_resolver_response", "reasoning", "errors", "warnings"),
    timeout=600.0,
    description="which sources may answer",
)
def DatasourceResolverNode(
    user_query: str, state: GraphState, equipment: Equipment, ctx: Context
) -> dict[str, Any]:
    """Resolve the sources that the user may see and that are there."""
    access = equipment.access(state.user_context)
    wanted = [state.datasource_id] if state.datasource_id else list(equipment.sources)
    allowed = [name for name in wanted if name in equipment.sources and access.source(name)]
    denied = [name for name in wanted if name not in allowed]
    resolved: list[ResolvedDatasource] = []
    errors: list[PipelineError] = []
    for name in allowed:
        try:
            catalog = access.visible(name, ctx.record(f"catalog:{name}", equipment.outline, name))
        except Nl2sqlError as error:
            errors.append(PipelineError.of(error, NAME, source=name))
            continue
        if catalog.tables:
            resolved.append(
                ResolvedDatasource(
                    datasource_id=name,
                    dialect=catalog.dialect,
                    tables=len(catalog.tables),
                    schema_version=fingerprint(catalog),
                )
            )
    if not allowed:
        told = f"the source {state.datasource_id}" if state.datasource_id else "any source"
        errors.append(
            PipelineError(
                node=NAME,
                message=f"user {state.user_context.user_id} may not see {told}",
                code=ErrorCode.SECURITY_VIOLATION,
                severity=ErrorSeverity.CRITICAL,
            )
        )
    down = tuple(error.source for error in errors if error.source)
    return {
        "datasource_resolver_response": DatasourceResolverResponse(
            resolved_datasources=tuple(resolved),
            denied_datasource_ids=tuple(denied),
            unavailable_datasource_ids=down,
        ),
        "reasoning": [{"node": NAME, "resolved": [source.datasource_id for source in resolved]}],
        "errors": errors,
        "warnings": [{"node": NAME, "source": name, "message": f"{name} cannot be reached"} for name in down],
    }

"""ast_planner proposes a query for this part of the question. The query is not trusted yet.

Writes `ast_planner_response`. An abstention is final: asking an uncertain planner again would make it guess.
A planner that failed may be called again.
"""

from __future__ import annotations

from typing import Any

from clew import Context, node
from clew_nl2sql.errors import ErrorCode, Nl2sqlError, PipelineError
from clew_nl2sql.nodes.agreement import agreed
from clew_nl2sql.nodes.schema_retriever import query_of, visible_catalog
from clew_nl2sql.probes import ProbingPlanner
from clew_nl2sql.resources import Resources, fingerprint
from clew_nl2sql.roles import consult, next_untried, plan_model
from clew_nl2sql.schemas import ASTPlannerResponse, PlanModel
from clew_nl2sql.state import SubgraphExecutionState

NAME = "ast_planner"


@node(name=NAME, writes=("ast_planner_response", "errors", "reasoning", "warnings"), timeout=600.0)
def ASTPlannerNode(state: SubgraphExecutionState, resources: Resources, ctx: Context) -> dict[str, Any]:
    """Call the planner; in a retry, pass the feedback if the planner has `refine`."""
    query = query_of(state)
    catalog = visible_catalog(state, resources)
    planner, feedback = resources.planner, state.refiner_response
    refines = feedback is not None and hasattr(planner, "refine")
    if not hasattr(planner, "through"):
        planner = ProbingPlanner(planner, resources.sources[query.datasource_id])
    more = (feedback,) if refines else ()
    try:
        found = consult(
            ctx,
            planner,
            "refine" if refines else "plan",
            identity=(query.intent, query.datasource_id, fingerprint(catalog), state.retry_count),
            known=(query.intent, catalog, *more),
            full=lambda: (query.intent, resources.seen(state.user_context, query.datasource_id), *more),
        )
        plan = agreed(next_untried(plan_model(found), feedback), state, resources, ctx)
    except Nl2sqlError as error:
        failed = PipelineError.of(error, NAME, source=query.datasource_id)
        return {"ast_planner_response": ASTPlannerResponse(), "errors": [failed]}
    source = query.datasource_id
    return {
        "ast_planner_response": ASTPlannerResponse(plan=plan),
        "errors": _abstention(plan, source),
        "reasoning": [
            {"node": NAME, "source": source, "sql": plan.sql, "certainty": round(plan.certainty, 3)}
        ],
        "warnings": [
            {"node": NAME, "source": source, "message": f"{word!r} was not understood"}
            for word in plan.unmapped
        ],
    }


def _abstention(plan: PlanModel, source: str) -> list[PipelineError]:
    if not plan.abstained and plan.sql:
        return []
    considered = "; ".join(candidate.sql for candidate in plan.candidates[:3])
    alternatives = f"; considered: {considered}" if considered else ""
    return [
        PipelineError(
            node=NAME,
            message=f"the planner is not certain enough to answer{alternatives}",
            code=ErrorCode.PLAN_ABSTAINED,
            source=source,
        )
    ]

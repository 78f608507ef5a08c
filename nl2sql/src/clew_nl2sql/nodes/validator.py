"""The two validators: is the query allowed, and does the database accept it?

logical_validator writes `logical_validator_response`: the guard parses the proposal and compares it with what
the user may see. A denial is SECURITY_VIOLATION; it is never retried, and no query is sent.
physical_validator writes `physical_validator_response`: the result of the database's EXPLAIN.
"""

from __future__ import annotations

from typing import Any

from clew import Context, node
from clew_nl2sql.errors import ErrorSeverity, Nl2sqlError, PipelineError, SecurityViolationError
from clew_nl2sql.nodes.schema_retriever import query_of, visible_catalog
from clew_nl2sql.resources import Resources
from clew_nl2sql.schemas import LogicalValidatorResponse, PhysicalValidatorResponse
from clew_nl2sql.sql.guard import CheckedQuery, check
from clew_nl2sql.state import SubgraphExecutionState, plan_of

LOGICAL, PHYSICAL = "logical_validator", "physical_validator"


@node(name=LOGICAL, writes=("logical_validator_response", "errors", "reasoning"), timeout=600.0)
def LogicalValidatorNode(state: SubgraphExecutionState, resources: Resources, ctx: Context) -> dict[str, Any]:
    """Check the proposal with the guard."""
    plan = plan_of(state)
    try:
        query = checked(state, resources, ctx, (plan.sql if plan else None) or "")
    except Nl2sqlError as error:
        denied = isinstance(error, SecurityViolationError)
        failed = PipelineError.of(
            error,
            LOGICAL,
            source=query_of(state).datasource_id,
            severity=ErrorSeverity.CRITICAL if denied else ErrorSeverity.ERROR,
        )
        return {"logical_validator_response": LogicalValidatorResponse(valid=False), "errors": [failed]}
    return {
        "logical_validator_response": LogicalValidatorResponse(valid=True, tables=query.tables),
        "reasoning": [{"node": LOGICAL, "tables": list(query.tables)}],
    }


@node(name=PHYSICAL, writes=("physical_validator_response", "errors", "reasoning"), timeout=600.0)
def PhysicalValidatorNode(
    state: SubgraphExecutionState, resources: Resources, ctx: Context
) -> dict[str, Any]:
    """Check the query with the database's EXPLAIN."""
    source = query_of(state).datasource_id
    draft = state.generator_response.sql_draft if state.generator_response else None
    try:
        query = checked(state, resources, ctx, draft or "")
        plan = ctx.record("explain", lambda *_: resources.sources[source].explain(query), source, query.sql)
    except Nl2sqlError as error:
        failed = PipelineError.of(error, PHYSICAL, source=source)
        return {"physical_validator_response": PhysicalValidatorResponse(valid=False), "errors": [failed]}
    return {
        "physical_validator_response": PhysicalValidatorResponse(valid=True, plan=plan),
        "reasoning": [{"node": PHYSICAL, "database_plan": plan}],
    }


def checked(state: SubgraphExecutionState, resources: Resources, ctx: Context, sql: str) -> CheckedQuery:
    """Return the query, checked by the guard; raise the guard's error if this user may not send it."""
    catalog = visible_catalog(state, resources)
    every: tuple[str, ...] = ctx.record("tables", resources.table_names, catalog.name)
    hidden = frozenset(every) - {table.name for table in catalog.tables}
    return check(sql, catalog, hidden)

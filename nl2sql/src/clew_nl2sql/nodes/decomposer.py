"""DecomposerNode assigns each part of the question to a source, and defines how the parts are combined.

Writes `decomposer_response`. The decomposer sees only what the user may see. If a word matches nothing
visible, and names a table that the user may not see, access is denied: the question ends and no query is
sent.
"""

from __future__ import annotations

from typing import Any

from clew import Context, node
from clew_nl2sql.decompose.source_scoring import denied_words
from clew_nl2sql.errors import ErrorCode, ErrorSeverity, Nl2sqlError, PipelineError
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.resources import Resources
from clew_nl2sql.roles import consult
from clew_nl2sql.schemas import DecomposerResponse
from clew_nl2sql.state import GraphState

NAME = "decomposer"


@node(
    name=NAME,
    writes=("decomposer_response", "reasoning", "errors", "warnings"),
    timeout=600.0,
    description="which part goes to which source",
)
def DecomposerNode(state: GraphState, resources: Resources, ctx: Context) -> dict[str, Any]:
    """Decompose the question over the selected sources."""
    resolver = state.datasource_resolver_response
    access = resources.access(state.user_context)
    seen: dict[str, Catalog] = {}
    hidden: dict[str, frozenset[str]] = {}
    for source in resolver.resolved_datasources if resolver else ():
        name = source.datasource_id
        whole: Catalog = ctx.record(f"catalog:{name}", resources.outline, name)
        seen[name] = access.visible(name, whole)
        hidden[name] = frozenset(t.name for t in whole.tables) - {t.name for t in seen[name].tables}
    if denied := denied_words(state.user_query, seen, hidden):
        words = ", ".join(repr(word) for word in denied)
        return _failed(ErrorCode.SECURITY_VIOLATION, f"user {state.user_context.user_id} may not see {words}")
    versions = (
        tuple((s.datasource_id, s.schema_version) for s in resolver.resolved_datasources) if resolver else ()
    )
    try:
        response: DecomposerResponse = consult(
            ctx,
            resources.decomposer,
            "decompose",
            identity=(state.user_query, versions),
            known=(state.user_query, seen),
            full=lambda: (
                state.user_query,
                {name: resources.seen(state.user_context, name) for name in seen},
            ),
        )
    except Nl2sqlError as error:
        return _failed(error.code, str(error))
    unknown = [query.datasource_id for query in response.sub_queries if query.datasource_id not in seen]
    if unknown:
        return _failed(
            ErrorCode.SECURITY_VIOLATION,
            f"the decomposer chose {', '.join(unknown)}, which the user may not see",
        )
    names = [query.id for query in response.sub_queries]
    if twice := {name for name in names if names.count(name) > 1}:
        repeated = ", ".join(map(repr, sorted(twice)))
        return _failed(
            ErrorCode.INVALID_PLAN_STRUCTURE, f"several parts of the question have the id {repeated}"
        )
    parts = [{"source": q.datasource_id, "intent": q.intent} for q in response.sub_queries]
    unmapped = [f"nothing in the sources matches {part!r}" for part in response.unmapped]
    errors = []
    if not response.sub_queries:
        errors = [
            PipelineError(
                node=NAME,
                message="; ".join(unmapped) or "the question matches no source",
                code=ErrorCode.QUESTION_UNMAPPED,
                severity=ErrorSeverity.CRITICAL,
            )
        ]
    return {
        "decomposer_response": response,
        "reasoning": [{"node": NAME, "parts": parts, "operation": response.combine.operation}],
        "warnings": [{"node": NAME, "message": message} for message in (*unmapped, *response.notes)],
        "errors": errors,
    }


def _failed(code: ErrorCode, message: str) -> dict[str, Any]:
    error = PipelineError(node=NAME, message=message, code=code, severity=ErrorSeverity.CRITICAL)
    return {"decomposer_response": DecomposerResponse(), "errors": [error]}

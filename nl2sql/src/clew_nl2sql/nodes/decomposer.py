"""DecomposerNode assigns each part of the question to a source, and defines how the parts are combined.

Writes `decomposer_response`. The decomposer sees only what the user may see. If a word matches nothing
visible, and names a table that the user may not see, access is denied: the question ends and no query is
sent.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    sources = resolver.resolved_datasources if resolver else ()
    access = resources.access(state.user_context)
    whole = {
        s.datasource_id: ctx.record(f"catalog:{s.datasource_id}", resources.outline, s.datasource_id)
        for s in sources
    }
    seen = {name: access.visible(name, catalog) for name, catalog in whole.items()}
    hidden = {name: _names(catalog) - _names(seen[name]) for name, catalog in whole.items()}
    if denied := denied_words(state.user_query, seen, hidden):
        words = ", ".join(map(repr, denied))
        return _failed(ErrorCode.SECURITY_VIOLATION, f"user {state.user_context.user_id} may not see {words}")
    versions = tuple((source.datasource_id, source.schema_version) for source in sources)
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
    return _invalid(response, seen) or _written(response)


def _names(catalog: Catalog) -> frozenset[str]:
    return frozenset(table.name for table in catalog.tables)


def _invalid(response: DecomposerResponse, seen: Mapping[str, Catalog]) -> dict[str, Any] | None:
    """Return the failure of a decomposer that chose a hidden source, or one id for several parts."""
    unknown = [query.datasource_id for query in response.sub_queries if query.datasource_id not in seen]
    if unknown:
        message = f"the decomposer chose {', '.join(unknown)}, which the user may not see"
        return _failed(ErrorCode.SECURITY_VIOLATION, message)
    names = [query.id for query in response.sub_queries]
    if twice := {name for name in names if names.count(name) > 1}:
        message = f"several parts of the question have the id {', '.join(map(repr, sorted(twice)))}"
        return _failed(ErrorCode.INVALID_PLAN_STRUCTURE, message)
    return None


def _written(response: DecomposerResponse) -> dict[str, Any]:
    parts = [{"source": q.datasource_id, "intent": q.intent} for q in response.sub_queries]
    unmapped = [f"nothing in the sources matches {part!r}" for part in response.unmapped]
    nothing = "; ".join(unmapped) or "the question matches no source"
    return {
        "decomposer_response": response,
        "reasoning": [{"node": NAME, "parts": parts, "operation": response.combine.operation}],
        "warnings": [{"node": NAME, "message": message} for message in (*unmapped, *response.notes)],
        "errors": [] if parts else [_error(ErrorCode.QUESTION_UNMAPPED, nothing)],
    }


def _error(code: ErrorCode, message: str) -> PipelineError:
    return PipelineError(node=NAME, message=message, code=code, severity=ErrorSeverity.CRITICAL)


def _failed(code: ErrorCode, message: str) -> dict[str, Any]:
    return {"decomposer_response": DecomposerResponse(), "errors": [_error(code, message)]}

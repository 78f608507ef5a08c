"""DatasourceResolverNode selects the sources that may answer the question.

Writes `datasource_resolver_response`. Sources that the user may not see are left out; they are named only if
the question was restricted to them. If a source cannot be reached, only its part of the answer is missing. A
source without tables causes a warning.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from clew import Context, node
from clew_nl2sql.errors import ErrorCode, ErrorSeverity, Nl2sqlError, PipelineError
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.resources import Resources, fingerprint
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
    user_query: str, state: GraphState, resources: Resources, ctx: Context
) -> dict[str, Any]:
    """Select the available sources that the user may see."""
    access = resources.access(state.user_context)
    wanted = [state.datasource_id] if state.datasource_id else list(resources.sources)
    allowed = [name for name in wanted if name in resources.sources and access.source(name)]
    outlines, errors = _outlines(allowed, resources, ctx)
    visible = {name: access.visible(name, whole) for name, whole in outlines.items()}
    empty = [name for name, whole in outlines.items() if not whole.tables]
    resolved = tuple(_resolved(name, catalog) for name, catalog in visible.items() if catalog.tables)
    chosen = [source.datasource_id for source in resolved]
    ranked = sorted(wanted, key=allowed.__contains__)
    down = tuple(error.source for error in errors if error.source)
    if not resolved and not errors:
        errors.append(_no_source(state, empty))
    return {
        "datasource_resolver_response": DatasourceResolverResponse(
            resolved_datasources=resolved,
            denied_datasource_ids=tuple(name for name in ranked if name not in (*chosen, *down, *empty)),
            unavailable_datasource_ids=down,
        ),
        "reasoning": [{"node": NAME, "resolved": chosen}],
        "errors": errors,
        "warnings": _warnings(down, "cannot be reached") + _warnings(empty, "has no tables"),
    }


def _outlines(
    names: list[str], resources: Resources, ctx: Context
) -> tuple[dict[str, Catalog], list[PipelineError]]:
    """Return the catalog of each source, and an error for each source that cannot be reached."""
    found: dict[str, Catalog] = {}
    errors = []
    for name in names:
        try:
            found[name] = ctx.record(f"catalog:{name}", resources.outline, name)
        except Nl2sqlError as error:
            errors.append(PipelineError.of(error, NAME, source=name))
    return found, errors


def _resolved(name: str, catalog: Catalog) -> ResolvedDatasource:
    return ResolvedDatasource(
        datasource_id=name,
        dialect=catalog.dialect,
        tables=len(catalog.tables),
        schema_version=fingerprint(catalog),
    )


def _warnings(names: Iterable[str], what: str) -> list[dict[str, str]]:
    return [{"node": NAME, "source": name, "message": f"{name} {what}"} for name in names]


def _no_source(state: GraphState, empty: list[str]) -> PipelineError:
    """Explain why no source is available: all are empty, or the user may not see any."""
    which = f"the source {state.datasource_id}" if state.datasource_id else "any source"
    code, message = ErrorCode.SECURITY_VIOLATION, f"user {state.user_context.user_id} may not see {which}"
    if empty:
        code, message = ErrorCode.QUESTION_UNMAPPED, f"there are no tables in {', '.join(empty)}"
    return PipelineError(node=NAME, message=message, code=code, severity=ErrorSeverity.CRITICAL)

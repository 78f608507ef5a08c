"""schema_retriever provides the outline of the tables that the user may see. A planner receives nothing else.

Writes `relevant_tables` and `relevant_keys`.
"""

from __future__ import annotations

from typing import Any

from clew import Context, node
from clew_nl2sql.errors import Nl2sqlError, PipelineError
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.resources import Resources
from clew_nl2sql.schemas import SubQuery
from clew_nl2sql.state import SubgraphExecutionState

NAME = "schema_retriever"


@node(name=NAME, writes=("relevant_tables", "relevant_keys", "errors"), timeout=600.0)
def SchemaRetrieverNode(
    sub_query: SubQuery, state: SubgraphExecutionState, resources: Resources, ctx: Context
) -> dict[str, Any]:
    """Return the visible part of the source's catalog."""
    source = sub_query.datasource_id
    try:
        catalog: Catalog = ctx.record(f"catalog:{source}", resources.outline, source)
    except Nl2sqlError as error:
        return {"errors": [PipelineError.of(error, NAME, source=source)]}
    visible = resources.access(state.user_context).visible(source, catalog)
    return {"relevant_tables": list(visible.tables), "relevant_keys": list(visible.foreign_keys)}


def visible_catalog(state: SubgraphExecutionState, resources: Resources) -> Catalog:
    """Return the catalog that the state holds for this scan."""
    source = query_of(state).datasource_id
    return Catalog(
        tables=tuple(state.relevant_tables),
        foreign_keys=tuple(state.relevant_keys),
        dialect=resources.sources[source].dialect,
        name=source,
    )


def query_of(state: SubgraphExecutionState) -> SubQuery:
    """Return the part of the question that this scan answers."""
    assert state.sub_query is not None, "a scan is entered with its part of the question"
    return state.sub_query

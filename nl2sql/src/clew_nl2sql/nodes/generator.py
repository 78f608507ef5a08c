"""generator renders the query from its syntax tree, in the dialect of the source.

Writes `generator_response`. Computed columns get readable names that are the same in every dialect:
``COUNT(*)`` is `count`, ``SUM(orders.amount)`` is `sum_amount`.
"""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

from clew import node
from clew_nl2sql.errors import Nl2sqlError, PipelineError
from clew_nl2sql.nodes.schema_retriever import query_of, visible_catalog
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.resources import Resources
from clew_nl2sql.schemas import GeneratorResponse
from clew_nl2sql.sql.guard import parse, render
from clew_nl2sql.state import SubgraphExecutionState, plan_of

NAME = "generator"


@node(name=NAME, writes=("generator_response", "errors"))
def GeneratorNode(state: SubgraphExecutionState, resources: Resources) -> dict[str, Any]:
    """Render the validated query."""
    plan = plan_of(state)
    catalog = visible_catalog(state, resources)
    try:
        draft = rendered((plan.sql if plan else None) or "", catalog)
    except Nl2sqlError as error:
        failed = PipelineError.of(error, NAME, source=query_of(state).datasource_id)
        return {"generator_response": GeneratorResponse(), "errors": [failed]}
    return {"generator_response": GeneratorResponse(sql_draft=draft)}


def rendered(sql: str, catalog: Catalog) -> str:
    """Return the text of the query, with names for computed columns."""
    tree = parse(sql, catalog.dialect)
    taken = {column.name.lower() for table in catalog.tables for column in table.columns}
    if isinstance(tree, exp.Select):
        tree.set("expressions", [_named(projection, taken) for projection in tree.expressions])
    return render(tree, catalog.dialect)


def _named(projection: Any, taken: set[str]) -> Any:
    if not isinstance(projection, exp.AggFunc | exp.Binary | exp.Func) or isinstance(
        projection, exp.Column | exp.Dot
    ):
        return projection
    words = [projection.key] if isinstance(projection, exp.Func) else []
    words += [column.name for column in projection.find_all(exp.Column)]
    name = re.sub(r"\W+", "_", "_".join(words)).strip("_").lower() or "value"
    name = {"avg": "average"}.get(name, re.sub(r"^avg_", "average_", name))
    while name in taken:
        name += "_value"
    taken.add(name)
    return exp.alias_(projection, name, quoted=not name.isidentifier())

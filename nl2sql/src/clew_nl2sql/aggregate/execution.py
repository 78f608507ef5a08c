"""Execute the second half of a plan: combine the artifacts, then apply the operations in order.

Each step is one SELECT, built as a tree, and its rows become a table for the next step. DuckDB runs with one
thread and preserves insertion order, so equal artifacts give equal rows in the same order. It sees only the
verified rows in memory, and no file or network.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from clew_nl2sql.aggregate.combine import ORDER, ResultInput, combine
from clew_nl2sql.aggregate.operations import operation
from clew_nl2sql.artifacts import content_hash
from clew_nl2sql.errors import AggregationError
from clew_nl2sql.schemas import AggregatorResponse, ArtifactRef, CombineGroup, ExecutionDAG

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


def aggregate(
    dag: ExecutionDAG, refs: Mapping[str, ArtifactRef], tables: Mapping[str, pa.Table], max_rows: int
) -> AggregatorResponse:
    """Return the combined result of the scans that succeeded."""
    import duckdb
    import pyarrow as pa

    scans = [scan for scan in dag.scans if scan.node_id in tables]
    with duckdb.connect(config={"enable_external_access": "false", "threads": "1"}) as engine:
        inputs = []
        for number, scan in enumerate(scans):
            table = tables[scan.node_id]
            name = f"part_{number + 1}"
            ordered = table.append_column(ORDER, pa.array(range(table.num_rows), type=pa.int64()))
            engine.register(name, ordered)
            query = scan.sub_query
            inputs.append(
                ResultInput(
                    name=name,
                    source=query.datasource_id if query else scan.node_id,
                    table=table,
                    columns=refs[scan.node_id].columns,
                )
            )
        group = next((node.combine for node in dag.nodes if node.combine), None) or CombineGroup()
        select, notes = combine(inputs, group)
        statements: list[str] = []
        try:
            step = _step(engine, "combined", select, statements)
            for node in dag.nodes:
                if node.post is not None:
                    columns = [row[0] for row in engine.execute(f"DESCRIBE {step}").fetchall()]
                    step = _step(engine, node.node_id, operation(node.post, step, columns), statements)
            found = engine.sql(exp.select("*").from_(step).limit(max_rows + 1).sql("duckdb")).to_arrow_table()
        except duckdb.Error as error:
            raise AggregationError(
                f"the results cannot be combined: {str(error).partition(chr(10))[0]}"
            ) from error
    return _response(
        found, max_rows, statements, notes, missing=tuple(s.node_id for s in dag.scans if s not in scans)
    )


def _step(engine: Any, name: str, select: Any, statements: list[str]) -> str:
    statements.append(select.sql("duckdb"))
    engine.execute(f"CREATE TEMP TABLE {name} AS {statements[-1]}")
    return name


def _response(
    found: pa.Table, max_rows: int, statements: list[str], notes: list[str], missing: tuple[str, ...]
) -> AggregatorResponse:
    rows = tuple(tuple(row.values()) for row in found.slice(0, max_rows).to_pylist())
    return AggregatorResponse(
        columns=tuple(found.column_names),
        rows=rows,
        content_hash=content_hash(found),
        sql=";\n".join(statements),
        notes=tuple(notes),
        missing=missing,
        truncated=found.num_rows > max_rows,
    )

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
from clew_nl2sql.schemas import AggregatorResponse, ArtifactRef, CombineGroup, ExecutionDAG, LogicalNode

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


def aggregate(
    dag: ExecutionDAG, refs: Mapping[str, ArtifactRef], tables: Mapping[str, pa.Table], max_rows: int
) -> AggregatorResponse:
    """Return the combined result of the scans that succeeded."""
    import duckdb

    scans = [scan for scan in dag.scans if scan.node_id in tables]
    with duckdb.connect(config={"enable_external_access": "false", "threads": "1"}) as engine:
        inputs = [_input(engine, number, scan, refs, tables) for number, scan in enumerate(scans, 1)]
        group = next((node.combine for node in dag.nodes if node.combine), None) or CombineGroup()
        select, notes = combine(inputs, group)
        statements: list[str] = []
        try:
            found = _executed(engine, dag, select, max_rows + 1, statements)
        except duckdb.Error as error:
            reason = str(error).partition("\n")[0]
            raise AggregationError(f"the results cannot be combined: {reason}") from error
    missing = tuple(scan.node_id for scan in dag.scans if scan not in scans)
    return _response(found, max_rows, statements, notes, missing)


def _executed(engine: Any, dag: ExecutionDAG, select: Any, most: int, statements: list[str]) -> pa.Table:
    """Combine the results, apply the operations, and note each statement."""
    step = _step(engine, "combined", select, statements)
    for node in dag.nodes:
        if node.post is not None:
            columns = [row[0] for row in engine.execute(f"DESCRIBE {step}").fetchall()]
            step = _step(engine, node.node_id, operation(node.post, step, columns), statements)
    return engine.sql(exp.select("*").from_(step).limit(most).sql("duckdb")).to_arrow_table()


def _input(
    engine: Any,
    number: int,
    scan: LogicalNode,
    refs: Mapping[str, ArtifactRef],
    tables: Mapping[str, pa.Table],
) -> ResultInput:
    """Register the rows of a scan, with their positions."""
    import pyarrow as pa

    table, name = tables[scan.node_id], f"part_{number}"
    engine.register(name, table.append_column(ORDER, pa.array(range(table.num_rows), type=pa.int64())))
    source = scan.sub_query.datasource_id if scan.sub_query else scan.node_id
    return ResultInput(name=name, source=source, table=table, columns=refs[scan.node_id].columns)


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

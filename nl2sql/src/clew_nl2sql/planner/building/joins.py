"""Join paths: a small tree over the foreign keys that connects the tables of a query.

Tables are added one by one, each by its shortest path to the connected ones; on ties, declaration order
decides. If several keys connect two tables, the first one is used unless the caller prefers a column.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from clew_nl2sql.planner.linking.schema_index import SchemaIndex


class JoinTree(NamedTuple):
    """The tables in join order, and the pair of columns that joins each one after the first."""

    tables: tuple[int, ...]
    on: tuple[tuple[int, int], ...]  # (column of an earlier table, column of the new table)


def join_tree(
    schema: SchemaIndex, needed: list[int], preferred: frozenset[int] = frozenset()
) -> JoinTree | None:
    """Connect `needed`; return None if the keys do not connect them. Edges over `preferred` columns win ties."""
    if not needed:
        return None
    if len(needed) == 1:
        return JoinTree((needed[0],), ())
    key = (tuple(needed), preferred & schema.ends)
    if key not in schema.trees:
        schema.trees[key] = _tree(schema, needed, preferred)
    tree: JoinTree | None = schema.trees[key]
    return tree


def _tree(schema: SchemaIndex, needed: list[int], preferred: frozenset[int]) -> JoinTree | None:
    tables, on = [needed[0]], []
    for table in needed[1:]:
        if table in tables:
            continue
        path = _path(schema, tables, table, preferred)
        if path is None:
            return None
        for left, right in path:
            if schema.columns[right].table not in tables:
                tables.append(schema.columns[right].table)
                on.append((left, right))
    return JoinTree(tuple(tables), tuple(on))


def _path(
    schema: SchemaIndex, sources: list[int], goal: int, preferred: frozenset[int]
) -> list[tuple[int, int]] | None:
    neighbours = _neighbours(schema, preferred)
    seen: dict[int, tuple[int, int] | None] = dict.fromkeys(sources)
    queue = deque(sources)
    while queue:
        table = queue.popleft()
        if table == goal:
            break
        if schema.tables[table].view and table not in sources:
            continue  # a view repeats rows of other tables, so the path uses those tables
        for left, right in neighbours[table]:
            other = schema.columns[right].table
            if other not in seen:
                seen[other] = (left, right)
                queue.append(other)
    if goal not in seen:
        return None
    path: list[tuple[int, int]] = []
    step = seen[goal]
    while step is not None:
        path.append(step)
        step = seen[schema.columns[step[0]].table]
    return path[::-1]


def _neighbours(schema: SchemaIndex, preferred: frozenset[int]) -> dict[int, list[tuple[int, int]]]:
    result: dict[int, list[tuple[int, int]]] = {t.id: [] for t in schema.tables}
    edges = sorted(schema.edges, key=lambda e: not (e[0] in preferred or e[1] in preferred))
    for source, target in edges:
        first, second = schema.columns[source].table, schema.columns[target].table
        if first != second:
            result[first].append((source, target))
            result[second].append((target, source))
    return result


def multiplies(schema: SchemaIndex, tree: JoinTree, table: int) -> bool:
    """Return whether the join may repeat a row of one table."""
    steps: dict[int, list[tuple[int, int]]] = {}
    for left, right in tree.on:
        for here, there in ((left, right), (right, left)):
            steps.setdefault(schema.columns[here].table, []).append((schema.columns[there].table, there))
    seen, waiting = {table}, [table]
    while waiting:
        for other, column in steps.get(waiting.pop(), ()):
            if other in seen:
                continue
            alone = schema.columns[column].unique or schema.tables[other].key == column
            if not alone or (schema.columns[column].is_ref and not schema.columns[column].unique):
                return True
            seen.add(other)
            waiting.append(other)
    return False

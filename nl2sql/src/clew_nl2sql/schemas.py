"""What moves between the nodes: requests, plans, responses, references to results. Frozen data, and nothing else.

Everything here is stored with the run, so there is no connection, no clock and no SQL expression tree in it. Large
results are not here either: an `ArtifactRef` says where one lies and what its content hashes to."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from clew import register_type
from clew_nl2sql.errors import PipelineError
from clew_nl2sql.planner.catalog import Catalog, Column, ForeignKey, Table  # noqa: F401 - registered below

Operation = Literal["standalone", "compare", "join", "union"]
PostKind = Literal["filter", "aggregate", "project", "sort", "limit"]


# -- results ---------------------------------------------------------------------------------------------------


class ColumnRef(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a result. A measure was computed, so it joins nothing; a count of no rows is 0, not nothing."""

    name: str
    type: str
    role: Literal["attribute", "measure", "count"] = "attribute"
    entity: str = ""  # the table that the column comes from, where that is known


class ArtifactRef(msgspec.Struct, frozen=True, kw_only=True):
    """A stored result: where it lies, and the hash over its schema and rows."""

    uri: str
    backend: str
    format: str
    content_hash: str
    tenant_id: str
    trace_id: str
    node_id: str
    row_count: int
    columns: tuple[ColumnRef, ...]
    truncated: bool = False


# -- the main graph --------------------------------------------------------------------------------------------


class ResolvedDatasource(msgspec.Struct, frozen=True, kw_only=True):
    """A source that a question may go to."""

    datasource_id: str
    dialect: str
    tables: int
    schema_version: str


class DatasourceResolverResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The sources of this question, and those that are denied or cannot be reached."""

    resolved_datasources: tuple[ResolvedDatasource, ...] = ()
    denied_datasource_ids: tuple[str, ...] = ()
    unavailable_datasource_ids: tuple[str, ...] = ()


class SubQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the question that one source answers."""

    id: str
    datasource_id: str
    intent: str
    text: str = ""  # the words of the question that it stands for
    entity: str = ""  # what it is about, where parts are joined on that


class CombineGroup(msgspec.Struct, frozen=True, kw_only=True):
    """How results meet. Without `keys`, a join finds the columns that hold the same things."""

    operation: Operation = "standalone"
    how: Literal["inner", "left", "full"] = "left"
    entity: str = ""
    keys: tuple[str, ...] = ()


class PostOp(msgspec.Struct, frozen=True, kw_only=True):
    """One operation on the combined result; a chain of them is applied in order.

    `filter`: column, operator, value. `aggregate`: columns are grouped by, measures are pairs of function and column.
    `project`: columns. `sort`: columns, descending. `limit`: limit.
    """

    kind: PostKind
    columns: tuple[str, ...] = ()
    column: str = ""
    operator: Literal["=", "!=", "<", "<=", ">", ">=", "contains", ""] = ""
    value: str | int | float | bool | None = None
    measures: tuple[tuple[str, str], ...] = ()
    descending: bool = False
    limit: int | None = None


class DecomposerResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The parts, how they meet, and what maps to no source."""

    sub_queries: tuple[SubQuery, ...] = ()
    combine: CombineGroup = CombineGroup()
    post_ops: tuple[PostOp, ...] = ()
    unmapped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what people should know of how it was done


class LogicalNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the plan: a scan of a source, a combination, or an operation on one result."""

    node_id: str
    kind: Literal["scan", "combine", "post"]
    inputs: tuple[str, ...] = ()
    sub_query: SubQuery | None = None
    combine: CombineGroup | None = None
    post: PostOp | None = None


class ExecutionDAG(msgspec.Struct, frozen=True, kw_only=True):
    """The whole plan, in layers. `dag_id` is a hash of its content."""

    dag_id: str
    nodes: tuple[LogicalNode, ...]
    layers: tuple[tuple[str, ...], ...]

    @property
    def scans(self) -> tuple[LogicalNode, ...]:
        """The nodes that ask a source."""
        return tuple(node for node in self.nodes if node.kind == "scan")


class GlobalPlannerResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The plan over all sources."""

    execution_dag: ExecutionDAG


class AggregatorResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The combined result, and how it came about. `missing` are scans that gave nothing."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    content_hash: str = ""
    sql: str = ""
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    truncated: bool = False


class AnswerSynthesizerResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The answer in words."""

    answer: str
    partial: bool = False


# -- the sql_agent subgraph ------------------------------------------------------------------------------------


class CandidateModel(msgspec.Struct, frozen=True, kw_only=True):
    """Another way to read the question."""

    sql: str
    certainty: float = 0.0


class LinkModel(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the question and what it was taken for."""

    text: str
    kind: str
    target: str


class PlanModel(msgspec.Struct, frozen=True, kw_only=True):
    """A proposed query. Whoever proposed it, it is only text until the guard has read it."""

    sql: str | None = None
    certainty: float = 1.0
    abstained: bool = False
    candidates: tuple[CandidateModel, ...] = ()
    links: tuple[LinkModel, ...] = ()
    unmapped: tuple[str, ...] = ()
    hash: str = ""


class ASTPlannerResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What the planner proposed; None if it failed."""

    plan: PlanModel | None = None


class LogicalValidatorResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the proposal may be sent at all, and what it would read."""

    valid: bool
    tables: tuple[str, ...] = ()


class GeneratorResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The query in the source's own dialect."""

    sql_draft: str | None = None


class PhysicalValidatorResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the database's own EXPLAIN takes it."""

    valid: bool
    plan: str = ""


class ExecutorRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is executed, where, for whom; it identifies the recorded call."""

    trace_id: str
    subgraph_id: str
    subgraph_name: str
    datasource_id: str
    tenant_id: str
    sql: str


class ExecutorResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The stored result; None if there is none."""

    artifact: ArtifactRef | None = None


class RefinerResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What the next plan should know about those before it."""

    feedback: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()


class SubgraphOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What one scan came to."""

    sub_query: SubQuery | None = None
    subgraph_id: str
    subgraph_name: str | None = None
    retry_count: int = 0
    plan: PlanModel | None = None
    sql_draft: str | None = None
    artifact: ArtifactRef | None = None
    errors: list[PipelineError] = []
    reasoning: list[dict[str, Any]] = []
    status: str | None = None


# Recorded calls and stored states bring these back, and only classes that are named here or in the state itself.
for _class in [
    kind for kind in globals().values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
]:
    register_type(_class)

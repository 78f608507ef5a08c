"""Data that nodes exchange: requests, plans, responses and references to results.

All classes are frozen and stored with the run, so they hold no connection, clock or SQL expression tree.
Large results are stored separately: an `ArtifactRef` holds the location and the content hash.
"""

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
    """A column of a result. A measure is computed, so it is never a join key; a count of no rows is 0, not None."""

    name: str
    type: str
    role: Literal["attribute", "measure", "count"] = "attribute"
    entity: str = ""  # the table of the column, if known


class ArtifactRef(msgspec.Struct, frozen=True, kw_only=True):
    """A stored result: its location, and the hash of its schema and rows."""

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
    """A source that may answer the question."""

    datasource_id: str
    dialect: str
    tables: int
    schema_version: str


class DatasourceResolverResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The sources for this question, and those that are denied or cannot be reached."""

    resolved_datasources: tuple[ResolvedDatasource, ...] = ()
    denied_datasource_ids: tuple[str, ...] = ()
    unavailable_datasource_ids: tuple[str, ...] = ()


class SubQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the question for one source."""

    id: str
    datasource_id: str
    intent: str
    text: str = ""  # the words of the question that it covers
    entity: str = ""  # the subject, if parts are joined on it


class CombineGroup(msgspec.Struct, frozen=True, kw_only=True):
    """How results are combined. Without `keys`, a join uses the columns whose values match."""

    operation: Operation = "standalone"
    how: Literal["inner", "left", "full"] = "left"
    entity: str = ""
    keys: tuple[str, ...] = ()


class PostOp(msgspec.Struct, frozen=True, kw_only=True):
    """One operation on the combined result; several are applied in order.

    `filter` uses column, operator and value. `aggregate` groups by columns; measures are pairs of function
    and column. `project` uses columns, `sort` columns and descending, `limit` limit.
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
    """The parts, how they are combined, and the words that match no source."""

    sub_queries: tuple[SubQuery, ...] = ()
    combine: CombineGroup = CombineGroup()
    post_ops: tuple[PostOp, ...] = ()
    unmapped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # remarks for the user


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
        """Return the nodes that query a source."""
        return tuple(node for node in self.nodes if node.kind == "scan")


class GlobalPlannerResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The plan across all sources."""

    execution_dag: ExecutionDAG


class AggregatorResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The combined result and how it was computed. `missing` lists the scans without a result."""

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
    """Another interpretation of the question."""

    sql: str
    certainty: float = 0.0
    unmapped: tuple[str, ...] = ()  # words that this interpretation does not read


class LinkModel(msgspec.Struct, frozen=True, kw_only=True):
    """Words of the question and the schema element they refer to."""

    text: str
    kind: str
    target: str


class PlanModel(msgspec.Struct, frozen=True, kw_only=True):
    """A proposed query. It is untrusted text until the guard has checked it.

    A candidate is tried only if its certainty reaches `threshold`. `unmapped` are the words of the question that the
    query does not read. With `needs_agreement`, the candidates are independent proposals: the plan is used only if
    all of them that the database accepts have the same rows.
    """

    sql: str | None = None
    certainty: float = 1.0
    abstained: bool = False
    candidates: tuple[CandidateModel, ...] = ()
    links: tuple[LinkModel, ...] = ()
    unmapped: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()  # sentences for the user
    threshold: float = 0.0
    needs_agreement: bool = False
    hash: str = ""


class ASTPlannerResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The planner's proposal; None if the planner failed."""

    plan: PlanModel | None = None


class QuestionReading(msgspec.Struct, frozen=True, kw_only=True):
    """A reading of a question that a person may choose: in words, as SQL, with the first row of its result.

    `unread` are the words of the question that it does not use.
    """

    words: str
    sql: str
    columns: tuple[str, ...] = ()
    row: tuple[str | int | float | bool | None, ...] | None = None
    unread: tuple[str, ...] = ()


class ReadingSample(msgspec.Struct, frozen=True, kw_only=True):
    """The first row of a reading, and a digest of its rows."""

    columns: tuple[str, ...]
    row: tuple[str | int | float | bool | None, ...] | None
    digest: str


class ReadingsQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What a person is asked: which reading is meant. The answer is its number, from 1, or 0 for none."""

    question: str
    source: str
    readings: tuple[QuestionReading, ...]


class RememberedChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A query that a person chose earlier for a part of the same question."""

    source: str
    intent: str
    sql: str


class ChoiceResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The plan that a person chose; None without a choice."""

    plan: PlanModel | None = None
    chosen: QuestionReading | None = None
    readings: tuple[QuestionReading, ...] = ()
    remembered: bool = False


class LogicalValidatorResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the query is allowed, and which tables it reads."""

    valid: bool
    tables: tuple[str, ...] = ()


class GeneratorResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The query in the dialect of its source."""

    sql_draft: str | None = None


class PhysicalValidatorResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the database's EXPLAIN accepts the query."""

    valid: bool
    plan: str = ""


class ExecutorRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The query, its source and its user; this is the key of the recorded call."""

    trace_id: str
    subgraph_id: str
    subgraph_name: str
    datasource_id: str
    tenant_id: str
    sql: str


class ExecutorResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The stored result, if the query succeeded."""

    artifact: ArtifactRef | None = None


class RefinerResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Feedback on earlier plans, for the next one."""

    feedback: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()


class SubgraphOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one scan."""

    sub_query: SubQuery | None = None
    subgraph_id: str
    subgraph_name: str | None = None
    retry_count: int = 0
    plan: PlanModel | None = None
    choice: ChoiceResponse | None = None
    sql_draft: str | None = None
    artifact: ArtifactRef | None = None
    errors: list[PipelineError] = []
    reasoning: list[dict[str, Any]] = []
    status: str | None = None


# Decoding recorded calls and stored states needs these classes; others must be fields of the state.
for _class in [
    kind for kind in globals().values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
]:
    register_type(_class)

"""The answer to a question: its text, its rows and their provenance. It is built from a run, at any later
time.
"""

from __future__ import annotations

import hashlib
from html import escape
from itertools import chain
from typing import Any, Literal

import msgspec

from clew import RunResult
from clew.display import brief
from clew_nl2sql.errors import ErrorCode, PipelineError
from clew_nl2sql.schemas import (
    AggregatorResponse,
    AnswerSynthesizerResponse,
    DecomposerResponse,
    ExecutionDAG,
    ReadingsQuestion,
    SubgraphOutput,
    SubQuery,
)
from clew_nl2sql.template_synthesizer import shown

NOTEBOOK_ROWS = 50

Status = Literal["answered", "partial", "unanswered", "refused", "failed"]
EXIT_CODES: dict[Status, int] = {"answered": 0, "failed": 1, "partial": 3, "unanswered": 4, "refused": 5}


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the question: its source, its query and its result."""

    id: str
    source: str
    intent: str
    status: str
    sql: str | None = None
    certainty: float | None = None
    retries: int = 0
    tables: tuple[str, ...] = ()
    rows: int | None = None
    artifact: str | None = None
    content_hash: str | None = None
    candidates: tuple[str, ...] = ()
    chosen: str | None = None  # the reading that a person chose, in words
    errors: tuple[PipelineError, ...] = ()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a question.

    `status` is answered, partial (the text begins with what is missing), unanswered, refused (the user may not see
    it) or failed.
    """

    question: str
    status: Status
    text: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    scans: tuple[Scan, ...] = ()
    operation: str = "standalone"
    notes: tuple[str, ...] = ()
    combined_by: str = ""
    unmapped: tuple[str, ...] = ()
    errors: tuple[PipelineError, ...] = ()
    warnings: tuple[str, ...] = ()
    plan_hash: str = ""
    content_hash: str = ""
    truncated: bool = False
    questions: tuple[ReadingsQuestion, ...] = ()  # the run waits for a person who chooses
    run_id: str = ""

    @property
    def sql(self) -> dict[str, str]:
        """Return the query of each source. A second query to the same source has the key ``source#2``."""
        found: dict[str, str] = {}
        for scan in self.scans:
            if scan.sql is not None:
                key, number = scan.source, 1
                while key in found:
                    number += 1
                    key = f"{scan.source}#{number}"
                found[key] = scan.sql
        return found

    @property
    def provenance(self) -> tuple[str, ...]:
        """Describe where the answer comes from: one line per source, then how the results were combined."""
        lines = [
            f"{scan.source}: {', '.join(scan.tables) or 'no table'} ({scan.rows} row{'' if scan.rows == 1 else 's'}, "
            f"sha256 {scan.content_hash[:12]})"
            for scan in self.scans
            if scan.content_hash
        ]
        return (*lines, *self.notes)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain data, ready for JSON."""
        plain: dict[str, Any] = msgspec.json.decode(_ENCODER.encode(self))
        return {**plain, "sql": self.sql, "provenance": list(self.provenance)}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        question = self.question if len(self.question) <= 80 else f"{self.question[:77]}..."
        return (
            f"<Answer to {question!r}: {self.status}, {len(self.rows)} rows of {len(self.columns)} columns>"
        )

    def _repr_html_(self) -> str:
        def cells(tag: str, values: tuple[Any, ...]) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(_cell(value))}</{tag}>" for value in values) + "</tr>"

        rows = "".join(cells("td", row) for row in self.rows[:NOTEBOOK_ROWS])
        more = len(self.rows) - NOTEBOOK_ROWS
        left = f"<p>and {more} more rows</p>" if more > 0 else ""
        sources = "".join(f"<li>{escape(line)}</li>" for line in self.provenance)
        return f"<p>{escape(self.text)}</p><table>{cells('th', self.columns)}{rows}</table>{left}<ul>{sources}</ul>"


def _cell(value: Any) -> str:
    text = brief(value) if isinstance(value, bytes) else shown(value)
    return text if len(text) <= 300 else f"{text[:297]}..."


_ENCODER = msgspec.json.Encoder(decimal_format="number", enc_hook=str)


def answer_of(result: RunResult) -> Answer:
    """Return the answer that a run holds."""
    parts: DecomposerResponse = result.get("decomposer_response") or DecomposerResponse()
    table: AggregatorResponse = result.get("aggregator_response") or AggregatorResponse()
    synthesized: AnswerSynthesizerResponse | None = result.get("answer_synthesizer_response")
    outputs: dict[str, SubgraphOutput] = result.get("subgraph_outputs") or {}
    planned = result.get("global_planner_response")
    scans = tuple(_scan(query, outputs.get(query.id)) for query in parts.sub_queries)
    questions = tuple(q.question for q in result.questions if isinstance(q.question, ReadingsQuestion))
    warnings = [str(warning.get("message", warning)) for warning in result.get("warnings") or ()]
    return Answer(
        question=result.get("user_query") or "",
        status=_status(result, table, synthesized, scans),
        text=_text(result, synthesized, questions),
        columns=table.columns,
        rows=table.rows,
        scans=scans,
        operation=parts.combine.operation,
        notes=table.notes,
        combined_by=table.sql,
        unmapped=parts.unmapped,
        errors=tuple(result.get("errors") or ()),
        warnings=tuple(dict.fromkeys(warnings)),
        plan_hash=_plan_hash(planned.execution_dag if planned else None, outputs),
        content_hash=table.content_hash,
        truncated=table.truncated,
        questions=questions,
        run_id=result.run_id,
    )


def _text(
    result: RunResult, synthesized: AnswerSynthesizerResponse | None, questions: tuple[ReadingsQuestion, ...]
) -> str:
    if synthesized:
        return synthesized.answer
    if questions:
        return "\n".join(f"{asked.question!r} can be read in more than one way." for asked in questions)
    return f"The run {result.status}: {result.error}"


def _status(
    result: RunResult,
    table: AggregatorResponse,
    synthesized: AnswerSynthesizerResponse | None,
    scans: tuple[Scan, ...],
) -> Status:
    if result.status == "waiting":
        return "unanswered"
    if result.status != "completed" or synthesized is None:
        return "failed"
    if not table.columns:
        errors = [*(result.get("errors") or ()), *chain.from_iterable(scan.errors for scan in scans)]
        denied = ErrorCode.SECURITY_VIOLATION in [error.code for error in errors]
        return "refused" if denied else "unanswered"
    return "partial" if synthesized.partial else "answered"


def _scan(query: SubQuery, output: SubgraphOutput | None) -> Scan:
    asked: dict[str, Any] = {"id": query.id, "source": query.datasource_id, "intent": query.intent}
    if output is None:
        return Scan(**asked, status="pending")
    plan, artifact = output.plan, output.artifact
    tables = [step["tables"] for step in output.reasoning if "tables" in step]
    planned: dict[str, Any] = {}
    found: dict[str, Any] = {}
    if plan:
        planned = {"certainty": plan.certainty, "candidates": tuple(c.sql for c in plan.candidates)}
    if artifact:
        found = {"rows": artifact.row_count, "artifact": artifact.uri, "content_hash": artifact.content_hash}
    return Scan(
        **asked,
        status=output.status or "error",
        sql=output.sql_draft,
        retries=output.retry_count,
        tables=tuple(tables[-1]) if tables else (),
        chosen=output.choice.chosen.words if output.choice and output.choice.chosen else None,
        errors=tuple(output.errors),
        **planned,
        **found,
    )


def _plan_hash(dag: ExecutionDAG | None, outputs: dict[str, SubgraphOutput]) -> str:
    """Hash the whole plan: how the parts are combined, and the query of each part."""
    if dag is None:
        return ""
    parts = [dag.dag_id]
    for scan in dag.scans:
        output = outputs.get(scan.node_id)
        parts.append((output.sql_draft or "") if output else "")
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()

"""AnswerSynthesizerNode writes the answer in words.

Writes `answer_synthesizer_response`. Its first line says which words were not understood and what was assumed.
The node itself adds what is missing, so no model can hide that a source
was down or that a part of the question was not understood.
"""

from __future__ import annotations

from typing import Any

from clew import Context, node
from clew_nl2sql.errors import ErrorCode, ErrorSeverity, Nl2sqlError, PipelineError
from clew_nl2sql.resources import Resources
from clew_nl2sql.roles import consult
from clew_nl2sql.schemas import (
    AggregatorResponse,
    AnswerSynthesizerResponse,
    DecomposerResponse,
    SubgraphOutput,
    SubQuery,
)
from clew_nl2sql.state import GraphState
from clew_nl2sql.template_synthesizer import TemplateSynthesizer

NAME = "answer_synthesizer"
_BEFORE_QUERIES = ("datasource_resolver", "decomposer", "aggregator")


@node(name=NAME, writes=("answer_synthesizer_response", "errors"), timeout=600.0)
def AnswerSynthesizerNode(state: GraphState, resources: Resources, ctx: Context) -> dict[str, Any]:
    """Write what was found, and what was not."""
    result = state.aggregator_response or AggregatorResponse()
    remarks = what_is_missing(state)
    if not result.columns:
        text = " ".join(["This could not be answered.", *(remarks or ["No source was queried."])])
        return {"answer_synthesizer_response": AnswerSynthesizerResponse(answer=text, partial=True)}
    errors = []
    try:
        asked = (state.user_query, result)
        identity = (state.user_query, result.content_hash)
        text = consult(ctx, resources.synthesizer, "synthesize", identity, known=asked, full=lambda: asked)
    except Nl2sqlError as error:
        errors = [PipelineError.of(error, NAME, severity=ErrorSeverity.WARNING)]
        text = TemplateSynthesizer().synthesize(state.user_query, result)
    unread = not_understood(state)
    first = " ".join([*unread, *assumed(state)])
    answer = " ".join([text.strip(), *remarks])
    response = AnswerSynthesizerResponse(
        answer=f"{first}\n{answer}" if first else answer, partial=bool(remarks or unread)
    )
    return {"answer_synthesizer_response": response, "errors": errors}


def not_understood(state: GraphState) -> list[str]:
    """Return a sentence about the words that no query reads; such an answer is never complete."""
    outputs = [output for output in state.subgraph_outputs.values() if output.artifact and output.plan]
    words = [repr(word) for output in outputs if output.plan for word in output.plan.unmapped]
    return [f"Not understood: {', '.join(dict.fromkeys(words))}."] if words else []


def assumed(state: GraphState) -> list[str]:
    """Return what the planners assumed, as sentences."""
    plans = [output.plan for output in state.subgraph_outputs.values() if output.artifact and output.plan]
    return list(dict.fromkeys(sentence for plan in plans for sentence in plan.assumptions))


def what_is_missing(state: GraphState) -> list[str]:
    """Return a sentence for each part of the question that the answer does not cover."""
    parts = state.decomposer_response or DecomposerResponse()
    missing = [query for query in parts.sub_queries if query.id not in state.artifact_refs]
    return [
        *(_missing(query, state.subgraph_outputs.get(query.id)) for query in missing),
        *(f"Not answered: {part!r}, which matches nothing in the sources." for part in parts.unmapped),
        *(_failure(e) for e in state.errors if e.node in _BEFORE_QUERIES and not _is_said(e, parts)),
    ]


def _missing(query: SubQuery, output: SubgraphOutput | None) -> str:
    why = output.errors[-1].message if output and output.errors else "it was not queried"
    return f"Missing: {query.text or query.intent!r} from {query.datasource_id} ({why})."


def _is_said(error: PipelineError, parts: DecomposerResponse) -> bool:
    return error.code is ErrorCode.QUESTION_UNMAPPED and bool(parts.unmapped)


def _failure(error: PipelineError) -> str:
    if error.source:
        return f"{error.source}: {error.message}."
    return f"{error.message[:1].upper()}{error.message[1:]}."

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
from clew_nl2sql.schemas import AggregatorResponse, AnswerSynthesizerResponse, DecomposerResponse
from clew_nl2sql.state import GraphState
from clew_nl2sql.template_synthesizer import TemplateSynthesizer

NAME = "answer_synthesizer"


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
    sentences = []
    for query in parts.sub_queries:
        output = state.subgraph_outputs.get(query.id)
        if query.id not in state.artifact_refs:
            why = output.errors[-1].message if output and output.errors else "it was not queried"
            sentences.append(f"Missing: {query.text or query.intent!r} from {query.datasource_id} ({why}).")
    for part in parts.unmapped:
        sentences.append(f"Not answered: {part!r}, which matches nothing in the sources.")
    for error in state.errors:
        if error.node in ("datasource_resolver", "decomposer", "aggregator"):
            where = f"{error.source}: " if error.source else ""
            if error.code is not ErrorCode.QUESTION_UNMAPPED or not parts.unmapped:
                message = error.message if where else f"{error.message[:1].upper()}{error.message[1:]}"
                sentences.append(f"{where}{message}.")
    return sentences

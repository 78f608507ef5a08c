"""Answer questions in plain English across databases, as durable runs of Clew.

::

    from clew_nl2sql import Pipeline

    pipeline = Pipeline({"sales": "sqlite:///sales.db", "support": "duckdb:///support.duckdb"})
    print(pipeline.ask("How many orders and how many tickets are there?"))

The layers, lowest first::

    errors, access, schemas    data that nodes exchange: typed errors, users and grants, requests, responses
    planner                    translates a question about one source to SQL, by rules
    sql                        the guard: checks every proposed query before a database receives it
    query_worker               executes queries within limits, in a separate process
    sources, artifacts         read-only databases; results as verified Parquet files
    decompose, aggregate       split a question into parts; combine the results
    template_synthesizer, models                write the answer; use language models
    state, nodes, routes, boundary, graph       the graph
    pipeline, conversation, answer              the public API
    command, sample_data                        ``clew ask``, and three small databases to try it on
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew_nl2sql.access import UserContext
    from clew_nl2sql.answer import Answer, Scan
    from clew_nl2sql.dialogue.conversation import Conversation
    from clew_nl2sql.errors import ErrorCode, ErrorSeverity, Nl2sqlError, PipelineError
    from clew_nl2sql.models import ChatModel, ModelDecomposer, ModelPlanner, ModelSynthesizer
    from clew_nl2sql.pipeline import Pipeline
    from clew_nl2sql.roles import Decomposer, Planner, Synthesizer
    from clew_nl2sql.schemas import (
        ArtifactRef,
        CombineGroup,
        DecomposerResponse,
        PlanModel,
        PostOp,
        SubgraphOutput,
        SubQuery,
    )
    from clew_nl2sql.sources import QueryResult, Source, open_source
    from clew_nl2sql.state import GraphState, SubgraphExecutionState

__all__ = [
    "Answer",
    "ArtifactRef",
    "ChatModel",
    "CombineGroup",
    "Conversation",
    "Decomposer",
    "DecomposerResponse",
    "ErrorCode",
    "ErrorSeverity",
    "GraphState",
    "ModelDecomposer",
    "ModelPlanner",
    "ModelSynthesizer",
    "Nl2sqlError",
    "Pipeline",
    "PipelineError",
    "PlanModel",
    "Planner",
    "PostOp",
    "QueryResult",
    "Scan",
    "Source",
    "SubQuery",
    "SubgraphExecutionState",
    "SubgraphOutput",
    "Synthesizer",
    "UserContext",
    "open_source",
]


# Imported on first use: `clew --help` imports this package for its command.
_MODULES = {
    "access": ("UserContext",),
    "answer": ("Answer", "Scan"),
    "dialogue.conversation": ("Conversation",),
    "errors": ("ErrorCode", "ErrorSeverity", "Nl2sqlError", "PipelineError"),
    "models": ("ChatModel", "ModelDecomposer", "ModelPlanner", "ModelSynthesizer"),
    "pipeline": ("Pipeline",),
    "roles": ("Decomposer", "Planner", "Synthesizer"),
    "schemas": (
        "ArtifactRef", "CombineGroup", "DecomposerResponse", "PlanModel", "PostOp", "SubQuery", "SubgraphOutput",
    ),
    "sources": ("QueryResult", "Source", "open_source"),
    "state": ("GraphState", "SubgraphExecutionState"),
}  # fmt: skip
_DEFINED_IN = {name: f"clew_nl2sql.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _DEFINED_IN:
        raise AttributeError(f"module 'clew_nl2sql' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_DEFINED_IN[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

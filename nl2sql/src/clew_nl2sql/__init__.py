"""Questions in plain words, answered across databases, as durable runs of Clew.

::

    from clew_nl2sql import Pipeline

    pipeline = Pipeline({"sales": "sqlite:///sales.db", "support": "duckdb:///support.duckdb"})
    print(pipeline.ask("How many orders and how many tickets are there?"))

The layers, lowest first::

    errors, access, schemas    what moves between nodes: typed errors, who asks, requests and responses
    planner                    questions about one source to SQL, by rules
    sql                        the guard, between any proposal and any database
    sources, artifacts         databases, read-only; results as verified Parquet files
    decompose, aggregate, template_synthesizer, models    parts of a question; results as one; words; language models
    state, nodes, routes, boundary, graph       the graph
    pipeline, answer                            what users call
    command, sample_data                        ``clew ask``, and three small databases to try it on
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew_nl2sql.access import UserContext
    from clew_nl2sql.answer import Answer, Scan
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


# Loaded by those who use it: `clew --help` imports this package for its command.
_MODULES = {
    "access": ("UserContext",),
    "answer": ("Answer", "Scan"),
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

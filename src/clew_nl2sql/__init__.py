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
    decompose, aggregate, synthesize, models    parts of a question; results as one; words; language models
    state, nodes, routes, boundary, graph       the graph
    pipeline, answer, offline                   what users call
    samples, sample_server, demonstration       something to try it on
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew_nl2sql.access import UserContext
from clew_nl2sql.answer import Answer, Scan
from clew_nl2sql.errors import ErrorCode, ErrorSeverity, Nl2sqlError, PipelineError
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
from clew_nl2sql.sources import Result, Source, open_source
from clew_nl2sql.state import GraphState, SubgraphExecutionState

if TYPE_CHECKING:
    from clew_nl2sql.demo import demo
    from clew_nl2sql.models import ChatModel, ModelDecomposer, ModelPlanner, ModelSynthesizer

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
    "Result",
    "Scan",
    "Source",
    "SubQuery",
    "SubgraphExecutionState",
    "SubgraphOutput",
    "Synthesizer",
    "UserContext",
    "demo",
    "open_source",
]


def __getattr__(name: str) -> Any:
    # an HTTP client is imported by those who use one
    if name in ("ChatModel", "ModelDecomposer", "ModelPlanner", "ModelSynthesizer"):
        from clew_nl2sql import models

        return getattr(models, name)
    if name == "demo":
        from clew_nl2sql.demo import demo

        return demo
    raise AttributeError(f"module 'clew_nl2sql' has no attribute {name!r}")

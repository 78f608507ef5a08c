"""Graphs for replaying questions without their databases and models.

A run records ``clew_nl2sql.replay_graphs:graph_...`` as its graph. The rest of the name is hexadecimal data:
the names and dialects of the sources, and whether each role is a language model, whose requests are recorded,
or another object, whose results are. A replay needs this to make the same calls. `graph_for` builds the
graph, for example for ``clew ask --replay``. It parses the name and imports nothing. The graph has the same
structure and no resources, because a replay makes no external calls. Resuming with it raises
`NeedsSourcesError`.
"""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec

from clew import Graph
from clew_nl2sql.artifacts import ArtifactStore
from clew_nl2sql.errors import NeedsSourcesError
from clew_nl2sql.graph import build_graph
from clew_nl2sql.resources import Resources

_BEGINNING = "graph_"


class PipelineShape(msgspec.Struct, frozen=True, array_like=True):
    """What a replay needs to know about a pipeline."""

    sources: dict[str, str]  # dialects by name
    models: tuple[bool, bool, bool]  # whether planner, decomposer and synthesizer are language models


def import_string_for(resources: Resources) -> str:
    """Return the import string that a run stores as its graph."""
    roles = (resources.planner, resources.decomposer, resources.synthesizer)
    planner, decomposer, synthesizer = (hasattr(role, "through") for role in roles)
    shape = PipelineShape(
        {name: source.dialect for name, source in resources.sources.items()},
        (planner, decomposer, synthesizer),
    )
    return f"{__name__}:{_BEGINNING}{msgspec.json.encode(shape).hex()}"


def graph_for(target: str) -> Graph | None:
    """Return the graph for replaying a run, from its import string; None if no pipeline made the run."""
    module, _, name = target.partition(":")
    if module != __name__ or not name.startswith(_BEGINNING):
        return None
    try:
        shape = msgspec.json.decode(bytes.fromhex(name.removeprefix(_BEGINNING)), type=PipelineShape)
    except (ValueError, msgspec.MsgspecError):
        return None
    planner, decomposer, synthesizer = _stand_ins(shape.models)
    return build_graph(
        Resources(
            sources={source: ReplayStub(dialect) for source, dialect in shape.sources.items()},
            artifacts=ArtifactStore("absent"),
            planner=planner,
            decomposer=decomposer,
            synthesizer=synthesizer,
        )
    )


def _stand_ins(are_models: tuple[bool, bool, bool]) -> list[Any]:
    if not any(are_models):
        return [ReplayStub("")] * 3
    from clew_nl2sql import models

    chat = models.ChatModel("http://absent.invalid", "absent")
    played = (models.ModelPlanner, models.ModelDecomposer, models.ModelSynthesizer)
    return [make(chat) if is_model else ReplayStub("") for make, is_model in zip(played, are_models)]


class ReplayStub:
    """Placeholder for a source or a role. Its methods raise `NeedsSourcesError`."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect

    def _refuse(self, *_: Any) -> NoReturn:
        raise NeedsSourcesError(
            "resuming this run needs its sources; use Pipeline(...).resume(run_id), or"
            " `clew ask --resume RUN --source NAME=ADDRESS ...`"
        )

    catalog = explain = run = plan = decompose = synthesize = _refuse

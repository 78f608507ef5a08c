"""The graph is the specification's diagram."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew import Graph
from clew_nl2sql.artifacts import ArtifactStore
from clew_nl2sql.decompose import LinkingDecomposer
from clew_nl2sql.graph import build_graph, build_sql_agent_graph
from clew_nl2sql.nodes.global_planner import execution_dag
from clew_nl2sql.resources import Resources
from clew_nl2sql.routes import pending_scans
from clew_nl2sql.schemas import (
    ArtifactRef,
    DecomposerResponse,
    GlobalPlannerResponse,
    SubgraphOutput,
    SubQuery,
)
from clew_nl2sql.state import GraphState
from clew_nl2sql.template_synthesizer import TemplateSynthesizer
from nl2sql.tests.scripted import Scripted


@pytest.fixture
def resources(tmp_path: Path) -> Resources:
    return Resources(
        sources={},
        artifacts=ArtifactStore(tmp_path),
        planner=Scripted({}),
        decomposer=LinkingDecomposer(),
        synthesizer=TemplateSynthesizer(),
    )


def targets(graph: Graph, name: str) -> set[str]:
    return {str(target) for target in graph.nodes[name].targets}


def test_the_main_graph(resources: Resources) -> None:
    graph = build_graph(resources)
    assert set(graph.nodes) == {
        "datasource_resolver",
        "resolver_route",
        "decomposer",
        "global_planner",
        "layer_router",
        "sql_agent",
        "aggregator",
        "answer_synthesizer",
    }
    assert targets(graph, "layer_router") == {"sql_agent", "aggregator"}
    assert targets(graph, "resolver_route") == {"decomposer", "answer_synthesizer"}
    assert set(graph.required_inputs) == {"user_query"}


def test_the_subgraph(resources: Resources) -> None:
    graph = build_sql_agent_graph(resources)
    steps = [
        "schema_retriever",
        "ast_planner",
        "logical_validator",
        "generator",
        "physical_validator",
        "executor",
    ]
    named = [name for name in graph.nodes if not name.endswith("_route")]
    named.remove("reading_chooser")
    assert named == [
        *steps,
        "retry_handler",
        "refiner",
    ]
    for gate, on in zip(["schema", "planner", "logical", "generator", "physical"], steps[1:]):
        assert on in targets(graph, f"{gate}_route")
    for gate in ["planner", "logical", "generator", "physical", "executor"]:
        assert "retry_handler" in targets(graph, f"{gate}_route")
    assert "reading_chooser" in targets(graph, "planner_route")
    assert "logical_validator" in targets(graph, "choice_route")
    assert ("refiner", "ast_planner") in {tuple(edge) for edge in graph.edges}


def with_scans(*names: str) -> GraphState:
    parts = DecomposerResponse(
        sub_queries=tuple(SubQuery(id=name, datasource_id=name, intent="?") for name in names)
    )
    planned = GlobalPlannerResponse(execution_dag=execution_dag(parts))
    return GraphState(user_query="?", decomposer_response=parts, global_planner_response=planned)


def test_the_router_sends_what_is_pending() -> None:
    assert pending_scans(with_scans("a", "b")) == ["a", "b"]


def test_a_scan_that_failed_for_good_counts_as_done() -> None:
    state = with_scans("a", "b")
    state.subgraph_outputs = {"a": SubgraphOutput(subgraph_id="a", status="error")}
    assert pending_scans(state) == ["b"]


def test_a_scan_with_a_result_is_not_sent_again() -> None:
    state = with_scans("a", "b")
    ref = ArtifactRef(
        uri="u", backend="local", format="parquet", content_hash="h", tenant_id="t", trace_id="t", node_id="a",
        row_count=0, columns=(),
    )  # fmt: skip
    state.artifact_refs = {"a": ref}
    assert pending_scans(state) == ["b"]


def test_a_plan_is_laid_out_in_layers_and_hashed_by_its_content() -> None:
    parts = DecomposerResponse(sub_queries=(SubQuery(id="a", datasource_id="s", intent="?"),))
    dag = execution_dag(parts)
    assert dag.layers == (("a",), ("combine",))
    assert execution_dag(parts).dag_id == dag.dag_id
    other = DecomposerResponse(sub_queries=(SubQuery(id="a", datasource_id="s", intent="??"),))
    assert execution_dag(other).dag_id != dag.dag_id

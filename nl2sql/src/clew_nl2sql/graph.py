"""The pipeline as a graph.

::

    datasource_resolver → resolver_route → decomposer → global_planner → layer_router ⇉ sql_agent, once per scan
        → layer_router → aggregator → answer_synthesizer

    sql_agent: schema_retriever → ast_planner → logical_validator → generator → physical_validator → executor,
        each followed by a gate that may lead through retry_handler → refiner back to ast_planner;
        an uncertain plan leads through reading_chooser to logical_validator
"""

from __future__ import annotations

from clew import Graph
from clew_nl2sql.boundary import wrap_subgraph
from clew_nl2sql.nodes.aggregator import EngineAggregatorNode
from clew_nl2sql.nodes.answer_synthesizer import AnswerSynthesizerNode
from clew_nl2sql.nodes.ast_planner import ASTPlannerNode
from clew_nl2sql.nodes.datasource_resolver import DatasourceResolverNode
from clew_nl2sql.nodes.decomposer import DecomposerNode
from clew_nl2sql.nodes.executor import ExecutorNode
from clew_nl2sql.nodes.generator import GeneratorNode
from clew_nl2sql.nodes.global_planner import GlobalPlannerNode
from clew_nl2sql.nodes.reading_chooser import ReadingChooserNode
from clew_nl2sql.nodes.refiner import RefinerNode, RetryHandlerNode
from clew_nl2sql.nodes.schema_retriever import SchemaRetrieverNode
from clew_nl2sql.nodes.validator import LogicalValidatorNode, PhysicalValidatorNode
from clew_nl2sql.resources import Resources
from clew_nl2sql.routes import (
    build_scan_layer_router,
    choice_route,
    executor_route,
    generator_route,
    logical_route,
    physical_route,
    planner_route,
    resolver_route,
    schema_route,
)
from clew_nl2sql.state import GraphState, SubgraphExecutionState

SQL_AGENT = "sql_agent"


def build_sql_agent_graph(resources: Resources) -> Graph:
    """Return the subgraph that queries one source."""
    graph = Graph(
        [
            SchemaRetrieverNode,
            schema_route,
            ASTPlannerNode,
            planner_route,
            ReadingChooserNode,
            choice_route,
            LogicalValidatorNode,
            logical_route,
            GeneratorNode,
            generator_route,
            PhysicalValidatorNode,
            physical_route,
            ExecutorNode,
            executor_route,
            RetryHandlerNode,
            RefinerNode,
        ],
        name=SQL_AGENT,
        state=SubgraphExecutionState,
        edges=[("refiner", "ast_planner")],
        entry="ast_planner",
    )
    return graph.bind(resources=resources)


def build_graph(resources: Resources) -> Graph:
    """Return the graph of the whole pipeline."""
    graph = Graph(
        [
            DatasourceResolverNode,
            resolver_route,
            DecomposerNode,
            GlobalPlannerNode,
            build_scan_layer_router(SQL_AGENT),
            wrap_subgraph(build_sql_agent_graph(resources), SQL_AGENT),
            EngineAggregatorNode,
            AnswerSynthesizerNode,
        ],
        name="nl2sql",
        state=GraphState,
        edges=[("decomposer", "global_planner"), ("aggregator", "answer_synthesizer")],
    )
    return graph.bind(resources=resources)

"""GlobalPlannerNode builds the plan across all sources, as a directed acyclic graph in layers.

Writes `global_planner_response`. Scans are the first layer, their combination is the second, and each
operation on the result adds one. The plan's id is the hash of its content, so equal parts give equal plans.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from clew import node
from clew_nl2sql.schemas import DecomposerResponse, ExecutionDAG, GlobalPlannerResponse, LogicalNode
from clew_nl2sql.state import GraphState

NAME = "global_planner"


@node(
    name=NAME,
    writes=("global_planner_response", "reasoning"),
    description="builds the plan across all sources",
)
def GlobalPlannerNode(state: GraphState) -> dict[str, Any]:
    """Build the plan from the parts."""
    dag = execution_dag(state.decomposer_response or DecomposerResponse())
    return {
        "global_planner_response": GlobalPlannerResponse(execution_dag=dag),
        "reasoning": [{"node": NAME, "plan": dag.dag_id, "layers": [list(layer) for layer in dag.layers]}],
    }


def execution_dag(parts: DecomposerResponse) -> ExecutionDAG:
    """Return the scans, then their combination, then the operations on the result."""
    scans = [LogicalNode(node_id=query.id, kind="scan", sub_query=query) for query in parts.sub_queries]
    layers = [tuple(scan.node_id for scan in scans)] if scans else []
    nodes = list(scans)
    if scans:
        combine = LogicalNode(node_id="combine", kind="combine", inputs=layers[0], combine=parts.combine)
        nodes.append(combine)
        layers.append((combine.node_id,))
        for number, post in enumerate(parts.post_ops, 1):
            step = LogicalNode(node_id=f"post_{number}", kind="post", inputs=layers[-1], post=post)
            nodes.append(step)
            layers.append((step.node_id,))
    dag_id = hashlib.sha256(msgspec.json.encode(nodes, order="sorted")).hexdigest()
    return ExecutionDAG(dag_id=dag_id, nodes=tuple(nodes), layers=tuple(layers))

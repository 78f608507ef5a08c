"""Graph definitions: nodes, gates, policies, the context protocol and graphs. Nothing here runs."""

from __future__ import annotations

from clew.graph.context import Context
from clew.graph.gates import END, Command, Send, ifelse, interrupt, route
from clew.graph.graph import Graph
from clew.graph.joins import all_of
from clew.graph.names import name_of
from clew.graph.node import MISSING, FunctionNode, Node, Param, as_node, node
from clew.graph.policies import Cache, NodePolicy, RetryPolicy, SideEffectPolicy
from clew.graph.signature import ABSENT
from clew.graph.subgraph import Subgraph

__all__ = [
    "ABSENT",
    "END",
    "MISSING",
    "Cache",
    "Command",
    "Context",
    "FunctionNode",
    "Graph",
    "Node",
    "NodePolicy",
    "Param",
    "RetryPolicy",
    "Send",
    "SideEffectPolicy",
    "Subgraph",
    "all_of",
    "as_node",
    "ifelse",
    "interrupt",
    "name_of",
    "node",
    "route",
]

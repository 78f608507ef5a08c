"""The dependency graph: values that are computed on demand, and again only if their inputs changed.

::

    expressions     names of nodes: parsing, formatting, matching
    schemas         schemas and their validation
    values          equality and encoding of values
    nodes           nodes and their records
    freshness       which sources a node depends on, and whether it is up to date
    pull_plan       which nodes a pull has to visit
    sync_pull       a pull without awaiting; async_pull: with async computors
    changes         set, invalidate and batches
    mutation_check  detects computors that modify their inputs
    persistence     storage in a database
    explanation     why a node is up to date or outdated
    drawing         drawings of schemas and nodes
    arguments       validation of arguments
    graph           DependencyGraph, the public class
"""

from __future__ import annotations

from clew.incremental.explanation import Cause, Explanation
from clew.incremental.graph import DependencyGraph
from clew.incremental.schemas import NodeSchema, schema
from clew.incremental.values import Unchanged

__all__ = ["Cause", "DependencyGraph", "Explanation", "NodeSchema", "Unchanged", "schema"]

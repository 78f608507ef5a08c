"""The dependency graph: values that are computed when somebody asks, and again only if what they are made from changed.

::

    expressions   the names of nodes: reading, writing, matching
    schemas       what nodes there can be; what is wrong with a list of schemas
    values        when two values are equal
    nodes         what is known of each node: rows
    sources       which sources a node depends on, and so whether it is up to date
    plans         what a pull has to look at
    walks         how it goes on; awaiting: the same, with async computors
    changes       what a set, an invalidation or a batch does
    mutation      notices computors that edit their inputs
    batches       where changes wait for the end of a batch
    keeping       how all this is kept in a database
    explaining    why a node is, or is not, up to date
    graph         DependencyGraph: the door to all of it
"""

from __future__ import annotations

from clew.incremental.explanation import Cause, Explanation
from clew.incremental.graph import DependencyGraph
from clew.incremental.schemas import NodeSchema, schema
from clew.incremental.values import Unchanged

__all__ = ["Cause", "DependencyGraph", "Explanation", "NodeSchema", "Unchanged", "schema"]

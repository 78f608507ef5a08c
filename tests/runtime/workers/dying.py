"""A process that dies in the second of three steps: ``python -m tests.runtime.workers.dying DSN SCHEMA RUN``."""

from __future__ import annotations

import os
import sys

from clew import Engine, Graph, PostgresStore, node

_process = {"dies": False}  # not a variable of the node, which would be a part of its code hash


@node(output="b")
def one(a: int) -> int:
    return a + 1


@node(output="c")
def two(b: int) -> int:
    if _process["dies"]:
        os._exit(9)
    return b + 1


@node(output="d")
def three(c: int) -> int:
    return c + 1


GRAPH = Graph([one, two, three])

if __name__ == "__main__":
    _process["dies"] = True
    dsn, schema, run_id = sys.argv[1:]
    Engine(GRAPH, store=PostgresStore(dsn, schema=schema)).run({"a": 0}, run_id=run_id)

"""redun: a workflow of tasks whose every call is kept in SQLite, and found there again if its arguments are the same.

The head of the chain is an argument of the workflow, so that each run computes every node. In the row that is not
about disks its database is in memory.
"""

# The peers live in an environment of their own, where the type checker does not look.
# mypy: disable-error-code="import-not-found, misc, no-any-return, untyped-decorator"

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from redun import Scheduler, task
from redun.config import Config

from benchmarks.places import Place

IMPORTS = "redun"


@task(namespace="benchmarks")
def step(before: int) -> int:
    return before + 1


def _run(nodes: int, uri: str) -> Callable[[], Any]:
    scheduler = Scheduler(config=Config({"backend": {"db_uri": uri}}))
    scheduler.load()
    numbers = count(1)

    def run() -> Any:
        number = next(numbers) * 1_000_000  # no call of this run is one of an earlier run
        value = number
        for _ in range(nodes):
            value = step(value)
        return scheduler.run(value) - number

    return run


def incremental_chain(nodes: int) -> Callable[[], Any]:
    return _run(nodes, "sqlite:///:memory:")


def incremental_disk(nodes: int, place: Place) -> Callable[[], Any]:
    return _run(nodes, f"sqlite:///{place.file('redun')}")

"""DBOS: a workflow of plain steps. It is a library of durable steps and no graph, so only durable rows are its own.

It has one runtime a process and one database a runtime, which is launched anew for every row.
"""

# The peers live in an environment of their own, where the type checker does not look.
# mypy: disable-error-code="import-not-found, misc, no-any-return, override, untyped-decorator"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dbos import DBOS
from sqlalchemy import create_engine, event

from benchmarks.places import Place, message

_NO_GRAPHS = "it has durable steps and no graphs"
ABSENT = {
    **dict.fromkeys(
        ("import", "chain", "async_chain", "loop", "fanout", "uneven", "uneven_threads"), _NO_GRAPHS
    ),
    "durable_async_chain": "every step waits for its commit",
}


def durable_chain(nodes: int, place: Place) -> Callable[[], int]:
    return _chain(nodes, place, _file(place))


def postgres_chain(nodes: int, place: Place) -> Callable[[], int]:
    url = f"postgresql+psycopg://postgres@/postgres?host={place.folder}"
    return _chain(nodes, place, {"system_database_url": url})


def _file(place: Place) -> dict[str, Any]:
    url = f"sqlite:///{place.file('dbos')}"
    engine = create_engine(url, connect_args={"check_same_thread": False})
    place.open.callback(engine.dispose)
    event.listen(engine, "connect", lambda db, _: place.set_up(db))
    return {"system_database_url": url, "system_database_engine": engine}


def _launch(place: Place, where: dict[str, Any]) -> None:
    DBOS.destroy()
    DBOS(config={"name": "bench", "run_admin_server": False, "log_level": "CRITICAL", **where})
    place.open.callback(DBOS.destroy)


def _chain(nodes: int, place: Place, where: dict[str, Any]) -> Callable[[], int]:
    _launch(place, where)

    @DBOS.step(name="add")
    def add(count: int) -> int:
        return count + 1

    @DBOS.workflow(name="chain")
    def chain() -> int:
        count = 0
        for _ in range(nodes):
            count = add(count)
        return count

    DBOS.launch()
    return chain


def appends(steps: int, place: Place) -> Callable[[], int]:
    """A step's record is what it returns: the message alone."""
    _launch(place, _file(place))

    @DBOS.step(name="say")
    def say(number: int) -> dict[str, Any]:
        return message(number)

    @DBOS.workflow(name="talk")
    def talk() -> int:
        messages = []
        for number in range(steps):
            messages.append(say(number))
        return len(messages)

    DBOS.launch()
    return talk

"""A pytest plugin: recorded runs as regression tests.

It is there as soon as Clew is installed, and imports nothing of it until a fixture is used.

``clew_store``   a fresh SQLite store in the test's own folder;
``clew_replay``  a function that replays recorded runs and fails the test with a report that a person can read:
                 ``clew_replay("recorded.db", graph=graph)``, ``clew_replay(store, graph=graph, runs=["monday"])``.
                 Without `graph`, each run is replayed with the graph of its name in the project's own list,
                 ``[tool.clew] graphs`` in the pyproject.toml of the working directory. A store names no code,
                 and what it holds is printed without control characters.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from clew import Graph, ReplayReport, SQLiteStore
    from clew.stores import Store


class Replay(Protocol):
    """What ``clew_replay`` is."""

    def __call__(
        self,
        store: Store | str | os.PathLike[str],
        graph: Graph | None = None,
        runs: Iterable[str] | None = None,
    ) -> list[ReplayReport]:
        """Replay runs, all of the store by default, with `graph` or with the graphs that the project lists."""


@pytest.fixture
def clew_store(tmp_path: Path) -> Iterator[SQLiteStore]:
    """A fresh SQLite store in tmp_path, closed after the test."""
    from clew import SQLiteStore

    store = SQLiteStore(tmp_path / "clew.db")
    yield store
    store.close()


@pytest.fixture
def clew_replay() -> Replay:
    """Replay recorded runs, and fail with what differs."""
    return _replay


def _replay(
    store: Store | str | os.PathLike[str], graph: Graph | None = None, runs: Iterable[str] | None = None
) -> list[ReplayReport]:
    __tracebackhide__ = True
    from clew.cli.output import printable
    from clew.errors import ClewError
    from clew.runtime.regression import replays
    from clew.stores.factory import open_store

    if isinstance(runs, str):
        runs = [runs]
    if not isinstance(store, (str, os.PathLike)) and not hasattr(store, "encodes"):
        raise TypeError(
            f"clew_replay takes the store first, and then the graph: clew_replay(store, graph=...), not {store!r}"
        )
    opened: Store | None = None
    try:
        if isinstance(store, (str, os.PathLike)):
            store = opened = open_store(store, create=False)
        found = list(replays(store, graph, runs, strict=False))
    except ClewError as error:
        pytest.fail(printable(str(error)), pytrace=False)
    finally:
        if opened is not None:
            opened.close()
    if not found:
        pytest.fail(printable(f"there is nothing to replay: {store!r} has no runs"), pytrace=False)
    bad = [verdict for verdict in found if not verdict.ok]
    if bad:
        told = printable("\n\n".join(map(str, bad)))
        pytest.fail(f"{len(bad)} of {len(found)} recorded runs do not replay\n\n{told}", pytrace=False)
    return [verdict.report for verdict in found if verdict.report is not None]

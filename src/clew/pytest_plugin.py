"""A pytest plugin: use recorded runs as regression tests.

Installing Clew installs the plugin. It imports Clew only when a fixture is used.

``clew_store``   a new SQLite store in ``tmp_path``
``clew_replay``  a function that replays recorded runs, and fails the test with a report of the differences:
                 ``clew_replay("recorded.db", graph=graph)``, ``clew_replay(store, graph=graph, runs=["monday"])``.
                 Without `graph`, each run uses the graph of its name in ``[tool.clew] graphs`` in the pyproject.toml
                 of the working directory. A store never names code to import, and what it
                 holds is printed without control characters.
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
    """The type of ``clew_replay``."""

    def __call__(
        self,
        store: Store | str | os.PathLike[str],
        graph: Graph | None = None,
        runs: Iterable[str] | None = None,
    ) -> list[ReplayReport]:
        """Replay some runs, or all of the store, with `graph` or the graphs that the project lists."""


@pytest.fixture
def clew_store(tmp_path: Path) -> Iterator[SQLiteStore]:
    """Return a new SQLite store in tmp_path, and close it after the test."""
    from clew import SQLiteStore

    store = SQLiteStore(tmp_path / "clew.db")
    yield store
    store.close()


@pytest.fixture
def clew_replay() -> Replay:
    """Return a function that replays recorded runs and fails the test if they differ."""
    return _replay


def _replay(
    store: Store | str | os.PathLike[str], graph: Graph | None = None, runs: Iterable[str] | None = None
) -> list[ReplayReport]:
    __tracebackhide__ = True
    from clew.cli.output import printable
    from clew.errors import ClewError
    from clew.runtime.review.regression import replays
    from clew.stores.factory import open_store

    if isinstance(runs, str):
        runs = [runs]
    if not isinstance(store, (str, os.PathLike)) and not hasattr(store, "encodes"):
        raise TypeError(
            f"clew_replay: expected a store as the first argument, got {store!r}; write clew_replay(store, graph=...)"
        )
    if isinstance(store, (str, os.PathLike)) and "://" not in os.fspath(store) and not os.path.isfile(store):
        what = f"store {os.fspath(store)!r} does not exist in {os.getcwd()}"
        pytest.fail(printable(f"{what}; use Path(__file__).with_name('recorded.db')"), pytrace=False)
    opened: Store | None = None
    problem = ""
    try:
        if isinstance(store, (str, os.PathLike)):
            store = opened = open_store(store)
        found = list(replays(store, graph, runs, strict=False))
    except ClewError as error:
        problem = str(error)
    finally:
        if opened is not None:
            opened.close()
    if problem or not found:
        pytest.fail(printable(problem or f"{store!r} has no runs to replay"), pytrace=False)
    bad = [verdict for verdict in found if not verdict.ok]
    if bad:
        report = printable("\n\n".join(map(str, bad)))
        pytest.fail(f"{len(bad)} of {len(found)} recorded runs do not replay\n\n{report}", pytrace=False)
    return [verdict.report for verdict in found if verdict.report is not None]

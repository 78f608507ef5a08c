"""One process that forks the others, for each worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.nursery import Nursery
from tests.crash.supervisor import Trial


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery


class Trials:
    """Makes trials, each with a file of its own, and knows how the unbroken run ends."""

    def __init__(self, nursery: Nursery, folder: Path) -> None:
        self._nursery = nursery
        self._folder = folder
        self._count = 0
        self.killed_at: Counter[str] = Counter()  # point, or "any instant" -> processes that died there
        self._unbroken: dict[str, tuple[Any, Any, list[str]]] = {}
        self._stretches: dict[str, list[list[str]]] = {}

    def new(self, store: str | None = None, **task: Any) -> Trial:
        """A run that has not begun."""
        self._count += 1
        effects = self._folder / f"effects-{self._count}"
        store = store or str(self._folder / f"runs-{self._count}.db")
        return Trial(self._nursery, store, effects, self.killed_at, **task)

    def unbroken(self, **task: Any) -> tuple[Any, Any, list[str]]:
        """Chain, effects, and the points that the run comes to, where nothing happens to it."""
        key = repr(sorted(task.items()))
        if key not in self._unbroken:
            trial = self.new(**task)
            answer = trial.go(watch=True)
            stretches = [answer["points"]]
            if answer.get("status") == "waiting":
                answer = trial.go(watch=True)
                stretches.append(answer["points"])
            assert answer.get("status") == "completed", answer
            self._stretches[key] = stretches
            self._unbroken[key] = (
                trial.chain(),
                trial.lines(),
                [point for points in stretches for point in points],
            )
        return self._unbroken[key]

    def stretches(self, **task: Any) -> list[list[str]]:
        """The points that the run comes to, until it waits for an answer and after that."""
        self.unbroken(**task)
        return self._stretches[repr(sorted(task.items()))]

    def check(self, trial: Trial, **task: Any) -> None:
        """The trial ends as the unbroken run did."""
        chain, effects, _ = self.unbroken(**task)
        trial.finish()
        assert trial.chain() == chain
        assert set(trial.lines()) == set(effects)
        if "|" not in trial.store:
            for file in Path(trial.store).parent.glob(Path(trial.store).name + "*"):
                file.unlink()


@pytest.fixture
def trials(nursery: Nursery, tmp_path: Path) -> Trials:
    return Trials(nursery, tmp_path)

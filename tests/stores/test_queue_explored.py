"""Every interleaving of a small queue, with every crash: nothing is lost, and nothing is committed twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew.explore import ExplorationResult
from clew.stores.memory import ownership, queue
from tests.stores.queue_model import file_system, memory_system, queue_agent

CRASH = {"crash": 1, "tick": 2}
SIGNAL = {"crash": 1, "tick": 2, "signal": 2}
CANCEL = {"tick": 2, "cancel": 1}
SLEEP = {"tick": 2, "cancel": 1, "sleep": 1}
MESSAGES = {"tick": 2, "signal": 2, "cancel": 1}
WAIT = {"tick": 1, "signal": 2, "cancel": 1, "wait": 2}
# A part of each, for every run: no lease ends with one tick.
SLEEP_ALONE = {"tick": 2, "sleep": 1}
SLEEP_OR_CANCEL = {"tick": 1, "cancel": 1, "sleep": 1}
FEWER_MESSAGES = {"tick": 1, "signal": 2, "cancel": 1}
ONE_WAIT = {"tick": 1, "signal": 2, "wait": 1}
EVERYTHING = {"crash": 1, "tick": 2, "signal": 2, "cancel": 1, "sleep": 1}


def explored(kind: str, folder: Path, runs: str, limits: dict[str, int], **options: Any) -> ExplorationResult:
    with memory_system() if kind == "memory" else file_system(folder) as system:
        result: ExplorationResult = queue_agent(system, list(runs), ["w1", "w2"], limits, **options).explore()
        return result


def slowly(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "kind, runs, limits, states",
    [
        ("memory", "a", SIGNAL, 4457),
        ("memory", "a", SLEEP_ALONE, 1281),
        ("memory", "a", SLEEP_OR_CANCEL, 1629),
        slowly("memory", "a", SLEEP, 8373),
        ("memory", "a", FEWER_MESSAGES, 699),
        slowly("memory", "a", MESSAGES, 3628),
        ("memory", "a", ONE_WAIT, 1089),
        slowly("memory", "a", WAIT, 5204),
        ("memory", "ab", {"tick": 1}, 1082),
        slowly("memory", "ab", {"tick": 2}, 5683),
        slowly("memory", "a", EVERYTHING, 79_139),
        ("sqlite", "a", CRASH, 309),
        ("sqlite", "a", CANCEL, 681),
        slowly("sqlite", "a", SIGNAL, 1005),
        slowly("sqlite", "a", SLEEP, 7111),
        slowly("sqlite", "a", MESSAGES, 2639),
        slowly("sqlite", "a", WAIT, 8380),
        slowly("sqlite", "ab", {"tick": 2}, 6035),
    ],
)
def test_every_interleaving(
    tmp_path: Path, kind: str, runs: str, limits: dict[str, int], states: int
) -> None:
    result = explored(kind, tmp_path, runs, limits)
    assert result.ok, str(result)
    assert not result.truncated
    assert len(result.states) == states


def _keep_fence(run: Any, owner: str, token: str) -> int:
    run.fence = run.fence or (run.number << 32) + 1
    run.owner, run.token, run.entry.taken = owner, token, True
    return int(run.fence)


def _park_without_a_look(store: Any, run: Any, status: str, due: float | None, *, release: bool) -> None:
    inbox, run.inbox = run.inbox, {}
    _settle(store, run, status, due, release=release)
    run.inbox = inbox


_settle = queue.settle


@pytest.mark.parametrize(
    "module, name, broken, limits, rule",
    [
        (ownership, "take", _keep_fence, CRASH, "committed once"),
        (queue, "_is_lost", lambda store, run: False, CRASH, "nothing is lost"),
        (queue, "_is_lost", lambda store, run: True, {"tick": 1}, "a renewed lease keeps its run"),
        (queue, "settle", _park_without_a_look, WAIT, "nothing is lost"),
    ],
    ids=[
        "a fence that stays",
        "runs of dead owners stay",
        "runs of living owners are taken",
        "a release does not look at the inbox",
    ],
)
def test_a_broken_store_is_noticed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    broken: Any,
    limits: dict[str, int],
    rule: str,
) -> None:
    monkeypatch.setattr(module, name, broken)
    result = explored("memory", tmp_path, "a", limits, max_steps=5_000)  # a broken store has endless states
    assert rule in {violation.title for violation in result.violations}, str(result)

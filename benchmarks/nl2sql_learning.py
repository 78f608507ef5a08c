"""Learning sparse weights: softmax over the options of one choice, and a logistic for certainty. Deterministic.

A choice is a list of options, each with features; some options are right, and the loss is the negative logarithm of
their share. Features that occur in too few databases are dropped: they would not travel. Steps are scaled by
AdaGrad, weights of the later passes are averaged.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clew_nl2sql.planner.ranking.certainty import chance

Sparse = list[tuple[str, float]]

SMALLEST = 0.01  # weights below are not kept


class Vocabulary:
    """Numbers for features, and how many databases each was seen in."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self._databases: list[set[str]] = []

    def number(self, feature: str, database: str) -> int:
        number = self.numbers.get(feature)
        if number is None:
            number = self.numbers[feature] = len(self.numbers)
            self._databases.append(set())
        if len(self._databases[number]) < MOST_NEEDED:
            self._databases[number].add(database)
        return number

    def travels(self, number: int, least: int) -> bool:
        return len(self._databases[number]) >= least


MOST_NEEDED = 8


class Choice:
    """Options as arrays of feature numbers and values, and which of them are right."""

    __slots__ = ("begins", "features", "lengths", "right", "values")

    def __init__(
        self, options: Sequence[Iterable[tuple[str, float]]], right: set[int], db: str, names: Vocabulary
    ):
        import numpy as np

        rows = [[(names.number(f, db), v) for f, v in option] for option in options]
        self.features = np.array([n for row in rows for n, _ in row], dtype=np.int32)
        self.values = np.array([v for row in rows for _, v in row], dtype=np.float32)
        self.lengths = np.array([len(row) for row in rows])
        self.begins = np.concatenate(([0], np.cumsum(self.lengths)[:-1]))
        self.right = np.array([n in right for n in range(len(options))])


def learn_roles(choices: Iterable[Choice], names: Vocabulary) -> dict[str, float]:
    """Weights for the options of single decisions."""
    return _softmax(choices, names, epochs=6, rate=0.05, decay=3e-4, databases=3, seed=7)


def learn_ranks(choices: Iterable[Choice], names: Vocabulary) -> dict[str, float]:
    """Weights for whole candidates."""
    return _softmax(choices, names, epochs=8, rate=0.05, decay=2e-4, databases=5, seed=1)


def _softmax(
    choices: Iterable[Choice],
    names: Vocabulary,
    *,
    epochs: int,
    rate: float,
    decay: float,
    databases: int,
    seed: int,
) -> dict[str, float]:
    import numpy as np

    size = len(names.numbers)
    kept = np.array([names.travels(n, databases) for n in range(size)], dtype=float)
    packed = []
    for choice in choices:
        if choice.right.any() and not choice.right.all() and choice.lengths.all():
            own, place = np.unique(choice.features, return_inverse=True)
            packed.append((own, place, choice.values * kept[choice.features], choice))
    weights, squares, total, passes = np.zeros(size), np.full(size, 1e-2), np.zeros(size), 0
    shuffler = random.Random(seed)
    for epoch in range(epochs):
        shuffler.shuffle(packed)
        for own, place, values, choice in packed:
            local = weights[own]
            scores = np.add.reduceat(local[place] * values, choice.begins)
            raw = np.exp(scores - scores.max())
            good = raw * choice.right
            aim = good / good.sum() if good.sum() > 0 else choice.right / choice.right.sum()
            slope = np.repeat(raw / raw.sum() - aim, choice.lengths) * values
            gradient = np.bincount(place, weights=slope, minlength=len(own)) + decay * local
            squares[own] += gradient * gradient
            weights[own] = local - rate * gradient / np.sqrt(squares[own])
        if epoch >= epochs // 2:
            total += weights
            passes += 1
    mean = total / passes
    return {f: round(float(mean[n]), 4) for f, n in names.numbers.items() if abs(mean[n]) >= SMALLEST}


class Winner(NamedTuple):
    """The best candidate of a question: its facts, whether it is right, and whether it reads every word."""

    facts: Sparse
    right: bool
    db: str
    whole: bool


def learn_certainty(
    winners: Sequence[Winner], questions: int, precision: float
) -> tuple[dict[str, float], float, str]:
    """Weights, the threshold above which that share of unseen winners is right, and what that means in figures.

    Winners that leave a word unread are never answers, so the threshold does not depend on them.
    """
    databases = sorted({winner.db for winner in winners})
    part = {db: n % 5 for n, db in enumerate(databases)}
    unseen: list[tuple[float, bool]] = []
    for k in range(5):
        weights = _logistic([winner for winner in winners if part[winner.db] != k])
        unseen += [
            (chance(weights, winner.facts), winner.right)
            for winner in winners
            if part[winner.db] == k and winner.whole
        ]
    threshold = _threshold(unseen, precision)
    answered = [right for certainty, right in unseen if certainty >= threshold]
    figures = (
        f"right {sum(right for _, right in unseen)}, answered {len(answered)}, of these right {sum(answered)}"
        f"\n{_curve(unseen, questions)}"
    )
    return _logistic(winners), threshold, f"{len(unseen)} winners: {figures}"


def _curve(unseen: list[tuple[float, bool]], questions: int) -> str:
    """The trade-off: shares of all questions that are answered and right, and of the answers that are right."""
    lines = ["threshold  accuracy  coverage  precision"]
    for percent in range(30, 96, 5):
        answered = [right for certainty, right in unseen if certainty * 100 >= percent]
        if answered:
            shares = (sum(answered) / questions, len(answered) / questions, sum(answered) / len(answered))
            lines.append(f"{percent / 100:9} {shares[0]:9.1%} {shares[1]:9.1%} {shares[2]:9.1%}")
    return "\n".join(lines)


def _logistic(winners: Sequence[Winner]) -> dict[str, float]:
    seen: dict[str, set[str]] = defaultdict(set)
    for winner in winners:
        for name, _ in winner.facts:
            seen[name].add(winner.db)
    weights: dict[str, float] = {name: 0.0 for name, places in sorted(seen.items()) if len(places) >= 5}
    squares = dict.fromkeys(weights, 1e-2)
    total = dict.fromkeys(weights, 0.0)
    shuffler = random.Random(3)
    rows = list(winners)
    epochs, rate, decay, passes = 25, 0.08, 2e-3, 0
    for epoch in range(epochs):
        shuffler.shuffle(rows)
        for facts, right, _, _ in rows:
            slope = chance(weights, facts) - right
            for feature, value in facts:
                if feature in weights:
                    gradient = slope * value + decay * weights[feature]
                    squares[feature] += gradient * gradient
                    weights[feature] -= rate * gradient / math.sqrt(squares[feature])
        if epoch >= epochs // 2:
            passes += 1
            for feature, weight in weights.items():
                total[feature] += weight
    return {f: round(t / passes, 4) for f, t in total.items()}


def _threshold(scored: list[tuple[float, bool]], precision: float) -> float:
    """The lowest certainty at which answers are still right often enough."""
    found, right = 1.0, 0
    for count, (certainty, good) in enumerate(sorted(scored, key=lambda s: -s[0]), 1):
        right += good
        if right >= precision * count:
            found = certainty
    return round(found, 4)

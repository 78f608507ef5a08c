"""The learned part: sparse linear weights, read from one file.

Two models share the file: `roles` scores the options of one decision, `ranks` scores whole queries. A feature that
the training never saw weighs nothing. The weights come from a script in `benchmarks/`; this module only reads
and adds.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from typing import NamedTuple


class LinearModel(NamedTuple):
    """Weights by feature, and how scores become a certainty."""

    roles: Mapping[str, float]
    ranks: Mapping[str, float]
    certainty: Mapping[str, float]
    threshold: float


def score(weights: Mapping[str, float], features: Iterable[str]) -> float:
    """The sum of the features' weights."""
    get = weights.get
    return sum([get(f, 0.0) for f in features])


def log_softmax(scores: list[float]) -> list[float]:
    """Scores as logarithms of probabilities."""
    top = max(scores)
    total = top + math.log(sum(math.exp(s - top) for s in scores))
    return [s - total for s in scores]


@lru_cache(maxsize=1)
def shipped() -> LinearModel:
    """The weights that come with the package."""
    packed = resources.files(__package__).joinpath("weights.json.gz").read_bytes()
    data = json.loads(gzip.decompress(packed))
    return LinearModel(data["roles"], data["ranks"], data["certainty"], data["threshold"])

"""The learned part of the planner: sparse linear weights, read from one file.

The file holds two models: `roles` scores the options of one decision, `ranks` scores whole queries. An
unknown feature has the weight 0. A script in `benchmarks/` trains the weights; this module only reads and
adds them.
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
    """Weights by feature, and the parameters that turn scores into a certainty."""

    roles: Mapping[str, float]
    ranks: Mapping[str, float]
    certainty: Mapping[str, float]
    threshold: float


def score(weights: Mapping[str, float], features: Iterable[str]) -> float:
    """Return the sum of the features' weights."""
    get = weights.get
    return sum([get(f, 0.0) for f in features])


def log_softmax(scores: list[float]) -> list[float]:
    """Return scores as log-probabilities."""
    top = max(scores)
    total = top + math.log(sum(math.exp(s - top) for s in scores))
    return [s - total for s in scores]


@lru_cache(maxsize=1)
def shipped() -> LinearModel:
    """Return the weights that come with the package."""
    packed = resources.files(__package__).joinpath("weights.json.gz").read_bytes()
    data = json.loads(gzip.decompress(packed))
    return LinearModel(data["roles"], data["ranks"], data["certainty"], data["threshold"])

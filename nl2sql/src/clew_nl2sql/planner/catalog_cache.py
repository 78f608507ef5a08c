"""What was prepared for a catalog, kept for as long as that very catalog is in use.

Catalogs are large values: comparing or hashing one for every question would cost more than planning. So the
key is the object itself. The cache does not keep a catalog alive: when its last user lets go of it, what was
prepared for it goes too, with the database in memory that the planner tries its candidates on. What is prepared must
therefore not refer to its catalog.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from clew_nl2sql.planner.catalog import Catalog

T = TypeVar("T")


class CatalogCache(Generic[T]):
    """A function of a catalog that remembers its result while the catalog lives."""

    def __init__(self, make: Callable[[Catalog], T]):
        self._make = make
        self._made: dict[int, T] = {}

    def __call__(self, catalog: Catalog) -> T:
        key = id(catalog)
        try:
            return self._made[key]
        except KeyError:
            made = self._made.setdefault(
                key, self._make(catalog)
            )  # two threads may make it; the first one counts
        weakref.finalize(catalog, self._made.pop, key, None).atexit = False
        return made

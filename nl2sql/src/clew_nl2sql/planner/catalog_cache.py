"""Cache data that is derived from a catalog, for the lifetime of that catalog object.

Catalogs are large: comparing or hashing one for every question would cost more than planning. The key is
therefore the object itself. The cache holds no strong reference to a catalog: when the last reference is
dropped, the derived data is dropped too, including the planner's database in memory. Derived data must
therefore not refer to its catalog.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from clew_nl2sql.planner.catalog import Catalog

T = TypeVar("T")


class CatalogCache(Generic[T]):
    """A function of a catalog that caches its result while the catalog exists."""

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
            )  # two threads may compute it; the first result is used
        weakref.finalize(catalog, self._made.pop, key, None).atexit = False
        return made

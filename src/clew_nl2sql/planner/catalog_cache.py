"""What was prepared for a catalog, kept while that very catalog is in use.

Catalogs are large values: comparing or hashing one for every question would cost more than planning. So the
key is the object itself, and a few of the latest are held.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from clew_nl2sql.planner.catalog import Catalog

T = TypeVar("T")

KEPT = 32


class CatalogCache(Generic[T]):
    """A function of a catalog that remembers its latest results."""

    def __init__(self, make: Callable[[Catalog], T]):
        self._make = make
        self._made: OrderedDict[int, tuple[Catalog, T]] = OrderedDict()
        self._lock = Lock()

    def __call__(self, catalog: Catalog) -> T:
        with self._lock:
            found = self._made.get(id(catalog))
            if found is not None:  # the catalog is held beside its result, so its id is not another's
                self._made.move_to_end(id(catalog))
                return found[1]
        made = self._make(catalog)
        with self._lock:
            self._made[id(catalog)] = (catalog, made)
            while len(self._made) > KEPT:
                self._made.popitem(last=False)
        return made

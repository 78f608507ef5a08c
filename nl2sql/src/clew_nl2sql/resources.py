"""Objects that nodes need and the state does not hold: sources, roles, artifacts, limits.

They are bound to the graph and never stored. Catalogs are cached, because reading one takes a query per
column. If a source is down, its last known catalog is used, so that the answer can name the missing part.

A catalog with all samples is large, so it stays here. A run stores only its outline: names, types, keys,
comments and a few values.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from clew_nl2sql.access import Access, UserContext
from clew_nl2sql.artifacts import ArtifactStore
from clew_nl2sql.errors import SourceDownError
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.sources.protocol import Source

MAX_RETRIES = 3
FEW, SHORT = 5, 40  # values per column in an outline, and their maximum length


@dataclass(frozen=True)
class Resources:
    """The objects that are bound to the graph."""

    sources: Mapping[str, Source]
    artifacts: ArtifactStore
    planner: Any
    decomposer: Any
    synthesizer: Any
    policies: Mapping[str, Iterable[str]] = field(default_factory=dict)
    max_scan_rows: int = 50_000
    max_rows: int = 1_000
    catalog_ttl: float = 60.0
    _known: dict[str, tuple[float, Catalog]] = field(default_factory=dict)
    _seen: dict[tuple[str, tuple[str, ...]], tuple[Catalog, Catalog]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def access(self, user: UserContext | None) -> Access:
        """Return what a user may see."""
        return Access(user or UserContext(), self.policies)

    def catalog(self, source: str) -> Catalog:
        """Return the catalog of a source, at most `catalog_ttl` seconds old unless the source is down."""
        with self._lock:
            at, known = self._known.get(source, (0.0, None))
        if known is not None and time.monotonic() - at < self.catalog_ttl:
            return known
        try:
            fresh = msgspec.structs.replace(self.sources[source].catalog(), name=source)
        except SourceDownError:
            if known is None:
                raise
            return known
        with self._lock:
            self._known[source] = (time.monotonic(), fresh)
        return fresh

    def outline(self, source: str) -> Catalog:
        """Return a catalog without samples, except for a few values per column."""
        return outline(self.catalog(source))

    def seen(self, user: UserContext | None, source: str) -> Catalog:
        """Return the catalog that a user may see: the same object each time, since planners cache data by object."""
        whole = self.catalog(source)
        visible = self.access(user).visible(source, whole)
        if len(visible.tables) == len(whole.tables):
            return whole
        key = (source, tuple(table.name for table in visible.tables))
        with self._lock:
            made_from, kept = self._seen.get(key, (None, visible))
            if made_from is not whole:
                kept = visible
                self._seen[key] = (whole, visible)
        return kept

    def forget(self) -> None:
        """Drop all catalogs, and so the data that planners cache for them."""
        with self._lock:
            self._known.clear()
            self._seen.clear()

    def table_names(self, source: str) -> tuple[str, ...]:
        """Return all tables of a source, without regard to the user."""
        return tuple(table.name for table in self.catalog(source).tables)


def outline(catalog: Catalog) -> Catalog:
    """Return a catalog that is small enough to be stored with every run."""
    tables = []
    for table in catalog.tables:
        columns = tuple(
            msgspec.structs.replace(column, values=_short(column.values), complete=False)
            for column in table.columns
        )
        tables.append(msgspec.structs.replace(table, columns=columns, rows=()))
    return msgspec.structs.replace(catalog, tables=tuple(tables))


def _short(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value for value in values[:FEW] if len(str(value)) <= SHORT)


def fingerprint(catalog: Catalog) -> str:
    """Return a hash of a catalog."""
    return hashlib.sha256(msgspec.msgpack.encode(catalog)).hexdigest()[:16]

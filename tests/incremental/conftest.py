"""The PostgreSQL server of the stores' tests, for graphs that are kept in one."""

from __future__ import annotations

from tests.stores.conftest import server

__all__ = ["server"]

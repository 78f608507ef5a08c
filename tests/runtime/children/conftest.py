"""The stores on which children run."""

from __future__ import annotations

from tests.store_fixtures import every_store

store = every_store

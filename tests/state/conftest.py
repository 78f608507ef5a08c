"""What every test of states may rely on."""

from __future__ import annotations

from typing import Any

import pytest

from clew.state import registry


@pytest.fixture(autouse=True)
def _own_registry():
    """What a test registers is gone after it."""
    tables: tuple[dict[Any, Any], ...] = (
        registry._by_class,
        registry._by_name,
        registry._by_origin,
        registry._by_alias,
    )
    before = [dict(table) for table in tables]
    yield
    for table, content in zip(tables, before, strict=True):
        table.clear()
        table.update(content)

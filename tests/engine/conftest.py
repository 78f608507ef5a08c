from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Random graphs have nodes that select targets on their loop and off it together, which is a warning."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(
                pytest.mark.filterwarnings("ignore:.*off it, which waits:clew.errors.GraphWarning")
            )

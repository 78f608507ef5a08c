"""Leave the results of checks and explorations in a store, where `clew serve` shows them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clew.cli.options import store_at


def keep_result(address: str | None, document: Callable[[], dict[str, Any]]) -> None:
    """Write a document to the store. Without an address, write it only to a default store that exists."""
    where = address or os.environ.get("CLEW_STORE") or "clew.db"
    if address is None and "://" not in where and not Path(where).is_file():
        return
    from clew.views.checks import keep_check

    with store_at(address, create=True) as opened:
        keep_check(opened, document())

"""Conformance checks for stores: every rule of `clew.stores.protocol` as a check.

A check takes a function `open_store` that opens a store. Each call opens the same storage, which is empty at the start
of each check. With pytest::

    from clew.stores import conformance

    @pytest.mark.parametrize("check", conformance.checks)
    def test_my_store(check, tmp_path):
        check(lambda: MyStore(tmp_path / "runs"))

A store in memory returns the same object each time: ``store = MyStore(); check(lambda: store)``. A store that can
detect dead owners must also pass `liveness_checks`.

A failed check raises AssertionError with an explanation. The stores that a check opened are closed when it ends.
"""

from __future__ import annotations

from clew.stores.conformance import (  # noqa: F401 - each adds its checks
    entries,
    inbox,
    optional_features,
    ownership,
    pages,
    queue,
    results,
    runs,
)
from clew.stores.conformance.harness import Check, OpenStore, checks, liveness_checks
from clew.stores.protocol import Store

__all__ = ["Check", "OpenStore", "Store", "checks", "liveness_checks"]

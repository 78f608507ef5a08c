"""The suite for whoever writes a store: every rule of `clew.stores.protocol`, as a check that each store passes.

A check is a function of a function: `open_store` opens a store, at each call on the same place, which is empty for each
check. With pytest::

    from clew.stores import conformance

    @pytest.mark.parametrize("check", conformance.checks)
    def test_my_store(check, tmp_path):
        check(lambda: MyStore(tmp_path / "runs"))

A store that lives in one process gives the same object each time: ``store = MyStore(); check(lambda: store)``. A
store that can tell dead owners from living ones also passes `liveness_checks`.

A check that fails raises AssertionError with a sentence. Stores that it opened are closed when it ends.
"""

from __future__ import annotations

from clew.stores.conformance import deferred_sync, entries, ownership, runs
from clew.stores.conformance.harness import Check, OpenStore, checks, liveness_checks
from clew.stores.protocol import Store

__all__ = [
    "Check",
    "OpenStore",
    "Store",
    "checks",
    "deferred_sync",
    "entries",
    "liveness_checks",
    "ownership",
    "runs",
]

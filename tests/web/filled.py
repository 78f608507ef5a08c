"""A store with runs of every kind, as the tests of the API use it."""

from __future__ import annotations

from pathlib import Path

from clew import SQLiteStore
from tests.browser import filled, flows
from tests.browser.flows import HOSTILE


def fill(path: Path | str) -> None:
    """Make a store with one run of each kind."""
    store = SQLiteStore(path)
    try:
        filled.fill(store)
        letter = filled.engine_of(store, flows.letter, "letter")
        letter.run({"text": HOSTILE}, run_id=HOSTILE, attributes={HOSTILE: HOSTILE})
        letter.submit({"text": "later"}, run_id="letter-queued")
    finally:
        store.close()

"""A plain engine whose node takes its time: ``python -m tests.stores.postgres.holding DSN SCHEMA FOLDER``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from clew import Engine, Graph, PostgresStore, node


@node(output="done")
def hold(folder: str) -> str:
    Path(folder, "begun").touch()
    while not Path(folder, "enough").exists():
        time.sleep(0.01)
    return "done"


if __name__ == "__main__":
    dsn, schema, folder = sys.argv[1:]
    store = PostgresStore(dsn, schema=schema)
    with Engine(Graph([hold]), store=store) as engine:
        print(engine.run({"folder": folder}, run_id="r").status)
    store.close()

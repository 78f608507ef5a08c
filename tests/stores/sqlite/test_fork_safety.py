"""A process whose threads use a store is forked: the child can use stores too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FORKS = 300
PROGRAM = """
import os, sys, threading, warnings
from pathlib import Path
from clew.stores import RunRow, SQLiteStore
from clew.stores.factory import open_table

warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads, which is what this is about
folder, done = Path(sys.argv[1]), threading.Event()
store = SQLiteStore(folder / "runs.db", synchronous="off")
table = open_table(folder / "table.db", "numbers")

def use(number):
    for step in range(1_000_000):
        if done.is_set():
            return
        if number % 2:
            store.create(RunRow(f"{number}.{step}"))
            store.rows("failed")
        else:
            table.read(str(step))

threads = [threading.Thread(target=use, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
for number in range(int(sys.argv[2])):
    child = os.fork()
    if not child:
        SQLiteStore(folder / f"{number % 4}.db", synchronous="off").close()
        os._exit(0)
    os.waitpid(child, 0)
done.set()
for thread in threads:
    thread.join()
print("all came back")
"""


def test_children_of_a_process_that_is_inside_sqlite_open_stores(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(FORKS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.stdout == "all came back\n", done.stderr

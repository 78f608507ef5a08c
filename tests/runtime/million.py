"""Appends messages one by one, in a process of its own, and says what that took: ``python million.py COUNT FILE``.

The figures go to standard output as JSON: for each tenth of the way the entries and bytes that were written, processor
time without snapshots, and the memory of the process; then what each snapshot took, and what loading the state took.
"""

from __future__ import annotations

import json
import operator
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from clew import END, Command, Engine, Graph, SQLiteStore, node


class Talk(TypedDict, total=False):
    messages: Annotated[list[str], operator.add]


def memory(what: str) -> int:
    """Bytes of memory that the process has (VmRSS), or had at the most (VmHWM)."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what))
    return int(line.split()[1]) * 1024


class Counting(SQLiteStore):
    """Counts what is written and read."""

    entries_written = bytes_written = rows_read = 0

    def __init__(self, file: str) -> None:
        super().__init__(file, synchronous="off")
        self.snapshots: list[dict[str, float]] = []

    def append(self, run_id: str, entries: Sequence[Any], fence: int, **more: Any) -> None:
        if entries[0].kind == "snapshot":
            pieces = sum(map(len, more.get("blobs", {}).values()))
            self.snapshots.append({"step": entries[0].n, "bytes": pieces, "peak": memory("VmHWM")})
        else:
            self.entries_written += len(entries)
            self.bytes_written += sum(len(entry.body) + len(entry.digest) for entry in entries)
        super().append(run_id, entries, fence, **more)

    def within(self, *args: Any, **more: Any) -> Any:
        found = super().within(*args, **more)
        self.rows_read += len(found)
        return found


def main(count: int, file: str) -> None:
    store = Counting(file)
    laps: list[dict[str, float]] = []
    tenth = count // 10

    @node(writes=["messages"], goto=["say", END])
    def say(messages: list[str]) -> Command:
        number = len(messages)
        if number % tenth == 0:
            laps.append(lap(number))
        more = number + 1 < count
        return Command(update={"messages": [f"{number:07} " + "x" * 92]}, goto="say" if more else END)

    def lap(number: int) -> dict[str, float]:
        return {
            "messages": number,
            "entries": store.entries_written,
            "bytes": store.bytes_written,
            "seconds": time.process_time(),
            "snapshots": len(store.snapshots),
            "memory": memory("VmRSS"),
        }

    engine = Engine(Graph([say], state=Talk), store=store, max_steps=count + 1)
    result = engine.run({"messages": []}, run_id="r")
    laps.append(lap(count))
    messages = result["messages"]
    told: dict[str, Any] = {
        "laps": laps,
        "snapshots": store.snapshots,
        "state": sum(map(sys.getsizeof, messages)) + sys.getsizeof(messages),
        "peak": memory("VmHWM"),
    }
    del result, messages
    before, rows = time.process_time(), store.rows_read
    state = engine.state("r")
    told["loading"] = {
        "seconds": time.process_time() - before,
        "rows": store.rows_read - rows,
        "messages": len(state.values["messages"]),
        "first": state.values["messages"][0][:7],
        "last": state.values["messages"][-1][:7],
        "peak": memory("VmHWM"),
    }
    told["file"] = Path(file).stat().st_size
    print(json.dumps(told))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

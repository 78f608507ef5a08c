"""Has a run killed and resumed until it is done, and looks at what is left after each death.

After each death: what was journaled is not done again later; what took effect and is not journaled was in flight, and
no more than the workers could have in hand. In the end: the chain, inside and outside, is that of the unbroken run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clew import Engine
from clew.state import decode
from tests.crash import program
from tests.crash.nursery import RUN, Nursery, opened


class Trial:
    """One run, killed as often as one likes."""

    def __init__(
        self, nursery: Nursery, store: str, effects: Path, killed_at: Counter[str], **task: Any
    ) -> None:
        self._nursery = nursery
        self._killed_at = killed_at
        self._task = {"store": store, "effects": str(effects), **task}
        self.store, self.effects = store, effects
        self.workers = task.get("at_once", task.get("workers", 1))
        self.deaths = 0
        self._in_flight: Counter[str] = Counter()  # key -> deaths that it was in flight at
        self._settled: dict[str, int] = {}  # journaled key -> its lines

    def go(self, **how: Any) -> dict[str, Any]:
        """One stretch: begin the run if it is not there, else resume it."""
        how.setdefault("do", "resume" if self._is_there() else "run")
        answer = self._nursery.child(**self._task, **how)
        if answer.get("killed"):
            self.deaths += 1
            self._killed_at[how.get("crash", "any instant").partition(":")[0]] += 1
            self.look()
        return answer

    def finish(self) -> dict[str, Any]:
        """Resume until it is done."""
        answer = self.go()
        if answer.get("status") == "waiting":
            answer = self.go()
        assert answer.get("status") == "completed", answer
        self.look()
        return answer

    def _is_there(self) -> bool:
        if "|" not in self.store and not Path(self.store).exists():
            return False
        store = opened(self.store)
        try:
            return any(row.run_id == RUN for row in store.rows())
        finally:
            store.close()

    def lines(self) -> Counter[str]:
        """The effects by key."""
        text = self.effects.read_text() if self.effects.exists() else ""
        assert text == "" or text.endswith("\n")
        return Counter(line.split(" ")[0] for line in text.splitlines())

    def look(self) -> None:
        """Check what must hold at any time."""
        lines, journaled = self.lines(), set(self._journaled())
        for key, count in self._settled.items():
            assert lines[key] == count, f"{key} was journaled, and happened again"
        assert journaled <= set(lines), "journaled, and never happened"
        self._settled = {key: lines[key] for key in journaled}
        if self._task.get("durability", "sync") == "sync":
            in_flight = set(lines) - journaled
            assert len(in_flight) <= self.workers, f"{in_flight} were in flight at once"
            self._in_flight.update(in_flight)
            for key, count in lines.items():
                assert count <= 1 + self._in_flight[key], f"{key} happened {count} times"

    def _journaled(self) -> Iterator[str]:
        if not self._is_there():
            return
        store = opened(self.store)
        try:
            for entry in store.entries(RUN):
                if entry.kind == "call":
                    _, (args, _), _, error, *_ = decode(entry.body)
                    if error is None and args:
                        yield args[-2]  # the key
        finally:
            store.close()

    def entries(self) -> list[Any]:
        """All that is in the log."""
        store = opened(self.store)
        try:
            return list(store.entries(RUN))
        finally:
            store.close()

    def chain(self) -> dict[tuple[str, int], str]:
        """The digest of each state, inside and outside."""
        store = opened(self.store)
        try:
            found = {(e.path, e.n): e.digest.hex() for e in store.entries(RUN) if e.kind == "step"}
            engine = Engine(program.GRAPHS[self._task.get("graph", "killed")], store=store)
            state = engine.state(RUN)
            assert found["", state.step] == state.digest
            found["the values of", state.step] = repr(sorted(state.values.items()))
            (row,) = engine.runs()
            assert row.status == "completed"
            return found
        finally:
            store.close()

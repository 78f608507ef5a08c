"""The dependency graph: what it costs to change a source and to ask for a value that may depend on it.

- A chain: its head is set, its tail pulled, so every node is computed again.
- Many dependents: a source is set, one of those who depend on it pulled. Whoever marks all of them pays for all.
- Nothing to do: an unrelated source is set, then values are pulled that do not depend on it, each for the first time
  since.
- On disk: the chain, where each value that was computed is kept in a SQLite file.

The sizes of a row are one curve of the picture that `incremental_curves` draws.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contestants import CLEW, FLOOR, Contestant
from benchmarks.measure import measure
from benchmarks.places import sqlite_place
from benchmarks.rows import Bar, Result, Row, Settings, Timing

CHAIN_BAR = Bar(limit=1.2, floor=0.3)
FAN_BAR = Bar(limit=5.0)
IDLE_BAR = Bar(limit=1.5, floor=0.15)
DISK_BAR = Bar(limit=30.0, floor=22.0)

# Who takes part at which size: peers where a run of theirs lasts a few seconds at most.
SMALL = frozenset({FLOOR, CLEW})
SIGNALS = SMALL | {"reaktiv"}
CHAIN = {
    10: SIGNALS | {"Hamilton", "loman", "redun"},
    100: SIGNALS | {"Hamilton", "loman"},
    1_000: SIGNALS | {"Hamilton", "loman"},
    10_000: SMALL,
    100_000: SMALL,
}
FAN = {
    100: SIGNALS | {"loman"},
    1_000: SIGNALS | {"loman"},
    10_000: SIGNALS | {"loman"},
    100_000: SIGNALS,
}
IDLE = {100: SIGNALS, 1_000: SIGNALS, 10_000: SIGNALS, 100_000: SIGNALS}
PULLS = 100  # after each unrelated set: another one of the nodes each
DISK = {10: SMALL | {"Hamilton", "redun"}, 100: SMALL | {"Hamilton"}, 1_000: SMALL}
QUICK = {"chain": (10, 1_000), "fan": (10_000,), "idle": (100_000,), "disk": (10, 100)}


def chain(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for nodes in QUICK["chain"] if settings.quick else CHAIN:
        title = f"dependency chain of {nodes:,}: set the head, pull the tail, per node"
        bar = (
            CHAIN_BAR if nodes >= 1_000 else None
        )  # a short chain shows what the set and the pull cost by themselves
        row = Row(f"incremental-chain-{nodes}", "dependency chain", title, "µs", bar, nodes)
        timing = Timing("incremental_chain", (nodes,), nodes, nodes, only=CHAIN[nodes])
        yield measure(row, timing, contestants, settings)


def fan(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for nodes in QUICK["fan"] if settings.quick else FAN:
        title = f"set a source with {nodes:,} dependents, pull one"
        row = Row(f"incremental-fan-{nodes}", "dependents", title, "µs", FAN_BAR, nodes)
        timing = Timing("incremental_fan", (nodes,), 1, 1, only=FAN[nodes])
        yield measure(row, timing, contestants, settings)


def idle(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for nodes in QUICK["idle"] if settings.quick else IDLE:
        title = f"pull 1 of {nodes:,} unaffected nodes after an unrelated set"
        row = Row(f"incremental-idle-{nodes}", "unaffected", title, "µs", IDLE_BAR, nodes)
        timing = Timing("incremental_idle", (nodes, PULLS), PULLS, PULLS, only=IDLE[nodes])
        yield measure(row, timing, contestants, settings)


def disk(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for nodes in QUICK["disk"] if settings.quick else DISK:
        what = f"persistent recompute of a chain of {nodes:,}, SQLite WAL, synchronous=NORMAL"
        row = Row(
            f"incremental-disk-{nodes}", "persistent recompute", f"{what}, per node", "µs", DISK_BAR, nodes
        )
        yield _on_disk(row, "incremental_disk", DISK[nodes], contestants, settings)
    # Clew may put what a pull has finished into one transaction: this is how far it is from the least that could be.
    row = Row(
        f"incremental-grouped-{nodes}", "grouped", f"{what}, one transaction, per node", "µs", None, nodes
    )
    yield _on_disk(row, "incremental_disk_grouped", SMALL, contestants, settings)


def _on_disk(
    row: Row, workload: str, only: frozenset[str], contestants: tuple[Contestant, ...], settings: Settings
) -> Result:
    with sqlite_place("normal") as place:
        timing = Timing(workload, (row.size, place), row.size, row.size, only=only)
        return measure(row, timing, contestants, settings)


def incremental(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for rows in (chain, fan, idle, disk):
        yield from rows(contestants, settings)

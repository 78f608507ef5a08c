"""One byte of a file is another, wherever it is: what is read is what was written, or it is refused by name.

A file is all there is, so a byte may also belong to what SQLite or the store itself needs. Then nothing is read, and it
says so; never is something else read, and never does anything but an error of this library come out.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from clew import Engine, SQLiteStore
from clew.cli.commands.doctor import examine
from clew.errors import ClewError
from tests.crash import program

RUNS = ("one", "two", "three")


def made(folder: Path) -> tuple[Path, dict[str, Any]]:
    """A file with three runs, large values and a snapshot in it, and the states that they have."""
    program.set_world(str(folder / "effects"), pad=3_000)
    file = folder / "runs.db"
    engine = Engine(program.GRAPH, store=SQLiteStore(file), seed=7, max_concurrent_nodes=1)
    for run_id in RUNS:
        engine.run(program.VALUES, run_id=run_id)
    states = {run_id: seen(engine, run_id) for run_id in RUNS}
    engine.close()
    return file, states


def seen(engine: Engine, run_id: str) -> Any:
    state = engine.state(run_id)
    return state.digest, state.step, sorted(state.values.items())


def what_came_of_it(file: Path, states: dict[str, Any]) -> Counter[str]:
    found: Counter[str] = Counter()
    try:
        store = SQLiteStore(file)
    except ClewError:
        return Counter({"not opened": 1})
    engine = Engine(program.GRAPH, store=store)
    try:
        for run_id, state in states.items():
            try:
                assert seen(engine, run_id) == state, run_id
                found["read"] += 1
            except ClewError as error:
                found["named" if f"run {run_id!r}" in str(error) else "refused"] += 1
        try:
            if not examine(store)["damage"]:
                found["unseen"] += 1
        except ClewError:
            pass
    finally:
        engine.close()
    return found


@pytest.mark.parametrize("count", [150, pytest.param(3_000, marks=pytest.mark.slow)])
def test_a_flipped_byte_anywhere(tmp_path: Path, count: int) -> None:
    file, states = made(tmp_path)
    whole = file.read_bytes()
    rng, total = Random(count), Counter[str]()
    for place in sorted(rng.sample(range(len(whole)), count)):
        data = bytearray(whole)
        data[place] ^= 1 << rng.randrange(8)
        for beside in tmp_path.glob("runs.db?*"):
            beside.unlink()
        file.write_bytes(data)
        total += what_came_of_it(file, states)
    assert total["named"] > count / 20, total
    assert total["read"] > 2 * count, total  # other runs are read

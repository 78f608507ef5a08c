"""Large contents are sent to the server as they are, not as text."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

from clew import Engine, Graph, PostgresStore, node

SIZE = 8_000_000


@node(output="picture")
def draw(seed):
    return bytes(range(256)) * (SIZE // 256)


def test_a_large_value_is_copied_a_few_times(open_postgres: Callable[[], PostgresStore]) -> None:
    with Engine(Graph([draw]), store=open_postgres()) as engine:
        engine.run({"seed": 0}, run_id="warm")
        engine.delete("warm")
        tracemalloc.start()
        try:
            engine.run({"seed": 1}, run_id="r")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 4 * SIZE
        assert Engine(store=engine.store).state("r").get("picture") == draw(0)

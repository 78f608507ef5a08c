"""A node outside a loop runs once, after the loop; an eager node sees every turn.

Dijkstra's shortest paths, one town for each turn. `directions` reads what the loop writes, but is not on the loop, so
it runs once, for the final table. `progress` reads the same table and is ``eager``: it never waits, so it runs at the
start and after every turn, concurrently with the loop.
"""

import operator
from typing import Annotated, TypedDict

from clew import END, Graph, ifelse, node

ROADS = {
    "Athens": {"Corinth": 84, "Thebes": 70},
    "Corinth": {"Athens": 84, "Patras": 136, "Sparta": 140},
    "Thebes": {"Athens": 70, "Delphi": 90},
    "Delphi": {"Thebes": 90, "Patras": 122},
    "Patras": {"Corinth": 136, "Delphi": 122, "Olympia": 117},
    "Sparta": {"Corinth": 140, "Olympia": 165},
    "Olympia": {"Patras": 117, "Sparta": 165},
}


class Trip(TypedDict):
    best: dict[str, tuple[int, list[str]]]
    settled: list[str]
    target: str
    seen: Annotated[list[str], operator.add]
    directions: str


@node(writes=["best", "settled"])
def settle(best: dict[str, tuple[int, list[str]]], settled: list[str]) -> dict[str, object]:
    """Settle the nearest open town, and relax its roads."""
    town = min((name for name in best if name not in settled), key=lambda name: best[name][0])
    distance, path = best[town]
    table = dict(best)
    for neighbour, length in ROADS[town].items():
        if neighbour not in table or distance + length < table[neighbour][0]:
            table[neighbour] = (distance + length, [*path, neighbour])
    return {"best": table, "settled": [*settled, town]}


@ifelse(when_true=END, when_false="settle")
def arrived(settled: list[str], target: str) -> bool:
    return target in settled


@node(output="seen", eager=True)
def progress(settled: list[str], best: dict[str, tuple[int, list[str]]]) -> list[str]:
    return [f"{settled[-1]} is {best[settled[-1]][0]} km away"] if settled else []


@node(output="directions")
def directions(best: dict[str, tuple[int, list[str]]], target: str) -> str:
    distance, path = best[target]
    return f"{' - '.join(path)}, {distance} km"


graph = Graph([settle, arrived, progress, directions], name="route", state=Trip)
values = {"best": {"Athens": (0, ["Athens"])}, "settled": [], "target": "Olympia"}

if __name__ == "__main__":
    result = graph.run(values)
    print("\n".join(result["seen"]))
    print(result["directions"])
    visits = result.state.visits
    print(
        f"settle ran {visits['settle']} times, progress {visits['progress']}, directions {visits['directions']}"
    )

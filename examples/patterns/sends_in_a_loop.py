"""Sends inside a loop: breadth-first search over pages, one layer for each turn.

In each turn, `fan_out` sends every page of the frontier to `read_page`, one item each. The reducer of `found` combines
the results in the order of the Sends. Then `next_layer` computes the next frontier, and empties `found` with
`Overwrite`. An empty list of Sends selects nothing, which ends the loop.
"""

import operator
import re
from typing import Annotated, TypedDict

from clew import Graph, Overwrite, Send, node, route

PAGES = {
    "index": "Start with [install], then read the [tutorial] or the [reference].",
    "install": "Needs Python. Afterwards: [tutorial].",
    "tutorial": "A [graph] has [nodes]; see the [reference].",
    "reference": "All of it: [graph], [nodes], [gates], [stores].",
    "graph": "Made of [nodes].",
    "nodes": "Functions. Some are [gates].",
    "gates": "They choose among [nodes].",
    "stores": "Where runs are kept; see [backup].",
}


class Crawl(TypedDict):
    frontier: list[str]
    found: Annotated[list[str], operator.add]
    depth_of: dict[str, int]


@route(targets=["read_page"])
def fan_out(frontier: list[str]) -> list[Send]:
    return [Send("read_page", {"page": page}) for page in frontier]


@node(writes="found")
def read_page(page: str) -> dict[str, list[str]]:
    return {"found": re.findall(r"\[(\w+)\]", PAGES.get(page, ""))}


@node(writes=["frontier", "found", "depth_of"], after="read_page")
def next_layer(found: list[str], depth_of: dict[str, int]) -> dict[str, object]:
    fresh = [page for page in dict.fromkeys(found) if page not in depth_of]
    depths = {**depth_of, **dict.fromkeys(fresh, max(depth_of.values()) + 1)}
    return {"frontier": fresh, "found": Overwrite([]), "depth_of": depths}


graph = Graph([fan_out, read_page, next_layer], name="crawl", state=Crawl)
values = {"frontier": ["index"], "depth_of": {"index": 0}}

if __name__ == "__main__":
    result = graph.run(values)
    for page, depth in result["depth_of"].items():
        print(f"{'  ' * depth}{page}{'' if page in PAGES else ' (missing)'}")
    print(f"{result.metrics.total_nodes_executed} items in {result.last_step} steps")

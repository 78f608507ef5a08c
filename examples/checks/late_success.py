"""A retry after a call that timed out but succeeded: the parcel is shipped twice.

The warehouse shipped the parcel, but its answer came too late, and the retry ships a second one. The fixed version
identifies the parcel by its order, so a repeated request has no further effect.
"""

from clew import Graph, RetryPolicy, node
from clew.explore import Check, Invariant
from clew.explore.systems import MemoryStorage

warehouse = MemoryStorage()


@node(output="parcel", timeout=5.0, retry=RetryPolicy(max_attempts=3, base_delay=1.0))
def ship(order: str) -> str:
    number = len(warehouse.list()) + 1
    warehouse.put(f"parcel {number}", order)
    return f"parcel {number}"


@node(name="ship", output="parcel", timeout=5.0, retry=RetryPolicy(max_attempts=3, base_delay=1.0))
def ship_once(order: str) -> str:
    warehouse.put(f"parcel for {order}", order)
    return f"parcel for {order}"


@node(output="note")
def tell(parcel: str) -> str:
    return f"{parcel} is on its way"


one_parcel = Invariant(
    "one parcel",
    lambda world: len(world.systems["warehouse"].list()) <= 1 or "more than one parcel was shipped",
)

values = {"order": "tea"}
graph = Graph([ship, tell], name="dispatch")
fixed_graph = Graph([ship_once, tell], name="dispatch")

check = Check(graph, values, [one_parcel], faults={"timeout"}, systems={"warehouse": warehouse})
fixed = Check(fixed_graph, values, [one_parcel, "terminates"], systems={"warehouse": warehouse})

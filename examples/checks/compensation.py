"""A compensation that runs too early: the hotel is full, and the flight stays booked.

The gate reads only the hotel. If the hotel answers first, the flight is cancelled before it is booked. In the fixed
version the gate waits for both.
"""

from clew import Graph, ifelse, node
from clew.explore import Check, Invariant, at_end
from clew.explore.systems import MemoryStorage

airline = MemoryStorage()


@node(output="flight")
def book_flight(trip: str) -> str:
    airline.put(trip, "booked")
    return f"flight to {trip}"


@node(output="hotel")
def book_hotel(trip: str) -> str:
    return ""  # the hotel is full


@ifelse(when_true="confirm", when_false="cancel_flight")
def has_hotel(hotel: str) -> bool:
    return bool(hotel)


@ifelse(name="has_hotel", when_true="confirm", when_false="cancel_flight")
def has_both(hotel: str, flight: str) -> bool:
    return bool(hotel and flight)


@node(output="cancelled")
def cancel_flight(trip: str) -> bool:
    if trip in airline.list():
        airline.delete(trip)
    return True


@node(output="confirmed")
def confirm(flight: str, hotel: str) -> str:
    return f"{flight}, {hotel}"


no_leftovers = Invariant(
    "no leftovers",
    at_end(lambda world: not world.systems["airline"].list() or "the flight is booked without a hotel"),
)

values = {"trip": "Crete"}
graph = Graph([book_flight, book_hotel, has_hotel, cancel_flight, confirm], name="travel")
fixed_graph = Graph([book_flight, book_hotel, has_both, cancel_flight, confirm], name="travel")

check = Check(graph, values, [no_leftovers], faults=(), systems={"airline": airline})
fixed = Check(
    fixed_graph,
    values,
    [no_leftovers, "schedule_independent", "resume_equivalent", "terminates"],
    systems={"airline": airline},
)

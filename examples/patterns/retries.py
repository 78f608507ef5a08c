"""Retries with growing delays, on a virtual clock.

A tide table comes from a station that fails at first. The retry policy doubles the delay with each attempt, and adds
jitter from the random generator of the item. A waiting retry occupies no worker. On a `VirtualClock`, time jumps to
the next timer: this run of a minute and a half ends at once, and takes the same virtual time every time.
"""

from collections.abc import Iterable

from clew import Context, Engine, Event, Graph, RetryPolicy, node
from clew.testing import VirtualClock

TIDES = {"Piraeus": [0.1, 0.3, 0.2], "Chalkis": [0.8, 0.2, 0.9]}
OUTAGE = {"Piraeus": 0, "Chalkis": 4}


def patient(error: BaseException) -> bool:
    """Retry connection errors, but not a station that does not exist."""
    return isinstance(error, ConnectionError)


@node(output="tide", retry=RetryPolicy(max_attempts=6, base_delay=5.0, max_delay=60.0, retryable=patient))
async def fetch(station: str, ctx: Context) -> list[float]:
    """Return the tide table once the outage is over."""
    if station not in TIDES:
        raise KeyError(f"no station {station}")
    if ctx.attempt < OUTAGE[station]:
        raise ConnectionError(f"{station} does not answer")
    return TIDES[station]


@node(output="advice")
def advise(station: str, tide: list[float]) -> str:
    high = max(range(len(tide)), key=tide.__getitem__)
    return f"High water at {station}: {tide[high]} m, reading {high + 1} of {len(tide)}"


graph = Graph([fetch, advise], name="tides")
values = {"station": "Chalkis"}
options = {"seed": 5}


def print_retries(events: Iterable[Event]) -> None:
    """Print each failure and retry, with the seconds since the start."""
    began = None
    for event in events:
        began = event.time if began is None else began
        if event.kind == "item_retried":
            print(f"{event.time - began:6.1f} s  attempt {event.attempt} in {event.delay:.1f} s")
        elif event.kind == "run_finished":
            print(f"{event.time - began:6.1f} s  {event.status}")


if __name__ == "__main__":
    for station in ("Chalkis", "Piraeus", "Atlantis"):
        engine = Engine(graph, clock=VirtualClock(), seed=5)
        print(station)
        print_retries(engine.stream({"station": station}, run_id=station, check=False))
        result = engine.result(station)
        print(f"          {result.get('advice', result.error)}")

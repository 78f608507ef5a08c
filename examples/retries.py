"""Retries with growing delays, on a clock that makes them pass at once.

A tide table comes from a station that fails at first. The retry policy doubles the delay from attempt to attempt, with
a jitter from the item's own random stream. A waiting retry holds no worker. On a `VirtualClock` nothing really waits:
time jumps to the next timer, so this run of a minute and a half ends at once, and takes the same time every time.
"""

from collections.abc import Iterable

from clew import Context, Engine, Event, Graph, RetryPolicy, node
from clew.testing import VirtualClock

TIDES = {"Piraeus": [0.1, 0.3, 0.2], "Chalkis": [0.8, 0.2, 0.9]}
OUTAGE = {"Piraeus": 0, "Chalkis": 4}


def patient(error: BaseException) -> bool:
    """What is worth another try. A station that does not exist is not."""
    return isinstance(error, ConnectionError)


@node(output="tide", retry=RetryPolicy(max_attempts=6, base_delay=5.0, max_delay=60.0, retryable=patient))
async def fetch(station: str, ctx: Context) -> list[float]:
    """The station answers when its outage is over, as many attempts as that takes."""
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


def tell(events: Iterable[Event]) -> None:
    """Each failure and retry, with the seconds since the start."""
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
        tell(engine.stream({"station": station}, run_id=station))
        result = engine.result(station)
        print(f"          {result.get('advice', result.error)}")

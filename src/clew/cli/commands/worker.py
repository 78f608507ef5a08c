"""``clew worker``: execute the runs of queues."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from typing import Annotated

import typer

from clew import Worker
from clew.cli.declarations import argument, flag, option
from clew.cli.observing import MetricsOption, TraceOption, log_to_stderr, observing
from clew.cli.options import StoreOption, remember_graph, store_at
from clew.cli.output import CommandError, count, note, say_line
from clew.live import Line, live
from clew.runtime.loader import load_graph
from clew.runtime.workers.unserved import known_queues

_LISTED = 10  # runs that the display lists
_MINUTE = 60.0  # seconds over which it counts the rate


def worker(
    targets: Annotated[list[str], argument("MODULE:GRAPH", "Graphs whose runs the worker executes.")],
    slots: Annotated[int, option("--slots", "N", "Execute at most N runs at the same time.")] = 8,
    queue: Annotated[str, option("--queue", "NAMES", "Queues to take runs from: default,low.")] = "default",
    label: Annotated[str, option("--label", "TEXT", "Name of the worker in `clew workers`.")] = "",
    same_code: Annotated[
        bool, flag("--same-code", "Refuse to start if another worker has different code for a graph.")
    ] = False,
    until_idle: Annotated[bool, flag("--until-idle", "Exit when no run is ready.")] = False,
    until_eof: Annotated[
        bool, typer.Option("--until-eof", hidden=True, help="Stop when standard input ends.")
    ] = False,
    tries: Annotated[int, option("--tries", "N", "Fail a run after N starts without a committed step.")] = 5,
    grace: Annotated[
        float, option("--grace", "SECONDS", "Time that running nodes have to finish after SIGTERM.")
    ] = 10.0,
    lease: Annotated[
        float,
        option(
            "--lease", "SECONDS", "Time without a heartbeat after which other workers take over the runs."
        ),
    ] = 30.0,
    trace: TraceOption = False,
    metrics: MetricsOption = None,
    store: StoreOption = None,
) -> None:
    """Execute queued runs until SIGTERM or Ctrl-C.

    \b
    Examples:
      clew worker flow:graph
      clew worker shop:graph billing:graph --slots 4 --queue default,low
      clew worker flow:graph --until-idle
      clew worker flow:graph --trace --metrics 127.0.0.1:9464

    After SIGTERM, no further node starts. Running nodes have --grace seconds to finish; unfinished runs return to
    their queues. A second signal ends the grace time. The exit code is 0. Failed runs and retries are logged to
    standard error, unless the program configures logging.
    """
    graphs = [load_graph(target) for target in targets]
    for target in targets:
        remember_graph(target)
    queues = [name.strip() for name in queue.split(",") if name.strip()]
    if not queues:
        raise CommandError("--queue names no queue", "give names: --queue default,low")
    log_to_stderr()
    with (
        store_at(store, create=True, connections=slots + 2) as opened,
        observing(opened, trace=trace, metrics=metrics) as observers,
    ):
        known = known_queues(opened)
        if unknown := [name for name in queues if name not in known]:
            names = ", ".join(map(repr, unknown))
            note(f"no run was submitted to {names} yet; known queues: {', '.join(sorted(known))}")
        made = Worker(
            graphs,
            store=opened,
            slots=slots,
            queues=queues,
            label=label,
            same_code=same_code,
            tries=tries,
            grace=grace,
            lease=lease,
            listeners=observers,
        )
        if until_eof:  # the process that started this one has ended, however it ended
            threading.Thread(target=_stop_at_eof, args=(made,), daemon=True).start()
        display = _Display(made)
        with live(display) as changed:
            made.on_end = display.say_end if changed is None else display.count_end
            if changed is None:
                display.say(
                    f"worker takes runs of {count(len(graphs), 'graph')} from {', '.join(queues)}, "
                    f"{count(slots, 'slot')}"
                )
            made.run(until_idle=until_idle)
    display.say(f"stopped: {display.counts()}")


def _stop_at_eof(worker: Worker) -> None:
    sys.stdin.buffer.read()
    worker.stop()


class _Display:
    """What a worker shows: on a terminal a board, elsewhere a line for each run that stops."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._began = time.monotonic()
        self._ends: deque[float] = deque()  # when runs stopped, in the last minute
        self._lock = threading.Lock()

    def counts(self) -> str:
        """Return how many runs have stopped, by status."""
        return ", ".join(f"{n} {status}" for status, n in sorted(self._worker.counts.items())) or "no runs"

    def say(self, text: str) -> None:
        """Print a line at once."""
        with self._lock:
            say_line(text)
            sys.stdout.flush()

    def say_end(self, run_id: str, status: str, seconds: float) -> None:
        """Print a run that has stopped."""
        self.say(f"{status}: {run_id} ({seconds:.2f} s)")

    def count_end(self, run_id: str, status: str, seconds: float) -> None:
        """Count a run that has stopped for the rate."""
        self._ends.append(time.monotonic())

    def rate(self) -> float:
        """Return how many runs stopped per second in the last minute."""
        now, ends = time.monotonic(), self._ends
        while ends and ends[0] < now - _MINUTE:
            ends.popleft()
        return len(ends) / max(min(now - self._began, _MINUTE), 1.0)

    def lines(self) -> list[Line]:
        """Return the lines of the board."""
        worker, running = self._worker, self._worker.running
        head: Line = (
            (f"{len(running)} of {count(worker.slots, 'slot')} busy", "yellow" if running else ""),
            (self.counts(), "red" if worker.counts["failed"] else "green"),
            (f"{self.rate():.1f} runs/s", ""),
        )
        more = len(running) - _LISTED
        lines: list[Line] = [
            head,
            *((("", ""), (run_id, "yellow"), ("", "")) for run_id in running[:_LISTED]),
        ]
        return [*lines, (("", ""), (f"and {more} more", ""), ("", ""))] if more > 0 else lines

"""Commands that send something to a run, wherever it executes: ``clew answer``, ``signal`` and ``cancel``."""

from __future__ import annotations

import time
from typing import Annotated

from clew import Engine
from clew.cli.commands.queues import described
from clew.cli.declarations import argument, option
from clew.cli.options import GraphOption, JsonOption, RunArgument, StoreOption, engine_of, find_run, store_at
from clew.cli.output import note, say_json, say_line
from clew.cli.selection import DryRunOption, RunsArgument, change_runs, chosen_runs, selecting
from clew.cli.values import read_json
from clew.errors import DefinitionError, InputError
from clew.runtime.run_pages import RunFilter
from clew.runtime.workers.unserved import unserved_run
from clew.stores import RunRow, Store
from clew.stores.queue import FINAL


def answer(
    run: RunArgument,
    value: Annotated[str, argument("JSON", "The answer.")],
    question: Annotated[
        str | None, option("--question", "PATH", "Path of the question. [default: the run's only question]")
    ] = None,
    graph: GraphOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer the question of a run; a worker continues the run.

    \b
    Examples:
      clew answer order-1 true
      clew answer order-1 '"yes"' --question approve#0

    A run that is in no queue is put into the queue "default"; a note says if no worker has its graph. To continue it
    here, use `clew resume RUN --answer JSON`.
    """
    given = read_json(value, "the answer")
    with store_at(store) as opened:
        row = find_run(opened, run)
        _engine(opened, row, graph).answer(row.run_id, given, question)
        lacking = unserved_run(opened, row.run_id)
    if lacking is not None:
        note(described(lacking))
    if as_json:
        say_json({"run_id": row.run_id, "question": question, "answer": given})
    else:
        say_line(f"the answer was sent to run {row.run_id}")


def _engine(store: Store, row: RunRow, graph: str | None) -> Engine:
    """Return an engine with the graph of the run, which can check the answer; without it, the worker does."""
    try:
        return engine_of(store, row, graph)
    except (DefinitionError, InputError):
        if graph is not None:
            raise
        return Engine(store=store)


def signal(
    run: RunArgument,
    name: Annotated[str, argument("NAME", "Name of the signal.")],
    value: Annotated[str | None, argument("JSON", "Value of the signal.", show_default=False)] = None,
    signal_id: Annotated[
        str | None, option("--id", "ID", "Deliver signals with the same id only once. [default: a new id]")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a signal to a run, wherever it executes.

    \b
    Examples:
      clew signal order-1 paid
      clew signal order-1 paid '{"amount": 3}' --id payment-77

    A node that waits with `ctx.wait_for(NAME)` gets the value. A signal that arrives
    earlier is stored until then.
    """
    given = None if value is None else read_json(value, "the value")
    with store_at(store) as opened:
        row = find_run(opened, run)
        Engine(store=opened).signal(row.run_id, name, given, id=signal_id)
    if as_json:
        say_json({"run_id": row.run_id, "signal": name, "value": given})
    else:
        say_line(f"signal {name!r} was sent to run {row.run_id}")


_ASKED = "asked to end"
_LOOK = 0.1  # seconds between two checks of a run
_OPEN = ("queued", "running", "sleeping", "waiting", "paused")


@selecting
def cancel(
    chosen: RunFilter,
    runs: RunsArgument = None,
    wait: Annotated[
        float,
        option(
            "--wait",
            "SECONDS",
            "Wait for runs that other processes execute until they have ended, at most this long.",
            min=0.0,
        ),
    ] = 0.0,
    dry_run: DryRunOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Cancel runs that have not ended.

    \b
    Examples:
      clew cancel RUN
      clew cancel RUN --wait 10
      clew cancel --status queued --attribute tenant=acme --dry-run

    A run that another process executes receives a message and is reported as "asked to end". It ends soon after; a sync
    node finishes first. With --wait, the command reports the status that the run has then. Runs that have already
    ended are skipped. A cancelled run can be resumed.
    """
    with store_at(store) as opened:
        engine = Engine(store=opened)

        def cancelled(row: RunRow) -> str:
            if not engine.handle(row.run_id).cancel():
                return ""
            return _outcome(opened, row.run_id)

        def finish(outcomes: dict[str, str]) -> None:
            until = time.monotonic() + wait
            for run_id, outcome in outcomes.items():
                while outcome == _ASKED and time.monotonic() < until:
                    time.sleep(_LOOK)
                    outcome = outcomes[run_id] = _outcome(opened, run_id)

        rows = chosen_runs(opened, runs, chosen)
        return change_runs(
            rows, cancelled, "cancelled", dry_run=dry_run, as_json=as_json, allowed=_OPEN, finish=finish
        )


def _outcome(store: Store, run_id: str) -> str:
    """Return what a cancellation has done to a run so far."""
    status = store.row(run_id).status
    return status if status in FINAL else _ASKED

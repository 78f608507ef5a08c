"""Commands about queues: ``clew queues`` and ``workers`` list, ``submit`` and ``resubmit`` put runs into them."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import msgspec

from clew import Engine
from clew.cli.declarations import option
from clew.cli.options import (
    AttributeOption,
    GraphOption,
    IdOption,
    JsonOption,
    StoreOption,
    TargetArgument,
    ThreadOption,
    attributes_of,
    engine_of,
    store_at,
    time_of,
)
from clew.cli.output import command, count, note, say, say_json, say_line, say_table
from clew.cli.run_output import id_of
from clew.cli.selection import DryRunOption, RunsArgument, change_runs, chosen_runs, selecting
from clew.cli.values import ValuesArgument, ValuesFile, read_values
from clew.errors import StoreError
from clew.runtime.loader import complete, load_graph
from clew.runtime.review.json_documents import time_json
from clew.runtime.run_pages import RunFilter
from clew.runtime.workers.presence import different_codes, graphs_of
from clew.runtime.workers.unserved import Unserved, known_queues, unserved_runs
from clew.stores import RunRow, WorkerRow


def queues(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Count the runs in each queue.

    Also list the runs that no worker can take.

    \b
    Examples:
      clew queues
      clew queues --json

    A worker takes only runs of its own graphs, which it recognizes by their structure.
    """
    with store_at(store) as opened:
        found, lacking = opened.queues(), unserved_runs(opened)
    if as_json:
        say_json(
            {
                "queues": [msgspec.to_builtins(each) for each in found],
                "unserved": [msgspec.to_builtins(each) for each in lacking],
            }
        )
        return
    if not found:
        say("no runs are queued")
    else:
        say_table(
            ("queue", "ready", "later", "taken", "waiting for"),
            [
                (
                    each.queue,
                    str(each.ready),
                    str(each.later),
                    str(each.taken),
                    "" if each.oldest is None else f"{each.oldest:.0f} s",
                )
                for each in found
            ],
        )
    for each in lacking:
        say_line(described(each))


def described(lacking: Unserved) -> str:
    """Return a line about runs that no living worker can take."""
    more = f", and {lacking.count - len(lacking.runs)} more" if lacking.count > len(lacking.runs) else ""
    start = f"clew worker {lacking.target or 'MODULE:GRAPH'}"
    return (
        f"no worker has the graph {lacking.graph or lacking.structure[:12]!r} of {count(lacking.count, 'run')} "
        f"({', '.join(lacking.runs)}{more}); start one with: {start}"
    )


def workers(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the workers and their runs.

    Also list the graphs for which workers have different code.

    \b
    Examples:
      clew workers
      clew workers --json

    Dead workers are listed for an hour.
    """
    with store_at(store) as opened:
        with suppress(StoreError):  # a store that is read-only; its leases tell who is alive
            opened.expire()
        rows = opened.workers()
    found = [_worker_json(row) for row in rows if graphs_of(row)]
    codes = different_codes(rows)
    if as_json:
        say_json({"workers": found, "different_code": [msgspec.to_builtins(each) for each in codes]})
        return
    if not found:
        say("no workers")
        return
    say_table(
        ("worker", "host", "process", "state", "busy", "queues", "graphs"),
        [
            (
                each["label"] or each["owner"],
                each["host"],
                str(each["pid"]),
                each["state"],
                f"{each['executes']}/{each['slots']}",
                ",".join(each["queues"]),
                ",".join(graph["graph"] for graph in each["graphs"]),
            )
            for each in found
        ],
    )
    for each in codes:
        names = "; ".join(f"{name} has {code}" for name, code in each.workers.items())
        say_line(f"different code for graph {each.graph!r}: {names}")


def _worker_json(row: WorkerRow) -> dict[str, Any]:
    """Return a worker as JSON data."""
    info = row.info
    state = "dead" if not row.is_alive else "draining" if info.get("draining") else "alive"
    return {
        "owner": row.owner,
        "label": row.label,
        "host": row.host,
        "pid": row.pid,
        "state": state,
        "started": time_json(row.started),
        "expires_in": round(row.expires_in, 3),
        "slots": info.get("slots", 0),
        "executes": info.get("executes", 0) if row.is_alive else 0,
        "queues": info.get("queues", []),
        "graphs": [msgspec.to_builtins(each) for each in graphs_of(row)],
        "running": [each["run"] for each in info.get("running", ())],
        "troubles": info.get("troubles", []),
    }


def submit(
    target: TargetArgument,
    pairs: ValuesArgument = None,
    values: ValuesFile = None,
    queue: Annotated[str, option("--queue", "NAME", "Queue to put the run into.")] = "default",
    priority: Annotated[int, option("--priority", "N", "Priority of the run; lower numbers run first.")] = 0,
    at: Annotated[
        str | None,
        option(
            "--at", "TIME", "Earliest start: 2030-01-31T08:00:00Z, or seconds since the epoch. [default: now]"
        ),
    ] = None,
    run_id: IdOption = None,
    thread: ThreadOption = None,
    attribute: AttributeOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put a run into a queue, for a worker to execute.

    \b
    Examples:
      clew submit flow:graph query='"hello"'
      clew submit flow:graph query='"hello"' --queue low --priority 5 --attribute tenant=acme
      clew submit flow:graph query='"hello"' --at 2030-01-31T08:00:00Z

    The command returns at once. Start a worker with `clew worker MODULE:GRAPH`.
    """
    target = complete(target)
    graph = load_graph(target)
    given, attributes, due = read_values(pairs, values), attributes_of(attribute), time_of(at, "--at")
    with store_at(store, create=True) as opened:
        name = id_of(run_id, graph.name or target.partition(":")[0])
        known = known_queues(opened)
        handle = Engine(graph, store=opened, import_string=target).submit(
            given, queue=queue, priority=priority, at=due, run_id=name, thread=thread, attributes=attributes
        )
    if queue not in known:
        note(f"no worker takes queue {queue!r} now; known queues: {', '.join(sorted(known))}")
    if as_json:
        say_json(
            {"run_id": handle.run_id, "status": "queued", "queue": queue, "priority": priority, "at": due}
        )
    else:
        say_line(f"run {handle.run_id} is queued in {queue!r}; see it with: {command('show', handle.run_id)}")


_STOPPED = ("queued", "running", "paused", "failed", "cancelled")


@selecting
def resubmit(
    chosen: RunFilter,
    runs: RunsArgument = None,
    dry_run: DryRunOption = False,
    queue: Annotated[
        str | None, option("--queue", "NAME", "Queue to put the runs into. [default: the queue they were in]")
    ] = None,
    graph: GraphOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Put failed, cancelled or paused runs back into a queue.

    \b
    Examples:
      clew resubmit RUN
      clew resubmit --status failed --attribute tenant=acme --queue low

    A worker continues them where they stopped. Completed and waiting runs are skipped.
    """
    with store_at(store) as opened:

        def resubmitted(row: RunRow) -> str:
            engine_of(opened, row, graph).resubmit(row.run_id, queue=queue)
            return "resubmitted"

        rows = chosen_runs(opened, runs, chosen)
        return change_runs(
            rows, resubmitted, "resubmitted", dry_run=dry_run, as_json=as_json, allowed=_STOPPED
        )

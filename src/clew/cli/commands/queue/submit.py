"""``clew submit``: put a run into a queue."""

from __future__ import annotations

from typing import Annotated

from clew import Engine
from clew.cli.declarations import option
from clew.cli.options import (
    AttributeOption,
    IdOption,
    JsonOption,
    StoreOption,
    TargetArgument,
    ThreadOption,
    attributes_of,
    store_at,
    time_of,
)
from clew.cli.output import command, note, say_json, say_line
from clew.cli.run_output import id_of
from clew.cli.values import ValuesArgument, ValuesFile, read_values
from clew.runtime.loader import complete, load_graph
from clew.runtime.workers.unserved import known_queues


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
) -> int:
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
    return 0

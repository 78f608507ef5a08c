"""``clew replay``: check that the current code still produces the recorded results."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from clew.cli.declarations import argument, flag
from clew.cli.options import GraphOption, JsonOption, StoreOption, find_run, store_at
from clew.cli.output import CommandError, say, say_json
from clew.graph import Graph
from clew.runtime.loader import load_graph


def replay(
    run: Annotated[
        str | None,
        argument("RUN", "Id of a run, or the beginning of one. With --all: the store.", show_default=False),
    ] = None,
    everything: Annotated[bool, flag("--all", "Replay every run of the store.")] = False,
    keep_going: Annotated[
        bool, flag("--keep-going", "List all differences instead of stopping at the first.")
    ] = False,
    graph: GraphOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check that the code still produces the recorded results.

    Nodes run again, and recorded calls return their recorded results. Nothing outside the process is called.

    \b
    Examples:
      clew replay flow-1a2b3c
      clew replay recorded.db --all      exits with 1 if a run differs
    """
    if everything and run is not None and store is None:
        run, store = None, run  # clew replay runs.db --all
    if everything is (run is not None):
        raise CommandError("replay needs a run", "give RUN or --all")
    with store_at(store) as opened:
        runs = None if run is None else [find_run(opened, run).run_id]
        given = None if graph is None else load_graph(graph)
        return report(opened, given, runs, strict=not keep_going, as_json=as_json)


def report(store: Any, graph: Graph | None, runs: list[str] | None, *, strict: bool, as_json: bool) -> int:
    """Replay some runs, or all for None, print each result and return the exit code."""
    from clew.runtime.review.regression import ReplayVerdict, replays

    found: list[ReplayVerdict] = []
    for verdict in replays(store, graph, runs, strict=strict):
        found.append(verdict)
        if not as_json:
            say(verdict)
    good = sum(verdict.ok for verdict in found)
    if as_json:
        say_json([_plain(verdict) for verdict in found])
    elif runs is None:
        say(f"{good} of {len(found)} runs replay")
    return 0 if good == len(found) else 1


def _plain(verdict: Any) -> dict[str, Any]:
    report = None if verdict.report is None else msgspec.to_builtins(verdict.report)
    return {"run_id": verdict.run_id, "ok": verdict.ok, "report": report, "problem": verdict.problem or None}

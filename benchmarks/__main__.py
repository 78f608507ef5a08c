"""The command line: `python -m benchmarks --help`.

Rows are printed as they are measured. It exits with 1 when a contestant failed or gave a wrong answer; a
missed bar is a finding and no failure.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report
from benchmarks.calls import calls
from benchmarks.chain import async_chain, chain
from benchmarks.clusters import clusters
from benchmarks.concurrent_runs import concurrent
from benchmarks.contestants import load
from benchmarks.durable import durable, durable_bytes
from benchmarks.explore import explore
from benchmarks.fanout import fanout
from benchmarks.imports import imports
from benchmarks.incremental import incremental
from benchmarks.large_values import large_values
from benchmarks.loop import loop
from benchmarks.page import page
from benchmarks.queued_runs import queue
from benchmarks.reading import list_runs, open_run
from benchmarks.restore_postgres import restore_postgres
from benchmarks.restore_redis import restore_redis
from benchmarks.restore_sqlite import restore_sqlite
from benchmarks.resume import resume
from benchmarks.rows import Result, Settings, Workload
from benchmarks.sleeping import sleeping
from benchmarks.stall import stall
from benchmarks.tracing import tracing
from benchmarks.uneven import uneven

WORKLOADS: dict[str, Workload] = {
    "chain": chain,
    "async-chain": async_chain,
    "loop": loop,
    "fanout": fanout,
    "clusters": clusters,
    "uneven": uneven,
    "durable": durable,
    "durable-bytes": durable_bytes,
    "concurrent": concurrent,
    "queue": queue,
    "resume": resume,
    "sleeping": sleeping,
    "list": list_runs,
    "open": open_run,
    "page": page,
    "stall": stall,
    "tracing": tracing,
    "large-values": large_values,
    "explore": explore,
    "restore-postgres": restore_postgres,
    "restore-sqlite": restore_sqlite,
    "restore-redis": restore_redis,
    "incremental": incremental,
    "import": imports,
    "calls": calls,
}
ROUNDS = 7
FEWEST_ROUNDS = 5  # fewer make no median worth printing


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    # Peers log and warn about their own internals; neither belongs between the rows.
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    settings = Settings(options.rounds or (FEWEST_ROUNDS if options.quick else ROUNDS), options.quick)
    names = options.only or list(WORKLOADS)
    contestants = load(names)
    taken = report.heading(contestants, settings.rounds)  # before this run is itself what loads the machine
    print(taken, flush=True)
    results: list[Result] = []
    for name in names:
        entered = tuple(each for each in contestants if each.only in (None, name))
        for result in WORKLOADS[name](entered, settings):
            results.append(result)
            print(f"\n{report.text(result)}", flush=True)
    growth = report.growth(results)
    if growth:
        print(f"\n{growth}")
    if options.json is not None:
        options.json.write_text(report.as_json(results, contestants, taken), encoding="utf-8")
    if options.markdown is not None:
        options.markdown.write_text(report.markdown(results, contestants, taken), encoding="utf-8")
    return int(any(outcome.status == "failed" for result in results for outcome in result.outcomes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Clew, its peers and a floor.")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and shorter samples")
    parser.add_argument(
        "--only", action="append", choices=WORKLOADS, help="this workload; may be given again"
    )
    parser.add_argument(
        "--rounds", type=_rounds, help=f"samples a contestant gives, at least {FEWEST_ROUNDS}"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the results as a Markdown table")
    return parser


def _rounds(given: str) -> int:
    if not given.isdigit() or int(given) < FEWEST_ROUNDS:
        raise argparse.ArgumentTypeError(f"a number of at least {FEWEST_ROUNDS}")
    return int(given)


if __name__ == "__main__":
    sys.exit(main())

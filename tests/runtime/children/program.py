"""A program that a test kills. It forks for each line of its input: a store, a file for effects, and a crash point.

The fork runs or resumes a run, and prints the result unless it is killed. The run has children in a loop, a child of a
child, a child that fails once, parallel nodes, and recorded calls in all of them. With "async", its nodes are async.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from pathlib import Path

from clew import Context, Engine, Graph, PostgresStore, RetryPolicy, SQLiteStore, node
from clew.runtime.process import crash_points
from clew.stores import Store

FILE = Path()  # where effects are noted


def effect(name: str) -> str:
    with FILE.open("a") as file:
        file.write(f"{name}\n")
    return name


@node(output="b")
def call(a: str, ctx: Context) -> str:
    return str(ctx.record("effect", effect, a))


@node(output="c")
def one(b: str) -> str:
    return b


@node(output="other")
def beside(b: str) -> str:
    return b.upper()


@node(output="d")
def join(c: str, other: str) -> str:
    return c + other


LEAF = Graph([call, one, beside, join], name="leaf")


@node(output="e")
def deeper(a: str, ctx: Context) -> str:
    return str(ctx.run(LEAF, {"a": f"{a}deep"})["d"])


MIDDLE = Graph([deeper], name="middle")


@node(output="b")
def fails_once(a: str, ctx: Context) -> str:
    ctx.record("effect", effect, f"{a}-before")
    if not any(line == f"{a}-failed" for line in effects()):
        effect(f"{a}-failed")
        raise ValueError(a)
    return a


def effects() -> list[str]:
    return FILE.read_text().split() if FILE.exists() else []


FAILS = Graph([fails_once], name="fails")


@node(output="y", retry=RetryPolicy(max_attempts=5, base_delay=0.001))
def outer(x: str, ctx: Context) -> list[str]:
    found = [ctx.run(LEAF, {"a": f"{x}{i}"})["d"] for i in range(2)]
    found.append(ctx.run(MIDDLE, {"a": x})["e"])
    ctx.record("effect", effect, "between")
    found.append(ctx.run(FAILS, {"a": "f"})["b"])
    return found


@node(output="y", retry=RetryPolicy(max_attempts=5, base_delay=0.001))
async def aouter(x: str, ctx: Context) -> list[str]:
    found = [(await ctx.run(LEAF, {"a": f"{x}{i}"}))["d"] for i in range(2)]
    found.append((await ctx.run(MIDDLE, {"a": x}))["e"])
    ctx.record("effect", effect, "between")
    found.append((await ctx.run(FAILS, {"a": "f"}))["b"])
    return found


GRAPHS = {"sync": Graph([outer], name="outer"), "async": Graph([aouter], name="outer")}


def opened(address: str) -> Store:
    """Open a store by its address: a file, or a PostgreSQL server and a schema."""
    dsn, bar, schema = address.partition("|")
    return PostgresStore(dsn, schema=schema) if bar else SQLiteStore(address)


def work(address: str, kind: str, crash: str) -> None:
    """Run or resume the run, and print its result."""
    if crash:
        crash_points.arm(crash)
    engine = Engine(GRAPHS[kind], store=opened(address))
    has_begun = any(row.run_id == "r" for row in engine.runs())
    if kind == "async":
        result = asyncio.run(engine.aresume("r") if has_begun else engine.arun({"x": "x"}, run_id="r"))
    else:
        result = engine.resume("r") if has_begun else engine.run({"x": "x"}, run_id="r")
    print(result.status, result["y"], flush=True)
    engine.close()


def main() -> None:
    """Fork for each line, and print "killed" if the fork was."""
    global FILE
    import psycopg  # noqa: F401

    import clew.runtime.drivers.dispatch
    import clew.runtime.process.thread_pool
    import clew.stores.postgres.store
    import clew.stores.sqlite.store  # noqa: F401

    for graph in GRAPHS.values():
        Engine(graph, store=None).graph.node_hashes
    gc.collect()
    gc.freeze()  # a collection in a child would copy all of it
    for line in sys.stdin:
        address, effects_file, kind, crash = line.rstrip("\n").split("\t")
        FILE = Path(effects_file)
        child = os.fork()
        if not child:
            try:
                work(address, kind, crash)
            except BaseException as error:
                print(repr(error), flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            print("killed", flush=True)


if __name__ == "__main__":
    main()

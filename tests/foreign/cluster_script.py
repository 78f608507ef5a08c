"""A script for a cluster that somebody else runs: everything is in this file, so it crosses by value.

``python cluster_script.py dask ADDRESS`` (or ``ray``) prints what it found as JSON.
"""

import asyncio
import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from clew import Context, Engine, Graph, node
from clew.runtime import executors

FACTOR = 3


@dataclass
class Point:
    x: int
    y: int


class PaymentError(Exception):
    def __init__(self, code):
        super().__init__(f"payment failed with {code}")
        self.code = code


class Model:
    def __init__(self, weight):
        self.weight = weight

    def predict(self, a):
        return a * self.weight


def helper(x):
    return x * FACTOR


@node(output="scaled")
def scale(a):
    return helper(a)


@node(output="point")
def locate(a) -> Point:
    return Point(a, a + 1)


@node(output="length")
def measure(point):
    assert isinstance(point, Point)
    return point.x + point.y


@node(output="fetched")
async def fetch(a, ctx: Context):
    async def get(n):
        await asyncio.sleep(0)
        return n + FACTOR

    return await asyncio.gather(*(ctx.record("get", get, n) for n in range(3)))


@node(output="kid")
def delegate(a, ctx: Context):
    return ctx.run(Graph([scale], name="child"), {"a": a})["scaled"]


@node(output="approved")
def approve(a, ctx: Context):
    return ctx.interrupt(f"may I spend {a}?")


@node(output="total")
def total(table):
    return float(table.sum())


@node(output="paid")
def pay(a):
    raise PaymentError(402)


@node(output="missing")
def use_missing(a):
    import a_module_that_no_worker_has

    return a_module_that_no_worker_has


@node(output="slow", timeout=0.5)
def slow(a):
    for _ in range(400):
        time.sleep(0.05)


@node(output="beat")
def beat(folder):
    for number in range(4_800):  # four minutes
        Path(folder, "beats").write_text(str(number))
        time.sleep(0.05)


def interrupted(on, folder):
    """Press Ctrl-C while a node runs; return whether the node stopped."""

    def press():
        while not Path(folder, "beats").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()
    try:
        Graph([beat]).run({"folder": folder}, executor=on)
    except KeyboardInterrupt:
        pass
    else:
        return False
    until = time.monotonic() + 120
    while time.monotonic() < until:
        before = Path(folder, "beats").read_text()
        time.sleep(0.5)
        if Path(folder, "beats").read_text() == before:
            return True
    return False


def main(on):
    offset, weight = 10, Model(5)
    table = np.arange(1_000_000, dtype=float)
    run = Graph([scale, locate, measure, fetch, delegate]).run({"a": 2}, executor=on)
    found = {name: run[name] for name in ("scaled", "length", "fetched", "kid")}
    found["lambda"] = Graph([node(lambda a: a + offset, name="add", output="b")]).run({"a": 2}, executor=on)[
        "b"
    ]
    found["method"] = Graph([node(weight.predict, output="b")]).run({"a": 2}, executor=on)["b"]
    found["array"] = Graph([total]).run({"table": table}, executor=on)["total"] == float(table.sum())

    engine = Engine(Graph([approve]), executor=on)
    asked = engine.run({"a": 2}, run_id="q")
    found["asked"] = [asked.status, engine.resume("q", answer="yes")["approved"]]

    error = Graph([pay]).run({"a": 1}, executor=on, check=False).error
    found["error"] = [type(error).__name__, str(error), error.code, type(error) is PaymentError]
    for name, failing in (("missing", use_missing), ("slow", slow)):
        found[name] = type(Graph([failing]).run({"a": 1}, executor=on, check=False).error).__name__
    with TemporaryDirectory() as folder:
        found["interrupted"] = interrupted(on, folder)
    found["after"] = Graph([scale]).run({"a": 1}, executor=on)["scaled"]
    return found


if __name__ == "__main__":
    with getattr(executors, sys.argv[1])(sys.argv[2]) as executor:
        print(json.dumps(main(executor)))

"""The shop: its bug is found by the shortest path, and its fixed twin is explored to the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
import redis

from clew.explore import BFS, ExplorationResult, Severity
from clew.stores.factory import open_table
from examples.shop import exploring
from examples.shop.service import PRICE, SCHEMA, STOCK, build
from examples.shop.serving import Serving
from tests.explore.systems.servers import RedisServer
from tests.stores.servers import PostgresServer

ROOT = Path(__file__).resolve().parents[2]


class Place:
    """The servers that a shop runs on."""

    def __init__(self, dsn: str, redis_url: str) -> None:
        self.dsn = dsn
        self.redis_url = redis_url


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[PostgresServer, RedisServer]]:
    postgres, cache = PostgresServer(), RedisServer()
    try:
        postgres.start()
        cache.start()
        yield postgres, cache
    finally:
        cache.remove()
        postgres.remove()


@pytest.fixture
def place(servers: tuple[PostgresServer, RedisServer]) -> Place:
    postgres, cache = servers
    with psycopg.connect(postgres.dsn, autocommit=True) as db:
        db.execute("DROP DATABASE IF EXISTS shop WITH (FORCE)")
        db.execute("CREATE DATABASE shop")
    with redis.Redis.from_url(cache.url) as client:
        client.flushall()
    return Place(postgres.dsn.replace("dbname=postgres", "dbname=shop"), cache.url)


@pytest.fixture
def filled(place: Place) -> Place:
    with psycopg.connect(place.dsn) as db:
        db.execute(SCHEMA)
    return place


def explored(place: Place, *, fixed: bool) -> ExplorationResult:
    with Serving(build(place.dsn, place.redis_url, fixed=fixed)) as serving:
        agent = exploring.agent(serving.url, place.dsn, place.redis_url, strategy=BFS(), progress=False)
        try:
            return agent.explore()
        finally:
            exploring.close(agent)


@pytest.mark.parametrize("fixed", [False, True])
def test_the_shop_sells(fixed: bool, filled: Place) -> None:
    with (
        Serving(build(filled.dsn, filled.redis_url, fixed=fixed)) as serving,
        httpx.Client(base_url=serving.url, trust_env=False, timeout=300) as client,
    ):
        assert [client.post("/orders").status_code for _ in range(STOCK + 1)] == [201] * STOCK + [409]
        assert client.post("/orders/1/refund").status_code == 409
        assert client.post("/orders/1/pay").json() == {"status": "paid"}
        assert client.get("/accounts").json() == {"1": PRICE}
        assert client.post("/orders/1/refund").json() == {"status": "refunded"}
        assert client.post("/orders/1/refund").status_code == 409
        assert client.post("/orders/1/cancel").status_code == 409
        assert client.post("/orders/2/cancel").json() == {"status": "cancelled"}
        assert client.post("/orders").status_code == 201
        assert client.get("/accounts").json() == {"1": 0}


def test_the_bug_is_found_by_the_shortest_path(filled: Place) -> None:
    result = explored(filled, fixed=False)
    (violation,) = result.violations
    assert [step.action_name for step in violation.path] == ["order", "pay", "cancel", "refund"]
    assert violation.severity is Severity.CRITICAL
    assert not result.truncated
    # the six of an order: the five of the twin, and refunded twice
    assert len(result.states) == 1 + 6 + 6 * 6
    assert len(result.transitions) == 1 + 4 * 6 + 3 * 6 * 6
    with psycopg.connect(filled.dsn) as db:  # the shop is as it was before
        assert db.execute("SELECT count(*) FROM orders").fetchone() == (0,)


def test_the_fixed_twin_is_explored_to_the_end(filled: Place) -> None:
    result = explored(filled, fixed=True)
    assert list(result.violations) == []
    assert not result.truncated
    # an order is open, paid, cancelled (paid or not) or refunded: no order, one, or two
    assert len(result.states) == 1 + 5 + 5 * 5
    assert len(result.transitions) == 1 + 4 * 5 + 3 * 5 * 5


def command(place: Place, name: str, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "clew", "explore", f"examples.shop.exploring:{name}", *options],
        cwd=ROOT,
        env={
            **os.environ,
            "SHOP_DSN": place.dsn,
            "SHOP_REDIS": place.redis_url,
            "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("name, code", [("AGENT", 1), ("fixed_shop", 0)])
def test_from_the_command_line(name: str, code: int, place: Place) -> None:
    with command(place, name) as process:
        output, errors = process.communicate(timeout=300)
    assert process.returncode == code, output + errors
    assert ("no_double_refund" in output) == (code == 1)


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_to_the_same_graph(place: Place, tmp_path: Path) -> None:
    """With both databases wherever the last action had brought them."""
    with command(place, "AGENT", "--json", "--store", str(tmp_path / "whole.db")) as process:
        whole, _ = process.communicate(timeout=300)
    store, ends = tmp_path / "explore.db", []
    for transitions in (1, 20, 50):
        with command(place, "AGENT", "--json", "--store", str(store)) as process:
            while process.poll() is None and written(store) < transitions:
                pass
            process.kill()
            process.communicate(timeout=300)
        ends.append(process.returncode)
    assert ends[0] == -signal.SIGKILL
    with command(place, "AGENT", "--json", "--store", str(store)) as process:
        output, errors = process.communicate(timeout=300)
    assert process.returncode == 1, errors
    for part in ("states", "transitions", "violations", "coverage"):
        assert json.loads(output)[part] == json.loads(whole)[part]


def written(store: Path) -> int:
    """How many transitions a store holds."""
    if not store.exists():
        return 0
    table = open_table(store, "explore:exploration")
    try:
        return table.count("t")
    finally:
        table.close()

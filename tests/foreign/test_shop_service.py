"""A FastAPI service and its workers are killed again and again while customers order, pay, answer and cancel, and hours
pass: every order ends as it should, and nothing happens twice, except the calls that were in flight when their worker
was killed."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from clew import Engine, SQLiteStore
from tests.foreign.shop_service import HOUR, SLOTS, graph

pytestmark = pytest.mark.posix

PATIENCE = 240.0
ROOT = Path(__file__).parents[2]


class Shop:
    """A process that serves, and two workers; all of them can be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = {**os.environ, "SHOP": str(folder)}
        self.workers = [self._worker(), self._worker()]
        self.server, self.url = self._serve()
        self.killed: list[int] = []  # workers

    def _start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", *words]
        return subprocess.Popen(command, cwd=ROOT, env=self._environment, text=True, **options)

    def _worker(self) -> subprocess.Popen[str]:
        return self._start("tests.foreign.shop_service")

    def _serve(self) -> tuple[subprocess.Popen[str], str]:
        words = (
            "uvicorn",
            "--factory",
            "tests.foreign.shop_service:create_app",
            "--port",
            "0",
            "--no-access-log",
        )
        server = self._start(*words, stderr=subprocess.PIPE)
        assert server.stderr is not None
        for line in server.stderr:
            if found := re.search(r"running on (http://\S+)", line):
                return server, found[1]
        raise AssertionError("the service did not start")

    def kill(self, which: int, number: int = signal.SIGKILL) -> None:
        """End a worker (0, 1) or the service (2), and start another one."""
        if which == 2:
            self.server.kill()
            self.server.communicate()
            self.server, self.url = self._serve()
        else:
            if number == signal.SIGKILL:
                self.killed.append(self.workers[which].pid)
            self.workers[which].send_signal(number)
            self.workers[which].wait(PATIENCE)
            self.workers[which] = self._worker()

    def ask(self, verb: str, path: str, **options: Any) -> httpx.Response:
        """Send a request; if the service dies, repeat it, as customers do."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return httpx.request(verb, f"{self.url}{path}", timeout=PATIENCE, **options)
            except httpx.TransportError:
                assert time.monotonic() < deadline

    def pass_hours(self, hours: float) -> None:
        """Move the clock of the store."""
        file = self.folder / "clock"
        before = float(file.read_text()) if file.exists() else 0.0
        (self.folder / "new").write_text(str(before + hours * HOUR))
        (self.folder / "new").rename(file)

    def effects(self) -> dict[str, list[int]]:
        """Return the processes that made each effect, in order."""
        file, found = self.folder / "effects", defaultdict[str, list[int]](list)
        for line in file.read_text().splitlines() if file.exists() else ():
            process, what = line.split(" ", 1)
            found[what].append(int(process))
        return found

    def stop(self) -> None:
        for process in (*self.workers, self.server):
            process.kill()
            process.communicate()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    shop.stop()


def until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.parametrize("size", [6, pytest.param(24, marks=pytest.mark.slow)])
def test_orders_of_a_shop_that_is_killed(shop: Shop, size: int) -> None:
    chance = random.Random(15)
    kinds = ["shipped", "approved", "unanswered", "unpaid", "cancelled", "declined"]
    orders = {f"o{n}": kinds[n % len(kinds)] for n in range(size)}

    def of(*wanted: str) -> list[str]:
        return [order for order, kind in orders.items() if kind in wanted]

    def status(order: str) -> dict[str, Any]:
        found: dict[str, Any] = shop.ask("GET", f"/orders/{order}").json()
        return found

    for n, (order, kind) in enumerate(orders.items()):
        price = 10 if kind == "shipped" else 500
        new = {"order": order, "price": price, "tenant": "ab"[n % 2]}
        assert shop.ask("POST", "/orders", json=new).status_code == 202
        if n % 6 == 5:
            shop.kill(chance.randrange(3), chance.choice([signal.SIGKILL, signal.SIGTERM]))
        assert shop.ask("POST", "/orders", json=new).status_code == 409  # a customer who clicks twice
    for n, order in enumerate(of("shipped", "approved", "unanswered", "declined")):
        for _ in range(2):  # the bank repeats itself
            assert shop.ask("POST", f"/orders/{order}/payment", params={"amount": n + 1}).status_code == 202
        if n % 4 == 1:
            shop.kill(chance.randrange(3))
    for order in of("cancelled"):
        assert shop.ask("DELETE", f"/orders/{order}").status_code == 202
        until(lambda order=order: status(order)["status"] == "cancelled")
        assert shop.ask("POST", f"/orders/{order}/payment", params={"amount": 1}).status_code == 409
    for order in of("approved", "declined"):
        until(lambda order=order: status(order)["questions"])
        assert shop.ask("POST", f"/orders/{order}/answer", params={"value": "perhaps"}).status_code == 422
        value = str(orders[order] == "approved").lower()
        assert shop.ask("POST", f"/orders/{order}/answer", params={"value": value}).status_code == 202
        if size > 6:
            shop.kill(chance.randrange(2))
        until(lambda order=order: not status(order)["questions"])
    assert shop.ask("GET", "/orders/nowhere").status_code == 404
    assert shop.ask("POST", "/orders/nowhere/payment", params={"amount": 1}).status_code == 404
    assert sorted(shop.ask("GET", "/orders", params={"tenant": "a"}).json()) == sorted(list(orders)[::2])
    assert shop.ask("GET", "/orders", params={"tenant": "none"}).json() == []

    until(lambda: sum(" paid " in each for each in shop.effects()) == size * 4 // 6)
    if size > 6:
        shop.kill(chance.randrange(3))
    for order, kind in orders.items():
        end = "cancelled" if kind == "cancelled" else "completed"

        def has_ended(order: str = order, end: str = end) -> bool:
            shop.pass_hours(0.5)
            return bool(status(order)["status"] == end)

        until(has_ended)
    ends = {"shipped": "shipped", "approved": "shipped"}
    expected = {
        f"{order} {ends.get(kind, 'returned')}" for order, kind in orders.items() if kind != "cancelled"
    }
    found = shop.effects()
    assert expected <= set(found)
    assert sorted(found) == sorted([*expected, *(each for each in found if " paid " in each)])
    assert len([each for each in found if " paid " in each]) == len(expected)
    assert {f"{order} paid 0" for order in of("unpaid")} <= set(found)
    repeated = Counter(process for made_by in found.values() for process in made_by[:-1])
    assert set(repeated) <= set(shop.killed)  # calls that were running when their worker was killed
    assert all(count <= SLOTS for count in repeated.values())

    store = SQLiteStore(shop.folder / "shop.db")
    with Engine(graph, store=store) as engine:
        assert all(engine.replay(order).ok for order in orders)
        assert all(engine.result(order).signals == () for order in of("approved", "unpaid"))
    store.close()

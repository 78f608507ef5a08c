"""A service of three worker processes, with signals, sleeps, questions, priorities, kills and drains: no order is lost,
and nothing happens twice, except the calls that were in flight when their worker was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from clew import Engine
from clew.errors import RunStateError, UnknownRunError
from clew.runtime.workers.worker import Worker
from tests.foreign.orders_service import SLOTS, graph, opened
from tests.stores.servers import PostgresServer

pytestmark = pytest.mark.posix

PATIENCE = 240.0
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "orders.db")
    server: PostgresServer = request.getfixturevalue("server")
    return f"{server.dsn} schema=t_{token_hex(6)}"


class Service:
    def __init__(self, target: str, folder: Path) -> None:
        self.target, self.folder = target, folder
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.foreign.orders_service", self.target]
        environment = {**os.environ, "ORDERS": str(self.folder)}
        self.workers.append(subprocess.Popen(command, cwd=ROOT, env=environment))
        return self.workers[-1]

    def stop(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.wait()

    def effects(self) -> dict[str, list[int]]:
        """Return the processes that made each effect, in order."""
        file, found = self.folder / "effects", defaultdict[str, list[int]](list)
        for line in file.read_text().splitlines() if file.exists() else ():
            process, what = line.split(" ", 1)
            found[what].append(int(process))
        return found

    def check_repeated(self, *killed: subprocess.Popen[bytes]) -> None:
        """Only calls that were in flight when their worker was killed are made again, at most one for each slot."""
        repeated = Counter(process for made_by in self.effects().values() for process in made_by[:-1])
        assert set(repeated) <= {worker.pid for worker in killed}
        assert all(count <= SLOTS for count in repeated.values())


@pytest.fixture
def service(target: str, tmp_path: Path) -> Iterator[Service]:
    service = Service(target, tmp_path)
    yield service
    service.stop()


def until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_orders_survive_kills_and_drains(service: Service) -> None:
    store = opened(service.target)
    with Engine(graph, store=store) as shop:
        for _ in range(3):
            service.start()
        cheap = [f"o{n}" for n in range(6)]
        dear = ["d0", "d1", "unanswered"]
        for n, order in enumerate([*cheap, *dear, "forgotten"]):
            price = 500 if order in dear else 10
            shop.submit(
                {"order": order, "price": price}, run_id=order, queue=("urgent", "default")[n % 2], priority=n
            )
        shop.signal("o0", "paid", {"amount": 1}, id="early")
        until(lambda: {f"{order} checked" for order in [*cheap, *dear]} <= set(service.effects()))
        service.workers[0].kill()
        service.start()
        for n, order in enumerate([*cheap[1:], *dear]):
            for _ in range(2):  # the sender is careful
                shop.signal(order, "paid", {"amount": n}, id=f"payment of {order}")
        until(lambda: service.workers[1].pid in {each.pid for each in store.workers()})  # it has started
        service.workers[1].send_signal(signal.SIGTERM)
        until(
            lambda: all(
                shop.handle(order).status == "waiting" or shop.handle(order).questions for order in dear[:2]
            )
        )
        shop.answer("d0", True)
        shop.handle("d1").answer(False)
        service.workers[2].send_signal(signal.SIGKILL)
        service.start()
        ends = {
            order: shop.handle(order).result(PATIENCE)["shipped"] for order in [*cheap, *dear, "forgotten"]
        }
        assert ends == {
            **dict.fromkeys(cheap, "shipped"),
            "d0": "shipped",
            "d1": "returned",
            "unanswered": "returned",
            "forgotten": "shipped",
        }
        assert service.workers[1].wait(PATIENCE) == 0  # it was drained
        found = service.effects()
        service.check_repeated(service.workers[0], service.workers[2])
        assert len(found) == 3 * len(ends)
        assert {"forgotten paid 0", "o0 paid 1"} <= set(found)
        assert all(shop.handle(order).result().signals == () for order in ends)
        with pytest.raises(RunStateError):
            shop.signal("o1", "paid", {"amount": 7})
        with pytest.raises(UnknownRunError):
            shop.signal("nowhere", "paid")
        assert all(shop.replay(order).ok for order in ("o1", "d1", "forgotten"))
    store.close()


def test_an_order_that_kills_its_workers_fails_alone(service: Service) -> None:
    store = opened(service.target)
    with Engine(graph, store=store) as shop:
        bad = shop.submit({"order": "poison", "price": 1})
        good = shop.submit({"order": "good", "price": 1}, run_id="good")
        good.signal("paid", {"amount": 1})
        died = 0
        while bad.status not in ("failed",):
            worker = service.start()
            until(lambda worker=worker: worker.poll() is not None or bad.status == "failed")
            died += worker.poll() is not None
            assert died <= 6
        assert type(bad.result(check=False).error).__name__ == "TriesExhaustedError"
        if all(worker.poll() is not None for worker in service.workers):
            service.start()
        assert good.result(PATIENCE)["shipped"] == "shipped"
        assert "good shipped" in service.effects()
        service.check_repeated(*(worker for worker in service.workers if worker.poll() is not None))
    store.close()


def test_orders_are_cancelled_and_submitted_again(service: Service) -> None:
    store = opened(service.target)
    os.environ["ORDERS"] = str(service.folder)
    try:
        with Engine(graph, store=store) as shop:
            handle = shop.submit({"order": "o", "price": 1}, run_id="o")
            Worker(graph, store=store, slots=1, queues=["default"]).run(until_idle=True)
            assert handle.status == "sleeping"
            assert handle.cancel()
            assert handle.result(check=False).status == "cancelled"
            with pytest.raises(RunStateError):
                handle.signal("paid", {"amount": 1})
            shop.resubmit("o")
            handle.signal("paid", {"amount": 1})
            service.start()
            assert handle.result(PATIENCE)["shipped"] == "shipped"
            service.check_repeated()
    finally:
        del os.environ["ORDERS"]
        store.close()

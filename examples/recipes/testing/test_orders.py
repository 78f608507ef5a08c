from orders import orders

from clew import Engine
from clew.testing import VirtualClock, random_order, run_in_order


class Bank:
    """A bank that is down for the first calls."""

    def __init__(self, down=0):
        self.down = down
        self.paid = {}

    def pay(self, order, key):
        if self.down:
            self.down -= 1
            raise ConnectionError("the bank is down")
        return self.paid.setdefault(key, f"receipt for {order}")


def test_an_outage_is_retried():
    bank = Bank(down=2)
    clock = VirtualClock()  # the two pauses pass at once
    result = Engine(orders(bank.pay), clock=clock).run({"order": "tea"})
    assert result["mail"] == "We received receipt for tea."
    assert result.metrics.total_retries == 2


def test_nobody_pays_twice(tmp_path):
    bank = Bank()
    engine = Engine(orders(bank.pay), store=tmp_path / "runs.db")
    run = engine.run({"order": "tea"})
    engine.resume(run.run_id)
    assert engine.replay(run.run_id).ok
    assert len(bank.paid) == 1


def test_order_of_execution_does_not_matter():
    graph = orders(Bank().pay)
    digests = {
        run_in_order(graph, {"order": "tea"}, choose=random_order(seed)).state.digest for seed in range(20)
    }
    assert len(digests) == 1

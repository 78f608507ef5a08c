from orders import graph

from clew import Engine


def test_an_order_is_charged_once():
    engine = Engine(graph)
    assert engine.run({"prices": [1, 2]}, run_id="o1")["receipt"] == "paid 3"
    assert engine.replay("o1").ok

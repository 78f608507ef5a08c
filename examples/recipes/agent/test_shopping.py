from shopping import graph

from clew import Engine

WISH = {"messages": [{"role": "user", "text": "buy tea"}]}


def test_it_orders_after_the_approval(tmp_path):
    with Engine(graph, store=tmp_path / "runs.db") as engine:
        run = engine.run(WISH, run_id="r1")
        assert run.status == "waiting"
        assert engine.resume("r1", answer=True)["messages"][-1]["text"] == "Done: tea arrives on Monday"
        assert engine.replay("r1").ok


def test_it_does_not_order_without_the_approval():
    engine = Engine(graph)
    engine.run(WISH, run_id="r1")
    assert engine.resume("r1", answer=False)["messages"][-1]["text"] == "Done: the user refused"

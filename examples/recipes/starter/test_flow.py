from flow import graph, write

from clew import Engine


def test_a_node_is_a_function():
    assert write("thread", draft="a") == "a thread"


def test_the_loop_ends_when_the_draft_is_long_enough():
    engine = Engine(graph)
    result = engine.run({"topic": "thread"})
    assert result["draft"] == "thread thread thread"
    assert engine.history(result.run_id)[-1].items == ("long_enough#2",)

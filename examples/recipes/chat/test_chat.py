from chat import graph

from clew import Engine


def test_a_thread_continues_in_another_process(tmp_path):
    for text, answer in (("Hello!", "You have said 1 things."), ("Bye.", "You have said 2 things.")):
        with Engine(graph, store=tmp_path / "chat.db") as engine:  # a new engine, as a new process has
            assert engine.run({"messages": [text]}, thread="me")["messages"][-1] == answer

"""A chat in the terminal. Each message is a run; a thread connects the runs of one conversation.

``python3 chat.py [THREAD]`` continues the thread, also after the program was stopped or killed.
"""

import operator
import sys
from typing import Annotated, TypedDict

from clew import Context, Engine, Graph, node


class Chat(TypedDict):
    messages: Annotated[list[str], operator.add]


def model(messages):
    """Stand in for a call of a model."""
    return f"You have said {sum(not said.startswith('You') for said in messages)} things."


@node(output="messages")
def reply(messages, ctx: Context):
    return [ctx.record("model", model, messages)]


graph = Graph([reply], state=Chat, name="chat")


def main(thread="me"):
    with Engine(graph, store="chat.db") as engine:
        for line in sys.stdin:
            result = engine.run({"messages": [line.strip()]}, thread=thread)
            print(result["messages"][-1], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

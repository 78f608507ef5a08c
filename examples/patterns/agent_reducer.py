"""An agent over one list of messages, with a reducer: each node returns only its new messages.

The shape is that of ``agent_messages.py``, but the list is declared as ``Annotated[list, operator.add]``, so Clew
concatenates. Two tools can add to the list in one step; without a reducer, two writers would be a conflict. A step
stores only what was added, so a long conversation costs only its new messages.
"""

import operator
import re
from typing import Annotated, TypedDict

from clew import Graph, Send, node, route

CAPITALS = {"france": "Paris", "japan": "Tokyo", "peru": "Lima"}
PEOPLE = {"Paris": 2_100_000, "Tokyo": 14_200_000, "Lima": 10_100_000}


class Conversation(TypedDict):
    messages: Annotated[list[dict[str, str]], operator.add]


@node(writes="messages")
def assistant(state: Conversation) -> dict[str, list[dict[str, str]]]:
    """Act as the model: look up every country, then every city found, then answer."""
    said = state["messages"]
    asked = set(re.findall(r"[a-z]+", said[0]["content"].lower())) & set(CAPITALS)
    done = {m["about"] for m in said if m["role"] == "tool"}
    found = [m["content"] for m in said if m["role"] == "tool" and m["about"] in CAPITALS]
    wanted = sorted(asked - done) or sorted(set(found) - done)
    if wanted:
        return {"messages": [{"role": "assistant", "calls": " ".join(wanted)}]}
    largest = max(found, key=lambda city: PEOPLE[city])
    return {
        "messages": [{"role": "assistant", "content": f"{largest} is the largest of {', '.join(found)}."}]
    }


@route(targets=["look_up"], after="assistant")
def next_turn(state: Conversation) -> list[Send]:
    """Send all calls of a turn at once, one item each. Without calls nothing is selected, and the loop ends."""
    calls = state["messages"][-1].get("calls", "")
    return [Send("look_up", {"name": name}) for name in calls.split()]


@node(writes="messages")
def look_up(name: str) -> dict[str, list[dict[str, str]]]:
    found = CAPITALS.get(name) or str(PEOPLE[name])
    return {"messages": [{"role": "tool", "about": name, "content": found}]}


graph = Graph(
    [assistant, next_turn, look_up],
    name="agent",
    state=Conversation,
    edges=[("look_up", "assistant")],
    entry="assistant",
)
values = {"messages": [{"role": "user", "content": "Which capital is largest: of France, Japan or Peru?"}]}

if __name__ == "__main__":
    for message in graph.run(values)["messages"]:
        about = f" ({message['about']})" if "about" in message else ""
        print(f"{message['role']:>9}{about}: {message.get('content') or 'look up ' + message['calls']}")

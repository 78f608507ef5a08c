"""`Command`: a node that writes values and decides what runs next, in one return value.

A tiny text adventure. Each room is a node: it reads the player's next word, writes what happened, and goes to the next
room. The possible rooms are declared with `goto=[...]`, so the graph can be checked and drawn. Reading the whole state
does not wake a room; a room runs only when another room goes there.
"""

import operator
from typing import Annotated, TypedDict

from clew import END, Command, Graph, node


class Story(TypedDict):
    words: list[str]
    bag: Annotated[list[str], operator.add]
    told: Annotated[list[str], operator.add]


def turn(state: Story, told: str, goto: object, found: str = "") -> Command:
    """Consume a word, record what happened, and add what was found to the bag."""
    update = {"words": state["words"][1:], "told": [told], "bag": [found] if found else []}
    return Command(update=update, goto=goto)


WRITES = ["words", "told", "bag"]


@node(writes=WRITES, goto=["gate", "hall", END])
def gate(state: Story) -> Command:
    match state["words"][:1]:
        case ["take"] if "thread" not in state["bag"]:
            return turn(state, "You take the ball of thread from the peg.", "gate", "thread")
        case ["in"]:
            return turn(state, "You step into the dark hall.", "hall")
        case ["out"] if "horn" in state["bag"]:
            return turn(state, "You walk into the sun. They will sing of you.", END)
    return Command(update={"told": ["You fall asleep before the gate."]}, goto=END)


@node(writes=WRITES, goto=["hall", "gate", "lair", END])
def hall(state: Story) -> Command:
    match state["words"][:1]:
        case ["left"]:
            return turn(state, "The passage bends, and you are in the hall again.", "hall")
        case ["right"]:
            return turn(state, "Something breathes in here.", "lair")
        case ["back"] if "thread" in state["bag"]:
            return turn(state, "You follow the thread back to the gate.", "gate")
    return Command(update={"told": ["You walk in circles for ever."]}, goto=END)


@node(writes=WRITES, goto=["hall", END])
def lair(state: Story) -> Command:
    if state["words"][:1] == ["fight"]:
        return turn(state, "You win, barely, and keep a horn.", "hall", "horn")
    return Command(update={"told": ["It was hungry."]}, goto=END)


graph = Graph([gate, hall, lair], name="labyrinth", state=Story, entry="gate")
values = {"words": ["take", "in", "left", "right", "fight", "back", "out"]}

if __name__ == "__main__":
    for words in (values["words"], ["in", "right", "fight", "back"]):
        result = graph.run({"words": words})
        print(*result["told"], f"    (bag: {', '.join(result['bag'])})", sep="\n")

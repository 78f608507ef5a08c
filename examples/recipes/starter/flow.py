"""The graph: two functions and a gate. Clew connects them by the names of their parameters and outputs."""

from clew import END, Graph, ifelse, node


@node(output="draft")
def write(topic, draft=""):  # reads `topic` and its own last `draft`
    return f"{draft} {topic}".strip()


@ifelse(when_true=END, when_false="write")  # a loop: back to `write` until the draft is long enough
def long_enough(draft, length=15):
    return len(draft) > length


graph = Graph([write, long_enough], name="starter")

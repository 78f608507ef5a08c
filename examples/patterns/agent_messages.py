"""An agent over one list of messages, without a reducer: each node returns the whole list.

`assistant` reads `messages`, and answers or requests a tool. `tools` reads `messages`, computes and adds the result.
Both nodes write the list that both read. Neither wakes itself, because the writes of a node do not wake that node.
The model is a few rules, so the example runs offline.
"""

import ast
import operator
import re
from collections.abc import Callable

from clew import END, Graph, ifelse, node

Message = dict[str, str]
OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def evaluate(expression: str) -> float:
    """Evaluate arithmetic, and reject everything else."""

    def value(part: ast.expr) -> float:
        if isinstance(part, ast.BinOp):
            return OPERATORS[type(part.op)](value(part.left), value(part.right))
        if isinstance(part, ast.Constant) and isinstance(part.value, int | float):
            return part.value
        raise ValueError(f"not arithmetic: {ast.unparse(part)}")

    return value(ast.parse(expression, mode="eval").body)


def reply(messages: list[Message]) -> Message:
    """Act as the model: request the first sum without a result, or answer with all results."""
    known = dict(m["content"].split(" = ") for m in messages if m["role"] == "tool")
    sums = re.findall(r"\d[\d.+*/ -]*\d", messages[0]["content"])
    unknown = [sum_ for sum_ in sums if sum_ not in known]
    if unknown:
        return {"role": "assistant", "call": unknown[0]}
    return {"role": "assistant", "content": " and ".join(f"{sum_} is {known[sum_]}" for sum_ in sums)}


@node(output="messages")
def assistant(messages: list[Message]) -> list[Message]:
    return [*messages, reply(messages)]


@ifelse(when_true="tools", when_false=END)
def asks_for_tool(messages: list[Message]) -> bool:
    return "call" in messages[-1]


@node(output="messages")
def tools(messages: list[Message]) -> list[Message]:
    expression = messages[-1]["call"]
    return [*messages, {"role": "tool", "content": f"{expression} = {evaluate(expression):g}"}]


graph = Graph([assistant, asks_for_tool, tools], name="agent")
values = {"messages": [{"role": "user", "content": "What is 19 * 21, and what is 7 / 2 + 1?"}]}

if __name__ == "__main__":
    for message in graph.run(values)["messages"]:
        print(f"{message['role']:>9}: {message.get('content') or 'work out ' + message['call']}")

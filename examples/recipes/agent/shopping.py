import operator
from typing import Annotated, TypedDict

from clew import END, Context, Graph, node, route


class Chat(TypedDict):
    messages: Annotated[list[dict], operator.add]


def model(messages):
    """Stand in for a call of a model: order what the user wants, then report."""
    last = messages[-1]
    if last["role"] == "user":
        return {"role": "assistant", "tool": "order", "arguments": {"item": last["text"].split()[-1]}}
    return {"role": "assistant", "text": f"Done: {last['text']}"}


def order(item):
    print(f"  (ordering {item})")
    return f"{item} arrives on Monday"


TOOLS = {"order": order}
NEEDS_APPROVAL = {"order"}


@node(output="messages")
def think(messages, ctx: Context):
    return [ctx.record("model", model, messages)]


@route(targets=["use_tool", END])
def decide(messages):
    return "use_tool" if "tool" in messages[-1] else END


@node(output="messages")
def use_tool(messages, ctx: Context):
    call = messages[-1]
    name, arguments = call["tool"], call["arguments"]
    if name in NEEDS_APPROVAL and not ctx.interrupt(f"Allow {name}({arguments})?"):
        return [{"role": "tool", "text": "the user refused"}]
    return [{"role": "tool", "text": ctx.record(name, TOOLS[name], **arguments)}]


graph = Graph(
    [think, decide, use_tool], state=Chat, entry="think", edges=[("use_tool", "think")], name="agent"
)

"""A graph inside a graph, each with its own state; two functions convert values between them.

The outer graph imports contacts: its state is a TypedDict with the raw lines and the results. The inner graph cleans
one contact: its state is a dataclass that knows nothing about files. `transform_input` makes the inner values from
what the item reads, including the payload of its `Send`. `transform_output` turns the final inner state into an update
of the outer one. The inner steps belong to the chain of the run, under the path of their item.
"""

import operator
import re
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

from clew import Graph, Send, node, route


@dataclass
class Contact:
    """The inner state."""

    raw_name: str
    raw_phone: str
    country: str = "+30"
    name: str = ""
    phone: str = ""
    problems: Annotated[list[str], operator.add] = field(default_factory=list)


@node(output="name")
def tidy_name(raw_name: str) -> str:
    return " ".join(part.capitalize() for part in raw_name.replace(",", " ").split())


@node(writes=["phone", "problems"])
def tidy_phone(raw_phone: str, country: str) -> dict[str, Any]:
    digits = re.sub(r"\D", "", raw_phone)
    if len(digits) < 7:
        return {"phone": "", "problems": [f"{raw_phone!r} is too short"]}
    return {"phone": f"{country} {digits[-10:-7] or '0'} {digits[-7:-4]} {digits[-4:]}"}


cleaning = Graph([tidy_name, tidy_phone], name="cleaning", state=Contact)


class Import(TypedDict):
    """The outer state."""

    lines: list[str]
    contacts: Annotated[list[tuple[str, str]], operator.add]
    rejected: Annotated[list[str], operator.add]
    report: str


def read_line(seen: dict[str, Any]) -> Contact:
    name, _, phone = seen["line"].partition(";")
    return Contact(raw_name=name, raw_phone=phone)


def sort_contact(contact: Contact) -> dict[str, Any]:
    if contact.problems:
        return {"rejected": [f"{contact.name}: {', '.join(contact.problems)}"]}
    return {"contacts": [(contact.name, contact.phone)]}


@route(targets=["clean"])
def each_line(lines: list[str]) -> list[Send]:
    return [Send("clean", {"line": line}) for line in lines if line.strip()]


clean = cleaning.as_node(
    "clean",
    inputs=("line",),
    outputs=("contacts", "rejected"),
    transform_input=read_line,
    transform_output=sort_contact,
)


@node(output="report", after="clean")
def report(contacts: list[tuple[str, str]], rejected: list[str]) -> str:
    return f"{len(contacts)} imported, {len(rejected)} rejected"


graph = Graph([each_line, clean, report], name="import", state=Import)
values = {"lines": ["icarus,  daedalou; 210-555-0134", "MINOS;(281) 555 0199", "  ", "scylla;12-34"]}

if __name__ == "__main__":
    result = graph.run(values)
    for name, phone in result["contacts"]:
        print(f"{name:20} {phone}")
    print(*result["rejected"], result["report"], sep="\n")

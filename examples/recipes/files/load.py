"""Load many files, some of them bad. The bad ones are reported, and the others are loaded."""

import json
import operator
from pathlib import Path
from typing import Annotated, TypedDict

from clew import Graph, Send, node, route


class Load(TypedDict):
    folder: str
    files: list[str]
    rows: Annotated[list[dict], operator.add]
    report: dict


@node(output="files")
def find(folder):
    return sorted(str(path) for path in Path(folder).glob("*.json"))


@route(targets=["load"])
def each_file(files):
    return [Send("load", {"file": file}) for file in files]


def bad_file(error, file):
    return [{"file": file, "error": str(error)}]


@node(output="rows", rescue=bad_file)
def load(file):
    return [{"file": file, "amount": json.loads(Path(file).read_text())["amount"]}]


@node(output="report")
def report(rows):
    bad = [row["file"] for row in rows if "error" in row]
    return {"files": len(rows), "total": sum(row.get("amount", 0) for row in rows), "bad": bad}


graph = Graph([find, each_file, load, report], state=Load, name="files")

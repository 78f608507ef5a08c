"""A supervisor that distributes work and combines the results: map and reduce with Sends.

`supervise` sends each document of a batch to the worker for its kind. The workers run concurrently. Reducers combine
their results in `terms` and `notes`: workers in the order of declaration, items in the order of the Sends. So the
result does not depend on timing. `summarize` runs once, after all of them.
"""

import csv
import json
import operator
import re
from collections import Counter
from typing import Annotated, TypedDict

from clew import Graph, Send, node, route


def add_counts(current: dict[str, int], update: dict[str, int]) -> dict[str, int]:
    """Add up counts; the reducer of `terms`. Sorted, so that equal counts have equal digests."""
    return dict(sorted((Counter(current) + Counter(update)).items()))


class Desk(TypedDict):
    documents: dict[str, str]
    terms: Annotated[dict[str, int], add_counts]
    notes: Annotated[list[str], operator.add]
    summary: str


@route(targets=["read_prose", "read_table", "read_record", "summarize"])
def supervise(documents: dict[str, str]) -> list[Send] | str:
    worker = {"txt": "read_prose", "csv": "read_table", "json": "read_record"}
    return [
        Send(worker[name.rpartition(".")[2]], {"name": name, "text": text})
        for name, text in documents.items()
    ] or "summarize"


@node(writes=["terms", "notes"])
def read_prose(name: str, text: str) -> dict[str, object]:
    words = re.findall(r"[a-z]{4,}", text.lower())
    return {"terms": dict(Counter(words)), "notes": [f"{name}: {len(words)} words"]}


@node(writes=["terms", "notes"])
def read_table(name: str, text: str) -> dict[str, object]:
    rows = list(csv.DictReader(text.splitlines()))
    return {"terms": dict(Counter(row["part"] for row in rows)), "notes": [f"{name}: {len(rows)} rows"]}


@node(writes=["terms", "notes"])
def read_record(name: str, text: str) -> dict[str, object]:
    parts: list[str] = json.loads(text)["parts"]
    return {"terms": dict(Counter(parts)), "notes": [f"{name}: {len(parts)} parts"]}


@node(output="summary", after=[read_prose, read_table, read_record])
def summarize(terms: dict[str, int], notes: list[str]) -> str:
    most = sorted(terms, key=lambda term: (-terms[term], term))[:3]
    return f"{len(notes)} documents, most about {', '.join(f'{term} ({terms[term]})' for term in most)}"


graph = Graph([supervise, read_prose, read_table, read_record, summarize], name="desk", state=Desk)
values = {
    "documents": {
        "monday.txt": "The pump is loud. A valve leaks, and the pump needs a seal.",
        "stock.csv": "part,shelf\npump,A1\nseal,B2\nseal,B3\nvalve,C1\n",
        "order-17.json": '{"parts": ["seal", "valve", "pump", "pump"]}',
        "tuesday.txt": "New seal fitted; pump quiet again.",
    }
}

if __name__ == "__main__":
    result = graph.run(values)
    print("\n".join(result["notes"]))
    print(result["summary"])

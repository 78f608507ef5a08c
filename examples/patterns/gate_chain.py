"""Gates that lead to gates: each asks one question, and a node runs only at the end of the chain.

A log line is triaged: is it an error, has it been seen before, is it urgent? A gate that another gate selects waits
for that selection, like any target. `report` runs after the selected outcome.
"""

import re

from clew import Graph, ifelse, node, route


@ifelse(when_true="is_known", when_false="archive")
def is_error(line: str) -> bool:
    return re.search(r"\b(ERROR|FATAL)\b", line) is not None


@ifelse(when_true="count", when_false="urgency")
def is_known(line: str, known: list[str]) -> bool:
    return any(re.search(pattern, line) for pattern in known)


@route(targets=["page", "ticket"])
def urgency(line: str) -> str:
    return "page" if "FATAL" in line or "data loss" in line else "ticket"


@node(output="outcome")
def archive(line: str) -> str:
    return f"archived: {line[:40]}"


@node(output="outcome")
def count(line: str, known: list[str]) -> str:
    number = next(i for i, pattern in enumerate(known, 1) if re.search(pattern, line))
    return f"counted as known problem {number}: {line.partition('] ')[2]}"


@node(output="outcome")
def ticket(line: str) -> str:
    service = re.search(r"\[(\w+)\]", line)
    return f"ticket for {service[1] if service else 'operations'}: {line.partition('] ')[2]}"


@node(output="outcome")
def page(line: str) -> str:
    return f"somebody is called: {line.partition('] ')[2]}"


@node(after=[archive, count, ticket, page])
def report(outcome: str) -> str:
    return outcome[0].upper() + outcome[1:] + "."


graph = Graph([is_error, is_known, urgency, archive, count, ticket, page, report], name="triage")
known = [r"connection reset by peer", r"retry \d of \d"]
values = {"line": "04:12:09 FATAL [ledger] checksum mismatch in segment 7", "known": known}

if __name__ == "__main__":
    for line in (
        values["line"],
        "04:12:10 INFO  [web] GET /health 200",
        "04:12:11 ERROR [mail] connection reset by peer",
        "04:12:12 ERROR [search] index 3 is missing",
    ):
        result = graph.run(line=line, known=known)
        print(f"{' -> '.join(result.state.visits)}\n    {result['report']}")

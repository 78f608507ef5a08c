"""How well the pipeline answers on everyday databases: `python benchmarks/nl2sql_everyday.py [--list]`.

It scores the whole pipeline, as `clew ask` runs it, and not only the planner. An answer is right if its rows are the
gold query's rows; more columns than the gold query has are allowed. An answer to a question that the tables cannot
answer is wrong. `partial` and `abstained` are counted apart: they are neither right nor wrong.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a file as well as with -m

from benchmarks.everyday import TODAY, Part
from benchmarks.everyday.agency import AGENCY
from benchmarks.everyday.clinic import CLINIC
from benchmarks.everyday.webshop import WEBSHOP
from benchmarks.nl2sql_execution import is_ordered, normal, same_answer
from clew_nl2sql import Answer, Pipeline
from clew_nl2sql.decompose import LinkingDecomposer

PARTS = (WEBSHOP, CLINIC, AGENCY)
OUTCOMES = ("right", "wrong", "partial", "abstained")


class Verdict(NamedTuple):
    """What became of one question."""

    part: str
    question: str
    outcome: str
    answer: Answer


def make(part: Part, folder: Path, dialect: str) -> str:
    """Make the database of a part, and return its address."""
    tables = part.rows()
    if dialect == "duckdb":
        import duckdb

        path = folder / f"{part.name}.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute(part.script)
            _fill(connection, tables)
        return f"duckdb:///{path}"
    path = folder / f"{part.name}.db"
    with sqlite3.connect(path) as opened:
        opened.executescript(part.script)
        _fill(opened, tables)
    opened.close()
    return f"sqlite:///{path}"


def _fill(connection: Any, tables: dict[str, list[tuple[object, ...]]]) -> None:
    for name, rows in tables.items():
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)


def gold_rows(part: Part, folder: Path) -> dict[str, list[tuple[Any, ...]] | None]:
    """Return the rows that answer each question, computed by SQLite."""
    path = folder / f"{part.name}-gold.db"
    with sqlite3.connect(path) as opened:
        opened.executescript(part.script)
        _fill(opened, part.rows())
        found = {q: opened.execute(sql).fetchall() if sql else None for q, sql in part.questions}
    opened.close()
    return found


def judge(answer: Answer, gold: list[tuple[Any, ...]] | None, ordered: bool) -> str:
    """Return the outcome of one answer."""
    if answer.status == "partial":
        return "partial"
    if answer.status != "answered":
        return "abstained"
    if gold is None:
        return "wrong"
    return "right" if _covers(list(answer.rows), gold, ordered) else "wrong"


def _covers(rows: list[tuple[Any, ...]], gold: list[tuple[Any, ...]], ordered: bool) -> bool:
    if not gold or not rows:
        return gold == rows
    width, wanted = len(gold[0]), normal(gold)
    if len(rows[0]) > width + 3:
        return False
    chosen = permutations(range(len(rows[0])), width)
    return any(
        same_answer(wanted, normal([tuple(row[n] for n in order) for row in rows]), ordered=ordered)
        for order in chosen
    )


def evaluate(part: Part, dialect: str = "sqlite") -> list[Verdict]:
    """Ask every question of a part."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        gold = gold_rows(part, folder)
        decomposer = LinkingDecomposer(today=lambda: TODAY)
        verdicts = []
        with Pipeline({part.name: make(part, folder, dialect)}, decomposer=decomposer) as pipeline:
            for question, sql in part.questions:
                answer = pipeline.ask(question)
                outcome = judge(answer, gold[question], bool(sql) and is_ordered(str(sql)))
                verdicts.append(Verdict(part.name, question, outcome, answer))
    return verdicts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dialect", choices=("sqlite", "duckdb"), default="sqlite")
    parser.add_argument("--list", action="store_true", help="print every question with its answer")
    arguments = parser.parse_args()
    print(f"{'':10} questions " + " ".join(f"{name:>9}" for name in OUTCOMES))
    whole: Counter[str] = Counter()
    for part in PARTS:
        verdicts = evaluate(part, arguments.dialect)
        counts = Counter(v.outcome for v in verdicts)
        whole += counts
        print(f"{part.name:10} {len(verdicts):9} " + " ".join(f"{counts[name]:9}" for name in OUTCOMES))
        for v in verdicts if arguments.list else ():
            print(f"  {v.outcome:9} {v.question}\n            {v.answer.text[:150]}")
            print("".join(f"            {sql}\n" for sql in v.answer.sql.values()), end="")
    print(f"{'all':10} {whole.total():9} " + " ".join(f"{whole[name]:9}" for name in OUTCOMES))


if __name__ == "__main__":
    main()

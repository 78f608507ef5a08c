"""How well the pipeline answers on everyday databases: `python benchmarks/nl2sql_everyday.py [--list]`.

It scores the whole pipeline, as `clew ask` runs it, and not only the planner. An answer is right if its rows are the
gold query's rows; more columns than the gold query has are allowed. An answer to a question that the tables cannot
answer is wrong. `partial` and `abstained` are counted apart: they are neither right nor wrong.

A question that is not answered is asked again by a person, who gets up to three readings: `among` counts the questions
whose gold rows are the rows of a reading.
"""

from __future__ import annotations

import argparse
import atexit
import sqlite3
import sys
import tempfile
from collections import Counter
from datetime import date
from decimal import Decimal
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a file as well as with -m

from benchmarks.everyday import TODAY, Part, Rows
from benchmarks.everyday.agency import AGENCY
from benchmarks.everyday.bikes import BIKES
from benchmarks.everyday.brewery import BREWERY
from benchmarks.everyday.catering import CATERING
from benchmarks.everyday.charity import CHARITY
from benchmarks.everyday.clinic import CLINIC
from benchmarks.everyday.freight import FREIGHT
from benchmarks.everyday.garage import GARAGE
from benchmarks.everyday.gym import GYM
from benchmarks.everyday.hotel import HOTEL
from benchmarks.everyday.insurance import INSURANCE
from benchmarks.everyday.letting import LETTING
from benchmarks.everyday.library import LIBRARY
from benchmarks.everyday.museum import MUSEUM
from benchmarks.everyday.parcels import PARCELS
from benchmarks.everyday.school import SCHOOL
from benchmarks.everyday.servicedesk import SERVICEDESK
from benchmarks.everyday.solar import SOLAR
from benchmarks.everyday.theatre import THEATRE
from benchmarks.everyday.translation import TRANSLATION
from benchmarks.everyday.vet import VET
from benchmarks.everyday.waste import WASTE
from benchmarks.everyday.webshop import WEBSHOP
from benchmarks.nl2sql_execution import is_ordered, normal, same_answer
from clew_nl2sql import Answer, Pipeline
from clew_nl2sql.decompose import LinkingDecomposer

if TYPE_CHECKING:
    from tests.stores.servers import PostgresServer

EARLY = (WEBSHOP, CLINIC, AGENCY, BIKES, VET, LETTING, FREIGHT, GYM, PARCELS)
PARTS = (*EARLY, LIBRARY, THEATRE, SCHOOL, MUSEUM, SOLAR, HOTEL)
LATER = (
    GARAGE,
    CHARITY,
    SERVICEDESK,
    TRANSLATION,
    WASTE,
    BREWERY,
)  # asked once before rules were made of them
HELD_ASIDE = (CATERING, INSURANCE)  # asked once; no rule is made of them
OUTCOMES = ("right", "wrong", "partial", "abstained")


class Verdict(NamedTuple):
    """What became of one question."""

    part: str
    question: str
    outcome: str
    answer: Answer
    among: bool = False  # a person who is asked back can choose the right reading


def make(part: Part, folder: Path, dialect: str) -> str:
    """Make the database of a part, and return its address."""
    tables = part.rows()
    if dialect == "postgres":
        return _in_postgres(part, tables)
    if dialect == "duckdb":
        import duckdb

        path = folder / f"{part.name}.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute(part.script)
            for name, rows in tables.items():
                _fill_duckdb(connection, name, rows)
        return f"duckdb:///{path}"
    path = folder / f"{part.name}.db"
    with sqlite3.connect(path) as opened:
        opened.executescript(part.script)
        _fill(opened, tables)
    opened.close()
    return f"sqlite:///{path}"


def _fill(connection: sqlite3.Connection, tables: Rows) -> None:
    for name, rows in tables.items():
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)


def _fill_duckdb(connection: Any, name: str, rows: list[tuple[object, ...]]) -> None:
    import pyarrow as pa

    columns = {f"c{n}": pa.array(values) for n, values in enumerate(zip(*rows))}
    connection.register("new_rows", pa.table(columns))
    connection.execute(f"INSERT INTO {name} SELECT * FROM new_rows")
    connection.unregister("new_rows")


def _in_postgres(part: Part, tables: Rows) -> str:
    import psycopg

    server = postgres_server()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {part.name}")
        connection.execute(f"CREATE DATABASE {part.name}")
    address = f"postgresql://postgres@/{part.name}?host={server.folder}"
    with psycopg.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute(part.script)
        for name, rows in tables.items():
            booleans = _booleans(cursor, name)
            with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row([bool(v) if n in booleans else v for n, v in enumerate(row)])
    return address


def _booleans(cursor: Any, table: str) -> set[int]:
    cursor.execute(f"SELECT * FROM {table} LIMIT 0")
    return {n for n, column in enumerate(cursor.description) if column.type_code == 16}


@cache
def postgres_server() -> PostgresServer:
    """Start a server for the databases; it ends with this process."""
    from tests.stores.servers import PostgresServer

    server = PostgresServer()
    atexit.register(server.remove)
    server.start()
    return server


Gold = list[list[tuple[Any, ...]]]
"""The rows of each query that answers a question; no query answers one that the tables cannot answer."""


def gold_rows(part: Part, folder: Path) -> dict[str, Gold]:
    """Return the rows that answer each question, computed by SQLite."""
    path = folder / f"{part.name}-gold.db"
    with sqlite3.connect(path) as opened:
        opened.executescript(part.script)
        _fill(opened, part.rows())
        found = {
            question: [
                opened.execute(query).fetchall()
                for query in (sql, *part.alternatives.get(question, ()))
                if query is not None
            ]
            for question, sql in part.questions
        }
    opened.close()
    return found


def judge(answer: Answer, gold: Gold, ordered: bool) -> str:
    """Return the outcome of one answer."""
    if answer.status == "partial":
        return "partial"
    if answer.status != "answered":
        return "abstained"
    return "right" if any(_covers(list(answer.rows), rows, ordered) for rows in gold) else "wrong"


def _covers(rows: list[tuple[Any, ...]], gold: list[tuple[Any, ...]], ordered: bool) -> bool:
    if not gold or not rows:
        return gold == rows
    rows = [tuple(_plain(value) for value in row) for row in rows]
    width, wanted = len(gold[0]), normal(gold)
    if len(rows[0]) > width + 3:
        return False
    chosen = permutations(range(len(rows[0])), width)
    return any(
        same_answer(wanted, normal([tuple(row[n] for n in order) for row in rows]), ordered=ordered)
        for order in chosen
    )


def _plain(value: Any) -> Any:
    """Return a value of any engine as SQLite has it."""
    if isinstance(value, Decimal):
        return float(value)
    return str(value) if isinstance(value, date) else value


def evaluate(part: Part, dialect: str = "sqlite") -> list[Verdict]:
    """Ask every question of a part."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        gold = gold_rows(part, folder)
        decomposer = LinkingDecomposer(today=lambda _: TODAY)
        verdicts = []
        with Pipeline({part.name: make(part, folder, dialect)}, decomposer=decomposer) as pipeline:
            for question, sql in part.questions:
                answer = pipeline.ask(question)
                ordered = bool(sql) and is_ordered(str(sql))
                outcome = judge(answer, gold[question], ordered)
                among = outcome in ("partial", "abstained") and _is_among(
                    pipeline, question, gold[question], ordered
                )
                verdicts.append(Verdict(part.name, question, outcome, answer, among))
    return verdicts


def _is_among(pipeline: Pipeline, question: str, gold: Gold, ordered: bool) -> bool:
    """Choose each reading in turn; return whether one gives gold rows."""
    if not gold:
        return False
    number = 1
    while True:
        waiting = pipeline.ask(question, ask_back=True)
        if not waiting.questions or number > len(waiting.questions[0].readings):
            return False
        answer = pipeline.choose(waiting.run_id, number)
        if answer.rows and any(_covers(list(answer.rows), rows, ordered) for rows in gold):
            return True
        number += 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dialect", choices=("sqlite", "duckdb", "postgres"), default="sqlite")
    parser.add_argument("--list", action="store_true", help="print every question with its answer")
    parser.add_argument(
        "--held-aside", action="store_true", help="ask the databases of which no rule was made"
    )
    parser.add_argument("--part", help="ask only this database")
    arguments = parser.parse_args()
    print(f"{'':10} questions " + " ".join(f"{name:>9}" for name in (*OUTCOMES, "among")))
    whole: Counter[str] = Counter()
    parts = HELD_ASIDE if arguments.held_aside else PARTS
    if arguments.part:
        parts = tuple(part for part in (*PARTS, *LATER, *HELD_ASIDE) if part.name == arguments.part)
    for part in parts:
        verdicts = evaluate(part, arguments.dialect)
        counts = Counter(v.outcome for v in verdicts)
        counts["among"] = sum(v.among for v in verdicts)
        whole += counts
        print(
            f"{part.name:10} {len(verdicts):9} "
            + " ".join(f"{counts[name]:9}" for name in (*OUTCOMES, "among"))
        )
        for v in verdicts if arguments.list else ():
            print(
                f"  {v.outcome:9} {'(among)' if v.among else ''} {v.question}\n            {v.answer.text[:150]}"
            )
            print("".join(f"            {sql}\n" for sql in v.answer.sql.values()), end="")
    total = sum(whole[name] for name in OUTCOMES)
    print(f"{'all':10} {total:9} " + " ".join(f"{whole[name]:9}" for name in (*OUTCOMES, "among")))


if __name__ == "__main__":
    main()

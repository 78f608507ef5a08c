"""A small database of ferries, whose questions have several readings."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from clew_nl2sql.planner.catalog import Catalog, catalog_from_sqlite

SCRIPT = """
CREATE TABLE harbours (harbour_id INTEGER PRIMARY KEY, name TEXT NOT NULL, built DATE NOT NULL, closed DATE);
CREATE TABLE sailors (
  sailor_id INTEGER PRIMARY KEY, full_name TEXT NOT NULL, joined DATE NOT NULL, captain_id INTEGER,
  do_not_call CHAR(1) NOT NULL, newsletter_reader INTEGER NOT NULL);
CREATE TABLE trips (
  trip_id INTEGER PRIMARY KEY, sailor_id INTEGER NOT NULL REFERENCES sailors(sailor_id),
  harbour_id INTEGER REFERENCES harbours(harbour_id), sailed_at TIMESTAMP NOT NULL, hours NUMERIC NOT NULL,
  price NUMERIC NOT NULL);
CREATE TABLE faults (
  fault_id INTEGER PRIMARY KEY, trip_id INTEGER NOT NULL REFERENCES trips(trip_id), state TEXT NOT NULL,
  opened_at TIMESTAMP NOT NULL, closed_at TIMESTAMP, is_urgent BOOLEAN NOT NULL);
"""


def ferries(folder: Path) -> Catalog:
    """Make the database in a folder, and return its catalog."""
    path = folder / "ferries.db"
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.executescript(SCRIPT)
        for n in range(1, 9):
            row = (n, f"Harbour {n}", f"20{10 + n}-04-01", None if n % 3 else f"2024-0{n}-01")
            opened.execute("INSERT INTO harbours VALUES (?, ?, ?, ?)", row)
        for n in range(1, 121):
            row = (
                n,
                f"Kim Berg{n}",
                f"20{10 + n % 15}-03-01",
                None if n < 5 else 1 + n % 4,
                "NY"[n % 2],
                n % 2,
            )
            opened.execute("INSERT INTO sailors VALUES (?, ?, ?, ?, ?, ?)", row)
        for n in range(1, 301):
            day = f"2024-{1 + n % 12:02d}-{1 + n % 28:02d}"
            row = (n, 1 + n % 110, None if n % 9 == 0 else 1 + n % 7, f"{day} 10:00:00", 1 + n % 6, n * 7.5)
            opened.execute("INSERT INTO trips VALUES (?, ?, ?, ?, ?, ?)", row)
            fault = (n, 1 + n % 280, ("open", "closed", "waiting")[n % 3], f"{day} 11:00:00",
                     None if n % 3 else f"{day} 12:00:00", n % 2)  # fmt: skip
            opened.execute("INSERT INTO faults VALUES (?, ?, ?, ?, ?, ?)", fault)
    return catalog_from_sqlite(path)

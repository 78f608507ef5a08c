"""A small made-up database: artists, paintings, the museums that show them, and visits to those."""

from __future__ import annotations

import sqlite3
from pathlib import Path

_TABLES = """
CREATE TABLE artist (artist_id INTEGER PRIMARY KEY, name TEXT, country TEXT, age INTEGER);
CREATE TABLE museum (museum_id INTEGER PRIMARY KEY, name TEXT, city TEXT, opened_year INTEGER);
CREATE TABLE painting (
    painting_id INTEGER PRIMARY KEY, title TEXT, price INTEGER, year INTEGER,
    artist_id INTEGER REFERENCES artist (artist_id), museum_id INTEGER REFERENCES museum (museum_id));
CREATE TABLE visit (
    visit_id INTEGER PRIMARY KEY, museum_id INTEGER REFERENCES museum (museum_id), visit_date TEXT, tickets INTEGER);
"""

ARTISTS = [
    (1, "Ada Berg", "Norway", 61),
    (2, "Ben Okoro", "Ghana", 45),
    (3, "Chiara Neri", "Italy", 38),
    (4, "Dov Katz", "Norway", 72),
]
MUSEUMS = [
    (1, "Harbour Hall", "Oslo", 1969),
    (2, "Casa Grande", "Turin", 1985),
    (3, "The Attic", "Oslo", 2003),
]
PAINTINGS = [
    (1, "Low Tide", 900, 1990, 1, 1),
    (2, "Winter Road", 400, 1995, 1, 1),
    (3, "Red Market", 650, 2001, 2, 2),
    (4, "Noon", 150, 2004, 3, 2),
    (5, "Orchard", 300, 2008, 3, 1),
    (6, "Ferry", 800, 2010, 1, 2),
]
VISITS = [
    (1, 1, "2023-01-15", 2),
    (2, 1, "2023-02-20", 4),
    (3, 2, "2023-03-05", 1),
    (4, 2, "2023-06-30", 3),
    (5, 1, "2023-07-01", 2),
]


def build(path: Path) -> Path:
    """Write the database to a file."""
    connection = sqlite3.connect(path)
    connection.executescript(_TABLES)
    for table, rows in (("artist", ARTISTS), ("museum", MUSEUMS), ("painting", PAINTINGS), ("visit", VISITS)):
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
    connection.commit()
    connection.close()
    return path

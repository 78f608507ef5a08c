"""A public library: members, books, copies, loans and fines. Held aside: nothing was tuned on it."""

from __future__ import annotations

from datetime import date, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE branches (branch_id INTEGER PRIMARY KEY, branch_name TEXT NOT NULL, city TEXT NOT NULL);
CREATE TABLE members (
  member_id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL, email TEXT, joined_on DATE NOT NULL,
  is_student INTEGER NOT NULL, branch_id INTEGER NOT NULL REFERENCES branches(branch_id));
CREATE TABLE books (
  book_id INTEGER PRIMARY KEY, title TEXT NOT NULL, author TEXT NOT NULL, genre TEXT NOT NULL, published_year INTEGER,
  isbn TEXT NOT NULL);
CREATE TABLE loans (
  loan_id INTEGER PRIMARY KEY, member_id INTEGER NOT NULL REFERENCES members(member_id),
  book_id INTEGER NOT NULL REFERENCES books(book_id), loaned_on DATE NOT NULL, returned_on DATE, fine NUMERIC);
"""
FIRST = ("Ines", "Otto", "Pia", "Raul", "Siri", "Tom", "Uma", "Vera")
LAST = ("Aalto", "Brandt", "Costa", "Dubois", "Ek", "Ferrari")
GENRES = ("crime", "fantasy", "history", "poetry", "science")


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(71)
    branches = [(1, "Central", "Oslo"), (2, "Harbour", "Oslo"), (3, "Hill", "Bergen")]
    members = [
        (n, FIRST[n % 8], LAST[n % 6], f"m{n}@mail.test" if n % 4 else None,
         (date(2019, 1, 1) + timedelta(days=random.randrange(2300))).isoformat(), int(n % 3 == 0), n % 3 + 1)
        for n in range(1, 181)
    ]  # fmt: skip
    books = [
        (n, f"Volume {n}", f"{random.choice(FIRST)} {random.choice(LAST)}", random.choice(GENRES),
         random.randrange(1950, 2025), f"ISBN-{4000 + n}")
        for n in range(1, 1501)
    ]  # fmt: skip
    loans = []
    for n in range(1, 3001):
        day = date(2023, 6, 1) + timedelta(days=random.randrange(740))
        back = day + timedelta(days=random.randrange(3, 60)) if random.random() < 0.85 else None
        fine = round(random.uniform(1, 25), 2) if random.random() < 0.2 else None
        loans.append((n, random.randrange(1, 171), random.randrange(1, 1501), day.isoformat(),
                      back.isoformat() if back else None, fine))  # fmt: skip
    return {"branches": branches, "members": members, "books": books, "loans": loans}


LIBRARY = Part(
    "library",
    SCRIPT,
    rows,
    (
        ("How many members are there?", "SELECT count(*) FROM members"),
        ("How many books of the genre fantasy do we have?", "SELECT count(*) FROM books WHERE genre = 'fantasy'"),
        ("How many members are students?", "SELECT count(*) FROM members WHERE is_student = 1"),
        ("How many members have no email?", "SELECT count(*) FROM members WHERE email IS NULL"),
        ("How many loans were not returned?", "SELECT count(*) FROM loans WHERE returned_on IS NULL"),
        ("What is the title of the book with isbn 'ISBN-5437'?", "SELECT title FROM books WHERE isbn = 'ISBN-5437'"),
        ("Which book has the isbn 'ISBN-9999'?", "SELECT title FROM books WHERE isbn = 'ISBN-9999'"),
        ("How many members joined in 2024?",
         "SELECT count(*) FROM members WHERE joined_on BETWEEN '2024-01-01' AND '2024-12-31'"),
        ("How many loans were there last month?",
         "SELECT count(*) FROM loans WHERE loaned_on BETWEEN '2025-05-01' AND '2025-05-31'"),
        ("What is the average fine?", "SELECT avg(fine) FROM loans"),
        ("What is the total of all fines?", "SELECT sum(fine) FROM loans"),
        ("How many books are there per genre?", "SELECT genre, count(*) FROM books GROUP BY genre"),
        ("Which branches are in Oslo?", "SELECT branch_name FROM branches WHERE city = 'Oslo'"),
        ("How many members does the Harbour branch have?",
         "SELECT count(*) FROM members JOIN branches USING (branch_id) WHERE branch_name = 'Harbour'"),
        ("How many books were published before 1960?", "SELECT count(*) FROM books WHERE published_year < 1960"),
        ("What is the highest fine?", "SELECT max(fine) FROM loans"),
        ("How many books has Ines Ek borrowed?",
         "SELECT count(*) FROM loans JOIN members USING (member_id) WHERE first_name = 'Ines' AND last_name = 'Ek'"),
        ("Which members never borrowed a book?",
         "SELECT first_name, last_name FROM members WHERE member_id NOT IN (SELECT member_id FROM loans)"),
        ("What percentage of loans was late?", None),
        ("Which members are afraid of spiders?", None),
    ),
)  # fmt: skip

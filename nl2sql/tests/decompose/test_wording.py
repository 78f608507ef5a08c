"""Notes, events, people and money are said in the words of the tables, if exactly one of them can be meant."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest

from clew_nl2sql.decompose.wording import reworded
from clew_nl2sql.planner.catalog import Catalog, catalog_from_sqlite

TODAY = date(2025, 6, 18)
SCRIPT = """
CREATE TABLE halls (id INTEGER PRIMARY KEY, name TEXT NOT NULL, opened_on DATE NOT NULL);
CREATE TABLE climbers (
  id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL, joined_on DATE NOT NULL,
  hall_id INTEGER REFERENCES halls(id));
CREATE TABLE visits (
  id INTEGER PRIMARY KEY, climber_id INTEGER NOT NULL REFERENCES climbers(id), visit_no TEXT NOT NULL,
  check_in TIMESTAMP NOT NULL, status TEXT NOT NULL);
CREATE TABLE rentals (
  id INTEGER PRIMARY KEY, climber_id INTEGER NOT NULL REFERENCES climbers(id), due_on DATE NOT NULL, returned_on DATE,
  price NUMERIC NOT NULL, kind TEXT NOT NULL);
CREATE TABLE payments (
  id INTEGER PRIMARY KEY, climber_id INTEGER NOT NULL REFERENCES climbers(id), paid_on DATE NOT NULL,
  amount NUMERIC NOT NULL, method TEXT NOT NULL);
"""


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    path: Path = tmp_path_factory.mktemp("climbing") / "climbing.db"
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.executescript(SCRIPT)
        opened.execute("INSERT INTO halls VALUES (1, 'North Wall', '2019-05-01')")
        opened.execute("INSERT INTO climbers VALUES (1, 'Ann', 'Berg', '2020-01-05', 1)")
        opened.execute("INSERT INTO visits VALUES (1, 1, 'V-1001', '2025-06-01 10:00:00', 'no-show')")
        opened.execute("INSERT INTO rentals VALUES (1, 1, '2025-06-01', NULL, 12.5, 'rope')")
        opened.execute("INSERT INTO payments VALUES (1, 1, '2025-06-02', 40, 'cash')")
    return catalog_from_sqlite(path)


@pytest.mark.parametrize(
    "question, said",
    [
        # notes
        ("visits per status", "How many visits are there for each status"),
        ("cancelled visits by status", "How many cancelled visits are there for each status"),
        ("climbers joined per year", "How many climbers were joined for each year"),
        ("number of visits per climber", "What is the number of visits for each climber"),
        ("average price by kind of rentals", "What is the average price for each rentals kind"),
        ("Total amount by method", "What is the total amount for each method"),
        ("names of all climbers", "What are the names of all climbers"),
        (
            "Number of climbers per hall, biggest first",
            "Show the hall name and the number of climbers for each hall in descending order "
            "of the number of climbers.",
        ),
        ("Top 5 climbers by number of visits", "Which 5 climbers have the most visits?"),
        ("Top 3 climbers by total amount", "Which 3 climbers have the highest total amount?"),
        # events
        ("Which hall opened first?", "Which hall has the earliest opened on?"),
        ("Which climbers joined last?", "Which climbers has the latest joined on?"),
        ("Who joined last?", "Which climber has the latest joined on?"),
        ("When was the last payment?", "What is the latest paid on of payment?"),
        ("Which rentals were returned after the due date?", "Which rentals have a returned on later than due on?"),
        (
            "How many rentals are overdue?",
            "How many rentals are there with due on before 2025-06-18 and without returned on?",
        ),
        # people
        ("Who has done the most visits?", "Which climber has the most visits?"),
        ("Who made visit V-1001?", "Which climber has the visit V-1001?"),
        ("Which climbers are not in any hall?", "Which climbers have no hall?"),
        ("How many visits does Ann Berg have?", "How many visits are there for Ann Berg?"),
        # money
        ("How much did we collect in cash?", "What is the total amount of payments in cash?"),
        ("What was our revenue from rentals in 2024?", "What was the total price of rentals in 2024?"),
        ("the sum of all payments made in May 2025", "What is the total amount of payments made in May 2025"),
        ("What is the average payment?", "What is the average amount of payments?"),
        ("largest payment in cash", "What is the highest amount of payments in cash"),
        ("What is the total value of cash payments?", "What is the total amount of cash payments?"),
        ("How much has each climber paid?", "What is the total amount of payments for each climber?"),
        ("How much has Ann Berg paid us in 2024?", "What is the total amount of payments of Ann Berg in 2024?"),
        # assignments
        ("Who has visit V-1001?", "Which climber has the visit V-1001?"),
        ("Who rents the rental with number 12?", "Which climber has the rental with number 12?"),
        ("How many rentals are not assigned to anyone?", "How many rentals have no climber?"),
        ("Which climbers have no hall assigned?", "Which climbers have no hall?"),
        ("How many climbers assigned to North Wall are there?", "How many climbers of North Wall are there?"),
        ("When did Ann Berg last pay?", "What is the latest paid on of payments of Ann Berg?"),
        ("What is the number of the latest visit?", "What is the visit no of the latest visit?"),
        ("Which of our halls opened first?", "Which halls has the earliest opened on?"),
        ("Which climbers left the company?", "Which climbers left?"),
        ("Which climbers have no rental with us?", "Which climbers have no rental?"),
        # words without content
        ("How many visits took place so far?", "How many visits happened?"),
        ("How many rentals are there right now?", "How many rentals are there currently?"),
        ("How many climbers do we have?", "How many climbers are there?"),
        ("visits with a check-in in May 2025", "visits with a check in in May 2025"),
    ],
)  # fmt: skip
def test_a_wording_becomes_a_question_about_tables(catalog: Catalog, question: str, said: str) -> None:
    assert reworded(question, catalog, TODAY) == said


@pytest.mark.parametrize(
    "question",
    [
        "Which climbers have more than 3 visits?",
        "How many visits were no-shows?",  # a value, not two words
        "What does a rope cost per day?",  # a unit is no group
        "Who coached the most visits?",  # not what a climber does
        "How much did we spend on ropes?",  # not what climbers pay
        "Who paid the most?",
        "Show visits sorted by status",
        "Which hall closed first?",  # there is no such date
        "How many visits are overdue?",
        "What is the average climber?",  # climbers have no amount
        "How much has each hall paid?",  # no payment refers to a hall
        "How much has each climber collected?",  # nobody collects payments but us
        "How much has Ann Berg earned?",
        "Who has the rope?",
        "What is the number of the latest visits?",  # a count
        "What is the number of the latest rental?",  # rentals have none
        "How many visits are assigned to each climber?",
    ],
)
def test_other_questions_stay_as_they_are(catalog: Catalog, question: str) -> None:
    assert reworded(question, catalog, TODAY) == question

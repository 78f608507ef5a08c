"""Questions in the words of people who do not know the schema: the right answer, or none."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from clew_nl2sql import Pipeline
from clew_nl2sql.decompose import LinkingDecomposer

TODAY = date(2025, 6, 18)
SCRIPT = """
CREATE TABLE studios (
  studio_id INTEGER PRIMARY KEY, name VARCHAR(40), city VARCHAR(40), has_pool BOOLEAN,
  open_sunday BOOLEAN, floor_area INTEGER);
CREATE TABLE plans (
  plan_id INTEGER PRIMARY KEY, plan_name VARCHAR(20), monthly_fee NUMERIC(8, 2), includes_sauna CHAR(1));
CREATE TABLE trainers (
  trainer_id INTEGER PRIMARY KEY, full_name VARCHAR(40), specialty VARCHAR(20), hourly_rate NUMERIC(6, 2),
  studio_id INTEGER REFERENCES studios(studio_id));
CREATE TABLE members (
  member_id INTEGER PRIMARY KEY, member_no VARCHAR(8), first_name VARCHAR(20), last_name VARCHAR(20), email VARCHAR(40),
  phone VARCHAR(20), birth_date DATE, gender CHAR(1), plan_id INTEGER REFERENCES plans(plan_id), joined_on DATE,
  cancelled_on DATE, newsletter INTEGER);
CREATE TABLE classes (
  class_id INTEGER PRIMARY KEY, title VARCHAR(20), trainer_id INTEGER REFERENCES trainers(trainer_id),
  starts_at TIMESTAMP, duration_min INTEGER);
CREATE TABLE bookings (
  booking_id INTEGER PRIMARY KEY, class_id INTEGER REFERENCES classes(class_id),
  member_id INTEGER REFERENCES members(member_id), status VARCHAR(12), rating INTEGER);
CREATE TABLE payments (
  payment_id INTEGER PRIMARY KEY, member_id INTEGER REFERENCES members(member_id), paid_on DATE, amount NUMERIC(8, 2));
"""


def _fill(opened: sqlite3.Connection) -> None:
    firsts, lasts = ("Ann", "Bo", "Cy", "Dee", "Eve"), ("Reed", "Cole", "Hale", "Moss")
    studios = [
        (1, "Old Mill", "Bath", 1, 1, 900),
        (2, "Kings Court", "Leeds", 0, 1, None),
        (3, "Harbour", "Bath", 0, 0, 700),
    ]
    plans = [(1, "Basic", 19.9, "N"), (2, "Plus", 34.9, "Y"), (3, "Premium", 54, "Y")]
    trainers = [
        (n, f"Trainer {'ABCDEF'[n]}", (None, "Yoga", "Boxing")[n % 3], 20.5 + n, n % 3 + 1) for n in range(6)
    ]
    members = [
        (n, f"{n * 37:06d}", firsts[n % 5], lasts[n % 4], None if n % 4 == 0 else f"m{n}@gym.example",
         None if n % 3 == 0 else f"07{n:06d}", f"{1950 + n % 50}-03-0{n % 9 + 1}", "FM"[n % 2], n % 3 + 1,
         f"{2018 + n % 7}-05-11", None if n % 5 else "2024-02-01", n % 2)
        for n in range(1, 121)
    ]  # fmt: skip
    classes = [
        (n, ("Pilates", "Spinning", "Boxing")[n % 3], None if n % 7 == 0 else n % 4,
         f"2025-06-{n % 28 + 1:02d} 09:00:00", (45, 60, 90)[n % 3]) for n in range(1, 121)
    ]  # fmt: skip
    bookings = [
        (n, n % 120 + 1, n % 90 + 1, ("attended", "no_show", "cancelled")[n % 3], n % 5 + 1 if n % 3 == 0 else None)
        for n in range(1, 401)
    ]  # fmt: skip
    payments = [
        (n, n % 90 + 1, None if n % 8 == 0 else f"2025-0{n % 5 + 1}-10", 19.9 + n % 30) for n in range(1, 301)
    ]
    for table, rows in (
        ("studios", studios), ("plans", plans), ("trainers", trainers), ("members", members), ("classes", classes),
        ("bookings", bookings), ("payments", payments),
    ):  # fmt: skip
        marks = ", ".join("?" * len(rows[0]))
        opened.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("gym") / "gym.db"
    with sqlite3.connect(made) as opened:
        opened.executescript(SCRIPT)
        _fill(opened)
    opened.close()
    return made


@pytest.fixture
def gym(path: Path, new_pipeline: Callable[..., Pipeline]) -> Pipeline:
    return new_pipeline({"gym": f"sqlite:///{path}"}, decomposer=LinkingDecomposer(today=lambda _: TODAY))


ANSWERED = {
    "Which member has the number 000037?": "SELECT first_name, last_name FROM members WHERE member_no = '000037'",
    "Which plans include the sauna?": "SELECT plan_name FROM plans WHERE includes_sauna = 'Y'",
    "What is the average fee of plans with sauna?": "SELECT AVG(monthly_fee) FROM plans WHERE includes_sauna = 'Y'",
    "How many members get the newsletter?": "SELECT COUNT(*) FROM members WHERE newsletter = 1",
    "How many members do not get the newsletter?": "SELECT COUNT(*) FROM members WHERE newsletter = 0",
    "How many male members are on the Basic plan?": (
        "SELECT COUNT(*) FROM members JOIN plans USING (plan_id) WHERE gender = 'M' AND plan_name = 'Basic'"
    ),
    "Which trainers never gave a class?": (
        "SELECT full_name FROM trainers WHERE trainer_id NOT IN "
        "(SELECT trainer_id FROM classes WHERE trainer_id IS NOT NULL)"
    ),
    "How many bookings were no-shows?": "SELECT COUNT(*) FROM bookings WHERE status = 'no_show'",
    "How many bookings were rated 4 or better?": "SELECT COUNT(*) FROM bookings WHERE rating >= 4",
    "How many members have neither a phone nor an email?": (
        "SELECT COUNT(*) FROM members WHERE phone IS NULL AND email IS NULL"
    ),
    "For which studios is the floor area unknown?": "SELECT name FROM studios WHERE floor_area IS NULL",
    "What is the email address of member 000037?": "SELECT email FROM members WHERE member_no = '000037'",
    "How many members are over 60?": "SELECT COUNT(*) FROM members WHERE birth_date <= '1964-06-18'",
    "How many classes are there tomorrow?": "SELECT COUNT(*) FROM classes WHERE starts_at LIKE '2025-06-19%'",
    "How many classes are there next week?": (
        "SELECT COUNT(*) FROM classes WHERE starts_at >= '2025-06-23' AND starts_at < '2025-06-30'"
    ),
    "Which studios are open on Sunday?": "SELECT name FROM studios WHERE open_sunday = 1",
    "How many payments of members in the Basic plan were paid this year?": (
        "SELECT COUNT(*) FROM payments JOIN members USING (member_id) JOIN plans USING (plan_id) "
        "WHERE plan_name = 'Basic' AND paid_on BETWEEN '2025-01-01' AND '2025-12-31'"
    ),
    "Which class title was booked most often?": (
        "SELECT title FROM classes JOIN bookings USING (class_id) GROUP BY title ORDER BY COUNT(*) DESC LIMIT 1"
    ),
}
NOT_ANSWERED = [
    "Which member has the number 00037?",  # another number
    "How many classes are full?",  # "full" is what the question asks
    "How many bookings were cancelled last month?",  # members have a date of cancelling, bookings have not
    "Which trainers do not teach Boxing?",  # trainers without a specialty
    "Which members have a birthday today?",
    "How many members are currently in a class?",  # nothing says what is now
    "How many plays by Trainer B do we have?",  # a noun that is no table
    "Which member paid the most?",  # payments, or money
    "Which class had the best rating?",  # many have the best one
    "How many classes take more than 2 hours?",  # the column has minutes
    "How many hours did Trainer B teach?",  # a rate per hour
    "What is the no-show rate?",
    "Is Old Mill open?",
    "What is the email of trainer 23?",
    "How many trainers are under 30?",  # keys are no ages
]


@pytest.mark.parametrize("question", ANSWERED)
def test_other_words_for_a_condition(gym: Pipeline, path: Path, question: str) -> None:
    answer = gym.ask(question)
    with sqlite3.connect(path) as opened:
        wanted = opened.execute(ANSWERED[question]).fetchall()
    opened.close()
    assert (answer.status, sorted(answer.rows)) == ("answered", sorted(wanted)), answer.text


@pytest.mark.parametrize("question", NOT_ANSWERED)
def test_another_question_is_not_answered(gym: Pipeline, question: str) -> None:
    answer = gym.ask(question)
    assert answer.status in ("partial", "unanswered"), answer.sql


def test_people_in_a_list_keep_both_names(gym: Pipeline) -> None:
    answer = gym.ask("Show all cancelled members")
    assert (answer.status, answer.sql["gym"]) == (
        "answered",
        "SELECT first_name, last_name FROM members WHERE NOT cancelled_on IS NULL",
    )


def test_a_number_of_rows_is_no_filler(gym: Pipeline) -> None:
    answer = gym.ask("List two studios")
    assert len(answer.rows) == (2 if answer.status == "answered" else 0), answer.sql

"""A school: departments, teachers, classes, pupils, lessons, absences and exams. Nothing is tuned on it."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE departments (
  dept_cd CHAR(3) PRIMARY KEY, dept_name VARCHAR(30) NOT NULL, bldg VARCHAR(20) NOT NULL, budget NUMERIC(10, 2));
CREATE TABLE teachers (
  tch_id INTEGER PRIMARY KEY, first_name VARCHAR(40) NOT NULL, last_name VARCHAR(40) NOT NULL, email VARCHAR(80),
  hire_dt DATE NOT NULL, retired_on DATE, dept_cd CHAR(3) NOT NULL, full_time CHAR(1) NOT NULL, salary INTEGER NOT NULL);
CREATE TABLE classes (
  class_cd VARCHAR(4) PRIMARY KEY, yr_group INTEGER NOT NULL, tutor_id INTEGER, room_no VARCHAR(6) NOT NULL);
CREATE TABLE pupils (
  pupil_id INTEGER PRIMARY KEY, adm_no CHAR(6) NOT NULL, first_name VARCHAR(40) NOT NULL, last_name VARCHAR(40) NOT NULL,
  gender CHAR(1) NOT NULL, dob DATE NOT NULL, class_cd VARCHAR(4) NOT NULL, enrolled_on DATE NOT NULL, left_on DATE,
  guardian_phone VARCHAR(20), boarder BOOLEAN NOT NULL, free_meals BOOLEAN NOT NULL);
CREATE TABLE lessons (
  lesson_id INTEGER PRIMARY KEY, class_cd VARCHAR(4) NOT NULL, tch_id INTEGER NOT NULL, subject VARCHAR(20) NOT NULL,
  weekday VARCHAR(10) NOT NULL, period INTEGER NOT NULL, room_no VARCHAR(6) NOT NULL);
CREATE TABLE absences (
  abs_id INTEGER PRIMARY KEY, pupil_id INTEGER NOT NULL, abs_date DATE NOT NULL, reason VARCHAR(20), excused INTEGER NOT NULL,
  recorded_at TIMESTAMP NOT NULL);
CREATE TABLE exams (
  exam_id INTEGER PRIMARY KEY, exam_code VARCHAR(10) NOT NULL, pupil_id INTEGER NOT NULL, subject VARCHAR(20) NOT NULL,
  sat_at TIMESTAMP NOT NULL, score INTEGER, grade CHAR(1), resit BOOLEAN NOT NULL);
"""

FIRST = """
    Aoife Ben Cara Declan Eimear Fionn Grace Hugh Isla Jack Keira Liam Maeve Niall Orla Padraig Roisin Sean Tara
""".split()  # noqa: SIM905
LAST = """
    Ahern Brady Casey Doyle Egan Flynn Garvey Healy Irwin Joyce Keane Lynch Moran Nolan Power Quinn Reilly Shaw
""".split()  # noqa: SIM905
DEPARTMENTS = (
    ("MAT", "Mathematics", "North Wing", 18000.0), ("SCI", "Science", "Lab Block", 42500.0),
    ("LAN", "Languages", "North Wing", 21000.0), ("HUM", "Humanities", "Old Hall", 15500.0),
    ("ART", "Arts", "Studio Block", 12800.0), ("SPO", "Sport", "Gym", None),
)  # fmt: skip
SUBJECTS = ("Algebra", "Physics", "Chemistry", "French", "German", "History", "Geography", "Music", "Drawing")


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(97)
    teachers = []
    for n in range(1, 61):
        hired = datetime(1995, 8, 15) + timedelta(days=random.randrange(10_800))
        teachers.append(
            (n, random.choice(FIRST), random.choice(LAST),
             f"staff{n}@school.example" if random.random() < 0.85 else None, f"{hired:%Y-%m-%d}",
             f"{hired + timedelta(days=9500):%Y-%m-%d}" if hired.year < 1998 else None,
             random.choice(DEPARTMENTS[:5])[0], "Y" if random.random() < 0.7 else "N",
             random.randrange(340, 820) * 100)
        )  # fmt: skip
    teachers.append(
        (61, "Ulrika", "Vesterberg", "ulrika@school.example", "2015-09-01", None, "SCI", "Y", 61_250)
    )
    classes = [
        (f"{year}{letter}", year, random.randrange(1, 62) if (year, letter) != (9, "C") else None,
         f"R{year}{n:02d}")
        for year in range(7, 13) for n, letter in enumerate("ABCD", 1)
    ]  # fmt: skip
    pupils = []
    for n in range(1, 601):
        code, year, *_ = random.choice(classes[:23])
        born = datetime(2025 - year - 6, 1, 1) + timedelta(days=random.randrange(364))
        enrolled = datetime(2025 - (year - 6), 9, 1) + timedelta(days=random.choice((0, 0, 0, 45, 120)))
        pupils.append(
            (n, f"{n * 7 + 2000:06d}", random.choice(FIRST), random.choice(LAST), random.choice("MF"),
             f"{born:%Y-%m-%d}", code, f"{min(enrolled, datetime(2025, 3, 3)):%Y-%m-%d}",
             f"2025-0{random.randrange(1, 6)}-10" if random.random() < 0.05 else None,
             f"+353 1 555 {n:04d}" if random.random() < 0.8 else None, random.random() < 0.15,
             random.random() < 0.22)
        )  # fmt: skip
    pupils.append(
        (601, "009999", "Zofia", "Wrobel", "F", "2010-02-11", "9C", "2022-09-01", None, None, True, False)
    )
    lessons = []
    for code, *_ in classes:
        for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday"):
            for period in range(1, 6):
                lessons.append(
                    (len(lessons) + 1, code, random.randrange(1, 58), random.choice(SUBJECTS), day, period,
                     f"R{random.randrange(100, 130)}")
                )  # fmt: skip
    absences = []
    for n in range(1, 4201):
        day = datetime(2023, 9, 4) + timedelta(days=random.randrange(653))
        absences.append(
            (n, random.randrange(1, 590), f"{day:%Y-%m-%d}",
             random.choice(("illness", "family", "dentist", "travel", None)), int(random.random() < 0.75),
             f"{day + timedelta(hours=random.randrange(8, 17), minutes=n % 60):%Y-%m-%d %H:%M:%S}")
        )  # fmt: skip
    exams = []
    for n in range(1, 3001):
        at = datetime(2023, 10, 2, 9) + timedelta(days=random.randrange(620), hours=random.randrange(6))
        score = random.randrange(20, 101) if random.random() < 0.94 else None
        grade = None if score is None else "FEDCBA"[min(5, max(0, (score - 35) // 11))]
        exams.append(
            (n, f"EX-{n * 3 + 7000}", random.randrange(1, 602), random.choice(SUBJECTS),
             f"{at:%Y-%m-%d %H:%M:%S}", score, grade, random.random() < 0.08)
        )  # fmt: skip
    return {
        "departments": list(DEPARTMENTS), "teachers": teachers, "classes": classes, "pupils": pupils,
        "lessons": lessons, "absences": absences, "exams": exams,
    }  # fmt: skip


QUESTIONS = (
    ("How many pupils are enrolled?", "SELECT count(*) FROM pupils"),
    ("How many girls are there in 9C?", "SELECT count(*) FROM pupils WHERE gender = 'F' AND class_cd = '9C'"),
    ("How many boarders do we have?", "SELECT count(*) FROM pupils WHERE boarder = 1"),
    ("How many pupils get free meals?", "SELECT count(*) FROM pupils WHERE free_meals = 1"),
    ("Which pupils have no guardian phone and are boarders?",
     "SELECT first_name, last_name FROM pupils WHERE guardian_phone IS NULL AND boarder = 1"),
    ("How many pupils left in 2025?",
     "SELECT count(*) FROM pupils WHERE left_on >= '2025-01-01' AND left_on < '2026-01-01'"),
    ("How old is the oldest pupil?", None),
    ("When was Zofia Wrobel born?",
     "SELECT dob FROM pupils WHERE first_name = 'Zofia' AND last_name = 'Wrobel'"),
    ("What class is the pupil with admission number 009999 in?",
     "SELECT class_cd FROM pupils WHERE adm_no = '009999'"),
    ("How many pupils are in each year group?",
     "SELECT yr_group, count(*) FROM pupils JOIN classes USING (class_cd) GROUP BY yr_group"),
    ("Which class has the most pupils?",
     "SELECT class_cd FROM pupils GROUP BY class_cd ORDER BY count(*) DESC LIMIT 1"),
    ("Which classes have no tutor?", "SELECT class_cd FROM classes WHERE tutor_id IS NULL"),
    ("Which classes have no pupils?",
     "SELECT class_cd FROM classes WHERE class_cd NOT IN (SELECT class_cd FROM pupils)"),
    ("How many teachers work full time?", "SELECT count(*) FROM teachers WHERE full_time = 'Y'"),
    ("How many part-time teachers are in the Science department?",
     "SELECT count(*) FROM teachers JOIN departments USING (dept_cd) "
     "WHERE full_time = 'N' AND dept_name = 'Science'"),
    ("What is the average salary of teachers in each department?",
     "SELECT dept_name, avg(salary) FROM teachers JOIN departments USING (dept_cd) GROUP BY dept_cd"),
    ("Who earns the most?", "SELECT first_name, last_name FROM teachers ORDER BY salary DESC LIMIT 1"),
    ("Which teachers were hired after 1 September 2022?",
     "SELECT first_name, last_name FROM teachers WHERE hire_dt > '2022-09-01'"),
    ("How many teachers have retired?", "SELECT count(*) FROM teachers WHERE retired_on IS NOT NULL"),
    ("What is Ulrika Vesterberg's email?",
     "SELECT email FROM teachers WHERE first_name = 'Ulrika' AND last_name = 'Vesterberg'"),
    ("Which department has the largest budget?",
     "SELECT dept_name FROM departments WHERE budget IS NOT NULL ORDER BY budget DESC LIMIT 1"),
    ("Which departments are in the North Wing?",
     "SELECT dept_name FROM departments WHERE bldg = 'North Wing'"),
    ("How many Physics lessons does 10A have?",
     "SELECT count(*) FROM lessons WHERE subject = 'Physics' AND class_cd = '10A'"),
    ("How many lessons are there on Monday?", "SELECT count(*) FROM lessons WHERE weekday = 'Monday'"),
    ("How many unexcused absences were there in the last 7 days?",
     "SELECT count(*) FROM absences WHERE excused = 0 AND abs_date >= '2025-06-11' AND abs_date < '2025-06-18'"),
    ("How many absences have no reason?", "SELECT count(*) FROM absences WHERE reason IS NULL"),
    ("How many absences were recorded yesterday?",
     "SELECT count(*) FROM absences WHERE recorded_at >= '2025-06-17' AND recorded_at < '2025-06-18'"),
    ("What score did exam EX-10003 get?", "SELECT score FROM exams WHERE exam_code = 'EX-10003'"),
    ("What score did exam EX-10001 get?", "SELECT score FROM exams WHERE exam_code = 'EX-10001'"),
    ("What is the average score in French?", "SELECT avg(score) FROM exams WHERE subject = 'French'"),
    ("How many exams were resits?", "SELECT count(*) FROM exams WHERE resit = 1"),
    ("What is the attendance rate of 8B?", None),
    ("What percentage of pupils passed Chemistry?", None),
    ("Are results improving compared to last year?", None),
    ("Which pupils were bullied?", None),
    ("What is the pupil to teacher ratio?", None),
    ("How many detentions were given this term?", None),
    ("Which teacher is the most popular?", None),
    ("How many pupils walk to school?", None),
    ("What was the median score in Physics?", None),
)  # fmt: skip

SCHOOL = Part("school", SCRIPT, rows, QUESTIONS)

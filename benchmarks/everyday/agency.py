"""An agency: employees, departments, projects and hours."""

from __future__ import annotations

from datetime import date, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE departments (id INTEGER PRIMARY KEY, name TEXT NOT NULL, cost_center TEXT NOT NULL);
CREATE TABLE employees (
  id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL, job_title TEXT NOT NULL,
  department_id INTEGER REFERENCES departments(id), salary INTEGER NOT NULL, hire_date DATE NOT NULL,
  termination_date DATE, remote BOOLEAN NOT NULL);
CREATE TABLE projects (
  id INTEGER PRIMARY KEY, code TEXT NOT NULL, title TEXT NOT NULL, client TEXT NOT NULL, budget INTEGER,
  deadline DATE, billable BOOLEAN NOT NULL);
CREATE TABLE timesheets (
  id INTEGER PRIMARY KEY, employee_id INTEGER NOT NULL REFERENCES employees(id),
  project_id INTEGER NOT NULL REFERENCES projects(id), work_date DATE NOT NULL, hours REAL NOT NULL);
"""

DEPARTMENTS = ("Design", "Engineering", "Finance", "Marketing", "Legal")
FIRST = """
    Aisha Ben Chloe Dario Emma Felix Gina Henrik Iris Jakub Kaya Leon Mina Noah
""".split()  # noqa: SIM905
LAST = """
    Abbott Bauer Clark Duarte Ellis Ferrari Green Hansen Ito Jones King Larsen
""".split()  # noqa: SIM905
TITLES = ("Designer", "Developer", "Accountant", "Copywriter", "Project Manager", "Lawyer")
CLIENTS = ("Northwind", "Globex", "Initech", "Umbrella Health", "Stark Steel")


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(37)
    departments = [(n, name, f"{n * 41:04d}") for n, name in enumerate(DEPARTMENTS, 1)]
    employees = []
    for number in range(1, 131):
        hired = date(2012, 1, 9) + timedelta(days=random.randrange(4800))
        left = hired + timedelta(days=random.randrange(200, 900)) if random.random() < 0.2 else None
        left = left if left and left < date(2025, 6, 1) else None
        department = random.randrange(1, 5) if random.random() < 0.95 else None
        employees.append(
            (number, random.choice(FIRST), random.choice(LAST), random.choice(TITLES), department,
             random.randrange(28, 120) * 1000, hired.isoformat(), left.isoformat() if left else None,
             int(random.random() < 0.35))
        )  # fmt: skip
    projects = []
    for number in range(1, 41):
        deadline = date(2024, 6, 1) + timedelta(days=random.randrange(700)) if number % 6 else None
        budget = random.randrange(5, 200) * 1000 if number % 7 else None
        projects.append(
            (number, f"PRJ-{number:03d}", f"{random.choice(['Website', 'Campaign', 'Audit', 'App'])} {number}",
             random.choice(CLIENTS), budget, deadline.isoformat() if deadline else None, int(number % 4 != 0))
        )  # fmt: skip
    timesheets = []
    for number in range(1, 6001):
        day = date(2023, 9, 1) + timedelta(days=random.randrange(655))
        timesheets.append(
            (
                number,
                random.randrange(1, 121),
                random.randrange(1, 39),
                day.isoformat(),
                random.randrange(1, 17) / 2,
            )
        )
    return {
        "departments": departments,
        "employees": employees,
        "projects": projects,
        "timesheets": timesheets,
    }


QUESTIONS = (
    ("How many employees work in Engineering?",
     "SELECT count(*) FROM employees e JOIN departments d ON department_id = d.id WHERE d.name = 'Engineering'"),
    ("What is the average salary per department?",
     "SELECT d.name, avg(salary) FROM employees e JOIN departments d ON department_id = d.id GROUP BY d.name"),
    ("Which employees work remotely?", "SELECT first_name, last_name FROM employees WHERE remote = 1"),
    ("How many employees are not remote?", "SELECT count(*) FROM employees WHERE remote = 0"),
    ("How many employees were hired since 2023?", "SELECT count(*) FROM employees WHERE hire_date >= '2023-01-01'"),
    ("How many employees were hired before 2015?", "SELECT count(*) FROM employees WHERE hire_date < '2015-01-01'"),
    ("How many employees were hired this year?",
     "SELECT count(*) FROM employees WHERE hire_date >= '2025-01-01' AND hire_date < '2026-01-01'"),
    ("How many employees have no department?", "SELECT count(*) FROM employees WHERE department_id IS NULL"),
    ("Which projects have no deadline?", "SELECT title FROM projects WHERE deadline IS NULL"),
    ("What is the client of project PRJ-017?", "SELECT client FROM projects WHERE code = 'PRJ-017'"),
    ("What is the client of project PRJ-170?", "SELECT client FROM projects WHERE code = 'PRJ-170'"),
    ("Which project has the smallest budget?",
     "SELECT title FROM projects WHERE budget IS NOT NULL ORDER BY budget LIMIT 1"),
    ("How many non-billable projects are there?", "SELECT count(*) FROM projects WHERE billable = 0"),
    ("How many hours were worked on projects for Globex?",
     "SELECT sum(hours) FROM timesheets JOIN projects p ON project_id = p.id WHERE client = 'Globex'"),
    ("How many hours were booked last week?",
     "SELECT sum(hours) FROM timesheets WHERE work_date >= '2025-06-09' AND work_date < '2025-06-16'"),
    ("What is the highest salary of a Developer?", "SELECT max(salary) FROM employees WHERE job_title = 'Developer'"),
    ("What is the name of the department with cost center 0041?",
     "SELECT name FROM departments WHERE cost_center = '0041'"),
    ("How many employees earn more than 90000?", "SELECT count(*) FROM employees WHERE salary > 90000"),
    ("List the names of employees in the Legal department.",
     "SELECT first_name, last_name FROM employees e JOIN departments d ON department_id = d.id WHERE d.name = 'Legal'"),
    ("How many projects does each client have?", "SELECT client, count(*) FROM projects GROUP BY client"),
    ("What is the ratio of designers to developers?", None),
    ("Which employees are unhappy?", None),
    ("How many employees took parental leave?", None),
    ("How much profit did Globex bring?", None),
)  # fmt: skip

AGENCY = Part("agency", SCRIPT, rows, QUESTIONS)

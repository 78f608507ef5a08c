"""A solar installer: teams, employees, customers, panel models, projects, service visits, payments."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from itertools import product
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE installation_team (
  installation_team_code TEXT PRIMARY KEY, team_name TEXT NOT NULL, home_region TEXT NOT NULL,
  number_of_vans INTEGER NOT NULL);
CREATE TABLE employee (
  employee_number INTEGER PRIMARY KEY, full_name TEXT NOT NULL, job_title TEXT NOT NULL,
  installation_team_code TEXT REFERENCES installation_team(installation_team_code),
  employment_start_date DATE NOT NULL, monthly_salary NUMERIC NOT NULL, has_electrician_licence BOOLEAN NOT NULL);
CREATE TABLE customer (
  customer_number INTEGER PRIMARY KEY, customer_name TEXT NOT NULL, customer_kind TEXT NOT NULL, city TEXT NOT NULL,
  postal_code TEXT NOT NULL, email_address TEXT, accepts_newsletter BOOLEAN NOT NULL, registration_date DATE NOT NULL);
CREATE TABLE panel_model (
  panel_model_code TEXT PRIMARY KEY, manufacturer TEXT NOT NULL, peak_power_watt INTEGER NOT NULL,
  list_price NUMERIC NOT NULL, is_discontinued BOOLEAN NOT NULL);
CREATE TABLE installation_project (
  project_number INTEGER PRIMARY KEY, project_code TEXT NOT NULL,
  customer_number INTEGER NOT NULL REFERENCES customer(customer_number),
  installation_team_code TEXT NOT NULL REFERENCES installation_team(installation_team_code),
  panel_model_code TEXT NOT NULL REFERENCES panel_model(panel_model_code),
  number_of_panels INTEGER NOT NULL, contract_date DATE NOT NULL, completion_date DATE, contract_amount NUMERIC NOT NULL,
  project_status TEXT NOT NULL, includes_battery BOOLEAN NOT NULL);
CREATE TABLE service_visit (
  service_visit_number INTEGER PRIMARY KEY,
  project_number INTEGER NOT NULL REFERENCES installation_project(project_number),
  employee_number INTEGER NOT NULL REFERENCES employee(employee_number),
  visit_started_at TIMESTAMP NOT NULL, duration_in_minutes INTEGER NOT NULL, reason_for_visit TEXT NOT NULL,
  was_under_warranty BOOLEAN NOT NULL, customer_rating INTEGER);
CREATE TABLE customer_payment (
  payment_number INTEGER PRIMARY KEY,
  project_number INTEGER NOT NULL REFERENCES installation_project(project_number),
  payment_received_on DATE NOT NULL, payment_amount NUMERIC NOT NULL, payment_method TEXT NOT NULL);
"""
TEAMS = (("TEAM-01", "Sunrise", "Flanders", 4), ("TEAM-02", "Zenith", "Flanders", 3), ("TEAM-03", "Equinox", "Wallonia", 6),
         ("TEAM-04", "Daybreak", "Wallonia", 2), ("TEAM-05", "Solstice", "Brussels", 5), ("TEAM-06", "Horizon", "Brussels", 1))  # fmt: skip
FIRST = ("Clara", "Jonas", "Marta", "Bram", "Elise", "Wout", "Sofie", "Luc", "Anneke", "Pieter", "Nora", "Hugo", "Lies",
         "Arno", "Greet", "Thijs", "Yara", "Dries", "Karel", "Mieke")  # fmt: skip
LAST = ("Peeters", "Maes", "Lindqvist", "Claes", "Goossens", "Wouters", "Mertens", "Dupont", "Lambert", "Aerts", "Pauwels",
        "Hermans", "Vos", "Bogaert", "Leroy")  # fmt: skip
FIRMS = (
    "Bakery",
    "Garage",
    "Brewery",
    "Farm",
    "Printworks",
    "Logistics",
    "Dental",
    "Joinery",
    "Foundry",
    "Textiles",
)
PLACES = ("Noord", "Zuid", "Oost", "West", "Delta", "Canal", "Tower", "Station")
CITIES = ("Ghent", "Bruges", "Leuven", "Namur", "Liege", "Antwerp", "Hasselt")
JOBS = (
    "installer",
    "electrician",
    "roofer",
    "service technician",
    "project manager",
    "accountant",
    "sales adviser",
)
MAKERS = ("Heliotek", "Sunforge", "Lumivolt", "Aurapower", "Photonix")
REASONS = ("inverter fault", "cleaning", "inspection", "storm damage", "meter reading", "loose cable")


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(4107)
    people = [f"{a} {b}" for a, b in product(FIRST, LAST)]
    random.shuffle(people)
    fixed = ["Marta Lindqvist", "Jonas Maes", "Clara Peeters", "Hugo Vos"]
    people = [p for p in people if p not in fixed]
    employees = []
    names = ["Marta Lindqvist", "Jonas Maes", *people[:46]]
    starts = random.sample(range(3800), 48)
    salaries = random.sample(range(2400, 6400, 10), 48)
    for n, name in enumerate(names, 1):
        job = JOBS[n % 5] if n % 6 else random.choice(JOBS[4:])
        if n == 2:
            job = "service technician"
        team = (
            None if job in ("accountant", "sales adviser") or n % 17 == 0 else TEAMS[random.randrange(6)][0]
        )
        employees.append((n, name, job, team, (date(2014, 9, 1) + timedelta(days=starts[n - 1])).isoformat(),
                          salaries[n - 1], job == "electrician" or random.random() < 0.2))  # fmt: skip
    technicians = [e[0] for e in employees if e[2] in ("service technician", "electrician")]
    private = ["Clara Peeters", "Hugo Vos", *people[46:266]]
    firms = [f"{a} {b}" for a, b in product(FIRMS, PLACES)]
    public = [
        f"{what} of {city}" for what in ("Town Hall", "Fire Station", "Primary School") for city in CITIES
    ]
    customers = []
    everyone = (
        [(p, "household") for p in private]
        + [(p, "business") for p in firms]
        + [(p, "public") for p in public]
    )
    head, tail = everyone[:2], everyone[2:]
    random.shuffle(tail)
    for n, (name, kind) in enumerate(head + tail, 1):
        city = name.split(" of ")[1] if kind == "public" else random.choice(CITIES)
        registered = date(2020, 1, 7) + timedelta(days=random.randrange(1980))
        customers.append((n, name, kind, city, str(1000 + random.randrange(90) * 100),
                          f"contact{n}@post.test" if random.random() < 0.8 else None, random.random() < 0.4,
                          registered.isoformat()))  # fmt: skip
    models = []
    prices = random.sample(range(95, 420), 20)
    for n in range(20):
        maker = MAKERS[n % 5]
        models.append(
            (f"{maker[:2].upper()}-{340 + 15 * n}", maker, 340 + 15 * n, prices[n] + 0.5, n % 4 == 1)
        )
    projects, visits, payments = [], [], []
    today = date(2025, 6, 17)
    for n in range(1, 701):
        customer = random.randrange(1, 301) if n > 6 else n % 2 + 1
        day = date(2021, 1, 4) + timedelta(days=random.randrange(1620))
        done = day + timedelta(days=random.randrange(20, 200))
        chance = random.random()
        status = (
            "cancelled"
            if chance < 0.09
            else "completed"
            if done <= today
            else "in progress"
            if chance < 0.6
            else "planned"
        )
        panels = random.randrange(6, 90)
        projects.append((n, f"SP-{n:04d}", customer, TEAMS[random.randrange(6)][0], random.choice(models)[0], panels,
                         day.isoformat(), done.isoformat() if status == "completed" else None,
                         round(panels * random.uniform(420, 780), 2), status, random.random() < 0.35))  # fmt: skip
        if status != "cancelled" and random.random() < 0.9:
            for _ in range(random.randrange(1, 4)):
                paid = day + timedelta(days=random.randrange(5, 120))
                if paid <= today:
                    payments.append((len(payments) + 1, n, paid.isoformat(), round(random.uniform(500, 15000), 2),
                                     random.choice(("bank transfer", "bank transfer", "card", "financing"))))  # fmt: skip
    finished = [p for p in projects if p[7]]
    moments = set()
    while len(moments) < 1300:
        moments.add(
            datetime(2022, 1, 3, 8, 0)
            + timedelta(days=random.randrange(1260), minutes=5 * random.randrange(110))
        )
    for n, moment in enumerate(sorted(moments), 1):
        visits.append((n, random.choice(finished)[0], random.choice(technicians), moment.isoformat(sep=" "),
                       random.randrange(15, 300), random.choice(REASONS), random.random() < 0.5,
                       random.randrange(1, 6) if random.random() < 0.6 else None))  # fmt: skip
    return {"installation_team": [tuple(t) for t in TEAMS], "employee": employees, "customer": customers,
            "panel_model": models, "installation_project": projects, "service_visit": visits,
            "customer_payment": payments}  # fmt: skip


SOLAR = Part(
    "solar",
    SCRIPT,
    rows,
    (
        ("how many customers do we have", "SELECT count(*) FROM customer"),
        ("How many of our customers are businesses?", "SELECT count(*) FROM customer WHERE customer_kind = 'business'"),
        ("List the panel models made by Heliotek.",
         "SELECT panel_model_code FROM panel_model WHERE manufacturer = 'Heliotek'"),
        ("Which panel models are discontinued?", "SELECT panel_model_code FROM panel_model WHERE is_discontinued"),
        ("How many projects are in progress right now?",
         "SELECT count(*) FROM installation_project WHERE project_status = 'in progress'"),
        ("What is the total contract amount of the completed projects?",
         "SELECT sum(contract_amount) FROM installation_project WHERE project_status = 'completed'"),
        ("number of projects per status",
         "SELECT project_status, count(*) FROM installation_project GROUP BY project_status"),
        ("Which employee started most recently?",
         "SELECT full_name FROM employee ORDER BY employment_start_date DESC LIMIT 1"),
        ("How many employees have an electrician licence?",
         "SELECT count(*) FROM employee WHERE has_electrician_licence"),
        ("Show me the names of the customers in Ghent without an email address",
         "SELECT customer_name FROM customer WHERE city = 'Ghent' AND email_address IS NULL"),
        ("How many customers registered in 2024?",
         "SELECT count(*) FROM customer WHERE registration_date BETWEEN '2024-01-01' AND '2024-12-31'"),
        ("How many contracts did we sign last month?",
         "SELECT count(*) FROM installation_project WHERE contract_date BETWEEN '2025-05-01' AND '2025-05-31'"),
        ("What is the name of the team that Marta Lindqvist works in?",
         "SELECT team_name FROM employee JOIN installation_team USING (installation_team_code) "
         "WHERE full_name = 'Marta Lindqvist'"),
        ("What is the phone number of Clara Peeters?", None),
        ("When was project SP-0117 completed?",
         "SELECT completion_date FROM installation_project WHERE project_code = 'SP-0117'"),
        ("How many panels does project SP-0233 have?",
         "SELECT number_of_panels FROM installation_project WHERE project_code = 'SP-0233'"),
        ("average contract amount by kind of customer",
         "SELECT customer_kind, avg(contract_amount) FROM installation_project JOIN customer USING (customer_number) "
         "GROUP BY customer_kind"),
        ("Top 5 customers by total contract amount",
         "SELECT customer_name FROM installation_project JOIN customer USING (customer_number) "
         "GROUP BY customer_number, customer_name ORDER BY sum(contract_amount) DESC LIMIT 5"),
        ("Which customers have never had a project?",
         "SELECT customer_name FROM customer WHERE customer_number NOT IN "
         "(SELECT customer_number FROM installation_project)"),
        ("Give me the codes of the projects with a battery and a contract amount over 55000.",
         "SELECT project_code FROM installation_project WHERE includes_battery AND contract_amount > 55000"),
        ("How many service visits have we done so far this year?",
         "SELECT count(*) FROM service_visit WHERE visit_started_at >= '2025-01-01'"),
        ("How many service visits in the first quarter of 2025 were under warranty?",
         "SELECT count(*) FROM service_visit WHERE was_under_warranty AND visit_started_at >= '2025-01-01' "
         "AND visit_started_at < '2025-04-01'"),
        ("What's the average customer rating of our service visits?", "SELECT avg(customer_rating) FROM service_visit"),
        ("Who has done the most service visits?",
         "SELECT full_name FROM service_visit JOIN employee USING (employee_number) GROUP BY employee_number, full_name "
         "ORDER BY count(*) DESC LIMIT 1"),
        ("What different reasons for a service visit are there?", "SELECT DISTINCT reason_for_visit FROM service_visit"),
        ("How long was the longest service visit?", "SELECT max(duration_in_minutes) FROM service_visit"),
        ("How much money did we receive by bank transfer in 2024?",
         "SELECT sum(payment_amount) FROM customer_payment WHERE payment_method = 'bank transfer' "
         "AND payment_received_on BETWEEN '2024-01-01' AND '2024-12-31'"),
        ("Total payment amount for each month of 2025",
         "SELECT sum(payment_amount) FROM customer_payment WHERE payment_received_on >= '2025-01-01' "
         "GROUP BY substr(payment_received_on, 1, 7)"),
        ("How many customers accept the newsletter?", "SELECT count(*) FROM customer WHERE accepts_newsletter"),
        ("Which cities have more than 45 customers?", "SELECT city FROM customer GROUP BY city HAVING count(*) > 45"),
        ("How many projects has team Sunrise completed?",
         "SELECT count(*) FROM installation_project JOIN installation_team USING (installation_team_code) "
         "WHERE team_name = 'Sunrise' AND project_status = 'completed'"),
        ("When were the 5 latest service visits?",
         "SELECT visit_started_at FROM service_visit ORDER BY visit_started_at DESC LIMIT 5"),
        ("Which employees are not in any team?", "SELECT full_name FROM employee WHERE installation_team_code IS NULL"),
        ("Who earns the most?", "SELECT full_name FROM employee ORDER BY monthly_salary DESC LIMIT 1"),
        ("average monthly salary per job title", "SELECT job_title, avg(monthly_salary) FROM employee GROUP BY job_title"),
        ("names of all employees who started before 2016",
         "SELECT full_name FROM employee WHERE employment_start_date < '2016-01-01'"),
        ("What is the total number of panels in projects of public customers?",
         "SELECT sum(number_of_panels) FROM installation_project JOIN customer USING (customer_number) "
         "WHERE customer_kind = 'public'"),
        ("List the project codes and statuses for Clara Peeters",
         "SELECT project_code, project_status FROM installation_project JOIN customer USING (customer_number) "
         "WHERE customer_name = 'Clara Peeters'"),
        ("What percentage of the projects include a battery?",
         "SELECT 100.0 * sum(CASE WHEN includes_battery THEN 1 ELSE 0 END) / count(*) FROM installation_project"),
        ("How many more contracts did we sign in 2024 than in 2023?",
         "SELECT sum(CASE WHEN contract_date BETWEEN '2024-01-01' AND '2024-12-31' THEN 1 ELSE 0 END) "
         "- sum(CASE WHEN contract_date BETWEEN '2023-01-01' AND '2023-12-31' THEN 1 ELSE 0 END) "
         "FROM installation_project"),
        ("Which manufacturer makes the panel model with the highest list price?",
         "SELECT manufacturer FROM panel_model ORDER BY list_price DESC LIMIT 1"),
        ("How many projects have not received any payment?",
         "SELECT count(*) FROM installation_project WHERE project_number NOT IN "
         "(SELECT project_number FROM customer_payment)"),
        ("What is the average duration of service visits by reason?",
         "SELECT reason_for_visit, avg(duration_in_minutes) FROM service_visit GROUP BY reason_for_visit"),
        ("How many complaints did we get last week?", None),
        ("What was our profit margin on each project?", None),
        ("Which employees speak French?", None),
        ("Which customers cancelled because of the price?", None),
        ("How many service visits has Jonas Maes made since 1 April 2025?",
         "SELECT count(*) FROM service_visit JOIN employee USING (employee_number) WHERE full_name = 'Jonas Maes' "
         "AND visit_started_at >= '2025-04-01'"),
        ("Which customers have more than five projects?",
         "SELECT customer_name FROM installation_project JOIN customer USING (customer_number) "
         "GROUP BY customer_number, customer_name HAVING count(*) > 5"),
        ("How many different customers in Antwerp have a project with a battery?",
         "SELECT count(DISTINCT customer_number) FROM installation_project JOIN customer USING (customer_number) "
         "WHERE city = 'Antwerp' AND includes_battery"),
    ),
)  # fmt: skip

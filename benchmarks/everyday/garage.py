"""A car repair workshop: customers, vehicles, mechanics, jobs, parts and invoices."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE customers (
  customer_id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL, company_name TEXT,
  email TEXT, phone_number TEXT NOT NULL, city TEXT NOT NULL, customer_since DATE NOT NULL,
  newsletter_subscriber BOOLEAN NOT NULL);
CREATE TABLE vehicles (
  vehicle_id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers(customer_id),
  registration_number TEXT NOT NULL UNIQUE, make TEXT NOT NULL, model TEXT NOT NULL, model_year INTEGER NOT NULL,
  fuel_type TEXT NOT NULL, mileage_km INTEGER);
CREATE TABLE mechanics (
  mechanic_id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL, hired_on DATE NOT NULL,
  left_on DATE, hourly_rate NUMERIC NOT NULL, is_apprentice BOOLEAN NOT NULL);
CREATE TABLE suppliers (
  supplier_id INTEGER PRIMARY KEY, supplier_name TEXT NOT NULL, country TEXT NOT NULL);
CREATE TABLE spare_parts (
  part_id INTEGER PRIMARY KEY, part_number TEXT NOT NULL UNIQUE, part_name TEXT NOT NULL,
  supplier_id INTEGER NOT NULL REFERENCES suppliers(supplier_id), unit_price NUMERIC NOT NULL,
  stock_quantity INTEGER NOT NULL, reorder_level INTEGER NOT NULL);
CREATE TABLE repair_jobs (
  job_id INTEGER PRIMARY KEY, vehicle_id INTEGER NOT NULL REFERENCES vehicles(vehicle_id),
  mechanic_id INTEGER REFERENCES mechanics(mechanic_id), job_type TEXT NOT NULL, status TEXT NOT NULL,
  booked_at TIMESTAMP NOT NULL, completed_at TIMESTAMP, labour_hours NUMERIC, under_warranty BOOLEAN NOT NULL);
CREATE TABLE job_parts (
  job_id INTEGER NOT NULL REFERENCES repair_jobs(job_id), part_id INTEGER NOT NULL REFERENCES spare_parts(part_id),
  quantity INTEGER NOT NULL, PRIMARY KEY (job_id, part_id));
CREATE TABLE invoices (
  invoice_id INTEGER PRIMARY KEY, invoice_number TEXT NOT NULL UNIQUE,
  job_id INTEGER NOT NULL REFERENCES repair_jobs(job_id), issued_on DATE NOT NULL, amount NUMERIC NOT NULL,
  paid_on DATE);
"""
FIRST = ("Petra", "Joost", "Amina", "Karel", "Sofie", "Bram", "Noor", "Thijs", "Eva", "Ruben", "Lotte", "Milan",
         "Fatima", "Gijs", "Hanna", "Daan")  # fmt: skip
LAST = ("Lindqvist", "de Vries", "Yilmaz", "Bakker", "Jansen", "Visser", "Smit", "Meijer", "Mulder", "Bos", "Vos",
        "Peters", "Hendriks", "Dekker", "Kok")  # fmt: skip
CITIES = ("Utrecht", "Amersfoort", "Zeist", "Houten", "Nieuwegein", "Bilthoven", "Woerden")
COMPANIES = (
    "Bloemenhuis BV",
    "Van Dam Bouw",
    "Taxi Centraal",
    "Groen & Zoon",
    "Installatie Smit",
    "Polder Catering",
)
MODELS = (("Toyota", "Yaris"), ("Toyota", "Corolla"), ("Volkswagen", "Golf"), ("Volkswagen", "Polo"),
          ("Volvo", "V60"), ("Ford", "Focus"), ("Ford", "Transit"), ("Renault", "Clio"), ("Renault", "Zoe"),
          ("Tesla", "Model 3"), ("Skoda", "Octavia"), ("Peugeot", "208"))  # fmt: skip
TYPES = ("annual service", "brakes", "tyres", "exhaust", "diagnostics", "bodywork", "air conditioning")
MECHANICS = (
    (1, "Anton", "Weber", "2012-03-01", None, 48.5, 0),
    (2, "Maria", "Kowalski", "2015-09-15", None, 46, 0),
    (3, "Dirk", "Postma", "2009-01-12", "2024-02-29", 38.75, 0),
    (4, "Samir", "Haddad", "2018-05-01", None, 41.5, 0),
    (5, "Ellen", "Brouwer", "2019-11-04", None, 39, 0),
    (6, "Wouter", "Prins", "2020-08-17", "2023-10-31", 36.5, 0),
    (7, "Ivana", "Novak", "2021-02-01", None, 37.25, 0),
    (8, "Lars", "Holm", "2023-09-01", None, 17.5, 1),
    (9, "Yasmin", "Aziz", "2024-09-02", None, 16, 1),
    (10, "Pim", "Scholten", "2025-02-03", None, 15.25, 1),
)
SUPPLIERS = ((1, "AutoTeile Krause", "Germany"), (2, "Rem & Koppeling", "Netherlands"), (3, "Bosman Parts", "Netherlands"),
             (4, "Nordic Filters", "Sweden"), (5, "Stuttgart Elektrik", "Germany"), (6, "Pneus Lyon", "France"))  # fmt: skip
PARTS = (("BRK", "Brake pads front"), ("BRK", "Brake pads rear"), ("BRK", "Brake disc"), ("FLT", "Oil filter"),
         ("FLT", "Air filter"), ("FLT", "Cabin filter"), ("ELE", "Battery 60Ah"), ("ELE", "Alternator"),
         ("ELE", "Spark plug"), ("EXH", "Exhaust muffler"), ("EXH", "Lambda sensor"), ("TYR", "Summer tyre"),
         ("TYR", "Winter tyre"), ("TYR", "Valve set"), ("SUS", "Shock absorber"), ("SUS", "Control arm"),
         ("WIP", "Wiper blade"), ("LMP", "Headlight bulb H7"), ("LMP", "Tail light"), ("CLG", "Coolant 5L"),
         ("CLG", "Water pump"), ("CLG", "Thermostat"), ("TRN", "Clutch kit"), ("TRN", "Drive shaft"),
         ("ACC", "Roof rack"), ("ACC", "Tow bar"), ("ACC", "Floor mats"), ("OIL", "Engine oil 5W30"))  # fmt: skip


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(9104)
    names = [(f, s) for f in FIRST for s in LAST]
    random.shuffle(names)
    names.remove(("Petra", "Lindqvist"))
    names.insert(0, ("Petra", "Lindqvist"))
    customers = []
    for n in range(1, 221):
        first, last = names[n - 1]
        since = date(2016, 1, 4) + timedelta(days=random.randrange(3420))
        customers.append((n, first, last, random.choice(COMPANIES) if random.random() < 0.15 else None,
                          f"{first.lower()}.{n}@post.test" if random.random() < 0.8 else None,
                          f"06-{random.randrange(10**7, 10**8)}", random.choice(CITIES), since.isoformat(),
                          int(random.random() < 0.4)))  # fmt: skip
    vehicles = []
    for n in range(1, 321):
        make, model = random.choice(MODELS)
        fuel = (
            "electric"
            if model in ("Zoe", "Model 3")
            else random.choice(("petrol", "petrol", "diesel", "hybrid"))
        )
        owner = 1 if n <= 3 else random.randrange(2, 208)
        vehicles.append((n, owner, f"{'BDFGHJK'[n % 7]}X-{100 + n * 7 % 900}-{'LNPRS'[n % 5]}", make, model,
                         random.randrange(2004, 2025), fuel,
                         random.randrange(4000, 260000) if random.random() < 0.9 else None))  # fmt: skip
    parts = [
        (n, f"{code}-{1000 + n * 14}", name, n % 6 + 1, round(random.uniform(4, 380), 2), random.randrange(0, 60),
         random.choice((5, 10, 15, 20)))
        for n, (code, name) in enumerate(PARTS, 1)
    ]  # fmt: skip
    jobs, used, invoices = [], [], []
    day = date(2022, 1, 3)
    while day <= date(2025, 6, 17):
        for _ in range(random.choice((0, 1, 2, 3, 3, 4)) if day.weekday() < 6 else 0):
            n = len(jobs) + 1
            booked = datetime(
                day.year, day.month, day.day, random.randrange(8, 17), random.choice((0, 15, 30, 45))
            )
            able = [
                m
                for m in MECHANICS
                if m[3] < day.isoformat() and (m[4] or "9") > (day + timedelta(days=8)).isoformat()
            ]
            mechanic = random.choice(able) if random.random() < 0.96 else None
            done = booked + timedelta(days=random.randrange(0, 5), hours=random.randrange(1, 4))
            if random.random() < 0.05:
                status = "cancelled"
            elif day > date(2025, 5, 25):
                status = random.choice(("scheduled", "in progress", "waiting for parts", "completed"))
            else:
                status = "completed"
            if done > datetime(2025, 6, 17, 18) and status == "completed":
                status = "in progress"
            ended = status == "completed"
            hours = random.randrange(2, 40) / 4 if ended else None
            warranty = int(random.random() < 0.12 and not (mechanic and mechanic[6] and mechanic[0] > 8))
            jobs.append((n, random.randrange(1, 306), mechanic[0] if mechanic else None, random.choice(TYPES), status,
                         str(booked), str(done) if ended else None, hours, warranty))  # fmt: skip
            cost = (hours or 0) * 85
            for part in random.sample(range(1, 27), random.choice((0, 1, 1, 2, 3))) if ended else ():
                used.append((n, part, random.choice((1, 1, 1, 2, 4))))
                cost += parts[part - 1][4] * used[-1][2]
            issued = done.date() + timedelta(days=random.randrange(1, 6))
            if ended and issued <= date(2025, 6, 16) and random.random() < 0.97:
                k = len(invoices) + 1
                late = issued + timedelta(days=random.randrange(1, 45))
                paid = late.isoformat() if late <= date(2025, 6, 17) and random.random() < 0.96 else None
                invoices.append((k, f"INV-{20000 + k}", n, issued.isoformat(), round(cost, 2), paid))
        day += timedelta(days=1)
    invoices.append((len(invoices) + 1, f"INV-{20001 + len(invoices)}", next(j[0] for j in reversed(jobs) if j[6]),
                     "2025-06-17", 233.75, None))  # fmt: skip
    return {"customers": customers, "vehicles": vehicles, "mechanics": list(MECHANICS), "suppliers": list(SUPPLIERS),
            "spare_parts": parts, "repair_jobs": jobs, "job_parts": used, "invoices": invoices}  # fmt: skip


_JC = "repair_jobs j JOIN vehicles v ON v.vehicle_id = j.vehicle_id JOIN customers c ON c.customer_id = v.customer_id"

GARAGE = Part(
    "garage",
    SCRIPT,
    rows,
    (
        ("How many customers do we have?", "SELECT count(*) FROM customers"),
        ("How many jobs are waiting for parts?", "SELECT count(*) FROM repair_jobs WHERE status = 'waiting for parts'"),
        ("List the registration number and model of all Volvo vehicles",
         "SELECT registration_number, model FROM vehicles WHERE make = 'Volvo'"),
        ("How many vehicles are there per make?", "SELECT make, count(*) FROM vehicles GROUP BY make"),
        ("Average labour hours by job type",
         "SELECT job_type, avg(labour_hours) FROM repair_jobs GROUP BY job_type"),
        ("Which mechanics are apprentices?", "SELECT first_name, last_name FROM mechanics WHERE is_apprentice"),
        ("How many people became a customer last year?",
         "SELECT count(*) FROM customers WHERE customer_since BETWEEN '2024-01-01' AND '2024-12-31'"),
        ("How many invoices have not been paid yet?", "SELECT count(*) FROM invoices WHERE paid_on IS NULL"),
        ("What is the total amount of the unpaid invoices?", "SELECT sum(amount) FROM invoices WHERE paid_on IS NULL"),
        ("Who are the top 5 customers by total invoice amount?",
         f"SELECT c.first_name, c.last_name FROM invoices i JOIN {_JC.replace('repair_jobs j', 'repair_jobs j ON j.job_id = i.job_id')} "
         "GROUP BY c.customer_id, c.first_name, c.last_name ORDER BY sum(i.amount) DESC LIMIT 5"),
        ("What was the total amount invoiced last month?",
         "SELECT sum(amount) FROM invoices WHERE issued_on BETWEEN '2025-05-01' AND '2025-05-31'"),
        ("Which spare parts have less stock than their reorder level?",
         "SELECT part_name FROM spare_parts WHERE stock_quantity < reorder_level"),
        ("How many vehicles does Petra Lindqvist have?",
         "SELECT count(*) FROM vehicles v JOIN customers c ON c.customer_id = v.customer_id "
         "WHERE first_name = 'Petra' AND last_name = 'Lindqvist'"),
        ("Who owns the vehicle with registration number KX-387-N?",
         "SELECT first_name, last_name FROM vehicles v JOIN customers c ON c.customer_id = v.customer_id "
         "WHERE registration_number = 'KX-387-N'"),
        ("Which mechanic had the most jobs booked in 2024?",
         "SELECT m.first_name, m.last_name FROM repair_jobs j JOIN mechanics m ON m.mechanic_id = j.mechanic_id "
         "WHERE booked_at >= '2024-01-01' AND booked_at < '2025-01-01' GROUP BY m.mechanic_id, m.first_name, m.last_name "
         "ORDER BY count(*) DESC LIMIT 1"),
        ("How many customers have no email address?", "SELECT count(*) FROM customers WHERE email IS NULL"),
        ("Which customers don't have a vehicle registered with us?",
         "SELECT first_name, last_name FROM customers WHERE customer_id NOT IN (SELECT customer_id FROM vehicles)"),
        ("How many jobs were booked last week?",
         "SELECT count(*) FROM repair_jobs WHERE booked_at >= '2025-06-09' AND booked_at < '2025-06-16'"),
        ("When was the last job completed?", "SELECT max(completed_at) FROM repair_jobs"),
        ("Show me all suppliers from Germany", "SELECT supplier_name FROM suppliers WHERE country = 'Germany'"),
        ("How many different spare parts does each supplier deliver?",
         "SELECT supplier_name, count(*) FROM spare_parts p JOIN suppliers s ON s.supplier_id = p.supplier_id "
         "GROUP BY supplier_name"),
        ("What's the unit price of part FLT-1056?",
         "SELECT unit_price FROM spare_parts WHERE part_number = 'FLT-1056'"),
        ("how many warranty jobs were booked this year",
         "SELECT count(*) FROM repair_jobs WHERE under_warranty AND booked_at >= '2025-01-01' AND booked_at < '2026-01-01'"),
        ("What was the average invoice amount in the first quarter of 2025?",
         "SELECT avg(amount) FROM invoices WHERE issued_on BETWEEN '2025-01-01' AND '2025-03-31'"),
        ("Which mechanics have an hourly rate above 40?",
         "SELECT first_name, last_name FROM mechanics WHERE hourly_rate > 40"),
        ("What is the hourly rate of Samir Haddad?",
         "SELECT hourly_rate FROM mechanics WHERE first_name = 'Samir' AND last_name = 'Haddad'"),
        ("Which mechanics have left the company?", "SELECT first_name, last_name FROM mechanics WHERE left_on IS NOT NULL"),
        ("Cities with more than 30 customers",
         "SELECT city FROM customers GROUP BY city HAVING count(*) > 30"),
        ("What percentage of the vehicles is electric?",
         "SELECT 100.0 * sum(CASE WHEN fuel_type = 'electric' THEN 1 ELSE 0 END) / count(*) FROM vehicles"),
        ("number of jobs by status", "SELECT status, count(*) FROM repair_jobs GROUP BY status"),
        ("How many jobs have no mechanic assigned?", "SELECT count(*) FROM repair_jobs WHERE mechanic_id IS NULL"),
        ("What is the total quantity of oil filters used on jobs?",
         "SELECT sum(quantity) FROM job_parts u JOIN spare_parts p ON p.part_id = u.part_id WHERE part_name = 'Oil filter'"),
        ("Which vehicles have done more than 240,000 km? Give me the registration numbers.",
         "SELECT registration_number FROM vehicles WHERE mileage_km > 240000"),
        ("Which customers in Utrecht are subscribed to the newsletter?",
         "SELECT first_name, last_name FROM customers WHERE city = 'Utrecht' AND newsletter_subscriber"),
        ("How many customers are not subscribed to the newsletter?",
         "SELECT count(*) FROM customers WHERE NOT newsletter_subscriber"),
        ("Which spare parts were never used on a job?",
         "SELECT part_name FROM spare_parts WHERE part_id NOT IN (SELECT part_id FROM job_parts)"),
        ("How many jobs on Toyota vehicles were completed in May 2025?",
         "SELECT count(*) FROM repair_jobs j JOIN vehicles v ON v.vehicle_id = j.vehicle_id WHERE make = 'Toyota' "
         "AND completed_at >= '2025-05-01' AND completed_at < '2025-06-01'"),
        ("Which customers were invoiced more than 3000 euros in total in 2025?",
         f"SELECT c.first_name, c.last_name FROM invoices i JOIN {_JC.replace('repair_jobs j', 'repair_jobs j ON j.job_id = i.job_id')} "
         "WHERE issued_on BETWEEN '2025-01-01' AND '2025-12-31' GROUP BY c.customer_id, c.first_name, c.last_name HAVING sum(i.amount) > 3000"),
        ("Which mechanics never worked on a job under warranty?",
         "SELECT first_name, last_name FROM mechanics m WHERE NOT EXISTS (SELECT 1 FROM repair_jobs j "
         "WHERE j.mechanic_id = m.mechanic_id AND under_warranty)"),
        ("What is the number of the most recent invoice?",
         "SELECT invoice_number FROM invoices ORDER BY issued_on DESC LIMIT 1"),
        ("What is our most expensive spare part?",
         "SELECT part_name FROM spare_parts ORDER BY unit_price DESC LIMIT 1"),
        ("How many jobs were booked yesterday?",
         "SELECT count(*) FROM repair_jobs WHERE booked_at >= '2025-06-17' AND booked_at < '2025-06-18'"),
        ("Total invoice amount per make of vehicle in 2024, highest first",
         "SELECT v.make, sum(i.amount) FROM invoices i JOIN repair_jobs j ON j.job_id = i.job_id "
         "JOIN vehicles v ON v.vehicle_id = j.vehicle_id WHERE issued_on BETWEEN '2024-01-01' AND '2024-12-31' "
         "GROUP BY v.make ORDER BY sum(i.amount) DESC"),
        ("How many labour hours did Ivana Novak work on jobs completed in 2024?",
         "SELECT sum(labour_hours) FROM repair_jobs j JOIN mechanics m ON m.mechanic_id = j.mechanic_id "
         "WHERE first_name = 'Ivana' AND last_name = 'Novak' AND completed_at >= '2024-01-01' AND completed_at < '2025-01-01'"),
        ("How many diesel cars built before 2010 do our customers drive?",
         "SELECT count(*) FROM vehicles WHERE fuel_type = 'diesel' AND model_year < 2010"),
        ("How many invoices are past their due date?", None),
        ("What colour is the car with registration number KX-387-N?", None),
        ("What was the average customer satisfaction score in May?", None),
        ("How many courtesy cars did we lend out last month?", None),
        ("Which mechanics were off sick this week?", None),
    ),
)  # fmt: skip

"""A letting agency: buildings, flats, tenants, payments and repairs."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE buildings (
  building_id INTEGER PRIMARY KEY, name VARCHAR(40) NOT NULL, street VARCHAR(60) NOT NULL, town VARCHAR(40) NOT NULL,
  built_year INTEGER NOT NULL, has_lift BOOLEAN NOT NULL);
CREATE TABLE flats (
  flat_id INTEGER PRIMARY KEY, flat_code VARCHAR(10) NOT NULL, building_id INTEGER NOT NULL REFERENCES buildings(building_id),
  floor INTEGER NOT NULL, rooms INTEGER NOT NULL, area_sqm NUMERIC(6, 1) NOT NULL, monthly_rent NUMERIC(8, 2) NOT NULL,
  furnished BOOLEAN NOT NULL);
CREATE TABLE tenants (
  tenant_id INTEGER PRIMARY KEY, first_name VARCHAR(40) NOT NULL, last_name VARCHAR(40) NOT NULL, email VARCHAR(80),
  flat_id INTEGER NOT NULL REFERENCES flats(flat_id), moved_in DATE NOT NULL, moved_out DATE, smoker CHAR(1) NOT NULL);
CREATE TABLE payments (
  payment_id INTEGER PRIMARY KEY, reference VARCHAR(14) NOT NULL, tenant_id INTEGER NOT NULL REFERENCES tenants(tenant_id),
  received_at TIMESTAMP NOT NULL, amount NUMERIC(8, 2) NOT NULL, method VARCHAR(20) NOT NULL);
CREATE TABLE repairs (
  repair_id INTEGER PRIMARY KEY, flat_id INTEGER NOT NULL REFERENCES flats(flat_id), reported_on DATE NOT NULL,
  finished_on DATE, trade VARCHAR(20) NOT NULL, urgent BOOLEAN NOT NULL, cost NUMERIC(8, 2));
"""

FIRST = """
    Alba Benno Cleo Dimitra Emil Fiona Gustav Hanna Ivo Judit Kamil Lina Matteo Nora Otis Petra
""".split()  # noqa: SIM905
LAST = """
    Abel Berg Castro Dietz Eklund Fischer Grant Hansen Ilic Jovanovic Krause Lund Marino Nagy
""".split()  # noqa: SIM905
TOWNS = ("Bath", "Derby", "Exeter", "Truro")


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(53)
    buildings = [
        (n, f"{word} House", f"{n * 4} {word} Road", TOWNS[n % 4], 1900 + n * 6, n % 3 == 0)
        for n, word in enumerate("Ash Beech Cedar Elm Fir Hazel Larch Maple Oak Pine Rowan Willow".split(), 1)  # noqa: SIM905
    ]
    flats = [
        (n, f"{n * 11:05d}", 1 + n % 12, n % 6, 1 + n % 5, round(random.uniform(22, 140), 1),
         round(random.uniform(420, 2900), 2), random.random() < 0.3)
        for n in range(1, 181)
    ]  # fmt: skip
    tenants = []
    for n in range(1, 421):
        first, last = random.choice(FIRST), random.choice(LAST)
        start = datetime(2018, 1, 1) + timedelta(days=random.randrange(2700))
        end = (
            f"{start + timedelta(days=random.randrange(90, 900)):%Y-%m-%d}" if random.random() < 0.5 else None
        )
        tenants.append(
            (n, first, last, f"{last}.{n}@let.example".lower() if random.random() < 0.85 else None,
             random.randrange(1, 171), f"{start:%Y-%m-%d}", end, "Y" if random.random() < 0.2 else "N")
        )  # fmt: skip
    tenants.append((421, "Wanda", "Zielinski", "wanda@let.example", 7, "2023-09-01", None, "N"))
    payments = []
    for n in range(1, 12_001):
        at = datetime(2022, 1, 1) + timedelta(minutes=random.randrange(60 * 24 * 1264))
        payments.append(
            (n, f"PAY-{n * 9 + 300_000}", random.randrange(1, 422), f"{at:%Y-%m-%d %H:%M:%S}",
             round(random.uniform(300, 2900), 2), random.choice(("transfer", "transfer", "direct debit", "cash")))
        )  # fmt: skip
    repairs = []
    for n in range(1, 901):
        day = datetime(2022, 1, 1) + timedelta(days=random.randrange(1260))
        done = random.random() < 0.85
        repairs.append(
            (n, random.randrange(1, 181), f"{day:%Y-%m-%d}",
             f"{day + timedelta(days=random.randrange(30)):%Y-%m-%d}" if done else None,
             random.choice(("plumbing", "heating", "electrical", "windows")), random.random() < 0.25,
             round(random.uniform(40, 3000), 2) if done else None)
        )  # fmt: skip
    return {
        "buildings": buildings,
        "flats": flats,
        "tenants": tenants,
        "payments": payments,
        "repairs": repairs,
    }


QUESTIONS = (
    ("How many flats do we let?", "SELECT count(*) FROM flats"),
    ("How many buildings are in Exeter?", "SELECT count(*) FROM buildings WHERE town = 'Exeter'"),
    ("Which buildings have a lift?", "SELECT name FROM buildings WHERE has_lift = 1"),
    ("How many furnished flats are there?", "SELECT count(*) FROM flats WHERE furnished = 1"),
    ("How many flats are unfurnished?", "SELECT count(*) FROM flats WHERE furnished = 0"),
    ("What is the monthly rent of flat 00121?", "SELECT monthly_rent FROM flats WHERE flat_code = '00121'"),
    ("What is the average monthly rent of flats with 3 rooms?", "SELECT avg(monthly_rent) FROM flats WHERE rooms = 3"),
    ("Which flat has the highest monthly rent?", "SELECT flat_code FROM flats ORDER BY monthly_rent DESC LIMIT 1"),
    ("How many flats are in Oak House?",
     "SELECT count(*) FROM flats JOIN buildings USING (building_id) WHERE name = 'Oak House'"),
    ("How many flats does each building have?",
     "SELECT name, count(*) FROM flats JOIN buildings USING (building_id) GROUP BY building_id"),
    ("How many tenants have no email?", "SELECT count(*) FROM tenants WHERE email IS NULL"),
    ("How many tenants are smokers?", "SELECT count(*) FROM tenants WHERE smoker = 'Y'"),
    ("When did Wanda Zielinski move in?",
     "SELECT moved_in FROM tenants WHERE first_name = 'Wanda' AND last_name = 'Zielinski'"),
    ("What is the total amount of payments by Wanda Zielinski?",
     "SELECT sum(amount) FROM payments JOIN tenants USING (tenant_id) "
     "WHERE first_name = 'Wanda' AND last_name = 'Zielinski'"),
    ("How many tenants moved in in 2024?",
     "SELECT count(*) FROM tenants WHERE moved_in >= '2024-01-01' AND moved_in < '2025-01-01'"),
    ("How many tenants moved out last year?",
     "SELECT count(*) FROM tenants WHERE moved_out >= '2024-01-01' AND moved_out < '2025-01-01'"),
    ("How many tenants have not moved out?", "SELECT count(*) FROM tenants WHERE moved_out IS NULL"),
    ("What is the amount of payment PAY-345009?", "SELECT amount FROM payments WHERE reference = 'PAY-345009'"),
    ("What is the amount of payment 'PAY-345010'?", "SELECT amount FROM payments WHERE reference = 'PAY-345010'"),
    ("How many payments were received on 2025-02-14?",
     "SELECT count(*) FROM payments WHERE received_at >= '2025-02-14' AND received_at < '2025-02-15'"),
    ("What is the total amount of payments received last month?",
     "SELECT sum(amount) FROM payments WHERE received_at >= '2025-05-01' AND received_at < '2025-06-01'"),
    ("How many payments were received since January 2025?",
     "SELECT count(*) FROM payments WHERE received_at >= '2025-01-01'"),
    ("How many payments were made in cash?", "SELECT count(*) FROM payments WHERE method = 'cash'"),
    ("What is the total amount for each payment method?", "SELECT method, sum(amount) FROM payments GROUP BY method"),
    ("What is the largest payment?", "SELECT max(amount) FROM payments"),
    ("How many repairs are urgent?", "SELECT count(*) FROM repairs WHERE urgent = 1"),
    ("How many repairs are not finished?", "SELECT count(*) FROM repairs WHERE finished_on IS NULL"),
    ("How many urgent repairs were reported in the last 30 days?",
     "SELECT count(*) FROM repairs WHERE urgent = 1 AND reported_on >= '2025-05-19' AND reported_on < '2025-06-18'"),
    ("What is the average cost of plumbing repairs?", "SELECT avg(cost) FROM repairs WHERE trade = 'plumbing'"),
    ("How many repairs were there for each trade?", "SELECT trade, count(*) FROM repairs GROUP BY trade"),
    ("Which repair was the most expensive?", "SELECT repair_id FROM repairs ORDER BY cost DESC LIMIT 1"),
    ("What is the cheapest repair?", "SELECT min(cost) FROM repairs"),
    ("Which buildings were built before 1930?", "SELECT name FROM buildings WHERE built_year < 1930"),
    ("What is the oldest building?", "SELECT name FROM buildings ORDER BY built_year LIMIT 1"),
    ("How many flats have more than 100 square meters?", "SELECT count(*) FROM flats WHERE area_sqm > 100"),
    ("How many flats on the ground floor are furnished?",
     "SELECT count(*) FROM flats WHERE floor = 0 AND furnished = 1"),
    ("Which flats had no repairs?",
     "SELECT flat_code FROM flats WHERE flat_id NOT IN (SELECT flat_id FROM repairs)"),
    ("How many tenants complained about noise?", None),
    ("What is the occupancy rate of Oak House?", None),
    ("Which tenants pay late?", None),
)  # fmt: skip

LETTING = Part("letting", SCRIPT, rows, QUESTIONS)

"""A haulier: depots, drivers, vehicles, customers, shipments, claims and fuel, with short column names and no keys."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE depots (
  depot_cd CHAR(3) PRIMARY KEY, depot_nm VARCHAR(40) NOT NULL, city VARCHAR(40) NOT NULL, cntry VARCHAR(30) NOT NULL,
  opened_dt DATE NOT NULL, is_hub BOOLEAN NOT NULL);
CREATE TABLE drivers (
  drv_id INTEGER PRIMARY KEY, first_name VARCHAR(40) NOT NULL, last_name VARCHAR(40) NOT NULL, lic_no VARCHAR(12) NOT NULL,
  birth_dt DATE, hired_on DATE NOT NULL, left_on DATE, depot_cd CHAR(3) NOT NULL, hazmat_cert CHAR(1) NOT NULL);
CREATE TABLE vehicles (
  veh_id INTEGER PRIMARY KEY, plate VARCHAR(10) NOT NULL, veh_type VARCHAR(10) NOT NULL, max_load_kg INTEGER NOT NULL,
  mfr VARCHAR(20) NOT NULL, purch_dt DATE NOT NULL, last_insp_dt DATE, active INTEGER NOT NULL, depot_cd CHAR(3) NOT NULL);
CREATE TABLE customers (
  cust_no CHAR(6) PRIMARY KEY, company_name VARCHAR(60) NOT NULL, contact_email VARCHAR(80), city VARCHAR(40) NOT NULL,
  cntry VARCHAR(30) NOT NULL, credit_limit NUMERIC(10, 2), acct_status VARCHAR(10) NOT NULL);
CREATE TABLE shipments (
  shp_id INTEGER PRIMARY KEY, tracking_no VARCHAR(12) NOT NULL, cust_no CHAR(6) NOT NULL, drv_id INTEGER, veh_id INTEGER,
  dest_city VARCHAR(40) NOT NULL, created_at TIMESTAMP NOT NULL, picked_up_at TIMESTAMP, delivered_at TIMESTAMP,
  weight_kg NUMERIC(8, 1) NOT NULL, freight_cost NUMERIC(8, 2) NOT NULL, status VARCHAR(12) NOT NULL,
  fragile BOOLEAN NOT NULL, insured CHAR(1) NOT NULL);
CREATE TABLE damage_claims (
  claim_id INTEGER PRIMARY KEY, shp_id INTEGER NOT NULL, filed_on DATE NOT NULL, claim_amt NUMERIC(8, 2) NOT NULL,
  settled_on DATE, reason VARCHAR(20) NOT NULL);
CREATE TABLE fuel_logs (
  log_id INTEGER PRIMARY KEY, veh_id INTEGER NOT NULL, fuelled_at TIMESTAMP NOT NULL, litres NUMERIC(6, 1) NOT NULL,
  total_price NUMERIC(8, 2) NOT NULL, station VARCHAR(20) NOT NULL);
"""

DEPOTS = (
    ("HAM", "Hamburg North", "Hamburg", "Germany", "2004-05-03", True),
    ("BRE", "Bremen Port", "Bremen", "Germany", "2011-09-12", False),
    ("RTM", "Rotterdam Maas", "Rotterdam", "Netherlands", "1998-02-01", True),
    ("ANT", "Antwerp Left Bank", "Antwerp", "Belgium", "2016-03-21", False),
    ("LIL", "Lille South", "Lille", "France", "2021-10-04", False),
    ("AAR", "Aarhus Harbour", "Aarhus", "Denmark", "2023-01-16", False),
)
FIRST = """
    Anke Bruno Carla Dirk Emil Frauke Gunnar Hilde Ivo Jana Knut Lea Malte Nadine Otto Petra Rolf Sabine Timo
""".split()  # noqa: SIM905
LAST = """
    Albers Behrens Carstens Diekmann Eggers Friis Grote Hansen Ihde Jansen Kruse Lorenzen Meinert Nissen Ohlsen
""".split()  # noqa: SIM905
COMPANIES = """
    Nordlicht Textil|Baltic Tools|Maas Chemicals|Kanal Foods|Elbe Optics|Fjord Furniture|Scheldt Steel|Lys Paper|
    Weser Pumps|Alster Books|Delta Tiles|Holm Bikes
""".replace("\n", "").split("|")
CITIES = ("Berlin", "Hannover", "Utrecht", "Ghent", "Rouen", "Odense", "Kiel", "Eindhoven")


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(83)
    drivers = []
    for n in range(1, 121):
        hired = datetime(2009, 1, 1) + timedelta(days=random.randrange(5900))
        drivers.append(
            (n, random.choice(FIRST), random.choice(LAST), f"D{n * 37 + 10_000:07d}",
             f"{datetime(1958, 1, 1) + timedelta(days=random.randrange(16_000)):%Y-%m-%d}"
             if random.random() < 0.9 else None,
             f"{hired:%Y-%m-%d}",
             f"{hired + timedelta(days=random.randrange(200, 1500)):%Y-%m-%d}"
             if random.random() < 0.2 and hired.year < 2020 else None,
             random.choice(DEPOTS)[0], "Y" if random.random() < 0.3 else "N")
        )  # fmt: skip
    drivers.append((121, "Quirin", "Zabel", "D0099121", "1979-11-30", "2019-04-01", None, "BRE", "Y"))
    vehicles = [
        (n, f"HB-{random.choice('ABCDEFGH')}{random.choice('KLMNP')} {n * 11 + 100}",
         random.choice(("van", "truck", "truck", "trailer")), random.randrange(8, 400) * 100,
         random.choice(("MAN", "Scania", "Volvo", "Iveco")),
         f"{datetime(2012, 1, 1) + timedelta(days=random.randrange(4700)):%Y-%m-%d}",
         f"{datetime(2023, 6, 1) + timedelta(days=random.randrange(740)):%Y-%m-%d}"
         if random.random() < 0.85 else None,
         int(random.random() < 0.88), random.choice(DEPOTS)[0])
        for n in range(1, 91)
    ]  # fmt: skip
    customers = [
        (f"{n * 731:06d}",
         COMPANIES[n % 12].strip() + (f" {n // 12 + 1}" if n > 11 else ""),
         f"dispatch{n}@cargo.example" if random.random() < 0.75 else None, random.choice(CITIES),
         random.choice(("Germany", "Netherlands", "Belgium", "France")),
         float(random.randrange(1, 80) * 500) if random.random() < 0.8 else None,
         random.choice(("active", "active", "active", "blocked", "closed")))
        for n in range(1, 151)
    ]  # fmt: skip
    shipments = []
    for n in range(1, 4001):
        at = datetime(2024, 1, 1, 6) + timedelta(minutes=random.randrange(60 * 24 * 533))
        picked = at + timedelta(hours=random.randrange(1, 70))
        status = random.choice(("delivered",) * 8 + ("in transit", "pending", "lost"))
        started = status != "pending"
        shipments.append(
            (n, f"TRK{n * 13 + 500_000}", random.choice(customers[:140])[0],
             random.randrange(1, 122) if started else None, random.randrange(1, 85) if started else None,
             random.choice(CITIES), f"{at:%Y-%m-%d %H:%M:%S}", f"{picked:%Y-%m-%d %H:%M:%S}" if started else None,
             f"{picked + timedelta(hours=random.randrange(5, 90)):%Y-%m-%d %H:%M:%S}"
             if status == "delivered" else None,
             round(random.uniform(2, 9000), 1), round(random.uniform(15, 2400), 2), status,
             random.random() < 0.2, "Y" if random.random() < 0.4 else "N")
        )  # fmt: skip
    claims = []
    for n in range(1, 261):
        day = datetime(2024, 1, 20) + timedelta(days=random.randrange(510))
        claims.append(
            (n, random.randrange(1, 4001), f"{day:%Y-%m-%d}", round(random.uniform(30, 9000), 2),
             f"{day + timedelta(days=random.randrange(5, 90)):%Y-%m-%d}" if random.random() < 0.7 else None,
             random.choice(("water", "crushed", "theft", "late")))
        )  # fmt: skip
    fuel = []
    for n in range(1, 2501):
        at = datetime(2024, 1, 1, 5) + timedelta(minutes=random.randrange(60 * 24 * 533))
        litres = round(random.uniform(20, 600), 1)
        fuel.append(
            (n, random.randrange(1, 91), f"{at:%Y-%m-%d %H:%M:%S}", litres,
             round(litres * random.uniform(1.4, 1.9), 2), random.choice(("Aral", "Shell", "Total", "Q8")))
        )  # fmt: skip
    return {
        "depots": list(DEPOTS), "drivers": drivers, "vehicles": vehicles, "customers": customers,
        "shipments": shipments, "damage_claims": claims, "fuel_logs": fuel,
    }  # fmt: skip


QUESTIONS = (
    ("How many shipments do we have in total?", "SELECT count(*) FROM shipments"),
    ("How many shipments were delivered last month?",
     "SELECT count(*) FROM shipments WHERE delivered_at >= '2025-05-01' AND delivered_at < '2025-06-01'"),
    ("What is the status of shipment TRK513000?", "SELECT status FROM shipments WHERE tracking_no = 'TRK513000'"),
    ("What's the status of TRK513001?", "SELECT status FROM shipments WHERE tracking_no = 'TRK513001'"),
    ("How many shipments are still in transit?", "SELECT count(*) FROM shipments WHERE status = 'in transit'"),
    ("How many shipments have not been delivered yet?",
     "SELECT count(*) FROM shipments WHERE delivered_at IS NULL"),
    ("How many fragile shipments were lost?",
     "SELECT count(*) FROM shipments WHERE fragile = 1 AND status = 'lost'"),
    ("How many shipments are uninsured?", "SELECT count(*) FROM shipments WHERE insured = 'N'"),
    ("What is the total freight cost of shipments created in the first quarter of 2025?",
     "SELECT sum(freight_cost) FROM shipments WHERE created_at >= '2025-01-01' AND created_at < '2025-04-01'"),
    ("What is the average weight of shipments to Ghent?",
     "SELECT avg(weight_kg) FROM shipments WHERE dest_city = 'Ghent'"),
    ("How heavy was the heaviest shipment?", "SELECT max(weight_kg) FROM shipments"),
    ("Which shipments weigh more than 8950 kg?", "SELECT tracking_no FROM shipments WHERE weight_kg > 8950"),
    ("Show the number of shipments per status.", "SELECT status, count(*) FROM shipments GROUP BY status"),
    ("Top 5 customers by number of shipments",
     "SELECT company_name FROM customers JOIN shipments USING (cust_no) GROUP BY cust_no "
     "ORDER BY count(*) DESC LIMIT 5"),
    ("Which customers have never shipped anything?",
     "SELECT company_name FROM customers WHERE cust_no NOT IN (SELECT cust_no FROM shipments)"),
    ("What is the credit limit of customer 010234?",
     "SELECT credit_limit FROM customers WHERE cust_no = '010234'"),
    ("How many blocked customers are in Germany?",
     "SELECT count(*) FROM customers WHERE acct_status = 'blocked' AND cntry = 'Germany'"),
    ("Which customers have no credit limit?", "SELECT company_name FROM customers WHERE credit_limit IS NULL"),
    ("How many drivers have a hazmat certificate?", "SELECT count(*) FROM drivers WHERE hazmat_cert = 'Y'"),
    ("How many drivers are based in Bremen?",
     "SELECT count(*) FROM drivers JOIN depots USING (depot_cd) WHERE city = 'Bremen'"),
    ("Who are the drivers over 60?",
     "SELECT first_name, last_name FROM drivers WHERE birth_dt < '1964-06-19'"),
    ("How many drivers were hired since 2022?", "SELECT count(*) FROM drivers WHERE hired_on >= '2022-01-01'"),
    ("When was Quirin Zabel hired?",
     "SELECT hired_on FROM drivers WHERE first_name = 'Quirin' AND last_name = 'Zabel'"),
    ("How many shipments did Quirin Zabel deliver in 2024?",
     "SELECT count(*) FROM shipments JOIN drivers USING (drv_id) WHERE first_name = 'Quirin' "
     "AND last_name = 'Zabel' AND delivered_at >= '2024-01-01' AND delivered_at < '2025-01-01'"),
    ("List the plates of inactive trucks.",
     "SELECT plate FROM vehicles WHERE active = 0 AND veh_type = 'truck'"),
    ("Which depots are hubs?", "SELECT depot_nm FROM depots WHERE is_hub = 1"),
    ("How many vehicles does each depot have?",
     "SELECT depot_nm, count(*) FROM vehicles JOIN depots USING (depot_cd) GROUP BY depot_cd"),
    ("What is the total claim amount of open claims?",
     "SELECT sum(claim_amt) FROM damage_claims WHERE settled_on IS NULL"),
    ("How many claims were filed because of theft this year?",
     "SELECT count(*) FROM damage_claims WHERE reason = 'theft' AND filed_on >= '2025-01-01' "
     "AND filed_on < '2026-01-01'"),
    ("How many litres of fuel did we buy at Shell in May 2025?",
     "SELECT sum(litres) FROM fuel_logs WHERE station = 'Shell' AND fuelled_at >= '2025-05-01' "
     "AND fuelled_at < '2025-06-01'"),
    ("What percentage of shipments arrive on time?", None),
    ("What is our claim rate per driver?", None),
    ("How did freight revenue develop over the last two years?", None),
    ("What is the average fuel consumption per 100 km?", None),
    ("Which drivers have had an accident?", None),
    ("How many shipments were returned by the recipient?", None),
    ("What share of vehicles is older than ten years?", None),
    ("How much profit did we make in 2024?", None),
    ("What is the average delivery time?", None),
    ("Which customer complained most often?", None),
)  # fmt: skip

FREIGHT = Part("freight", SCRIPT, rows, QUESTIONS)

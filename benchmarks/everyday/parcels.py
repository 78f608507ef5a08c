"""A parcel service: branches, couriers, senders, parcels, scans and complaints."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE branches (
  branch_code CHAR(4) PRIMARY KEY, branch_name VARCHAR(40) NOT NULL, town VARCHAR(40) NOT NULL, opened DATE NOT NULL,
  lockers INTEGER NOT NULL, open_sunday BOOLEAN NOT NULL);
CREATE TABLE couriers (
  courier_id INTEGER PRIMARY KEY, first_name VARCHAR(30) NOT NULL, last_name VARCHAR(30) NOT NULL, phone VARCHAR(20),
  date_of_birth DATE NOT NULL, hired_on DATE NOT NULL, left_on DATE, branch_code CHAR(4) NOT NULL
  REFERENCES branches(branch_code), has_van CHAR(1) NOT NULL);
CREATE TABLE senders (
  sender_id INTEGER PRIMARY KEY, company VARCHAR(50) NOT NULL, town VARCHAR(40) NOT NULL, vat_no VARCHAR(12),
  contract VARCHAR(10) NOT NULL, discount INTEGER);
CREATE TABLE parcels (
  parcel_id INTEGER PRIMARY KEY, barcode VARCHAR(12) NOT NULL, sender_id INTEGER NOT NULL REFERENCES senders(sender_id),
  courier_id INTEGER REFERENCES couriers(courier_id), branch_code CHAR(4) NOT NULL REFERENCES branches(branch_code),
  posted_at TIMESTAMP NOT NULL, delivered_at TIMESTAMP, weight_g INTEGER NOT NULL, price NUMERIC(6, 2) NOT NULL,
  service VARCHAR(12) NOT NULL, signed_for BOOLEAN NOT NULL);
CREATE TABLE complaints (
  complaint_id INTEGER PRIMARY KEY, parcel_id INTEGER NOT NULL REFERENCES parcels(parcel_id), filed_on DATE NOT NULL,
  closed_on DATE, topic VARCHAR(15) NOT NULL, refund NUMERIC(6, 2));
"""

BRANCHES = (
    ("0101", "Market Square", "Ghent", "2015-03-02", 40, True),
    ("0102", "Canal Side", "Ghent", "2019-09-16", 24, False),
    ("0205", "Central Station", "Antwerp", "2012-05-21", 64, True),
    ("0206", "Harbour Gate", "Antwerp", "2022-01-10", 18, False),
    ("0310", "Old Town", "Bruges", "2017-11-06", 30, False),
    ("0411", "University", "Leuven", "2024-04-15", 52, True),
)
FIRST = (
    "Amal",
    "Bram",
    "Chloe",
    "Daan",
    "Elke",
    "Finn",
    "Gitte",
    "Hugo",
    "Ines",
    "Jef",
    "Kato",
    "Lars",
    "Mila",
    "Noor",
)
LAST = (
    "Aerts",
    "Baert",
    "Claes",
    "Daems",
    "Evers",
    "Franck",
    "Goossens",
    "Hermans",
    "Jacobs",
    "Jansen",
    "Maes",
)
COMPANIES = (
    "Bloom Flowers",
    "Delta Books",
    "Fox Fashion",
    "Green Tea House",
    "Nova Toys",
    "Pixel Print",
    "Urban Bikes",
)


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(4242)
    couriers = []
    for n in range(1, 91):
        hired = datetime(2014, 1, 1) + timedelta(days=random.randrange(4100))
        left = (
            f"{hired + timedelta(days=random.randrange(100, 1500)):%Y-%m-%d}"
            if random.random() < 0.25
            else None
        )
        couriers.append((
            n, random.choice(FIRST), random.choice(LAST),
            None if random.random() < 0.2 else f"04{random.randrange(10**8)}",
            f"{datetime(1960, 1, 1) + timedelta(days=random.randrange(16500)):%Y-%m-%d}", f"{hired:%Y-%m-%d}",
            left if left is None or left < "2025-06-18" else None, random.choice(BRANCHES)[0], random.choice("YYN"),
        ))  # fmt: skip
    senders = [
        (n, f"{random.choice(COMPANIES)} {n}" if n > 7 else COMPANIES[n - 1],
         random.choice(("Ghent", "Antwerp", "Bruges", "Leuven", "Hasselt")),
         None if random.random() < 0.3 else f"BE{random.randrange(10**9):010d}", random.choice(("basic",
         "basic", "premium")),
         random.choice((None, None, 5, 10, 15)))
        for n in range(1, 121)
    ]  # fmt: skip
    parcels = []
    for n in range(1, 6001):
        posted = datetime(2023, 7, 1) + timedelta(minutes=random.randrange(1_035_000))
        delivered = posted + timedelta(minutes=random.randrange(300, 7000))
        done = delivered < datetime(2025, 6, 18) and random.random() < 0.96
        parcels.append((
            n, f"{n * 7919 % 10**8:010d}", random.randrange(1, 116),
            None if random.random() < 0.04 else random.randrange(1, 86),
            random.choice(BRANCHES)[0], f"{posted:%Y-%m-%d %H:%M:%S}",
            f"{delivered:%Y-%m-%d %H:%M:%S}" if done else None,
            random.randrange(80, 20000), round(random.uniform(4, 38), 2), random.choice(("standard",
            "standard", "express")),
            random.random() < 0.35,
        ))  # fmt: skip
    complaints = []
    for n in range(1, 301):
        filed = datetime(2023, 8, 1) + timedelta(days=random.randrange(685))
        closed = (
            f"{filed + timedelta(days=random.randrange(1, 60)):%Y-%m-%d}" if random.random() < 0.8 else None
        )
        complaints.append((
            n, random.randrange(1, 6001), f"{filed:%Y-%m-%d}",
            closed if closed is None or closed < "2025-06-18" else None,
            random.choice(("lost", "damaged", "damaged", "late")), round(random.uniform(5, 90),
            2) if random.random() < 0.5 else None,
        ))  # fmt: skip
    return {
        "branches": list(BRANCHES), "couriers": list(couriers), "senders": list(senders), "parcels": list(parcels),
        "complaints": list(complaints),
    }  # fmt: skip


QUESTIONS: tuple[tuple[str, str | None], ...] = (
    ("How many parcels did we handle in 2024?",
     "SELECT COUNT(*) FROM parcels WHERE posted_at >= '2024-01-01' AND posted_at < '2025-01-01'"),
    ("How many parcels were posted yesterday?",
     "SELECT COUNT(*) FROM parcels WHERE posted_at >= '2025-06-17' AND posted_at < '2025-06-18'"),
    ("How many parcels have not been delivered?", "SELECT COUNT(*) FROM parcels WHERE delivered_at IS NULL"),
    ("How many express parcels weigh more than 10000 g?",
     "SELECT COUNT(*) FROM parcels WHERE service = 'express' AND weight_g > 10000"),
    ("When was parcel 0000007919 delivered?", "SELECT delivered_at FROM parcels WHERE barcode = '0000007919'"),
    ("Which company sent parcel 0000007919?",
     "SELECT s.company FROM senders s JOIN parcels p ON p.sender_id = s.sender_id WHERE p.barcode = '0000007919'"),
    ("What is the average price of an express parcel?", "SELECT AVG(price) FROM parcels WHERE service = 'express'"),
    ("How many parcels were signed for last month?",
     "SELECT COUNT(*) FROM parcels WHERE signed_for AND delivered_at >= '2025-05-01' AND delivered_at < '2025-06-01'"),
    ("How many parcels have no courier?", "SELECT COUNT(*) FROM parcels WHERE courier_id IS NULL"),
    ("What is the heaviest parcel?", "SELECT barcode FROM parcels ORDER BY weight_g DESC LIMIT 1"),
    ("Which branches are open on Sunday?", "SELECT branch_name FROM branches WHERE open_sunday"),
    ("Which branches in Ghent are not open on Sunday?",
     "SELECT branch_name FROM branches WHERE town = 'Ghent' AND NOT open_sunday"),
    ("Which branch has the most lockers?", "SELECT branch_name FROM branches ORDER BY lockers DESC LIMIT 1"),
    ("How many lockers do we have in Antwerp?", "SELECT SUM(lockers) FROM branches WHERE town = 'Antwerp'"),
    ("What is the name of branch 0205?", "SELECT branch_name FROM branches WHERE branch_code = '0205'"),
    ("Which branches opened after 2018?", "SELECT branch_name FROM branches WHERE opened >= '2019-01-01'"),
    ("Number of parcels per branch",
     "SELECT b.branch_name, COUNT(*) FROM branches b JOIN parcels p ON p.branch_code = b.branch_code "
     "GROUP BY b.branch_name"),
    ("How many couriers have left?", "SELECT COUNT(*) FROM couriers WHERE left_on IS NOT NULL"),
    ("How many couriers have a van?", "SELECT COUNT(*) FROM couriers WHERE has_van = 'Y'"),
    ("Which couriers in the Old Town branch do not have a van?",
     "SELECT c.first_name, c.last_name FROM couriers c JOIN branches b ON b.branch_code = c.branch_code "
     "WHERE b.branch_name = 'Old Town' AND c.has_van = 'N'"),
    ("Who is the oldest courier?", "SELECT first_name, last_name FROM couriers ORDER BY date_of_birth LIMIT 1"),
    ("How many couriers are older than 50?", "SELECT COUNT(*) FROM couriers WHERE date_of_birth <= '1974-06-18'"),
    ("Which courier delivered the most parcels?",
     "SELECT c.first_name, c.last_name FROM couriers c JOIN parcels p ON p.courier_id = c.courier_id "
     "WHERE p.delivered_at IS NOT NULL GROUP BY c.courier_id, c.first_name, c.last_name "
     "ORDER BY COUNT(*) DESC LIMIT 1"),
    ("List couriers without a phone who were hired in 2022",
     "SELECT first_name, last_name FROM couriers WHERE phone IS NULL AND hired_on >= '2022-01-01' "
     "AND hired_on < '2023-01-01'"),
    ("Which couriers never delivered anything?",
     "SELECT first_name, last_name FROM couriers WHERE courier_id NOT IN "
     "(SELECT courier_id FROM parcels WHERE courier_id IS NOT NULL AND delivered_at IS NOT NULL)"),
    ("How many senders are from Hasselt?", "SELECT COUNT(*) FROM senders WHERE town = 'Hasselt'"),
    ("Which premium senders get no discount?",
     "SELECT company FROM senders WHERE contract = 'premium' AND discount IS NULL"),
    ("Which sender sent the most parcels in 2025?",
     "SELECT s.company FROM senders s JOIN parcels p ON p.sender_id = s.sender_id WHERE p.posted_at >= '2025-01-01' "
     "AND p.posted_at < '2026-01-01' GROUP BY s.sender_id, s.company ORDER BY COUNT(*) DESC LIMIT 1"),
    ("How much did Bloom Flowers spend with us?",
     "SELECT SUM(p.price) FROM parcels p JOIN senders s ON s.sender_id = p.sender_id "
     "WHERE s.company = 'Bloom Flowers'"),
    ("How many senders have no VAT number?", "SELECT COUNT(*) FROM senders WHERE vat_no IS NULL"),
    ("Which senders have not sent any parcel?",
     "SELECT company FROM senders WHERE sender_id NOT IN (SELECT sender_id FROM parcels)"),
    ("How many complaints are still open?", "SELECT COUNT(*) FROM complaints WHERE closed_on IS NULL"),
    ("How many complaints about lost parcels were filed this year?",
     "SELECT COUNT(*) FROM complaints WHERE topic = 'lost' AND filed_on >= '2025-01-01' AND filed_on < '2026-01-01'"),
    ("What is the most common topic of complaints?",
     "SELECT topic FROM complaints GROUP BY topic ORDER BY COUNT(*) DESC LIMIT 1"),
    ("How much money did we refund in 2024?",
     "SELECT SUM(refund) FROM complaints WHERE filed_on >= '2024-01-01' AND filed_on < '2025-01-01'"),
    ("Average refund by topic", "SELECT topic, AVG(refund) FROM complaints GROUP BY topic"),
    ("What percentage of parcels arrives within two days?", None),
    ("How satisfied are our customers?", None),
    ("Which couriers speak French?", None),
    ("What is the home address of Hugo Maes?", None),
)  # fmt: skip

PARCELS = Part("parcels", SCRIPT, rows, QUESTIONS)

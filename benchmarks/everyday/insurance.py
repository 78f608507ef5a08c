"""An insurance broker: short names, undeclared keys, flags as 0/1 and Y/N, and staff that refers to itself."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE cust (
  cust_no INTEGER PRIMARY KEY, cust_nm VARCHAR(60) NOT NULL, cust_typ CHAR(1) NOT NULL, dob DATE, zip VARCHAR(8) NOT NULL,
  city VARCHAR(40) NOT NULL, email VARCHAR(80), tel VARCHAR(20), vip_flg INTEGER NOT NULL, crt_ts TIMESTAMP NOT NULL);
CREATE TABLE emp (
  emp_id INTEGER PRIMARY KEY, fnm VARCHAR(30) NOT NULL, lnm VARCHAR(30) NOT NULL, dept VARCHAR(20) NOT NULL,
  offc VARCHAR(20) NOT NULL, mgr_id INTEGER, hire_dt DATE NOT NULL, act CHAR(1) NOT NULL);
CREATE TABLE prod (prod_cd VARCHAR(6) PRIMARY KEY, prod_nm VARCHAR(40) NOT NULL, line VARCHAR(20) NOT NULL);
CREATE TABLE pol (
  pol_id INTEGER PRIMARY KEY, pol_no VARCHAR(12) NOT NULL, cust_no INTEGER NOT NULL, agt_id INTEGER NOT NULL,
  prod_cd VARCHAR(6) NOT NULL, start_dt DATE NOT NULL, end_dt DATE NOT NULL, prem_amt NUMERIC(10, 2) NOT NULL,
  pay_freq CHAR(1) NOT NULL, auto_rnw CHAR(1) NOT NULL, cncl_dt DATE);
CREATE TABLE clm_st (st_cd CHAR(2) PRIMARY KEY, st_desc VARCHAR(40) NOT NULL);
CREATE TABLE clm (
  clm_id INTEGER PRIMARY KEY, clm_no VARCHAR(12) NOT NULL, pol_id INTEGER NOT NULL, loss_dt DATE NOT NULL,
  rpt_ts TIMESTAMP NOT NULL, st_cd CHAR(2) NOT NULL, est_amt NUMERIC(10, 2) NOT NULL, paid_amt NUMERIC(10, 2),
  adj_id INTEGER, frd_flg INTEGER NOT NULL, clsd_ts TIMESTAMP);
CREATE TABLE pmt (
  pmt_id INTEGER PRIMARY KEY, pol_id INTEGER NOT NULL, due_dt DATE NOT NULL, pd_dt DATE, amt NUMERIC(10, 2) NOT NULL,
  mthd VARCHAR(16));
"""

FIRST = """
    Olwen Gareth Priya Miles Joan Tariq Stella Neil Agnes Bruno Clare Desmond Edith Felix Ginny Harold Iris Jack Kira
    Leon Mavis Noel Oscar Pearl Rhys Sian Trevor Una Victor Wilma
""".split()  # noqa: SIM905
LAST = """
    Pritchard Cole Bevan Shaw Lal Morgan Frost Hale Quick Rees Stone Tully Webb Young Abbot Blythe Crane Doyle Eames
    Fenn Grant Hobbs Ives Jarvis Kemp Lowe Moss Nash Orme Peel
""".split()  # noqa: SIM905
FIRMS = (
    "Harbourside Bakery", "Clifton Plumbing Ltd", "Severn Scaffolding", "Avon Print Works", "Mendip Dairy",
    "Taff Logistics", "Gower Surf Shop", "Bath Stone Masonry", "Cotswold Inns", "Ebbw Electrical", "Quayside Dental",
    "Redland Nursery", "Usk Timber", "Wells Joinery", "Penarth Yachts", "Barry Roofing", "Stroud Textiles",
    "Caldicot Motors", "Portishead Marina", "Thornbury Tools",
)  # fmt: skip
CITIES = (
    ("Bristol", "BS"),
    ("Cardiff", "CF"),
    ("Swansea", "SA"),
    ("Bath", "BA"),
    ("Gloucester", "GL"),
    ("Newport", "NP"),
)
STAFF = (
    ("Helen", "Marsh", "Sales", "Bristol", 14), ("Tom", "Okoro", "Sales", "Bristol", 1),
    ("Judy", "Pike", "Sales", "Bristol", 1), ("Rob", "Lennox", "Sales", "Bristol", 1),
    ("Carys", "Vaughan", "Sales", "Cardiff", 14), ("Dewi", "Hughes", "Sales", "Cardiff", 5),
    ("Sanjay", "Mehta", "Sales", "Cardiff", 5), ("Ffion", "James", "Sales", "Cardiff", 5),
    ("Peter", "Grimes", "Claims", "Bristol", 14), ("Lorna", "Watts", "Claims", "Bristol", 9),
    ("Idris", "Bowen", "Claims", "Cardiff", 9), ("Maya", "Stone", "Claims", "Cardiff", 9),
    ("Kevin", "Dunn", "Claims", "Bristol", 9), ("Margaret", "Astley", "Management", "Bristol", None),
    ("Nia", "Price", "Finance", "Cardiff", 14), ("Alan", "Birch", "Finance", "Bristol", 15),
    ("Zoe", "Tanner", "IT", "Bristol", 14), ("Wayne", "Cross", "Sales", "Cardiff", 5),
)  # fmt: skip
PRODUCTS = (
    ("MTR01", "Private Car", "Motor"), ("MTR02", "Van", "Motor"), ("MTR03", "Motorcycle", "Motor"),
    ("HOM01", "Buildings", "Home"), ("HOM02", "Contents", "Home"), ("TRV01", "Annual Travel", "Travel"),
    ("PET01", "Pet Cover", "Pet"), ("BUS01", "Public Liability", "Commercial"), ("BUS02", "Shop Package", "Commercial"),
    ("BUS03", "Cyber Risk", "Commercial"), ("MAR01", "Boat", "Marine"),
)  # fmt: skip
STATES = (
    ("NW", "New"), ("RV", "In review"), ("WD", "Waiting for documents"), ("AP", "Approved"), ("PD", "Paid"),
    ("DC", "Declined"), ("WX", "Withdrawn"),
)  # fmt: skip
BASE = {"Motor": 620, "Home": 310, "Travel": 140, "Pet": 260, "Commercial": 1900, "Marine": 900}


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(78)
    today = date(2025, 6, 18)
    now = datetime(2025, 6, 17, 18, 0)
    cust = []
    pairs = [(f, s) for f in FIRST for s in LAST if (f, s) != ("Olwen", "Pritchard")]
    people = [("Olwen", "Pritchard"), *random.sample(pairs, 279)]
    for number, (first, last) in enumerate(people, 1):
        city, area = random.choice(CITIES)
        born = date(1938, 1, 1) + timedelta(days=random.randrange(24_500))
        made = datetime(2017, 1, 2, 8) + timedelta(days=random.randrange(3050), minutes=random.randrange(600))
        cust.append(
            (20000 + number, f"{first} {last}", "P", str(born) if random.random() < 0.97 else None,
             f"{area}{random.randrange(1, 30)}", city,
             f"{first}.{last}@post.example".lower() if random.random() < 0.85 else None,
             f"07{random.randrange(10**8, 10**9)}" if number == 1 or random.random() < 0.8 else None,
             int(random.random() < 0.07), f"{made:%Y-%m-%d %H:%M:%S}")
        )  # fmt: skip
    for number, name in enumerate(FIRMS, 301):
        city, area = random.choice(CITIES)
        made = datetime(2017, 1, 2, 8) + timedelta(days=random.randrange(3050), minutes=random.randrange(600))
        cust.append(
            (20000 + number, name, "B", None, f"{area}{random.randrange(1, 30)}", city,
             f"office@{''.join(c for c in name.lower() if c.isalpha())}.example",
             f"029{random.randrange(10**7, 10**8)}" if random.random() < 0.9 else None,
             int(random.random() < 0.25), f"{made:%Y-%m-%d %H:%M:%S}")
        )  # fmt: skip
    emp = [
        (n, first, last, dept, offc, boss, str(date(2010, 2, 1) + timedelta(days=random.randrange(4500))),
         "N" if n in (8, 13, 18) else "Y")
        for n, (first, last, dept, offc, boss) in enumerate(STAFF, 1)
    ]  # fmt: skip
    sellers = (2, 3, 4, 6, 7, 8, 18)
    pol, pmt, clm = [], [], []
    buyers = [c for c in cust if random.random() < 0.9]
    for number in range(1, 621):
        while True:
            buyer = random.choice(buyers)
            begin = date(2022, 7, 1) + timedelta(days=random.randrange(1080))
            if str(begin) >= buyer[9][:10]:
                break
        choice = [p for p in PRODUCTS[:-1] if (p[2] == "Commercial" or p[0] == "MTR02") == (buyer[2] == "B")]
        product = random.choice(choice)
        last_day = date(begin.year + 1, begin.month, min(begin.day, 28)) - timedelta(days=1)
        premium = round(BASE[product[2]] * random.uniform(0.6, 2.1), 2)
        freq = random.choice("MMQAA")
        stopped = begin + timedelta(days=random.randrange(20, 330)) if random.random() < 0.08 else None
        if stopped and stopped >= today:
            stopped = None
        pool = [s for s in sellers if emp[s - 1][7] == "Y" or begin < date(2024, 6, 1)]
        pol.append(
            (number, f"{product[0][:3]}-{104000 + number * 11}", buyer[0], random.choice(pool), product[0], str(begin),
             str(last_day), premium, freq, "Y" if random.random() < 0.65 else "N", str(stopped) if stopped else None)
        )  # fmt: skip
        # Only instalments from July 2024 on are kept in this table.
        parts, step = {"M": (12, 1), "Q": (4, 3), "A": (1, 12)}[freq]
        for k in range(parts):
            month = begin.month - 1 + k * step
            due = date(begin.year + month // 12, month % 12 + 1, min(begin.day, 28))
            if due < date(2024, 7, 1) or (stopped and due > stopped) or due > date(2025, 9, 30):
                continue
            paid = due + timedelta(days=random.randrange(-3, 15)) if random.random() < 0.94 else None
            if paid and paid >= today:
                paid = None
            way = random.choice(("direct debit", "direct debit", "card", "bank transfer")) if paid else None
            pmt.append((0, number, str(due), str(paid) if paid else None, round(premium / parts, 2), way))
    pmt = [(n, *p[1:]) for n, p in enumerate(sorted(pmt, key=lambda p: (p[2], p[1])), 1)]
    found = []
    while len(found) < 380:
        policy = random.choice(pol)
        final = min(policy[10] or policy[6], "2025-06-15")
        begin = date.fromisoformat(policy[5])
        span = (date.fromisoformat(final) - begin).days
        if span < 2:
            continue
        loss = begin + timedelta(days=random.randrange(span))
        told = datetime(loss.year, loss.month, loss.day, 8) + timedelta(
            days=random.randrange(12), minutes=random.randrange(600))  # fmt: skip
        if told < now:
            found.append((told, loss, policy))
    found.sort(key=lambda f: (f[0], f[2][0]))
    for number, (told, loss, policy) in enumerate(found, 1):
        estimate = round(policy[7] * random.uniform(0.3, 9), 2)
        age = (now - told).days
        state = random.choice(("NW", "RV", "WD", "RV", "AP")) if random.random() < (0.9 if age < 45 else 0.08) or age < 3 else (
            random.choice(("PD", "PD", "PD", "PD", "DC", "WX")))  # fmt: skip
        closed = None
        if state in ("PD", "DC", "WX"):
            closed = told + timedelta(
                days=random.randrange(1, min(90, age)), minutes=random.randrange(-60, 60)
            )
        paid = round(estimate * random.uniform(0.5, 1.15), 2) if state == "PD" else None
        adjuster = None if state == "NW" or random.random() < 0.04 else random.choice((10, 11, 12))
        clm.append(
            (number, f"C-{told:%y}-{number * 7 + 100:05d}", policy[0], str(loss), f"{told:%Y-%m-%d %H:%M:%S}", state,
             estimate, paid, adjuster, int(random.random() < 0.05), f"{closed:%Y-%m-%d %H:%M:%S}" if closed else None)
        )  # fmt: skip
    return {
        "cust": cust, "emp": emp, "prod": list(PRODUCTS), "pol": pol, "clm_st": list(STATES), "clm": clm, "pmt": pmt,
    }  # fmt: skip


QUESTIONS = (
    ("how many policies are in force today",
     "SELECT count(*) FROM pol WHERE start_dt <= '2025-06-18' AND end_dt >= '2025-06-18' "
     "AND (cncl_dt IS NULL OR cncl_dt > '2025-06-18')"),
    ("how many claims are not closed yet?", "SELECT count(*) FROM clm WHERE clsd_ts IS NULL"),
    ("Which claims are waiting for documents?",
     "SELECT clm_no FROM clm JOIN clm_st USING (st_cd) WHERE st_desc = 'Waiting for documents'"),
    ("claims by status", "SELECT st_desc, count(*) FROM clm JOIN clm_st USING (st_cd) GROUP BY st_desc"),
    ("whats the status of claim C-25-02438",
     "SELECT st_desc FROM clm JOIN clm_st USING (st_cd) WHERE clm_no = 'C-25-02438'"),
    ("How much did we pay on claim C-24-01605?", "SELECT paid_amt FROM clm WHERE clm_no = 'C-24-01605'"),
    ("claims reported in the last 7 days",
     "SELECT clm_no FROM clm WHERE rpt_ts >= '2025-06-11' AND rpt_ts < '2025-06-19'"),
    ("how many claims came in last month",
     "SELECT count(*) FROM clm WHERE rpt_ts >= '2025-05-01' AND rpt_ts < '2025-06-01'"),
    ("Who reports to Helen Marsh?",
     "SELECT e.fnm, e.lnm FROM emp e JOIN emp m ON e.mgr_id = m.emp_id WHERE m.fnm = 'Helen' AND m.lnm = 'Marsh'"),
    ("who is Idris Bowen's manager",
     "SELECT m.fnm, m.lnm FROM emp e JOIN emp m ON e.mgr_id = m.emp_id WHERE e.fnm = 'Idris' AND e.lnm = 'Bowen'"),
    ("employees without a manager", "SELECT fnm, lnm FROM emp WHERE mgr_id IS NULL"),
    ("how many employees are no longer active?", "SELECT count(*) FROM emp WHERE act = 'N'"),
    ("vip customers in Bristol", "SELECT cust_nm FROM cust WHERE vip_flg = 1 AND city = 'Bristol'"),
    ("How many customers have no email?", "SELECT count(*) FROM cust WHERE email IS NULL"),
    ("customers per city", "SELECT city, count(*) FROM cust GROUP BY city"),
    ("Number of policies per product please",
     "SELECT prod_nm, count(*) FROM pol JOIN prod USING (prod_cd) GROUP BY prod_cd, prod_nm"),
    ("avg premium by line of business",
     "SELECT line, avg(prem_amt) FROM pol JOIN prod USING (prod_cd) GROUP BY line"),
    ("Which policy has the highest premium?", "SELECT pol_no FROM pol ORDER BY prem_amt DESC LIMIT 1"),
    ("top 3 agents by number of policies that started this year",
     "SELECT fnm, lnm FROM pol JOIN emp ON agt_id = emp_id WHERE start_dt BETWEEN '2025-01-01' AND '2025-12-31' "
     "GROUP BY emp_id, fnm, lnm ORDER BY count(*) DESC LIMIT 3"),
    ("claims that have no adjuster", "SELECT clm_no FROM clm WHERE adj_id IS NULL"),
    ("how many claims are flagged as fraud", "SELECT count(*) FROM clm WHERE frd_flg = 1"),
    ("Good morning! Could you send me the numbers of all policies that end next month and do not renew automatically?",
     "SELECT pol_no FROM pol WHERE end_dt BETWEEN '2025-07-01' AND '2025-07-31' AND auto_rnw = 'N' "
     "AND cncl_dt IS NULL"),
    ("how many policies were cancelled this year",
     "SELECT count(*) FROM pol WHERE cncl_dt BETWEEN '2025-01-01' AND '2025-12-31'"),
    ("How many payments are overdue?", "SELECT count(*) FROM pmt WHERE pd_dt IS NULL AND due_dt < '2025-06-18'"),
    ("total amount of unpaid payments that were due in March 2025",
     "SELECT sum(amt) FROM pmt WHERE pd_dt IS NULL AND due_dt BETWEEN '2025-03-01' AND '2025-03-31'"),
    ("how much money was paid in by direct debit in may?",
     "SELECT sum(amt) FROM pmt WHERE mthd = 'direct debit' AND pd_dt BETWEEN '2025-05-01' AND '2025-05-31'"),
    ("payments by method last month",
     "SELECT mthd, count(*) FROM pmt WHERE pd_dt BETWEEN '2025-05-01' AND '2025-05-31' GROUP BY mthd"),
    ("Phone number of Olwen Pritchard?", "SELECT tel FROM cust WHERE cust_nm = 'Olwen Pritchard'"),
    ("customers born before 1945", "SELECT cust_nm FROM cust WHERE dob < '1945-01-01'"),
    ("Which customers have more than 5 policies?",
     "SELECT cust_nm FROM pol JOIN cust USING (cust_no) GROUP BY cust_no, cust_nm HAVING count(*) > 5"),
    ("how many customers dont have any policy",
     "SELECT count(*) FROM cust c WHERE NOT EXISTS (SELECT 1 FROM pol p WHERE p.cust_no = c.cust_no)"),
    ("Which products has nobody bought?",
     "SELECT prod_nm FROM prod WHERE prod_cd NOT IN (SELECT prod_cd FROM pol)"),
    ("how many policies are paid monthly", "SELECT count(*) FROM pol WHERE pay_freq = 'M'"),
    ("Claims reported per month this year",
     "SELECT strftime('%Y-%m', rpt_ts), count(*) FROM clm WHERE rpt_ts >= '2025-01-01' AND rpt_ts < '2026-01-01' "
     "GROUP BY 1"),
    ("I need the average estimated amount of motor claims that are still open, thank you",
     "SELECT avg(est_amt) FROM clm JOIN pol USING (pol_id) JOIN prod USING (prod_cd) "
     "WHERE line = 'Motor' AND clsd_ts IS NULL"),
    ("How many claims did we pay more on than estimated?", "SELECT count(*) FROM clm WHERE paid_amt > est_amt"),
    ("5 biggest payouts on claims reported in 2024",
     "SELECT clm_no, paid_amt FROM clm WHERE rpt_ts >= '2024-01-01' AND rpt_ts < '2025-01-01' "
     "AND paid_amt IS NOT NULL ORDER BY paid_amt DESC LIMIT 5"),
    ("how many new customers since january 1st",
     "SELECT count(*) FROM cust WHERE crt_ts >= '2025-01-01'"),
    ("Which customer does policy HOM-105320 belong to?",
     "SELECT cust_nm FROM pol JOIN cust USING (cust_no) WHERE pol_no = 'HOM-105320'"),
    ("number of open claims per adjuster",
     "SELECT fnm, lnm, count(*) FROM clm JOIN emp ON adj_id = emp_id WHERE clsd_ts IS NULL GROUP BY emp_id, fnm, lnm"),
    ("how much commission did Tom Okoro earn last month?", None),
    ("what car does Olwen Pritchard drive", None),
    ("How many quotes did we send out last week?", None),
    ("Which customers complained about us this year?", None),
    ("how long do people wait on the phone on mondays", None),
    ("Why was claim C-24-01605 paid so late?", None),
)  # fmt: skip

ALTERNATIVES = {
    "how many policies are in force today": (
        "SELECT count(*) FROM pol WHERE start_dt <= '2025-06-18' AND end_dt >= '2025-06-18'",
    ),
    "claims by status": ("SELECT st_cd, count(*) FROM clm GROUP BY st_cd",),
    "claims reported in the last 7 days": (
        "SELECT clm_no FROM clm WHERE rpt_ts >= '2025-06-12' AND rpt_ts < '2025-06-19'",
    ),
    "whats the status of claim C-25-02438": ("SELECT st_cd FROM clm WHERE clm_no = 'C-25-02438'",),
    "Number of policies per product please": (
        "SELECT prod_cd, count(*) FROM pol GROUP BY prod_cd",
        "SELECT prod_nm, count(pol_id) FROM prod LEFT JOIN pol USING (prod_cd) GROUP BY prod_cd, prod_nm",
        "SELECT prod_cd, count(pol_id) FROM prod LEFT JOIN pol USING (prod_cd) GROUP BY prod_cd",
    ),
    "Good morning! Could you send me the numbers of all policies that end next month and do not renew automatically?": (
        "SELECT pol_no FROM pol WHERE end_dt BETWEEN '2025-07-01' AND '2025-07-31' AND auto_rnw = 'N'",
    ),
    "payments by method last month": (
        "SELECT mthd, count(*) FROM pmt WHERE due_dt BETWEEN '2025-05-01' AND '2025-05-31' GROUP BY mthd",
        "SELECT mthd, sum(amt) FROM pmt WHERE pd_dt BETWEEN '2025-05-01' AND '2025-05-31' GROUP BY mthd",
    ),
    "Claims reported per month this year": (
        "SELECT strftime('%m', rpt_ts), count(*) FROM clm WHERE rpt_ts >= '2025-01-01' AND rpt_ts < '2026-01-01' "
        "GROUP BY 1",
        "SELECT CAST(strftime('%m', rpt_ts) AS INTEGER), count(*) FROM clm WHERE rpt_ts >= '2025-01-01' "
        "AND rpt_ts < '2026-01-01' GROUP BY 1",
    ),
    "How many payments are overdue?": (
        "SELECT count(*) FROM pmt WHERE pd_dt IS NULL AND due_dt <= '2025-06-18'",
    ),
    "5 biggest payouts on claims reported in 2024": (
        "SELECT clm_no FROM clm WHERE rpt_ts >= '2024-01-01' AND rpt_ts < '2025-01-01' "
        "AND paid_amt IS NOT NULL ORDER BY paid_amt DESC LIMIT 5",
        "SELECT paid_amt FROM clm WHERE rpt_ts >= '2024-01-01' AND rpt_ts < '2025-01-01' "
        "AND paid_amt IS NOT NULL ORDER BY paid_amt DESC LIMIT 5",
    ),
    "number of open claims per adjuster": (
        "SELECT adj_id, count(*) FROM clm WHERE clsd_ts IS NULL AND adj_id IS NOT NULL GROUP BY adj_id",
        "SELECT fnm, lnm, count(*) FROM clm LEFT JOIN emp ON adj_id = emp_id WHERE clsd_ts IS NULL "
        "GROUP BY adj_id, fnm, lnm",
        "SELECT adj_id, count(*) FROM clm WHERE clsd_ts IS NULL GROUP BY adj_id",
    ),
}

INSURANCE = Part("insurance", SCRIPT, rows, QUESTIONS, ALTERNATIVES)

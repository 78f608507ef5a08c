"""An IT service desk with short names: staff, assets, tickets and work logs. Some keys are declared."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE dept (dept_cd TEXT PRIMARY KEY, dept_name TEXT NOT NULL, cost_ctr INTEGER NOT NULL);
CREATE TABLE site (site_cd TEXT PRIMARY KEY, site_name TEXT NOT NULL, city TEXT NOT NULL, country TEXT NOT NULL);
CREATE TABLE emp (
  emp_no INTEGER PRIMARY KEY, fname TEXT NOT NULL, lname TEXT NOT NULL, email TEXT, dept_cd TEXT NOT NULL,
  site_cd TEXT NOT NULL, mgr_no INTEGER, hire_dt DATE NOT NULL, vip_flg INTEGER NOT NULL, remote_flg INTEGER NOT NULL);
CREATE TABLE agent (
  agent_id INTEGER PRIMARY KEY, agent_name TEXT NOT NULL, team TEXT NOT NULL, lvl INTEGER NOT NULL, start_dt DATE NOT NULL);
CREATE TABLE asset (
  asset_tag TEXT PRIMARY KEY, asset_type TEXT NOT NULL, brand TEXT NOT NULL, purch_dt DATE NOT NULL,
  purch_price NUMERIC NOT NULL, warranty_end DATE, leased_flg INTEGER NOT NULL, emp_no INTEGER REFERENCES emp(emp_no));
CREATE TABLE ticket (
  tkt_no TEXT PRIMARY KEY, emp_no INTEGER NOT NULL REFERENCES emp(emp_no), agent_id INTEGER REFERENCES agent(agent_id),
  category TEXT NOT NULL, prio TEXT NOT NULL, status TEXT NOT NULL, opened_ts TIMESTAMP NOT NULL, closed_ts TIMESTAMP,
  csat INTEGER, reopened_flg INTEGER NOT NULL);
CREATE TABLE worklog (
  log_id INTEGER PRIMARY KEY, tkt_no TEXT NOT NULL, agent_id INTEGER NOT NULL, logged_ts TIMESTAMP NOT NULL,
  minutes INTEGER NOT NULL);
"""
DEPTS = (("FIN", "Finance", 4100), ("HR", "Human Resources", 4200), ("MKT", "Marketing", 4300), ("OPS", "Operations", 4400),
         ("SAL", "Sales", 4500), ("LEG", "Legal", 4600), ("RND", "Research", 4700))  # fmt: skip
SITES = (("RTM", "Rotterdam Head Office", "Rotterdam", "Netherlands"), ("EIN", "Eindhoven Lab", "Eindhoven", "Netherlands"),
         ("HAM", "Hamburg Plant", "Hamburg", "Germany"), ("MUC", "Munich Office", "Munich", "Germany"),
         ("ANR", "Antwerp Warehouse", "Antwerp", "Belgium"))  # fmt: skip
AGENTS = (
    (1, "Priya Raman", "Service Desk", 1, "2021-04-01"), (2, "Joris Maes", "Service Desk", 1, "2022-09-12"),
    (3, "Katarina Blom", "Service Desk", 2, "2019-02-04"), (4, "Felix Sauer", "Network", 2, "2018-06-01"),
    (5, "Greta Lund", "Network", 3, "2016-10-17"), (6, "Marco Conti", "Applications", 2, "2020-01-20"),
    (7, "Aisha Diallo", "Applications", 3, "2017-03-06"), (8, "Ben Okafor", "Field Support", 1, "2023-05-02"),
    (9, "Tessa Vink", "Field Support", 2, "2020-11-09"), (10, "Nils Bergman", "Service Desk", 1, "2025-03-03"),
)  # fmt: skip
FIRST = ("Nadia", "Stefan", "Oumar", "Claire", "Hugo", "Marit", "Jonas", "Leila", "Pieter", "Ingrid", "Tobias", "Vera",
         "Emeka", "Sanne", "Mateo", "Ulla")  # fmt: skip
LAST = ("Brandt", "Keller", "Traore", "Lefevre", "Jacobs", "Wolff", "Simons", "Farouk", "Maas", "Richter", "Claes",
        "Engel", "Obi", "Groen")  # fmt: skip
KINDS = (("laptop", "LT", 900, 2400), ("monitor", "MN", 140, 600), ("phone", "PH", 250, 1200), ("printer", "PR", 180, 900),
         ("docking station", "DS", 90, 260))  # fmt: skip
CATEGORIES = ("password reset", "hardware", "software", "network", "email", "access rights", "printing")


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(3077)
    names = [(f, s) for f in FIRST for s in LAST]
    random.shuffle(names)
    for place, name in ((30, ("Nadia", "Brandt")), (41, ("Oumar", "Keller")), (2, ("Claire", "Wolff"))):
        names.remove(name)
        names.insert(place, name)
    emps = []
    for n in range(1, 211):
        first, last = names[n - 1]
        emps.append((1000 + n, first, last, f"{first.lower()}.{last.lower()}@corp.test" if random.random() < 0.93 else None,
                     DEPTS[n % 7][0] if n <= 14 else random.choice(DEPTS)[0], random.choice(SITES)[0],
                     None if n <= 2 else 1000 + random.randrange(1, 15 if n > 14 else 3),
                     (date(2010, 1, 4) + timedelta(days=random.randrange(5640))).isoformat(),
                     int(n <= 14 or random.random() < 0.03), int(random.random() < 0.3)))  # fmt: skip
    assets = []
    for n in range(1, 601):
        kind, code, low, high = random.choice(KINDS) if n > 190 else KINDS[0]
        bought = date(2018, 3, 1) + timedelta(days=random.randrange(2650))
        ends = bought + timedelta(days=365 * random.choice((2, 3, 5))) if random.random() < 0.9 else None
        owner = 1000 + random.randrange(1, 196) if random.random() < 0.8 and kind != "printer" else None
        brand = random.choice({"phone": ("Samsung", "Apple", "Nokia"), "printer": ("HP", "Canon")}.get(
            kind, ("Dell", "Lenovo", "HP", "Apple")))  # fmt: skip
        assets.append((f"{code}-{n:05d}", kind, brand, bought.isoformat(), round(random.uniform(low, high), 2),
                       ends.isoformat() if ends else None, int(kind == "laptop" and random.random() < 0.35), owner))  # fmt: skip
    times = sorted(
        datetime(2023, 1, 2, 7, 30) + timedelta(days=random.randrange(898), minutes=random.randrange(600))
        for _ in range(4200)
    )
    tickets, logs = [], []
    for n, opened in enumerate(times, 1):
        able = [a[0] for a in AGENTS if a[4] <= opened.date().isoformat()]
        prio = random.choice(("P1", "P2", "P2", "P3", "P3", "P3", "P3", "P4", "P4"))
        agent = random.choice(able) if random.random() < 0.97 else None
        if prio == "P1" and agent in (8, 10):
            agent = 5
        closed = opened + timedelta(hours=random.randrange(1, 200), minutes=random.randrange(60))
        status = (
            "closed"
            if agent and random.random() < 0.97
            else random.choice(("open", "in progress", "on hold"))
        )
        if closed > datetime(2025, 6, 18, 9):
            status = random.choice(("open", "in progress", "on hold"))
        done = status == "closed"
        csat = random.choice((1, 2, 3, 4, 4, 4, 5, 5, 5)) if done and random.random() < 0.45 else None
        number = f"INC-{n + 10000}"
        tickets.append((number, 1000 + random.choice((random.randrange(1, 204), random.randrange(1, 60))), agent,
                        random.choice(CATEGORIES), prio, status, str(opened), str(closed) if done else None, csat,
                        int(random.random() < 0.07)))  # fmt: skip
        for _ in range(random.choice((0, 1, 1, 2)) if agent else 0):
            logs.append((len(logs) + 1, number, agent, str(opened + timedelta(minutes=random.randrange(5, 59))),
                         random.choice((5, 10, 15, 20, 30, 45, 60, 90))))  # fmt: skip
    return {"dept": list(DEPTS), "site": list(SITES), "emp": emps, "agent": list(AGENTS), "asset": assets,
            "ticket": tickets, "worklog": logs}  # fmt: skip


SERVICEDESK = Part(
    "servicedesk",
    SCRIPT,
    rows,
    (
        ("How many tickets are on hold?", "SELECT count(*) FROM ticket WHERE status = 'on hold'"),
        ("How many P1 tickets were opened this month?",
         "SELECT count(*) FROM ticket WHERE prio = 'P1' AND opened_ts >= '2025-06-01' AND opened_ts < '2025-07-01'"),
        ("Number of tickets per category", "SELECT category, count(*) FROM ticket GROUP BY category"),
        ("How many of the tickets opened in 2024 are assigned to each team?",
         "SELECT team, count(*) FROM ticket t JOIN agent a ON a.agent_id = t.agent_id "
         "WHERE opened_ts >= '2024-01-01' AND opened_ts < '2025-01-01' GROUP BY team"),
        ("What is the average csat per agent?",
         "SELECT agent_name, avg(csat) FROM ticket t JOIN agent a ON a.agent_id = t.agent_id GROUP BY a.agent_id, agent_name"),
        ("Which employee opened the most tickets in 2025?",
         "SELECT fname, lname FROM ticket t JOIN emp e ON e.emp_no = t.emp_no "
         "WHERE opened_ts >= '2025-01-01' AND opened_ts < '2026-01-01' GROUP BY e.emp_no, fname, lname ORDER BY count(*) DESC LIMIT 1"),
        ("Show me the first and last names of the VIP employees in Legal",
         "SELECT fname, lname FROM emp e JOIN dept d ON d.dept_cd = e.dept_cd WHERE vip_flg = 1 AND dept_name = 'Legal'"),
        ("Which employees don't have a laptop?",
         "SELECT fname, lname FROM emp e WHERE NOT EXISTS (SELECT 1 FROM asset a WHERE a.emp_no = e.emp_no AND asset_type = 'laptop')"),
        ("How many assets are not assigned to anyone?", "SELECT count(*) FROM asset WHERE emp_no IS NULL"),
        ("For which assets does the warranty end next month?",
         "SELECT asset_tag FROM asset WHERE warranty_end BETWEEN '2025-07-01' AND '2025-07-31'"),
        ("How many laptops do we have?", "SELECT count(*) FROM asset WHERE asset_type = 'laptop'"),
        ("how many of our laptops are leased",
         "SELECT count(*) FROM asset WHERE asset_type = 'laptop' AND leased_flg = 1"),
        ("What is the total purchase price of all monitors?",
         "SELECT sum(purch_price) FROM asset WHERE asset_type = 'monitor'"),
        ("Average purchase price of laptops by brand",
         "SELECT brand, avg(purch_price) FROM asset WHERE asset_type = 'laptop' GROUP BY brand"),
        ("Who has asset LT-00021?",
         "SELECT fname, lname FROM asset a JOIN emp e ON e.emp_no = a.emp_no WHERE asset_tag = 'LT-00021'"),
        ("Which assets are assigned to Nadia Brandt? I need the tag and the type.",
         "SELECT asset_tag, asset_type FROM asset a JOIN emp e ON e.emp_no = a.emp_no WHERE fname = 'Nadia' AND lname = 'Brandt'"),
        ("How many tickets have no agent?", "SELECT count(*) FROM ticket WHERE agent_id IS NULL"),
        ("What is the status of INC-14187?", "SELECT status FROM ticket WHERE tkt_no = 'INC-14187'"),
        ("Which agent is assigned to ticket INC-12345?",
         "SELECT agent_name FROM ticket t JOIN agent a ON a.agent_id = t.agent_id WHERE tkt_no = 'INC-12345'"),
        ("How many tickets assigned to Priya Raman were closed last month?",
         "SELECT count(*) FROM ticket t JOIN agent a ON a.agent_id = t.agent_id WHERE agent_name = 'Priya Raman' "
         "AND closed_ts >= '2025-05-01' AND closed_ts < '2025-06-01'"),
        ("Total minutes logged per agent this year",
         "SELECT agent_name, sum(minutes) FROM worklog w JOIN agent a ON a.agent_id = w.agent_id "
         "WHERE logged_ts >= '2025-01-01' AND logged_ts < '2026-01-01' GROUP BY a.agent_id, agent_name"),
        ("How many minutes were logged on ticket INC-11003?",
         "SELECT sum(minutes) FROM worklog WHERE tkt_no = 'INC-11003'"),
        ("List the employees hired since January 2025 with their hire date",
         "SELECT fname, lname, hire_dt FROM emp WHERE hire_dt >= '2025-01-01'"),
        ("How many employees are there in each department?",
         "SELECT dept_name, count(*) FROM emp e JOIN dept d ON d.dept_cd = e.dept_cd GROUP BY d.dept_cd, dept_name"),
        ("Who is the manager of Oumar Keller?",
         "SELECT m.fname, m.lname FROM emp e JOIN emp m ON m.emp_no = e.mgr_no WHERE e.fname = 'Oumar' AND e.lname = 'Keller'"),
        ("Which employees have no manager?", "SELECT fname, lname FROM emp WHERE mgr_no IS NULL"),
        ("How many tickets were reopened?", "SELECT count(*) FROM ticket WHERE reopened_flg = 1"),
        ("What percentage of tickets opened in 2024 was reopened?",
         "SELECT 100.0 * sum(reopened_flg) / count(*) FROM ticket WHERE opened_ts >= '2024-01-01' AND opened_ts < '2025-01-01'"),
        ("How many tickets got a csat of 1?", "SELECT count(*) FROM ticket WHERE csat = 1"),
        ("What is the number of the oldest ticket with status open?",
         "SELECT tkt_no FROM ticket WHERE status = 'open' ORDER BY opened_ts LIMIT 1"),
        ("How many tickets were opened yesterday?",
         "SELECT count(*) FROM ticket WHERE opened_ts >= '2025-06-17' AND opened_ts < '2025-06-18'"),
        ("Which sites are in Germany?", "SELECT site_name FROM site WHERE country = 'Germany'"),
        ("How many employees work in Hamburg?",
         "SELECT count(*) FROM emp e JOIN site s ON s.site_cd = e.site_cd WHERE city = 'Hamburg'"),
        ("How many tickets did people from Finance open in Q1 2025?",
         "SELECT count(*) FROM ticket t JOIN emp e ON e.emp_no = t.emp_no JOIN dept d ON d.dept_cd = e.dept_cd "
         "WHERE dept_name = 'Finance' AND opened_ts >= '2025-01-01' AND opened_ts < '2025-04-01'"),
        ("Departments with more than 300 tickets opened in 2024",
         "SELECT dept_name FROM ticket t JOIN emp e ON e.emp_no = t.emp_no JOIN dept d ON d.dept_cd = e.dept_cd "
         "WHERE opened_ts >= '2024-01-01' AND opened_ts < '2025-01-01' GROUP BY d.dept_cd, dept_name HAVING count(*) > 300"),
        ("List all agents in the Network team", "SELECT agent_name FROM agent WHERE team = 'Network'"),
        ("Which agents never had a P1 ticket?",
         "SELECT agent_name FROM agent a WHERE NOT EXISTS (SELECT 1 FROM ticket t WHERE t.agent_id = a.agent_id AND prio = 'P1')"),
        ("What is the tag of our most expensive asset?",
         "SELECT asset_tag FROM asset ORDER BY purch_price DESC LIMIT 1"),
        ("How many assets were purchased before 2020?", "SELECT count(*) FROM asset WHERE purch_dt < '2020-01-01'"),
        ("How many closed tickets have no csat?", "SELECT count(*) FROM ticket WHERE status = 'closed' AND csat IS NULL"),
        ("tickets by priority opened between 1 March and 31 May 2025",
         "SELECT prio, count(*) FROM ticket WHERE opened_ts >= '2025-03-01' AND opened_ts < '2025-06-01' GROUP BY prio"),
        ("Which employees have never opened a ticket?",
         "SELECT fname, lname FROM emp WHERE emp_no NOT IN (SELECT emp_no FROM ticket)"),
        ("When did Claire Wolff last open a ticket?",
         "SELECT max(opened_ts) FROM ticket t JOIN emp e ON e.emp_no = t.emp_no WHERE fname = 'Claire' AND lname = 'Wolff'"),
        ("Which department has the lowest average csat?",
         "SELECT dept_name FROM ticket t JOIN emp e ON e.emp_no = t.emp_no JOIN dept d ON d.dept_cd = e.dept_cd "
         "GROUP BY d.dept_cd, dept_name ORDER BY avg(csat) LIMIT 1"),
        ("How many laptops cost more than the average laptop?",
         "SELECT count(*) FROM asset WHERE asset_type = 'laptop' AND purch_price > (SELECT avg(purch_price) FROM asset WHERE asset_type = 'laptop')"),
        ("How many tickets breached the SLA in May 2025?", None),
        ("What is the salary of Nadia Brandt?", None),
        ("How many calls to the service desk were abandoned last week?", None),
        ("Which software licences expire this year?", None),
        ("What is the room number of Oumar Keller?", None),
    ),
)  # fmt: skip

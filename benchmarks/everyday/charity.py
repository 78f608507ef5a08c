"""A charity: donors, campaigns, donations, volunteers, charity shops and shifts. No keys are declared."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE region (id INTEGER, name TEXT);
CREATE TABLE donor (
  id INTEGER, full_name TEXT, email TEXT, town TEXT, region_id INTEGER, birth_date DATE, registered DATE,
  gift_aid CHAR(1), do_not_contact CHAR(1));
CREATE TABLE campaign (id INTEGER, code TEXT, title TEXT, start_date DATE, end_date DATE, target NUMERIC);
CREATE TABLE donation (
  id INTEGER, donor_id INTEGER, campaign_id INTEGER, amount NUMERIC, received DATE, method TEXT, anonymous CHAR(1));
CREATE TABLE volunteer (
  id INTEGER, full_name TEXT, phone TEXT, joined DATE, dbs_checked CHAR(1), coordinator_id INTEGER);
CREATE TABLE shop (id INTEGER, name TEXT, town TEXT, opened DATE, closed DATE);
CREATE TABLE shift (id INTEGER, volunteer_id INTEGER, shop_id INTEGER, starts_at TIMESTAMP, hours NUMERIC);
"""
REGIONS = ("North East", "North West", "Yorkshire", "Midlands", "South East", "South West", "Wales")
TOWNS = (("Durham", "Sunderland"), ("Preston", "Bolton"), ("Leeds", "Whitby"), ("Derby", "Coventry"),
         ("Reading", "Dover"), ("Exeter", "Truro"), ("Swansea", "Bangor"))  # fmt: skip
FIRST = ("Margaret", "Alan", "Priti", "George", "Joan", "Desmond", "Helen", "Omar", "Brenda", "Colin", "Grace", "Neil",
         "Shirley", "Trevor", "Wendy", "Idris", "Maureen", "Keith", "Rosa", "Stan")  # fmt: skip
LAST = ("Oduya", "Ashworth", "Patel", "Birch", "Thornton", "Mensah", "Llewellyn", "Fairclough", "Hussain", "Grant",
        "Pickering", "Doyle", "Sutcliffe", "Nwosu", "Webb", "Carrington", "Rees", "Lowe", "Barlow", "Stokes")  # fmt: skip
VFIRST = ("Liam", "Chloe", "Tariq", "Megan", "Pawel", "Ruth", "Jasmine", "Owen", "Beatrice", "Sanjay")
VLAST = ("Petrov", "Hartley", "Malik", "Cooper", "Wozniak", "Abbott", "Quinn", "Frost")
CAMPAIGNS = (
    (1, "WIN22", "Winter Appeal 2022", "2022-11-01", "2023-01-31", 15000),
    (2, "MAR23", "Spring Marathon", "2023-03-01", "2023-05-31", 35000),
    (3, "FLD23", "Flood Relief", "2023-09-10", "2024-03-31", 25000),
    (4, "WIN23", "Winter Appeal 2023", "2023-11-01", "2024-01-31", 35000),
    (5, "SCH24", "School Meals", "2024-02-01", "2024-12-31", 150000),
    (6, "WIN24", "Winter Appeal 2024", "2024-11-01", "2025-01-31", 50000),
    (7, "ROOF", "New Roof Fund", "2023-01-15", None, 400000),
    (8, "MON", "Monthly Friends", "2022-01-01", None, 250000),
)
SHOPS = (
    (1, "Headrow", "Leeds", "2008-04-12", None), (2, "Kirkgate", "Leeds", "2015-10-03", None),
    (3, "Harbourside", "Whitby", "2011-06-18", None), (4, "Market Square", "Durham", "2003-02-08", None),
    (5, "Fishergate", "Preston", "2012-09-22", "2024-01-31"), (6, "Sadler Gate", "Derby", "2019-05-11", None),
    (7, "Castle Street", "Dover", "2016-03-19", "2024-06-30"), (8, "Queen Street", "Exeter", "2022-07-02", None),
)  # fmt: skip


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(552)
    names = [f"{f} {s}" for f in FIRST for s in LAST]
    random.shuffle(names)
    names.remove("Margaret Oduya")
    names.insert(6, "Margaret Oduya")
    donors = []
    for n in range(1, 321):
        region = random.choice((1, 2, 2, 3, 3, 3, 4, 5, 6, 7))
        born = date(1935, 1, 1) + timedelta(days=random.randrange(25000)) if random.random() < 0.75 else None
        donors.append((n, names[n - 1], f"d{n}@inbox.test" if random.random() < 0.7 else None,
                       random.choice(TOWNS[region - 1]), region, born.isoformat() if born else None,
                       (date(2018, 1, 1) + timedelta(days=random.randrange(2700))).isoformat(),
                       "Y" if random.random() < 0.55 else "N", "Y" if random.random() < 0.08 else "N"))  # fmt: skip
    givers = random.sample(range(1, 321), 282)
    if 7 not in givers:
        givers[0] = 7
    giving = [*givers, *random.sample(givers, 90) * 3, 7, 7, 7]
    donations = []
    for n in range(1, 3401):
        day = date(2022, 1, 2) + timedelta(days=random.randrange(1263))
        running = [c for c in CAMPAIGNS if c[3] <= day.isoformat() and (c[4] or "9") >= day.isoformat()]
        campaign = random.choice(running)[0] if random.random() < 0.88 else None
        amount = random.choice((10, 15, 20, 25, 25, 30, 50, 50, 75, 100, 150, 250)) + random.choice(
            (0, 0, 0, 0.5)
        )
        if random.random() < 0.03:
            amount = random.randrange(600, 9000)
        donations.append((n, random.choice(giving), campaign, amount, day.isoformat(),
                          random.choice(("card", "card", "direct debit", "direct debit", "bank transfer", "cash",
                                         "cheque")), "Y" if random.random() < 0.06 else "N"))  # fmt: skip
    vnames = [f"{f} {s}" for f in VFIRST for s in VLAST]
    random.shuffle(vnames)
    for place, name in ((0, "Ruth Abbott"), (1, "Sanjay Cooper"), (2, "Megan Frost"), (20, "Liam Petrov")):
        vnames.remove(name)
        vnames.insert(place, name)
    volunteers = [
        (n, vnames[n - 1], f"07700 {random.randrange(900000, 999999)}" if random.random() < 0.85 else None,
         (date(2019, 1, 7) + timedelta(days=random.randrange(2340))).isoformat(), "Y" if random.random() < 0.7 else "N",
         None if n <= 3 else random.choice((1, 1, 2, 3, 3)))
        for n in range(1, 77)
    ]  # fmt: skip
    shifts = []
    while len(shifts) < 2600:
        who = volunteers[random.randrange(0, 70)]
        day = date(2023, 1, 2) + timedelta(days=random.randrange(898))
        shop = random.choice(SHOPS)
        if day.weekday() == 6 or day.isoformat() < who[3] or day.isoformat() > (shop[4] or "9"):
            continue
        start = datetime(day.year, day.month, day.day, random.choice((9, 10, 12, 13)), random.choice((0, 30)))
        shifts.append(
            (len(shifts) + 1, who[0], shop[0], str(start), random.choice((2, 3, 3.5, 4, 4, 5, 7, 7.5)))
        )
    return {"region": list(enumerate(REGIONS, 1)), "donor": donors, "campaign": list(CAMPAIGNS), "donation": donations,
            "volunteer": volunteers, "shop": list(SHOPS), "shift": shifts}  # fmt: skip


CHARITY = Part(
    "charity",
    SCRIPT,
    rows,
    (
        ("How many donors are on our database?", "SELECT count(*) FROM donor"),
        ("What was the total amount of donations in 2024?",
         "SELECT sum(amount) FROM donation WHERE received BETWEEN '2024-01-01' AND '2024-12-31'"),
        ("How many donations did we receive last month?",
         "SELECT count(*) FROM donation WHERE received BETWEEN '2025-05-01' AND '2025-05-31'"),
        ("How much has each campaign raised in donations?",
         "SELECT title, sum(amount) FROM donation d JOIN campaign c ON c.id = d.campaign_id GROUP BY c.id, title"),
        ("Which campaigns have no end date?", "SELECT title FROM campaign WHERE end_date IS NULL"),
        ("Top 10 donors by total amount donated",
         "SELECT full_name FROM donation d JOIN donor o ON o.id = d.donor_id GROUP BY o.id, full_name "
         "ORDER BY sum(amount) DESC LIMIT 10"),
        ("What is the largest donation we have ever had?", "SELECT max(amount) FROM donation"),
        ("Which donor gave the largest single donation in 2023?",
         "SELECT full_name FROM donation d JOIN donor o ON o.id = d.donor_id WHERE received BETWEEN '2023-01-01' AND '2023-12-31' "
         "ORDER BY amount DESC LIMIT 1"),
        ("How many donations came in by bank transfer?", "SELECT count(*) FROM donation WHERE method = 'bank transfer'"),
        ("Total donation amount by method", "SELECT method, sum(amount) FROM donation GROUP BY method"),
        ("How many donors have signed up for gift aid?", "SELECT count(*) FROM donor WHERE gift_aid = 'Y'"),
        ("List the donors in Whitby who must not be contacted",
         "SELECT full_name FROM donor WHERE do_not_contact = 'Y' AND town = 'Whitby'"),
        ("Which donors have never made a donation?",
         "SELECT full_name FROM donor WHERE id NOT IN (SELECT donor_id FROM donation)"),
        ("How many donors do we have in the North West?",
         "SELECT count(*) FROM donor o JOIN region r ON r.id = o.region_id WHERE r.name = 'North West'"),
        ("Number of donors per region",
         "SELECT r.name, count(*) FROM donor o JOIN region r ON r.id = o.region_id GROUP BY r.id, r.name"),
        ("What is the average donation?", "SELECT avg(amount) FROM donation"),
        ("When did Margaret Oduya last donate?",
         "SELECT max(received) FROM donation d JOIN donor o ON o.id = d.donor_id WHERE full_name = 'Margaret Oduya'"),
        ("How much has Margaret Oduya given us this year?",
         "SELECT sum(amount) FROM donation d JOIN donor o ON o.id = d.donor_id WHERE full_name = 'Margaret Oduya' "
         "AND received BETWEEN '2025-01-01' AND '2025-12-31'"),
        ("Show donations of more than 5000 pounds with the name of the donor and the date received",
         "SELECT full_name, received FROM donation d JOIN donor o ON o.id = d.donor_id WHERE amount > 5000"),
        ("Which campaigns have raised less than their target?",
         "SELECT title FROM campaign c JOIN donation d ON d.campaign_id = c.id GROUP BY c.id, title, target HAVING sum(amount) < target"),
        ("how many volunteers joined this year",
         "SELECT count(*) FROM volunteer WHERE joined BETWEEN '2025-01-01' AND '2025-12-31'"),
        ("How many volunteers are not DBS checked?", "SELECT count(*) FROM volunteer WHERE dbs_checked = 'N'"),
        ("Who is the coordinator of Liam Petrov?",
         "SELECT b.full_name FROM volunteer a JOIN volunteer b ON b.id = a.coordinator_id WHERE a.full_name = 'Liam Petrov'"),
        ("How many volunteers have Ruth Abbott as their coordinator?",
         "SELECT count(*) FROM volunteer a JOIN volunteer b ON b.id = a.coordinator_id WHERE b.full_name = 'Ruth Abbott'"),
        ("Total shift hours in May 2025",
         "SELECT sum(hours) FROM shift WHERE starts_at >= '2025-05-01' AND starts_at < '2025-06-01'"),
        ("How many shift hours were worked at each shop in 2024?",
         "SELECT name, sum(hours) FROM shift s JOIN shop p ON p.id = s.shop_id "
         "WHERE starts_at >= '2024-01-01' AND starts_at < '2025-01-01' GROUP BY p.id, name"),
        ("Which 3 volunteers worked the most hours in 2024?",
         "SELECT full_name FROM shift s JOIN volunteer v ON v.id = s.volunteer_id "
         "WHERE starts_at >= '2024-01-01' AND starts_at < '2025-01-01' GROUP BY v.id, full_name ORDER BY sum(hours) DESC LIMIT 3"),
        ("Give me the names and phone numbers of volunteers without a single shift",
         "SELECT full_name, phone FROM volunteer WHERE id NOT IN (SELECT volunteer_id FROM shift)"),
        ("Which shops have closed?", "SELECT name FROM shop WHERE closed IS NOT NULL"),
        ("How many shops do we have in Leeds?", "SELECT count(*) FROM shop WHERE town = 'Leeds'"),
        ("Which of our shops opened first?", "SELECT name FROM shop ORDER BY opened LIMIT 1"),
        ("How many shifts were there at the Harbourside shop last year?",
         "SELECT count(*) FROM shift s JOIN shop p ON p.id = s.shop_id WHERE name = 'Harbourside' "
         "AND starts_at >= '2024-01-01' AND starts_at < '2025-01-01'"),
        ("How many donors were born before 1950?", "SELECT count(*) FROM donor WHERE birth_date < '1950-01-01'"),
        ("For how many donors is the birth date missing?", "SELECT count(*) FROM donor WHERE birth_date IS NULL"),
        ("What is the total value of anonymous donations?", "SELECT sum(amount) FROM donation WHERE anonymous = 'Y'"),
        ("How many donations are not linked to a campaign?", "SELECT count(*) FROM donation WHERE campaign_id IS NULL"),
        ("What's the target of campaign SCH24?", "SELECT target FROM campaign WHERE code = 'SCH24'"),
        ("Total donation amount per month in 2024",
         "SELECT substr(CAST(received AS TEXT), 1, 7), sum(amount) FROM donation "
         "WHERE received BETWEEN '2024-01-01' AND '2024-12-31' GROUP BY substr(CAST(received AS TEXT), 1, 7)"),
        ("Which donors have made more than 25 donations?",
         "SELECT full_name FROM donation d JOIN donor o ON o.id = d.donor_id GROUP BY o.id, full_name HAVING count(*) > 25"),
        ("From which region did we receive the most money in the first quarter of 2025?",
         "SELECT r.name FROM donation d JOIN donor o ON o.id = d.donor_id JOIN region r ON r.id = o.region_id "
         "WHERE received BETWEEN '2025-01-01' AND '2025-03-31' GROUP BY r.id, r.name ORDER BY sum(amount) DESC LIMIT 1"),
        ("What percentage of donations is paid by direct debit?",
         "SELECT 100.0 * sum(CASE WHEN method = 'direct debit' THEN 1 ELSE 0 END) / count(*) FROM donation"),
        ("How many shifts lasted longer than 6 hours?", "SELECT count(*) FROM shift WHERE hours > 6"),
        ("How many different volunteers worked at the Kirkgate shop in 2025?",
         "SELECT count(DISTINCT volunteer_id) FROM shift s JOIN shop p ON p.id = s.shop_id WHERE name = 'Kirkgate' "
         "AND starts_at >= '2025-01-01' AND starts_at < '2026-01-01'"),
        ("Which donors gave to both the Flood Relief and the School Meals campaign?",
         "SELECT full_name FROM donor WHERE id IN (SELECT donor_id FROM donation d JOIN campaign c ON c.id = d.campaign_id "
         "WHERE title = 'Flood Relief') AND id IN (SELECT donor_id FROM donation d JOIN campaign c ON c.id = d.campaign_id "
         "WHERE title = 'School Meals')"),
        ("Average donation to the Winter Appeal 2024 campaign",
         "SELECT avg(amount) FROM donation d JOIN campaign c ON c.id = d.campaign_id WHERE title = 'Winter Appeal 2024'"),
        ("Which donors have promised us a legacy in their will?", None),
        ("How much did we spend on fundraising in 2024?", None),
        ("What is the phone number of the donor Margaret Oduya?", None),
        ("What was the turnover of the Headrow shop last month?", None),
        ("How many people opened our last newsletter?", None),
    ),
)  # fmt: skip

"""A municipal waste service: bins, properties, rounds, vehicles, staff and complaints.

Abbreviated names, no declared foreign keys, flags as 0/1 in some columns and as Y/N in others.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE wst_typ (wst_cd CHAR(3) PRIMARY KEY, descr VARCHAR(30) NOT NULL, fee_yr NUMERIC(6, 2), rcy_flg CHAR(1) NOT NULL);
CREATE TABLE veh (
  veh_no VARCHAR(6) PRIMARY KEY, plate VARCHAR(12) NOT NULL, mk VARCHAR(20) NOT NULL, fuel VARCHAR(10) NOT NULL,
  cap_kg INTEGER NOT NULL, purch_dt DATE NOT NULL, nxt_insp_dt DATE, in_svc CHAR(1) NOT NULL);
CREATE TABLE emp (
  emp_id INTEGER PRIMARY KEY, fnm VARCHAR(30) NOT NULL, lnm VARCHAR(30) NOT NULL, role VARCHAR(15) NOT NULL,
  hire_dt DATE NOT NULL, term_dt DATE, lic_c SMALLINT NOT NULL, pt_flg SMALLINT NOT NULL);
CREATE TABLE prop (
  prop_id INTEGER PRIMARY KEY, str_nm VARCHAR(40) NOT NULL, hse_no VARCHAR(6) NOT NULL, pcode VARCHAR(5) NOT NULL,
  dist VARCHAR(20) NOT NULL, own_nm VARCHAR(50) NOT NULL, com_flg SMALLINT NOT NULL, hh_cnt INTEGER,
  vac_flg CHAR(1) NOT NULL);
CREATE TABLE bin (
  bin_id INTEGER PRIMARY KEY, bin_no VARCHAR(10) NOT NULL, prop_id INTEGER NOT NULL, wst_cd CHAR(3) NOT NULL,
  vol_l INTEGER NOT NULL, iss_dt DATE NOT NULL, ret_dt DATE, lock_flg CHAR(1) NOT NULL, chip_no VARCHAR(12));
CREATE TABLE rnd (
  rnd_id INTEGER PRIMARY KEY, rnd_dt DATE NOT NULL, veh_no VARCHAR(6) NOT NULL, drv_id INTEGER NOT NULL,
  wst_cd CHAR(3) NOT NULL, dist VARCHAR(20) NOT NULL, n_bins INTEGER NOT NULL, n_miss INTEGER NOT NULL,
  wt_kg INTEGER, km NUMERIC(5, 1) NOT NULL, strt_ts TIMESTAMP NOT NULL, end_ts TIMESTAMP);
CREATE TABLE cmpl (
  cmpl_no VARCHAR(10) PRIMARY KEY, prop_id INTEGER NOT NULL, rcv_ts TIMESTAMP NOT NULL, cat VARCHAR(20) NOT NULL,
  stat VARCHAR(4) NOT NULL, cls_dt DATE, emp_id INTEGER, rfnd_amt NUMERIC(6, 2));
"""

TODAY = datetime(2025, 6, 18)

TYPES = (
    ("RES", "Residual waste", 148.8, "N"), ("BIO", "Organic waste", 62.4, "Y"), ("PAP", "Paper and cardboard", None, "Y"),
    ("PLA", "Light packaging", None, "Y"), ("GLS", "Glass", 24.0, "Y"), ("BLK", "Bulky waste", 35.0, "N"),
)  # fmt: skip
DISTRICTS = ("Northfield", "Westend", "Harbourside", "Old Town", "Eastbrook", "Southgate")
STREETS = (
    ("Mill Lane", 0), ("Mill Road", 0), ("Birch Avenue", 0), ("Chapel Street", 1), ("Chapel Hill", 1), ("Linden Way", 1),
    ("Quay Street", 2), ("Harbour Row", 2), ("Ropewalk", 2), ("Market Place", 3), ("Bell Street", 3), ("Cloister Lane", 3),
    ("Brook Street", 4), ("Brookside", 4), ("Station Road", 4), ("South Parade", 5), ("Orchard Close", 5), ("King's Road", 5),
)  # fmt: skip
EMPLOYEES = (
    ("Petra", "Lind", "driver"), ("Petra", "Lindqvist", "driver"), ("Graham", "Pike", "driver"), ("Omar", "Saleh", "driver"),
    ("Dean", "Foster", "driver"), ("Denise", "Forster", "driver"), ("Marco", "Bellini", "driver"), ("Ewa", "Sikora", "driver"),
    ("Callum", "Reid", "driver"), ("Ravi", "Menon", "driver"), ("Stefan", "Kral", "driver"), ("Tina", "Hobbs", "driver"),
    ("Lloyd", "Barker", "loader"), ("Sam", "Barkham", "loader"), ("Yusuf", "Demir", "loader"), ("Igor", "Petrov", "loader"),
    ("Kevin", "Doyle", "loader"), ("Kelvin", "Doyle", "loader"), ("Aaron", "Webb", "loader"), ("Musa", "Diallo", "loader"),
    ("Joe", "Tanner", "loader"), ("Nick", "Sharp", "loader"), ("Leon", "Fisk", "loader"), ("Vikram", "Das", "loader"),
    ("Carol", "Penrose", "dispatcher"), ("Hugh", "Aldous", "dispatcher"), ("Simone", "Weiss", "dispatcher"),
    ("Janet", "Cole", "clerk"), ("Janet", "Coleman", "clerk"), ("Bridget", "Nash", "clerk"), ("Alan", "Moss", "clerk"),
    ("Rita", "Vance", "clerk"),
)  # fmt: skip
OWNERS = (
    "Abbott", "Baines", "Carver", "Dalton", "Eckert", "Farrow", "Gibbs", "Harker", "Ingram", "Jessop", "Kendal", "Lowry",
    "Marlow", "Norris", "Osgood", "Prentice", "Quayle", "Rudd", "Sutton", "Thorne", "Upton", "Varley", "Whitby", "Yates",
)  # fmt: skip
FIRMS = ("Bakery", "Motors", "Dental", "Stores", "Hardware", "Catering", "Printing", "Florists")
CATEGORIES = ("missed collection", "damaged bin", "noise", "billing", "spillage")


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(77)

    def day(moment: datetime) -> str:
        return f"{moment:%Y-%m-%d}"

    vehicles = []
    for n in range(1, 19):
        insp = TODAY + timedelta(days=random.randrange(-40, 330))
        insp = {6: datetime(2025, 7, 9), 15: datetime(2025, 7, 24)}.get(n, insp)
        out = n in (4, 11, 17)
        vehicles.append(
            (f"WV{n:02d}", f"HK {random.randrange(100, 999)} {random.choice('ABCDEF')}{random.choice('KLMNP')}",
             random.choice(("MAN", "Mercedes", "Volvo", "Dennis")),
             random.choice(("diesel", "diesel", "diesel", "electric", "CNG")),
             random.choice((3500, 7500, 9000, 10000, 11500, 12500)),
             day(datetime(2013, 5, 1) + timedelta(days=random.randrange(4200))), None if out else day(insp),
             "N" if out else "Y")
        )  # fmt: skip
    staff = []
    for n, (first, last, role) in enumerate(EMPLOYEES, 1):
        hired = datetime(2003, 2, 1) + timedelta(days=random.randrange(7800))
        left = {9: "2024-11-30", 14: "2025-02-28", 22: "2023-08-31", 31: "2025-04-30"}.get(n)
        licence = 1 if role == "driver" and n != 12 else int(role == "loader" and random.random() < 0.3)
        staff.append((n, first, last, role, day(hired), left, licence, int(random.random() < 0.2)))
    properties = []
    for n in range(1, 641):
        street, where = STREETS[random.randrange(18)]
        firm = random.random() < 0.14
        owner = random.choice(OWNERS)
        name = (
            f"{owner} {random.choice(FIRMS)} Ltd"
            if firm
            else f"{random.choice('ABCDEFGHJKLMNPRST')}. {owner}"
        )
        house = f"{random.randrange(1, 120)}{random.choice(('', '', '', '', 'a', 'b'))}"
        homes = None if firm else random.choice((1, 1, 1, 1, 2, 3, 4, 8, 12))
        properties.append(
            (n, street, house, f"{4700 + where * 3 + n % 3:05d}", DISTRICTS[where], name, int(firm), homes,
             "Y" if random.random() < 0.06 else "N")
        )  # fmt: skip
    bins = []
    for prop in properties:
        if random.random() < 0.03:
            continue
        for code in ("RES", "BIO", "PAP", "PLA", "GLS"):
            if random.random() < {"RES": 0.98, "BIO": 0.6, "PAP": 0.75, "PLA": 0.5, "GLS": 0.15}[code]:
                n = len(bins) + 1
                issued = datetime(2016, 1, 4) + timedelta(days=random.randrange(3440))
                back = issued + timedelta(days=random.randrange(100, 3000))
                gone = random.random() < 0.1 and back < TODAY
                bins.append(
                    (n, f"B{n * 7 + 40000:06d}", prop[0], code, random.choice((60, 80, 120, 120, 240, 240, 1100)),
                     day(issued), day(back) if gone else None, "Y" if random.random() < 0.08 else "N",
                     f"CH{random.randrange(10**8):08d}" if random.random() < 0.9 else None)
                )  # fmt: skip
    rounds = []
    moment = datetime(2024, 1, 2)
    while moment <= TODAY:
        if moment.weekday() < 5:
            for _ in range(random.choice((5, 6, 7))):
                start = moment + timedelta(hours=5, minutes=random.randrange(40, 200))
                end = start + timedelta(minutes=random.randrange(190, 480))
                unfinished = moment == TODAY or random.random() < 0.003
                code = random.choice(("RES", "RES", "RES", "BIO", "BIO", "PAP", "PAP", "PLA", "GLS", "BLK"))
                n_bins = random.randrange(120, 620)
                weight = int(n_bins * random.uniform(7, 19))
                driver = random.choice([n for n in range(1, 13) if n != 9 or moment < datetime(2024, 12, 1)])
                vehicle = random.choice([n for n in range(1, 19) if n not in (4, 11, 17)])
                rounds.append(
                    (len(rounds) + 1, day(moment), f"WV{vehicle:02d}", driver, code, random.choice(DISTRICTS), n_bins,
                     random.choice((0, 0, 0, 0, 1, 2, 3, 6)), None if unfinished or random.random() < 0.03 else weight,
                     round(random.uniform(18, 96), 1), f"{start:%Y-%m-%d %H:%M:%S}",
                     None if unfinished else f"{end:%Y-%m-%d %H:%M:%S}")
                )  # fmt: skip
        moment += timedelta(days=1)
    moments = sorted(
        datetime(2023, 7, 3, 7) + timedelta(minutes=random.randrange(60 * 24 * 716)) for _ in range(1400)
    )
    complaints, numbers = [], {}
    for got in moments:
        numbers[got.year] = numbers.get(got.year, 0) + 1
        closed = got + timedelta(days=random.randrange(1, 30))
        recent = got > datetime(2025, 4, 20)
        state = (
            random.choice(("CLSD", "OPEN", "OPEN", "PEND"))
            if recent
            else random.choice(("CLSD",) * 24 + ("PEND",))
        )
        if closed >= TODAY and state == "CLSD":
            state = "OPEN"
        category = random.choices(CATEGORIES, (9, 5, 2, 4, 3))[0]
        refund = round(random.choice((6, 12, 12.5, 24, 31)) * random.uniform(0.8, 1.6), 2)
        complaints.append(
            (f"C{got:%y}-{numbers[got.year]:04d}", random.randrange(1, 641), f"{got:%Y-%m-%d %H:%M:%S}", category, state,
             day(closed) if state == "CLSD" else None,
             random.choice((25, 26, 27, 28, 29, 30, 32)) if state == "CLSD" or random.random() < 0.6 else None,
             refund if state == "CLSD" and category in ("billing", "missed collection") and random.random() < 0.5 else None)
        )  # fmt: skip
    return {
        "wst_typ": list(TYPES), "veh": vehicles, "emp": staff, "prop": properties, "bin": bins, "rnd": rounds,
        "cmpl": complaints,
    }  # fmt: skip


QUESTIONS = (
    ("how many bins have been returned", "SELECT count(*) FROM bin WHERE ret_dt IS NOT NULL"),
    ("How many 240 litre bins are still out there, i.e. not returned?",
     "SELECT count(*) FROM bin WHERE vol_l = 240 AND ret_dt IS NULL"),
    ("how many kg of paper and cardboard did we collect last month?",
     "SELECT sum(wt_kg) FROM rnd JOIN wst_typ USING (wst_cd) WHERE descr = 'Paper and cardboard' "
     "AND rnd_dt >= '2025-05-01' AND rnd_dt < '2025-06-01'"),
    ("open complaints, how many?", "SELECT count(*) FROM cmpl WHERE stat = 'OPEN'"),
    ("number of complaints per district", "SELECT dist, count(*) FROM cmpl JOIN prop USING (prop_id) GROUP BY dist"),
    ("Which vehicles are not in service?", "SELECT veh_no FROM veh WHERE in_svc = 'N'"),
    ("how many electric trucks do we have", "SELECT count(*) FROM veh WHERE fuel = 'electric'"),
    ("what's the number plate of WV07?", "SELECT plate FROM veh WHERE veh_no = 'WV07'"),
    ("drivers without a C licence", "SELECT fnm, lnm FROM emp WHERE role = 'driver' AND lic_c = 0"),
    ("How many complaints came in yesterday?",
     "SELECT count(*) FROM cmpl WHERE rcv_ts >= '2025-06-17' AND rcv_ts < '2025-06-18'"),
    ("How many complaints about a missed collection did we receive in May?",
     "SELECT count(*) FROM cmpl WHERE cat = 'missed collection' AND rcv_ts >= '2025-05-01' AND rcv_ts < '2025-06-01'"),
    ("Which district has had the most complaints this year?",
     "SELECT dist FROM cmpl JOIN prop USING (prop_id) WHERE rcv_ts >= '2025-01-01' AND rcv_ts < '2026-01-01' "
     "GROUP BY dist ORDER BY count(*) DESC LIMIT 1"),
    ("how many rounds has Petra Lindqvist driven in 2025?",
     "SELECT count(*) FROM rnd JOIN emp ON drv_id = emp_id WHERE fnm = 'Petra' AND lnm = 'Lindqvist' "
     "AND rnd_dt >= '2025-01-01' AND rnd_dt < '2026-01-01'"),
    ("average km per round in Northfield", "SELECT avg(km) FROM rnd WHERE dist = 'Northfield'"),
    ("Could I have the total weight collected in 2024 for each type of waste, please?",
     "SELECT descr, sum(wt_kg) FROM rnd JOIN wst_typ USING (wst_cd) "
     "WHERE rnd_dt >= '2024-01-01' AND rnd_dt < '2025-01-01' GROUP BY wst_cd"),
    ("number of bins with a lock", "SELECT count(*) FROM bin WHERE lock_flg = 'Y'"),
    ("how many bins have no chip", "SELECT count(*) FROM bin WHERE chip_no IS NULL"),
    ("Who owns the property where bin B040707 stands?",
     "SELECT own_nm FROM bin JOIN prop USING (prop_id) WHERE bin_no = 'B040707'"),
    ("street and house number for bin B045600",
     "SELECT str_nm, hse_no FROM bin JOIN prop USING (prop_id) WHERE bin_no = 'B045600'"),
    ("How many commercial properties are there?", "SELECT count(*) FROM prop WHERE com_flg = 1"),
    ("vacant properties in Westend - street and house no",
     "SELECT str_nm, hse_no FROM prop WHERE vac_flg = 'Y' AND dist = 'Westend'"),
    ("How many households are there in Harbourside in total?", "SELECT sum(hh_cnt) FROM prop WHERE dist = 'Harbourside'"),
    ("Which employee was hired first?", "SELECT fnm, lnm FROM emp ORDER BY hire_dt LIMIT 1"),
    ("who works part time?", "SELECT fnm, lnm FROM emp WHERE pt_flg = 1"),
    ("Which employees left this year?",
     "SELECT fnm, lnm FROM emp WHERE term_dt >= '2025-01-01' AND term_dt < '2026-01-01'"),
    ("vehicles due for inspection next month",
     "SELECT veh_no FROM veh WHERE nxt_insp_dt >= '2025-07-01' AND nxt_insp_dt < '2025-08-01'"),
    ("Which vehicles should already have been inspected, that is, their next inspection date is in the past?",
     "SELECT veh_no FROM veh WHERE nxt_insp_dt < '2025-06-18'"),
    ("heaviest load ever collected on one round, in kg", "SELECT max(wt_kg) FROM rnd"),
    ("How many rounds have no weight recorded?", "SELECT count(*) FROM rnd WHERE wt_kg IS NULL"),
    ("how many bins did we miss in March 2025",
     "SELECT sum(n_miss) FROM rnd WHERE rnd_dt >= '2025-03-01' AND rnd_dt < '2025-04-01'"),
    ("total refunds for complaints received in 2024",
     "SELECT sum(rfnd_amt) FROM cmpl WHERE rcv_ts >= '2024-01-01' AND rcv_ts < '2025-01-01'"),
    ("Which complaints is nobody handling yet?", "SELECT cmpl_no FROM cmpl WHERE emp_id IS NULL"),
    ("yearly fee for organic waste?", "SELECT fee_yr FROM wst_typ WHERE descr = 'Organic waste'"),
    ("Which types of waste are not recyclable?", "SELECT descr FROM wst_typ WHERE rcy_flg = 'N'"),
    ("How many properties don't have any bin?",
     "SELECT count(*) FROM prop WHERE prop_id NOT IN (SELECT prop_id FROM bin)"),
    ("top 3 drivers by number of rounds this year",
     "SELECT fnm, lnm FROM rnd JOIN emp ON drv_id = emp_id WHERE rnd_dt >= '2025-01-01' AND rnd_dt < '2026-01-01' "
     "GROUP BY drv_id ORDER BY count(*) DESC LIMIT 3"),
    ("status of complaint C25-0031", "SELECT stat FROM cmpl WHERE cmpl_no = 'C25-0031'"),
    ("how many properties on Mill Lane", "SELECT count(*) FROM prop WHERE str_nm = 'Mill Lane'"),
    ("glass bins issued since the start of 2025, how many?",
     "SELECT count(*) FROM bin JOIN wst_typ USING (wst_cd) WHERE descr = 'Glass' AND iss_dt >= '2025-01-01'"),
    ("Owners with postal code 04704 whose property is vacant",
     "SELECT own_nm FROM prop WHERE pcode = '04704' AND vac_flg = 'Y'"),
    ("diesel vehicles with a capacity over 10000 kg", "SELECT veh_no FROM veh WHERE fuel = 'diesel' AND cap_kg > 10000"),
    ("Average refund for billing complaints?", "SELECT avg(rfnd_amt) FROM cmpl WHERE cat = 'billing'"),
    ("total km per vehicle this month",
     "SELECT veh_no, sum(km) FROM rnd WHERE rnd_dt >= '2025-06-01' AND rnd_dt < '2025-07-01' GROUP BY veh_no"),
    ("Which streets have had more than 90 complaints?",
     "SELECT str_nm FROM cmpl JOIN prop USING (prop_id) GROUP BY str_nm HAVING count(*) > 90"),
    ("complaints handled by Janet Coleman in 2025, how many",
     "SELECT count(*) FROM cmpl JOIN emp USING (emp_id) WHERE fnm = 'Janet' AND lnm = 'Coleman' "
     "AND rcv_ts >= '2025-01-01' AND rcv_ts < '2026-01-01'"),
    ("How much diesel did WV03 use last week?", None),
    ("phone number of the owner at Bell Street 12", None),
    ("What does Omar Saleh earn per month?", None),
    ("where is WV12 right now", None),
    ("When will the paper bins on Ropewalk be emptied next?", None),
    ("What percentage of the waste ends up in the incinerator?", None),
    ("how many sick days did the loaders have in may", None),
    ("Why did the complaints about noise go up?", None),
)  # fmt: skip

ALTERNATIVES = {
    "open complaints, how many?": ("SELECT count(*) FROM cmpl WHERE cls_dt IS NULL",),
    "Which vehicles are not in service?": ("SELECT plate FROM veh WHERE in_svc = 'N'",),
    "vehicles due for inspection next month": (
        "SELECT plate FROM veh WHERE nxt_insp_dt >= '2025-07-01' AND nxt_insp_dt < '2025-08-01'",
    ),
    "drivers without a C licence": (
        "SELECT fnm, lnm FROM emp WHERE role = 'driver' AND lic_c = 0 AND term_dt IS NULL",
    ),
    "number of bins with a lock": ("SELECT count(*) FROM bin WHERE lock_flg = 'Y' AND ret_dt IS NULL",),
    "how many bins have no chip": ("SELECT count(*) FROM bin WHERE chip_no IS NULL AND ret_dt IS NULL",),
    "Could I have the total weight collected in 2024 for each type of waste, please?": (
        "SELECT wst_cd, sum(wt_kg) FROM rnd WHERE rnd_dt >= '2024-01-01' AND rnd_dt < '2025-01-01' GROUP BY wst_cd",
    ),
    "who works part time?": ("SELECT fnm, lnm FROM emp WHERE pt_flg = 1 AND term_dt IS NULL",),
    "Which types of waste are not recyclable?": ("SELECT wst_cd FROM wst_typ WHERE rcy_flg = 'N'",),
    "Which complaints is nobody handling yet?": ("SELECT count(*) FROM cmpl WHERE emp_id IS NULL",),
    "how many electric trucks do we have": (
        "SELECT count(*) FROM veh WHERE fuel = 'electric' AND in_svc = 'Y'",
    ),
    "How many properties don't have any bin?": (
        "SELECT count(*) FROM prop WHERE prop_id NOT IN (SELECT prop_id FROM bin WHERE ret_dt IS NULL)",
    ),
    "complaints handled by Janet Coleman in 2025, how many": (
        "SELECT count(*) FROM cmpl JOIN emp USING (emp_id) WHERE fnm = 'Janet' AND lnm = 'Coleman' "
        "AND cls_dt >= '2025-01-01' AND cls_dt < '2026-01-01'",
    ),
    "diesel vehicles with a capacity over 10000 kg": (
        "SELECT plate FROM veh WHERE fuel = 'diesel' AND cap_kg > 10000",
    ),
}

WASTE = Part("waste", SCRIPT, rows, QUESTIONS, ALTERNATIVES)

"""A brewery that delivers to pubs: beers, tanks, batches, staff, pubs, deliveries and a lookup of batch states.

A mixture, as grown over the years: some keys are declared and some are not, staff refers to itself (manager) and so
do batches (where the yeast came from), timestamps, many NULLs, and a table that explains one-letter states.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE batch_state (code CHAR(1) PRIMARY KEY, label VARCHAR(20) NOT NULL);
CREATE TABLE staff (
  id INTEGER PRIMARY KEY, full_name VARCHAR(50) NOT NULL, job_title VARCHAR(30) NOT NULL, manager_id INTEGER,
  started_on DATE NOT NULL, left_on DATE, hourly_rate NUMERIC(5, 2));
CREATE TABLE beer (
  beer_code VARCHAR(4) PRIMARY KEY, name VARCHAR(40) NOT NULL, style VARCHAR(20) NOT NULL, abv NUMERIC(3, 1) NOT NULL,
  ibu INTEGER, seasonal BOOLEAN NOT NULL, launched_on DATE NOT NULL, discontinued_on DATE);
CREATE TABLE tank (
  tank_no INTEGER PRIMARY KEY, kind VARCHAR(15) NOT NULL, capacity_hl NUMERIC(5, 1) NOT NULL, last_cleaned_at TIMESTAMP);
CREATE TABLE batch (
  id INTEGER PRIMARY KEY, batch_no VARCHAR(10) NOT NULL, beer_code VARCHAR(4) NOT NULL REFERENCES beer(beer_code),
  tank_no INTEGER NOT NULL REFERENCES tank(tank_no), brewer_id INTEGER NOT NULL, brewed_at TIMESTAMP NOT NULL,
  packaged_at TIMESTAMP, volume_hl NUMERIC(5, 1) NOT NULL, og NUMERIC(5, 3), state CHAR(1) NOT NULL,
  yeast_from_batch_id INTEGER, tasting_score NUMERIC(3, 1));
CREATE TABLE pub (
  id INTEGER PRIMARY KEY, name VARCHAR(40) NOT NULL, town VARCHAR(30) NOT NULL, kind VARCHAR(12) NOT NULL,
  phone VARCHAR(20), rep_id INTEGER, customer_since DATE NOT NULL, on_hold BOOLEAN NOT NULL);
CREATE TABLE delivery (
  id INTEGER PRIMARY KEY, delivery_no VARCHAR(10) NOT NULL, pub_id INTEGER NOT NULL REFERENCES pub(id),
  beer_code VARCHAR(4) NOT NULL, ordered_at TIMESTAMP NOT NULL, delivered_at TIMESTAMP, kegs INTEGER NOT NULL,
  keg_litres INTEGER NOT NULL, keg_price NUMERIC(6, 2) NOT NULL, paid CHAR(1) NOT NULL, empties_back INTEGER);
"""

TODAY = datetime(2025, 6, 18)

STATES = (("F", "fermenting"), ("C", "conditioning"), ("P", "packaged"), ("D", "dumped"))
STAFF = (
    (1, "Ingrid Moss", "managing director", None, "2009-03-02", None, None),
    (2, "Tomas Hale", "head brewer", 1, "2010-05-17", None, 31.5),
    (3, "Rowan Pryce", "sales manager", 1, "2013-09-01", None, 29.0),
    (4, "Bea Castell", "warehouse manager", 1, "2012-01-09", None, 26.4),
    (5, "Thomas Hall", "brewer", 2, "2015-04-13", None, 22.75),
    (6, "Nadia Koren", "brewer", 2, "2018-08-06", None, 22.1),
    (7, "Finn Osterby", "brewer", 2, "2021-02-15", None, 20.8),
    (8, "Arlo Penn", "brewer", 2, "2016-06-20", "2024-09-30", 21.9),
    (9, "Maya Lindo", "apprentice brewer", 5, "2023-09-04", None, 13.6),
    (10, "Greg Stubbs", "sales rep", 3, "2014-11-03", None, 19.5),
    (11, "Gregor Stubbins", "sales rep", 3, "2019-03-18", None, 19.2),
    (12, "Lena Ashby", "sales rep", 3, "2022-05-02", None, 18.7),
    (13, "Hanif Rahman", "sales rep", 3, "2017-07-10", "2025-03-31", 19.3),
    (14, "Colm Deasy", "driver", 4, "2016-02-22", None, 17.4),
    (15, "Wes Tarrant", "driver", 4, "2020-10-12", None, 16.9),
    (16, "Ola Brandvold", "driver", 4, "2024-04-08", None, 16.5),
    (17, "Judy Marsden", "warehouse worker", 4, "2021-06-14", None, 15.9),
    (18, "Pete Zabel", "warehouse worker", 4, "2025-02-03", None, 15.2),
    (19, "Sylvia Crane", "accountant", 1, "2011-08-29", None, 27.8),
    (20, "Dot Fielding", "lab technician", 2, "2022-11-21", None, None),
)
BEERS = (
    ("HEL", "Old Mill Helles", "lager", 4.8, 18, 0, "2009-06-01", None),
    ("PIL", "Old Mill Pils", "lager", 5.0, 34, 0, "2010-04-12", None),
    ("DNK", "Old Mill Dark", "lager", 5.4, 22, 0, "2011-10-03", None),
    ("GLD", "Golden Heron", "pale ale", 4.2, 28, 0, "2012-05-07", None),
    ("HRN", "Heron IPA", "ipa", 6.1, 62, 0, "2014-03-10", None),
    ("DHR", "Double Heron", "ipa", 8.2, 85, 0, "2019-09-16", None),
    ("STT", "Coalhouse Stout", "stout", 5.6, 38, 0, "2013-11-04", None),
    ("IMP", "Imperial Coalhouse", "stout", 10.5, 60, 1, "2018-11-12", None),
    ("WHT", "Cloud Wheat", "wheat", 5.1, None, 0, "2015-05-18", None),
    ("RSP", "Raspberry Cloud", "wheat", 4.6, None, 1, "2020-06-08", None),
    ("SSN", "Barn Saison", "saison", 6.4, 26, 1, "2017-06-05", None),
    ("PMK", "Pumpkin Porter", "porter", 5.9, 30, 1, "2016-09-12", "2023-12-31"),
    ("RYE", "Rye Amber", "amber", 5.3, 35, 0, "2014-09-22", "2024-08-31"),
    ("MLD", "Miller's Mild", "mild", 3.4, 20, 0, "2012-10-15", "2022-05-31"),
    ("XMS", "Winter Warmer", "porter", 7.2, 32, 1, "2011-11-14", None),
    ("LOW", "Little Heron", "pale ale", 0.5, None, 0, "2023-01-16", None),
)  # fmt: skip
TOWNS = ("Ashford", "Ashby", "Millbridge", "Carrow", "Carrowmere", "Stoneleigh", "Hexton")
PUBS = (
    "The Red Lion", "The Red Lion Inn", "The White Hart", "The Crown", "The Crown and Anchor", "The Plough", "The Ship",
    "The Railway Arms", "The Railway Tavern", "The Fox", "The Fox and Hounds", "The Bell", "The Swan", "The Black Swan",
    "The Wheatsheaf", "The King's Head", "The Queen's Head", "Harbour Grill", "Bistro Verde", "Cellar Door", "Hop & Grain",
    "The Bottle Shop", "Market Wines", "The Green Man",
)  # fmt: skip


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(19)

    def moment(value: datetime) -> str:
        return f"{value:%Y-%m-%d %H:%M:%S}"

    tanks = []
    for n in range(1, 15):
        kind = "fermenter" if n <= 9 else "bright"
        cleaned = TODAY - timedelta(days=random.randrange(1, 60), minutes=random.randrange(900))
        tanks.append(
            (n, kind, random.choice((20.0, 30.0, 40.0, 60.0, 80.0)), None if n == 13 else moment(cleaned))
        )
    batches: list[tuple[object, ...]] = []
    brewed, in_year = datetime(2022, 1, 4, 6, 30), {}
    last_of: dict[str, int] = {}
    while brewed < TODAY:
        on_sale = [
            b for b in BEERS
            if b[6] <= f"{brewed:%Y-%m-%d}" and not (b[7] and b[7] < f"{brewed:%Y-%m-%d}")
            and not (b[5] and brewed.month % 2) and not (b[0] == "SSN" and brewed.year == 2025)
        ]  # fmt: skip
        beer = random.choices(on_sale, [6 if b[0] in ("HEL", "PIL", "HRN") else 2 for b in on_sale])[0]
        n = len(batches) + 1
        in_year[brewed.year] = in_year.get(brewed.year, 0) + 1
        tank = random.randrange(1, 10)
        age = (TODAY - brewed).days
        packed = brewed + timedelta(days=random.randrange(16, 40), minutes=random.randrange(600))
        state = "P" if packed < TODAY else "F" if age < 12 else "C"
        if state == "P" and random.random() < 0.03:
            state = "D"
        crew = [p for p in (2, 5, 5, 6, 6, 6, 7, 8, 9) if STAFF[p - 1][4] <= f"{brewed:%Y-%m-%d}"
                and not (STAFF[p - 1][5] and STAFF[p - 1][5] < f"{brewed:%Y-%m-%d}")]  # fmt: skip
        batches.append(
            (n, f"B{brewed:%y}-{in_year[brewed.year]:03d}", beer[0], tank, random.choice(crew), moment(brewed),
             moment(packed) if state == "P" else None, round(tanks[tank - 1][2] * random.uniform(0.8, 0.98), 1),
             round(1.009 + beer[3] * 0.0085 + random.uniform(-0.002, 0.002), 3) if random.random() < 0.94 else None, state,
             last_of.get(beer[2]) if random.random() < 0.45 else None,
             round(random.uniform(5.2, 9.6), 1) if state == "P" and random.random() < 0.85 else None)
        )  # fmt: skip
        last_of[beer[2]] = n
        brewed += timedelta(days=random.choice((2, 3, 4, 5)))
        brewed = brewed.replace(hour=random.randrange(5, 10), minute=random.choice((0, 15, 30, 45)))
    pubs = []
    places = [(name, town) for name in PUBS for town in random.sample(TOWNS, random.choice((2, 3, 4, 5)))]
    for n, (name, town) in enumerate(places, 1):
        kind = (
            "restaurant"
            if name in ("Harbour Grill", "Bistro Verde")
            else (
                "shop" if name in ("Cellar Door", "Hop & Grain", "The Bottle Shop", "Market Wines") else "pub"
            )
        )
        since = date(2010, 1, 11) + timedelta(days=random.randrange(5600))
        pubs.append(
            (n, name, town, kind, f"01{n * 37 % 800 + 200}-{random.randrange(10**6):06d}" if random.random() < 0.8 else None,
             random.choice((10, 10, 11, 12, 13)) if random.random() < 0.9 else None, f"{since:%Y-%m-%d}",
             int(random.random() < 0.07))
        )  # fmt: skip
    idle = {random.randrange(1, len(pubs) + 1) for _ in range(4)}
    buyers = [p[0] for p in pubs if p[0] not in idle]
    weights = [random.choice((1, 2, 3, 6)) for _ in buyers]
    orders = sorted(
        datetime(2024, 1, 2, 7) + timedelta(minutes=15 * random.randrange(4 * 24 * 533)) for _ in range(2600)
    )
    deliveries = []
    for n, ordered in enumerate(orders, 1):
        on_sale = [
            b for b in BEERS if b[6] <= f"{ordered:%Y-%m-%d}" and not (b[7] and b[7] < f"{ordered:%Y-%m-%d}")
        ]
        beer = random.choices(on_sale, [5 if b[0] in ("HEL", "PIL", "HRN", "GLD") else 1 for b in on_sale])[0]
        arrived = (ordered + timedelta(days=random.randrange(1, 6))).replace(
            hour=random.randrange(7, 17), minute=random.choice((5, 20, 35, 50))
        )
        here = arrived < TODAY and random.random() < 0.99
        litres = random.choice((20, 30, 30, 50, 50))
        paid = here and random.random() < (0.97 if ordered < datetime(2025, 4, 1) else 0.55)
        kegs = random.choice((1, 2, 2, 3, 4, 4, 6, 8, 12))
        deliveries.append(
            (n, f"D{n * 3 + 20000}", random.choices(buyers, weights)[0], beer[0], moment(ordered),
             moment(arrived) if here else None, kegs, litres, round(litres * (2.1 + beer[3] * 0.18), 2),
             "Y" if paid else "N", random.randrange(0, kegs + 1) if here and random.random() < 0.7 else None)
        )  # fmt: skip
    return {
        "batch_state": list(STATES), "staff": list(STAFF), "beer": [(*b[:5], bool(b[5]), *b[6:]) for b in BEERS],
        "tank": tanks, "batch": batches, "pub": [(*p[:7], bool(p[7])) for p in pubs], "delivery": deliveries,
    }  # fmt: skip


QUESTIONS = (
    ("how many kegs did we deliver last month?",
     "SELECT sum(kegs) FROM delivery WHERE delivered_at >= '2025-05-01' AND delivered_at < '2025-06-01'"),
    ("Which batches are still fermenting?",
     "SELECT batch_no FROM batch JOIN batch_state ON state = code WHERE label = 'fermenting'"),
    ("unpaid deliveries, how many", "SELECT count(*) FROM delivery WHERE paid = 'N'"),
    ("How many batches have we brewed so far this year?",
     "SELECT count(*) FROM batch WHERE brewed_at >= '2025-01-01' AND brewed_at < '2026-01-01'"),
    ("what's our strongest beer", "SELECT name FROM beer ORDER BY abv DESC LIMIT 1"),
    ("beers without an IBU value", "SELECT name FROM beer WHERE ibu IS NULL"),
    ("List all seasonal beers.", "SELECT name FROM beer WHERE seasonal = 1"),
    ("Which beers have been discontinued?", "SELECT name FROM beer WHERE discontinued_on IS NOT NULL"),
    ("who is the manager of Nadia Koren?",
     "SELECT m.full_name FROM staff s JOIN staff m ON m.id = s.manager_id WHERE s.full_name = 'Nadia Koren'"),
    ("Who reports to Bea Castell?",
     "SELECT s.full_name FROM staff s JOIN staff m ON m.id = s.manager_id WHERE m.full_name = 'Bea Castell'"),
    ("who has no manager", "SELECT full_name FROM staff WHERE manager_id IS NULL"),
    ("How many people does each manager have?",
     "SELECT m.full_name, count(*) FROM staff s JOIN staff m ON m.id = s.manager_id GROUP BY m.id"),
    ("tanks bigger than 40 hl", "SELECT tank_no FROM tank WHERE capacity_hl > 40"),
    ("Which tank was cleaned longest ago?",
     "SELECT tank_no FROM tank WHERE last_cleaned_at IS NOT NULL ORDER BY last_cleaned_at LIMIT 1"),
    ("When was tank 7 last cleaned?", "SELECT last_cleaned_at FROM tank WHERE tank_no = 7"),
    ("average tasting score per beer",
     "SELECT name, avg(tasting_score) FROM batch JOIN beer USING (beer_code) GROUP BY beer_code"),
    ("how many packaged batches have no tasting score?",
     "SELECT count(*) FROM batch JOIN batch_state ON state = code WHERE label = 'packaged' AND tasting_score IS NULL"),
    ("Which batches did we dump?", "SELECT batch_no FROM batch JOIN batch_state ON state = code WHERE label = 'dumped'"),
    ("Which batch brewed this year has the best tasting score?",
     "SELECT batch_no FROM batch WHERE brewed_at >= '2025-01-01' AND brewed_at < '2026-01-01' "
     "ORDER BY tasting_score DESC LIMIT 1"),
    ("hl brewed per style in 2024",
     "SELECT style, sum(volume_hl) FROM batch JOIN beer USING (beer_code) "
     "WHERE brewed_at >= '2024-01-01' AND brewed_at < '2025-01-01' GROUP BY style"),
    ("customers in Ashford", "SELECT name FROM pub WHERE town = 'Ashford'"),
    ("pubs with no phone number in Carrow?", "SELECT name FROM pub WHERE phone IS NULL AND town = 'Carrow'"),
    ("How many of our customers have no sales rep assigned?", "SELECT count(*) FROM pub WHERE rep_id IS NULL"),
    ("how many pubs, restaurants and shops do we supply - number for each kind please",
     "SELECT kind, count(*) FROM pub GROUP BY kind"),
    ("Which customers have never had a delivery from us? Name and town please.",
     "SELECT name, town FROM pub WHERE id NOT IN (SELECT pub_id FROM delivery)"),
    ("top 5 towns by kegs ordered in 2024",
     "SELECT town FROM delivery JOIN pub ON pub.id = pub_id WHERE ordered_at >= '2024-01-01' "
     "AND ordered_at < '2025-01-01' GROUP BY town ORDER BY sum(kegs) DESC LIMIT 5"),
    ("Dear colleague, I would like to know how much turnover (kegs times price per keg) we made with the deliveries "
     "delivered in April 2025.",
     "SELECT sum(kegs * keg_price) FROM delivery WHERE delivered_at >= '2025-04-01' AND delivered_at < '2025-05-01'"),
    ("how many kegs of Heron IPA went to The Fox in Ashford?",
     "SELECT sum(kegs) FROM delivery JOIN pub ON pub.id = pub_id JOIN beer USING (beer_code) "
     "WHERE beer.name = 'Heron IPA' AND pub.name = 'The Fox' AND town = 'Ashford' AND delivered_at IS NOT NULL"),
    ("deliveries that were ordered but haven't been delivered yet",
     "SELECT delivery_no FROM delivery WHERE delivered_at IS NULL"),
    ("when was D26000 delivered", "SELECT delivered_at FROM delivery WHERE delivery_no = 'D26000'"),
    ("Which batch did the yeast for B25-012 come from?",
     "SELECT y.batch_no FROM batch b JOIN batch y ON y.id = b.yeast_from_batch_id WHERE b.batch_no = 'B25-012'"),
    ("how many batches were brewed with fresh yeast, so not with yeast from another batch",
     "SELECT count(*) FROM batch WHERE yeast_from_batch_id IS NULL"),
    ("Who has brewed the most batches?",
     "SELECT full_name FROM batch JOIN staff ON staff.id = brewer_id GROUP BY staff.id ORDER BY count(*) DESC LIMIT 1"),
    ("batches Thomas Hall brewed in March",
     "SELECT batch_no FROM batch JOIN staff ON staff.id = brewer_id WHERE full_name = 'Thomas Hall' "
     "AND brewed_at >= '2025-03-01' AND brewed_at < '2025-04-01'"),
    ("Which employees have left?", "SELECT full_name FROM staff WHERE left_on IS NOT NULL"),
    ("highest hourly rate?", "SELECT max(hourly_rate) FROM staff"),
    ("staff who started after 2020", "SELECT full_name FROM staff WHERE started_on > '2020-12-31'"),
    ("Which beers that are not discontinued have not been brewed this year?",
     "SELECT name FROM beer WHERE discontinued_on IS NULL AND beer_code NOT IN "
     "(SELECT beer_code FROM batch WHERE brewed_at >= '2025-01-01' AND brewed_at < '2026-01-01')"),
    ("which pubs are on hold?", "SELECT name FROM pub WHERE on_hold = 1"),
    ("how many 50 litre kegs did we deliver last week",
     "SELECT sum(kegs) FROM delivery WHERE keg_litres = 50 "
     "AND delivered_at >= '2025-06-09' AND delivered_at < '2025-06-16'"),
    ("average number of days from brewing to packaging",
     "SELECT avg(julianday(packaged_at) - julianday(brewed_at)) FROM batch WHERE packaged_at IS NOT NULL"),
    ("how many orders came in yesterday?",
     "SELECT count(*) FROM delivery WHERE ordered_at >= '2025-06-17' AND ordered_at < '2025-06-18'"),
    ("batches with an OG above 1.080", "SELECT batch_no FROM batch WHERE og > 1.08"),
    ("How many deliveries in 2025 have no empties recorded?",
     "SELECT count(*) FROM delivery WHERE empties_back IS NULL "
     "AND delivered_at >= '2025-01-01' AND delivered_at < '2026-01-01'"),
    ("Does Little Heron have more alcohol than 1 percent? just give me its abv",
     "SELECT abv FROM beer WHERE name = 'Little Heron'"),
    ("Which hops are in Golden Heron?", None),
    ("how much malt is left in the store", None),
    ("What did Coalhouse Stout cost us to make last year?", None),
    ("which driver delivered D26000", None),
    ("How many complaints did we get about Cloud Wheat?", None),
    ("email address of The Plough in Ashby?", None),
    ("what temperature is tank 3 at", None),
    ("Which festivals will we attend this summer?", None),
)  # fmt: skip

ALTERNATIVES = {
    "unpaid deliveries, how many": (
        "SELECT count(*) FROM delivery WHERE paid = 'N' AND delivered_at IS NOT NULL",
    ),
    "average tasting score per beer": (
        "SELECT beer_code, avg(tasting_score) FROM batch GROUP BY beer_code",
        "SELECT name, avg(tasting_score) FROM batch JOIN beer USING (beer_code) "
        "WHERE tasting_score IS NOT NULL GROUP BY beer_code",
    ),
    "How many people does each manager have?": (
        "SELECT m.full_name, count(*) FROM staff s JOIN staff m ON m.id = s.manager_id "
        "WHERE s.left_on IS NULL GROUP BY m.id",
    ),
    "tanks bigger than 40 hl": ("SELECT count(*) FROM tank WHERE capacity_hl > 40",),
    "Which tank was cleaned longest ago?": ("SELECT tank_no FROM tank ORDER BY last_cleaned_at LIMIT 1",),
    "pubs with no phone number in Carrow?": (
        "SELECT name FROM pub WHERE phone IS NULL AND town = 'Carrow' AND kind = 'pub'",
    ),
    "how many kegs of Heron IPA went to The Fox in Ashford?": (
        "SELECT sum(kegs) FROM delivery JOIN pub ON pub.id = pub_id JOIN beer USING (beer_code) "
        "WHERE beer.name = 'Heron IPA' AND pub.name = 'The Fox' AND town = 'Ashford'",
    ),
    "deliveries that were ordered but haven't been delivered yet": (
        "SELECT count(*) FROM delivery WHERE delivered_at IS NULL",
    ),
    "which pubs are on hold?": ("SELECT name FROM pub WHERE on_hold = 1 AND kind = 'pub'",),
    "how many 50 litre kegs did we deliver last week": (
        "SELECT sum(kegs) FROM delivery WHERE keg_litres = 50 "
        "AND delivered_at >= '2025-06-11' AND delivered_at < '2025-06-18'",
    ),
    "highest hourly rate?": ("SELECT max(hourly_rate) FROM staff WHERE left_on IS NULL",),
    "How many deliveries in 2025 have no empties recorded?": (
        "SELECT count(*) FROM delivery WHERE empties_back IS NULL "
        "AND ordered_at >= '2025-01-01' AND ordered_at < '2026-01-01'",
    ),
    "staff who started after 2020": (
        "SELECT full_name FROM staff WHERE started_on > '2020-12-31' AND left_on IS NULL",
    ),
    "customers in Ashford": ("SELECT count(*) FROM pub WHERE town = 'Ashford'",),
}

BREWERY = Part("brewery", SCRIPT, rows, QUESTIONS, ALTERNATIVES)

"""A museum: artists, objects, exhibitions, loans, guides, tours and tickets."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE artist (
    id INTEGER PRIMARY KEY,
    name VARCHAR(60) NOT NULL,
    country VARCHAR(30),
    birth_year INTEGER NOT NULL,
    death_year INTEGER
);
CREATE TABLE room (
    id INTEGER PRIMARY KEY,
    code VARCHAR(4) NOT NULL,
    title VARCHAR(40) NOT NULL,
    floor INTEGER NOT NULL,
    climate_controlled BOOLEAN NOT NULL,
    open_to_public BOOLEAN NOT NULL
);
CREATE TABLE artwork (
    id INTEGER PRIMARY KEY,
    inventory_no VARCHAR(12) NOT NULL,
    title VARCHAR(60) NOT NULL,
    artist_id INTEGER REFERENCES artist (id),
    room_id INTEGER REFERENCES room (id),
    kind VARCHAR(20) NOT NULL,
    year_made INTEGER,
    insured_value NUMERIC(12,2),
    acquired_on DATE NOT NULL,
    acquisition VARCHAR(15) NOT NULL,
    restored CHAR(1) NOT NULL,
    last_inspected_on DATE
);
CREATE TABLE exhibition (
    id INTEGER PRIMARY KEY,
    title VARCHAR(60) NOT NULL,
    starts_on DATE NOT NULL,
    ends_on DATE,
    curator VARCHAR(40) NOT NULL,
    budget NUMERIC(10,2)
);
CREATE TABLE loan (
    id INTEGER PRIMARY KEY,
    artwork_id INTEGER NOT NULL REFERENCES artwork (id),
    borrower VARCHAR(50) NOT NULL,
    lent_on DATE NOT NULL,
    due_on DATE NOT NULL,
    returned_on DATE,
    fee NUMERIC(10,2)
);
CREATE TABLE ticket (
    id INTEGER PRIMARY KEY,
    exhibition_id INTEGER REFERENCES exhibition (id),
    sold_at TIMESTAMP NOT NULL,
    category VARCHAR(12) NOT NULL,
    price NUMERIC(6,2) NOT NULL,
    online INTEGER NOT NULL,
    refunded_at TIMESTAMP
);
"""

ARTISTS = [
    ("Elsa Brandt", "Germany", 1871, 1944),
    ("Tomas Rivera", "Spain", 1902, 1979),
    ("Marie Duval", "France", 1888, 1961),
    ("Jean Duval", "France", 1915, 1990),
    ("Aiko Mori", "Japan", 1949, None),
    ("Samuel Okoro", "Nigeria", 1963, None),
    ("Clara Lind", "Sweden", 1930, 2011),
    ("Lucas van Dam", "Netherlands", 1642, 1698),
    ("Pieter van Dam", "Netherlands", 1670, 1733),
    ("Rosa Bianchi", "Italy", 1979, None),
    ("Henri Petit", "France", 1845, 1912),
    ("Master of the Blue Hand", None, 1460, 1520),
    ("Nadia Karim", "Morocco", 1985, None),
    ("Greta Holm", "Sweden", 1955, None),
]
ROOMS = [
    ("001", "Entrance Hall", 0, False, True),
    ("007", "Dutch Room", 1, True, True),
    ("010", "French Room", 1, True, True),
    ("012", "Print Cabinet", 2, True, True),
    ("014", "Long Gallery", 2, False, True),
    ("021", "Depot North", -1, True, False),
    ("022", "Depot South", -1, False, False),
    ("030", "Sculpture Court", 0, False, True),
]
EXHIBITIONS = [
    ("Northern Light", "2023-09-15", "2024-01-14", "Ada Novak", "85000.00"),
    ("Masters on Paper", "2024-02-01", "2024-05-26", "Jon Ferris", "42000.00"),
    ("Colour and Salt", "2024-06-20", "2024-10-06", "Ada Novak", "120000.00"),
    ("Stone Voices", "2024-11-08", "2025-03-02", "Mira Solis", None),
    ("Paris by Night", "2025-03-21", "2025-08-31", "Jon Ferris", "150000.00"),
    ("Hidden Depot", "2025-05-02", None, "Ada Novak", "15000.00"),
    ("Winter Prints", "2025-11-14", "2026-02-01", "Jon Ferris", "38000.00"),
]
ADJECTIVES = ["Blue", "Silent", "Broken", "Golden", "Small", "Distant", "White", "Last", "Burning", "Hollow"]
NOUNS = [
    "River",
    "Garden",
    "Harbour",
    "Mirror",
    "Field",
    "Portrait",
    "Chair",
    "Bridge",
    "Orchard",
    "Window",
    "Horse",
]
BORROWERS = [
    "City Gallery Graz",
    "Musee du Lac",
    "Kunsthalle Bremen",
    "National Museum Oslo",
    "Lakeside Arts Centre",
]


def rows() -> Rows:
    """The rows of all tables."""
    rng = random.Random(1618)
    artworks = []
    for number in range(1, 421):
        artist = None if rng.random() < 0.08 else rng.randrange(1, 14)
        year = None
        if artist is not None and rng.random() < 0.85:
            born, died = ARTISTS[artist - 1][2], ARTISTS[artist - 1][3] or 2022
            year = rng.randrange(born + 20, died + 1)
        acquired = date(1985, 1, 1) + timedelta(days=rng.randrange(14700))
        room = None if rng.random() < 0.1 else rng.randrange(1, 8)
        value = None if rng.random() < 0.12 else f"{rng.randrange(4, 9000) * 100 + number}.00"
        inspected = (
            None
            if rng.random() < 0.2
            else (date(2019, 1, 1) + timedelta(days=rng.randrange(2350))).isoformat()
        )
        artworks.append(
            (
                number,
                f"{rng.randrange(1985, 2025)}.{number:04d}",
                f"{rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}",
                artist,
                room,
                rng.choices(
                    ["painting", "print", "sculpture", "photograph", "drawing"], weights=[40, 22, 14, 10, 14]
                )[0],
                year,
                value,
                acquired.isoformat(),
                rng.choices(["gift", "purchase", "bequest"], weights=[35, 50, 15])[0],
                rng.choices("YN", weights=[3, 7])[0],
                inspected,
            )
        )
    loans = []
    for number in range(1, 161):
        lent = date(2020, 1, 1) + timedelta(days=rng.randrange(1980))
        due = lent + timedelta(days=rng.randrange(60, 300))
        returned: date | None = due + timedelta(days=rng.randrange(-30, 20))
        if returned is not None and returned > date(2025, 6, 17):
            returned = None
        fee = None if rng.random() < 0.25 else f"{rng.randrange(5, 120) * 50}.00"
        loans.append(
            (
                number,
                rng.randrange(1, 421),
                rng.choices(BORROWERS, weights=[5, 4, 3, 6, 2])[0],
                lent.isoformat(),
                due.isoformat(),
                returned.isoformat() if returned else None,
                fee,
            )
        )
    tickets = []
    prices = {"adult": "14.00", "reduced": "9.00", "child": "4.50", "group": "11.00"}
    for number in range(1, 5001):
        day = date(2023, 9, 15) + timedelta(days=rng.randrange(642))
        sold = datetime(day.year, day.month, day.day, rng.randrange(9, 18), rng.randrange(60))
        running = [
            index
            for index, row in enumerate(EXHIBITIONS, 1)
            if row[1] <= day.isoformat() <= (row[2] or "2099")
        ]
        exhibition = rng.choice(running) if running and rng.random() < 0.8 else None
        category = rng.choices(["adult", "reduced", "child", "group"], weights=[55, 20, 15, 10])[0]
        refunded = (
            (sold + timedelta(hours=rng.randrange(1, 200))).isoformat(" ") if rng.random() < 0.02 else None
        )
        tickets.append(
            (
                number,
                exhibition,
                sold.isoformat(" "),
                category,
                prices[category],
                int(rng.random() < 0.4),
                refunded,
            )
        )
    return {
        "artist": [(number, *row) for number, row in enumerate(ARTISTS, 1)],
        "room": [(number, *row) for number, row in enumerate(ROOMS, 1)],
        "artwork": list(artworks),
        "exhibition": [(number, *row) for number, row in enumerate(EXHIBITIONS, 1)],
        "loan": list(loans),
        "ticket": list(tickets),
    }


QUESTIONS: tuple[tuple[str, str | None], ...] = (
    ("How many artworks does the museum own?", "SELECT COUNT(*) FROM artwork"),
    ("How many of our artworks are sculptures?", "SELECT COUNT(*) FROM artwork WHERE kind = 'sculpture'"),
    (
        "How many paintings were acquired in 2019?",
        "SELECT COUNT(*) FROM artwork WHERE kind = 'painting' AND acquired_on >= '2019-01-01' "
        "AND acquired_on < '2020-01-01'",
    ),
    ("Which artists are from France?", "SELECT name FROM artist WHERE country = 'France'"),
    ("Which artists are still alive?", "SELECT name FROM artist WHERE death_year IS NULL"),
    ("Which artists were born before 1700?", "SELECT name FROM artist WHERE birth_year < 1700"),
    (
        "How many works by Jean Duval do we have?",
        "SELECT COUNT(*) FROM artwork w JOIN artist a ON a.id = w.artist_id WHERE a.name = 'Jean Duval'",
    ),
    ("How many works by Peter van Dam do we have?", None),
    (
        "Which artist is represented with the most artworks?",
        "SELECT a.name FROM artist a JOIN artwork w ON w.artist_id = a.id "
        "GROUP BY a.id, a.name ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    (
        "Which artists have no artwork in the collection?",
        "SELECT name FROM artist WHERE id NOT IN (SELECT artist_id FROM artwork WHERE artist_id IS NOT NULL)",
    ),
    ("How many artworks have an unknown artist?", "SELECT COUNT(*) FROM artwork WHERE artist_id IS NULL"),
    (
        "What is the most valuable artwork?",
        "SELECT title FROM artwork WHERE insured_value IS NOT NULL ORDER BY insured_value DESC LIMIT 1",
    ),
    (
        "What is the total insured value of all prints?",
        "SELECT SUM(insured_value) FROM artwork WHERE kind = 'print'",
    ),
    (
        "How many artworks are insured for more than 500,000?",
        "SELECT COUNT(*) FROM artwork WHERE insured_value > 500000",
    ),
    ("How many artworks are not insured?", "SELECT COUNT(*) FROM artwork WHERE insured_value IS NULL"),
    (
        "How many drawings have been restored?",
        "SELECT COUNT(*) FROM artwork WHERE kind = 'drawing' AND restored = 'Y'",
    ),
    (
        "How many unrestored photographs are there?",
        "SELECT COUNT(*) FROM artwork WHERE kind = 'photograph' AND restored = 'N'",
    ),
    (
        "How many artworks have never been inspected?",
        "SELECT COUNT(*) FROM artwork WHERE last_inspected_on IS NULL",
    ),
    (
        "How many artworks were last inspected before 2021?",
        "SELECT COUNT(*) FROM artwork WHERE last_inspected_on < '2021-01-01'",
    ),
    ("Number of artworks by kind", "SELECT kind, COUNT(*) FROM artwork GROUP BY kind"),
    ("Is the museum making a profit?", None),
    (
        "How many artworks did we buy since 2015?",
        "SELECT COUNT(*) FROM artwork WHERE acquisition = 'purchase' AND acquired_on >= '2015-01-01'",
    ),
    (
        "How many artworks hang in the Dutch Room?",
        "SELECT COUNT(*) FROM artwork w JOIN room r ON r.id = w.room_id WHERE r.title = 'Dutch Room'",
    ),
    ("What is the title of room 007?", "SELECT title FROM room WHERE code = '007'"),
    ("Which rooms are not open to the public?", "SELECT title FROM room WHERE NOT open_to_public"),
    (
        "Which public rooms on floor 1 are climate controlled?",
        "SELECT title FROM room WHERE open_to_public AND floor = 1 AND climate_controlled",
    ),
    (
        "Which rooms are empty?",
        "SELECT title FROM room WHERE id NOT IN (SELECT room_id FROM artwork WHERE room_id IS NOT NULL)",
    ),
    (
        "Average insured value per room",
        "SELECT r.title, AVG(w.insured_value) FROM room r JOIN artwork w ON w.room_id = r.id GROUP BY r.title",
    ),
    ("Which exhibitions did Ada Novak curate?", "SELECT title FROM exhibition WHERE curator = 'Ada Novak'"),
    (
        "Which exhibitions are running today?",
        "SELECT title FROM exhibition WHERE starts_on <= '2025-06-18' AND (ends_on IS NULL OR ends_on >= '2025-06-18')",
    ),
    ("When does Paris by Night end?", "SELECT ends_on FROM exhibition WHERE title = 'Paris by Night'"),
    (
        "Which exhibition had the lowest budget?",
        "SELECT title FROM exhibition WHERE budget IS NOT NULL ORDER BY budget LIMIT 1",
    ),
    ("Which exhibitions have no end date?", "SELECT title FROM exhibition WHERE ends_on IS NULL"),
    (
        "How many tickets were sold for Stone Voices?",
        "SELECT COUNT(*) FROM ticket t JOIN exhibition e ON e.id = t.exhibition_id WHERE e.title = 'Stone Voices'",
    ),
    (
        "Ticket revenue per exhibition",
        "SELECT e.title, SUM(t.price) FROM exhibition e JOIN ticket t ON t.exhibition_id = e.id GROUP BY e.title",
    ),
    (
        "How many child tickets did we sell yesterday?",
        "SELECT COUNT(*) FROM ticket WHERE category = 'child' AND sold_at >= '2025-06-17' AND sold_at < '2025-06-18'",
    ),
    (
        "How many adult tickets were sold online in 2024?",
        "SELECT COUNT(*) FROM ticket WHERE category = 'adult' AND online = 1 "
        "AND sold_at >= '2024-01-01' AND sold_at < '2025-01-01'",
    ),
    ("How many tickets were refunded?", "SELECT COUNT(*) FROM ticket WHERE refunded_at IS NOT NULL"),
    ("What share of tickets is sold online?", None),
    (
        "How much money did we make with group tickets this year?",
        "SELECT SUM(price) FROM ticket WHERE category = 'group' AND sold_at >= '2025-01-01' AND sold_at < '2026-01-01'",
    ),
    (
        "How many artworks are currently on loan?",
        "SELECT COUNT(DISTINCT artwork_id) FROM loan WHERE returned_on IS NULL",
    ),
    (
        "How many loans are overdue?",
        "SELECT COUNT(*) FROM loan WHERE returned_on IS NULL AND due_on < '2025-06-18'",
    ),
    (
        "How many loans did the National Museum Oslo have?",
        "SELECT COUNT(*) FROM loan WHERE borrower = 'National Museum Oslo'",
    ),
    (
        "Which borrower paid the most fees?",
        "SELECT borrower FROM loan GROUP BY borrower ORDER BY SUM(fee) DESC LIMIT 1",
    ),
    ("How many loans have no fee?", "SELECT COUNT(*) FROM loan WHERE fee IS NULL"),
    (
        "How many artworks were never lent?",
        "SELECT COUNT(*) FROM artwork WHERE id NOT IN (SELECT artwork_id FROM loan)",
    ),
    ("How many visitors came from abroad?", None),
    ("Who is the director of the museum?", None),
)

MUSEUM = Part("museum", SCRIPT, rows, QUESTIONS)

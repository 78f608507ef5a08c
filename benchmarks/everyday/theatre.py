"""A theatre: plays, performances, patrons, bookings and donations. These questions shaped no rule."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE plays (
  play_id INTEGER PRIMARY KEY, title VARCHAR(60) NOT NULL, author VARCHAR(60) NOT NULL, genre VARCHAR(20) NOT NULL,
  minutes INTEGER NOT NULL, premiered_on DATE NOT NULL, for_children BOOLEAN NOT NULL);
CREATE TABLE performances (
  performance_id INTEGER PRIMARY KEY, play_id INTEGER NOT NULL REFERENCES plays(play_id), starts_at TIMESTAMP NOT NULL,
  hall VARCHAR(20) NOT NULL, sold_out CHAR(1) NOT NULL, cancelled_on DATE);
CREATE TABLE patrons (
  patron_id INTEGER PRIMARY KEY, first_name VARCHAR(40) NOT NULL, last_name VARCHAR(40) NOT NULL, town VARCHAR(40) NOT NULL,
  email VARCHAR(80), date_of_birth DATE, subscriber BOOLEAN NOT NULL);
CREATE TABLE bookings (
  booking_id INTEGER PRIMARY KEY, booking_ref VARCHAR(10) NOT NULL, patron_id INTEGER NOT NULL REFERENCES patrons(patron_id),
  performance_id INTEGER NOT NULL REFERENCES performances(performance_id), booked_at TIMESTAMP NOT NULL,
  seats INTEGER NOT NULL, price NUMERIC(8, 2) NOT NULL, refunded_on DATE, channel VARCHAR(20) NOT NULL);
CREATE TABLE donations (
  donation_id INTEGER PRIMARY KEY, patron_id INTEGER NOT NULL REFERENCES patrons(patron_id), given_on DATE NOT NULL,
  amount NUMERIC(8, 2) NOT NULL, anonymous BOOLEAN NOT NULL);
"""

FIRST = """
    Amelie Bastian Corinne Dunja Elias Flora Gilles Helga Ilse Joris Katja Lorenz Mireille Norbert Oona Pascal
""".split()  # noqa: SIM905
LAST = """
    Ackermann Boucher Claes Dekker Evers Frisch Goossens Hertz Imhof Jacobs Kessler Leroy Maas Neumann
""".split()  # noqa: SIM905
TITLES = """
    The Glass Orchard|Winter Letters|A House of Salt|The Clockmaker|Seven Doors|Night Ferry|The Paper King|Low Tide|
    Lanterns|The Quiet Guest|Marble Dust|The Last Tram
""".replace("\n", "").split("|")
AUTHORS = ("Vera Stahl", "Tomas Reyes", "Ingrid Voss", "Cormac Daly")


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(71)
    plays = [
        (n, title.strip(), AUTHORS[n % 4], ("comedy", "drama", "musical")[n % 3], 60 + 7 * n,
         f"{2019 + n % 6}-{1 + n % 12:02d}-15", n % 5 == 0)
        for n, title in enumerate(TITLES, 1)
    ]  # fmt: skip
    performances = []
    for n in range(1, 901):
        at = datetime(2023, 1, 5, 19, 30) + timedelta(days=random.randrange(950))
        cancelled = f"{at - timedelta(days=3):%Y-%m-%d}" if random.random() < 0.06 else None
        performances.append(
            (n, random.randrange(1, 12), f"{at:%Y-%m-%d %H:%M:%S}", random.choice(("Main Stage", "Studio", "Cellar")),
             "Y" if random.random() < 0.3 else "N", cancelled)
        )  # fmt: skip
    patrons = [
        (n, random.choice(FIRST), random.choice(LAST), random.choice(("Antwerp", "Bruges", "Leuven", "Mons")),
         f"patron{n}@stage.example" if random.random() < 0.8 else None,
         f"{datetime(1940, 1, 1) + timedelta(days=random.randrange(25_000)):%Y-%m-%d}"
         if random.random() < 0.9 else None,
         random.random() < 0.25)
        for n in range(1, 1501)
    ]  # fmt: skip
    patrons.append((1501, "Xenia", "Ypsilanti", "Mons", "xenia@stage.example", "1971-07-07", True))
    bookings = []
    for n in range(1, 20_001):
        at = datetime(2023, 1, 1, 9) + timedelta(minutes=random.randrange(60 * 24 * 898))
        refunded = f"{at + timedelta(days=9):%Y-%m-%d}" if random.random() < 0.04 else None
        bookings.append(
            (n, f"BX{n * 17 + 40_000:07d}", random.randrange(1, 1502), random.randrange(1, 901),
             f"{at:%Y-%m-%d %H:%M:%S}", random.randrange(1, 7), round(random.uniform(12, 290), 2), refunded,
             random.choice(("web", "web", "phone", "box office")))
        )  # fmt: skip
    donations = [
        (n, random.randrange(1, 1502),
         f"{datetime(2022, 1, 1) + timedelta(days=random.randrange(1260)):%Y-%m-%d}",
         round(random.uniform(5, 5000), 2), random.random() < 0.2)
        for n in range(1, 801)
    ]  # fmt: skip
    return {
        "plays": plays, "performances": performances, "patrons": patrons, "bookings": bookings, "donations": donations,
    }  # fmt: skip


QUESTIONS = (
    ("How many patrons are there?", "SELECT count(*) FROM patrons"),
    ("How many patrons live in Leuven?", "SELECT count(*) FROM patrons WHERE town = 'Leuven'"),
    ("How many patrons are subscribers?", "SELECT count(*) FROM patrons WHERE subscriber = 1"),
    ("How many patrons have no email?", "SELECT count(*) FROM patrons WHERE email IS NULL"),
    ("How many patrons are under 30 years old?", "SELECT count(*) FROM patrons WHERE date_of_birth > '1995-06-18'"),
    ("Which plays are comedies?", "SELECT title FROM plays WHERE genre = 'comedy'"),
    ("Which plays are for children?", "SELECT title FROM plays WHERE for_children = 1"),
    ("Who is the author of 'Night Ferry'?", "SELECT author FROM plays WHERE title = 'Night Ferry'"),
    ("Which plays were written by Ingrid Voss?", "SELECT title FROM plays WHERE author = 'Ingrid Voss'"),
    ("What is the longest play?", "SELECT title FROM plays ORDER BY minutes DESC LIMIT 1"),
    ("How many plays are there in each genre?", "SELECT genre, count(*) FROM plays GROUP BY genre"),
    ("Which plays premiered after 2022?", "SELECT title FROM plays WHERE premiered_on > '2022-12-31'"),
    ("How many performances are sold out?", "SELECT count(*) FROM performances WHERE sold_out = 'Y'"),
    ("How many performances were cancelled?", "SELECT count(*) FROM performances WHERE cancelled_on IS NOT NULL"),
    ("How many performances took place in the Studio?", "SELECT count(*) FROM performances WHERE hall = 'Studio'"),
    ("How many performances start today?",
     "SELECT count(*) FROM performances WHERE starts_at >= '2025-06-18' AND starts_at < '2025-06-19'"),
    ("How many performances did each play have?",
     "SELECT title, count(*) FROM performances JOIN plays USING (play_id) GROUP BY play_id"),
    ("Which plays have no performances?",
     "SELECT title FROM plays WHERE play_id NOT IN (SELECT play_id FROM performances)"),
    ("What is the price of booking BX0043400?", "SELECT price FROM bookings WHERE booking_ref = 'BX0043400'"),
    ("What is the price of booking BX0043401?", "SELECT price FROM bookings WHERE booking_ref = 'BX0043401'"),
    ("How many seats has booking 'BX0200004'?", "SELECT seats FROM bookings WHERE booking_ref = 'BX0200004'"),
    ("How many bookings were made by phone?", "SELECT count(*) FROM bookings WHERE channel = 'phone'"),
    ("How many bookings were refunded?", "SELECT count(*) FROM bookings WHERE refunded_on IS NOT NULL"),
    ("How many bookings were refunded in 2024?",
     "SELECT count(*) FROM bookings WHERE refunded_on >= '2024-01-01' AND refunded_on < '2025-01-01'"),
    ("How many bookings were made yesterday?",
     "SELECT count(*) FROM bookings WHERE booked_at >= '2025-06-17' AND booked_at < '2025-06-18'"),
    ("What is the total price of bookings in May 2025?",
     "SELECT sum(price) FROM bookings WHERE booked_at >= '2025-05-01' AND booked_at < '2025-06-01'"),
    ("What is the average price of bookings through the web?", "SELECT avg(price) FROM bookings WHERE channel = 'web'"),
    ("How many bookings does Xenia Ypsilanti have?",
     "SELECT count(*) FROM bookings JOIN patrons USING (patron_id) "
     "WHERE first_name = 'Xenia' AND last_name = 'Ypsilanti'"),
    ("When was Xenia Ypsilanti born?",
     "SELECT date_of_birth FROM patrons WHERE first_name = 'Xenia' AND last_name = 'Ypsilanti'"),
    ("What is the total amount of donations since January 2025?",
     "SELECT sum(amount) FROM donations WHERE given_on >= '2025-01-01'"),
    ("What is the largest donation?", "SELECT max(amount) FROM donations"),
    ("How many donations were anonymous?", "SELECT count(*) FROM donations WHERE anonymous = 1"),
    ("How many donations are larger than 1000?", "SELECT count(*) FROM donations WHERE amount > 1000"),
    ("Who gave the most donations?",
     "SELECT first_name, last_name FROM donations JOIN patrons USING (patron_id) GROUP BY patron_id "
     "ORDER BY count(*) DESC LIMIT 1"),
    ("How many patrons have never made a booking?",
     "SELECT count(*) FROM patrons WHERE patron_id NOT IN (SELECT patron_id FROM bookings)"),
    ("Which patrons live in Namur?", "SELECT first_name, last_name FROM patrons WHERE town = 'Namur'"),
    ("What is the no-show rate?", None),
    ("Which play got the best reviews?", None),
    ("How many patrons are vegetarians?", None),
    ("What percentage of bookings was refunded?", None),
)  # fmt: skip

THEATRE = Part("theatre", SCRIPT, rows, QUESTIONS)

"""A bike rental: stations, bikes, riders, and 100,000 rides whose codes no sample holds."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE stations (
  station_id INTEGER PRIMARY KEY, code VARCHAR(8) NOT NULL, name VARCHAR(60) NOT NULL, district VARCHAR(40) NOT NULL,
  docks INTEGER NOT NULL, opened_on DATE NOT NULL, closed_on DATE);
CREATE TABLE bikes (
  bike_id INTEGER PRIMARY KEY, serial_number VARCHAR(20) NOT NULL, model VARCHAR(40) NOT NULL, electric BOOLEAN NOT NULL,
  bought_on DATE NOT NULL, price NUMERIC(8, 2) NOT NULL, home_station_id INTEGER REFERENCES stations(station_id));
CREATE TABLE riders (
  rider_id INTEGER PRIMARY KEY, first_name VARCHAR(40) NOT NULL, last_name VARCHAR(40) NOT NULL,
  email VARCHAR(80) NOT NULL, birth_date DATE NOT NULL, postal_code VARCHAR(5) NOT NULL, phone VARCHAR(20),
  is_member BOOLEAN NOT NULL, blocked CHAR(1) NOT NULL);
CREATE TABLE rides (
  ride_id INTEGER PRIMARY KEY, ride_code VARCHAR(12) NOT NULL, bike_id INTEGER NOT NULL REFERENCES bikes(bike_id),
  rider_id INTEGER NOT NULL REFERENCES riders(rider_id), start_station_id INTEGER NOT NULL REFERENCES stations(station_id),
  started_at TIMESTAMP NOT NULL, ended_at TIMESTAMP, distance_km NUMERIC(6, 2), fare NUMERIC(6, 2) NOT NULL,
  rating INTEGER);
"""

FIRST = """
    Aino Bartosz Chiara Dmitri Esther Farid Gwen Henrik Imani Jakub Kaito Leila Marek Noor Olga Priya Quentin Rosa
""".split()  # noqa: SIM905
LAST = """
    Aalto Bianchi Cohen Dahl Eriksen Fontaine Garcia Haddad Ivanova Jensen Kaplan Laine Mendes Nyberg Okafor
""".split()  # noqa: SIM905
DISTRICTS = ("Harbour", "Old Town", "Riverside", "University", "North Park")
MODELS = ("Swift", "Comet", "Cargo One", "Urban 3", "Trail")


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(23)
    stations = []
    for number in range(1, 41):
        opened = datetime(2019, 4, 1) + timedelta(days=random.randrange(1500))
        closed = f"{opened + timedelta(days=700):%Y-%m-%d}" if random.random() < 0.15 else None
        stations.append(
            (number, f"{number * 13:04d}", f"{random.choice(('Mill', 'Castle', 'Market', 'Station', 'Garden'))} Street "
             f"{number}", DISTRICTS[number % 5], random.randrange(8, 40), f"{opened:%Y-%m-%d}", closed)
        )  # fmt: skip
    bikes = [
        (n, f"BK-{n * 37:05d}", random.choice(MODELS), random.random() < 0.4,
         f"{datetime(2020, 1, 1) + timedelta(days=random.randrange(1900)):%Y-%m-%d}",
         round(random.uniform(300, 2600), 2), random.randrange(1, 41) if random.random() < 0.9 else None)
        for n in range(1, 601)
    ]  # fmt: skip
    riders = []
    for n in range(1, 3001):
        first, last = random.choice(FIRST), random.choice(LAST)
        born = datetime(1945, 1, 1) + timedelta(days=random.randrange(22_000))
        riders.append(
            (n, first, last, f"{first}.{last}.{n}@ride.example".lower(), f"{born:%Y-%m-%d}",
             f"{random.randrange(100, 99999):05d}",
             f"040-{random.randrange(10**6):06d}" if random.random() < 0.6 else None,
             random.random() < 0.55, "Y" if random.random() < 0.05 else "N")
        )  # fmt: skip
    riders.append((3001, "Zelda", "Quist", "zelda@ride.example", "1990-02-01", "00210", None, True, "N"))
    rides = []
    for n in range(1, 100_001):
        started = datetime(2024, 1, 1) + timedelta(minutes=random.randrange(60 * 24 * 534))
        ended = started + timedelta(minutes=random.randrange(3, 120)) if random.random() < 0.98 else None
        rides.append(
            (n, f"R{n * 7 + 1_000_000}", random.randrange(1, 601), random.randrange(1, 3002), random.randrange(1, 41),
             f"{started:%Y-%m-%d %H:%M:%S}", f"{ended:%Y-%m-%d %H:%M:%S}" if ended else None,
             round(random.uniform(0.3, 24), 2) if random.random() < 0.95 else None, round(random.uniform(1, 19), 2),
             random.randrange(1, 6) if random.random() < 0.3 else None)
        )  # fmt: skip
    return {"stations": stations, "bikes": bikes, "riders": riders, "rides": rides}


QUESTIONS = (
    ("How many rides are there?", "SELECT count(*) FROM rides"),
    ("What was the fare of ride R1234507?", "SELECT fare FROM rides WHERE ride_code = 'R1234507'"),
    ("When did ride R1420000 start?", "SELECT started_at FROM rides WHERE ride_code = 'R1420000'"),
    ("What is the distance of ride 'R9999999'?", "SELECT distance_km FROM rides WHERE ride_code = 'R9999999'"),
    ("Which model is the bike with serial number BK-07400?",
     "SELECT model FROM bikes WHERE serial_number = 'BK-07400'"),
    ("How many electric bikes do we have?", "SELECT count(*) FROM bikes WHERE electric = 1"),
    ("How many bikes are not electric?", "SELECT count(*) FROM bikes WHERE electric = 0"),
    ("How many riders are members?", "SELECT count(*) FROM riders WHERE is_member = 1"),
    ("How many riders are blocked?", "SELECT count(*) FROM riders WHERE blocked = 'Y'"),
    ("How many riders have no phone?", "SELECT count(*) FROM riders WHERE phone IS NULL"),
    ("Which riders have the postal code 00210?",
     "SELECT first_name, last_name FROM riders WHERE postal_code = '00210'"),
    ("What is the name of the station with code 0052?", "SELECT name FROM stations WHERE code = '0052'"),
    ("How many rides started yesterday?",
     "SELECT count(*) FROM rides WHERE started_at >= '2025-06-17' AND started_at < '2025-06-18'"),
    ("How many rides started in May 2025?",
     "SELECT count(*) FROM rides WHERE started_at >= '2025-05-01' AND started_at < '2025-06-01'"),
    ("How many rides started on 2024-12-24?",
     "SELECT count(*) FROM rides WHERE started_at >= '2024-12-24' AND started_at < '2024-12-25'"),
    ("What is the total fare of rides in the last 7 days?",
     "SELECT sum(fare) FROM rides WHERE started_at >= '2025-06-11' AND started_at < '2025-06-18'"),
    ("How many rides were there between 2025-01-01 and 2025-01-31?",
     "SELECT count(*) FROM rides WHERE started_at >= '2025-01-01' AND started_at < '2025-02-01'"),
    ("What is the average distance of rides in 2024?",
     "SELECT avg(distance_km) FROM rides WHERE started_at >= '2024-01-01' AND started_at < '2025-01-01'"),
    ("How many rides did Zelda Quist take?",
     "SELECT count(*) FROM rides JOIN riders USING (rider_id) WHERE first_name = 'Zelda' AND last_name = 'Quist'"),
    ("What is the email of Zelda Quist?",
     "SELECT email FROM riders WHERE first_name = 'Zelda' AND last_name = 'Quist'"),
    ("How many stations are there in each district?", "SELECT district, count(*) FROM stations GROUP BY district"),
    ("Which stations are in Old Town?", "SELECT name FROM stations WHERE district = 'Old Town'"),
    ("Which station has the most docks?", "SELECT name FROM stations ORDER BY docks DESC LIMIT 1"),
    ("What is the most expensive bike?", "SELECT serial_number FROM bikes ORDER BY price DESC LIMIT 1"),
    ("How many bikes of the model Comet are there?", "SELECT count(*) FROM bikes WHERE model = 'Comet'"),
    ("What is the average price of electric bikes?", "SELECT avg(price) FROM bikes WHERE electric = 1"),
    ("How many bikes cost more than 2000?", "SELECT count(*) FROM bikes WHERE price > 2000"),
    ("How many rides have no rating?", "SELECT count(*) FROM rides WHERE rating IS NULL"),
    ("What is the longest distance of a ride?", "SELECT max(distance_km) FROM rides"),
    ("How many rides ended in April 2025?",
     "SELECT count(*) FROM rides WHERE ended_at >= '2025-04-01' AND ended_at < '2025-05-01'"),
    ("How many riders are older than 65?", "SELECT count(*) FROM riders WHERE birth_date <= '1959-06-18'"),
    ("List the names of stations that were opened after 2022.",
     "SELECT name FROM stations WHERE opened_on > '2022-12-31'"),
    ("Which stations are closed?", "SELECT name FROM stations WHERE closed_on IS NOT NULL"),
    ("How many rides were taken with each bike model?",
     "SELECT model, count(*) FROM rides JOIN bikes USING (bike_id) GROUP BY model"),
    ("Which three stations have the most rides?",
     "SELECT name FROM rides JOIN stations ON start_station_id = station_id GROUP BY station_id "
     "ORDER BY count(*) DESC LIMIT 3"),
    ("What share of rides was taken by members?", None),
    ("Which rider caused the most accidents?", None),
    ("How did the number of rides develop over time?", None),
)  # fmt: skip

BIKES = Part("bikes", SCRIPT, rows, QUESTIONS)

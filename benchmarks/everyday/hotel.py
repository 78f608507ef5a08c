"""A chain of hotels: hotels, rooms, guests, bookings, payments, reviews, staff."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from itertools import product
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE hotels (
  hotel_id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT NOT NULL, country TEXT NOT NULL, stars INTEGER NOT NULL,
  opened_on DATE NOT NULL, has_pool TEXT NOT NULL);
CREATE TABLE rooms (
  room_id INTEGER PRIMARY KEY, hotel_id INTEGER NOT NULL, room_no TEXT NOT NULL, room_type TEXT NOT NULL,
  max_guests INTEGER NOT NULL, nightly_rate NUMERIC NOT NULL, smoking INTEGER NOT NULL);
CREATE TABLE guests (
  guest_id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL, email TEXT, phone TEXT,
  country TEXT NOT NULL, birth_date DATE, vip TEXT NOT NULL, created_at TIMESTAMP NOT NULL);
CREATE TABLE bookings (
  booking_id INTEGER PRIMARY KEY, booking_ref TEXT NOT NULL, guest_id INTEGER NOT NULL, room_id INTEGER NOT NULL,
  check_in DATE NOT NULL, check_out DATE NOT NULL, booked_at TIMESTAMP NOT NULL, status TEXT NOT NULL,
  channel TEXT NOT NULL, total_price NUMERIC NOT NULL, breakfast INTEGER NOT NULL);
CREATE TABLE payments (
  payment_id INTEGER PRIMARY KEY, booking_id INTEGER NOT NULL, paid_at TIMESTAMP NOT NULL, amount NUMERIC NOT NULL,
  method TEXT NOT NULL, refunded TEXT NOT NULL);
CREATE TABLE reviews (
  review_id INTEGER PRIMARY KEY, booking_id INTEGER NOT NULL, score INTEGER NOT NULL, comment TEXT,
  posted_at TIMESTAMP NOT NULL);
CREATE TABLE staff (
  staff_id INTEGER PRIMARY KEY, hotel_id INTEGER NOT NULL, first_name TEXT NOT NULL, last_name TEXT NOT NULL,
  role TEXT NOT NULL, hired_on DATE NOT NULL, left_on DATE, hourly_wage NUMERIC NOT NULL, manager_id INTEGER);
"""
HOTELS = (
    (1, "Grand Meridian", "Lisbon", "Portugal", 5, "1998-04-12", "Y"),
    (2, "Harbour View", "Porto", "Portugal", 4, "2006-09-01", "N"),
    (3, "Hotel Aurora", "Vienna", "Austria", 4, "2011-03-20", "Y"),
    (4, "The Old Mill", "Salzburg", "Austria", 3, "1987-06-15", "N"),
    (5, "Plaza Real", "Seville", "Spain", 5, "2015-11-05", "Y"),
    (6, "Casa Verde", "Valencia", "Spain", 3, "2019-02-28", "N"),
    (7, "Lakeside Inn", "Zurich", "Switzerland", 4, "2003-07-07", "Y"),
    (8, "Cloister House", "Faro", "Portugal", 3, "2021-05-30", "N"),
)
FIRST = ("Amelia", "Tomas", "Ivana", "Felix", "Greta", "Nuno", "Paola", "Stefan", "Lucia", "Marek", "Helena", "Diego",
         "Ines", "Viktor", "Carla", "Bruno", "Olga", "Rui", "Tessa", "Emil", "Zara", "Leon", "Petra", "Ivo", "Mara")  # fmt: skip
LAST = ("Novak", "Silva", "Keller", "Kovacs", "Moreno", "Fischer", "Costa", "Horvat", "Gruber", "Santos", "Weber", "Klein",
        "Romero", "Bauer", "Pinto", "Krause", "Ortega", "Huber", "Lima", "Steiner")  # fmt: skip
COUNTRIES = ("Germany", "France", "Italy", "Poland", "Brazil", "Ireland", "Austria", "Spain")
TYPES = (("single", 1, 80), ("double", 2, 130), ("family", 4, 190), ("suite", 5, 340))
COMMENTS = ("lovely stay", "noisy street", "friendly staff", "cold breakfast", "great view", "small bathroom")


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(90210)
    rooms = []
    for hotel, size in zip(HOTELS, (60, 42, 48, 18, 55, 22, 36, 15)):
        for k in range(size):
            kind, places, rate = TYPES[random.choice((0, 0, 1, 1, 1, 2, 3))]
            rooms.append((len(rooms) + 1, hotel[0], f"{k // 12 + 1}{k % 12 + 1:02d}", kind, places,
                          round(rate * (0.7 + hotel[4] * 0.12) + random.randrange(-15, 16), 2), int(random.random() < 0.12)))  # fmt: skip
    names = list(product(FIRST, LAST))
    random.shuffle(names)
    names = [n for n in names if n not in (("Amelia", "Novak"), ("Tomas", "Silva"))]
    births = random.sample(range(24000), 420)
    guests = []
    for n, (first, last) in enumerate([("Amelia", "Novak"), *names[:399]], 1):
        born = (date(1938, 1, 1) + timedelta(days=births[n])).isoformat() if n % 7 else None
        made = datetime(2021, 1, 1, 7) + timedelta(days=random.randrange(1600), minutes=random.randrange(900))
        guests.append((n, first, last, f"{first}.{last}{n}@mail.test".lower() if n == 1 or random.random() < 0.85 else None,
                       f"+49 30 {100000 + n * 7}" if random.random() < 0.6 else None,
                       random.choices(COUNTRIES, (9, 7, 6, 5, 4, 3, 2, 1))[0], born, "Y" if random.random() < 0.12 else "N",
                       made.isoformat(sep=" ")))  # fmt: skip
    bookings, payments, reviews = [], [], []
    now = datetime(2025, 6, 18, 8, 0)
    for n in range(1, 2601):
        guest = min(int(random.expovariate(1 / 110)) + 1, 390)
        room = random.choice(rooms)
        booked = datetime(2023, 1, 2, 6) + timedelta(
            days=random.randrange(899), minutes=random.randrange(1000)
        )
        if booked > now:
            booked = now - timedelta(minutes=random.randrange(2000))
        arrive = booked.date() + timedelta(days=random.randrange(1, 80))
        nights = random.randrange(1, 11)
        leave = arrive + timedelta(days=nights)
        chance = random.random()
        status = (
            "cancelled"
            if chance < 0.13
            else "confirmed"
            if leave >= now.date()
            else "no-show"
            if chance < 0.18
            else "completed"
        )
        price = round(nights * room[5] * random.uniform(0.85, 1.1), 2)
        bookings.append((n, f"BK-{10000 + n}", guest, room[0], arrive.isoformat(), leave.isoformat(), booked.isoformat(sep=" "),
                         status, random.choice(("direct", "direct", "agency", "website", "phone")), price,
                         int(random.random() < 0.45)))  # fmt: skip
        if status == "completed" and random.random() < 0.94:
            paid = datetime(leave.year, leave.month, leave.day, 10) + timedelta(minutes=random.randrange(300))
            payments.append((len(payments) + 1, n, paid.isoformat(sep=" "), price,
                             random.choice(("card", "card", "cash", "invoice")), "Y" if random.random() < 0.04 else "N"))  # fmt: skip
        if status == "completed" and random.random() < 0.4:
            posted = datetime(leave.year, leave.month, leave.day, 18) + timedelta(
                minutes=random.randrange(7000)
            )
            if posted < now:
                reviews.append((len(reviews) + 1, n, min(10, max(1, round(random.gauss(7.2, 2)))),
                                random.choice(COMMENTS) if random.random() < 0.7 else None, posted.isoformat(sep=" ")))  # fmt: skip
    staff = []
    hired = random.sample(range(6300), 130)
    pool = [("Tomas", "Silva"), *names[399:478]]
    for n, (first, last) in enumerate(pool, 1):
        hotel = (n - 1) % 8 + 1 if n != 1 else 1
        boss = None if 9 <= n <= 16 else hotel + 8
        role = (
            "manager"
            if boss is None
            else random.choice(("receptionist", "receptionist", "cleaner", "cleaner", "cook", "porter"))
        )
        start = date(2007, 10, 1) + timedelta(days=hired[n])
        end = (
            start + timedelta(days=random.randrange(200, 1500))
            if boss and n > 1 and random.random() < 0.25
            else None
        )
        if end and end > now.date():
            end = None
        staff.append((n, hotel, first, last, role, start.isoformat(), end.isoformat() if end else None,
                      round(random.uniform(28, 40) if role == "manager" else random.uniform(12, 22), 2), boss))  # fmt: skip
    return {"hotels": [tuple(h) for h in HOTELS], "rooms": rooms, "guests": guests, "bookings": bookings,
            "payments": payments, "reviews": reviews, "staff": staff}  # fmt: skip


HOTEL = Part(
    "hotel",
    SCRIPT,
    rows,
    (
        ("How many hotels do we have?", "SELECT count(*) FROM hotels"),
        ("list our hotels in Portugal", "SELECT name FROM hotels WHERE country = 'Portugal'"),
        ("Which hotels have a pool?", "SELECT name FROM hotels WHERE has_pool = 'Y'"),
        ("How many rooms does the Grand Meridian have?",
         "SELECT count(*) FROM rooms JOIN hotels USING (hotel_id) WHERE name = 'Grand Meridian'"),
        ("Number of double rooms per hotel name",
         "SELECT name, count(*) FROM rooms JOIN hotels USING (hotel_id) WHERE room_type = 'double' GROUP BY name"),
        ("average nightly rate by room type", "SELECT room_type, avg(nightly_rate) FROM rooms GROUP BY room_type"),
        ("What is the highest nightly rate we charge?", "SELECT max(nightly_rate) FROM rooms"),
        ("how many vip guests are there", "SELECT count(*) FROM guests WHERE vip = 'Y'"),
        ("How many guests come from Germany?", "SELECT count(*) FROM guests WHERE country = 'Germany'"),
        ("How many guests have no phone number on file?", "SELECT count(*) FROM guests WHERE phone IS NULL"),
        ("What is Amelia Novak's email?",
         "SELECT email FROM guests WHERE first_name = 'Amelia' AND last_name = 'Novak'"),
        ("How many bookings were made yesterday?",
         "SELECT count(*) FROM bookings WHERE booked_at >= '2025-06-17' AND booked_at < '2025-06-18'"),
        ("How many confirmed bookings check in tomorrow?",
         "SELECT count(*) FROM bookings WHERE status = 'confirmed' AND check_in = '2025-06-19'"),
        ("What's the status of booking BK-10457?", "SELECT status FROM bookings WHERE booking_ref = 'BK-10457'"),
        ("Who made booking BK-10300?",
         "SELECT first_name, last_name FROM guests JOIN bookings USING (guest_id) WHERE booking_ref = 'BK-10300'"),
        ("bookings per channel", "SELECT channel, count(*) FROM bookings GROUP BY channel"),
        ("Sum of the total price of completed bookings by channel, highest first",
         "SELECT channel, sum(total_price) FROM bookings WHERE status = 'completed' GROUP BY channel "
         "ORDER BY sum(total_price) DESC"),
        ("How many bookings have been cancelled?", "SELECT count(*) FROM bookings WHERE status = 'cancelled'"),
        ("What percentage of all bookings were cancelled?",
         "SELECT 100.0 * sum(CASE WHEN status = 'cancelled' THEN 1 ELSE 0 END) / count(*) FROM bookings"),
        ("How many no-shows were there with a check-in date in 2024?",
         "SELECT count(*) FROM bookings WHERE status = 'no-show' AND check_in BETWEEN '2024-01-01' AND '2024-12-31'"),
        ("How many bookings include breakfast?", "SELECT count(*) FROM bookings WHERE breakfast = 1"),
        ("What's our average review score?", "SELECT avg(score) FROM reviews"),
        ("Which hotel has the best average review score?",
         "SELECT name FROM reviews JOIN bookings USING (booking_id) JOIN rooms USING (room_id) "
         "JOIN hotels USING (hotel_id) GROUP BY hotel_id, name ORDER BY avg(score) DESC LIMIT 1"),
        ("How many reviews gave a score below 4?", "SELECT count(*) FROM reviews WHERE score < 4"),
        ("How many reviews came without a comment?", "SELECT count(*) FROM reviews WHERE comment IS NULL"),
        ("When was the last review posted?", "SELECT max(posted_at) FROM reviews"),
        ("What is the sum of all payments made in May 2025?",
         "SELECT sum(amount) FROM payments WHERE paid_at >= '2025-05-01' AND paid_at < '2025-06-01'"),
        ("How many payments were refunded?", "SELECT count(*) FROM payments WHERE refunded = 'Y'"),
        ("number of payments and total amount by method",
         "SELECT method, count(*), sum(amount) FROM payments GROUP BY method"),
        ("Give me the room numbers of the smoking rooms in the Harbour View.",
         "SELECT room_no FROM rooms JOIN hotels USING (hotel_id) WHERE name = 'Harbour View' AND smoking = 1"),
        ("Which hotel opened first?", "SELECT name FROM hotels ORDER BY opened_on LIMIT 1"),
        ("Which hotels opened after 2010?", "SELECT name FROM hotels WHERE opened_on > '2010-12-31'"),
        ("Who is the manager of Tomas Silva?",
         "SELECT m.first_name, m.last_name FROM staff s JOIN staff m ON m.staff_id = s.manager_id "
         "WHERE s.first_name = 'Tomas' AND s.last_name = 'Silva'"),
        ("How many staff members have left?", "SELECT count(*) FROM staff WHERE left_on IS NOT NULL"),
        ("How many receptionists still work for us?",
         "SELECT count(*) FROM staff WHERE role = 'receptionist' AND left_on IS NULL"),
        ("Which guests have never made a booking?",
         "SELECT first_name, last_name FROM guests WHERE guest_id NOT IN (SELECT guest_id FROM bookings)"),
        ("Which 3 hotels have the most bookings?",
         "SELECT name FROM bookings JOIN rooms USING (room_id) JOIN hotels USING (hotel_id) GROUP BY hotel_id, name "
         "ORDER BY count(*) DESC LIMIT 3"),
        ("How many guests have booked more than once?",
         "SELECT count(*) FROM (SELECT guest_id FROM bookings GROUP BY guest_id HAVING count(*) > 1) AS g"),
        ("How many nights was our longest booked stay?",
         "SELECT max(CAST(julianday(check_out) - julianday(check_in) AS INTEGER)) FROM bookings"),
        ("How many confirmed bookings have a check-in next month?",
         "SELECT count(*) FROM bookings WHERE status = 'confirmed' AND check_in BETWEEN '2025-07-01' AND '2025-07-31'"),
        ("How many guests brought a dog?", None),
        ("What did we spend on laundry last month?", None),
        ("How many parking spaces does the Hotel Aurora have?", None),
        ("Why was booking BK-10457 cancelled?", None),
        ("Which guests asked for a vegetarian meal?", None),
        ("Who is our oldest guest?", "SELECT first_name, last_name FROM guests WHERE birth_date IS NOT NULL ORDER BY birth_date LIMIT 1"),
        ("How many bookings does Amelia Novak have?",
         "SELECT count(*) FROM bookings JOIN guests USING (guest_id) WHERE first_name = 'Amelia' AND last_name = 'Novak'"),
        ("How many rooms can take at least 4 guests?", "SELECT count(*) FROM rooms WHERE max_guests >= 4"),
        ("Which hotels have fewer than 30 rooms?",
         "SELECT name FROM rooms JOIN hotels USING (hotel_id) GROUP BY hotel_id, name HAVING count(*) < 30"),
        ("how many completed bookings have no payment",
         "SELECT count(*) FROM bookings WHERE status = 'completed' AND booking_id NOT IN (SELECT booking_id FROM payments)"),
    ),
)  # fmt: skip

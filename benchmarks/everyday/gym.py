"""Fitness studios: members, plans, trainers, classes, bookings and payments."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE studios (
    studio_id INTEGER PRIMARY KEY,
    name VARCHAR(60) NOT NULL,
    city VARCHAR(40) NOT NULL,
    postcode VARCHAR(5) NOT NULL,
    opened_on DATE NOT NULL,
    closed_on DATE,
    has_pool BOOLEAN NOT NULL,
    floor_area INTEGER
);
CREATE TABLE plans (
    plan_id INTEGER PRIMARY KEY,
    plan_name VARCHAR(40) NOT NULL,
    monthly_fee NUMERIC(8,2) NOT NULL,
    min_months INTEGER NOT NULL,
    includes_sauna CHAR(1) NOT NULL
);
CREATE TABLE trainers (
    trainer_id INTEGER PRIMARY KEY,
    full_name VARCHAR(60) NOT NULL,
    specialty VARCHAR(30),
    hired_on DATE NOT NULL,
    hourly_rate NUMERIC(6,2),
    is_certified BOOLEAN NOT NULL,
    studio_id INTEGER NOT NULL REFERENCES studios (studio_id)
);
CREATE TABLE members (
    member_id INTEGER PRIMARY KEY,
    member_no VARCHAR(8) NOT NULL,
    first_name VARCHAR(30) NOT NULL,
    last_name VARCHAR(30) NOT NULL,
    email VARCHAR(80),
    phone VARCHAR(20),
    birth_date DATE NOT NULL,
    gender CHAR(1) NOT NULL,
    city VARCHAR(40) NOT NULL,
    studio_id INTEGER NOT NULL REFERENCES studios (studio_id),
    plan_id INTEGER NOT NULL REFERENCES plans (plan_id),
    joined_on DATE NOT NULL,
    cancelled_on DATE,
    newsletter INTEGER NOT NULL
);
CREATE TABLE classes (
    class_id INTEGER PRIMARY KEY,
    title VARCHAR(40) NOT NULL,
    level VARCHAR(20) NOT NULL,
    trainer_id INTEGER REFERENCES trainers (trainer_id),
    studio_id INTEGER NOT NULL REFERENCES studios (studio_id),
    starts_at TIMESTAMP NOT NULL,
    duration_min INTEGER NOT NULL,
    capacity INTEGER NOT NULL
);
CREATE TABLE bookings (
    booking_id INTEGER PRIMARY KEY,
    class_id INTEGER NOT NULL REFERENCES classes (class_id),
    member_id INTEGER NOT NULL REFERENCES members (member_id),
    booked_at TIMESTAMP NOT NULL,
    status VARCHAR(12) NOT NULL,
    rating INTEGER
);
CREATE TABLE payments (
    payment_id INTEGER PRIMARY KEY,
    member_id INTEGER NOT NULL REFERENCES members (member_id),
    due_on DATE NOT NULL,
    paid_on DATE,
    amount NUMERIC(8,2) NOT NULL,
    method VARCHAR(15)
);
"""

STUDIOS = [
    ("Harbour Fitness", "Bristol", "00412", "2014-03-01", None, True, 1450),
    ("Northgate Gym", "Leeds", "01077", "2016-09-15", None, False, 900),
    ("Riverside", "York", "00650", "2012-01-10", "2024-11-30", True, None),
    ("Kings Court", "Leeds", "01120", "2019-05-20", None, True, 1800),
    ("Old Mill", "Bath", "00233", "2021-02-01", None, False, 640),
    ("Station Gym", "Bristol", "00419", "2023-10-05", None, False, 720),
    ("Riverside East", "York", "00655", "2024-12-02", None, False, None),
]
PLANS = [
    ("Basic", "19.90", 12, "N"),
    ("Off-Peak", "24.50", 6, "N"),
    ("Plus", "34.90", 12, "Y"),
    ("Premium", "54.00", 1, "Y"),
    ("Student", "17.50", 3, "N"),
    ("Corporate", "29.00", 24, "Y"),
]
FIRST = {
    "F": [
        "Anna",
        "Bella",
        "Carla",
        "Dina",
        "Ella",
        "Grace",
        "Hanna",
        "Ivy",
        "Julia",
        "Kate",
        "Lena",
        "Mary",
        "Nora",
        "Rose",
    ],
    "M": [
        "Adam",
        "Ben",
        "Carl",
        "David",
        "Evan",
        "George",
        "Harry",
        "Ian",
        "John",
        "Karl",
        "Leo",
        "Mark",
        "Noah",
        "Tom",
    ],
    "X": ["Alex", "Robin", "Sam"],
}
LAST = [
    "Archer",
    "Baker",
    "Barker",
    "Cole",
    "Cooper",
    "Dale",
    "Ellis",
    "Ford",
    "Grant",
    "Hale",
    "Hall",
    "Irwin",
    "Jones",
]
LAST += [
    "Johnson",
    "Kerr",
    "Lamb",
    "Moss",
    "North",
    "Owen",
    "Parker",
    "Parks",
    "Reed",
    "Stone",
    "Turner",
    "West",
    "Young",
]
TITLES = [
    ("Power Yoga", 60),
    ("Yin Yoga", 75),
    ("Spinning", 45),
    ("Pilates", 60),
    ("Boxing", 60),
    ("Aqua Fit", 45),
    ("HIIT", 30),
]
CITIES = ["Bristol", "Leeds", "York", "Bath", "Wells", "Harrogate"]


def rows() -> Rows:
    """The rows of all tables."""
    rng = random.Random(2718)
    trainers = []
    names = [
        "Maria Lopez",
        "Peter Lang",
        "Sarah Quinn",
        "Omar Aziz",
        "Linda Frost",
        "Paul Meyer",
        "Petra Lang",
        "Nils Berg",
    ]
    names += [
        "Chloe Martin",
        "Hugo Martins",
        "Ines Costa",
        "Dan Webb",
        "Ruth Bell",
        "Yuki Tanaka",
        "Tess Monk",
        "Ravi Nair",
    ]
    specialties = ["Yoga", "Boxing", "Swimming", "Strength", "Pilates", None]
    for number, name in enumerate(names, 1):
        hired = date(2013, 1, 1) + timedelta(days=rng.randrange(4400))
        rate = None if number % 6 == 0 else f"{rng.randrange(36, 90) / 2 + 5:.2f}"
        trainers.append(
            (number, name, specialties[number % 6], hired.isoformat(), rate, number % 4 != 0, number % 7 + 1)
        )
    members = []
    for number in range(1, 641):
        gender = rng.choices("FMX", weights=[52, 44, 4])[0]
        first, last = rng.choice(FIRST[gender]), rng.choice(LAST)
        joined = date(2018, 1, 1) + timedelta(days=rng.randrange(2720))
        cancelled = None
        if rng.random() < 0.28:
            cancelled = joined + timedelta(days=rng.randrange(30, 900))
            if cancelled > date(2025, 6, 17):
                cancelled = None
        email = None if rng.random() < 0.12 else f"{first}.{last}{number}@example.org".lower()
        phone = None if rng.random() < 0.3 else f"07{rng.randrange(10**8, 10**9)}"
        birth = date(1945, 1, 1) + timedelta(days=rng.randrange(22600))
        members.append(
            (
                number,
                f"{number * 37 % 9973:06d}",
                first,
                last,
                email,
                phone,
                birth.isoformat(),
                gender,
                rng.choice(CITIES),
                rng.choices(range(1, 8), weights=[25, 18, 6, 22, 9, 14, 6])[0],
                rng.choices(range(1, 7), weights=[30, 12, 25, 15, 12, 6])[0],
                joined.isoformat(),
                cancelled.isoformat() if cancelled else None,
                int(rng.random() < 0.55),
            )
        )
    classes = []
    for number in range(1, 901):
        title, minutes = rng.choice(TITLES)
        day = date(2024, 7, 1) + timedelta(days=rng.randrange(380))
        start = datetime(day.year, day.month, day.day, rng.randrange(7, 21), rng.choice([0, 15, 30]))
        trainer = None if rng.random() < 0.06 else rng.randrange(1, 15)
        level = rng.choice(["beginner", "intermediate", "advanced"])
        classes.append(
            (
                number,
                title,
                level,
                trainer,
                rng.randrange(1, 7),
                start.isoformat(" "),
                minutes,
                rng.randrange(8, 31),
            )
        )
    bookings = []
    for number in range(1, 4201):
        chosen = classes[rng.randrange(len(classes) - 20)]
        start = datetime.fromisoformat(str(chosen[5]))
        booked = start - timedelta(minutes=rng.randrange(60, 20000))
        if start.date() >= date(2025, 6, 18):
            status, rating = "booked", None
        else:
            status = rng.choices(["attended", "no_show", "cancelled"], weights=[75, 10, 15])[0]
            rating = (
                rng.choices([1, 2, 3, 4, 5], weights=[3, 6, 20, 40, 31])[0]
                if status == "attended" and rng.random() < 0.4
                else None
            )
        bookings.append((number, chosen[0], rng.randrange(1, 601), booked.isoformat(" "), status, rating))
    payments = []
    for number in range(1, 2601):
        member = members[rng.randrange(640)]
        due = date(2023, 1, 1) + timedelta(days=rng.randrange(900))
        paid = None if rng.random() < 0.09 else due + timedelta(days=rng.randrange(-3, 25))
        method = (
            None
            if paid is None
            else rng.choices(["card", "direct debit", "cash", "voucher"], weights=[40, 45, 10, 5])[0]
        )
        amount = PLANS[int(str(member[10])) - 1][1]
        payments.append(
            (number, member[0], due.isoformat(), paid.isoformat() if paid else None, amount, method)
        )
    return {
        "studios": [(number, *row) for number, row in enumerate(STUDIOS, 1)],
        "plans": [(number, *row) for number, row in enumerate(PLANS, 1)],
        "trainers": trainers,
        "members": list(members),
        "classes": list(classes),
        "bookings": list(bookings),
        "payments": list(payments),
    }


QUESTIONS: tuple[tuple[str, str | None], ...] = (
    ("How many members do we have?", "SELECT COUNT(*) FROM members"),
    ("How many members have not cancelled?", "SELECT COUNT(*) FROM members WHERE cancelled_on IS NULL"),
    (
        "How many members cancelled in 2024?",
        "SELECT COUNT(*) FROM members WHERE cancelled_on >= '2024-01-01' AND cancelled_on < '2025-01-01'",
    ),
    (
        "How many people joined last month?",
        "SELECT COUNT(*) FROM members WHERE joined_on >= '2025-05-01' AND joined_on < '2025-06-01'",
    ),
    ("How many women train with us?", "SELECT COUNT(*) FROM members WHERE gender = 'F'"),
    ("How many members are over 60?", "SELECT COUNT(*) FROM members WHERE birth_date <= '1964-06-18'"),
    (
        "Who is our youngest member?",
        "SELECT first_name, last_name FROM members ORDER BY birth_date DESC LIMIT 1",
    ),
    (
        "Which member has the number 000037?",
        "SELECT first_name, last_name FROM members WHERE member_no = '000037'",
    ),
    ("What is the email address of member 000740?", "SELECT email FROM members WHERE member_no = '000740'"),
    (
        "Which member has the number 00037?",
        "SELECT first_name, last_name FROM members WHERE member_no = '00037'",
    ),
    ("How many members get the newsletter?", "SELECT COUNT(*) FROM members WHERE newsletter = 1"),
    (
        "How many active members in Leeds do not get the newsletter?",
        "SELECT COUNT(*) FROM members WHERE cancelled_on IS NULL AND city = 'Leeds' AND newsletter = 0",
    ),
    (
        "List the members without an email who live in Wells",
        "SELECT first_name, last_name FROM members WHERE email IS NULL AND city = 'Wells'",
    ),
    (
        "How many members have neither a phone nor an email?",
        "SELECT COUNT(*) FROM members WHERE phone IS NULL AND email IS NULL",
    ),
    (
        "Which plan has the most members?",
        "SELECT p.plan_name FROM plans p "
        "JOIN members m ON m.plan_id = p.plan_id GROUP BY p.plan_name ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    (
        "How many members are on each plan?",
        "SELECT p.plan_name, COUNT(*) FROM plans p JOIN members m ON m.plan_id = p.plan_id GROUP BY p.plan_name",
    ),
    (
        "What does the Premium plan cost per month?",
        "SELECT monthly_fee FROM plans WHERE plan_name = 'Premium'",
    ),
    ("What is the cheapest plan?", "SELECT plan_name FROM plans ORDER BY monthly_fee LIMIT 1"),
    ("Which plans include the sauna?", "SELECT plan_name FROM plans WHERE includes_sauna = 'Y'"),
    (
        "Which plans cost less than 25 and have no sauna?",
        "SELECT plan_name FROM plans WHERE monthly_fee < 25 AND includes_sauna = 'N'",
    ),
    (
        "How many Student plan members are there in York?",
        "SELECT COUNT(*) FROM members m JOIN plans p ON p.plan_id = m.plan_id "
        "WHERE p.plan_name = 'Student' AND m.city = 'York'",
    ),
    ("Which studios have a pool?", "SELECT name FROM studios WHERE has_pool"),
    (
        "Which studios without a pool are in Bristol?",
        "SELECT name FROM studios WHERE NOT has_pool AND city = 'Bristol'",
    ),
    ("Which studios are closed?", "SELECT name FROM studios WHERE closed_on IS NOT NULL"),
    ("Which studio has postcode 00650?", "SELECT name FROM studios WHERE postcode = '00650'"),
    (
        "What is the largest studio?",
        "SELECT name FROM studios WHERE floor_area IS NOT NULL ORDER BY floor_area DESC LIMIT 1",
    ),
    ("For which studios is the floor area unknown?", "SELECT name FROM studios WHERE floor_area IS NULL"),
    (
        "How many members train at Riverside?",
        "SELECT COUNT(*) FROM members m JOIN studios s ON s.studio_id = m.studio_id WHERE s.name = 'Riverside'",
    ),
    (
        "Number of members per studio, biggest first",
        "SELECT s.name, COUNT(*) FROM studios s "
        "JOIN members m ON m.studio_id = s.studio_id GROUP BY s.name ORDER BY COUNT(*) DESC",
    ),
    (
        "Which studios have more than 100 members?",
        "SELECT s.name FROM studios s JOIN members m ON m.studio_id = s.studio_id "
        "GROUP BY s.name HAVING COUNT(*) > 100",
    ),
    ("Which trainers are not certified?", "SELECT full_name FROM trainers WHERE NOT is_certified"),
    (
        "How many certified trainers teach yoga?",
        "SELECT COUNT(*) FROM trainers WHERE is_certified AND specialty = 'Yoga'",
    ),
    (
        "Who earns the most per hour?",
        "SELECT full_name FROM trainers WHERE hourly_rate IS NOT NULL ORDER BY hourly_rate DESC LIMIT 1",
    ),
    ("What is the average hourly rate of our trainers?", "SELECT AVG(hourly_rate) FROM trainers"),
    ("When was Peter Lang hired?", "SELECT hired_on FROM trainers WHERE full_name = 'Peter Lang'"),
    (
        "Which trainers were hired after 2020?",
        "SELECT full_name FROM trainers WHERE hired_on >= '2021-01-01'",
    ),
    (
        "Which trainer has been with us the longest?",
        "SELECT full_name FROM trainers ORDER BY hired_on LIMIT 1",
    ),
    ("Which trainers have no specialty?", "SELECT full_name FROM trainers WHERE specialty IS NULL"),
    (
        "Which trainers never gave a class?",
        "SELECT full_name FROM trainers WHERE trainer_id NOT IN (SELECT trainer_id "
        "FROM classes WHERE trainer_id IS NOT NULL)",
    ),
    (
        "How many classes did Maria Lopez give in 2025?",
        "SELECT COUNT(*) FROM classes c JOIN trainers t ON t.trainer_id = c.trainer_id "
        "WHERE t.full_name = 'Maria Lopez' "
        "AND c.starts_at >= '2025-01-01' AND c.starts_at < '2026-01-01'",
    ),
    ("How many classes have no trainer yet?", "SELECT COUNT(*) FROM classes WHERE trainer_id IS NULL"),
    (
        "How many classes are there today?",
        "SELECT COUNT(*) FROM classes WHERE starts_at >= '2025-06-18' AND starts_at < '2025-06-19'",
    ),
    (
        "List title and start of the advanced classes on 14 May 2025",
        "SELECT title, starts_at FROM classes "
        "WHERE level = 'advanced' AND starts_at >= '2025-05-14' AND starts_at < '2025-05-15'",
    ),
    (
        "How many Yin Yoga classes are for beginners?",
        "SELECT COUNT(*) FROM classes WHERE title = 'Yin Yoga' AND level = 'beginner'",
    ),
    ("How many Zumba classes did we run?", None),
    ("How many classes lasted longer than an hour?", "SELECT COUNT(*) FROM classes WHERE duration_min > 60"),
    (
        "What is the average capacity of a Spinning class?",
        "SELECT AVG(capacity) FROM classes WHERE title = 'Spinning'",
    ),
    (
        "Which class title was booked most often?",
        "SELECT c.title FROM classes c JOIN bookings b ON b.class_id = c.class_id "
        "GROUP BY c.title ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    ("How many bookings were no-shows?", "SELECT COUNT(*) FROM bookings WHERE status = 'no_show'"),
    (
        "How many bookings were made in March 2025?",
        "SELECT COUNT(*) FROM bookings WHERE booked_at >= '2025-03-01' AND booked_at < '2025-04-01'",
    ),
    ("What is the no-show rate?", None),
    (
        "What is the average rating per class title?",
        "SELECT c.title, AVG(b.rating) FROM classes c JOIN bookings b ON b.class_id = c.class_id GROUP BY c.title",
    ),
    ("How many bookings were rated 4 or better?", "SELECT COUNT(*) FROM bookings WHERE rating >= 4"),
    (
        "How many members have never booked a class?",
        "SELECT COUNT(*) FROM members WHERE member_id NOT IN (SELECT member_id FROM bookings)",
    ),
    (
        "Which member made the most bookings?",
        "SELECT m.first_name, m.last_name FROM members m JOIN bookings b ON b.member_id = m.member_id "
        "GROUP BY m.member_id, m.first_name, m.last_name ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    ("How many payments are still open?", "SELECT COUNT(*) FROM payments WHERE paid_on IS NULL"),
    (
        "What is the total amount of unpaid payments?",
        "SELECT SUM(amount) FROM payments WHERE paid_on IS NULL",
    ),
    (
        "How much did we collect in cash last year?",
        "SELECT SUM(amount) FROM payments WHERE method = 'cash' AND paid_on >= '2024-01-01' AND paid_on < '2025-01-01'",
    ),
    (
        "How many payments were made after their due date?",
        "SELECT COUNT(*) FROM payments WHERE paid_on > due_on",
    ),
    (
        "Total payments by method in 2024",
        "SELECT method, SUM(amount) FROM payments "
        "WHERE paid_on >= '2024-01-01' AND paid_on < '2025-01-01' GROUP BY method",
    ),
    (
        "Which members have unpaid payments of more than 50?",
        "SELECT DISTINCT m.first_name, m.last_name "
        "FROM members m JOIN payments p ON p.member_id = m.member_id WHERE p.paid_on IS NULL AND p.amount > 50",
    ),
    (
        "How many payments due in May 2025 have not been paid?",
        "SELECT COUNT(*) FROM payments WHERE due_on >= '2025-05-01' AND due_on < '2025-06-01' AND paid_on IS NULL",
    ),
    ("What is the salary of Linda Frost?", None),
    ("How many members did we lose compared with last year?", None),
    ("Which members are allergic to chlorine?", None),
    ("What is the locker number of member 000148?", None),
)

GYM = Part("gym", SCRIPT, rows, QUESTIONS)

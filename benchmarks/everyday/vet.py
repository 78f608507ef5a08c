"""A veterinary practice: owners, animals, vets, appointments and invoices."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE owners (
  id INTEGER PRIMARY KEY, first_name VARCHAR(40) NOT NULL, last_name VARCHAR(40) NOT NULL, city VARCHAR(40) NOT NULL,
  email VARCHAR(80), wants_reminders BOOLEAN NOT NULL);
CREATE TABLE animals (
  id INTEGER PRIMARY KEY, chip VARCHAR(15), name VARCHAR(40) NOT NULL, species VARCHAR(20) NOT NULL, breed VARCHAR(40),
  sex CHAR(1) NOT NULL, born DATE NOT NULL, weight_kg NUMERIC(5, 1), neutered BOOLEAN NOT NULL,
  owner_id INTEGER NOT NULL REFERENCES owners(id), died_on DATE);
CREATE TABLE vets (
  id INTEGER PRIMARY KEY, first_name VARCHAR(40) NOT NULL, last_name VARCHAR(40) NOT NULL, specialty VARCHAR(40),
  hired_on DATE NOT NULL, is_partner BOOLEAN NOT NULL);
CREATE TABLE appointments (
  id INTEGER PRIMARY KEY, animal_id INTEGER NOT NULL REFERENCES animals(id), vet_id INTEGER NOT NULL REFERENCES vets(id),
  scheduled_at TIMESTAMP NOT NULL, reason VARCHAR(40) NOT NULL, cancelled BOOLEAN NOT NULL, notes VARCHAR(200));
CREATE TABLE invoices (
  id INTEGER PRIMARY KEY, invoice_no VARCHAR(12) NOT NULL, appointment_id INTEGER NOT NULL REFERENCES appointments(id),
  issued_on DATE NOT NULL, paid_on DATE, amount NUMERIC(8, 2) NOT NULL);
"""

FIRST = """
    Agnes Boris Celine Dario Edith Felix Gina Hector Irma Jules Klara Leo Mona Nils Odile Pavel
""".split()  # noqa: SIM905
LAST = """
    Brandt Calvo Duarte Engel Ferrari Gruber Holm Iversen Jung Keller Lopez Maier Nowak Olsen
""".split()  # noqa: SIM905
NAMES = """
    Bella Coco Daisy Felix Ginger Hazel Jasper Kiwi Luna Milo Nala Oreo Pixel Rocky Simba Toffee
""".split()  # noqa: SIM905
BREEDS = {
    "dog": ("Beagle", "Poodle", "Border Collie", "Dachshund"),
    "cat": ("Siamese", "Maine Coon", "Persian"),
    "rabbit": ("Lop", "Rex"),
    "parrot": (None,),
}
REASONS = ("vaccination", "check-up", "surgery", "dental cleaning", "injury")


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(37)
    owners = [
        (n, random.choice(FIRST), random.choice(LAST), random.choice(("Graz", "Linz", "Salzburg", "Wels")),
         f"owner{n}@pets.example" if random.random() < 0.8 else None, random.random() < 0.6)
        for n in range(1, 401)
    ]  # fmt: skip
    animals = []
    for n in range(1, 701):
        species = random.choice(("dog", "dog", "cat", "cat", "rabbit", "parrot"))
        born = datetime(2008, 1, 1) + timedelta(days=random.randrange(6200))
        died = (
            f"{born + timedelta(days=random.randrange(300, 4000)):%Y-%m-%d}"
            if random.random() < 0.1
            else None
        )
        animals.append(
            (n, f"{random.randrange(10**9):015d}" if random.random() < 0.8 else None, random.choice(NAMES), species,
             random.choice(BREEDS[species]), random.choice("FM"), f"{born:%Y-%m-%d}",
             round(random.uniform(0.3, 45), 1) if random.random() < 0.9 else None, random.random() < 0.5,
             random.randrange(1, 381), died)
        )  # fmt: skip
    vets = [
        (1, "Sofia", "Adler", "surgery", "2011-03-01", True),
        (2, "Martin", "Bauer", "dentistry", "2015-09-15", True),
        (3, "Julia", "Cerny", None, "2019-01-07", False),
        (4, "Paul", "Dvorak", "exotic animals", "2022-06-01", False),
        (5, "Emma", "Egger", None, "2024-11-04", False),
    ]
    appointments, invoices = [], []
    for n in range(1, 4001):
        at = datetime(2023, 1, 2, 8) + timedelta(
            days=random.randrange(905), minutes=15 * random.randrange(40)
        )
        cancelled = random.random() < 0.08
        appointments.append(
            (n, random.randrange(1, 691), random.randrange(1, 6), f"{at:%Y-%m-%d %H:%M:%S}", random.choice(REASONS),
             cancelled, "come back in two weeks" if random.random() < 0.2 else None)
        )  # fmt: skip
        if not cancelled:
            paid = f"{at + timedelta(days=random.randrange(40)):%Y-%m-%d}" if random.random() < 0.9 else None
            invoices.append(
                (len(invoices) + 1, f"{20000 + len(invoices):07d}", n, f"{at:%Y-%m-%d}", paid,
                 round(random.uniform(25, 900), 2))
            )  # fmt: skip
    return {
        "owners": owners,
        "animals": animals,
        "vets": vets,
        "appointments": appointments,
        "invoices": invoices,
    }


QUESTIONS = (
    ("How many animals do we treat?", "SELECT count(*) FROM animals"),
    ("How many dogs are there?", "SELECT count(*) FROM animals WHERE species = 'dog'"),
    ("How many animals of each species are there?", "SELECT species, count(*) FROM animals GROUP BY species"),
    ("How many neutered cats are there?", "SELECT count(*) FROM animals WHERE neutered = 1 AND species = 'cat'"),
    ("How many animals have no chip?", "SELECT count(*) FROM animals WHERE chip IS NULL"),
    ("What is the amount of invoice 0020123?", "SELECT amount FROM invoices WHERE invoice_no = '0020123'"),
    ("What is the amount of invoice '20123'?", "SELECT amount FROM invoices WHERE invoice_no = '20123'"),
    ("How many invoices are unpaid?", "SELECT count(*) FROM invoices WHERE paid_on IS NULL"),
    ("What is the total amount of invoices issued in 2024?",
     "SELECT sum(amount) FROM invoices WHERE issued_on >= '2024-01-01' AND issued_on < '2025-01-01'"),
    ("What is the total amount of invoices issued last month?",
     "SELECT sum(amount) FROM invoices WHERE issued_on >= '2025-05-01' AND issued_on < '2025-06-01'"),
    ("How many appointments are scheduled today?",
     "SELECT count(*) FROM appointments WHERE scheduled_at >= '2025-06-18' AND scheduled_at < '2025-06-19'"),
    ("How many appointments were cancelled?", "SELECT count(*) FROM appointments WHERE cancelled = 1"),
    ("How many appointments for surgery were there in 2024?",
     "SELECT count(*) FROM appointments WHERE reason = 'surgery' AND scheduled_at >= '2024-01-01' "
     "AND scheduled_at < '2025-01-01'"),
    ("Which vets are partners?", "SELECT first_name, last_name FROM vets WHERE is_partner = 1"),
    ("Which vet was hired last?", "SELECT first_name, last_name FROM vets ORDER BY hired_on DESC LIMIT 1"),
    ("Which vets have no specialty?", "SELECT first_name, last_name FROM vets WHERE specialty IS NULL"),
    ("How many appointments does each vet have?",
     "SELECT first_name, last_name, count(*) FROM appointments JOIN vets ON vet_id = vets.id GROUP BY vets.id"),
    ("How many appointments did Julia Cerny have in May 2025?",
     "SELECT count(*) FROM appointments JOIN vets ON vet_id = vets.id WHERE last_name = 'Cerny' "
     "AND first_name = 'Julia' AND scheduled_at >= '2025-05-01' AND scheduled_at < '2025-06-01'"),
    ("What is the specialty of Paul Dvorak?",
     "SELECT specialty FROM vets WHERE first_name = 'Paul' AND last_name = 'Dvorak'"),
    ("How many owners live in Graz?", "SELECT count(*) FROM owners WHERE city = 'Graz'"),
    ("How many owners want reminders?", "SELECT count(*) FROM owners WHERE wants_reminders = 1"),
    ("How many owners have no animals?",
     "SELECT count(*) FROM owners WHERE id NOT IN (SELECT owner_id FROM animals)"),
    ("What is the average weight of Beagles?", "SELECT avg(weight_kg) FROM animals WHERE breed = 'Beagle'"),
    ("What is the heaviest animal?", "SELECT name FROM animals ORDER BY weight_kg DESC LIMIT 1"),
    ("How many female rabbits are there?", "SELECT count(*) FROM animals WHERE sex = 'F' AND species = 'rabbit'"),
    ("How many animals died in 2023?",
     "SELECT count(*) FROM animals WHERE died_on >= '2023-01-01' AND died_on < '2024-01-01'"),
    ("How many animals are older than 10 years?", "SELECT count(*) FROM animals WHERE born <= '2014-06-18'"),
    ("What are the names of animals that weigh less than 1 kg?", "SELECT name FROM animals WHERE weight_kg < 1"),
    ("Who owns the most animals?",
     "SELECT first_name, last_name FROM animals JOIN owners ON owner_id = owners.id GROUP BY owners.id "
     "ORDER BY count(*) DESC LIMIT 1"),
    ("What is the largest unpaid invoice?",
     "SELECT amount FROM invoices WHERE paid_on IS NULL ORDER BY amount DESC LIMIT 1"),
    ("How many invoices were paid in the last 3 months?",
     "SELECT count(*) FROM invoices WHERE paid_on >= '2025-03-01' AND paid_on < '2025-06-01'"),
    ("Which owners live in Vienna?", "SELECT first_name, last_name FROM owners WHERE city = 'Vienna'"),
    ("How many animals are allergic to penicillin?", None),
    ("What percentage of invoices is unpaid?", None),
    ("Which vet is the friendliest?", None),
)  # fmt: skip

VET = Part("vet", SCRIPT, rows, QUESTIONS)

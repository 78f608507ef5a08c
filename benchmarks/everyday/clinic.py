"""A clinic: patients, doctors, appointments and prescriptions."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE doctors (
  doctor_id INTEGER PRIMARY KEY, full_name TEXT NOT NULL, specialty TEXT NOT NULL, is_active INTEGER NOT NULL,
  hired_on DATE NOT NULL);
CREATE TABLE patients (
  patient_id INTEGER PRIMARY KEY, patient_name TEXT NOT NULL, gender TEXT NOT NULL, birth_date DATE NOT NULL,
  insurance TEXT, smoker CHAR(1) NOT NULL);
CREATE TABLE appointments (
  appointment_id INTEGER PRIMARY KEY, patient_id INTEGER NOT NULL REFERENCES patients(patient_id),
  doctor_id INTEGER NOT NULL REFERENCES doctors(doctor_id), starts_at TIMESTAMP NOT NULL,
  duration_minutes INTEGER NOT NULL, state TEXT NOT NULL, fee NUMERIC);
CREATE TABLE prescriptions (
  prescription_id INTEGER PRIMARY KEY, appointment_id INTEGER NOT NULL REFERENCES appointments(appointment_id),
  drug TEXT NOT NULL, dose_mg INTEGER NOT NULL);
"""

NAMES = """
    Abel Berg Cole Diaz Evans Fuchs Grant Haas Iversen Jung Klein Lopez Marsh Nagy Olsen Price Quinn Reyes
""".split()  # noqa: SIM905
DRUGS = """
    Ibuprofen Amoxicillin Metformin Atorvastatin Omeprazole Lisinopril
""".split()  # noqa: SIM905
SPECIALTIES = ("cardiology", "dermatology", "pediatrics", "neurology")


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(23)
    doctors = [
        (number, f"Dr. {name}", SPECIALTIES[number % 4], int(number % 5 != 0),
         (date(2010, 3, 1) + timedelta(days=211 * number)).isoformat())
        for number, name in enumerate(NAMES[:14], 1)
    ]  # fmt: skip
    patients = []
    for number in range(1, 401):
        born = date(1938, 1, 1) + timedelta(days=random.randrange(365 * 84))
        insurance = random.choice(["AOK", "Barmer", "DAK", None])
        name = f"{random.choice(NAMES)}, {chr(65 + number % 26)}. {number}"
        smoker = "Y" if random.random() < 0.2 else "N"
        patients.append((number, name, random.choice("FM"), born.isoformat(), insurance, smoker))
    appointments, prescriptions = [], []
    for number in range(1, 2401):
        starts = datetime(2024, 1, 1, 8) + timedelta(
            days=random.randrange(600), minutes=15 * random.randrange(36)
        )
        state = random.choice(["done", "done", "done", "booked", "no-show"])
        fee = round(random.uniform(20, 220), 2) if state == "done" else None
        appointments.append(
            (number, random.randrange(1, 381), random.randrange(1, 14), f"{starts:%Y-%m-%d %H:%M:%S}",
             random.choice([15, 30, 45]), state, fee)
        )  # fmt: skip
        if state == "done" and random.random() < 0.5:
            prescriptions.append(
                (len(prescriptions) + 1, number, random.choice(DRUGS), random.choice([5, 10, 250, 500]))
            )
    return {
        "doctors": doctors,
        "patients": patients,
        "appointments": appointments,
        "prescriptions": prescriptions,
    }


QUESTIONS = (
    ("How many patients do we have?", "SELECT count(*) FROM patients"),
    ("How many patients are female?", "SELECT count(*) FROM patients WHERE gender = 'F'"),
    ("How many patients are smokers?", "SELECT count(*) FROM patients WHERE smoker = 'Y'"),
    ("How many non-smokers are there among the patients?", "SELECT count(*) FROM patients WHERE smoker = 'N'"),
    ("How many patients are older than 65?", "SELECT count(*) FROM patients WHERE birth_date < '1959-06-19'"),
    ("Who is the oldest patient?", "SELECT patient_name FROM patients ORDER BY birth_date LIMIT 1"),
    ("How many patients have no insurance?", "SELECT count(*) FROM patients WHERE insurance IS NULL"),
    ("List the names of the inactive doctors.", "SELECT full_name FROM doctors WHERE is_active = 0"),
    ("How many active doctors work in cardiology?",
     "SELECT count(*) FROM doctors WHERE is_active = 1 AND specialty = 'cardiology'"),
    ("How many appointments are there today?",
     "SELECT count(*) FROM appointments WHERE starts_at >= '2025-06-18' AND starts_at < '2025-06-19'"),
    ("How many appointments were there in the last 30 days?",
     "SELECT count(*) FROM appointments WHERE starts_at >= '2025-05-19' AND starts_at < '2025-06-18'"),
    ("How many appointments took place between 2025-01-01 and 2025-01-31?",
     "SELECT count(*) FROM appointments WHERE starts_at >= '2025-01-01' AND starts_at < '2025-02-01'"),
    ("How many appointments does Dr. Berg have?",
     "SELECT count(*) FROM appointments JOIN doctors USING (doctor_id) WHERE full_name = 'Dr. Berg'"),
    ("How many appointments does Dr. Bergmann have?",
     "SELECT count(*) FROM appointments JOIN doctors USING (doctor_id) WHERE full_name = 'Dr. Bergmann'"),
    ("What is the average fee of appointments?", "SELECT avg(fee) FROM appointments"),
    ("Which doctor has the most appointments?",
     "SELECT full_name FROM doctors JOIN appointments USING (doctor_id) GROUP BY doctor_id "
     "ORDER BY count(*) DESC LIMIT 1"),
    ("How many prescriptions of Ibuprofen were written?",
     "SELECT count(*) FROM prescriptions WHERE drug = 'Ibuprofen'"),
    ("How many prescriptions of Aspirin were written?", "SELECT count(*) FROM prescriptions WHERE drug = 'Aspirin'"),
    ("What is the cheapest fee?", "SELECT min(fee) FROM appointments"),
    ("Which doctors have no appointments?",
     "SELECT full_name FROM doctors WHERE doctor_id NOT IN (SELECT doctor_id FROM appointments)"),
    ("How many appointments ended in a no-show?", "SELECT count(*) FROM appointments WHERE state = 'no-show'"),
    ("What percentage of patients smoke?", None),
    ("Which patients are allergic to penicillin?", None),
    ("How satisfied are patients with Dr. Klein?", None),
)  # fmt: skip

CLINIC = Part("clinic", SCRIPT, rows, QUESTIONS)

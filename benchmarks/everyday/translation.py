"""A translation bureau: clients, languages, translators, projects, assignments and invoices.

A tidy schema: full words, declared foreign keys, real booleans and dates.
"""

from __future__ import annotations

from datetime import date, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE clients (
  client_id INTEGER PRIMARY KEY, client_number VARCHAR(8) NOT NULL, name VARCHAR(60) NOT NULL,
  industry VARCHAR(30) NOT NULL, city VARCHAR(40) NOT NULL, country VARCHAR(40) NOT NULL, contact_email VARCHAR(80),
  client_since DATE NOT NULL, payment_term_days INTEGER NOT NULL, active BOOLEAN NOT NULL);
CREATE TABLE languages (
  language_code CHAR(2) PRIMARY KEY, language_name VARCHAR(30) NOT NULL);
CREATE TABLE translators (
  translator_id INTEGER PRIMARY KEY, first_name VARCHAR(40) NOT NULL, last_name VARCHAR(40) NOT NULL,
  email VARCHAR(80) NOT NULL, native_language_code CHAR(2) NOT NULL REFERENCES languages(language_code),
  freelance BOOLEAN NOT NULL, sworn BOOLEAN NOT NULL, rate_per_word NUMERIC(5, 3) NOT NULL,
  joined_on DATE NOT NULL, left_on DATE);
CREATE TABLE projects (
  project_id INTEGER PRIMARY KEY, project_number VARCHAR(10) NOT NULL, title VARCHAR(80) NOT NULL,
  client_id INTEGER NOT NULL REFERENCES clients(client_id),
  source_language_code CHAR(2) NOT NULL REFERENCES languages(language_code),
  target_language_code CHAR(2) NOT NULL REFERENCES languages(language_code),
  subject VARCHAR(20) NOT NULL, word_count INTEGER NOT NULL, price NUMERIC(9, 2) NOT NULL,
  status VARCHAR(12) NOT NULL, received_on DATE NOT NULL, due_on DATE NOT NULL, delivered_on DATE);
CREATE TABLE assignments (
  assignment_id INTEGER PRIMARY KEY, project_id INTEGER NOT NULL REFERENCES projects(project_id),
  translator_id INTEGER NOT NULL REFERENCES translators(translator_id), task VARCHAR(15) NOT NULL,
  words INTEGER NOT NULL, fee NUMERIC(8, 2) NOT NULL);
CREATE TABLE invoices (
  invoice_id INTEGER PRIMARY KEY, invoice_number VARCHAR(12) NOT NULL,
  project_id INTEGER NOT NULL REFERENCES projects(project_id), issued_on DATE NOT NULL, due_on DATE NOT NULL,
  amount NUMERIC(9, 2) NOT NULL, paid_on DATE);
"""

TODAY = date(2025, 6, 18)

LANGUAGES = (
    ("de", "German"), ("en", "English"), ("fr", "French"), ("it", "Italian"), ("es", "Spanish"), ("pl", "Polish"),
    ("nl", "Dutch"), ("cs", "Czech"), ("sv", "Swedish"), ("pt", "Portuguese"),
)  # fmt: skip
CLIENTS = (
    ("Nordwind Pharma", "pharma", "Hamburg", "Germany"), ("Nordwind Logistik", "transport", "Hamburg", "Germany"),
    ("Hansen Medical", "medical devices", "Lübeck", "Germany"), ("Hansen & Sohn", "engineering", "Bremen", "Germany"),
    ("Alpina Maschinenbau", "engineering", "Linz", "Austria"), ("Alpina Tours", "tourism", "Innsbruck", "Austria"),
    ("Kanzlei Vogt", "law firm", "Vienna", "Austria"), ("Kanzlei Vogel & Partner", "law firm", "Zurich", "Switzerland"),
    ("Helvetia Instruments", "medical devices", "Basel", "Switzerland"), ("Brunner Pharma", "pharma", "Basel", "Switzerland"),
    ("Blue Heron Books", "publishing", "London", "United Kingdom"), ("Heron Bank", "finance", "London", "United Kingdom"),
    ("Meridian Capital", "finance", "Frankfurt", "Germany"), ("Meridian Hotels", "tourism", "Munich", "Germany"),
    ("Studio Lumière", "media", "Lyon", "France"), ("Lumen Energie", "energy", "Strasbourg", "France"),
    ("Delacroix Avocats", "law firm", "Paris", "France"), ("Van den Berg Zaden", "agriculture", "Utrecht", "Netherlands"),
    ("Bergman Shipping", "transport", "Rotterdam", "Netherlands"), ("Oliva & Figli", "food", "Bologna", "Italy"),
    ("Torrefazione Bruno", "food", "Turin", "Italy"), ("Wieliczka Tools", "engineering", "Kraków", "Poland"),
    ("Polmed", "medical devices", "Warsaw", "Poland"), ("Polmet Stal", "engineering", "Katowice", "Poland"),
    ("Sörensen Vind", "energy", "Malmö", "Sweden"), ("Iberia Cerámica", "construction", "Valencia", "Spain"),
    ("Casa Moreno", "food", "Seville", "Spain"), ("Becker Bau", "construction", "Cologne", "Germany"),
    ("Becker Verlag", "publishing", "Berlin", "Germany"), ("Stadt Lindau", "public sector", "Lindau", "Germany"),
    ("Landkreis Emsland", "public sector", "Meppen", "Germany"), ("Quartz Software", "software", "Berlin", "Germany"),
    ("Quarzwerk Software Labs", "software", "Dresden", "Germany"), ("Tallis Games", "software", "Brighton", "United Kingdom"),
    ("Orchard Foods", "food", "Bristol", "United Kingdom"), ("Praxis Dr. Lenz", "medical devices", "Graz", "Austria"),
    ("Danube Freight", "transport", "Vienna", "Austria"), ("Pfeiffer Optik", "engineering", "Jena", "Germany"),
    ("Rhenus Versicherung", "finance", "Mainz", "Germany"), ("Sonnberg Kliniken", "pharma", "Kassel", "Germany"),
)  # fmt: skip
TRANSLATORS = (
    ("Anna", "Keller"), ("Anne", "Kellner"), ("Anna", "Weber"), ("Piotr", "Nowak"), ("Paula", "Nowacka"),
    ("Luc", "Moreau"), ("Lucie", "Moreau"), ("Giulia", "Conti"), ("Marta", "Zielinska"), ("Joost", "de Wit"),
    ("Ines", "Carvalho"), ("Sofia", "Lindgren"), ("Tomas", "Dvorak"), ("Helen", "Marsh"), ("Oliver", "Marsh"),
    ("Carmen", "Ortega"), ("Diego", "Ruiz"), ("Katrin", "Schulte"), ("Jonas", "Brandt"), ("Eva", "Brand"),
    ("Miriam", "Stern"), ("Claire", "Dubois"), ("Paolo", "Ferri"), ("Kasia", "Wrona"), ("Ben", "Whitaker"),
    ("Sanne", "Visser"), ("Elif", "Aydin"), ("Nils", "Ekholm"), ("Petra", "Horak"), ("Rui", "Teixeira"),
    ("Judith", "Lang"), ("Martin", "Lange"), ("Fiona", "Grady"), ("Yves", "Lambert"), ("Beata", "Kowal"),
    ("Rosa", "Vidal"),
)  # fmt: skip
SUBJECTS = {
    "legal": (
        "Supply contract",
        "Terms and conditions",
        "Court ruling",
        "Articles of association",
        "Lease agreement",
    ),
    "medical": ("Package leaflet", "Clinical study report", "Instructions for use", "Patient information"),
    "technical": ("Operating manual", "Spare parts list", "Safety data sheet", "Maintenance guide"),
    "marketing": ("Website relaunch", "Product brochure", "Newsletter", "Press release"),
    "financial": ("Annual report", "Audit report", "Fund prospectus"),
    "literary": ("Novel sample chapters", "Exhibition catalogue", "Film subtitles"),
}
PAIRS = (("de", "en"),) * 6 + (("en", "de"),) * 4 + (("de", "fr"),) * 3 + (("fr", "de"),) * 2 + (("de", "pl"),) * 2 + (
    ("pl", "de"), ("de", "it"), ("en", "fr"), ("en", "es"), ("de", "nl"), ("nl", "de"), ("de", "cs"), ("en", "sv"),
    ("de", "es"), ("en", "pt"), ("it", "de"),
)  # fmt: skip


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(51)
    clients = []
    for n, (name, industry, city, country) in enumerate(CLIENTS, 1):
        slug = "".join(c for c in name.lower() if c.isascii() and c.isalpha())
        clients.append(
            (n, f"C-{n * 17 + 100:04d}", name, industry, city, country,
             f"office@{slug}.example" if random.random() < 0.85 else None,
             f"{date(2012, 1, 9) + timedelta(days=n * 97 + random.randrange(60)):%Y-%m-%d}" if n != 34 else "2025-02-11",
             random.choice((14, 30, 30, 30, 45, 60)), n not in (6, 16, 21, 31))
        )  # fmt: skip
    translators = []
    natives = ("de", "de", "de", "pl", "pl", "fr", "fr", "it", "pl", "nl", "pt", "sv", "cs", "en", "en", "es", "es",
               "de", "de", "de", "en", "fr", "it", "pl", "en", "nl", "de", "sv", "cs", "pt", "de", "de", "en", "fr",
               "pl", "es")  # fmt: skip
    for n, (first, last) in enumerate(TRANSLATORS, 1):
        joined = date(2014, 3, 1) + timedelta(days=random.randrange(3900))
        left = (
            f"{date(2024, 1, 31) + timedelta(days=random.randrange(480)):%Y-%m-%d}"
            if n in (9, 17, 27, 33)
            else None
        )
        mail = f"{first}.{last}@words.example".lower().replace(" ", "")
        translators.append(
            (n, first, last, mail, natives[n - 1], n % 4 != 1, random.random() < 0.35,
             round(random.uniform(0.06, 0.16), 3), f"{joined:%Y-%m-%d}", left)
        )  # fmt: skip
    projects, assignments, invoices = [], [], []
    weights = [random.choice((1, 2, 3, 4, 8)) for _ in CLIENTS]
    counters: dict[int, int] = {}
    received = date(2023, 1, 9)
    number = 0
    while received < TODAY:
        number += 1
        counters[received.year] = counters.get(received.year, 0) + 1
        client = random.choices(range(1, 41), weights)[0]
        if client == 34 and received < date(2025, 2, 11):
            client = 8
        source, target = random.choice(PAIRS)
        subject = random.choice(tuple(SUBJECTS))
        title = f"{random.choice(SUBJECTS[subject])} {random.choice(('A', 'B', '2', '3', 'North', 'South', 'new', 'rev. 4'))}"
        words = int(random.choice((400, 900, 1500, 3000, 6000, 12000, 21000)) * random.uniform(0.6, 1.4))
        price = round(words * random.uniform(0.14, 0.24) + 20, 2)
        due = received + timedelta(days=3 + words // 1200 + random.randrange(8))
        delivered = due + timedelta(days=random.choice((-3, -2, -1, -1, 0, 0, 0, 0, 1, 2, 5)))
        status, handed = "delivered", f"{delivered:%Y-%m-%d}"
        if random.random() < 0.05:
            status, handed = "cancelled", None
        elif delivered >= TODAY or (received > date(2025, 5, 20) and random.random() < 0.2):
            status, handed = "in progress", None
            if received > date(2025, 6, 4) and random.random() < 0.3:
                status = "quoted"
        projects.append(
            (number, f"P-{received:%y}-{counters[received.year]:04d}", title, client, source, target, subject, words,
             price, status, f"{received:%Y-%m-%d}", f"{due:%Y-%m-%d}", handed)
        )  # fmt: skip
        if status != "quoted":
            tasks = ("translation", "review", "proofreading")[: random.choice((1, 2, 2, 3))]
            crew = random.sample(range(1, 35), len(tasks))
            for task, person in zip(tasks, crew):
                rate = (
                    translators[person - 1][7] * {"translation": 1, "review": 0.4, "proofreading": 0.25}[task]
                )
                assignments.append(
                    (len(assignments) + 1, number, person, task, words, round(words * rate, 2))
                )
        if status == "delivered" and random.random() < (0.97 if delivered < date(2025, 5, 1) else 0.6):
            issued = delivered + timedelta(days=random.randrange(1, 9))
            if issued < TODAY:
                term = clients[client - 1][8]
                paid = issued + timedelta(days=max(2, term + random.randrange(-14, 25)))
                settled = paid < TODAY and random.random() < 0.97
                invoices.append((issued, number, term, price, f"{paid:%Y-%m-%d}" if settled else None))
        received += timedelta(days=random.choice((0, 0, 1, 1, 1, 2)) if received.weekday() < 4 else 3)
    invoices.sort(key=lambda row: row[:2])
    bills, in_year = [], {}
    for n, (issued, project, term, price, paid) in enumerate(invoices, 1):
        in_year[issued.year] = in_year.get(issued.year, 0) + 1
        bills.append(
            (n, f"INV-{issued:%y}-{in_year[issued.year]:04d}", project, f"{issued:%Y-%m-%d}",
             f"{issued + timedelta(days=term):%Y-%m-%d}", price, paid)
        )  # fmt: skip
    return {
        "clients": clients, "languages": list(LANGUAGES), "translators": translators, "projects": projects,
        "assignments": assignments, "invoices": bills,
    }  # fmt: skip


QUESTIONS = (
    ("how many projects did we deliver last month",
     "SELECT count(*) FROM projects WHERE delivered_on >= '2025-05-01' AND delivered_on < '2025-06-01'"),
    ("Which projects are in progress right now?", "SELECT project_number FROM projects WHERE status = 'in progress'"),
    ("clients in Austria?", "SELECT name FROM clients WHERE country = 'Austria'"),
    ("Which projects are still in progress although their due date has passed?",
     "SELECT project_number FROM projects WHERE status = 'in progress' AND due_on < '2025-06-18'"),
    ("total of all unpaid invoices", "SELECT sum(amount) FROM invoices WHERE paid_on IS NULL"),
    ("when was invoice INV-25-0041 paid", "SELECT paid_on FROM invoices WHERE invoice_number = 'INV-25-0041'"),
    ("Who are our five biggest clients by invoiced amount this year?",
     "SELECT name FROM invoices JOIN projects USING (project_id) JOIN clients USING (client_id) "
     "WHERE issued_on >= '2025-01-01' AND issued_on < '2026-01-01' "
     "GROUP BY client_id ORDER BY sum(amount) DESC LIMIT 5"),
    ("How many words has Anna Keller translated so far?",
     "SELECT sum(words) FROM assignments JOIN translators USING (translator_id) "
     "WHERE first_name = 'Anna' AND last_name = 'Keller' AND task = 'translation'"),
    ("average rate per word of the freelancers", "SELECT avg(rate_per_word) FROM translators WHERE freelance = 1"),
    ("Which translators have never had an assignment?",
     "SELECT first_name, last_name FROM translators "
     "WHERE translator_id NOT IN (SELECT translator_id FROM assignments)"),
    ("number of projects per target language",
     "SELECT language_name, count(*) FROM projects JOIN languages ON language_code = target_language_code "
     "GROUP BY language_code"),
    ("email of Anne Kellner",
     "SELECT email FROM translators WHERE first_name = 'Anne' AND last_name = 'Kellner'"),
    ("Which sworn translators are native Polish speakers?",
     "SELECT first_name, last_name FROM translators JOIN languages ON language_code = native_language_code "
     "WHERE sworn = 1 AND language_name = 'Polish'"),
    ("How many translators have left us?", "SELECT count(*) FROM translators WHERE left_on IS NOT NULL"),
    ("clients without a contact email", "SELECT name FROM clients WHERE contact_email IS NULL"),
    ("What is the title of the most expensive project?", "SELECT title FROM projects ORDER BY price DESC LIMIT 1"),
    ("avg price of legal projects", "SELECT avg(price) FROM projects WHERE subject = 'legal'"),
    ("How many projects did we receive from Nordwind Pharma this year?",
     "SELECT count(*) FROM projects JOIN clients USING (client_id) WHERE name = 'Nordwind Pharma' "
     "AND received_on >= '2025-01-01' AND received_on < '2026-01-01'"),
    ("Good morning, could you please tell me which translators are assigned to project P-25-0042? Thank you!",
     "SELECT first_name, last_name FROM assignments JOIN translators USING (translator_id) "
     "JOIN projects USING (project_id) WHERE project_number = 'P-25-0042'"),
    ("how many of the projects received in 2024 were cancelled?",
     "SELECT count(*) FROM projects WHERE status = 'cancelled' "
     "AND received_on >= '2024-01-01' AND received_on < '2025-01-01'"),
    ("invoices issued in March 2025, how many",
     "SELECT count(*) FROM invoices WHERE issued_on >= '2025-03-01' AND issued_on < '2025-04-01'"),
    ("What was the total price of the medical projects received in the first quarter of 2025?",
     "SELECT sum(price) FROM projects WHERE subject = 'medical' "
     "AND received_on >= '2025-01-01' AND received_on < '2025-04-01'"),
    ("Which clients have given us more than 40 projects?",
     "SELECT name FROM projects JOIN clients USING (client_id) GROUP BY client_id HAVING count(*) > 40"),
    ("delivered projects that have not been invoiced yet",
     "SELECT project_number FROM projects WHERE status = 'delivered' "
     "AND project_id NOT IN (SELECT project_id FROM invoices)"),
    ("Which language combination do we do most often?",
     "SELECT source_language_code, target_language_code FROM projects "
     "GROUP BY source_language_code, target_language_code ORDER BY count(*) DESC LIMIT 1"),
    ("how many german to english projects have we had?",
     "SELECT count(*) FROM projects WHERE source_language_code = 'de' AND target_language_code = 'en'"),
    ("Which clients are no longer active?", "SELECT name FROM clients WHERE active = 0"),
    ("Which open projects, i.e. in progress, are due this week?",
     "SELECT project_number FROM projects WHERE status = 'in progress' "
     "AND due_on >= '2025-06-16' AND due_on < '2025-06-23'"),
    ("highest fee we ever paid for proofreading", "SELECT max(fee) FROM assignments WHERE task = 'proofreading'"),
    ("total fees by task", "SELECT task, sum(fee) FROM assignments GROUP BY task"),
    ("who is our newest client?", "SELECT name FROM clients ORDER BY client_since DESC LIMIT 1"),
    ("list project numbers of all projects with more than 29000 words",
     "SELECT project_number FROM projects WHERE word_count > 29000"),
    ("How many projects were delivered late in 2025?",
     "SELECT count(*) FROM projects WHERE delivered_on > due_on "
     "AND delivered_on >= '2025-01-01' AND delivered_on < '2026-01-01'"),
    ("Which industry has the most clients?",
     "SELECT industry FROM clients GROUP BY industry ORDER BY count(*) DESC LIMIT 1"),
    ("How many freelance translators joined in 2022 or later?",
     "SELECT count(*) FROM translators WHERE freelance = 1 AND joined_on >= '2022-01-01'"),
    ("payment terms for Hansen Medical", "SELECT payment_term_days FROM clients WHERE name = 'Hansen Medical'"),
    ("who is client C-0219", "SELECT name FROM clients WHERE client_number = 'C-0219'"),
    ("How many days does it take on average from issuing an invoice until it is paid?",
     "SELECT avg(julianday(paid_on) - julianday(issued_on)) FROM invoices WHERE paid_on IS NOT NULL"),
    ("I need the number of invoices that are overdue, so unpaid and past their due date",
     "SELECT count(*) FROM invoices WHERE paid_on IS NULL AND due_on < '2025-06-18'"),
    ("translators who are not freelance", "SELECT first_name, last_name FROM translators WHERE freelance = 0"),
    ("How many different clients sent us a project in 2024?",
     "SELECT count(DISTINCT client_id) FROM projects WHERE received_on >= '2024-01-01' AND received_on < '2025-01-01'"),
    ("which translator has earned the most in fees",
     "SELECT first_name, last_name FROM assignments JOIN translators USING (translator_id) "
     "GROUP BY translator_id ORDER BY sum(fee) DESC LIMIT 1"),
    ("What subjects do we translate?", "SELECT DISTINCT subject FROM projects"),
    ("titles of the cancelled projects of Becker Verlag",
     "SELECT title FROM projects JOIN clients USING (client_id) WHERE name = 'Becker Verlag' AND status = 'cancelled'"),
    ("biggest invoice this year?",
     "SELECT invoice_number FROM invoices WHERE issued_on >= '2025-01-01' AND issued_on < '2026-01-01' "
     "ORDER BY amount DESC LIMIT 1"),
    ("What phone number does Anna Weber have?", None),
    ("Which CAT tool was used for project P-24-0100?", None),
    ("How satisfied are our clients with the translations?", None),
    ("how many hours did Piotr Nowak work last week", None),
    ("Which competitor did Alpina Tours go to?", None),
    ("What discount does Heron Bank get?", None),
    ("Which translators are on holiday next week?", None),
    ("how many reminders have we sent for invoice INV-25-0041", None),
)  # fmt: skip

ALTERNATIVES = {
    "clients in Austria?": ("SELECT count(*) FROM clients WHERE country = 'Austria'",),
    "How many words has Anna Keller translated so far?": (
        "SELECT sum(words) FROM assignments JOIN translators USING (translator_id) "
        "WHERE first_name = 'Anna' AND last_name = 'Keller'",
    ),
    "average rate per word of the freelancers": (
        "SELECT avg(rate_per_word) FROM translators WHERE freelance = 1 AND left_on IS NULL",
    ),
    "number of projects per target language": (
        "SELECT target_language_code, count(*) FROM projects GROUP BY target_language_code",
    ),
    "Which sworn translators are native Polish speakers?": (
        "SELECT first_name, last_name FROM translators WHERE sworn = 1 AND native_language_code = 'pl' "
        "AND left_on IS NULL",
    ),
    "delivered projects that have not been invoiced yet": (
        "SELECT title FROM projects WHERE status = 'delivered' "
        "AND project_id NOT IN (SELECT project_id FROM invoices)",
        "SELECT count(*) FROM projects WHERE status = 'delivered' "
        "AND project_id NOT IN (SELECT project_id FROM invoices)",
    ),
    "Which projects are in progress right now?": ("SELECT title FROM projects WHERE status = 'in progress'",),
    "Which projects are still in progress although their due date has passed?": (
        "SELECT title FROM projects WHERE status = 'in progress' AND due_on < '2025-06-18'",
    ),
    "Which open projects, i.e. in progress, are due this week?": (
        "SELECT title FROM projects WHERE status = 'in progress' AND due_on >= '2025-06-16' AND due_on < '2025-06-23'",
        "SELECT project_number FROM projects WHERE status = 'in progress' "
        "AND due_on >= '2025-06-18' AND due_on < '2025-06-23'",
    ),
    "Which language combination do we do most often?": (
        "SELECT s.language_name, t.language_name FROM projects "
        "JOIN languages s ON s.language_code = source_language_code "
        "JOIN languages t ON t.language_code = target_language_code "
        "GROUP BY source_language_code, target_language_code ORDER BY count(*) DESC LIMIT 1",
    ),
    "translators who are not freelance": (
        "SELECT first_name, last_name FROM translators WHERE freelance = 0 AND left_on IS NULL",
    ),
    "biggest invoice this year?": (
        "SELECT max(amount) FROM invoices WHERE issued_on >= '2025-01-01' AND issued_on < '2026-01-01'",
    ),
}

TRANSLATION = Part("translation", SCRIPT, rows, QUESTIONS, ALTERNATIVES)

"""A catering company: clients, venues, staff, dishes, bookings and shifts, tidy and with declared keys."""

from __future__ import annotations

from datetime import date, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE clients (
  client_id INTEGER PRIMARY KEY, name VARCHAR(60) NOT NULL, client_type VARCHAR(20) NOT NULL, city VARCHAR(40) NOT NULL,
  email VARCHAR(80) NOT NULL, phone VARCHAR(20), joined_on DATE NOT NULL);
CREATE TABLE venues (
  venue_id INTEGER PRIMARY KEY, name VARCHAR(60) NOT NULL, city VARCHAR(40) NOT NULL, capacity INTEGER NOT NULL,
  has_kitchen BOOLEAN NOT NULL);
CREATE TABLE employees (
  employee_id INTEGER PRIMARY KEY, first_name VARCHAR(40) NOT NULL, last_name VARCHAR(40) NOT NULL,
  role VARCHAR(20) NOT NULL, hourly_rate NUMERIC(6, 2) NOT NULL, hired_on DATE NOT NULL, left_on DATE);
CREATE TABLE dishes (
  dish_id INTEGER PRIMARY KEY, name VARCHAR(60) NOT NULL, course VARCHAR(20) NOT NULL,
  price_per_portion NUMERIC(6, 2) NOT NULL, vegetarian BOOLEAN NOT NULL, gluten_free BOOLEAN NOT NULL);
CREATE TABLE bookings (
  booking_id INTEGER PRIMARY KEY, booking_number VARCHAR(10) NOT NULL,
  client_id INTEGER NOT NULL REFERENCES clients(client_id), venue_id INTEGER REFERENCES venues(venue_id),
  coordinator_id INTEGER NOT NULL REFERENCES employees(employee_id), event_type VARCHAR(20) NOT NULL,
  booked_on DATE NOT NULL, event_date DATE NOT NULL, guests INTEGER NOT NULL, status VARCHAR(12) NOT NULL,
  total_price NUMERIC(10, 2) NOT NULL, deposit_paid_on DATE);
CREATE TABLE booking_dishes (
  booking_id INTEGER NOT NULL REFERENCES bookings(booking_id), dish_id INTEGER NOT NULL REFERENCES dishes(dish_id),
  portions INTEGER NOT NULL, PRIMARY KEY (booking_id, dish_id));
CREATE TABLE shifts (
  shift_id INTEGER PRIMARY KEY, booking_id INTEGER NOT NULL REFERENCES bookings(booking_id),
  employee_id INTEGER NOT NULL REFERENCES employees(employee_id), work_date DATE NOT NULL,
  hours NUMERIC(4, 2) NOT NULL);
"""

CITIES = ("Leeds", "York", "Harrogate", "Sheffield", "Bradford")
COMPANIES = (
    "Brightwater Foods", "Aire Valley Bank", "Northgate Legal", "Kestrel Software", "Dales Insurance", "Holme Mills",
    "Pennine Rail", "Rowntree Trust", "Calder Housing", "White Rose Motors", "Ridings Radio", "Owl Press",
    "Steelworks Union", "Minster Dental", "Tarn Energy", "Fountain Estates", "Beck and Sons", "Hazel Recruitment",
    "Larkfield Pharma", "Summit Outdoor",
)  # fmt: skip
PUBLIC = (
    "Leeds City Council",
    "York Museums Service",
    "Harrogate College",
    "Sheffield Hospital",
    "Bradford Libraries",
)
FAMILIES = (
    "Adeyemi", "Barker", "Chowdhury", "Dawson", "Ellis", "Farrow", "Gupta", "Hirst", "Iqbal", "Jowett", "Khan",
    "Lister", "Murgatroyd", "Naylor", "Oldroyd", "Priestley", "Quarmby", "Rashid", "Sugden", "Tordoff", "Usman",
    "Varley", "Womersley", "Yates", "Zielinski", "Ackroyd", "Binns", "Crabtree", "Denby", "Emsley",
)  # fmt: skip
VENUES = (
    ("Corn Exchange", "Leeds", 420, True), ("Royal Armouries Hall", "Leeds", 650, True),
    ("Kirkstall Barn", "Leeds", 140, False), ("Merchant Hall", "York", 260, True),
    ("Railway Shed", "York", 500, False), ("Walled Garden", "York", 90, False),
    ("Crown Rooms", "Harrogate", 310, True), ("Valley Pavilion", "Harrogate", 180, True),
    ("Spa Gallery", "Harrogate", 120, False), ("Cutlers House", "Sheffield", 380, True),
    ("Kelham Foundry", "Sheffield", 240, False), ("Botanical Glasshouse", "Sheffield", 110, False),
    ("Wool Hall", "Bradford", 280, True), ("Lister Mill Loft", "Bradford", 160, True),
    ("Cartwright Terrace", "Bradford", 200, False), ("Temple Works", "Leeds", 800, False),
    ("Knavesmire Marquee", "York", 350, False), ("Bolton Chapel", "Bradford", 75, True),
)  # fmt: skip
STAFF = (
    ("Marta", "Keane", "coordinator"), ("Dev", "Patel", "coordinator"), ("Ruth", "Ogden", "coordinator"),
    ("Simon", "Thwaite", "coordinator"), ("Anneke", "Visser", "coordinator"), ("Luca", "Romano", "chef"),
    ("Grace", "Mbeki", "chef"), ("Piotr", "Nowak", "chef"), ("Hannah", "Sykes", "chef"), ("Jonas", "Weber", "chef"),
    ("Ines", "Duarte", "chef"), ("Callum", "Reid", "chef"), ("Ola", "Bello", "bartender"),
    ("Freya", "Holt", "bartender"), ("Kit", "Marlow", "bartender"), ("Tess", "Garner", "bartender"),
    ("Amir", "Shah", "waiter"), ("Becky", "Lund", "waiter"), ("Carlos", "Vega", "waiter"), ("Dina", "Petrova", "waiter"),
    ("Eddie", "Firth", "waiter"), ("Fatima", "Noor", "waiter"), ("George", "Tan", "waiter"), ("Holly", "Brook", "waiter"),
    ("Ivan", "Kral", "waiter"), ("Jess", "Armitage", "waiter"), ("Kofi", "Mensah", "waiter"), ("Lily", "Chen", "waiter"),
    ("Mo", "Hassan", "waiter"), ("Nina", "Rossi", "waiter"), ("Owen", "Hughes", "driver"), ("Paula", "Finch", "driver"),
    ("Rafal", "Zak", "driver"),
)  # fmt: skip
DISHES = (
    ("Smoked salmon blini", "starter", 6.5, False, False), ("Beetroot carpaccio", "starter", 5.2, True, True),
    ("Leek and potato soup", "starter", 4.1, True, True), ("Chicken liver pate", "starter", 5.8, False, False),
    ("Goat cheese tart", "starter", 5.6, True, False), ("Prawn cocktail", "starter", 6.9, False, True),
    ("Ham hock terrine", "starter", 6.2, False, True), ("Braised beef cheek", "main", 18.5, False, True),
    ("Roast lamb shoulder", "main", 19.75, False, True), ("Cod with samphire", "main", 17.2, False, True),
    ("Chicken and leek pie", "main", 13.4, False, False), ("Mushroom wellington", "main", 14.1, True, False),
    ("Chickpea tagine", "main", 11.9, True, True), ("Aubergine parmigiana", "main", 12.6, True, False),
    ("Sirloin of beef", "main", 24.0, False, True), ("Vegetable biryani", "main", 11.2, True, True),
    ("Sticky toffee pudding", "dessert", 6.3, True, False), ("Lemon posset", "dessert", 5.1, True, True),
    ("Chocolate torte", "dessert", 6.8, True, True), ("Rhubarb crumble", "dessert", 5.4, True, False),
    ("Fruit platter", "dessert", 4.7, True, True), ("Cheese board", "dessert", 7.9, True, False),
    ("Mini Yorkshire puddings", "canape", 2.9, False, False), ("Halloumi skewers", "canape", 3.1, True, True),
    ("Crab tartlets", "canape", 3.8, False, False), ("Olive crostini", "canape", 2.4, True, False),
    ("Duck spring rolls", "canape", 3.3, False, False), ("Stuffed peppers", "canape", 2.7, True, True),
    ("Venison sausage rolls", "canape", 3.5, False, False), ("Oysters on ice", "canape", 4.9, False, True),
)  # fmt: skip
EVENTS = ("wedding", "conference", "birthday", "gala dinner", "christening", "office lunch")


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(61)
    today = date(2025, 6, 18)
    names = [(n, "corporate") for n in COMPANIES] + [(n, "public sector") for n in PUBLIC]
    names += [(f"{n} family", "private") for n in FAMILIES]
    clients = []
    for number, (name, kind) in enumerate(names, 1):
        domain = "".join(c for c in name.lower() if c.isalpha())
        city = next((c for c in CITIES if name.startswith(c)), None) or random.choice(CITIES)
        clients.append(
            (number, name, kind, city, f"events@{domain}.example",
             f"01{random.randrange(10**8, 10**9)}" if random.random() < 0.75 else None,
             str(date(2018, 1, 8) + timedelta(days=random.randrange(2600))))
        )  # fmt: skip
    venues = [(n, *v) for n, v in enumerate(VENUES, 1)]
    base = {"coordinator": 21.0, "chef": 19.0, "bartender": 13.5, "waiter": 12.2, "driver": 13.0}
    employees = []
    for number, (first, last, role) in enumerate(STAFF, 1):
        hired = date(2017, 3, 1) + timedelta(days=random.randrange(2900))
        left = None
        if number in (9, 15, 19, 23, 25, 30):
            left = str(date(2024, 9, 1) + timedelta(days=random.randrange(270)))
            hired = date(2017, 3, 1) + timedelta(days=random.randrange(2000))
        rate = base[role] + random.randrange(0, 18) * 0.25
        employees.append((number, first, last, role, rate, str(hired), left))
    dishes = [(n, *d) for n, d in enumerate(DISHES, 1)]
    bookings, lines, shifts = [], [], []
    for number in range(1, 521):
        event = date(2023, 7, 1) + timedelta(days=random.randrange(825))
        booked = min(
            event - timedelta(days=random.randrange(10, 200)), today - timedelta(days=random.randrange(0, 40))
        )
        # Every client joined before the first booking of theirs; some clients have not booked yet.
        who = random.choice([c for c in clients if c[6] <= str(booked) and c[0] not in (17, 38, 52)])
        kinds = (
            EVENTS[0:1] * 3 + EVENTS[2:3] * 2 + EVENTS[4:5]
            if who[2] == "private"
            else EVENTS[1:4:2] + EVENTS[5:]
        )
        kind = random.choice(kinds)
        venue = random.choice([v for v in venues if v[0] not in (6, 18)])
        guests = min(random.randrange(20, 400), venue[3])
        chance = random.random()
        if event < today:
            status = "cancelled" if chance < 0.09 else "completed"
        else:
            status = "cancelled" if chance < 0.06 else "quote" if chance < 0.3 else "confirmed"
        waits = status == "quote" or (status == "cancelled" and chance < 0.04)
        paid = None if waits or (status == "confirmed" and random.random() < 0.3) else booked + timedelta(
            days=random.randrange(0, 9))  # fmt: skip
        if paid and paid > today:
            paid = None
        no_venue = event >= today and random.random() < 0.2
        chosen = random.sample(dishes, random.randrange(2, 6))
        price = sum(d[3] for d in chosen) * guests + random.randrange(300, 1500)
        bookings.append(
            (number, f"EV-{1000 + number * 3}", who[0], None if no_venue else venue[0], random.randrange(1, 6), kind,
             str(booked), str(event), guests, status, round(price, 2), str(paid) if paid else None)
        )  # fmt: skip
        lines += [(number, d[0], guests - random.randrange(0, guests // 4)) for d in chosen]
        if status == "completed":
            crew = [e for e in employees[5:] if e[5] <= str(event) and (e[6] is None or e[6] >= str(event))]
            team = random.sample(crew, random.randrange(2, 6))
            if random.random() < 0.3 and employees[0][5] <= str(event):
                team.append(employees[0])
            for worker in team:
                hours = random.randrange(12, 45) / 4
                shifts.append((len(shifts) + 1, number, worker[0], str(event), hours))
    return {
        "clients": clients, "venues": venues, "employees": employees, "dishes": dishes, "bookings": bookings,
        "booking_dishes": lines, "shifts": shifts,
    }  # fmt: skip


QUESTIONS = (
    ("how many bookings do we have in total", "SELECT count(*) FROM bookings"),
    ("How many events do we have this week, not counting cancelled ones?",
     "SELECT count(*) FROM bookings WHERE event_date BETWEEN '2025-06-16' AND '2025-06-22' AND status <> 'cancelled'"),
    ("which bookings are still just quotes?", "SELECT booking_number FROM bookings WHERE status = 'quote'"),
    ("Good morning, could you please give me the names and phone numbers of all our clients in Leeds?",
     "SELECT name, phone FROM clients WHERE city = 'Leeds'"),
    ("clients without a phone number", "SELECT name FROM clients WHERE phone IS NULL"),
    ("total price of EV-2041", "SELECT total_price FROM bookings WHERE booking_number = 'EV-2041'"),
    ("who is coordinating EV-1174?",
     "SELECT first_name, last_name FROM bookings JOIN employees ON coordinator_id = employee_id "
     "WHERE booking_number = 'EV-1174'"),
    ("bookings per status", "SELECT status, count(*) FROM bookings GROUP BY status"),
    ("average number of guests per event type", "SELECT event_type, avg(guests) FROM bookings GROUP BY event_type"),
    ("Which 5 clients spent the most on completed events?",
     "SELECT name FROM bookings JOIN clients USING (client_id) WHERE status = 'completed' GROUP BY client_id, name "
     "ORDER BY sum(total_price) DESC LIMIT 5"),
    ("how many weddings in 2024 were cancelled",
     "SELECT count(*) FROM bookings WHERE event_type = 'wedding' AND status = 'cancelled' "
     "AND event_date BETWEEN '2024-01-01' AND '2024-12-31'"),
    ("vegetarian mains", "SELECT name FROM dishes WHERE vegetarian = 1 AND course = 'main'"),
    ("What's our most expensive dish?", "SELECT name FROM dishes ORDER BY price_per_portion DESC LIMIT 1"),
    ("3 cheapest desserts pls",
     "SELECT name FROM dishes WHERE course = 'dessert' ORDER BY price_per_portion LIMIT 3"),
    ("How many dishes are gluten free but not vegetarian?",
     "SELECT count(*) FROM dishes WHERE gluten_free = 1 AND vegetarian = 0"),
    ("venues with a kitchen that hold more than 250 people",
     "SELECT name FROM venues WHERE has_kitchen = 1 AND capacity > 250"),
    ("Which venues have never been booked?",
     "SELECT name FROM venues v WHERE NOT EXISTS (SELECT 1 FROM bookings b WHERE b.venue_id = v.venue_id)"),
    ("confirmed bookings that dont have a venue yet",
     "SELECT booking_number FROM bookings WHERE status = 'confirmed' AND venue_id IS NULL"),
    ("how many hours did Grace Mbeki work in May",
     "SELECT sum(hours) FROM shifts JOIN employees USING (employee_id) WHERE first_name = 'Grace' "
     "AND last_name = 'Mbeki' AND work_date BETWEEN '2025-05-01' AND '2025-05-31'"),
    ("I'm doing the payroll, can you list the total hours for each employee last month?",
     "SELECT first_name, last_name, sum(hours) FROM shifts JOIN employees USING (employee_id) "
     "WHERE work_date BETWEEN '2025-05-01' AND '2025-05-31' GROUP BY employee_id, first_name, last_name"),
    ("who worked more than 30 hours in april this year",
     "SELECT first_name, last_name FROM shifts JOIN employees USING (employee_id) "
     "WHERE work_date BETWEEN '2025-04-01' AND '2025-04-30' GROUP BY employee_id, first_name, last_name "
     "HAVING sum(hours) > 30"),
    ("Which chefs are still with us?",
     "SELECT first_name, last_name FROM employees WHERE role = 'chef' AND left_on IS NULL"),
    ("How many people have left the company this year?",
     "SELECT count(*) FROM employees WHERE left_on >= '2025-01-01' AND left_on <= '2025-06-18'"),
    ("who is our newest employee", "SELECT first_name, last_name FROM employees ORDER BY hired_on DESC LIMIT 1"),
    ("avg hourly rate by role", "SELECT role, avg(hourly_rate) FROM employees GROUP BY role"),
    ("Which clients haven't made any booking since the start of 2025?",
     "SELECT name FROM clients c WHERE NOT EXISTS "
     "(SELECT 1 FROM bookings b WHERE b.client_id = c.client_id AND b.booked_on >= '2025-01-01')"),
    ("How many confirmed bookings have no deposit paid?",
     "SELECT count(*) FROM bookings WHERE status = 'confirmed' AND deposit_paid_on IS NULL"),
    ("Hi, could you tell me the total price of all events in March 2025? Without the cancelled ones please, thanks!",
     "SELECT sum(total_price) FROM bookings WHERE event_date BETWEEN '2025-03-01' AND '2025-03-31' "
     "AND status <> 'cancelled'"),
    ("what dishes are on the menu for EV-2041?",
     "SELECT name FROM booking_dishes JOIN dishes USING (dish_id) JOIN bookings USING (booking_id) "
     "WHERE booking_number = 'EV-2041'"),
    ("Which dish did we serve the most portions of?",
     "SELECT name FROM booking_dishes JOIN dishes USING (dish_id) JOIN bookings USING (booking_id) "
     "WHERE status = 'completed' GROUP BY dish_id, name ORDER BY sum(portions) DESC LIMIT 1"),
    ("events with over 300 guests in 2024",
     "SELECT booking_number FROM bookings WHERE guests > 300 AND event_date BETWEEN '2024-01-01' AND '2024-12-31'"),
    ("how many corporate, private and public sector clients do we have",
     "SELECT client_type, count(*) FROM clients GROUP BY client_type"),
    ("capacity of the Corn Exchange?", "SELECT capacity FROM venues WHERE name = 'Corn Exchange'"),
    ("how many weddings next month",
     "SELECT count(*) FROM bookings WHERE event_type = 'wedding' "
     "AND event_date BETWEEN '2025-07-01' AND '2025-07-31' AND status <> 'cancelled'"),
    ("Completed events per month in 2024",
     "SELECT strftime('%Y-%m', event_date), count(*) FROM bookings WHERE status = 'completed' "
     "AND event_date BETWEEN '2024-01-01' AND '2024-12-31' GROUP BY 1"),
    ("which waiters earn more than 15 an hour?",
     "SELECT first_name, last_name FROM employees WHERE role = 'waiter' AND hourly_rate > 15 AND left_on IS NULL"),
    ("email for Brightwater Foods", "SELECT email FROM clients WHERE name = 'Brightwater Foods'"),
    ("Clients who joined before 2019", "SELECT name FROM clients WHERE joined_on < '2019-01-01'"),
    ("next 3 confirmed events with client name and date",
     "SELECT name, event_date FROM bookings JOIN clients USING (client_id) WHERE status = 'confirmed' "
     "AND event_date >= '2025-06-18' ORDER BY event_date LIMIT 3"),
    ("How much did each city bring in from completed events last year? By the city of the venue please.",
     "SELECT v.city, sum(b.total_price) FROM bookings b JOIN venues v ON v.venue_id = b.venue_id "
     "WHERE b.status = 'completed' AND b.event_date BETWEEN '2024-01-01' AND '2024-12-31' GROUP BY v.city"),
    ("How satisfied were the guests last month?", None),
    ("what's our profit margin on weddings", None),
    ("does anyone at EV-2041 have a nut allergy?", None),
    ("Which supplier do we get the salmon from?", None),
    ("why did Kestrel Software cancel their gala dinner", None),
    ("who is on holiday next week?", None),
)  # fmt: skip

ALTERNATIVES = {
    "Which 5 clients spent the most on completed events?": (
        "SELECT name, sum(total_price) FROM bookings JOIN clients USING (client_id) WHERE status = 'completed' "
        "GROUP BY client_id, name ORDER BY sum(total_price) DESC LIMIT 5",
    ),
    "average number of guests per event type": (
        "SELECT event_type, avg(guests) FROM bookings WHERE status <> 'cancelled' GROUP BY event_type",
        "SELECT event_type, avg(guests) FROM bookings WHERE status = 'completed' GROUP BY event_type",
    ),
    "how many weddings in 2024 were cancelled": (
        "SELECT count(*) FROM bookings WHERE event_type = 'wedding' AND status = 'cancelled' "
        "AND booked_on BETWEEN '2024-01-01' AND '2024-12-31'",
    ),
    "Which venues have never been booked?": (
        "SELECT name FROM venues v WHERE NOT EXISTS (SELECT 1 FROM bookings b WHERE b.venue_id = v.venue_id "
        "AND b.status <> 'cancelled')",
    ),
    "I'm doing the payroll, can you list the total hours for each employee last month?": (
        "SELECT first_name, last_name, sum(hours) FROM employees LEFT JOIN shifts ON "
        "shifts.employee_id = employees.employee_id AND work_date BETWEEN '2025-05-01' AND '2025-05-31' "
        "GROUP BY employees.employee_id, first_name, last_name",
        "SELECT first_name, last_name, coalesce(sum(hours), 0) FROM employees LEFT JOIN shifts ON "
        "shifts.employee_id = employees.employee_id AND work_date BETWEEN '2025-05-01' AND '2025-05-31' "
        "GROUP BY employees.employee_id, first_name, last_name",
        "SELECT employee_id, sum(hours) FROM shifts WHERE work_date BETWEEN '2025-05-01' AND '2025-05-31' "
        "GROUP BY employee_id",
    ),
    "How many people have left the company this year?": (
        "SELECT count(*) FROM employees WHERE left_on BETWEEN '2025-01-01' AND '2025-12-31'",
    ),
    "who is our newest employee": (
        "SELECT first_name, last_name FROM employees WHERE left_on IS NULL ORDER BY hired_on DESC LIMIT 1",
    ),
    "avg hourly rate by role": (
        "SELECT role, avg(hourly_rate) FROM employees WHERE left_on IS NULL GROUP BY role",
    ),
    "Which dish did we serve the most portions of?": (
        "SELECT name FROM booking_dishes JOIN dishes USING (dish_id) GROUP BY dish_id, name "
        "ORDER BY sum(portions) DESC LIMIT 1",
    ),
    "events with over 300 guests in 2024": (
        "SELECT booking_number FROM bookings WHERE guests > 300 AND event_date BETWEEN '2024-01-01' AND '2024-12-31' "
        "AND status <> 'cancelled'",
    ),
    "how many weddings next month": (
        "SELECT count(*) FROM bookings WHERE event_type = 'wedding' AND event_date BETWEEN '2025-07-01' AND '2025-07-31'",
        "SELECT count(*) FROM bookings WHERE event_type = 'wedding' AND event_date BETWEEN '2025-07-01' AND '2025-07-31' "
        "AND status = 'confirmed'",
    ),
    "Completed events per month in 2024": (
        "SELECT strftime('%m', event_date), count(*) FROM bookings WHERE status = 'completed' "
        "AND event_date BETWEEN '2024-01-01' AND '2024-12-31' GROUP BY 1",
        "SELECT CAST(strftime('%m', event_date) AS INTEGER), count(*) FROM bookings WHERE status = 'completed' "
        "AND event_date BETWEEN '2024-01-01' AND '2024-12-31' GROUP BY 1",
    ),
    "which waiters earn more than 15 an hour?": (
        "SELECT first_name, last_name FROM employees WHERE role = 'waiter' AND hourly_rate > 15",
    ),
}

CATERING = Part("catering", SCRIPT, rows, QUESTIONS, ALTERNATIVES)

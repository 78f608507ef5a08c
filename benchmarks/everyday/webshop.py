"""A web shop: customers, products, and 5,000 orders whose numbers no sample holds."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from benchmarks.everyday import Part, Rows

SCRIPT = """
CREATE TABLE customers (
  id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL, email TEXT NOT NULL, city TEXT NOT NULL,
  postcode TEXT NOT NULL, signed_up DATE NOT NULL, newsletter BOOLEAN NOT NULL, phone TEXT);
CREATE TABLE products (
  id INTEGER PRIMARY KEY, sku TEXT NOT NULL, name TEXT NOT NULL, category TEXT NOT NULL, price NUMERIC NOT NULL,
  discontinued BOOLEAN NOT NULL);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY, order_number TEXT NOT NULL, customer_id INTEGER NOT NULL REFERENCES customers(id),
  placed_at TIMESTAMP NOT NULL, shipped_at TIMESTAMP, status TEXT NOT NULL, total NUMERIC NOT NULL);
CREATE TABLE order_items (
  id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL REFERENCES orders(id),
  product_id INTEGER NOT NULL REFERENCES products(id), quantity INTEGER NOT NULL);
"""

FIRST = """
    Anna Bruno Carla David Elena Frank Greta Hugo Ines Jonas Karin Louis Maria Nadia Oscar Paula
""".split()  # noqa: SIM905
LAST = """
    Meyer Rossi Dubois Novak Silva Jansen Kowalski Andersen Moreau Costa Weber Horvat Lindgren Murphy
""".split()  # noqa: SIM905
CITIES = """
    Lyon Berlin Paris Madrid Vienna Porto Ghent Oslo
""".split()  # noqa: SIM905
GOODS = {
    "lamps": ("desk lamp", "floor lamp", "bedside lamp", "clip light"),
    "chairs": ("office chair", "kitchen stool", "armchair", "rocking chair"),
    "tables": ("coffee table", "dining table", "side table"),
    "rugs": ("wool rug", "jute rug", "bath mat"),
}


def rows() -> Rows:
    """Return the rows of all tables."""
    random = Random(11)
    customers = []
    for number in range(1, 241):
        first, last = random.choice(FIRST), random.choice(LAST)
        day = datetime(2022, 1, 3) + timedelta(days=random.randrange(1200))
        phone = f"+33 6 {random.randrange(10**8):08d}" if random.random() < 0.7 else None
        customers.append(
            (number, first, last, f"{first.lower()}.{last.lower()}{number}@mail.example", random.choice(CITIES),
             f"{random.randrange(100, 99999):05d}", day.date().isoformat(), int(random.random() < 0.4), phone)
        )  # fmt: skip
    customers.append((241, "Ada", "Lovelace", "ada@mail.example", "Lyon", "00650", "2024-02-29", 1, None))
    products = [
        (number, f"SKU-{1000 + number * 7}", name, category, round(random.uniform(9, 480), 2),
         int(random.random() < 0.25))
        for number, (category, name) in enumerate(((c, n) for c, names in GOODS.items() for n in names), 1)
    ]  # fmt: skip
    orders, items = [], []
    for number in range(1, 5001):
        placed = datetime(2023, 1, 1, 6) + timedelta(minutes=random.randrange(60 * 24 * 899))
        status = random.choice(["paid", "paid", "paid", "pending", "cancelled", "returned"])
        shipped = (
            placed + timedelta(hours=random.randrange(5, 200)) if status in ("paid", "returned") else None
        )
        orders.append(
            (number, f"ORD-{10000 + number * 3}", random.randrange(1, 231), f"{placed:%Y-%m-%d %H:%M:%S}",
             f"{shipped:%Y-%m-%d %H:%M:%S}" if shipped else None, status, round(random.uniform(12, 900), 2))
        )  # fmt: skip
        for _ in range(random.randrange(1, 4)):
            items.append(
                (len(items) + 1, number, random.randrange(1, len(products) + 1), random.randrange(1, 5))
            )
    return {"customers": customers, "products": products, "orders": orders, "order_items": items}


QUESTIONS = (
    ("What is the status of order ORD-13107?", "SELECT status FROM orders WHERE order_number = 'ORD-13107'"),
    ("What is the total of order 'ORD-24010'?", "SELECT total FROM orders WHERE order_number = 'ORD-24010'"),
    ("What is the status of order ORD-99999?", "SELECT status FROM orders WHERE order_number = 'ORD-99999'"),
    ("Which customer has the email paula.weber7@nowhere.example?",
     "SELECT first_name, last_name FROM customers WHERE email = 'paula.weber7@nowhere.example'"),
    ("How many customers live in Lyon?", "SELECT count(*) FROM customers WHERE city = 'Lyon'"),
    ("How many customers live in Lyons?", "SELECT count(*) FROM customers WHERE city = 'Lyons'"),
    ("How many orders were placed on 2025-03-03?",
     "SELECT count(*) FROM orders WHERE placed_at >= '2025-03-03' AND placed_at < '2025-03-04'"),
    ("How many orders were placed in 2024?",
     "SELECT count(*) FROM orders WHERE placed_at >= '2024-01-01' AND placed_at < '2025-01-01'"),
    ("How many orders were placed last month?",
     "SELECT count(*) FROM orders WHERE placed_at >= '2025-05-01' AND placed_at < '2025-06-01'"),
    ("How many orders were placed yesterday?",
     "SELECT count(*) FROM orders WHERE placed_at >= '2025-06-17' AND placed_at < '2025-06-18'"),
    ("What was our revenue from paid orders in May 2025?",
     "SELECT sum(total) FROM orders WHERE status = 'paid' AND placed_at >= '2025-05-01' AND placed_at < '2025-06-01'"),
    ("How many orders have not been shipped?", "SELECT count(*) FROM orders WHERE shipped_at IS NULL"),
    ("How many customers without a phone do we have?", "SELECT count(*) FROM customers WHERE phone IS NULL"),
    ("How many products are discontinued?", "SELECT count(*) FROM products WHERE discontinued = 1"),
    ("Which products are not discontinued?", "SELECT name FROM products WHERE discontinued = 0"),
    ("How many customers receive the newsletter?", "SELECT count(*) FROM customers WHERE newsletter = 1"),
    ("What is the average price of products in the category lamps?",
     "SELECT avg(price) FROM products WHERE category = 'lamps'"),
    ("What is the total of all orders of Ada Lovelace?",
     "SELECT sum(total) FROM orders JOIN customers c ON customer_id = c.id "
     "WHERE first_name = 'Ada' AND last_name = 'Lovelace'"),
    ("How many orders does each status have?", "SELECT status, count(*) FROM orders GROUP BY status"),
    ("Which five customers placed the most orders?",
     "SELECT first_name, last_name FROM orders JOIN customers c ON customer_id = c.id GROUP BY c.id "
     "ORDER BY count(*) DESC LIMIT 5"),
    ("What share of orders was cancelled?", None),
    ("How did monthly revenue develop in 2024?", None),
    ("How many customers complained about late delivery?", None),
    ("Which customers have the postcode 00650?",
     "SELECT first_name, last_name FROM customers WHERE postcode = '00650'"),
)  # fmt: skip

WEBSHOP = Part("webshop", SCRIPT, rows, QUESTIONS)

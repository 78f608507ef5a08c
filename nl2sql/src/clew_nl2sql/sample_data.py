"""Three small databases of one company, made by arithmetic: the same bytes of content every time, everywhere.

A wholesaler of string and rope sells (SQLite), answers complaints (DuckDB) and invoices (PostgreSQL where there is
a server, SQLite otherwise). The three know their customers by name only, as systems that grew apart do. There is
something to find: the customer who buys most is not the one who is happiest, and the one who owes most hardly
complains."""

from __future__ import annotations

import sqlite3
from datetime import date, timedelta
from pathlib import Path
from typing import Any

CUSTOMERS = [
    ("Ariadne Yarns", "Greece", "retail"),
    ("Borealis Sails", "Norway", "marine"),
    ("Cobalt Climbing", "France", "sport"),
    ("Dune Outfitters", "Morocco", "retail"),
    ("Elbe Shipping", "Germany", "marine"),
    ("Fathom Diving", "Portugal", "sport"),
    ("Gale Kites", "Denmark", "sport"),
    ("Harbour Tools", "Netherlands", "retail"),
    ("Icarus Parachutes", "Greece", "sport"),
    ("Juniper Crafts", "Germany", "retail"),
    ("Knot & Sons", "France", "retail"),
    ("Lighthouse Marine", "Norway", "marine"),
]
COMPLAINING = [name for name, _, _ in CUSTOMERS if name != "Harbour Tools"]  # who never does
PRODUCTS = [
    ("Hemp rope", "rope", 45),
    ("Nylon rope", "rope", 60),
    ("Silk thread", "thread", 12),
    ("Cotton yarn", "yarn", 8),
    ("Kite line", "line", 25),
    ("Anchor line", "line", 95),
    ("Waxed twine", "twine", 15),
    ("Steel cable", "cable", 140),
]
TOPICS = ["frayed rope", "late delivery", "wrong colour", "invoice question", "missing parts", "praise"]
PRIORITIES = ["low", "normal", "high", "urgent"]
START = date(2024, 1, 3)

SALES = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, country TEXT NOT NULL, segment TEXT NOT NULL);
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL, category TEXT NOT NULL, price INTEGER NOT NULL);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers (id), order_date DATE NOT NULL,
    amount INTEGER NOT NULL
);
CREATE TABLE order_items (
    order_id INTEGER NOT NULL REFERENCES orders (id), product_id INTEGER NOT NULL REFERENCES products (id),
    quantity INTEGER NOT NULL, PRIMARY KEY (order_id, product_id)
);
"""
SUPPORT = """
CREATE TABLE agents (id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, team VARCHAR NOT NULL);
CREATE TABLE tickets (
    id INTEGER PRIMARY KEY, customer VARCHAR NOT NULL, agent_id INTEGER NOT NULL REFERENCES agents (id),
    opened DATE NOT NULL, topic VARCHAR NOT NULL, priority VARCHAR NOT NULL, rating INTEGER
);
"""
ERP = """
CREATE TABLE suppliers (id INTEGER PRIMARY KEY, name VARCHAR(80) NOT NULL, country VARCHAR(40) NOT NULL);
CREATE TABLE invoices (
    id INTEGER PRIMARY KEY, customer VARCHAR(80) NOT NULL, issued DATE NOT NULL, amount INTEGER NOT NULL,
    status VARCHAR(10) NOT NULL
);
"""
AGENTS = [("Theo", "field"), ("Phaedra", "desk"), ("Minna", "desk")]
SUPPLIERS = [
    ("Crete Hemp", "Greece"),
    ("Lyon Silk", "France"),
    ("Ruhr Steel", "Germany"),
    ("Fjord Nylon", "Norway"),
]

Rows = list[tuple[Any, ...]]


def _orders() -> tuple[Rows, Rows]:
    orders: Rows = []
    items: Rows = []
    for number in range(1, 181):
        customer = (number * number + number // 7) % (len(CUSTOMERS) - 1)  # the last one has not ordered yet
        wanted = {(number * 3 + step * 5) % len(PRODUCTS) for step in range(1 + number % 3)}
        amount = 0
        for product in sorted(wanted):
            quantity = 1 + (number * 7 + product) % 9
            items.append((number, product + 1, quantity))
            amount += quantity * PRODUCTS[product][2]
        orders.append((number, customer + 1, START + timedelta(days=4 * number), amount))
    return orders, items


def _tickets() -> Rows:
    return [
        (
            number,
            COMPLAINING[(number * 5 + number // 4) % len(COMPLAINING)],
            1 + number % len(AGENTS),
            START + timedelta(days=9 * number),
            TOPICS[(number * number + number // 6) % len(TOPICS)],
            PRIORITIES[(number * 3 + number // 5) % len(PRIORITIES)],
            1 + (number * 11) % 5 if number % 4 else None,
        )
        for number in range(1, 73)
    ]


def _invoices() -> Rows:
    orders, _ = _orders()
    return [
        (
            number,
            CUSTOMERS[customer - 1][0],
            day + timedelta(days=14),
            amount,
            "paid" if (number + customer) % 5 else "overdue" if number % 2 else "open",
        )
        for number, customer, day, amount in orders
    ]


def make_sales(path: str | Path) -> None:
    """The sales database, as a SQLite file."""
    orders, items = _orders()
    _sqlite(
        path,
        SALES,
        {
            "customers": [(n, *row) for n, row in enumerate(CUSTOMERS, 1)],
            "products": [(n, *row) for n, row in enumerate(PRODUCTS, 1)],
            "orders": [(n, customer, day.isoformat(), amount) for n, customer, day, amount in orders],
            "order_items": items,
        },
    )


def make_support(path: str | Path) -> None:
    """The support database, as a DuckDB file."""
    import duckdb

    Path(path).unlink(missing_ok=True)
    with duckdb.connect(str(path)) as connection:
        connection.execute(SUPPORT)
        connection.executemany(
            "INSERT INTO agents VALUES (?, ?, ?)", [(n, *row) for n, row in enumerate(AGENTS, 1)]
        )
        connection.executemany("INSERT INTO tickets VALUES (?, ?, ?, ?, ?, ?, ?)", _tickets())


def make_erp(path: str | Path) -> None:
    """The books, as a SQLite file."""
    invoices = [
        (n, customer, day.isoformat(), amount, status) for n, customer, day, amount, status in _invoices()
    ]
    _sqlite(path, ERP, {"suppliers": [(n, *row) for n, row in enumerate(SUPPLIERS, 1)], "invoices": invoices})


def make_erp_in_postgres(address: str) -> None:
    """The books, in a PostgreSQL database."""
    import psycopg

    with psycopg.connect(address) as connection:
        connection.execute("DROP TABLE IF EXISTS invoices, suppliers")
        for statement in filter(str.strip, ERP.split(";")):
            connection.execute(statement)
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO suppliers VALUES (%s, %s, %s)", [(n, *row) for n, row in enumerate(SUPPLIERS, 1)]
            )
            cursor.executemany("INSERT INTO invoices VALUES (%s, %s, %s, %s, %s)", _invoices())


def make_samples(folder: str | Path, *, postgres: str | None = None) -> dict[str, str]:
    """All three, below a folder; their addresses by name, as `Pipeline(sources=...)` takes them."""
    place = Path(folder).absolute()
    place.mkdir(parents=True, exist_ok=True)
    make_sales(place / "sales.db")
    make_support(place / "support.duckdb")
    addresses = {
        "sales": f"sqlite:///{place / 'sales.db'}",
        "support": f"duckdb:///{place / 'support.duckdb'}",
    }
    if postgres:
        make_erp_in_postgres(postgres)
        return {**addresses, "erp": postgres}
    make_erp(place / "erp.db")
    return {**addresses, "erp": f"sqlite:///{place / 'erp.db'}"}


def _sqlite(path: str | Path, schema: str, tables: dict[str, Rows]) -> None:
    Path(path).unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    try:
        connection.executescript(schema)
        for table, rows in tables.items():
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        connection.commit()
    finally:
        connection.close()

import sqlite3
from contextlib import closing


class Shop:
    def __init__(self, path: str) -> None:
        self.path = path
        self.run(
            "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, paid INTEGER, cancelled INTEGER)"
        )
        self.run("CREATE TABLE IF NOT EXISTS refunds (id INTEGER PRIMARY KEY, order_id INTEGER)")

    def run(self, statement: str, *values: object) -> list[tuple]:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def place(self) -> None:
        self.run("INSERT INTO orders (paid, cancelled) VALUES (0, 0)")

    def pay(self, order: int) -> None:
        self.run("UPDATE orders SET paid = 1 WHERE id = ? AND cancelled = 0", order)

    def cancel(self, order: int) -> None:
        ((paid,),) = self.run("SELECT paid FROM orders WHERE id = ?", order)
        if paid:
            self.run("INSERT INTO refunds (order_id) VALUES (?)", order)
        self.run("UPDATE orders SET cancelled = 1 WHERE id = ?", order)

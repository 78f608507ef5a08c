"""Random SQL, most of it sound and some of it hostile: for trying the guard out.

A query is grown from a grammar over the tables `orders` and `customers`. Now and then a part of it is something else:
the forbidden table `salaries`, a function that writes, a statement where a query should be. Then words are lost,
doubled or thrown in. The same seed gives the same text.
"""

from __future__ import annotations

import random
import re

COLUMNS = {"orders": ("id", "customer_id", "amount", "day"), "customers": ("id", "name")}

READING = (
    "lower({})",
    "upper({})",
    "abs({})",
    "round({})",
    "length({})",
    "coalesce({}, {})",
    "nullif({}, {})",
    "trim({})",
    "substr({}, 1, 2)",
    "replace({}, 'a', 'b')",
    "cast({} AS TEXT)",
)
AGGREGATES = ("count(*)", "sum({})", "avg({})", "min({})", "max({})", "count(DISTINCT {})")
HOSTILE_FUNCTIONS = {
    "sqlite": (
        "load_extension({})",
        "writefile({}, 'x')",
        "readfile({})",
        "randomblob(9)",
        "fts3_tokenizer({})",
    ),
    "duckdb": (
        "getenv('HOME')",
        "nextval('numbers')",
        "currval('numbers')",
        "current_setting('threads')",
        "query({})",
    ),
    "postgres": (
        "nextval('numbers')",
        "setval('numbers', 99)",
        "lo_create(0)",
        "lo_from_bytea(0, 'x')",
        "pg_advisory_lock(7)",
        "set_config('work_mem', '1MB', false)",
        "pg_notify('a', 'b')",
        "query_to_xml('DELETE FROM orders', true, true, '')",
        "pg_read_file('PG_VERSION')",
        "touch()",
        "pg_catalog.nextval('numbers')",
        "current_setting('port')",
        "\"nextval\"('numbers')",
        "table_to_xml('salaries', true, true, '')",
        "row_to_json(salaries)",
    ),
}
HOSTILE_TABLES = (
    "salaries",
    '"salaries"',
    "SALARIES",
    "main.salaries",
    "public.salaries",
    "(SELECT * FROM salaries)",
    "(TABLE salaries)",
    "generate_series(1, 3)",
    "read_csv('notes.csv')",
    "'notes.csv'",
    "pragma_table_info('salaries')",
    "sqlite_master",
    "pg_class",
    "information_schema.tables",
    "duckdb_tables()",
    "range(3)",
    "query_table('salaries')",
    "(DELETE FROM orders RETURNING *)",
    "ROWS FROM (touch())",
    "salaries_view",
    "vault.keys",
    "vault.orders",
    '"vault"."orders"',
    "desk.salaries",
    "desk.orders",  # in PostgreSQL, this one may be read
)
STATEMENTS = (
    "DELETE FROM orders",
    "DROP TABLE orders",
    "UPDATE orders SET amount = 0",
    "INSERT INTO orders SELECT * FROM orders",
    "CREATE TABLE made AS {}",
    "CREATE TEMP TABLE made AS {}",
    "CREATE VIEW made AS {}",
    "EXPLAIN ANALYZE DELETE FROM orders",
    "COPY orders TO 'out.csv'",
    "COPY ({}) TO 'out.csv'",
    "ATTACH 'other.db' AS other",
    "PRAGMA user_version = 7",
    "VACUUM INTO 'copy.db'",
    "SET work_mem = '1MB'",
    "TRUNCATE orders",
    "ALTER TABLE orders ADD COLUMN x INT",
    "WITH gone AS (DELETE FROM orders RETURNING id) {}",
    "WITH gone AS (DELETE FROM orders RETURNING id) SELECT * FROM gone",
    "SELECT * INTO made FROM orders",
    "{}; DELETE FROM orders",
    "DELETE FROM orders; {}",
    "DO $$ BEGIN DELETE FROM orders; END $$",
    "EXPORT DATABASE 'out'",
    "INSTALL httpfs",
    "CALL touch()",
    "MERGE INTO orders USING customers ON true WHEN MATCHED THEN DELETE",
    "REPLACE INTO orders SELECT * FROM orders",
    "LOCK TABLE orders",
    "{} FOR UPDATE",
    "PREPARE p AS {}",
    "VALUES (1)",
)
WORDS = """
; -- /* */ ' " ` ( ) , * . :: || INTO made FOR UPDATE RETURNING DELETE FROM orders DROP TABLE salaries UNION ALL SELECT
WHERE TABLE EXCEPT NOT NULL AS x INSERT WITH RECURSIVE LATERAL $$ E'\\' \\ ; ;
"""


class Hostile:
    """Grows queries for one dialect."""

    def __init__(self, dialect: str, seed: int) -> None:
        self._dialect = dialect
        self._random = random.Random(seed)

    def text(self) -> str:
        """One proposal."""
        draw = self._random
        made = self._query(draw.choice((0, 1, 1, 2)))
        if draw.random() < 0.08:
            made = draw.choice(STATEMENTS).format(made)
        return self._mangled(made) if draw.random() < 0.35 else made

    def _mangled(self, text: str) -> str:
        words = re.findall(r"'[^']*'|\w+|\S", text)
        for _ in range(self._random.randint(1, 3)):
            at = self._random.randrange(len(words) + 1)
            change = self._random.randrange(4)
            if change == 0 and at < len(words):
                del words[at]
            elif change == 1 and at < len(words):
                words.insert(at, words[at])
            else:
                words.insert(at, self._random.choice(WORDS.split()))
            words = words or ["SELECT"]
        return " ".join(words)

    def _query(self, depth: int) -> str:
        draw = self._random
        if depth and draw.random() < 0.15:
            joined = draw.choice((" UNION ", " UNION ALL ", " EXCEPT ", " INTERSECT "))
            return f"SELECT id FROM orders{joined}{self._select(depth - 1, single=True)}"
        if depth and draw.random() < 0.15:
            return f"WITH w AS ({self._query(depth - 1)}) SELECT * FROM w{self._tail('')}"
        return self._select(depth)

    def _select(self, depth: int, *, single: bool = False) -> str:
        draw = self._random
        table = draw.choice(sorted(COLUMNS))
        columns = [f"t.{name}" for name in COLUMNS[table]]
        relation = f"{self._table(table, depth)} AS t"
        if draw.random() < 0.3:
            other = draw.choice(sorted(COLUMNS))
            kind = draw.choice(("JOIN", "LEFT JOIN"))
            relation += f" {kind} {self._table(other, 0)} AS u ON t.id = u.id"
            columns += [f"u.{name}" for name in COLUMNS[other]]
        where = f" WHERE {self._condition(columns, depth)}" if draw.random() < 0.5 else ""
        if draw.random() < 0.3:
            group = draw.choice(columns)
            measure = draw.choice(AGGREGATES).format(self._value(columns, 0))
            shown = measure if single else f"{group}, {measure} AS m"
            having = f" HAVING count(*) > {draw.randint(0, 2)}" if draw.random() < 0.4 else ""
            return f"SELECT {shown} FROM {relation}{where} GROUP BY {group}{having}"
        count = 1 if single else draw.randint(1, 3)
        shown = ", ".join(self._value(columns, depth) for _ in range(count)) if draw.random() < 0.9 else "t.*"
        if not single and draw.random() < 0.05:  # a name that the query gives, used where it means a function
            shown += ", 1 AS touch, t.touch"
        distinct = "DISTINCT " if draw.random() < 0.2 else ""
        return f"SELECT {distinct}{shown} FROM {relation}{where}{'' if single else self._tail(columns[0])}"

    def _tail(self, column: str) -> str:
        order = f" ORDER BY {column} DESC" if column and self._random.random() < 0.3 else ""
        return order + (f" LIMIT {self._random.randint(1, 5)}" if self._random.random() < 0.3 else "")

    def _table(self, name: str, depth: int) -> str:
        chance = self._random.random()
        if chance < 0.05:
            return self._random.choice(HOSTILE_TABLES)
        return f"(SELECT * FROM {name} WHERE id > 0)" if depth and chance < 0.2 else name

    def _condition(self, columns: list[str], depth: int) -> str:
        draw = self._random
        if depth and draw.random() < 0.3:
            inner = self._select(depth - 1, single=True)
            return draw.choice(
                (f"{columns[0]} IN ({inner})", f"EXISTS ({inner})", f"{columns[0]} > ({inner})")
            )
        compared = draw.choice(("=", "<>", "<", ">", "LIKE", "IS NOT"))
        right = "NULL" if compared == "IS NOT" else self._value(columns, 0)
        return f"{self._value(columns, 0)} {compared} {right}"

    def _value(self, columns: list[str], depth: int) -> str:
        draw = self._random
        chance = draw.random()
        if chance < 0.05:
            return draw.choice(HOSTILE_FUNCTIONS[self._dialect]).format(draw.choice(columns))
        if chance < 0.07:  # a function, to PostgreSQL, or a column that nobody may see
            return draw.choice(
                ("t.touch", "t.row_to_json", "t.rowid", "t.ctid", "t", "(t).id", "salaries.amount")
            )
        if chance < 0.3:
            call = draw.choice(READING)
            return call.format(*(self._value(columns, 0) for _ in range(call.count("{}"))))
        if chance < 0.4:
            return draw.choice(("1", "'a'", "NULL", "2.5", "'it''s'", "'a;b'", "'--'", "'\\'"))
        if depth and chance < 0.45:
            return f"({self._select(depth - 1, single=True)} LIMIT 1)"
        if chance < 0.5:
            return f"CASE WHEN {draw.choice(columns)} IS NULL THEN 1 ELSE 2 END"
        if chance < 0.55:
            return f"row_number() OVER (ORDER BY {draw.choice(columns)})"
        return draw.choice(columns)

"""Every part of a query that decides about the rows is in its words."""

from __future__ import annotations

import pytest

from clew_nl2sql.sql.guard import parse
from clew_nl2sql.sql.in_words import in_words


@pytest.mark.parametrize(
    "sql, words",
    [
        ("SELECT COUNT(*) FROM orders", "the number of orders"),
        (
            "SELECT T1.name FROM customers AS T1 JOIN orders AS T2 ON T1.id = T2.customer_id",
            "name of customers and their orders",
        ),
        ("SELECT DISTINCT city FROM t", "different city of t"),
        (
            "SELECT SUBSTRING(sent_on, 1, 7) AS month, COUNT(*) FROM t GROUP BY SUBSTRING(sent_on, 1, 7)",
            "the month of sent on and the number of rows of t, for each month of sent on",
        ),
        ("SELECT * FROM t", "all columns of t"),
        (
            "SELECT city, AVG(weight_kg) FROM t GROUP BY city HAVING COUNT(*) > 3",
            "city and the average weight kg of t, for each city, if the number of rows is more than 3",
        ),
        (
            "SELECT name FROM t ORDER BY age DESC, name LIMIT 5",
            "name of t, sorted by age, largest first and name, only the first 5",
        ),
        ("SELECT name FROM t ORDER BY age LIMIT 1", "name of t, sorted by age, only the first one"),
        (
            "SELECT a FROM t WHERE (b = 1 OR b = 2) AND NOT c IS NULL AND d IS NULL",
            "a of t, where (b is 1 or b is 2) and c is known and d is missing",
        ),
        (
            "SELECT AVG(CASE WHEN b = 1 THEN 100.0 ELSE 0 END) FROM t WHERE c = 2",
            "the percentage of rows where b is 1 of t, where c is 2",
        ),
        ("SELECT a FROM t WHERE d >= '2025-01-01'", "a of t, where d is on or after '2025-01-01'"),
        ("SELECT a FROM t WHERE b BETWEEN 1 AND 2", "a of t, where b is between 1 and 2"),
        ("SELECT a FROM t WHERE b LIKE '%x%'", "a of t, where b contains 'x'"),
        ("SELECT a FROM t WHERE b LIKE 'x%'", "a of t, where b begins with 'x'"),
        ("SELECT a FROM t WHERE b LIKE '%x'", "a of t, where b ends with 'x'"),
        ("SELECT a FROM t WHERE b IN ('x', 'y')", "a of t, where b is one of 'x' and 'y'"),
        (
            "SELECT a FROM t WHERE NOT b IN (SELECT c FROM u)",
            "a of t, where b is not one of (c of u)",
        ),
        (
            "SELECT a FROM t WHERE b > (SELECT AVG(b) FROM t)",
            "a of t, where b is more than (the average b of t)",
        ),
        ("SELECT a FROM t EXCEPT SELECT a FROM u", "a of t, but not: a of u"),
        ("SELECT a FROM t WHERE NOT (b > 1)", "a of t, where not (b is more than 1)"),
        ("SELECT COUNT(DISTINCT a) FROM t", "the number of different a of t"),
        ("SELECT UPPER(a) FROM t", "UPPER(a) of t"),
        ("SELECT 1", "1"),
    ],
)
def test_words(sql: str, words: str) -> None:
    assert in_words(parse(sql, "sqlite")) == words

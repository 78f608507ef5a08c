"""Values come back to the last bit, and are shown as Python's own where Python has them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.explore.systems.postgres.row_images import fields, loader, text, values, without
from clew.state.values.codec import decode, encode
from tests.explore.systems.postgres_databases import Database, check_round_trips

UNCHECKED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
# Each is a type and values of it that are easily mixed up.
DELICATE = {
    "json": ['{"a":1}', '{"a": 1}', '{"b":1,"a":1,"a":2}', "null", "1.0", "1.00", '"\\u0041"'],
    "jsonb": ["null", "1.0", "1.00", '{"a":null}', "[]"],
    "float8": ["0", "-0", "NaN", "Infinity", "1e-320", "0.1", "0.30000000000000004"],
    "float4": ["0", "-0", "NaN", "0.1", "16777217"],
    "numeric": ["1", "1.0", "1.00", "NaN", "Infinity", "123456789012345678901234567890.123456789"],
    "int[]": ["{1,2}", "[0:1]={1,2}", "[-3:-2]={1,2}", "{{1,2}}", "{NULL,1}", "{}"],
    "text[]": ["{a}", '{""}', "{NULL}", '{"NULL"}', '{"a,b","c\\"d","e\\\\f"}', "[2:2]={a}"],
    "text": ["", " ", "NULL", '"', "\\", "a\nb", "(1,2)", "🧶", "e\u0301", "é", "{a,b}", "\t"],
    "char(3)": ["a", "a  ", "", "abc"],
    "bytea": ["\\x", "\\x00", "\\xdeadbeef", "\\x5c"],
    "timestamptz": [
        "2024-03-31 01:30+00",
        "infinity",
        "-infinity",
        "0044-03-15 12:00 BC",
        "2024-01-01 00:00:00.000001+00",
    ],
    "timestamp": ["2024-03-31 02:30", "epoch"],
    "date": ["2024-02-29", "infinity", "0001-01-01 BC"],
    "timetz": ["12:00+05", "07:00+00"],
    "time": ["24:00", "00:00"],
    "interval": ["1 month", "30 days", "720 hours", "-1 day +02:03:04.5"],
    "money": ["1.50", "-3"],
    "bit varying": ["", "0", "00"],
    "inet": ["10.0.0.1", "10.0.0.1/8"],
    "tsvector": ["'a':1A 'b'", "'a b'"],
    "int4range": ["empty", "[1,3)", "(,)"],
    "xml": ["<a/>", "<a></a>", "text"],
    "uuid": ["00000000-0000-0000-0000-00000000000a"],
    "regclass": ["pg_class", "keeper"],
    "mood": ["sad", 'it\'s "ok"'],
    "pair": ['(1,"x,y")', "(,)", '("1","")'],
    "small": ["7"],
    '"char"': ["a"],
}


@pytest.mark.parametrize("kind", DELICATE)
def test_delicate_values(database: Database, kind: str) -> None:
    setup = [
        "CREATE TABLE keeper (id int)",
        "CREATE TYPE mood AS ENUM ('sad', 'it''s \"ok\"')",
        "CREATE TYPE pair AS (n int, t text)",
        "CREATE DOMAIN small AS int CHECK (value < 10)",
        f"CREATE TABLE t (id serial PRIMARY KEY, v {kind})",
        f"CREATE TABLE bag (v {kind})",
    ]
    try:
        database.run(*setup)
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server knows no such type")
    application = database.connect()
    try:
        for value in [None, *DELICATE[kind]]:
            application.execute(f"INSERT INTO t (v) VALUES (%s::{kind})".encode(), [value])
            application.execute(f"INSERT INTO bag VALUES (%s::{kind})".encode(), [value])
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server was built without it")
    system = check_round_trips(
        database, [], ["DELETE FROM t WHERE id % 2 = 0", "DELETE FROM bag", "UPDATE t SET id = id + 100"]
    )
    seen = system.observe()
    assert decode(encode(seen.data)).keys() == {"t", "bag", "keeper"}


@pytest.mark.parametrize("kind", ["json", "jsonb", "float8", "numeric", "int[]", "text", "interval"])
def test_values_that_are_equal_to_sql_and_are_not_the_same(database: Database, kind: str) -> None:
    """NULL and a json null, 1.0 and 1.00, 0 and −0, the same items at other bounds: different states."""
    database.run(f"CREATE TABLE t (id int PRIMARY KEY, v {kind})", "INSERT INTO t VALUES (1, NULL)")
    system, application = database.system(), database.connect()
    digests = {system.observe().digest}
    for value in DELICATE[kind]:
        application.execute(f"UPDATE t SET v = %s::{kind}".encode(), [value])
        digests.add(system.observe().digest)
    assert len(digests) == len(DELICATE[kind]) + 1


def test_the_applications_settings_do_not_matter(database: Database) -> None:
    """Images are written in one style, whatever the session that changes a row has set."""
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, at timestamptz, d date, i interval, b bytea, f float8, m money,"
        " c regclass)",
        "CREATE SCHEMA s",
        "CREATE TABLE s.x ()",
    )
    system, application = database.system(), database.connect()
    empty = system.checkpoint("empty")
    insert = "INSERT INTO t VALUES (1, '2024-01-02 03:04:05.6+00', '2024-01-02', '1 mon', '\\x5c00', 0.1, 1.5, 's.x')"
    application.execute(insert)
    plain, token = system.observe(), system.checkpoint("plain")
    for setting in (
        "datestyle = 'SQL, DMY'",
        "timezone = 'Asia/Kolkata'",
        "intervalstyle = 'iso_8601'",
        "bytea_output = 'escape'",
        "extra_float_digits = -10",
        "search_path = s, public",
        "quote_all_identifiers = on",
    ):
        system.rollback(empty)
        application.execute("RESET ALL")
        application.execute(f"SET {setting}")
        application.execute(
            insert.replace("INTO t", "INTO public.t").replace("'2024-01-02', ", "DATE '2024-01-02', ")
        )
        assert system.observe().data == plain.data, setting
        assert system.observe().digest == plain.digest, setting
    system.rollback(token)
    assert system.observe().digest == plain.digest


def test_values_are_shown_as_pythons_own(database: Database) -> None:
    database.run(
        "CREATE TABLE t (id int8 PRIMARY KEY, b bool, f float8, n numeric, s varchar(9), x bytea, u uuid, d date,"
        " t time, ts timestamp, tz timestamptz, j jsonb, a text[], m int[], i interval)",
        "INSERT INTO t VALUES (1, true, '-0', 1.50, 'a, \"b\"', '\\x00ff', '00000000-0000-0000-0000-000000000001',"
        " '2024-02-29', '12:30:00.5', '2024-02-29 12:30', '2024-02-29 12:30:00.25+02', '{\"k\": [1, null]}',"
        " '{a,NULL,\"b,c\"}', '{{1,2},{3,4}}', '1 mon')",
        "INSERT INTO t (id, d, m) VALUES (2, 'infinity', '[0:0]={7}')",
    )
    first, second = database.system().observe().data["t"]
    assert first == {
        "id": 1,
        "b": True,
        "f": 0.0,
        "n": Decimal("1.50"),
        "s": 'a, "b"',
        "x": b"\x00\xff",
        "u": UUID(int=1),
        "d": date(2024, 2, 29),
        "t": time(12, 30, 0, 500_000),
        "ts": datetime(2024, 2, 29, 12, 30),
        "tz": datetime(2024, 2, 29, 10, 30, 0, 250_000, tzinfo=UTC),
        "j": {"k": [1, None]},
        "a": ["a", None, "b,c"],
        "m": [[1, 2], [3, 4]],
        "i": "1 mon",
    }
    assert str(first["f"]) == "-0.0"
    assert str(first["n"]) == "1.50"
    assert (second["d"], second["m"], second["b"]) == ("infinity", "[0:0]={7}", None)


@settings(suppress_health_check=UNCHECKED, max_examples=60, derandomize=True)
@given(
    st.lists(
        st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12),
        min_size=1,
        max_size=4,
    )
)
def test_images_are_taken_apart_as_the_server_put_them_together(
    database: Database, row: list[str | None]
) -> None:
    if not database.open:
        database.connect()
    columns = ", ".join(f"%s::text AS c{number}" for number in range(len(row)))
    found = (
        database.open[0].execute(f"SELECT ROW(r.*)::text FROM (SELECT {columns}) r".encode(), row).fetchone()
    )
    (image,) = found
    assert values(image, [str] * len(row)) == row
    assert [text(field) for field in fields(image)] == row
    assert without(image, range(len(row))) == image
    (short,) = (
        database.open[0].execute(f"SELECT ROW(r.c0)::text FROM (SELECT {columns}) r".encode(), row).fetchone()
    )
    assert without(image, [0]) == short


@settings(suppress_health_check=UNCHECKED, max_examples=60, derandomize=True)
@given(
    st.lists(
        st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8), max_size=5
    )
)
def test_arrays_are_read_as_the_server_wrote_them(database: Database, items: list[str | None]) -> None:
    if not database.open:
        database.connect()
    (written,) = database.open[0].execute("SELECT %s::text[]::text", [items]).fetchone()
    assert loader(1009)(written) == items


def test_json_beyond_python_is_shown_as_text() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    assert values(f'("{deep}")', [json.loads]) == [deep]

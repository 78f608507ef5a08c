"""The date of a run and the beginning of a day, in the time zone of the source, on each engine."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import duckdb
import psycopg
import pytest

from clew_nl2sql import Pipeline
from clew_nl2sql.decompose import LinkingDecomposer
from clew_nl2sql.errors import UsageError
from clew_nl2sql.sources.factory import open_source
from clew_nl2sql.timezones import today_in, without_timezone

NOW = datetime(2025, 3, 3, 23, 30, tzinfo=UTC)  # already the 4th in Paris, still the 3rd in New York
PARIS, NEW_YORK, TOKYO = "Europe/Paris", "America/New_York", "Asia/Tokyo"


def date_there(timezone: str) -> date:
    from zoneinfo import ZoneInfo

    return NOW.astimezone(ZoneInfo(timezone or "UTC")).date()


def rides() -> list[tuple[int, datetime]]:
    """Return a ride every hour, in UTC, from the 1st to the 6th of March; and around a change of clocks."""
    first = datetime(2025, 3, 1, 0, 30, tzinfo=UTC)
    change = datetime(2025, 3, 29, 0, 30, tzinfo=UTC)
    moments = [first + timedelta(hours=n) for n in range(144)]
    moments += [change + timedelta(hours=n) for n in range(72)]
    return list(enumerate(moments, 1))


def expected(first: date, last: date, timezone: str) -> int:
    from zoneinfo import ZoneInfo

    zone = ZoneInfo(timezone)
    return sum(first <= at.astimezone(zone).date() <= last for _, at in rides())


def make_sqlite(folder: Path, _: Callable[..., str]) -> str:
    with closing(sqlite3.connect(folder / "rides.db")) as opened, opened:
        opened.execute("CREATE TABLE rides (id INTEGER PRIMARY KEY, started_at TEXT NOT NULL)")
        opened.executemany(
            "INSERT INTO rides VALUES (?, ?)", [(n, at.strftime("%Y-%m-%dT%H:%M:%SZ")) for n, at in rides()]
        )
    return f"sqlite:///{folder / 'rides.db'}?timezone="


def make_duckdb(folder: Path, _: Callable[..., str]) -> str:
    with duckdb.connect(str(folder / "rides.duckdb")) as opened:
        opened.execute("CREATE TABLE rides (id INTEGER PRIMARY KEY, started_at TIMESTAMPTZ NOT NULL)")
        opened.executemany("INSERT INTO rides VALUES (?, ?)", [(n, at.isoformat()) for n, at in rides()])
    return f"duckdb:///{folder / 'rides.duckdb'}?timezone="


def make_postgres(_: Path, new_database: Callable[..., str]) -> str:
    address = new_database("CREATE TABLE rides (id INT PRIMARY KEY, started_at TIMESTAMPTZ NOT NULL)")
    with psycopg.connect(address) as opened, opened.cursor() as cursor:
        cursor.executemany("INSERT INTO rides VALUES (%s, %s)", rides())
    return f"{address}&timezone="


@pytest.fixture(params=[make_sqlite, make_duckdb, make_postgres])
def address(
    request: pytest.FixtureRequest, tmp_path: Path, new_database: Callable[..., str]
) -> Iterator[str]:
    return request.param(tmp_path, new_database)


@pytest.mark.parametrize("timezone", [PARIS, NEW_YORK, TOKYO, "UTC"])
def test_a_day_is_a_day_of_the_source(address: str, timezone: str) -> None:
    today = date_there(timezone)
    yesterday = today - timedelta(days=1)
    sunday = date(2025, 3, 30)  # 23 hours in Paris
    with Pipeline({"city": address + timezone}, decomposer=LinkingDecomposer(today=date_there)) as pipeline:
        for question, first, last in (
            ("How many rides started today?", today, today),
            ("How many rides started yesterday?", yesterday, yesterday),
            ("How many rides started on 2025-03-30?", sunday, sunday),
            ("How many rides started before 2025-03-02?", date.min, date(2025, 3, 1)),
            ("How many rides started after 30 March 2025?", date(2025, 3, 31), date.max),
            ("How many rides started in the last 2 days?", today - timedelta(days=2), yesterday),
        ):
            answer = pipeline.ask(question)
            assert (answer.status, answer.rows) == (
                "answered", ((expected(first, last, timezone),),)
            ), f"{question} {answer.sql}"  # fmt: skip


def test_timestamps_are_shown_in_the_time_zone_of_the_source(
    tmp_path: Path, new_database: Callable[..., str]
) -> None:
    for make in (make_duckdb, make_postgres):
        with Pipeline({"city": make(tmp_path, new_database) + TOKYO}) as pipeline:
            answer = pipeline.ask("What is the earliest started at of rides?")
            assert str(answer.rows[0][0]).startswith("2025-03-01 09:30:00"), answer


def test_a_database_has_its_own_time_zone(new_database: Callable[..., str]) -> None:
    address = new_database("CREATE TABLE t (a INT); ALTER DATABASE THIS_DATABASE SET timezone = 'Asia/Tokyo'")
    assert open_source(address).catalog().timezone == TOKYO
    assert open_source(f"{address}&timezone={PARIS}").catalog().timezone == PARIS
    odd = new_database("CREATE TABLE t (a INT); ALTER DATABASE THIS_DATABASE SET timezone = '-3:30'")
    assert open_source(odd).catalog().timezone == ""


def test_a_replay_keeps_the_date(tmp_path: Path, new_database: Callable[..., str]) -> None:
    today = iter([date(2025, 3, 3), date(2025, 3, 5)])
    address = make_sqlite(tmp_path, new_database) + PARIS
    with Pipeline(
        {"city": address},
        decomposer=LinkingDecomposer(today=lambda _: next(today)),
        store=tmp_path / "runs.db",
    ) as pipeline:
        answer = pipeline.ask("How many rides started today?")
        assert answer.rows == ((24,),)
        assert pipeline.replay(answer.run_id)
        assert next(today) == date(2025, 3, 5)  # the replay did not ask for it


def test_addresses() -> None:
    assert without_timezone("sqlite:///a.db") == ("sqlite:///a.db", "")
    assert without_timezone(f"sqlite:///a.db?timezone={PARIS}") == ("sqlite:///a.db", PARIS)
    assert without_timezone("postgresql://h/d?timezone=Asia%2FTokyo&host=x") == (
        "postgresql://h/d?host=x",
        TOKYO,
    )
    for name in ("Mars/Base", "", "../etc/passwd", "Europe"):
        with pytest.raises(UsageError):
            without_timezone(f"sqlite:///a.db?timezone={name}")


def test_today_is_the_date_there() -> None:
    ahead, behind = today_in("Pacific/Kiritimati"), today_in("Pacific/Pago_Pago")  # 25 hours apart
    assert ahead - behind in (timedelta(days=1), timedelta(days=2))

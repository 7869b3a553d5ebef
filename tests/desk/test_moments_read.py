"""Moments come from the database as psycopg reads them, only sooner."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.db import DataError, connection
from hypothesis import given
from hypothesis import strategies as st
from psycopg.types.datetime import TimestamptzLoader

from tasks_app.database_connection import MomentLoader

TIMESTAMPTZ = 1184
_ZONES = st.integers(min_value=-15 * 60, max_value=15 * 60).map(lambda m: timezone(timedelta(minutes=m)))


def written(moment: datetime) -> bytes:
    """As the server writes it: no zeros at the end of the second's fraction, minutes of the zone where there
    are any."""
    text = moment.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")
    fraction = f".{moment.microsecond:06}".rstrip("0").rstrip(".")
    minutes = int(moment.utcoffset().total_seconds() // 60)  # type: ignore[union-attr]
    hours, rest = divmod(abs(minutes), 60)
    zone = f"{'-' if minutes < 0 else '+'}{hours:02}" + (f":{rest:02}" if rest else "")
    return f"{text}{fraction}{zone}".encode()


@given(st.datetimes(timezones=st.one_of(st.just(UTC), _ZONES)))
def test_a_moment_is_the_one_that_psycopg_reads(moment: datetime) -> None:
    text = written(moment)
    read = MomentLoader(TIMESTAMPTZ).load(text)
    assert read == TimestamptzLoader(TIMESTAMPTZ).load(text)
    assert read.utcoffset() == TimestamptzLoader(TIMESTAMPTZ).load(text).utcoffset()


@pytest.mark.parametrize(
    "moment",
    [
        datetime.min.replace(tzinfo=UTC),
        datetime(999, 2, 3, 4, 5, 6, 7, tzinfo=UTC),
        datetime(2026, 11, 28, 12, 0, 0, 500_000, tzinfo=UTC),
        datetime(2026, 11, 28, 12, 0, 0, 20, tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
    ],
)
def test_it_comes_back_from_the_server_as_it_went(db: None, moment: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute("select %s::timestamptz, array[%s::timestamptz]", [moment, moment])
        read, among = cursor.fetchone()
    assert (read, among) == (moment, [moment])
    assert read.tzinfo is among[0].tzinfo is UTC


def test_every_connection_reads_so(db: None) -> None:
    connection.ensure_connection()
    assert connection.connection.adapters.get_loader(TIMESTAMPTZ, 0) is MomentLoader  # type: ignore[call-overload]


@pytest.mark.parametrize("text", ["infinity", "-infinity", "0044-03-15 12:00+00 BC", "12000-01-01 00:00+00"])
def test_what_is_no_moment_of_python_is_refused(db: None, text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("select %s::timestamptz", [text])
        with pytest.raises(DataError, match="timestamp too"):
            cursor.fetchone()

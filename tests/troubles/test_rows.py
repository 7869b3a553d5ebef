"""What raises is put back for a growing while, counted, told to operators once, and stops nothing."""

from __future__ import annotations

import asyncio
import concurrent.futures
import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import DataError, connection

from tasks_app import clock
from tasks_app.notifications.models import Notification
from tasks_app.troubles.models import RowTrouble
from tasks_app.troubles.rows import each_row, held_back, put_back, together, troubles_forget
from tests.clocks import Clock

pytestmark = pytest.mark.django_db
BAD, WELL, OTHER = (uuid.UUID(int=number) for number in range(1, 4))


def handle(row: uuid.UUID) -> int:
    if row == BAD:
        with connection.cursor() as cursor:
            cursor.execute("select 40000::smallint")
    return 1


def handle_all(rows: object) -> list[uuid.UUID]:
    found = list(rows)  # type: ignore[call-overload]
    for row in found:
        handle(row)
    return found


def test_the_others_are_handled_and_the_one_is_left_out_for_a_while(still: Clock) -> None:
    assert each_row("work", [WELL, BAD, OTHER], handle) == 2

    trouble = RowTrouble.objects.get()
    assert (trouble.work, trouble.row, trouble.times) == ("work", BAD, 1)
    assert "smallint out of range" in trouble.error
    assert list(held_back("work").values_list("row", flat=True)) == [BAD]
    assert not held_back("another").exists()
    with clock.injected(lambda: trouble.again_at):
        assert not held_back("work").exists()


def test_what_is_handled_together_is_so_again_without_the_one() -> None:
    assert together("work", [WELL, BAD, OTHER], handle_all) == [WELL, OTHER]
    assert RowTrouble.objects.get().row == BAD
    assert together("work", [WELL, OTHER], handle_all) == [WELL, OTHER]


def test_the_delay_grows_and_operators_are_told_after_the_third_time() -> None:
    waits, told = [], []
    moment = clock.now()
    for _ in range(14):
        with clock.injected(lambda moment=moment: moment):
            each_row("work", [BAD], handle)
        trouble = RowTrouble.objects.get()
        waits.append(trouble.again_at - moment)
        told.append(Notification.objects.filter(kind="row_put_back").count())
        moment = trouble.again_at

    assert waits[:4] == [timedelta(seconds=s) for s in (5, 10, 20, 40)]
    assert waits == sorted(waits)
    assert waits[-1] == timedelta(hours=1)
    assert told == [0, 0, *[1] * 12]
    note = Notification.objects.get()
    assert (note.title, note.right) == ("Work: one row cannot be handled", "tasks_app.steer_operation")
    assert str(BAD) in note.body


def test_an_error_whose_words_nothing_can_keep_is_put_back_too() -> None:
    put_back("spoil", BAD, ValueError("half \ud800 of a pair, and \x00"))
    assert "half \ufffd of a pair, and \ufffd" in RowTrouble.objects.get().error


def test_once_it_is_handled_nothing_is_remembered() -> None:
    each_row("work", [BAD], handle)
    assert each_row("work", [BAD], lambda row: 1) == 1
    assert not RowTrouble.objects.exists()


def test_what_never_comes_again_is_forgotten() -> None:
    each_row("work", [BAD], handle)
    with clock.injected(lambda: clock_in(days=29)):
        assert troubles_forget() == 0
    with clock.injected(lambda: clock_in(days=31)):
        assert troubles_forget() == 1


CANCELLED: dict[str, BaseException] = {
    "by asyncio": asyncio.CancelledError(),
    "by a pool": concurrent.futures.CancelledError(),
    "in a group": BaseExceptionGroup("mcp", [asyncio.CancelledError()]),
}
ASKED_TO_END: dict[str, BaseException] = {
    "interrupted": KeyboardInterrupt(),
    "exits": SystemExit(1),
    "in a group": BaseExceptionGroup("mcp", [ValueError("half"), BaseExceptionGroup("of", [SystemExit(1)])]),
}


@pytest.mark.parametrize("ends", CANCELLED)
def test_a_row_whose_handling_is_cancelled_is_put_back_like_any_other(ends: str) -> None:
    assert each_row("work", [WELL, BAD, OTHER], raising(CANCELLED[ends])) == 2
    assert RowTrouble.objects.get().row == BAD
    assert type(CANCELLED[ends]).__name__ in RowTrouble.objects.get().error


@pytest.mark.parametrize("ends", CANCELLED)
def test_of_rows_handled_together_one_that_is_cancelled_is_found(ends: str) -> None:
    one = raising(CANCELLED[ends])
    assert together("work", [WELL, BAD, OTHER], lambda ids: [row for row in ids if one(row)]) == [WELL, OTHER]
    assert RowTrouble.objects.get().row == BAD


@pytest.mark.parametrize("ends", ASKED_TO_END)
def test_who_asks_the_process_to_end_is_heard(ends: str) -> None:
    one, seen = raising(ASKED_TO_END[ends]), []

    def handle_one(row: uuid.UUID) -> int:
        seen.append(row)
        return one(row)

    for attempt in (
        lambda: each_row("work", [WELL, BAD, OTHER], handle_one),
        lambda: together("work", [WELL, BAD, OTHER], lambda ids: [row for row in ids if handle_one(row)]),
    ):
        seen.clear()
        with pytest.raises(type(ASKED_TO_END[ends])):
            attempt()
        assert seen == [WELL, BAD]
    assert not RowTrouble.objects.exists()


def raising(error: BaseException) -> Callable[[uuid.UUID], int]:
    def handle_one(row: uuid.UUID) -> int:
        if row == BAD:
            raise error
        return 1

    return handle_one


def test_a_lost_connection_is_no_rows_doing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks_app.troubles.rows.connection_lost", lambda: True)
    with pytest.raises(DataError):
        each_row("work", [BAD], handle)
    assert not RowTrouble.objects.exists()


def clock_in(**duration: float) -> object:
    return clock._system() + timedelta(**duration)

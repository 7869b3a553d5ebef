"""Rows that are handled at the same moment: one that ends badly, in whatever way, stops no other, here or in
another process."""

from __future__ import annotations

import asyncio
import concurrent.futures
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from asgiref.sync import async_to_sync
from django.db import connections, transaction

from tasks_app.troubles.models import RowTrouble
from tasks_app.troubles.rows import each_row, put_back, side_by_side
from tests.approvals.test_asked_once import waiting_at_a_lock
from tests.database import Database
from tests.support import PATIENCE_S, until

BAD, WELL = uuid.UUID(int=1), uuid.UUID(int=2)
ENDS: dict[str, BaseException] = {
    "an error": ValueError("half"),
    "cancelled from within": asyncio.CancelledError(),
    "cancelled by a pool": concurrent.futures.CancelledError(),
    "a group of cancelled ones": BaseExceptionGroup("mcp", [asyncio.CancelledError()]),
}


@pytest.mark.django_db
@pytest.mark.parametrize("ends", ENDS)
def test_the_others_go_on_and_the_one_is_put_back(ends: str) -> None:
    done: list[uuid.UUID] = []

    async def both() -> int:
        over = asyncio.Event()

        async def handle(row: uuid.UUID) -> int:
            if row == BAD:
                over.set()
                raise ENDS[ends]
            await over.wait()
            await asyncio.sleep(0)  # the other has ended by now
            await asyncio.sleep(0)
            done.append(row)
            return 1

        return await side_by_side("work", [BAD, WELL], handle)

    assert async_to_sync(both)() == 1
    assert done == [WELL]
    trouble = RowTrouble.objects.get()
    assert (trouble.row, trouble.times) == (BAD, 1)
    assert type(ENDS[ends]).__name__ in trouble.error


@pytest.mark.django_db
def test_who_cancels_it_cancels_all_and_no_row_is_put_back() -> None:
    begun: list[uuid.UUID] = []

    async def handle(row: uuid.UUID) -> int:
        begun.append(row)
        await asyncio.Event().wait()
        return 1

    async def story() -> None:
        running = asyncio.create_task(side_by_side("work", [BAD, WELL], handle))
        while len(begun) < 2:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    async_to_sync(story)()
    assert not RowTrouble.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("ends", ENDS)
def test_a_lost_connection_is_no_rows_doing(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks_app.troubles.rows.connection_lost", lambda: True)

    async def handle(row: uuid.UUID) -> int:
        raise ENDS[ends]

    # What a pool calls cancelled comes out of a loop as what the loop calls so.
    with pytest.raises((type(ENDS[ends]), asyncio.CancelledError)):
        async_to_sync(side_by_side)("work", [BAD], handle)
    assert not RowTrouble.objects.exists()


@pytest.mark.django_db
def test_who_asks_the_process_to_end_is_heard_from_within_a_group() -> None:
    async def handle(row: uuid.UUID) -> int:
        if row == BAD:
            raise BaseExceptionGroup("mcp", [ValueError("half"), SystemExit(1)])
        return 1

    with pytest.raises(BaseExceptionGroup):
        async_to_sync(side_by_side)("work", [BAD, WELL], handle)
    assert not RowTrouble.objects.exists()


def handle(row: uuid.UUID) -> int:
    if row == BAD:
        raise ValueError("half")
    return 1


def test_two_processes_put_the_same_row_back(committed_db: Database) -> None:
    """The other has not committed when we look: ours waits for theirs, and counts beside it."""

    def ours() -> int:
        try:
            return each_row("work", [BAD, WELL], handle)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            put_back("work", BAD, ValueError("theirs"))
            handled = pool.submit(ours)
            until(lambda: handled.done() or waiting_at_a_lock())
        assert handled.result(PATIENCE_S) == 1
    assert RowTrouble.objects.get().times == 2

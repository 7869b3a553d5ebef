"""A lease is one call's: what comes of an older call, or beside a call, gives back no other call's slot."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import transaction

from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.operations import dispatch, sweep
from tasks_app.operations.claims import claim_due
from tasks_app.operations.comparison import Finding, Subject, Verdict
from tasks_app.operations.converge import observe
from tasks_app.operations.dispatch import Call, claim_one, claim_polls, claim_sends, finish
from tasks_app.operations.lease import CallLease
from tasks_app.operations.leases import Lease, leases_release, leases_renew, operation_is_out
from tasks_app.operations.models import Channel, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.placeholders import task_settle
from tasks_app.sellers.models import Seller
from tasks_app.troubles.models import RowTrouble
from tests.factories import make_seller
from tests.operations.making import (
    TASK,
    answer,
    ask,
    crashed,
    fresh,
    garbled,
    leased_until,
    not_sent,
    silent,
    stand,
    unknown,
)
from tests.support import PATIENCE_S

pytestmark = [pytest.mark.deep, pytest.mark.django_db]


@contextmanager
def behind(moment: datetime) -> Iterator[None]:
    """Just after that moment."""
    with clock.injected(lambda: moment + timedelta(seconds=1)):
        yield


def due(operation: Operation) -> None:
    """Everything that may be called of it is."""
    Operation.objects.filter(pk=operation.pk).exclude(status=S.COMPLETED).update(send_at=clock.now())
    Operation.objects.filter(pk=operation.pk).update(next_poll_at=clock.now())


def the_call(operation: Operation) -> Call:
    """The next of its calls, whichever it is."""
    (call,) = [*claim_sends(limit=5), *claim_polls(limit=5)]
    assert call.operation_id == operation.pk
    return call


def nothing_leaves(operation: Operation) -> None:
    due(operation)
    assert [*claim_sends(limit=5), *claim_polls(limit=5)] == []


def slots(number: int = 9) -> None:
    Seller.objects.update(slots=number)


# What may be called: sends for the first time and again, looks at a task, looks for one.
CALLED: dict[str, Callable[[], Operation]] = {
    "sent": ask,
    "sent again": lambda: stand(S.CALLING_ADCP, send_at=clock.now()),
    "looked at": lambda: stand(S.SUBMITTED, next_poll_at=clock.now()),
    "overdue": lambda: stand(S.TIMED_OUT, next_poll_at=clock.now()),
    "looked for": lambda: stand(S.SUBMITTED, task_id="", next_poll_at=clock.now()),
}
COMES: dict[str, Callable[[], Seen]] = {
    "silence": silent,
    "nothing left": not_sent,
    "garbled": garbled,
    "a crash": crashed,
    "unclear": unknown,
    "a task": lambda: answer("submitted", task_id=TASK),
    "an end": lambda: answer("completed", task_id=TASK),
}


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "with others"])
@pytest.mark.parametrize("comes", COMES)
@pytest.mark.parametrize("called", CALLED)
def test_a_late_answer_to_an_older_call_leaves_the_newer_its_lease(
    called: str, comes: str, beside: bool
) -> None:
    operation = CALLED[called]()
    slots()
    older = the_call(operation)
    with behind(cast(datetime, leased_until(operation))):
        newer = the_call(operation)
        until = leased_until(operation)
        other = [(claim_one(operation_id=ask().pk), silent())] if beside else []
        finish(cast(Any, [(older, COMES[comes]()), *other]))

        assert leased_until(operation) == until
        nothing_leaves(operation)
        finish([(newer, COMES[comes]())])
        assert leased_until(operation) is None


def test_an_end_told_to_an_older_call_is_published_and_the_newer_keeps_its_slot_until_it_ends() -> None:
    operation = ask()
    slots(1)
    older = the_call(operation)
    with behind(cast(datetime, leased_until(operation))):
        newer = the_call(operation)
        waits = ask()
        finish([(older, answer("completed"))])

        assert fresh(operation).published_at is not None
        assert claim_sends(limit=5) == [], "its seller's one slot is taken: the call is out"
        finish([(newer, answer("completed"))])
        assert [call.operation_id for call in claim_sends(limit=5)] == [waits.pk]


def found(operation: Operation, verdict: Verdict, seen: Seen | None) -> Finding:
    return Finding(
        theirs=TASK,
        verdict=verdict,
        subject=Subject(type="operation", id=operation.pk),
        team_id=operation.team_id,
        status_there="submitted",
        seen=seen,
    )


@pytest.mark.parametrize("called", CALLED)
@pytest.mark.parametrize(
    ("verdict", "seen"),
    [(Verdict.UNANSWERED, None), (Verdict.BEHIND, answer("completed", task_id=TASK))],
    ids=["its task is found", "its end is found"],
)
def test_what_reconciliation_finds_ends_no_call(called: str, verdict: Verdict, seen: Seen | None) -> None:
    operation = CALLED[called]()
    slots()
    call = the_call(operation)
    until = leased_until(operation)

    task_settle(operation.seller, found(operation, verdict, seen))

    assert fresh(operation).task_id == TASK
    assert leased_until(operation) == until
    nothing_leaves(operation)
    finish([(call, silent())])
    assert leased_until(operation) is None


@pytest.mark.parametrize("channel", Channel.values)
def test_news_that_answers_no_call_of_ours_gives_no_slot_back(channel: str) -> None:
    operation = ask()
    the_call(operation)

    observe(operation_id=operation.pk, seen=answer("working", task_id=TASK), channel=channel)

    assert operation_is_out(operation.pk)


# --- a worker that was slow -----------------------------------------------------------------------
class Slow:
    """A sweep whose calls are answered when it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sweeper = sweep._Sweeper()
        self.made: list[Call] = []
        self.told: list[Call] = []
        self.answered = asyncio.Event()
        monkeypatch.setattr(dispatch, "make", self._make)
        monkeypatch.setattr(sweep, "_chores", {})

    async def _make(self, call: Call) -> Seen:
        self.made.append(call)
        await self.answered.wait()
        self.told.append(call)
        return answer("submitted", task_id=TASK)

    async def out(self) -> None:
        """Its calls have left."""
        await self.sweeper.fill()
        await asyncio.sleep(0)


def lived(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """To its end; one that waits for what never comes fails."""

    async def in_time() -> None:
        await asyncio.wait_for(story(), PATIENCE_S)

    async_to_sync(in_time)()


def taken_over(operation: Operation) -> datetime:
    """Another worker has its call made again; until when that is leased."""
    the_call(operation)
    return cast(datetime, leased_until(operation))


@pytest.mark.parametrize("called", CALLED)
def test_who_was_too_slow_renews_and_hands_back_nothing_of_anothers(
    called: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = CALLED[called]()
    slots()
    worker = Slow(monkeypatch)

    async def story() -> None:
        await worker.out()
        ends = cast(datetime, await sync_to_async(leased_until)(operation))
        with behind(ends):
            theirs = await sync_to_async(taken_over)(operation)
        with behind(ends + timedelta(seconds=1)):
            await worker.sweeper.tick()
            assert await sync_to_async(leased_until)(operation) == theirs, "it is not theirs to renew"
            await worker.sweeper.drain(seconds=0)
            assert await sync_to_async(leased_until)(operation) == theirs, "nor to give back"

    lived(story)
    assert len(worker.made) == 1


@pytest.mark.parametrize("called", CALLED)
@pytest.mark.parametrize("ends", ["answered", "handed back"])
def test_who_was_too_slow_renews_and_returns_its_own(
    called: str, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = CALLED[called]()
    slots()
    worker = Slow(monkeypatch)

    async def story() -> None:
        await worker.out()
        ran_out = cast(datetime, await sync_to_async(leased_until)(operation))
        with behind(ran_out):
            await worker.out()
            again = cast(datetime, await sync_to_async(leased_until)(operation))
            assert again > ran_out
        with behind(ran_out + timedelta(seconds=1)):
            worker.sweeper._renew_at = 0.0  # a third of a lease later
            await worker.sweeper.tick()
            assert cast(datetime, await sync_to_async(leased_until)(operation)) > again
            if ends == "answered":
                worker.answered.set()
                await worker.sweeper.run_dry()
            else:
                await worker.sweeper.drain(seconds=0)

    lived(story)
    assert len(worker.made) == 1, "it was out all the while"
    assert not CallLease.objects.exists()


@pytest.mark.parametrize("called", CALLED)
def test_what_is_out_is_never_claimed_by_who_calls_for_it(
    called: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though its lease ran out, for this process or the database was slow: nothing would come of the claim,
    and an attempt would be counted, or a person's answer taken, that nobody sends."""
    operation = CALLED[called]()
    slots()
    worker = Slow(monkeypatch)

    async def story() -> None:
        await worker.out()
        ran_out = cast(datetime, await sync_to_async(leased_until)(operation))
        attempts = (await sync_to_async(fresh)(operation)).attempts
        await sync_to_async(due)(operation)
        worker.sweeper._renew_at = float("inf")
        with behind(ran_out):
            await worker.out()
            assert await sync_to_async(leased_until)(operation) == ran_out
            assert (await sync_to_async(fresh)(operation)).attempts == attempts
            assert operation.pk in await sync_to_async(anybodys)(), "to another process it is due"
        await worker.sweeper.drain(seconds=0)

    lived(story)
    assert len(worker.made) == 1


def test_a_call_that_is_cancelled_from_within_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a connection that breaks off: nobody asked for that, and it would be made again each time that
    its lease has run out."""

    async def make(_: Call) -> Seen:
        raise asyncio.CancelledError

    operation, worker = ask(), Slow(monkeypatch)
    monkeypatch.setattr(dispatch, "make", make)

    async def story() -> None:
        await worker.sweeper.fill()
        while worker.sweeper._out:
            await asyncio.sleep(0)

    lived(story)
    assert RowTrouble.objects.get(row=operation.pk).times == 1


def test_a_look_up_that_cannot_be_made_keeps_no_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(_: Operation) -> None:
        raise LookupError

    operation = CALLED["looked for"]()
    slots(1)
    monkeypatch.setattr(dispatch, "lookup_of", unreadable)
    assert claim_polls(limit=5) == []
    assert leased_until(operation) is None


def anybodys() -> set[uuid.UUID]:
    return {call.operation_id for call in [*claim_sends(limit=5), *claim_polls(limit=5)]}


async def waiting_in_line(worker: Slow, several: int) -> None:
    """Another batch is being written; the worker stops before theirs is."""
    async with worker.sweeper._observing:
        worker.answered.set()
        while len(worker.told) < several:
            await asyncio.sleep(0)
        await worker.sweeper.drain(seconds=0)


async def about_to_be_written(worker: Slow, several: int) -> None:
    """The database's thread is busy; the worker stops before it comes to theirs."""
    free = threading.Event()
    busy = asyncio.create_task(sync_to_async(free.wait)())
    await asyncio.sleep(0)
    worker.answered.set()
    while len(worker.told) < several:
        await asyncio.sleep(0)
    stopping = asyncio.create_task(worker.sweeper.drain(seconds=0))
    while not stopping.done():
        await asyncio.sleep(0)
        if not worker.sweeper._out:
            free.set()
    await asyncio.gather(busy, stopping)


@pytest.mark.parametrize("held_up", [waiting_in_line, about_to_be_written], ids=lambda way: way.__name__)
def test_an_answer_in_hand_is_observed_before_its_call_is_handed_back(
    held_up: Callable[[Slow, int], Coroutine[Any, Any, None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise what a seller has taken is sent again."""
    operations = [ask(seller=make_seller(slug=slug)) for slug in ("north", "south")]
    slots()
    worker = Slow(monkeypatch)

    async def story() -> None:
        await worker.out()
        await held_up(worker, len(operations))

    lived(story)
    assert [fresh(one).status for one in operations] == [S.SUBMITTED, S.SUBMITTED]
    assert not CallLease.objects.exists()
    assert claim_sends(limit=5) == []


def test_two_answers_of_one_operation_in_one_batch_are_both_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call's own end was cancelled while its answer waited in line (a connection that breaks off
    may do that); its lease ran out, and the call was made again."""
    operation = ask()
    worker, made = Slow(monkeypatch), 0

    async def make(_: Call) -> Seen:
        nonlocal made
        made += 1
        if made > 1:
            return silent()
        cast("asyncio.Task[None]", asyncio.current_task()).cancel()
        return answer("submitted", task_id=TASK)

    async def story() -> None:
        monkeypatch.setattr(dispatch, "make", make)
        async with worker.sweeper._observing:
            await worker.sweeper.fill()
            while worker.sweeper._out:
                await asyncio.sleep(0)
        assert len(worker.sweeper._answered) == 1
        with behind(cast(datetime, await sync_to_async(leased_until)(operation))):
            await worker.sweeper.fill()
            await worker.sweeper.run_dry()

    lived(story)
    assert made == 2
    assert list(operation.observations.order_by("id").values_list("kind", flat=True)) == [
        "answer",
        "no_answer",
    ]
    assert (fresh(operation).status, fresh(operation).task_id) == (S.SUBMITTED, TASK)
    assert not CallLease.objects.exists()


def test_what_was_not_taken_after_all_is_given_back() -> None:
    """A claim that finds that nothing is to leave returns what it has just taken."""
    operation = ask(seller=make_seller(slots=2))
    Seller.objects.update(active=False)
    assert claim_sends(limit=5) == []
    assert not CallLease.objects.filter(pk=operation.pk).exists()


@pytest.mark.parametrize("act", [leases_release, leases_renew])
def test_calls_claimed_together_are_told_apart_by_their_operations(
    act: Callable[[list[Lease]], None],
) -> None:
    """Two are claimed together; the first one's lease runs out and it is claimed anew beside a third. The
    late first call and the third's, dealt with in one go, are no reason to touch what the first has now."""
    first, second, third = (ask(seller=make_seller(name)) for name in ("One", "Two", "Three"))
    Operation.objects.filter(pk=third.pk).update(send_at=None)
    older = {call.operation_id: call.lease for call in claim_sends(limit=5)}
    assert older.keys() == {first.pk, second.pk}
    ended = cast(datetime, leased_until(first))
    with behind(ended):
        CallLease.objects.filter(pk=second.pk).update(until=clock.now() + timedelta(hours=1))
        due(third)
        newer = {call.operation_id: call.lease for call in claim_sends(limit=5)}
        assert newer.keys() == {first.pk, third.pk}
        stood = dict(CallLease.objects.values_list("pk", "until"))

    with behind(ended + timedelta(seconds=5)):
        act([older[first.pk], newer[third.pk]])
    stand_now = dict(CallLease.objects.values_list("pk", "until"))
    assert {pk for pk in stood if stand_now.get(pk) == stood[pk]} == {first.pk, second.pk}


def test_the_sellers_of_a_claim_are_as_the_orm_reads_them() -> None:
    """Read by a prepared statement, in binary: every column, the encrypted and those of JSON among them."""
    seller = make_seller(
        token="Bearer-tok-1",
        webhook_secret="s" * 40,
        secret_headers='{"x-key": "k-1"}',
        headers={"x-tenant": "north", "x-odd": "å\u2028"},
        timing={"submitted_s": 7.5},
        quirks=["omit get_media_buys account"],
        webhook_paused_until=clock.now(),
        slots=3,
    )
    stand(S.SUBMITTED, seller=seller, next_poll_at=clock.now())
    with transaction.atomic():
        claimed = claim_due(
            column="next_poll_at", statuses=[S.SUBMITTED], due_by=clock.now(), limit=5, batch=8
        )
    read = claimed.sellers[seller.pk]
    kept = Seller.objects.get(pk=seller.pk)
    names = [field.attname for field in Seller._meta.concrete_fields if field.name != "capabilities"]
    assert {name: getattr(read, name) for name in names} == {name: getattr(kept, name) for name in names}
    assert read.get_deferred_fields() == {"capabilities"}
    assert read.endpoint(timeout_s=1) == kept.endpoint(timeout_s=1)
    assert read.known_secrets == kept.known_secrets

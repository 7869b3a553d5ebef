"""What a claim knows of the sellers that it holds: their breakers, their slots and what is out; and what it
costs where nothing can be taken."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from tasks_app import clock, ids
from tasks_app.operations import claims, reading
from tasks_app.operations.dispatch import claim_one, claim_polls, claim_sends
from tasks_app.operations.lease import CallLease
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller, SellerBreaker
from tests.database import Database
from tests.factories import make_seller
from tests.operations.making import ask, fresh, stand
from tests.operations.test_claims import crowd
from tests.support import joined, locks_awaited, rows_read, until
from tests.troubles.poisoning import poison

pytestmark = pytest.mark.deep

OPEN = "update tasks_app_sellerbreaker set state = 'open', failures = 5, probe_at = now() + interval '1 h'"
MARKED = "update tasks_app_sellerbreaker set state = 'half-open', probe_at = now() + interval '1 h'"
OTHERWISE = {"on": "off", "off": "on", "auto": "force_custom_plan"}
RAN_OUT = """
insert into tasks_app_calllease (id, seller_id, call, until)
select o.id, o.seller_id, gen_random_uuid(), now() - interval '1 s' from tasks_app_operation o
"""


def failing(seller: Seller, state: str = "open", *, probe_at: datetime | None = None) -> SellerBreaker:
    return SellerBreaker.objects.create(seller=seller, state=state, failures=4, probe_at=probe_at)


def looking(seller: Seller, *, out: bool = False) -> Any:
    until = clock.now() + timedelta(hours=1) if out else None
    return stand(
        S.SUBMITTED, seller=seller, task_id=ids.new_id().hex, next_poll_at=clock.now(), out_until=until
    )


def out(seller: Seller, many: int) -> None:
    for _ in range(many):
        CallLease.objects.create(id=ids.new_id(), seller=seller, until=clock.now() + timedelta(hours=1))


@contextmanager
def holding(database: Database, seller: Seller, then: str) -> Iterator[None]:
    """Somebody holds the seller, and writes `then` once this connection waits for it."""

    def write() -> None:
        until(locks_awaited)
        connection.close()  # this thread's
        other.execute(then.encode())
        other.commit()

    with psycopg.connect(database.urls.app) as other:
        other.execute("select from tasks_app_seller where id = %s for no key update", [seller.pk])
        beside = threading.Thread(target=write)
        beside.start()
        yield
        joined(beside)


class TestWaitedFor:
    """A claim of one operation waits for its seller: what it goes by is read after that."""

    def test_a_breaker_that_opened_meanwhile_keeps_it(self, committed_db: Database) -> None:
        seller = make_seller(slots=5)
        asked = ask("get_products", seller=seller)
        failing(seller, "closed")
        with holding(committed_db, seller, OPEN):
            assert claim_one(operation_id=asked.pk) is None
        assert not CallLease.objects.exists()

    def test_of_two_probes_one_goes_out(self, committed_db: Database) -> None:
        seller = make_seller(slots=5)
        asked = ask("get_products", seller=seller)
        failing(seller, probe_at=clock.now())
        with holding(committed_db, seller, MARKED):
            assert claim_one(operation_id=asked.pk) is None
        assert not CallLease.objects.exists()

    def test_a_lease_that_ran_out_meanwhile_is_taken_over(self, committed_db: Database) -> None:
        seller = make_seller(slots=5)
        asked = ask("get_products", seller=seller)
        with holding(committed_db, seller, RAN_OUT):
            assert claim_one(operation_id=asked.pk) is not None


def test_a_look_whose_seller_somebody_holds_waits_for_nobody(committed_db: Database) -> None:
    held, free = make_seller("Held"), make_seller("Free")
    looking(held)
    looking(free)
    with psycopg.connect(committed_db.urls.app) as other:
        other.execute("select from tasks_app_seller where id = %s for no key update", [held.pk])
        assert [call.seller_id for call in claim_polls(limit=5)] == [free.pk]


def test_a_probe_is_marked_only_while_none_is_out(committed_db: Database) -> None:
    """Who read the breaker before somebody marked theirs is not the one."""
    seller = make_seller()
    one, two = failing(seller, probe_at=clock.now()), SellerBreaker.objects.get()
    assert claims.breaker_probe(one)
    assert not claims.breaker_probe(two)


def marked_meanwhile(database: Database, monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """Somebody marks their probe between the reading of the breaker and the marking of ours."""
    mark = module.breaker_probe

    def marked(row: SellerBreaker) -> bool:
        with psycopg.connect(database.urls.app) as other:
            other.execute(MARKED)
        return bool(mark(row))

    monkeypatch.setattr(module, "breaker_probe", marked)


def test_a_call_goes_out_only_as_the_one_probe(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    seller = make_seller(slots=5)
    ask("get_products", seller=seller)
    failing(seller, probe_at=clock.now())
    marked_meanwhile(committed_db, monkeypatch, claims)
    assert claim_sends(limit=5) == []
    assert not CallLease.objects.exists()


def test_a_reading_goes_out_only_as_the_one_probe(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    seller = make_seller(slots=5)
    failing(seller, "half-open", probe_at=clock.now())
    marked_meanwhile(committed_db, monkeypatch, reading)
    with pytest.raises(reading.UnreadableError):
        reading._queue(seller.pk)
    assert not CallLease.objects.exists()


TAKES = pytest.mark.parametrize(
    ("due", "claim"),
    [(lambda seller: ask("get_products", seller=seller), claim_sends), (looking, claim_polls)],
    ids=["sends", "looks"],
)
Claim = Callable[..., list[Any]]


@pytest.mark.django_db
class TestNothingToTake:
    @pytest.mark.parametrize("hours", [1, -1])
    @pytest.mark.parametrize("batch", [None, 200])
    def test_a_seller_that_is_off_refuses_at_once_also_while_it_is_left_alone(
        self, hours: int, batch: int | None
    ) -> None:
        """One that does not answer is switched off: what waits for it would fail one by one, as its probe."""
        seller = make_seller(slots=1)
        waiting = [ask("get_products", seller=seller) for _ in range(5)]
        breaker = failing(seller, probe_at=clock.now() + timedelta(hours=hours))
        Seller.objects.update(active=False)
        assert claim_sends(limit=10, batch=batch) == []
        assert [fresh(one).error["code"] for one in waiting] == ["SELLER_OFF"] * 5
        assert SellerBreaker.objects.get().probe_at == breaker.probe_at, "nobody asked it anything"

    @pytest.mark.parametrize("batch", [None, 8])
    @TAKES
    def test_fewer_slots_than_are_out_keep_no_other_seller(
        self, due: Callable[[Seller], object], claim: Claim, batch: int | None
    ) -> None:
        crowded, free = make_seller("Crowded", slots=3), make_seller("Free", slots=2)
        out(crowded, 3)
        Seller.objects.filter(pk=crowded.pk).update(slots=1)
        for seller in (crowded, free):
            due(seller)
        assert [call.seller_id for call in claim(limit=5, batch=batch)] == [free.pk]

    @TAKES
    def test_sellers_that_wait_for_what_is_out_cost_a_claim_nothing(
        self, due: Callable[[Seller], object], claim: Claim
    ) -> None:
        """Each of them would be held, given the only place, and found to have nothing: a round of its own."""
        for number in range(20):
            seller = make_seller(f"Seller {number}", slots=5)
            due(seller)
        assert len(claim(limit=20, batch=200)) == 20
        Operation.objects.update(send_at=clock.now(), next_poll_at=clock.now())
        busy = make_seller("Busy", slots=5)
        due(busy)
        claim(limit=1, batch=200)
        due(busy)
        with CaptureQueriesContext(connection) as asked:
            assert [call.seller_id for call in claim(limit=1, batch=200)] == [busy.pk]
        assert len(asked) < 12

    @pytest.mark.parametrize("batch", [None, 64])
    @TAKES
    def test_a_probe_that_was_put_back_of_a_seller_with_nothing_due_keeps_no_other_seller(
        self, due: Callable[[Seller], object], claim: Claim, batch: int | None
    ) -> None:
        """Its row cannot be written. Another seller is failing, of one less is due than its share."""
        gone = make_seller("Gone", slots=20)
        failing(gone, probe_at=clock.now())
        due(gone)
        poison("tasks_app_sellerbreaker", gone.pk, column="seller_id")
        assert claim(limit=10, batch=batch) == []
        Operation.objects.update(send_at=None, next_poll_at=None)

        left_alone, little, much = (make_seller(name, slots=20) for name in ("Left alone", "Little", "Much"))
        failing(left_alone, probe_at=clock.now() + timedelta(hours=1))
        for seller in (left_alone, little, *[much] * 9):
            due(seller)
        assert Counter(call.seller_id for call in claim(limit=10, batch=batch)) == {little.pk: 1, much.pk: 9}

    @TAKES
    def test_sellers_whose_slots_others_have_cost_a_claim_no_round_each(
        self, due: Callable[[Seller], object], claim: Claim
    ) -> None:
        for number in range(20):
            seller = make_seller(f"Seller {number}", slots=2)
            out(seller, 2)
            due(seller)
        free = make_seller("Free", slots=5)
        due(free)
        with CaptureQueriesContext(connection) as asked:
            assert [call.seller_id for call in claim(limit=1, batch=200)] == [free.pk]
        assert len(asked) < 20

    @pytest.mark.parametrize("written_again", [0, 20])
    def test_of_a_seller_without_a_place_no_more_than_one_send_is_read(self, written_again: int) -> None:
        """By PostgreSQL's own count, as of looks; nobody told the planner how much became due at once."""
        seller = make_seller(slots=1)
        out(seller, 1)
        crowd(seller, 1_000)
        for _ in range(written_again):
            Operation.objects.update(send_at=None)
        connection.cursor().execute("analyze tasks_app_operation")
        Operation.objects.update(send_at=clock.now())
        for _ in range(9):
            before = rows_read("tasks_app_operation")
            assert claim_sends(limit=5) == []
            assert rows_read("tasks_app_operation") - before < 20

    @pytest.mark.parametrize("batch", [None, 8])
    @TAKES
    def test_settings_are_set_back_to_those_of_the_session(
        self, due: Callable[[Seller], object], claim: Claim, batch: int | None
    ) -> None:
        """As the session began, whatever its transaction has set."""
        began = planning()
        seller = make_seller(slots=2)
        out(seller, 2)
        due(seller)
        for _ in range(9):
            with transaction.atomic(), connection.cursor() as cursor:
                for name, value in began.items():
                    cursor.execute(f"set local {name} = {OTHERWISE[value]}")
                assert claim(limit=5, batch=batch) == []
                assert planning() == began

    @TAKES
    def test_no_claim_is_compiled(
        self, monkeypatch: pytest.MonkeyPatch, due: Callable[[Seller], object], claim: Claim
    ) -> None:
        """A forbidden sort counts as a very long plan before PostgreSQL 18, and compiling it takes half a
        second each time."""
        seen: list[str] = []
        read = claims.prepared_rows

        def looked(statement: str, parameters: Any) -> Any:
            seen.append(planning()["jit"])
            return read(statement, parameters)

        monkeypatch.setattr(claims, "prepared_rows", looked)
        due(make_seller())
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("set local jit = on")
            assert len(claim(limit=5)) == 1
        assert seen == ["off", "off"]


def planning() -> dict[str, str]:
    """What the session has its statements planned by."""
    names = ("enable_bitmapscan", "enable_sort", "jit", "plan_cache_mode")
    with connection.cursor() as cursor:
        cursor.execute(f"select {', '.join(f'current_setting({name!r})' for name in names)}")
        row = cursor.fetchone()
    assert row is not None
    return dict(zip(names, row, strict=True))


@pytest.mark.django_db
class TestRounds:
    """What one of whom less was due leaves is shared out among the others."""

    def test_each_is_planned_as_the_first(self) -> None:
        little, much = make_seller("Little", slots=50), make_seller("Much", slots=50)
        crowd(much, 1_000)
        for _ in range(20):
            Operation.objects.update(next_poll_at=None)
        connection.cursor().execute("analyze tasks_app_operation")
        for _ in range(9):
            CallLease.objects.all().delete()
            Operation.objects.update(next_poll_at=clock.now())
            looking(little)
            before = rows_read("tasks_app_operation")
            taken = Counter(call.seller_id for call in claim_polls(limit=30, batch=48))
            assert taken[much.pk] == 30 - taken[little.pk] > 15, "a second round brought the rest"
            assert rows_read("tasks_app_operation") - before < 200

    def test_looks_and_sends_have_turns_of_their_own(self) -> None:
        """Who was looked at last is not the last to be sent to."""
        first, other = sorted((make_seller("One"), make_seller("Two")), key=lambda seller: seller.pk)
        looking(first)
        assert len(claim_polls(limit=1, batch=8)) == 1
        CallLease.objects.all().delete()
        for seller in (first, other):
            ask("get_products", seller=seller)
        assert [call.seller_id for call in claim_sends(limit=1, batch=8)] == [first.pk]

    def test_no_round_gives_more_than_breakers_and_slots_leave(self) -> None:
        """What killed workers had out takes no slot."""
        probed, little, much = (make_seller(name, slots=5) for name in ("Probed", "Little", "Much"))
        failing(probed, probe_at=clock.now())
        for seller, many in ((probed, 3), (little, 1), (much, 9)):
            for _ in range(many):
                looking(seller)
        for _ in range(5):
            ran_out = clock.now() - timedelta(seconds=5)
            CallLease.objects.create(id=ids.new_id(), seller=much, until=ran_out)
        taken = Counter(call.seller_id for call in claim_polls(limit=8, batch=48))
        assert taken == {probed.pk: 1, little.pk: 1, much.pk: 5}

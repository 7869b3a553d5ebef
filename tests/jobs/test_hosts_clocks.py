"""One clock for leases, the database's: a host whose clock is wrong loses no work, takes nobody's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings

from orders.mirror import _claim, _claimable
from orders.models import DealMirror
from tasks_app.jobs.claims import renew_lease
from tasks_app.jobs.wake import wake_if_missed
from tasks_app.operations.breaker import breaker_record
from tasks_app.operations.dispatch import claim_sends
from tasks_app.operations.health import sellers_health
from tasks_app.operations.leases import leases_forget, leases_renew, operation_is_out
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.reading import left_alone
from tasks_app.sellers.models import Seller, SellerBreaker
from tasks_app.sellers.timing import timing
from tests.clocks import host
from tests.database import Database
from tests.factories import make_seller
from tests.jobs.claiming import claim_step
from tests.jobs.conftest import Bench, bench  # noqa: F401
from tests.operations.making import ask, silent, stand
from tests.orders.live import booked

WRONG = [timedelta(hours=-2), timedelta(hours=2)]


@pytest.fixture(autouse=True)
def _leases_outlast_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a machine takes for it; a wrong clock is wrong by more."""
    for name in ("STEP_LEASE_S", "OPERATION_LEASE_S"):
        monkeypatch.setattr(settings, name, 3600)


@pytest.mark.parametrize("wrong_by", WRONG)
def test_a_step_that_is_renewed_is_nobody_elses(
    committed_db: Database,
    bench: Bench,  # noqa: F811
    wrong_by: timedelta,
) -> None:
    bench.recipe({"id": "a"})
    bench.start()
    step = claim_step()
    assert step is not None
    with host(wrong_by):
        assert renew_lease(step)
    assert claim_step() is None
    with host(wrong_by):
        assert claim_step() is None
        wake_if_missed()
    step.refresh_from_db()
    left = (step.lease_until - datetime.now(UTC)).total_seconds()
    assert 0 < left <= settings.STEP_LEASE_S


@pytest.mark.django_db
@pytest.mark.parametrize("wrong_by", WRONG)
def test_a_call_that_is_out_is_out_for_every_host(wrong_by: timedelta) -> None:
    operation = ask("get_products", seller=make_seller(slots=1))
    with host(wrong_by):
        (call,) = claim_sends(limit=5, due_by=datetime.now(UTC))
        leases_renew([call.lease])
        leases_forget()
    assert operation_is_out(operation.pk)
    assert claim_sends(limit=5) == []
    with host(wrong_by):
        assert operation_is_out(operation.pk)


@pytest.mark.django_db
@pytest.mark.parametrize("wrong_by", WRONG)
def test_a_media_buy_that_is_being_read_is_read_by_nobody_else(wrong_by: timedelta) -> None:
    booked()
    DealMirror.objects.update(due_at=datetime.now(UTC) - timedelta(hours=3))
    with host(wrong_by):
        assert len(_claim()) == 1
        assert not _claimable().exists()
    assert not _claimable().exists()


@pytest.mark.django_db
@pytest.mark.parametrize("wrong_by", WRONG)
def test_a_probe_that_is_out_is_the_only_one_for_every_host(wrong_by: timedelta) -> None:
    seller = make_seller(slots=5)
    for _ in range(2):
        ask(seller=seller)
    SellerBreaker.objects.create(seller=seller, state="open", failures=5, probe_at=datetime.now(UTC))
    with host(wrong_by):
        assert len(claim_sends(limit=5, due_by=datetime.now(UTC) + timedelta(hours=5))) == 1
        assert Seller.objects.filter(left_alone()).exists()
    assert claim_sends(limit=5) == []
    left = (SellerBreaker.objects.get().probe_at - datetime.now(UTC)).total_seconds()
    assert 0 < left <= settings.OPERATION_LEASE_S


@pytest.mark.django_db
@pytest.mark.parametrize("wrong_by", WRONG)
@pytest.mark.parametrize(("probe_in", "is_left_alone"), [(-60, False), (60, True)])
def test_a_seller_is_left_alone_by_the_databases_clock(
    wrong_by: timedelta, probe_in: int, is_left_alone: bool
) -> None:
    seller = make_seller(slots=5)
    probe_at = datetime.now(UTC) + timedelta(seconds=probe_in)
    SellerBreaker.objects.create(seller=seller, state="open", failures=5, probe_at=probe_at)
    ask(seller=seller)
    with host(wrong_by):
        assert Seller.objects.filter(left_alone()).exists() is is_left_alone
        calls = claim_sends(limit=5, due_by=datetime.now(UTC) + timedelta(hours=5))
        assert len(calls) == (0 if is_left_alone else 1)


@pytest.mark.django_db
@pytest.mark.parametrize("wrong_by", WRONG)
def test_a_breaker_opens_for_its_time_by_the_databases_clock(wrong_by: timedelta) -> None:
    seller = make_seller()
    SellerBreaker.objects.create(seller=seller, failures=99)
    began = datetime.now(UTC)
    with host(wrong_by):
        breaker_record(seller_id=seller.pk, seen=silent())
    opened = SellerBreaker.objects.get()
    assert opened.state == "open"
    reset = timedelta(seconds=timing(seller, "breaker_reset_s") * settings.POLL_SCALE)
    assert began <= opened.probe_at - reset <= datetime.now(UTC)


@pytest.mark.parametrize("wrong_by", WRONG)
def test_a_sellers_health_is_the_same_on_every_host(committed_db: Database, wrong_by: timedelta) -> None:
    seller = make_seller(slots=3)
    now = datetime.now(UTC)
    stand(S.CALLING_ADCP, seller=seller, out_until=now + timedelta(hours=1))
    stand(S.SUBMITTED, seller=seller, task_id="late", deadline_at=now - timedelta(hours=1))
    stand(S.SUBMITTED, seller=seller, task_id="in-time", deadline_at=now + timedelta(hours=1))
    with host(wrong_by):
        out = sellers_health([seller])[seller.pk].out
    assert (out.calling, out.overdue) == (1, 1)

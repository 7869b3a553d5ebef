"""A seller whose state begins anew is believed in the end; a late or overtaken answer never is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from orders.models import Deal, DealMirror
from orders.presenters import mirror_facts
from orders.questions import DIFFERENT
from orders.seller_state import columns_if_newest, deal_follow, deal_refresh
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.desk.explain import explain
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import verify_entity
from tests.factories import make_user
from tests.orders.live import booked, packages, says

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
Record = dict[str, Any]
INT_MAX = 2**31 - 1


def read(deal: Deal, after: float, revision: int | None = 3, status: str = "paused", **told: Any) -> Deal:
    """A reading of ours, asked for so many minutes from now."""
    told = {**({} if revision is None else {"revision": revision}), "packages": packages(deal), **told}
    at = clock.now() + timedelta(minutes=after)
    with clock.injected(lambda: at):
        return says(deal, status, asked_at=at, **told)


def known(revision: int | None = 57, **told: Any) -> Deal:
    deal = booked()
    return says(
        deal, "active", packages=packages(deal), **({"revision": revision} if revision else {}), **told
    )


@pytest.mark.parametrize("before", [57, INT_MAX])
@pytest.mark.parametrize("later", [False, True], ids=["no time", "a later time"])
def test_what_a_restored_seller_keeps_saying_is_believed(before: int, later: bool) -> None:
    deal = known(before)
    for number in (1, 2, 3):
        assert (deal.revision, deal.media_buy_status) == (before, "active")
        stated = clock.now() + timedelta(minutes=number * 10)
        deal = read(deal, number * 10, **({"status_as_of": stated.isoformat()} if later else {}))

    assert (deal.revision, deal.media_buy_status) == (3, "paused")
    assert read(deal, 40, revision=4, status="active").media_buy_status == "active"
    assert verify_entity("deal", deal.pk).ok


def test_one_that_counts_on_from_there_is_believed_too() -> None:
    deal = known()
    for number in (1, 2, 3):
        deal = read(deal, number * 10, revision=2 + number)
    assert deal.revision == 5


def test_a_seller_whose_times_go_back_is_believed_too() -> None:
    stated = clock.now()
    deal = known(None, status_as_of=stated.isoformat())
    older = (stated - timedelta(days=9)).isoformat()
    for number in (1, 2, 3):
        assert deal.media_buy_status == "active"
        deal = read(deal, number * 10, revision=None, status_as_of=older)
    assert deal.media_buy_status == "paused"
    assert read(deal, 40, revision=None, status="active", status_as_of=older).media_buy_status == "active"


def test_what_differs_then_is_asked_about() -> None:
    deal = known()
    for number in (1, 2, 3):
        deal = read(deal, number * 10, packages=packages(deal, budget=9_000_000.0))
    assert deal.differs
    assert Approval.objects.get(kind=DIFFERENT, status="open").amount == 9_000_000


def test_an_end_that_it_keeps_telling_counts() -> None:
    deal = known()
    for number in (1, 2, 3):
        assert deal.status == "delivering"
        deal = read(deal, number * 10, status="canceled")
    assert deal.status == "cancelled"
    assert verify_entity("deal", deal.pk).ok


# --- what is no such row of readings ------------------------------------------------------------------


def by_an_answer(deal: Deal, at: datetime) -> None:
    deal_refresh(deal_id=deal.pk, buy=told_of(deal), asked_at=at)


def by_a_change(deal: Deal, at: datetime) -> None:
    locked = Deal.objects.select_for_update().get(pk=deal.pk)
    assert not columns_if_newest(locked, told_of(deal), asked_at=at)


def by_an_overtaken_reading(deal: Deal, at: datetime) -> None:
    deal_follow(deal_id=deal.pk, buy=told_of(deal), asked_at=clock.now() - timedelta(hours=1))


def by_the_same_reading(deal: Deal, at: datetime) -> None:
    deal_follow(deal_id=deal.pk, buy=told_of(deal), asked_at=FIRST)


def told_of(deal: Deal) -> Record:
    return {"media_buy_id": deal.media_buy_id, "media_buy_status": "paused", "revision": 3}


FIRST = datetime.fromisoformat("2100-01-01T00:00:00+00:00")
NO_ROWS: dict[str, Callable[[Deal, datetime], None]] = {
    "answers": by_an_answer,
    "what shows a change": by_a_change,
    "overtaken readings": by_an_overtaken_reading,
    "one reading told again": by_the_same_reading,
}


@pytest.mark.parametrize("by", NO_ROWS)
def test_what_is_not_read_again_never_undoes_newer_news(by: str) -> None:
    deal = known()
    for number in range(1, 9):
        NO_ROWS[by](deal, clock.now() + timedelta(minutes=number))
    deal.refresh_from_db()
    assert (deal.revision, deal.media_buy_status) == (57, "active")


def test_two_readings_are_not_enough_and_newer_news_begins_the_count_anew() -> None:
    deal = known()
    for number in range(0, 60, 3):
        read(deal, number + 1)
        read(deal, number + 2)
        deal = read(deal, number + 3, revision=57 + number // 30, status="active")
    assert (deal.revision, deal.media_buy_status) == (58, "active")


def test_readings_that_fall_back_themselves_are_not_one_row() -> None:
    deal = known()
    for number, revision in enumerate((9, 8, 7, 6, 5), start=1):
        deal = read(deal, number, revision=revision)
    assert deal.revision == 57


# --- what people see ----------------------------------------------------------------------------------


def test_people_see_that_it_contradicts_itself_and_then_that_it_began_anew() -> None:
    deal, viewer = known(), make_user("Approver")
    read(deal, 10)
    said = explain(deal.reference, viewer).waiting_for
    assert "revision 3, older than revision 57" in said
    assert "1 so far" in said
    assert DealMirror.objects.get(pk=deal.pk).due_at <= clock.now() + timedelta(minutes=20), "read soon"

    for minutes in (20, 30):
        read(deal, minutes)
    said = explain(deal.reference, viewer).waiting_for
    assert "revision 3 after revision 57" in said
    assert "3 readings in a row" in said
    entry = AuditEntry.objects.filter(entity_id=deal.pk, metadata__known=57).get()
    assert (entry.actor, entry.metadata["revision"]) == (f"agent:{deal.seller.slug}", 3)
    deal = Deal.objects.get(pk=deal.pk)
    assert "revision 3 after revision 57" in dict(mirror_facts(deal))["Began anew"]

    read(deal, 40, revision=4)
    assert "revision" not in explain(deal.reference, viewer).waiting_for

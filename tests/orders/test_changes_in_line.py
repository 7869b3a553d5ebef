"""Of several changes of one media buy that nothing shows, people are asked about each, one after the other;
and about none that counted."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from orders.changes_left import is_nothing
from orders.coming import coming_by
from orders.doubt import change_left, changes_in_doubt
from orders.models import Deal
from orders.questions import CHANGE_NOT_SHOWN, DIFFERENT, LATE_CHANGE
from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish_due
from tasks_app.sellers.models import Seller
from tests.factories import make_line
from tests.operations.making import observed
from tests.orders.doors import wanted
from tests.orders.late import decide, fresh, overdue, say
from tests.orders.live import booked, packages
from tests.orders.test_one_door_of_changes import SILENT, by_its_answer, by_its_read_back, doubts

pytestmark = [pytest.mark.deep, pytest.mark.django_db]

D = Decimal
RUNS = {**SILENT, "media_buy_status": "active"}


def two() -> Deal:
    """Two packages: 10,000 and 50,000."""
    return booked(lines=(make_line(budget=D(10_000)), make_line(product_id="b", budget=D(50_000))))


def budget(where: str, amount: int) -> dict[str, Any]:
    return {"packages": [{"package_id": where, "budget": amount}]}


def not_shown(change: Operation, task: str) -> None:
    """Its seller calls it done, and neither that nor its read back shows it."""
    say(change, "completed", SILENT, task_id=task)
    by_its_read_back(change, RUNS, clock.now())


def wanted_late(change: Operation, task: str) -> None:
    """The same of one that came after its deadline, and that people want."""
    overdue(change)
    say(change, "completed", SILENT, task_id=task)
    decide(LATE_CHANGE, "approve")
    by_its_read_back(change, RUNS, clock.now())


def asked_about() -> list[str]:
    return [one.evidence["operation_id"] for one in doubts()]


def asked_in_all() -> set[str]:
    """The changes that people are asked about until nobody is asked any more."""
    while doubts():
        with suppress(DecisionRefusedError):
            decide(CHANGE_NOT_SHOWN, "reject")
    found = Approval.objects.filter(kind=CHANGE_NOT_SHOWN).values_list("evidence__operation_id", flat=True)
    return {str(pk) for pk in found}


# ---- each has its turn


@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_a_late_change_that_people_want_has_its_turn(verdict: str) -> None:
    deal = two()
    late = wanted(deal, task="t-2", **budget("pkg-2", 40_000))
    first = wanted(fresh(deal), task="t-1", **budget("pkg-1", 9_000))
    not_shown(first, "t-1")
    wanted_late(late, "t-2")
    assert asked_about() == [str(first.pk)]
    assert changes_in_doubt(fresh(deal)) == sorted([late, first], key=lambda one: one.pk)

    decide(CHANGE_NOT_SHOWN, verdict)

    assert asked_about() == [str(late.pk)]


def test_a_late_change_that_waits_takes_nothing_from_the_older_one() -> None:
    deal = two()
    first = wanted(deal, task="t-1", **budget("pkg-1", 9_000))
    late = wanted(fresh(deal), task="t-2", **budget("pkg-1", 12_000))
    not_shown(first, "t-1")
    wanted_late(late, "t-2")
    assert asked_about() == [str(first.pk)]
    assert not is_nothing(change_left(fresh(deal), first))


def test_one_that_ended_before_the_first_question_and_was_told_after_it_has_its_turn() -> None:
    """Its end came without a result, which was waited for; its seller cannot be read."""
    deal = two()
    Seller.objects.update(slots=9)
    second = wanted(deal, task="t-2", **budget("pkg-2", 40_000))
    first = wanted(fresh(deal), task="t-1", **budget("pkg-1", 9_000))
    Seller.objects.update(tools=["create_media_buy", "update_media_buy"])
    told = Seen(kind="answer", status="completed", raw_status="completed", task_id="t-2", partial=True)
    observed(operation_id=second.pk, seen=told, channel="poll")
    now = clock.now()
    with clock.injected(lambda: now + timedelta(minutes=1)):
        say(first, "completed", SILENT, task_id="t-1")
    assert asked_about() == [str(first.pk)]

    with clock.injected(lambda: now + timedelta(minutes=6)):
        assert publish_due(limit=10) == 1
        assert asked_about() == [str(first.pk)]
        decide(CHANGE_NOT_SHOWN, "reject")
        assert asked_about() == [str(second.pk)]


# ---- one that counted is in doubt no more, whatever is compared later


def only_the_next_is_asked_about(deal: Deal) -> None:
    following = wanted(fresh(deal), task="t-9", paused=True)
    not_shown(following, "t-9")
    assert changes_in_doubt(fresh(deal)) == [following]
    assert coming_by(Deal.objects.all()) == {}
    assert asked_in_all() == {str(following.pk)}


def test_done_otherwise_and_accepted() -> None:
    deal = two()
    first = wanted(deal, **budget("pkg-1", 12_000))
    say(first, "completed", SILENT, task_id="t-1")
    one, other = packages(deal)
    by_its_read_back(first, {**RUNS, "packages": [{**one, "budget": 11_500.0}, other]}, clock.now())
    assert deal.lines.get(position=1).budget == 12_000
    assert not doubts()
    decide(DIFFERENT, "approve")
    assert changes_in_doubt(fresh(deal)) == []
    only_the_next_is_asked_about(deal)


def test_shown_by_a_total_that_is_another_since() -> None:
    deal = two()
    for position, task, change, total in (
        (1, "t-1", budget("pkg-1", 12_000), 62_000),
        (2, "t-2", budget("pkg-2", 40_000), 52_000),
    ):
        one = wanted(fresh(deal), task=task, **change)
        say(one, "completed", SILENT, task_id=task)
        by_its_read_back(one, {**RUNS, "packages": [], "total_budget": total}, clock.now())
        assert deal.lines.get(position=position).budget == change["packages"][0]["budget"]
    only_the_next_is_asked_about(deal)


def test_the_end_of_the_whole_before_a_packages_own() -> None:
    deal = booked()
    end = deal.end_at + timedelta(days=10)
    own = end - timedelta(days=3)
    for task, change, shown in (
        ("t-1", {"end_time": end.isoformat()}, end),
        ("t-2", {"packages": [{"package_id": "pkg-1", "end_time": own.isoformat()}]}, own),
    ):
        one = wanted(fresh(deal), task=task, **change)
        say(one, "completed", SILENT, task_id=task)
        there = packages(fresh(deal), end_time=shown.isoformat())
        by_its_read_back(one, {**RUNS, "packages": there}, clock.now())
        assert deal.lines.get().end_at == shown
    only_the_next_is_asked_about(deal)


def test_by_its_answer_after_an_earlier_question() -> None:
    deal = two()
    zero = wanted(deal, task="t-0", paused=True)
    not_shown(zero, "t-0")
    assert asked_in_all() == {str(zero.pk)}
    first = wanted(fresh(deal), task="t-1", **budget("pkg-1", 12_000))
    one, other = packages(deal)
    by_its_answer(first, {**RUNS, "packages": [{**one, "budget": 11_500.0}, other]}, clock.now())
    assert deal.lines.get(position=1).budget == 12_000
    with suppress(Approval.DoesNotExist):
        decide(DIFFERENT, "approve")

    following = wanted(fresh(deal), task="t-9", packages=[{"package_id": "pkg-2", "paused": True}])
    not_shown(following, "t-9")

    assert changes_in_doubt(fresh(deal)) == [following]
    assert asked_in_all() == {str(zero.pk), str(following.pk)}

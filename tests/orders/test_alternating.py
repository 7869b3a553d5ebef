"""A seller that says one thing and then the other: people are asked once, and decide on what holds."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from orders.models import Deal
from orders.questions import DIFFERENT
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.notifications.models import Notification
from tasks_app.operations.dispatch import claim_one
from tests.factories import make_line, make_user
from tests.orders.doors import wanted
from tests.orders.late import cancellation, decide, fresh, say
from tests.orders.live import booked, packages, says

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
Record = dict[str, Any]


def asked() -> list[str]:
    """The statuses of all questions about the deal, the first first."""
    found = Approval.objects.filter(kind=DIFFERENT).order_by("created_at")
    return list(found.values_list("status", flat=True))


def shown() -> Approval:
    return Approval.objects.get(kind=DIFFERENT, status="open")


def reads(deal: Deal, packages: list[Record], **told: Any) -> Deal:
    """The seller's word, of the next revision."""
    return says(deal, "active", revision=(fresh(deal).revision or 0) + 1, packages=packages, **told)


def two_lines() -> Deal:
    return booked(lines=(make_line(budget=Decimal(6000)), make_line(budget=Decimal(4000))))


def in_lines(deal: Deal, *budgets: float) -> list[Record]:
    told = packages(deal)
    for package, budget in zip(told, budgets, strict=True):
        package["budget"] = budget
    return told


def targeted(deal: Deal, country: str) -> list[Record]:
    return packages(deal, targeting_overlay={"geo_countries": [country]})


def ending(deal: Deal, days: int) -> list[Record]:
    return packages(deal, end_time=(deal.end_at - timedelta(days=days)).isoformat())


# What a seller says in turn, one thing and the other.
ALTERNATES: dict[str, Any] = {
    "less and less than that": lambda deal: (in_lines(deal, 5000, 4000), in_lines(deal, 4900, 4000)),
    "the same sum in other parts": lambda deal: (in_lines(deal, 5000, 3000), in_lines(deal, 3000, 5000)),
    "two ends": lambda deal: (ending(deal, 1), ending(deal, 2)),
    "two targetings": lambda deal: (targeted(deal, "SE"), targeted(deal, "NO")),
}


@pytest.mark.parametrize("what", ALTERNATES)
def test_people_are_asked_once(what: str) -> None:
    deal = two_lines()
    one, other = ALTERNATES[what](deal)
    reads(deal, one)
    first, told = shown(), Notification.objects.count()

    for record in (other, one) * 4:
        reads(deal, record)
        assert fresh(deal).differs

    assert asked() == ["open"]
    assert shown() == first
    assert Notification.objects.count() == told


def test_what_grows_is_asked_anew_once() -> None:
    deal = two_lines()
    for budget in (7000, 9000, 7000, 9000, 7000):
        reads(deal, in_lines(deal, budget, 4000))

    assert asked() == ["voided", "open"]
    assert shown().amount == 13_000


def test_only_what_was_shown_is_accepted() -> None:
    deal, approver = two_lines(), make_user("Approver")
    reads(deal, in_lines(deal, 9000, 4000))
    reads(deal, in_lines(deal, 7000, 4000))
    before = shown()

    with pytest.raises(DecisionRefusedError) as refused:
        approval_decide(
            approval_id=before.pk,
            user=approver,
            verdict="approve",
            expected_digest=before.evidence_digest,
        )
    assert refused.value.code == "changed"
    assert (fresh(deal).differs, fresh(deal).accepted) == (True, [])

    now = shown()
    assert (now.amount, now.evidence["differences"][0]["confirmed"]) == (11_000, "7000")
    decide(DIFFERENT, "approve", user=approver)
    assert not fresh(deal).differs


def test_what_was_shown_is_accepted_once_the_seller_says_it_again() -> None:
    deal = two_lines()
    for budget in (9000, 7000, 9000):
        reads(deal, in_lines(deal, budget, 4000))
    decide(DIFFERENT, "approve")

    assert (fresh(deal).differs, fresh(deal).accepted_gross) == (False, 13_000)
    assert asked() == ["approved"]


@pytest.mark.parametrize(
    "then",
    [
        lambda deal: {"packages": in_lines(deal, 9000, 3000)},  # another line too
        lambda deal: {"packages": targeted(deal, "SE")},
        lambda deal: {"packages": packages(deal, budget="a lot")},
        lambda deal: {"packages": in_lines(deal, 9000, 4000), "currency": "XTS"},
    ],
    ids=["another line", "another thing", "no amount", "another currency"],
)
def test_something_else_is_asked_anew(then: Any) -> None:
    deal = two_lines()
    reads(deal, in_lines(deal, 9000, 4000))
    reads(deal, **then(deal))

    assert asked() == ["voided", "open"]
    assert shown().evidence["differences"] == fresh(deal).differences


def test_what_cannot_be_counted_is_asked_anew() -> None:
    deal = two_lines()
    reads(deal, packages(deal, budget="a lot"))
    reads(deal, packages(deal, budget="even more"))

    assert asked() == ["voided", "open"]
    assert shown().amount is None


def test_it_goes_when_the_seller_departs_in_nothing() -> None:
    deal = two_lines()
    for record in (in_lines(deal, 9000, 4000), in_lines(deal, 7000, 4000), packages(deal)):
        reads(deal, record)
    assert asked() == ["voided"]
    assert not fresh(deal).differs


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("what", ALTERNATES)
def test_what_comes_and_goes_is_asked_about_twice_at_most(what: str, which: int) -> None:
    """Once more after its seller took it back; that goes when two records in a row say that it is back."""
    deal = two_lines()
    said = ALTERNATES[what](deal)[which]
    for _ in range(2):
        reads(deal, said)
        reads(deal, packages(deal))
        assert not fresh(deal).differs
    first, told = shown(), Notification.objects.count()

    for _ in range(3):
        reads(deal, said)
        assert fresh(deal).differs
        reads(deal, packages(deal))
    assert asked() == ["voided", "open"]
    assert (shown(), Notification.objects.count()) == (first, told)

    reads(deal, packages(deal))
    assert asked() == ["voided", "voided"]


@pytest.mark.parametrize("what", ["two ends", "two targetings"])
def test_what_was_accepted_and_taken_back_is_accepted_when_it_comes_again(what: str) -> None:
    deal = two_lines()
    said = ALTERNATES[what](deal)[0]
    reads(deal, said)
    decide(DIFFERENT, "approve")
    before = fresh(deal)
    for _ in range(3):
        reads(deal, packages(deal))
        assert fresh(deal).accepted == []
        reads(deal, said)
        now = fresh(deal)
        assert (now.differs, now.accepted, now.accepted_gross) == (
            False,
            before.accepted,
            before.accepted_gross,
        )
    assert asked() == ["approved"]
    assert verify_entity("deal", deal.pk).ok


def test_more_than_counts_is_asked_about_again_although_it_was_accepted_once() -> None:
    deal = two_lines()
    reads(deal, in_lines(deal, 9000, 4000))
    decide(DIFFERENT, "approve")
    reads(deal, packages(deal))
    for _ in range(3):
        reads(deal, in_lines(deal, 9000, 4000))
        assert fresh(deal).differs, "what was free meanwhile may be spent"
        reads(deal, packages(deal))
    assert asked() == ["approved", "open"]


def test_what_was_refused_since_is_asked_about_again() -> None:
    deal = two_lines()
    one, other = targeted(deal, "SE"), targeted(deal, "NO")
    reads(deal, one)
    decide(DIFFERENT, "approve")
    reads(deal, other)
    decide(DIFFERENT, "reject")
    claim_one(operation_id=cancellation().pk)
    say(cancellation(), "rejected", channel="reply")
    for record in (packages(deal), one):
        reads(deal, record)
    assert fresh(deal).differs
    assert asked()[-1] == "open"


def test_a_deal_that_was_changed_since_is_asked_about_again() -> None:
    deal = two_lines()
    one = targeted(deal, "SE")
    reads(deal, one)
    decide(DIFFERENT, "approve")
    reads(deal, packages(deal))
    change = wanted(deal, packages=[{"package_id": "pkg-1", "budget": 5000}])
    say(
        change, "completed", {"affected_packages": [{"package_id": "pkg-1", "budget": 5000.0}]}, task_id="t-1"
    )
    assert fresh(deal).lines.get(position=1).budget == 5000

    reads(deal, targeted(deal, "SE"))
    assert fresh(deal).differs
    assert asked() == ["approved", "open"]


def test_who_decides_when_it_was_just_taken_back_is_refused_and_nobody_is_asked() -> None:
    deal, approver = two_lines(), make_user("Approver")
    one = targeted(deal, "SE")
    for record in (one, packages(deal), one, packages(deal)):
        reads(deal, record)
    before = shown()
    with pytest.raises(DecisionRefusedError) as refused:
        approval_decide(
            approval_id=before.pk,
            user=approver,
            verdict="approve",
            expected_digest=before.evidence_digest,
        )
    assert refused.value.code == "changed"
    assert asked() == ["voided", "voided"]

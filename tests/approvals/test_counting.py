"""Whose approval counts: that of who could still decide when the last one is given."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from orders.models import Deal
from orders.questions import ask_deal
from tasks_app import clock
from tasks_app.approvals.counting import given, given_on
from tasks_app.approvals.delegation import delegation_create
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.policy_models import ApprovalPolicy
from tasks_app.approvals.presenters import still_needed
from tasks_app.approvals.services import approval_decide, approval_ended_by, approvals_count_again
from tasks_app.approvals.subjects import questions_set_off
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.people.actors import actor_key
from tasks_app.people.models import Membership, User
from tasks_app.sellers.models import Account, Seller
from tests.factories import make_advertiser, make_deal, make_user
from tests.ui.pages import page_of, read

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked() -> Approval:
    """A question that two people have to approve."""
    ApprovalPolicy.objects.create(
        key="two", name="Two", rule="always", kinds=["deal"], actor="system", reason="A test", quorum=2
    )
    return ask_deal(make_deal())


def approve(asked: Approval, user: User) -> Approval:
    return approval_decide(approval_id=asked.pk, user=user, verdict="approve", comment="Go.")


def deactivated(user: User, _asked: Approval) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def without_the_right(user: User, _asked: Approval) -> None:
    user.groups.clear()


def without_the_team(user: User, _asked: Approval) -> None:
    Membership.objects.filter(user=user).delete()


def without_the_advertiser(user: User, _asked: Approval) -> None:
    seat = Membership.objects.get(user=user)
    seat.every_advertiser = False
    seat.save()
    seat.advertisers.set([make_advertiser("Another")])


def without_the_role(_user: User, asked: Approval) -> None:
    Approval.objects.filter(pk=asked.pk).update(roles=["Administrator"])


def who_set_it_off(user: User, asked: Approval) -> None:
    Approval.objects.filter(pk=asked.pk).update(set_off_by=[actor_key(user)])


LOST: dict[str, Callable[[User, Approval], None]] = {
    "deactivated": deactivated,
    "without the right": without_the_right,
    "without the team": without_the_team,
    "without the advertiser": without_the_advertiser,
    "without the role": without_the_role,
    "who set it off since": who_set_it_off,
}


@pytest.mark.parametrize("how", LOST)
def test_who_could_not_decide_any_more_has_not_approved(asked: Approval, how: str) -> None:
    gone = make_user("Approver")
    approve(asked, gone)
    assert given_on(Approval.objects.get(pk=asked.pk)) == 1
    LOST[how](gone, asked)
    assert given_on(Approval.objects.get(pk=asked.pk)) == 0

    left = approve(asked, make_user("Administrator"))

    assert left.status == ApprovalStatus.OPEN
    assert still_needed(Approval.objects.get(pk=asked.pk), besides=0) == "a second approver is still needed"
    assert approve(asked, make_user("Administrator")).status == ApprovalStatus.APPROVED


def test_what_was_said_in_the_place_of_who_set_it_off_since_does_not_count(asked: Approval) -> None:
    away, delegate, now = make_user("Administrator"), make_user("Approver"), clock.now()
    delegation_create(
        user=away, delegator=away, delegate=delegate, starts_at=now, ends_at=now + timedelta(days=1)
    )
    approval_decide(approval_id=asked.pk, user=delegate, verdict="approve", comment="Go.", on_behalf_of=away)
    assert given_on(Approval.objects.get(pk=asked.pk)) == 1

    questions_set_off("deal", Deal.objects.get().pk, actor=away, why="retried")

    assert given_on(Approval.objects.get(pk=asked.pk)) == 0
    assert approve(asked, make_user("Approver")).status == ApprovalStatus.OPEN


def test_who_may_decide_again_counts_again(asked: Approval) -> None:
    back = make_user("Approver")
    approve(asked, back)
    back.groups.clear()
    back.groups.add(Group.objects.get(name="Approver"))
    assert approve(asked, make_user("Approver")).status == ApprovalStatus.APPROVED


def _active(user: User, _asked: Approval) -> None:
    User.objects.filter(pk=user.pk).update(is_active=True)


def _with_the_right(user: User, _asked: Approval) -> None:
    user.groups.add(Group.objects.get(name="Approver"))


def _with_the_team(user: User, asked: Approval) -> None:
    Membership.objects.create(user=user, team=asked.team)


def _with_every_advertiser(user: User, _asked: Approval) -> None:
    Membership.objects.filter(user=user).update(every_advertiser=True)


def _of_any_role(_user: User, asked: Approval) -> None:
    Approval.objects.filter(pk=asked.pk).update(roles=["Administrator", "Approver"])


BACK: dict[str, Callable[[User, Approval], None]] = {
    "deactivated": _active,
    "without the right": _with_the_right,
    "without the team": _with_the_team,
    "without the advertiser": _with_every_advertiser,
    "without the role": _of_any_role,
}


def test_every_way_back_is_tried() -> None:
    """Who set something off has done so for good."""
    assert BACK.keys() == LOST.keys() - {"who set it off since"}


@pytest.mark.parametrize("how", BACK)
def test_what_has_enough_approvals_again_is_approved_by_the_last_of_them(asked: Approval, how: str) -> None:
    back, last = make_user("Approver"), make_user("Administrator")
    approve(asked, back)
    LOST[how](back, asked)
    assert approve(asked, last).status == ApprovalStatus.OPEN
    assert approvals_count_again() == 0, "too few count"
    BACK[how](back, asked)

    assert approvals_count_again() == 1

    ended = Approval.objects.get(pk=asked.pk)
    assert ended.status == ApprovalStatus.APPROVED
    assert approval_ended_by(ended) == actor_key(last)
    assert Deal.objects.get().status == "accepted"
    assert verify_entity("approval", asked.pk).ok
    assert approvals_count_again() == 0


def test_what_changed_since_it_was_approved_is_asked_anew(asked: Approval) -> None:
    back = make_user("Approver")
    approve(asked, back)
    back.groups.clear()
    approve(asked, make_user("Administrator"))
    back.groups.add(Group.objects.get(name="Approver"))
    Account.objects.update(payment_terms="prepay")

    assert approvals_count_again() == 0

    assert Approval.objects.get(pk=asked.pk).status == ApprovalStatus.VOIDED
    assert Approval.objects.get(status="open").replaces == asked
    assert Deal.objects.get().status == "quoted"


def test_what_waits_for_approvals_costs_one_query(asked: Approval, django_assert_num_queries: Any) -> None:
    approve(asked, make_user("Approver"))
    with django_assert_num_queries(1):
        assert approvals_count_again() == 0


def test_a_superusers_approval_counts(asked: Approval) -> None:
    boss = make_user("Approver")
    Membership.objects.filter(user=boss).delete()
    User.objects.filter(pk=boss.pk).update(is_superuser=True)
    approve(asked, User.objects.get(pk=boss.pk))
    assert given_on(Approval.objects.get(pk=asked.pk)) == 1


def test_many_are_counted_in_two_queries(asked: Approval, django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
    approve(asked, make_user("Approver"))
    other = ask_deal(make_deal(seller=Seller.objects.get(), account=False))
    approve(other, make_user("Approver"))
    rows = list(Approval.objects.prefetch_related("decisions"))
    with django_assert_num_queries(2):
        assert set(given(rows).values()) == {1}


@pytest.mark.parametrize(
    ("quorum", "lost", "others_read", "you_read"),
    [
        (2, False, "One more decision", "You (2 of 2)"),
        (3, False, "2 more decisions", "You (2 of 3)"),
        (3, True, "No decision yet", "You (1 of 3)"),
    ],
)
def test_its_page_counts_what_counts(quorum: int, lost: bool, others_read: str, you_read: str) -> None:
    ApprovalPolicy.objects.create(
        key="more", name="More", rule="always", kinds=["deal"], actor="system", reason="A test", quorum=quorum
    )
    asked, first = ask_deal(make_deal()), make_user("Approver")
    approve(asked, first)
    if lost:
        without_the_right(first, asked)
    for role, words in (("Buyer", others_read), ("Approver", you_read)):
        client = Client()
        client.force_login(make_user(role, is_staff=True), backend="tasks_app.people.holders.RoleBackend")
        page = read(client, page_of(asked))
        assert words in page
        assert ("no longer counts" in page) == lost

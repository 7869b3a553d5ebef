"""Whose approval counts: that of who could still decide when the last one is given."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group

from orders.questions import ask_deal
from tasks_app.approvals.counting import given, given_on
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.policy_models import ApprovalPolicy
from tasks_app.approvals.presenters import still_needed
from tasks_app.approvals.services import approval_decide
from tasks_app.people.actors import actor_key
from tasks_app.people.models import Membership, User
from tasks_app.sellers.models import Seller
from tests.factories import make_advertiser, make_deal, make_user

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


def test_who_may_decide_again_counts_again(asked: Approval) -> None:
    back = make_user("Approver")
    approve(asked, back)
    back.groups.clear()
    back.groups.add(Group.objects.get(name="Approver"))
    assert approve(asked, make_user("Approver")).status == ApprovalStatus.APPROVED


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

"""Whose a delivery is that was bound to no operation: what it names decides who sees it."""

from __future__ import annotations

import uuid

import pytest

from tasks_app.operations.models import Operation
from tasks_app.people.models import Advertiser, Membership, Team, User
from tasks_app.webhooks.models import WebhookDelivery
from tasks_app.webhooks.selectors import deliveries_of
from tests.factories import make_advertiser, make_seller, make_user
from tests.operations.making import TASK, stand

pytestmark = pytest.mark.django_db

# How a refused delivery speaks of an operation of another team.
NAMED = {
    "its task": lambda one: {"task_id": one.task_id},
    "its id": lambda one: {"operation_ref": str(one.pk)},
}
# Of nothing that is known here, or of what another seller has.
UNKNOWN = {
    "a task nobody knows": {"task_id": "theirs-perhaps"},
    "an id nobody knows": {"operation_ref": str(uuid.UUID(int=7))},
    "no id at all": {"operation_ref": "not-an-id"},
}


def refused(operation: Operation, **columns: str) -> WebhookDelivery:
    return WebhookDelivery.objects.create(
        seller=operation.seller, fingerprint="f" * 64, verdict="refused", reason="no signature", **columns
    )


def sees(user: User) -> bool:
    return deliveries_of(User.objects.get(pk=user.pk)).exists()


@pytest.mark.parametrize("how", NAMED)
@pytest.mark.parametrize("role", ["Auditor", "Ad Ops", "Administrator"])
def test_what_names_an_operation_is_its_teams(role: str, how: str) -> None:
    operation = stand("submitted")
    refused(operation, **NAMED[how](operation))
    assert sees(make_user(role, team=operation.team))
    assert not sees(make_user(role, team=Team.objects.create(name="Another team")))


def test_of_a_team_in_which_somebody_has_one_advertiser_it_is_that_ones() -> None:
    operation = stand("submitted")
    mine, other = make_advertiser("Mine"), make_advertiser("Other")
    Operation.objects.filter(pk=operation.pk).update(advertiser=other)
    refused(operation, task_id=TASK)
    user = make_user("Auditor", team=operation.team)
    seat = Membership.objects.get(user=user)
    for advertiser, seen in ((mine, False), (other, True)):
        _limit(seat, advertiser)
        assert sees(user) is seen


def _limit(seat: Membership, advertiser: Advertiser) -> None:
    Membership.objects.filter(pk=seat.pk).update(every_advertiser=False)
    seat.advertisers.set([advertiser])


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_names_nothing_known_is_for_who_answers_for_sellers(what: str) -> None:
    operation = stand("submitted")
    refused(operation, **UNKNOWN[what])
    assert not sees(make_user("Auditor", team=operation.team))
    assert sees(make_user("Ad Ops", team=Team.objects.create(name="Another team")))


def test_another_sellers_task_of_the_same_name_is_not_meant() -> None:
    operation = stand("submitted")
    WebhookDelivery.objects.create(
        seller=make_seller("Cobalt"), fingerprint="f" * 64, verdict="refused", task_id=operation.task_id
    )
    assert not sees(make_user("Auditor", team=operation.team))


def test_what_names_nothing_is_everybodys_who_may_see_deliveries() -> None:
    refused(stand("submitted"))
    assert sees(make_user("Auditor", team=Team.objects.create(name="Another team")))

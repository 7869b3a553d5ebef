"""What the page and the explanation of a deal say may happen, against trying everything that people, sellers
and jobs can do about it: every state, on every ground it may stand on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from django.db import transaction

from orders.changes.send import CHANGE
from orders.choices import deal_acts, deal_choices
from orders.models import LIVE, Deal, DealStatus
from orders.selectors import questions_open
from orders.ways import NO_WAY, ground_of, people, ways
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.desk.explain import explain
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.dispatch import claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.resend import no_effect
from tasks_app.operations.steering import operation_poll
from tasks_app.people.models import User
from tasks_app.people.roles import ROLES
from tests.factories import make_user
from tests.orders.attempts import (
    REFUSED,
    attempts,
    booking_runs,
    campaign_called_off,
    cancelled,
    jobs_cancelled,
    purchases_out,
    reached_by,
    withdrawn,
)
from tests.orders.grounds import GROUNDS
from tests.orders.late import fresh
from tests.orders.live import booked, standing

pytestmark = [pytest.mark.deep, pytest.mark.django_db]


def test_of_a_flight_that_lies_ahead_nobody_says_that_it_is_over() -> None:
    deal = booked()
    seller = deal.seller.name
    assert ways(ground_of(deal, []))[DealStatus.DELIVERING].words == f"By itself, when {seller} says active"
    delivers = standing(deal, "delivering")
    final = f"{seller} says completed and its delivery figures are final"
    assert (
        ways(ground_of(delivers, []))[DealStatus.COMPLETED].words
        == f"Once its flight has begun, when {final}"
    )
    with clock.injected(lambda: deal.start_at):
        assert ways(ground_of(delivers, []))[DealStatus.COMPLETED].words == f"By itself, when {final}"


def test_of_a_flight_that_has_begun_a_seller_may_say_that_it_is_over() -> None:
    deal = booked()
    with clock.injected(lambda: deal.start_at):
        words = ways(ground_of(deal, []))[DealStatus.DELIVERING].words
    assert words.endswith("says active or completed")


def test_every_state_stands_on_some_ground() -> None:
    assert {name.split(",")[0] for name in GROUNDS} == set(DealStatus.values)


@pytest.mark.parametrize("ground", GROUNDS)
def test_what_is_said_of_a_deal_is_so(ground: str) -> None:
    """Each ground is made once: what is tried on it is taken back."""
    deal = fresh(GROUNDS[ground]())
    assert deal.status == ground.split(",")[0]
    what_is_said_to_lead_on_does_and_nothing_else(deal)
    the_explanation_says_what_the_page_says(deal)
    what_came_of_a_purchase_without_effect_is_said(deal)
    those_who_are_named_can_and_nobody_else_can(deal)
    a_worker_is_said_to_send_it_where_one_does(deal)
    all_that_is_in_its_way_is_named(deal)


def what_is_said_to_lead_on_does_and_nothing_else(deal: Deal) -> None:
    reached = {to for attempt in attempts() for to in reached_by(deal, attempt)}

    questions = questions_open(deal)
    choices = deal_choices(deal, list(deal.lines.all()), questions)
    assert {one.text for one in choices if one.note != NO_WAY} == reached
    assert tuple(one.text for one in choices) == deal.declared().targets(deal.status)
    said = ways(ground_of(deal, questions))
    assert set(said) == reached
    for way in said.values():
        assert not way.asked or any(one.kind == way.asked for one in questions), "a link to no question"


def all_that_is_in_its_way_is_named(deal: Deal) -> None:
    """On its page and in its explanation, however much it is."""
    ground = ground_of(deal, questions_open(deal))
    told = explain(deal.reference, make_user("Administrator"))
    blocker = ground.blocker.why if ground.blocker and not ground.begun else ""
    account = "" if ground.begun else ground.account_refused or ground.account_awaited
    causes = {one.lower() for one in (account, blocker, ground.begun) if one}
    page = " ".join(way.words for way in ways(ground).values()).lower()
    assert {one for one in causes if one not in page} == set()
    explained = " ".join((told.waiting_for, told.otherwise, *(one.does for one in told.who))).lower()
    assert {one for one in causes if one not in explained} == set()


def what_came_of_a_purchase_without_effect_is_said(deal: Deal) -> None:
    """Who gives the credentials that its seller wants, and what its deadline does then."""
    purchase = Operation.objects.filter(no_effect(), subject_id=deal.pk, attempts=1, settled_at=None).first()
    if purchase is None or questions_open(deal):
        return
    told = explain(deal.reference, make_user("Administrator"))
    wanted = purchase.status == "auth_required"
    assert "left once" in told.waiting_for
    assert ("wants other credentials" in told.waiting_for) == wanted
    begun = bool(ground_of(deal, []).begun)  # then people are asked for new dates first
    assert any("new credentials" in one.does for one in told.who) == (wanted and not begun)
    said = ("it is overdue" in told.otherwise, "if it could not be sent, and" in told.otherwise)
    with transaction.atomic():
        Operation.objects.filter(pk=purchase.pk).update(deadline_at=clock.now())
        time_out_due(limit=10)
        after = Operation.objects.get(pk=purchase.pk)
        transaction.set_rollback(True)
    late = (after.status == "timed_out", after.next_poll_at is not None)
    assert any(said) <= (told.deadline is not None)
    assert not any(said) or said == (late[0], any(late)), told.otherwise


_ACTS: tuple[Callable[[Deal, User], None], ...] = (
    withdrawn,
    cancelled,
    jobs_cancelled,
    campaign_called_off,
)
_OFFERED = {"withdraw": withdrawn, "cancel": cancelled}  # on the page; a reading changes nothing


def _tried(attempt: Callable[[], None]) -> None:
    """As far as it can be."""
    with suppress(*REFUSED), transaction.atomic():
        attempt()


def _does(deal: Deal, user: User, act: Callable[[Deal, User], None]) -> bool:
    """Whether it comes to anything; everything is as before afterwards."""
    before = (deal.version, Approval.objects.count())
    with transaction.atomic():
        try:
            with transaction.atomic():
                act(fresh(deal), user)
        except REFUSED:
            pass
        after = (Deal.objects.values_list("version").get(pk=deal.pk)[0], Approval.objects.count())
        transaction.set_rollback(True)
    return after != before


def _polls(deal: Deal, user: User) -> bool:
    for operation in purchases_out(deal):
        try:
            operation_poll(operation_id=operation.pk, user=user)
        except Exception:
            return False
        return True
    return False


def a_worker_is_said_to_send_it_where_one_does(deal: Deal) -> None:
    told = explain(deal.reference, make_user("Administrator"))
    does = any(one.who == "A worker" and one.does == "sends the purchase" for one in told.who)
    with transaction.atomic():
        try:
            with transaction.atomic():
                booking_runs(fresh(deal))
        except REFUSED:
            pass
        Operation.objects.filter(send_at__isnull=False).update(send_at=clock.now())
        sent = any(call.tool == "create_media_buy" for call in claim_sends(limit=10))
        transaction.set_rollback(True)
    assert does == sent, told.waiting_for


def those_who_are_named_can_and_nobody_else_can(deal: Deal) -> None:
    questions = questions_open(deal)
    named, cancelling = people(ground_of(deal, questions)), any(one.kind == CHANGE for one in questions)
    for role, rights in ROLES.items():
        user = make_user(role)
        done = {act for act in _ACTS if _does(deal, user, act)}
        can = bool(done) or _polls(deal, user)
        assert can == any(mover.right in rights for mover in named), (role, named)
        offered = {act.name for act in deal_acts(deal, [], user, cancelling=cancelling)}
        assert offered - {"read", "copy"} == {name for name, act in _OFFERED.items() if act in done}, role


def the_explanation_says_what_the_page_says(deal: Deal) -> None:
    told = explain(deal.reference, make_user("Administrator"))
    ground_now = ground_of(deal, questions_open(deal))
    does = {one.does for one in told.who}
    assert {mover.does for mover in people(ground_now)} <= does
    possible = ways(ground_now)
    assert ("expire" in f"{told.waiting_for} {told.otherwise}") <= (
        DealStatus.EXPIRED in possible or bool(questions_open(deal)) or deal.status == "expired"
    )
    if deal.status not in LIVE or not ground_now.cancellable:
        assert not any("cancelled at the seller" in one for one in does)
    if not possible and deal.status not in ("completed", "failed", "cancelled", "expired"):
        assert any(one.who == "Nobody" for one in told.who), told.who

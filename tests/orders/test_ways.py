"""What the page and the explanation of a deal say may happen, against trying everything that people, sellers
and jobs can do about it: every state, on every ground it may stand on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import get_args

import pytest
from django.db import transaction

from campaigns.actions import approve
from campaigns.acts import CampaignActRefusedError, campaign_cancel
from campaigns.models import Campaign
from orders.actions import book, read_back
from orders.acts import ActRefusedError, deal_cancel_ask, deal_withdraw
from orders.changes import CHANGE
from orders.choices import deal_acts, deal_choices
from orders.models import LIVE, Deal, DealStatus
from orders.questions import FLIGHT
from orders.reconcile import media_buy_settle
from orders.selectors import questions_open
from orders.ways import NO_WAY, ground_of, people, ways
from tasks_app import clock
from tasks_app.adcp.requests import MediaBuyStatus
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide, approvals_expire_due
from tasks_app.commands.kill_switch import kill_switch_set, stops
from tasks_app.commands.questions import KIND as GATE
from tasks_app.commands.questions import gates_ask_again
from tasks_app.desk.explain import explain
from tasks_app.jobs.actions import StepFailedError
from tasks_app.jobs.endings import JobRefusedError, job_cancel
from tasks_app.jobs.models import JOB_OPEN, Job
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.comparison import Finding, Verdict
from tasks_app.operations.deadlines import fail_unsent, kept_among, time_out_due
from tasks_app.operations.dispatch import claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish, publish_due
from tasks_app.operations.resend import no_effect
from tasks_app.operations.services import Subject
from tasks_app.operations.steering import SteeringRefusedError, operation_poll, operation_stop
from tasks_app.people.models import User
from tasks_app.people.roles import ROLES
from tasks_app.sellers.accounts_told import account_record
from tasks_app.sellers.models import Seller, SellerBreaker
from tests.factories import make_user
from tests.operations.making import leased_until
from tests.orders.grounds import GROUNDS
from tests.orders.late import BUY, bought, ended, fresh, overdue, say
from tests.orders.live import booked, standing

pytestmark = pytest.mark.django_db
_ENDS = ("completed", "rejected", "failed", "canceled")
_REFUSED = (
    ActRefusedError,
    CampaignActRefusedError,
    DecisionRefusedError,
    JobRefusedError,
    SteeringRefusedError,
    StepFailedError,
    TransitionError,
)


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


# ---- everything that can be tried


def _decides(deal: Deal, verdict: str) -> None:
    """People decide on all that is asked about it, and what follows from that happens."""
    for _ in range(3):
        asked = questions_open(deal)
        for one in asked:
            _decide(one, verdict)
        _follow()
        if not asked:
            return


def _decide(asked: Approval, verdict: str) -> None:
    for _ in range(asked.quorum):
        if Approval.objects.filter(pk=asked.pk, status="open").exists():
            approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict=verdict, comment="So.")


def _follow() -> None:
    """Jobs go on; the seller does what an update_media_buy asks it."""
    publish_due(limit=10)
    if not Campaign.objects.exists():
        drain()
    asked = Operation.objects.filter(task_type="update_media_buy", status="requested", send_at__isnull=False)
    for operation in asked:
        named = operation.request["media_buy_id"]
        ended(operation, "completed", {"media_buy_id": named, "media_buy_status": "canceled"})


def _nobody_decides(deal: Deal) -> None:
    """At any of its deadlines: it may wait on at some of them."""
    for _ in range(20):
        asked = questions_open(deal)
        due = min((one.due_at for one in asked), default=clock.now())
        with clock.injected(lambda at=due: at):
            approvals_expire_due()
        if not asked:
            return


def _put_to_people(deal: Deal) -> None:
    """The step of its campaign's job that asks people."""
    for job in Job.objects.filter(recipe="campaign", status__in=JOB_OPEN):
        approve(SimpleNamespace(job=job, inputs={"deals": [str(deal.pk)]}))  # type: ignore[arg-type]


def _then(deal: Deal, after: Callable[[Deal], None]) -> None:
    _put_to_people(deal)
    after(deal)


def _booking_runs(deal: Deal) -> None:
    """Its own job; or the step of its campaign's that books it."""
    if Campaign.objects.exists():
        book(SimpleNamespace(inputs={"deal_id": str(deal.pk)}))  # type: ignore[arg-type]
        return
    drain()


def _seller_decides_on_the_account(deal: Deal, status: str) -> None:
    account_record(advertiser=deal.advertiser, seller=deal.seller, answer={"status": status})
    drain()


def _purchases(deal: Deal) -> list[Operation]:
    """Those that are out, or may be."""
    rows = Operation.objects.filter(subject_id=deal.pk, task_type="create_media_buy", settled_at=None)
    return list(rows.exclude(status="requested"))


def _at_the_seller(deal: Deal) -> list[Operation]:
    """Those of which the seller may tell something: what reached nobody it does not know."""
    known = Operation.objects.filter(no_effect(), subject_id=deal.pk)
    return [one for one in _purchases(deal) if one not in known]


def _purchase_is_sent_and_ends(deal: Deal, status: str) -> None:
    """Where it is still to be sent; the kill switch may be let go first, its account become active, and its
    seller answer again."""
    if deal.account is not None and deal.account.status == "suspended":
        account_record(advertiser=deal.advertiser, seller=deal.seller, answer={"status": "active"})
    _switch_let_go()
    SellerBreaker.objects.all().delete()
    if deal.status == "booking":
        for asked in Approval.objects.filter(kind=GATE, status="open"):
            _decide(asked, "approve")
    bought_here = Operation.objects.filter(subject_id=deal.pk, task_type="create_media_buy")
    for operation in bought_here.filter(no_effect(), settled_at=None, send_at__isnull=False):
        Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())
        if operation.attempts:  # else it ends as it comes up
            Seller.objects.filter(idempotency_ttl_s=None).update(idempotency_ttl_s=86400)
        claim_sends(limit=10)
        for asked in Approval.objects.filter(kind=GATE, status="open"):
            _decide(asked, "approve")
        claim_sends(limit=10)
        if leased_until(operation) is not None:
            say(operation, status, bought(deal) if status == "completed" else None)
        publish(operation_id=operation.pk)


def _comes_up(deal: Deal) -> None:
    """Its purchase comes up to be sent."""
    with transaction.atomic():
        assert claim_sends(limit=10) is not None
    for operation in Operation.objects.filter(subject_id=deal.pk, settled_at__isnull=False):
        publish(operation_id=operation.pk)


def _never_sent(deal: Deal) -> None:
    """Its deadline passes before it is sent."""
    due = Operation.objects.filter(subject_id=deal.pk, task_type="create_media_buy", status="requested")
    for operation in due:
        Operation.objects.filter(pk=operation.pk).update(deadline_at=clock.now())
        fail_unsent(limit=10)
        publish(operation_id=operation.pk)


def _switch_let_go() -> None:
    if stops().everywhere is not None:
        standing = stops().turns[None]
        by = make_user("Administrator")
        kill_switch_set(on=False, reason="It was a drill", actor=by, seen=str(standing.turn))
        gates_ask_again()


def _all_is_opened(deal: Deal) -> None:
    """The kill switch is let go, its account made active, and its job goes on."""
    if deal.account is not None and deal.account.status != "active":
        account_record(advertiser=deal.advertiser, seller=deal.seller, answer={"status": "active"})
    _goes_on_without_the_switch(deal)


def _comes_up_and_people_decide(deal: Deal, verdict: str) -> None:
    """What is asked as it comes up, or as its job goes on."""
    _switch_let_go()
    Operation.objects.filter(subject_id=deal.pk, send_at__isnull=False).update(send_at=clock.now())
    _comes_up(deal)
    _booking_runs(deal)
    if verdict:
        _decides(deal, verdict)


def _goes_on_without_the_switch(deal: Deal) -> None:
    _switch_let_go()
    _booking_runs(deal)


def _purchase_ends(deal: Deal, status: str) -> None:
    for operation in _at_the_seller(deal):
        say(operation, status, bought(deal) if status == "completed" else None)


def _given_up(deal: Deal) -> None:
    for operation in _purchases(deal):
        if operation.pk in kept_among([operation.pk]):  # it is not late
            operation_stop(operation_id=operation.pk, user=make_user("Ad Ops"), reason="It takes too long")
        else:
            overdue(operation)
        for asked in Approval.objects.filter(kind="overdue", status="open"):
            _decide(asked, "reject")
        publish(operation_id=operation.pk)


def _seller_says(deal: Deal, word: str) -> None:
    """The media buy is read (by the mirror, or reconciliation) where the seller named one; of a purchase
    that came to nothing reconciliation hears by our context."""
    sent = Operation.objects.filter(subject_id=deal.pk, task_type="create_media_buy")
    bought_here = sent.exclude(no_effect(), settled_at=None).exists()
    came_to_nothing = deal.status == "booking" and bought_here and word in ("rejected", "canceled")
    if not deal.media_buy_id and not came_to_nothing:
        return
    named = deal.media_buy_id or BUY
    told = {"media_buy_id": named, "status": word, "media_buy_status": word}
    finding = Finding(
        verdict=Verdict.IN_STEP,
        theirs=named,
        told=told,
        subject=Subject(type="deal", id=deal.pk),
        asked_at=clock.now(),
    )
    media_buy_settle(deal.seller, finding)


def _buy_is_found(deal: Deal, word: str) -> None:
    """The step that reads a booking back finds a media buy without a name by our context; it comes once the
    purchase is over."""
    if deal.status in ("accepted", "booking"):
        return
    for job in Job.objects.filter(subject_id=deal.pk, recipe="book_deal", status__in=JOB_OPEN):
        run = SimpleNamespace(
            job=job, inputs={"deal_id": str(deal.pk)}, purpose=lambda task: f"{deal.pk}:{task}"
        )
        read_back(run)  # type: ignore[arg-type]
        reading = Operation.objects.filter(task_type="get_media_buys").latest("id")
        buy = {"media_buy_id": "mb-9", "status": word, "context": {"deal_id": str(deal.pk)}}
        ended(reading, "completed", {"media_buys": [buy]})
        read_back(run)  # type: ignore[arg-type]


def _seller_says_that_it_is_over(deal: Deal) -> None:
    """Of a flight that is still ahead nobody believes it."""
    with clock.injected(lambda: deal.end_at):
        _seller_says(deal, "completed")


def _withdrawn(deal: Deal, user: User) -> None:
    deal_withdraw(deal_id=deal.pk, user=user, reason="the client withdrew")


def _cancelled(deal: Deal, user: User) -> None:
    deal_cancel_ask(deal_id=deal.pk, user=user, reason="the client withdrew")


def _cancelled_and_approved(deal: Deal) -> None:
    _cancelled(deal, make_user("Buyer"))
    _decides(deal, "approve")


def _jobs_cancelled(deal: Deal, user: User) -> None:
    """Those jobs that have to do with it."""
    about = [pk for pk in (deal.pk, deal.campaign_id) if pk is not None]
    for job in Job.objects.filter(subject_id__in=about, status__in=JOB_OPEN, parent_step=None):
        job_cancel(job_id=job.pk, actor=user, reason="the client withdrew")


def _campaign_called_off(deal: Deal, user: User) -> None:
    if deal.campaign_id is not None:
        campaign_cancel(campaign_id=deal.campaign_id, user=user, reason="the client withdrew")


def _attempts() -> Iterator[Callable[[Deal], None]]:
    yield from (lambda deal, v=verdict: _decides(deal, v) for verdict in ("approve", "reject"))
    yield _nobody_decides
    yield lambda deal: _then(deal, lambda one: _decides(one, "approve"))
    yield lambda deal: _then(deal, _nobody_decides)
    yield _booking_runs
    yield from (
        lambda deal, s=status: _seller_decides_on_the_account(deal, s) for status in ("active", "rejected")
    )
    yield from (lambda deal, s=status: _purchase_ends(deal, s) for status in _ENDS)
    yield from (lambda deal, s=status: _purchase_is_sent_and_ends(deal, s) for status in _ENDS)
    yield _never_sent
    yield _comes_up
    yield _goes_on_without_the_switch
    yield _all_is_opened
    for verdict in ("approve", "reject"):
        yield lambda deal, v=verdict: _comes_up_and_people_decide(deal, v)  # type: ignore[misc]
    yield _given_up
    yield from (lambda deal, w=word: _seller_says(deal, w) for word in get_args(MediaBuyStatus))
    yield _seller_says_that_it_is_over
    yield from (lambda deal, w=word: _buy_is_found(deal, w) for word in get_args(MediaBuyStatus))
    yield lambda deal: _withdrawn(deal, make_user("Buyer"))
    yield _cancelled_and_approved
    yield lambda deal: _jobs_cancelled(deal, make_user("Ad Ops"))
    yield lambda deal: _campaign_called_off(deal, make_user("Buyer"))


def _reached(deal: Deal, attempt: Callable[[Deal], None]) -> set[str]:
    """Where the deal went first, when that was tried; everything is as before afterwards."""
    version = deal.version
    with transaction.atomic():
        try:
            with transaction.atomic():
                attempt(fresh(deal))
        except _REFUSED:
            pass
        entries = AuditEntry.objects.filter(entity_id=deal.pk, seq__gt=version)
        moves = [one for one in entries.order_by("seq") if one.from_status != one.to_status]
        transaction.set_rollback(True)
    return {moves[0].to_status} if moves else set()


# ---- what is said against it


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
    that_people_are_asked_about_its_flight_is_said_where_they_are(deal)
    those_who_are_named_can_and_nobody_else_can(deal)
    a_worker_is_said_to_send_it_where_one_does(deal)
    all_that_is_in_its_way_is_named(deal)


def what_is_said_to_lead_on_does_and_nothing_else(deal: Deal) -> None:
    reached = {to for attempt in _attempts() for to in _reached(deal, attempt)}

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


def that_people_are_asked_about_its_flight_is_said_where_they_are(deal: Deal) -> None:
    """Where it comes up, the kill switch let go; of one whose account has ended nobody is asked."""
    questions = questions_open(deal)
    ground = ground_of(deal, questions)
    if not ground.begun or any(one.kind == FLIGHT for one in questions):
        return
    told = explain(deal.reference, make_user("Administrator"))
    does = " ".join(one.does for one in told.who)
    with transaction.atomic():
        _tried(lambda: _comes_up_and_people_decide(deal, ""))
        asked = Approval.objects.filter(kind=FLIGHT, subject_id=deal.pk).exists()
        transaction.set_rollback(True)
    said = ("asks people for new dates" in does, "people are asked first" in f"{does} {told.otherwise}")
    assert any(said) == asked, (told.waiting_for, does)
    page = " ".join(way.words for way in ways(ground).values())
    assert ("people, asked about its flight" in page) == asked, page


_ACTS: tuple[Callable[[Deal, User], None], ...] = (
    _withdrawn,
    _cancelled,
    _jobs_cancelled,
    _campaign_called_off,
)
_OFFERED = {"withdraw": _withdrawn, "cancel": _cancelled}  # on the page; a reading changes nothing


def _tried(attempt: Callable[[], None]) -> None:
    """As far as it can be."""
    with suppress(*_REFUSED), transaction.atomic():
        attempt()


def _does(deal: Deal, user: User, act: Callable[[Deal, User], None]) -> bool:
    """Whether it comes to anything; everything is as before afterwards."""
    before = (deal.version, Approval.objects.count())
    with transaction.atomic():
        try:
            with transaction.atomic():
                act(fresh(deal), user)
        except _REFUSED:
            pass
        after = (Deal.objects.values_list("version").get(pk=deal.pk)[0], Approval.objects.count())
        transaction.set_rollback(True)
    return after != before


def _polls(deal: Deal, user: User) -> bool:
    for operation in _purchases(deal):
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
                _booking_runs(fresh(deal))
        except _REFUSED:
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
        assert offered - {"read"} == {name for name, act in _OFFERED.items() if act in done}, role


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

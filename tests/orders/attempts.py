"""Everything that people, sellers and jobs can do about a deal, each to be tried and taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import get_args

from django.db import transaction

from campaigns.actions import approve
from campaigns.acts import CampaignActRefusedError, campaign_cancel
from campaigns.models import Campaign
from orders.actions import book, read_back
from orders.acts import ActRefusedError, deal_cancel_ask, deal_withdraw
from orders.models import Deal
from orders.reconcile import media_buy_settle
from orders.selectors import questions_open
from tasks_app import clock
from tasks_app.adcp.requests import MediaBuyStatus
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide, approvals_expire_due
from tasks_app.commands.kill_switch import kill_switch_set, stops
from tasks_app.commands.questions import KIND as GATE
from tasks_app.commands.questions import gates_ask_again
from tasks_app.jobs.actions import StepFailedError
from tasks_app.jobs.endings import JobRefusedError, job_cancel
from tasks_app.jobs.models import JOB_OPEN, Job
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.comparison import Finding, Verdict
from tasks_app.operations.deadlines import fail_unsent, kept_among
from tasks_app.operations.dispatch import claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish, publish_due
from tasks_app.operations.resend import no_effect
from tasks_app.operations.services import Subject
from tasks_app.operations.steering import SteeringRefusedError, operation_stop
from tasks_app.people.models import User
from tasks_app.sellers.accounts_told import account_record
from tasks_app.sellers.models import Seller, SellerBreaker
from tests.factories import make_user
from tests.operations.making import leased_until
from tests.orders.late import BUY, bought, ended, fresh, overdue, say

_ENDS = ("completed", "rejected", "failed", "canceled")
REFUSED = (
    ActRefusedError,
    CampaignActRefusedError,
    DecisionRefusedError,
    JobRefusedError,
    SteeringRefusedError,
    StepFailedError,
    TransitionError,
)


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


def booking_runs(deal: Deal) -> None:
    """Its own job; or the step of its campaign's that books it."""
    if Campaign.objects.exists():
        book(SimpleNamespace(inputs={"deal_id": str(deal.pk)}))  # type: ignore[arg-type]
        return
    drain()


def _seller_decides_on_the_account(deal: Deal, status: str) -> None:
    account_record(advertiser=deal.advertiser, seller=deal.seller, answer={"status": status})
    drain()


def purchases_out(deal: Deal) -> list[Operation]:
    """Those that are out, or may be."""
    rows = Operation.objects.filter(subject_id=deal.pk, task_type="create_media_buy", settled_at=None)
    return list(rows.exclude(status="requested"))


def _at_the_seller(deal: Deal) -> list[Operation]:
    """Those of which the seller may tell something: what reached nobody it does not know."""
    known = Operation.objects.filter(no_effect(), subject_id=deal.pk)
    return [one for one in purchases_out(deal) if one not in known]


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


def comes_up_and_people_decide(deal: Deal, verdict: str) -> None:
    """What is asked as it comes up, or as its job goes on."""
    _switch_let_go()
    Operation.objects.filter(subject_id=deal.pk, send_at__isnull=False).update(send_at=clock.now())
    _comes_up(deal)
    booking_runs(deal)
    if verdict:
        _decides(deal, verdict)


def _goes_on_without_the_switch(deal: Deal) -> None:
    _switch_let_go()
    booking_runs(deal)


def _purchase_ends(deal: Deal, status: str) -> None:
    for operation in _at_the_seller(deal):
        say(operation, status, bought(deal) if status == "completed" else None)


def _given_up(deal: Deal) -> None:
    for operation in purchases_out(deal):
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


def withdrawn(deal: Deal, user: User) -> None:
    deal_withdraw(deal_id=deal.pk, user=user, reason="the client withdrew")


def cancelled(deal: Deal, user: User) -> None:
    deal_cancel_ask(deal_id=deal.pk, user=user, reason="the client withdrew")


def _cancelled_and_approved(deal: Deal) -> None:
    cancelled(deal, make_user("Buyer"))
    _decides(deal, "approve")


def jobs_cancelled(deal: Deal, user: User) -> None:
    """Those jobs that have to do with it."""
    about = [pk for pk in (deal.pk, deal.campaign_id) if pk is not None]
    for job in Job.objects.filter(subject_id__in=about, status__in=JOB_OPEN, parent_step=None):
        job_cancel(job_id=job.pk, actor=user, reason="the client withdrew")


def campaign_called_off(deal: Deal, user: User) -> None:
    if deal.campaign_id is not None:
        campaign_cancel(campaign_id=deal.campaign_id, user=user, reason="the client withdrew")


def attempts() -> Iterator[Callable[[Deal], None]]:
    yield from (lambda deal, v=verdict: _decides(deal, v) for verdict in ("approve", "reject"))
    yield _nobody_decides
    yield lambda deal: _then(deal, lambda one: _decides(one, "approve"))
    yield lambda deal: _then(deal, _nobody_decides)
    yield booking_runs
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
        yield lambda deal, v=verdict: comes_up_and_people_decide(deal, v)  # type: ignore[misc]
    yield _given_up
    yield from (lambda deal, w=word: _seller_says(deal, w) for word in get_args(MediaBuyStatus))
    yield _seller_says_that_it_is_over
    yield from (lambda deal, w=word: _buy_is_found(deal, w) for word in get_args(MediaBuyStatus))
    yield lambda deal: withdrawn(deal, make_user("Buyer"))
    yield _cancelled_and_approved
    yield lambda deal: jobs_cancelled(deal, make_user("Ad Ops"))
    yield lambda deal: campaign_called_off(deal, make_user("Buyer"))


def reached_by(deal: Deal, attempt: Callable[[Deal], None]) -> set[str]:
    """Where the deal went first, when that was tried; everything is as before afterwards."""
    version = deal.version
    with transaction.atomic():
        try:
            with transaction.atomic():
                attempt(fresh(deal))
        except REFUSED:
            pass
        entries = AuditEntry.objects.filter(entity_id=deal.pk, seq__gt=version)
        moves = [one for one in entries.order_by("seq") if one.from_status != one.to_status]
        transaction.set_rollback(True)
    return {moves[0].to_status} if moves else set()

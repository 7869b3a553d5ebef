"""Who asked never decides, however the question comes back: each kind, each way of asking it anew."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from campaigns.acts import campaign_retry
from campaigns.models import Campaign
from campaigns.services import campaign_submit
from orders.ask import Ask
from orders.booking import compare
from orders.changes.send import change_ask
from orders.models import Deal
from orders.questions import ask_deal
from orders.services import deal_locked
from tasks_app import clock
from tasks_app.approvals import kinds
from tasks_app.approvals.claims import approval_claim
from tasks_app.approvals.counting import given_on
from tasks_app.approvals.deciders import deciders
from tasks_app.approvals.delegation import delegation_create
from tasks_app.approvals.kinds import kind_names
from tasks_app.approvals.models import Approval
from tasks_app.approvals.notes import thread_of
from tasks_app.approvals.selectors import approvals_waiting_for, obstacle
from tasks_app.approvals.services import (
    DecisionRefusedError,
    Question,
    approval_decide,
    approval_open,
    approval_void,
    approvals_expire_due,
)
from tasks_app.commands.models import Command
from tasks_app.desk.explain import explain
from tasks_app.jobs import actions, recipes
from tasks_app.jobs.endings import JobRefusedError, job_expire
from tasks_app.jobs.engine import mark_failed
from tasks_app.jobs.models import Job
from tasks_app.jobs.retrying import job_retry
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.transitions import Who
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.dispatch import claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.steering import operation_resend, operation_stop
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tasks_app.people.setting_off import led_to, set_off_by
from tasks_app.sellers.models import Seller
from tests.campaigns.briefs import brief
from tests.factories import make_advertiser, make_deal, make_team, make_user
from tests.jobs.claiming import claim_step
from tests.jobs.conftest import Bench
from tests.operations.making import stand
from tests.orders.asking import ASKED, adopt, asked, booked, purchased, wanted
from tests.orders.late import BUY, bought, decide, give_up, overdue, say
from tests.support import undone

pytestmark = pytest.mark.django_db


@pytest.fixture
def asker() -> User:
    """Somebody who may ask for everything, and decide on everything but that."""
    return make_user("Administrator")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A recipe that nothing else follows from."""
    monkeypatch.setattr(actions, "_actions", dict(actions._actions))
    monkeypatch.setattr(recipes, "_recipes", dict(recipes._recipes))
    return Bench()


def expired(first: Approval, _patch: pytest.MonkeyPatch) -> None:
    with clock.injected(lambda: first.due_at):
        approvals_expire_due()


def changed(first: Approval, patch: pytest.MonkeyPatch) -> None:
    """What was shown has moved on when somebody else decides."""
    kind = kinds.kind_of(first)
    moved = dataclasses.replace(kind, version=lambda one: -1 if one.pk == first.pk else kind.version(one))
    patch.setitem(kinds._kinds, first.kind, moved)
    with pytest.raises(DecisionRefusedError) as refused:
        approval_decide(approval_id=first.pk, user=make_user("Approver"), verdict="approve", comment="Go.")
    assert refused.value.code == "changed"


def put_again(first: Approval, requested_by: Who) -> Approval:
    """Withdrawn, and put once more as it was."""
    approval_void(approval=first, reason="It is looked at again")
    again = Question(
        kind=first.kind,
        team=first.team,
        title=first.title,
        subject_type=first.subject_type,
        subject_id=first.subject_id,
        subject_version=first.subject_version,
        evidence=first.evidence,
        policy=first.policy,
    )
    return approval_open(question=again, requested_by=requested_by, opened_by="system")


def asked_by_the_system(first: Approval, _patch: pytest.MonkeyPatch) -> None:
    """Withdrawn, and asked again in nobody's name."""
    put_again(first, "system")


def as_it_was(_first: Approval, _patch: pytest.MonkeyPatch) -> None:
    """Asked for the first time."""


WAYS: dict[str, Callable[[Approval, pytest.MonkeyPatch], None]] = {
    "once": as_it_was,
    "expired": expired,
    "changed": changed,
    "by the system": asked_by_the_system,
}
# What ends with its question: nothing is asked anew by these ways.
ENDS = {
    ("a deal", "expired"),
    ("a deal whose flight has begun", "expired"),
    ("a deal that is not what was approved", "expired"),
    ("a change", "expired"),
    ("a change that is not what was approved", "expired"),
    ("a change of a seller", "expired"),
    ("a cancellation of what runs on", "expired"),
    ("an end by hand", "expired"),
    ("an answer", "expired"),
    ("an answer", "changed"),
}
# Nobody sets off what a person changes of a seller; whatever else is asked follows from something that
# somebody asked for, or set off again.
SET_OFF = kind_names().keys() - {"seller_trust"}


def refused(approval: Approval, user: User, verdict: str = "approve", **more: User) -> str:
    """The refusal's code; nothing else may come of it."""
    with pytest.raises(DecisionRefusedError) as error:
        approval_decide(approval_id=approval.pk, user=user, verdict=verdict, comment="So.", **more)
    return error.value.code


def not_theirs(approval: Approval, asker: User) -> None:
    """By no door: their own decision, their queue, the page, who is named, and who stands in for them."""
    assert approval.requested_by == actor_key(asker)
    assert refused(approval, asker) == "own_request"
    assert refused(approval, asker, "reject") == "own_request"
    assert approval not in approvals_waiting_for(asker)
    assert "yourself" in obstacle(approval, asker, [])
    assert asker not in deciders([approval])[approval.pk]
    friend = make_user("Administrator")
    now = clock.now()
    delegation_create(
        user=asker, delegator=asker, delegate=friend, starts_at=now, ends_at=approval.due_at, reason="Away"
    )
    assert refused(approval, friend) == "own_request"
    assert refused(approval, friend, on_behalf_of=asker) == "own_request"


def test_every_kind_is_tried() -> None:
    assert {kind for kind, _ in ASKED.values()} == kind_names().keys()


@contextmanager
def asked_anew(first: Approval, what: str, way: str) -> Iterator[Approval | None]:
    """What is open of its kind once it was asked for in that way, until all is as before."""
    with undone(), pytest.MonkeyPatch.context() as patch:
        WAYS[way](Approval.objects.get(pk=first.pk), patch)
        again = Approval.objects.filter(kind=first.kind, status="open").first()
        assert (again is None) == ((what, way) in ENDS), way
        yield again


@pytest.mark.parametrize("what", ASKED)
def test_who_asked_does_not_decide(what: str, asker: User) -> None:
    first = asked(what, asker)
    for way in WAYS:
        with asked_anew(first, what, way) as again:
            if again is not None:
                assert (again.pk == first.pk) == (way == "once"), way
                not_theirs(again, asker)
                assert obstacle(again, make_user("Approver"), []) == "", "somebody else still can"


def open_of(kind: str) -> Approval:
    return Approval.objects.get(kind=kind, status="open")


def test_an_adopted_buy_that_its_seller_changes_is_still_theirs(asker: User) -> None:
    deal = adopt(asker)
    first, later = open_of("booked_differently"), clock.now() + timedelta(hours=1)

    with clock.injected(lambda: later):
        compare(deal_locked(deal.pk), {"packages": [{"package_id": "pkg-1", "budget": 7000}]})

    again = open_of("booked_differently")
    assert again.pk != first.pk
    not_theirs(again, asker)


def test_a_purchase_kept_after_it_was_given_up_is_still_theirs(asker: User) -> None:
    deal, operation = purchased(asker)
    give_up(operation)
    say(operation, "completed", bought(deal))
    decide("unclaimed", "approve")
    kept = Deal.objects.get(follows=deal)
    compare(deal_locked(kept.pk), bought(kept, budget=13_000.0))
    assert (kept.media_buy_id, kept.requested_by) == (BUY, actor_key(asker))
    not_theirs(open_of("booked_differently"), asker)


def test_a_departure_that_becomes_another_is_still_theirs(asker: User) -> None:
    deal, _ = booked(asker, budget=12_000.0)
    first, later = open_of("booked_differently"), clock.now() + timedelta(hours=1)
    with clock.injected(lambda: later):
        compare(deal_locked(deal.pk), bought(deal, budget=13_000.0))
    again = open_of("booked_differently")
    assert (again.pk != first.pk, again.replaces_id) == (True, first.pk)
    not_theirs(again, asker)


def test_a_wait_sent_again_and_overdue_once_more_is_still_not_theirs_to_give_up(asker: User) -> None:
    operation = stand("submitted", sent_at=clock.now())
    operation_stop(operation_id=operation.pk, user=asker, reason="They closed the desk.")
    operation_resend(operation_id=operation.pk, user=asker, reason="After all.")
    assert Approval.objects.get().status == "voided"

    overdue(operation)

    not_theirs(open_of("overdue"), asker)


def test_a_wait_kept_and_overdue_once_more_is_still_not_theirs_to_give_up(asker: User) -> None:
    operation = stand("submitted", sent_at=clock.now())
    operation_stop(operation_id=operation.pk, user=asker, reason="They closed the desk.")
    decide("overdue", "approve")

    overdue(operation)

    not_theirs(open_of("overdue"), asker)


def test_what_nobody_asked_to_stop_is_everybodys(asker: User) -> None:
    operation = stand("submitted")
    overdue(operation)
    decide("overdue", "reject", user=asker)
    assert Operation.objects.get(pk=operation.pk).settled_at is not None


def test_the_reason_to_stop_waiting_is_asked_with_again(asker: User, monkeypatch: pytest.MonkeyPatch) -> None:
    first = asked("giving up a wait", asker)
    expired(first, monkeypatch)
    second = open_of("overdue")
    changed(second, monkeypatch)
    for again in (second, open_of("overdue")):
        assert again.evidence["stop_because"] == "They closed the desk."


# ---- asked for by one, the deal by another


def deal_of(question: Approval) -> Deal | None:
    """The deal that a question is about, by whatever it names."""
    kind, pk = question.subject_type, question.subject_id
    if kind == "conflict":
        kind, pk = "operation", Conflict.objects.get(pk=pk).operation_id
    if kind == "command":
        kind, pk = "deal", Command.objects.get(pk=pk).subject_id
    if kind == "operation":
        operation = Operation.objects.get(pk=pk)
        pk = operation.subject_id if operation.subject_type == "deal" else None
    return Deal.objects.filter(pk=pk).first()


def _of_another(what: str, asker: User, buyer: User) -> Approval:
    """What `asker` brings about, of a deal that the buyer asked for."""
    first = asked(what, asker)
    deal = deal_of(first)
    if deal is None:
        deal = make_deal(seller=Seller.objects.get(), account=False)
        Operation.objects.filter(pk=first.subject_id).update(subject_type="deal", subject_id=deal.pk)
    Deal.objects.filter(pk=deal.pk).update(requested_by=actor_key(buyer))
    return put_again(first, asker)


@pytest.mark.parametrize("what", [name for name, (kind, _) in ASKED.items() if kind in SET_OFF])
def test_who_asked_for_the_deal_decides_on_none_of_its_questions(what: str, asker: User) -> None:
    buyer = make_user("Administrator")
    question = _of_another(what, asker, buyer)
    not_theirs(question, asker)
    _not_set_off(question, buyer)
    assert obstacle(question, make_user("Approver"), []) == "", "somebody else still can"


def test_nor_who_asked_for_the_deal_that_it_follows(asker: User) -> None:
    lost = wanted(asker)
    deal = make_deal(seller=lost.seller, account=lost.account, follows=lost)
    question = ask_deal(deal)
    _not_set_off(question, asker)


def test_who_asked_for_the_deal_does_not_decide_on_an_integrators_change_of_it(asker: User) -> None:
    deal, _ = booked(asker)
    arguments = {"media_buy_id": BUY, "packages": [{"package_id": "pkg-1", "budget": 900_000}]}
    integrator = make_user("Integration")
    change_ask(Ask(user=integrator, task="update_media_buy", seller=deal.seller, arguments=arguments))
    _not_set_off(open_of("deal_change"), asker)


# ---- set off again by a colleague


def _retried_by(colleague: User, asker: User) -> None:
    """Their campaign failed before anything was put forward, and the colleague tried it again."""
    raw = brief(brand_domain=make_advertiser().brand_domain)
    campaign = campaign_submit(user=asker, raw=raw)
    fail(campaign)
    campaign_retry(campaign_id=campaign.pk, user=colleague, reason="The seller is back.")
    _put_forward(asker, campaign)


def _job_retried_by(colleague: User, asker: User) -> None:
    """The same by the job's own page, and once more."""
    raw = brief(brand_domain=make_advertiser().brand_domain)
    campaign = campaign_submit(user=asker, raw=raw)
    job = fail(campaign)
    again = job_retry(job_id=job.pk, actor=colleague, reason="The seller is back.")
    fail(campaign, again)
    job_retry(job_id=again.pk, actor=make_user("Ad Ops"), reason="And again.")
    _put_forward(asker, campaign)


def _put_forward(asker: User, campaign: Campaign) -> None:
    deal = wanted(asker)
    Deal.objects.filter(pk=deal.pk).update(campaign_id=campaign.pk)
    ask_deal(Deal.objects.get(pk=deal.pk))


def fail(campaign: Campaign, job: Job | None = None) -> Job:
    job = job or Job.objects.get(subject_id=campaign.pk)
    step = claim_step()
    assert step is not None
    assert step.job_id == job.pk
    mark_failed(step=step, error="No seller answers")
    return Job.objects.get(pk=job.pk)


def _resent_by(colleague: User, asker: User) -> None:
    """Their purchase was sent again by the colleague, to a seller that was switched off meanwhile."""
    _, operation = purchased(asker)
    operation_resend(operation_id=operation.pk, user=colleague, reason="It never came.")
    Seller.objects.update(active=False)
    claim_sends(limit=5)


# How a colleague sets off again what somebody asked for: the service that does it, and the case.
COLLEAGUES: dict[str, Callable[[User, User], None]] = {
    "campaign_retry": _retried_by,
    "job_retry": _job_retried_by,
    "operation_resend": _resent_by,
}
# What sets something off, and where: who does so is tried here, or asks in their own name.
SETTING_OFF = ("job_start", "job_retry", "job_retry_nested", "campaign_retry", "operation_resend")
CALLED_IN = {
    "campaigns/acts.py": "campaign_retry, tried here",
    "campaigns/admin.py": "campaign_retry, tried here",
    "campaigns/assistant/submissions.py": "campaign_retry, in the name of who confirms the proposal",
    "tasks_app/jobs/steer_forms.py": "job_retry, tried here",
    "tasks_app/api/jobs.py": "job_retry, tried here",
    "tasks_app/operations/steer_forms.py": "operation_resend, tried here",
    "tasks_app/api/steering.py": "operation_resend, tried here",
    "tasks_app/jobs/bulk.py": "job_retry in the name of who began it; the bulk job itself asks nobody",
    "tasks_app/jobs/schedules.py": "who runs it asked for its job",
    "tasks_app/jobs/worker.py": "the system, for a step: what is above it was set off by people",
    "campaigns/services.py": "who submits a brief asked for it",
    "orders/approvals.py": "the system, once a deal is approved",
}


@pytest.mark.rule
def test_whatever_sets_something_off_is_known_here() -> None:
    """A new caller fails here until somebody says in whose name it asks."""
    root, found = Path(__file__).resolve().parents[2], set()
    for path in (p for room in ("tasks_app", "orders", "campaigns") for p in (root / room).rglob("*.py")):
        if re.search(rf"(?<!def )\b({'|'.join(SETTING_OFF)})\(|\bjob_retry,", path.read_text()):
            found.add(str(path.relative_to(root)))
    assert found == CALLED_IN.keys()


@pytest.mark.parametrize("way", COLLEAGUES)
def test_neither_who_asked_nor_who_set_it_off_again_decides(way: str, asker: User) -> None:
    colleague = make_user("Administrator")
    COLLEAGUES[way](colleague, asker)
    question = Approval.objects.get(status="open")

    not_theirs(question, asker)
    assert question.set_off_by
    _not_set_off(question, colleague)
    assert obstacle(question, make_user("Approver"), []) == "", "somebody else still can"


# ---- set off again while people are asked


def expired_job(bench: Bench, about: Approval) -> Job:
    """A job about the deal, or else the operation, that a question comes from: it came to no end in time."""
    found: Any = Deal.objects.first() or Operation.objects.first()
    bench.recipe({"id": "once"})
    subject = {"subject_type": "deal" if isinstance(found, Deal) else "operation", "subject_id": found.pk}
    job = bench.start(team=about.team or make_team(), **subject)
    assert job_expire(job_id=job.pk, reason="Its time was over")
    assert Approval.objects.get(pk=about.pk).status == "open"
    return job


def test_who_decides_though_they_set_it_off_is_said_of_each_kind() -> None:
    assert set(kinds.kinds_set_off()) == SET_OFF


@pytest.mark.parametrize("what", ASKED)
def test_who_retries_a_job_decides_on_nothing_open_that_it_asks_for(
    what: str, asker: User, bench: Bench
) -> None:
    first = asked(what, asker)
    earlier, colleague = make_user("Administrator"), make_user("Administrator")
    Approval.objects.filter(pk=first.pk).update(set_off_by=[actor_key(earlier)])
    job = expired_job(bench, first)

    job_retry(job_id=job.pk, actor=colleague, reason="The seller is back.")

    question = Approval.objects.get(pk=first.pk)
    not_theirs(question, asker)
    assert obstacle(question, make_user("Approver"), []) == "", "somebody else still can"
    if first.kind not in SET_OFF:
        assert question.version == first.version
        assert obstacle(question, colleague, []) == ""
        return
    assert question.set_off_by == sorted([actor_key(earlier), actor_key(colleague)])
    for one in (earlier, colleague):
        _not_set_off(question, one)
    entry = AuditEntry.objects.get(entity_id=question.pk, seq=question.version)
    assert (entry.actor, entry.to_status, list(entry.changes)) == (
        actor_key(colleague),
        "open",
        ["set_off_by"],
    )
    assert entry.reason == f"Set off again: {job.reference} is retried: The seller is back."


@pytest.mark.parametrize("what", [name for name, (kind, _) in ASKED.items() if kind in SET_OFF])
def test_who_retried_while_it_was_open_does_not_decide_however_it_is_asked_again(
    what: str, asker: User, bench: Bench
) -> None:
    first = asked(what, asker)
    colleague = make_user("Administrator")
    job_retry(job_id=expired_job(bench, first).pk, actor=colleague, reason="The seller is back.")
    for way in [one for one in WAYS if one != "once"]:
        with asked_anew(first, what, way) as again:
            if again is not None:
                _not_set_off(again, colleague)


def test_the_page_names_who_set_it_off_beside_who_asked(bench: Bench) -> None:
    asker, rita = (make_user("Administrator", name=name) for name in ("Asa", "Rita"))
    first = asked("a contradiction", asker)
    job_retry(job_id=expired_job(bench, first).pk, actor=rita, reason="The seller is back.")
    pages = {}
    for who in (make_user("Approver"), rita):
        User.objects.filter(pk=who.pk).update(is_staff=True)
        client = Client()
        client.force_login(who, backend="tasks_app.people.holders.RoleBackend")
        shown = client.get(reverse("admin:tasks_app_approval_change", args=[first.pk])).content.decode()
        pages[who.pk] = shown
        assert "asked by Flightdeck, for Asa" in shown
        assert "set off by Rita" in shown
    assert "You set this off yourself" in pages[rita.pk]
    who = explain(first.reference, asker).who_words
    assert "never who asked or set it off" in who
    assert "Rita" not in who


def test_what_a_campaign_leads_to_is_set_off_with_it(asker: User) -> None:
    """Found from above it is what names the same people from below: nothing is set off one way only."""
    colleague = make_user("Administrator")
    campaign = campaign_submit(user=asker, raw=brief(brand_domain=make_advertiser().brand_domain))
    fail(campaign)
    campaign_retry(campaign_id=campaign.pk, user=colleague, reason="The seller is back.")
    deal, operation = booked(asker)
    Deal.objects.filter(pk=deal.pk).update(campaign_id=campaign.pk)
    say(operation, "rejected", channel="webhook")
    decide("conflict", "reject")
    follower = make_deal(seller=deal.seller, account=deal.account)
    Deal.objects.filter(pk=follower.pk).update(follows_id=deal.pk)

    found = led_to("campaign", campaign.pk)

    assert found.keys() == {"campaign", "deal", "operation", "command", "conflict"}
    assert found["deal"] == {deal.pk, follower.pk}
    for kind, ids in found.items():
        for pk in ids:
            assert actor_key(colleague) in set_off_by(kind, pk), kind


def test_who_sends_it_again_does_not_decide_on_what_is_open_about_it(asker: User) -> None:
    """The seller named another task meanwhile, which people are asked about."""
    colleague = make_user("Administrator")
    _, operation = purchased(asker)
    say(operation, "submitted", task_id="another")
    question = open_of("conflict")
    assert obstacle(question, colleague, []) == ""

    operation_resend(operation_id=operation.pk, user=colleague, reason="It never came.")

    _not_set_off(Approval.objects.get(pk=question.pk), colleague)


def test_a_retry_that_is_refused_sets_nothing_off(asker: User, bench: Bench) -> None:
    first, colleague = asked("a contradiction", asker), make_user("Administrator")
    job = expired_job(bench, first)
    with pytest.raises(JobRefusedError, match="Say why"):
        job_retry(job_id=job.pk, actor=colleague, reason=" ")
    assert Approval.objects.get(pk=first.pk).version == first.version
    job_retry(job_id=job.pk, actor="system", reason="By itself")
    assert Approval.objects.get(pk=first.pk).version == first.version


def test_who_retries_gives_back_what_they_had_in_hand(asker: User, bench: Bench) -> None:
    first, colleague = asked("a contradiction", asker), make_user("Administrator")
    approval_claim(approval_id=first.pk, user=colleague)

    job_retry(job_id=expired_job(bench, first).pk, actor=colleague, reason="The seller is back.")

    assert Approval.objects.get(pk=first.pk).claimed_by == ""
    assert [(one.kind, one.actor) for one in thread_of(first)] == [
        ("claim", actor_key(colleague)),
        ("release", actor_key(colleague)),
    ]


def test_an_approval_given_before_the_retry_does_not_count_any_more(asker: User, bench: Bench) -> None:
    """Of the two that the kill switch takes, one was theirs."""
    first, colleague = asked("a purchase that is stopped", asker), make_user("Administrator")
    approval_decide(approval_id=first.pk, user=colleague, verdict="approve", comment="Go.")
    job_retry(job_id=expired_job(bench, first).pk, actor=colleague, reason="The seller is back.")

    one = approval_decide(approval_id=first.pk, user=make_user("Approver"), verdict="approve", comment="Go.")

    assert (one.status, given_on(Approval.objects.get(pk=first.pk))) == ("open", 1)


@pytest.mark.parametrize("way", [name for name in WAYS if name != "once"])
def test_who_retried_does_not_decide_however_it_is_asked_again(
    way: str, asker: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    colleague = make_user("Administrator")
    _retried_by(colleague, asker)
    first = open_of("deal")
    WAYS[way](first, monkeypatch)
    if ("a deal", way) not in ENDS:
        _not_set_off(open_of("deal"), colleague)


def _not_set_off(question: Approval, colleague: User) -> None:
    """As `not_theirs`, of who set it off beside who asked for it."""
    assert refused(question, colleague) == "own_request"
    assert refused(question, colleague, "reject") == "own_request"
    assert question not in approvals_waiting_for(colleague)
    assert "set this off yourself" in obstacle(question, colleague, [])
    assert colleague not in deciders([question])[question.pk]
    friend, now = make_user("Administrator"), clock.now()
    delegation_create(
        user=colleague,
        delegator=colleague,
        delegate=friend,
        starts_at=now,
        ends_at=question.due_at,
        reason="Away",
    )
    assert refused(question, friend) == "own_request"
    assert refused(question, friend, on_behalf_of=colleague) == "own_request"
    assert question not in approvals_waiting_for(friend)
    assert friend not in deciders([question])[question.pk]

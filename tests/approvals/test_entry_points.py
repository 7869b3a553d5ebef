"""Every way in to a decision, tried with every reason to refuse it: nothing changes, whichever way is taken.

The admin's page, its bulk and the queue's, the API for one, for many and for a campaign, the command, and the
mailed link (which never decides, refused or not).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from campaigns.models import Campaign
from orders.models import Deal
from orders.questions import ask_deal
from tasks_app import clock
from tasks_app.approvals.delegation import delegation_create
from tasks_app.approvals.links import link_token
from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.services import approval_decide
from tasks_app.lifecycle.models import AuditEntry, OutboxEvent
from tasks_app.lifecycle.transitions import create, transition
from tasks_app.people.models import User
from tests.commands.running import call
from tests.factories import make_deal, make_team, make_user

pytestmark = pytest.mark.django_db
BACKEND = "django.contrib.auth.backends.ModelBackend"


@dataclass(kw_only=True)
class Try:
    """One decision that somebody tries to make."""

    approval: Approval
    user: User
    verdict: str = "approve"
    comment: str = "Go."
    digest: str = ""
    principal: User | None = None

    @property
    def shown(self) -> str:
        return self.digest or self.approval.evidence_digest


# --- ways in ------------------------------------------------------------------------------------
def page_client(user: User) -> Client:
    user.is_staff = True
    user.save(update_fields=["is_staff"])
    client = Client()
    client.force_login(user, backend=BACKEND)
    return client


def api_client(user: User) -> APIClient:
    client = APIClient()
    client.force_authenticate(user)
    return client


def page(one: Try) -> int:
    return page_client(one.user).post(_page(one), _form(one)).status_code


def page_together(one: Try) -> int:
    form = {**_form(one), "scope": "together"}
    return page_client(one.user).post(_page(one), form).status_code


def queue(one: Try) -> int:
    form = {**_form(one), "also": [f"{one.approval.pk}:{one.shown}"]}
    return page_client(one.user).post(reverse("admin:tasks_app_approval_changelist"), form).status_code


def api(one: Try) -> int:
    said = {**_said(one), "evidence_digest": one.shown}
    return api_client(one.user).post(f"/api/v1/approvals/{one.approval.pk}/decide/", said, "json").status_code


def api_many(one: Try) -> int:
    said = {**_said(one), "approvals": [{"id": str(one.approval.pk), "evidence_digest": one.shown}]}
    return api_client(one.user).post("/api/v1/approvals/decide/", said, "json").status_code


def api_campaign(one: Try) -> int:
    """It has no digest to say: what is open is decided as it is."""
    campaign = Deal.objects.get(pk=one.approval.subject_id).campaign_id
    return api_client(one.user).post(f"/api/v1/campaigns/{campaign}/decide/", _said(one), "json").status_code


def command(one: Try) -> int:
    arguments = ["--as", one.user.username, "--comment", one.comment, "--digest", one.shown]
    stands_in = ["--for", one.principal.username] if one.principal else []
    return call("decide", one.approval.reference, one.verdict, *arguments, *stands_in).code


def link(one: Try) -> int:
    """Followed twice, signed in, with all that a form would hold in its query."""
    address = reverse("approval_link", args=[link_token(approval_id=one.approval.pk, user=one.user)])
    client = page_client(one.user)
    client.get(address, _form(one))
    assert client.post(address, _form(one)).status_code in (302, 405)
    return client.get(address, _form(one), follow=True).status_code


def _page(one: Try) -> str:
    return reverse("admin:tasks_app_approval_change", args=[one.approval.pk])


def _form(one: Try) -> dict[str, Any]:
    stands_in = {"for": str(one.principal.pk)} if one.principal else {}
    return {"decision": one.verdict, "comment": one.comment, "digest": one.shown, **stands_in}


def _said(one: Try) -> dict[str, Any]:
    stands_in = {"on_behalf_of": one.principal.username} if one.principal else {}
    return {"verdict": one.verdict, "comment": one.comment, **stands_in}


WAYS: dict[str, Callable[[Try], int]] = {
    "page": page,
    "page, together": page_together,
    "queue": queue,
    "api": api,
    "api, many": api_many,
    "api, campaign": api_campaign,
    "command": command,
}


# --- reasons to refuse --------------------------------------------------------------------------
def own(one: Try) -> None:
    Approval.objects.filter(pk=one.approval.pk).update(requested_by=f"human:{one.user.pk}")


def twice(one: Try) -> None:
    _decided(one.approval, one.user)


def changed(one: Try) -> None:
    """The subject moved on; asked anew is not decided."""
    transition(Deal.objects.get(pk=one.approval.subject_id), "negotiating", actor="system")


def another_digest(one: Try) -> None:
    one.digest = "0" * 64


def no_right(one: Try) -> None:
    one.user = make_user("Buyer")


def another_team(one: Try) -> None:
    one.user.teams.set([make_team("Elsewhere")])


def closed(one: Try) -> None:
    transition(one.approval, "voided", actor="system")


def expired(one: Try) -> None:
    Approval.objects.filter(pk=one.approval.pk).update(due_at=clock.now() - timedelta(seconds=1))


def service_account(one: Try) -> None:
    one.user = make_user("Approver", is_service=True)


def switched_off(one: Try) -> None:
    User.objects.filter(pk=one.user.pk).update(is_active=False)
    one.user.refresh_from_db()


def no_reason(one: Try) -> None:
    one.verdict, one.comment = "reject", "  "


def delegate_of_the_requester(one: Try) -> None:
    asker = make_user("Approver")
    Approval.objects.filter(pk=one.approval.pk).update(requested_by=f"human:{asker.pk}")
    _stands_in(one.user, asker)


def stood_in_for_already(one: Try) -> None:
    delegate = make_user("Approver")
    _stands_in(delegate, one.user)
    _decided(one.approval, delegate, on_behalf_of=one.user)


def for_somebody_without_a_delegation(one: Try) -> None:
    one.principal = make_user("Approver")


def for_somebody_whose_delegation_is_over(one: Try) -> None:
    one.principal = make_user("Approver")
    then = clock.now() - timedelta(days=30)
    with clock.injected(lambda: then):
        _stands_in(one.user, one.principal)


def for_somebody_who_has_decided(one: Try) -> None:
    one.principal = make_user("Approver")
    _stands_in(one.user, one.principal)
    _decided(one.approval, one.principal)


def for_the_requester(one: Try) -> None:
    one.principal = make_user("Approver")
    Approval.objects.filter(pk=one.approval.pk).update(requested_by=f"human:{one.principal.pk}")
    _stands_in(one.user, one.principal)


def for_somebody_who_may_not(one: Try) -> None:
    one.principal = make_user("Approver")
    _stands_in(one.user, one.principal)
    one.principal.groups.clear()


def second_under_another_name(one: Try) -> None:
    """A quorum of two is two humans."""
    one.principal = make_user("Approver")
    _stands_in(one.user, one.principal)
    _decided(one.approval, one.user)


REASONS: dict[str, Callable[[Try], None]] = {
    reason.__name__: reason
    for reason in (
        own,
        twice,
        changed,
        another_digest,
        no_right,
        another_team,
        closed,
        expired,
        service_account,
        switched_off,
        no_reason,
        delegate_of_the_requester,
        stood_in_for_already,
        for_somebody_without_a_delegation,
        for_somebody_whose_delegation_is_over,
        for_somebody_who_has_decided,
        for_the_requester,
        for_somebody_who_may_not,
        second_under_another_name,
    )
}
CASES = [
    (way, reason)
    for way in WAYS
    for reason in REASONS
    if (way, reason) != ("api, campaign", "another_digest")  # it names none
]


def _stands_in(delegate: User, delegator: User) -> None:
    delegation_create(
        user=delegator,
        delegator=delegator,
        delegate=delegate,
        starts_at=clock.now() - timedelta(hours=1),
        ends_at=clock.now() + timedelta(days=5),
    )


def _decided(approval: Approval, user: User, on_behalf_of: User | None = None) -> None:
    approval_decide(approval_id=approval.pk, user=user, verdict="approve", on_behalf_of=on_behalf_of)


def state(approval: Approval) -> tuple[Any, ...]:
    """Everything that a decision could change; a voiding for a change of the subject is no decision."""
    with connection.cursor() as cursor:
        cursor.execute("select count(*) from tasks_app_job")
        jobs = cursor.fetchone()[0]
    now = Approval.objects.get(pk=approval.pk)
    return (
        list(Decision.objects.values_list("pk", flat=True)),
        Deal.objects.get(pk=approval.subject_id).status,
        AuditEntry.objects.filter(entity_type="deal").count(),
        Approval.objects.filter(status__in=("approved", "rejected")).count(),
        now.decisions.count(),
        jobs,
        OutboxEvent.objects.filter(entity_type="deal").count(),
    )


@pytest.fixture
def one() -> Try:
    """A recommendation of a campaign that two must approve, and somebody who may."""
    campaign = _campaign()
    deal = make_deal(requested_by=f"human:{make_user('Buyer').pk}", campaign_id=campaign.pk)
    approval = ask_deal(deal)
    Approval.objects.filter(pk=approval.pk).update(quorum=2)
    return Try(approval=Approval.objects.get(pk=approval.pk), user=make_user("Approver"))


def _campaign() -> Campaign:
    campaign = Campaign(
        reference="CMP-2026-900001", team=make_team(), name="Spring", requested_by="system", brief={}
    )
    create(campaign, actor="system", reason="A brief")
    return campaign


@pytest.mark.parametrize(("way", "reason"), CASES)
def test_a_refused_decision_changes_nothing(one: Try, way: str, reason: str) -> None:
    REASONS[reason](one)
    before = state(one.approval)

    WAYS[way](one)

    assert state(one.approval) == before


@pytest.mark.parametrize("way", WAYS)
def test_the_same_way_in_decides_where_nothing_speaks_against_it(one: Try, way: str) -> None:
    assert WAYS[way](one) in (0, 200, 302)

    (decision,) = Decision.objects.all()
    assert (decision.actor, decision.verdict) == (f"human:{one.user.pk}", "approve")
    assert decision.evidence_digest == one.approval.evidence_digest


@pytest.mark.parametrize("way", WAYS)
def test_whoever_stands_in_decides_and_both_names_stand(one: Try, way: str) -> None:
    away = make_user("Approver", name="away")
    _stands_in(one.user, away)
    one.principal = away

    assert WAYS[way](one) in (0, 200, 302)

    (decision,) = Decision.objects.all()
    assert (decision.actor, decision.actor_name) == (f"human:{one.user.pk}", str(one.user))
    assert (decision.on_behalf_of, decision.on_behalf_of_name) == (f"human:{away.pk}", "away")


@pytest.mark.parametrize("reason", ["nothing", *REASONS])
def test_the_mailed_link_decides_nothing(one: Try, reason: str) -> None:
    if reason in REASONS:
        REASONS[reason](one)
    before = state(one.approval)

    link(one)

    assert state(one.approval) == before


def test_every_caller_of_the_choke_point_is_among_the_ways() -> None:
    """Whoever writes a new way in finds this: it has to be tried above."""
    root = Path(__file__).parents[2]
    callers = {
        path.relative_to(root).as_posix()
        for storey in ("tasks_app", "orders", "campaigns", "config")
        for path in (root / storey).rglob("*.py")
        if re.search(r"\bapproval_decide\(|\bDecision\.objects\.create\(", path.read_text())
    }
    assert callers == {
        "tasks_app/approvals/services.py",
        "tasks_app/approvals/together.py",  # page, together; queue; api, many
        "tasks_app/approvals/posting.py",  # page
        "tasks_app/api/deciding.py",  # api
        "tasks_app/management/commands/decide.py",  # command
        "tasks_app/operations/conflict_admin.py",  # a conflict's page: test_conflict_entry
        "campaigns/decisions.py",  # api, campaign
    }

"""Every way in to a decision, tried with every reason to refuse it: nothing changes, whichever way is taken.

The admin's page, its bulk and the queue's, the API for one, for many and for a campaign, the command, and the
mailed link (which never decides, refused or not).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from campaigns.models import Campaign
from orders.models import Deal
from orders.questions import ask_deal
from tasks_app import clock, ids
from tasks_app.approvals.delegation import delegation_create
from tasks_app.approvals.links import link_token
from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.services import approval_decide
from tasks_app.lifecycle.models import AuditEntry, OutboxEvent
from tasks_app.lifecycle.transitions import create, transition
from tasks_app.people.models import User
from tests.approvals.ways_in import ROOT, STOREYS, calls, doors, leading_to
from tests.commands.running import call
from tests.factories import decided_later, make_deal, make_team, make_user
from tests.support import undone

pytestmark = [pytest.mark.all_cases, pytest.mark.django_db]
_DECIDES = ("approval_decide", "approval_check", "batch_decide", "batch_intend", "campaign_decide")
BACKEND = "tasks_app.people.holders.RoleBackend"


@dataclass(kw_only=True)
class Try:
    """One decision that somebody tries to make."""

    approval: Approval
    user: User
    verdict: str = "approve"
    comment: str = "Go."
    digest: str | None = None
    principal: User | None = None

    @property
    def shown(self) -> str:
        return self.approval.evidence_digest if self.digest is None else self.digest


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
    return _confirmed(one, _page(one), {**_form(one), "scope": "together"})


def queue(one: Try) -> int:
    form = {**_form(one), "also": [f"{one.approval.pk}:{one.shown}"]}
    return _confirmed(one, reverse("admin:tasks_app_approval_changelist"), form)


def _confirmed(one: Try, address: str, form: dict[str, Any]) -> int:
    """Said, said again as if it had been asked, and decided by the sweep when it can no longer be undone."""
    client, before = page_client(one.user), state(one.approval)
    client.post(address, form)
    code = client.post(address, {**form, "confirmed": str(ids.new_id())}).status_code
    assert state(one.approval) == before, "nothing is decided yet"
    decided_later()
    return code


def api(one: Try) -> int:
    said = {**_said(one), "evidence_digest": one.shown}
    return api_client(one.user).post(f"/api/v1/approvals/{one.approval.pk}/decide/", said, "json").status_code


def api_many(one: Try) -> int:
    said = {**_said(one), "approvals": [{"id": str(one.approval.pk), "evidence_digest": one.shown}]}
    return api_client(one.user).post("/api/v1/approvals/decide/", said, "json").status_code


def api_campaign(one: Try) -> int:
    campaign = Deal.objects.get(pk=one.approval.subject_id).campaign_id
    said = {**_said(one), "approvals": [{"id": str(one.approval.pk), "evidence_digest": one.shown}]}
    return api_client(one.user).post(f"/api/v1/campaigns/{campaign}/decide/", said, "json").status_code


def api_campaign_parts(one: Try) -> int:
    campaign = Deal.objects.get(pk=one.approval.subject_id).campaign_id
    said = {
        **_said(one),
        "parts": [{"approval": str(one.approval.pk)}],
        "approvals": [{"id": str(one.approval.pk), "evidence_digest": one.shown}],
    }
    return api_client(one.user).post(f"/api/v1/campaigns/{campaign}/decide/", said, "json").status_code


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
    "api, campaign in parts": api_campaign_parts,
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


def no_digest(one: Try) -> None:
    one.digest = ""


def another_digest_for_who_is_away(one: Try) -> None:
    one.digest, one.principal = "0" * 64, make_user("Approver")
    _stands_in(one.user, one.principal)


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
        no_digest,
        another_digest_for_who_is_away,
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


@pytest.mark.parametrize("reason", REASONS)
def test_a_refused_decision_changes_nothing(one: Try, reason: str) -> None:
    REASONS[reason](one)
    before = state(one.approval)
    for name, way in {**WAYS, "mailed link": link}.items():
        with undone():
            way(one)
            assert state(one.approval) == before, name


def test_the_mailed_link_decides_nothing_though_nothing_speaks_against_it(one: Try) -> None:
    before = state(one.approval)
    link(one)
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


# Where people (and what they said a moment ago) come in, and by which of the ways above each is tried.
DOORS = {
    "tasks_app.approvals.posting.DecidingPage.object_post": {"page", "page, together"},
    "tasks_app.approvals.posting.DecidingPage.changelist_view": {"queue"},
    "tasks_app.api.deciding.DecidingActions.decide": {"api"},
    "tasks_app.api.deciding.DecidingActions.decide_many": {"api, many"},
    "campaigns.api.views.CampaignViewSet.decide": {"api, campaign", "api, campaign in parts"},
    "tasks_app.management.commands.decide.Command.run": {"command"},
    "tasks_app.operations.conflict_admin.ConflictAdmin.object_post": set(),  # test_conflict_entry
    "tasks_app.apps.TasksAppConfig.ready": set(),  # the sweep's chore for what "together" and the queue said
}


@pytest.mark.rule
def test_every_door_to_a_decision_is_among_the_ways() -> None:
    """Whoever writes a new way in, around however many corners, finds this: it has to be tried above."""
    known = calls()
    ends = {"tasks_app.approvals.services._decide", "tasks_app.approvals.intents.batch_intend"}
    assert ends <= known.keys()
    assert doors(leading_to(ends, known), known) == set(DOORS)
    assert set().union(*DOORS.values()) == set(WAYS)


@pytest.mark.rule
def test_a_decision_is_written_in_one_place_alone() -> None:
    written = re.compile(
        r"\bDecision(\.objects\.\w*create)?\(|insert into tasks_app_decision\b", re.IGNORECASE
    )
    found = {
        path.relative_to(ROOT).as_posix()
        for storey in STOREYS
        for path in (ROOT / storey).rglob("*.py")
        if "migrations" not in path.parts and written.search(path.read_text().replace("class Decision(", ""))
    }
    assert found == {"tasks_app/approvals/services.py"}


@pytest.mark.rule
def test_every_decision_says_what_was_shown() -> None:
    """Nobody in the product decides, or has it checked, without the digest of what a person saw."""
    unsaid, ways = [], 0
    for storey in (*STOREYS, "demo", "bench"):
        for path in (ROOT / storey).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _DECIDES:
                    ways += 1
                    if not {"expected_digest", "shown"} & {keyword.arg for keyword in node.keywords}:
                        unsaid.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert (unsaid, ways > 5) == ([], True)

"""Who has an approval in hand: for a while, told to nobody but whom it is given to, forbidding nobody."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.db import DatabaseError, transaction
from django.test import Client
from django.urls import reverse

from orders.questions import ask_deal
from tasks_app import clock
from tasks_app.approvals.claims import approval_claim, approval_reassign, approval_release, claimant_of
from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.records import ApprovalNote
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.lifecycle.transitions import transition
from tasks_app.notifications.selectors import notifications_of
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tests.approvals.conftest import Desk
from tests.database import Database
from tests.factories import make_deal, make_team, make_user
from tests.lifecycle.threads import at_once
from tests.owning import as_the_product

db = pytest.mark.django_db


def now(approval: Approval) -> Approval:
    return Approval.objects.get(pk=approval.pk)


def thread(approval: Approval) -> list[tuple[str, str, str]]:
    notes = ApprovalNote.objects.filter(approval=approval)
    return [(note.kind, note.actor_name, note.to_name) for note in notes]


def refused(code: str, act: object, **said: object) -> None:
    before = (ApprovalNote.objects.count(), list(Approval.objects.values_list("claimed_by", "claimed_until")))
    with pytest.raises(DecisionRefusedError) as error:
        act(**said)  # type: ignore[operator]
    assert error.value.code == code
    after = (ApprovalNote.objects.count(), list(Approval.objects.values_list("claimed_by", "claimed_until")))
    assert after == before


@db
def test_a_claim_holds_a_while_and_is_renewed_by_its_holder_alone(desk: Desk) -> None:
    ann, abe = make_user("Approver", name="ann"), make_user("Approver", name="abe")
    approval = desk.ask()
    start = clock.now()
    with clock.injected(lambda: start):
        approval_claim(approval_id=approval.pk, user=ann)
        assert now(approval).claimed_until == start + settings.APPROVAL_CLAIM
        refused("claimed", approval_claim, approval_id=approval.pk, user=abe)
    later = start + settings.APPROVAL_CLAIM - timedelta(seconds=1)
    with clock.injected(lambda: later):
        approval_claim(approval_id=approval.pk, user=ann)
        assert now(approval).claimed_until == later + settings.APPROVAL_CLAIM
    with clock.injected(lambda: later + settings.APPROVAL_CLAIM):
        assert claimant_of(now(approval)) == ""
        approval_claim(approval_id=approval.pk, user=abe)
        assert claimant_of(now(approval)) == actor_key(abe)
    assert thread(approval) == [("claim", "ann", ""), ("claim", "abe", "")]


@db
def test_a_claim_ends_with_the_deadline(desk: Desk) -> None:
    approval = desk.ask(due_at=clock.now() + timedelta(minutes=5))
    approval_claim(approval_id=approval.pk, user=make_user("Approver"))
    assert now(approval).claimed_until == approval.due_at


@db
def test_a_claim_forbids_nobody_to_decide(desk: Desk) -> None:
    approval = desk.ask()
    approval_claim(approval_id=approval.pk, user=make_user("Approver"))
    assert approval_decide(approval_id=approval.pk, user=make_user("Approver"), verdict="approve")
    assert now(approval).status == "approved"


@db
def test_who_may_not_decide_claims_nothing(desk: Desk) -> None:
    asker = make_user("Approver")
    approval = desk.ask(requested_by=asker, quorum=2)
    decided = make_user("Approver")
    approval_decide(approval_id=approval.pk, user=decided, verdict="approve")
    stranger = make_user("Approver", team=make_team("Elsewhere"))
    for code, user in {
        "own_request": asker,
        "already_decided": decided,
        "not_found": stranger,
        "no_right": make_user("Buyer"),
    }.items():
        refused(code, approval_claim, approval_id=approval.pk, user=user)
        refused(code, approval_reassign, approval_id=approval.pk, user=user, to=make_user("Approver"))


@db
def test_what_is_closed_is_in_nobodys_hands(desk: Desk) -> None:
    user, approval = make_user("Approver"), desk.ask()
    approval_claim(approval_id=approval.pk, user=user)
    transition(now(approval), "voided", actor="system")
    refused("not_open", approval_claim, approval_id=approval.pk, user=user)
    refused("not_open", approval_release, approval_id=approval.pk, user=user)


@db
def test_one_gives_back_what_one_has_and_nothing_else(desk: Desk) -> None:
    ann, abe = make_user("Approver", name="ann"), make_user("Approver", name="abe")
    approval = desk.ask()
    refused("claimed", approval_release, approval_id=approval.pk, user=ann)
    approval_claim(approval_id=approval.pk, user=ann)
    refused("claimed", approval_release, approval_id=approval.pk, user=abe)
    approval_release(approval_id=approval.pk, user=ann)
    assert (now(approval).claimed_by, now(approval).claimed_until) == ("", None)
    assert [kind for kind, *_ in thread(approval)] == ["claim", "release"]


@db
def test_it_is_given_to_somebody_who_may_decide_and_they_alone_are_told(desk: Desk) -> None:
    ann, abe, eve = (make_user("Approver", name=name) for name in ("ann", "abe", "eve"))
    approval = desk.ask()
    approval_claim(approval_id=approval.pk, user=ann)
    approval_reassign(approval_id=approval.pk, user=eve, to=abe, comment="You know them.")
    assert claimant_of(now(approval)) == actor_key(abe)
    assert thread(approval)[-1] == ("reassign", "eve", "abe")
    (told,) = notifications_of(abe)
    assert (told.title, told.body, told.subject_id) == (
        "eve asks you to decide: May it?", "You know them.", approval.pk,
    )  # fmt: skip
    assert not notifications_of(ann).exists()
    assert not notifications_of(eve).exists()


@db
@pytest.mark.parametrize("who", ["asker", "decided", "buyer", "elsewhere", "machine", "gone"])
def test_it_is_not_given_to_who_cannot_decide(desk: Desk, who: str) -> None:
    asker, decided = make_user("Approver"), make_user("Approver")
    approval = desk.ask(requested_by=asker, quorum=2)
    approval_decide(approval_id=approval.pk, user=decided, verdict="approve")
    machine, gone = make_user("Administrator"), make_user("Approver")
    User.objects.filter(pk=machine.pk).update(is_service=True)
    User.objects.filter(pk=gone.pk).update(is_active=False)
    to = {
        "asker": asker,
        "decided": decided,
        "buyer": make_user("Buyer"),
        "elsewhere": make_user("Approver", team=make_team("Elsewhere")),
        "machine": User.objects.get(pk=machine.pk),
        "gone": User.objects.get(pk=gone.pk),
    }[who]
    refused("cannot_decide", approval_reassign, approval_id=approval.pk, user=make_user("Approver"), to=to)


@db
def test_the_thread_is_never_rewritten(desk: Desk) -> None:
    approval = desk.ask()
    approval_claim(approval_id=approval.pk, user=make_user("Approver"))
    for act in (
        lambda: ApprovalNote.objects.update(body="Something else"),
        lambda: ApprovalNote.objects.all().delete(),
    ):
        denied = pytest.raises(DatabaseError, match="permission denied")
        with as_the_product(), denied, transaction.atomic():
            act()
    assert ApprovalNote.objects.get().kind == "claim"


def test_of_two_who_claim_at_once_one_has_it(committed_db: Database, desk: Desk) -> None:
    approval = desk.ask()
    people = [make_user("Approver") for _ in range(4)]
    results = at_once(*(lambda p=p: approval_claim(approval_id=approval.pk, user=p) for p in people))
    assert sum(isinstance(result, Approval) for result in results) == 1
    assert {r.code for r in results if isinstance(r, DecisionRefusedError)} == {"claimed"}
    assert ApprovalNote.objects.count() == 1
    assert not Decision.objects.exists()


@pytest.mark.django_db
def test_somebody_of_another_team_is_named_to_nobody() -> None:
    """By their id, on the page: neither as whom it is given to, nor as whom one stands in for."""
    approval = ask_deal(make_deal())
    stranger = make_user("Approver", team=make_team("Elsewhere"), first_name="Secret", last_name="Person")
    browser = Client()
    browser.force_login(make_user("Approver", is_staff=True), backend="tasks_app.people.holders.RoleBackend")
    page = reverse("admin:tasks_app_approval_change", args=[approval.pk])
    decision = {"decision": "approve", "digest": approval.evidence_digest, "for": str(stranger.pk)}
    for said in ({"act": "reassign", "to": str(stranger.pk), "comment": ""}, decision):
        answer = browser.post(page, said, follow=True)
        assert "Secret" not in answer.content.decode()
    approval.refresh_from_db()
    assert (approval.claimed_by, approval.status) == ("", "open")

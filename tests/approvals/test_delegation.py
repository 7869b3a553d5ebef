"""Standing in for who is away: made by whom, for whom, how long; it lends a place and no right."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.urls import reverse

from tasks_app import clock
from tasks_app.approvals import delegation
from tasks_app.approvals.delegation import (
    DelegationRefusedError,
    delegation_create,
    delegation_end,
    delegations_of,
)
from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.records import Delegation
from tasks_app.approvals.selectors import approvals_waiting_for, obstacle
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.notifications.selectors import notifications_of
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tests.approvals.conftest import Desk
from tests.database import Database
from tests.factories import make_team, make_user
from tests.lifecycle.entities import trail
from tests.lifecycle.threads import at_once

db = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def stands_in(delegate: User, delegator: User, *, user: User | None = None, **dates: datetime) -> Delegation:
    times = {"starts_at": clock.now() - HOUR, "ends_at": clock.now() + 5 * DAY, **dates}
    return delegation_create(user=user or delegator, delegator=delegator, delegate=delegate, **times)


def approve(approval: Approval, user: User, principal: User | None = None) -> Approval:
    return approval_decide(approval_id=approval.pk, user=user, verdict="approve", on_behalf_of=principal)


def refused(why: str, **said: Any) -> None:
    before = Delegation.objects.count()
    with pytest.raises(DelegationRefusedError, match=why):
        stands_in(**said)
    assert Delegation.objects.count() == before


@db
def test_a_decision_in_somebodys_place_names_both(desk: Desk) -> None:
    away, stands = make_user("Approver", name="away"), make_user("Approver", name="stands")
    stands_in(stands, away)
    approval = desk.ask()
    approve(approval, stands, away)
    decision = Decision.objects.get()
    assert (decision.actor_name, decision.on_behalf_of_name) == ("stands", "away")
    entry = trail(approval)[-1]
    assert (entry.actor, entry.metadata["on_behalf_of"]) == (actor_key(stands), actor_key(away))
    assert entry.metadata["decision"] == str(decision.pk)


@db
def test_a_quorum_of_two_is_never_one_human_under_two_names(desk: Desk) -> None:
    away, stands, other = (make_user("Approver") for _ in range(3))
    stands_in(stands, away)
    approval = desk.ask(quorum=2)
    approve(approval, stands, away)
    for user, principal in ((stands, None), (stands, away), (away, None)):
        with pytest.raises(DecisionRefusedError) as error:
            approve(approval, user, principal)
        assert error.value.code == "already_decided"
        assert approval.pk not in approvals_waiting_for(user).values_list("pk", flat=True)
    assert approve(approval, other).status == "approved"


@db
def test_who_stands_in_decides_on_what_they_were_shown(desk: Desk) -> None:
    away, stands = make_user("Approver"), make_user("Approver")
    stands_in(stands, away)
    approval = desk.ask()
    said = {"approval_id": approval.pk, "user": stands, "verdict": "approve", "on_behalf_of": away}
    with pytest.raises(DecisionRefusedError) as error:
        approval_decide(**said, expected_digest="0" * 64)
    assert error.value.code == "changed"
    assert not Decision.objects.exists()
    assert approval_decide(**said, expected_digest=approval.evidence_digest).status == "approved"


@db
def test_nobody_decides_for_who_has_decided(desk: Desk) -> None:
    away, stands, other = (make_user("Approver") for _ in range(3))
    stands_in(stands, away)
    approval = desk.ask(quorum=3)
    approve(approval, away)
    with pytest.raises(DecisionRefusedError, match="has had their decision") as error:
        approve(approval, stands, away)
    assert error.value.code == "already_decided"
    assert approve(approval, other).status == "open"
    assert approve(approval, stands).status == "approved", "in their own name they are the third"


@db
def test_two_who_stand_in_for_one_decide_once_for_them(desk: Desk) -> None:
    away, first, second = (make_user("Approver") for _ in range(3))
    for delegate in (first, second):
        stands_in(delegate, away)
    approval = desk.ask(quorum=2)
    approve(approval, first, away)
    with pytest.raises(DecisionRefusedError) as error:
        approve(approval, second, away)
    assert error.value.code == "already_decided"
    assert approve(approval, second).status == "approved", "in their own name they are another human"


@db
def test_who_stands_in_for_the_requester_does_not_decide_at_all(desk: Desk) -> None:
    asker, stands = make_user("Approver"), make_user("Approver")
    held = stands_in(stands, asker)
    approval = desk.ask(requested_by=asker)
    for principal in (None, asker):
        with pytest.raises(DecisionRefusedError) as error:
            approve(approval, stands, principal)
        assert error.value.code == "own_request"
    assert "stand in for them" in obstacle(approval, stands, [])
    assert not approvals_waiting_for(stands).exists()
    delegation_end(delegation_id=held.pk, user=asker)
    assert approvals_waiting_for(stands).get() == approval
    assert approve(approval, stands).status == "approved"


@db
def test_it_holds_from_its_beginning_to_its_end(desk: Desk) -> None:
    away, stands = make_user("Approver"), make_user("Approver")
    start, end = clock.now() + DAY, clock.now() + 3 * DAY
    stands_in(stands, away, starts_at=start, ends_at=end)
    approval = desk.ask(due_at=clock.now() + 9 * DAY, quorum=3)
    for moment in (start - timedelta(microseconds=1), end):
        with clock.injected(lambda at=moment: at), pytest.raises(DecisionRefusedError) as error:
            approve(approval, stands, away)
        assert error.value.code == "no_delegation"
    with clock.injected(lambda: start):
        approve(approval, stands, away)
    assert Decision.objects.get().on_behalf_of == actor_key(away)


@db
def test_it_is_not_passed_on(desk: Desk) -> None:
    away, stands, third = (make_user("Approver") for _ in range(3))
    stands_in(stands, away)
    stands_in(third, stands)
    approval = desk.ask()
    with pytest.raises(DecisionRefusedError) as error:
        approve(approval, third, away)
    assert error.value.code == "no_delegation"


@db
def test_it_lends_no_right_and_no_sight(desk: Desk) -> None:
    away, stands = make_user("Approver"), make_user("Approver")
    stands_in(stands, away)
    elsewhere = desk.ask(team=make_team("Elsewhere"))
    away.teams.add(make_team("Elsewhere"))
    with pytest.raises(DecisionRefusedError) as error:
        approve(elsewhere, stands, away)
    assert error.value.code == "not_found"
    stands.groups.clear()
    with pytest.raises(DecisionRefusedError) as error:
        approve(desk.ask(subject_id=away.pk), User.objects.get(pk=stands.pk), away)
    assert error.value.code == "no_right"


@db
def test_the_person_or_an_administrator_makes_it_and_both_are_told() -> None:
    away, stands = make_user("Approver", name="away"), make_user("Approver", name="stands")
    refused("for them to say", delegate=stands, delegator=away, user=stands)
    refused("for them to say", delegate=stands, delegator=away, user=make_user("Approver"))
    administrator = make_user("Administrator", name="ada")
    made = stands_in(stands, away, user=administrator)
    assert made.made_by == actor_key(administrator)
    assert [note.title for note in notifications_of(away)] == ["stands decides for away"]
    assert [note.title for note in notifications_of(stands)] == ["stands decides for away"]
    assert not notifications_of(administrator).exists()


@db
def test_only_who_may_decide_stands_in_or_is_stood_in_for() -> None:
    approver, buyer = make_user("Approver"), make_user("Buyer")
    machine = make_user("Administrator")
    User.objects.filter(pk=machine.pk).update(is_service=True)
    machine.refresh_from_db()
    stranger = make_user("Approver", team=make_team("Elsewhere"))
    refused("may not decide", delegate=buyer, delegator=approver)
    refused("may not decide", delegate=machine, delegator=approver)
    refused("none of", delegate=stranger, delegator=approver)
    refused("Nobody stands in for themselves", delegate=approver, delegator=approver)
    refused("may not decide", delegate=approver, delegator=buyer, user=make_user("Administrator"))


@db
def test_its_dates_make_a_time_to_come() -> None:
    away, stands = make_user("Approver"), make_user("Approver")
    people = {"delegate": stands, "delegator": away}
    now = clock.now()
    refused("ends before it begins", **people, starts_at=now + DAY, ends_at=now + DAY)
    refused("is over", **people, starts_at=now - 2 * DAY, ends_at=now - DAY)
    refused("At most", **people, starts_at=now, ends_at=now + 400 * DAY)
    last = datetime.max.replace(tzinfo=UTC)
    refused("within a year", **people, starts_at=last - DAY, ends_at=last)
    refused("within a year", **people, starts_at=now + 367 * DAY, ends_at=now + 368 * DAY)
    stands_in(stands, away, starts_at=now, ends_at=now + 2 * DAY)
    refused("in that time already", **people, starts_at=now + DAY, ends_at=now + 3 * DAY)
    assert stands_in(stands, away, starts_at=now + 2 * DAY, ends_at=now + 3 * DAY)


@db
def test_who_is_away_who_stands_in_and_an_administrator_end_it() -> None:
    away, stands = make_user("Approver"), make_user("Approver")
    for ends in (away, stands, make_user("Administrator")):
        held = stands_in(stands, away)
        with pytest.raises(DelegationRefusedError, match="no such delegation"):
            delegation_end(delegation_id=held.pk, user=make_user("Approver"))
        ended = delegation_end(delegation_id=held.pk, user=ends)
        assert (ended.ended_by, ended.ended_at is None) == (actor_key(ends), False)
        with pytest.raises(DelegationRefusedError, match="ended already"):
            delegation_end(delegation_id=held.pk, user=away)


@db
def test_each_sees_their_own() -> None:
    away, stands = make_user("Approver"), make_user("Approver")
    held = stands_in(stands, away)
    for viewer in (away, stands, make_user("Administrator")):
        assert delegations_of(viewer).get() == held
    assert not delegations_of(make_user("Approver")).exists()


def test_two_made_at_once_for_one_pair_are_one(committed_db: Database) -> None:
    away, stands = make_user("Approver"), make_user("Approver")
    results = at_once(*(lambda: stands_in(stands, away) for _ in range(3)))
    assert sum(isinstance(result, Delegation) for result in results) == 1
    assert Delegation.objects.count() == 1


@db
def test_a_person_makes_and_ends_one_on_the_page(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation, "FARTHEST", timedelta(days=36500))  # so that its days are always to come
    away, stands = make_user("Approver", name="away"), make_user("Approver", name="stands")
    User.objects.update(is_staff=True)
    User.objects.filter(pk=away.pk).update(time_zone="Europe/Stockholm")
    client.force_login(User.objects.get(pk=away.pk), backend="tasks_app.people.holders.RoleBackend")
    page = reverse("admin:tasks_app_delegation_changelist")
    form = {"delegate": str(stands.pk), "from": "2099-03-02", "until": "2099-03-06", "reason": "Leave"}

    assert client.post(page, {**form, "until": "soon"}).status_code == 409
    assert client.post(page, {**form, "from": "9999-12-30", "until": "9999-12-31"}).status_code == 409
    assert not Delegation.objects.exists()
    assert client.post(page, form).status_code == 302

    held = Delegation.objects.get()
    assert (held.starts_at.isoformat(), held.ends_at.isoformat()) == (
        "2099-03-01T23:00:00+00:00",
        "2099-03-06T23:00:00+00:00",
    ), "whole days of the person's own zone, the last one included"
    shown = client.get(page).content.decode()
    assert "stands" in shown
    assert "to come" in shown
    assert client.post(page, {"end": str(held.pk)}).status_code == 302
    held.refresh_from_db()
    assert held.ended_by == actor_key(away)

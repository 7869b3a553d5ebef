"""Policies on questions that are asked: who is wanted and told, until when, and what waiting leads to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from tasks_app import clock
from tasks_app.approvals.deciders import deciders
from tasks_app.approvals.models import Approval
from tasks_app.approvals.policies import Facts
from tasks_app.approvals.policy_applying import policies_latest
from tasks_app.approvals.policy_escalation import approvals_escalate
from tasks_app.approvals.policy_models import ApprovalEscalation, ApprovalPolicy, OnExpiry, PolicyRule
from tasks_app.approvals.policy_services import PolicyDraft, draft_of, policy_change, policy_create
from tasks_app.approvals.rates import rate_add, rates_on
from tasks_app.approvals.selectors import approvals_waiting_for, obstacle
from tasks_app.approvals.services import DecisionRefusedError, approval_decide, approvals_expire_due
from tasks_app.approvals.telling import approvals_remind, approvals_tell
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.notifications.models import Notification
from tasks_app.notifications.selectors import mail_recipients, notifications_of, unread_count
from tasks_app.people.actors import actor_key
from tasks_app.people.holders import people_with
from tasks_app.people.models import Team, User
from tasks_app.people.roles import DECIDE
from tests.approvals.conftest import Desk
from tests.factories import make_advertiser, make_team, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def administrator() -> User:
    return make_user("Administrator")


@pytest.fixture
def ruled(desk: Desk, administrator: User) -> Callable[..., ApprovalPolicy]:
    """Puts a policy on the desk's questions."""

    def make(rule: PolicyRule = PolicyRule.ALWAYS, **said: Any) -> ApprovalPolicy:
        draft = PolicyDraft(**{"name": f"Rule {rule}", "rule": rule, "kinds": ("test",), **said})
        return policy_create(draft=draft, actor=administrator, reason="A test")

    return make


Ruled = Callable[..., ApprovalPolicy]


def decide(approval: Approval, user: User, verdict: str = "approve") -> None:
    approval_decide(approval_id=approval.pk, user=user, verdict=verdict, comment="So it be.")


def refused(approval: Approval, user: User) -> str:
    with pytest.raises(DecisionRefusedError) as error:
        decide(approval, user)
    return error.value.code


def test_what_comes_with_flightdeck() -> None:
    found = {row.key: (row.rule, row.limit, row.quorum, row.version) for row in policies_latest()}
    assert found == {
        "every-recommendation": ("always", None, 1, 1),
        "over-100000-usd": ("amount", 100_000, 2, 1),
        "split-over-100000-usd": ("splitting", 100_000, 2, 1),
    }


def test_nothing_catches_a_question_that_no_policy_looks_at(desk: Desk) -> None:
    approval = desk.ask(amount=Decimal(900_000), currency="USD")
    assert (approval.policies, approval.quorum, approval.roles) == ([], 1, [])
    assert (approval.policy, approval.escalate_at) == ("Always", None)


def test_two_different_people_decide_and_the_approval_keeps_the_version(
    desk: Desk, ruled: Ruled, administrator: User
) -> None:
    first, second = make_user("Approver"), make_user("Approver")
    row = ruled(quorum=2)
    approval = desk.ask()
    more = replace(draft_of(row), quorum=3)
    policy_change(key=row.key, version=1, draft=more, actor=administrator, reason="More of us now")

    decide(approval, first)
    approval.refresh_from_db()
    assert (approval.status, refused(approval, first)) == ("open", "already_decided")
    decide(approval, second)

    approval.refresh_from_db()
    assert (approval.status, len(desk.applied)) == ("approved", 1)
    assert [(one["key"], one["version"]) for one in approval.policies] == [("rule-always", 1)]
    assert approval.policy == "Always; Rule always"
    born = AuditEntry.objects.get(entity_id=approval.pk, seq=1)
    assert born.metadata["policies"] == ["rule-always/1"]
    assert desk.ask(subject_id=make_team().pk).quorum == 3, "from now on the new version"


def test_a_policy_that_is_off_or_elsewhere_catches_nothing(desk: Desk, ruled: Ruled) -> None:
    ruled(quorum=4, active=False, name="Off")
    elsewhere = Team.objects.create(name="Elsewhere")
    elsewhere_boss = make_user("Administrator", team=elsewhere)
    for team in (elsewhere, make_team(), make_team()):
        make_user("Approver", team=team)
    theirs = PolicyDraft(name="Theirs", rule=PolicyRule.ALWAYS, kinds=("test",), team=elsewhere, quorum=2)
    policy_create(draft=theirs, actor=elsewhere_boss, reason="A test")
    coffee, tea = make_advertiser("Coffee"), make_advertiser("Tea")
    ruled(quorum=3, team=coffee.team, advertiser=coffee, name="Coffee only")

    assert desk.ask(advertiser_id=tea.pk).quorum == 1
    desk.subject = coffee.pk
    assert desk.ask(advertiser_id=coffee.pk).quorum == 3


def test_only_who_has_a_role_decides_sees_and_is_told(desk: Desk, ruled: Ruled, administrator: User) -> None:
    ruled(roles=("Administrator",))
    approver = make_user("Approver")
    User.objects.update(mail_notifications=True, email="somebody@example.com")
    approval = desk.ask()

    assert (refused(approval, approver), approval.decisions.count()) == ("no_right", 0)
    assert list(approvals_waiting_for(approver)) == []
    assert list(approvals_waiting_for(administrator)) == [approval]
    assert "the role Administrator" in obstacle(approval, approver, [])
    approvals_tell()
    note = Notification.objects.get(kind="approval_waits")
    assert note not in notifications_of(approver)
    assert note in notifications_of(administrator)
    assert list(mail_recipients(note)) == [administrator]
    assert unread_count(approver) == 0
    decide(approval, administrator)
    assert len(desk.applied) == 1


def test_a_role_lets_nobody_decide_on_their_own_request(desk: Desk, ruled: Ruled) -> None:
    ruled(roles=("Administrator",))
    boss = make_user("Administrator")
    assert refused(desk.ask(requested_by=boss), boss) == "own_request"


def test_escalation_lets_a_further_role_decide_once_and_is_recorded(
    desk: Desk, ruled: Ruled, administrator: User
) -> None:
    approver = make_user("Approver")
    ruled(
        roles=("Approver",),
        deadline=timedelta(hours=8),
        escalate_after=timedelta(hours=4),
        escalate_to="Administrator",
    )
    approval = desk.ask()
    assert refused(approval, administrator) == "no_right"
    assert approvals_escalate() == 0

    at = approval.escalate_at
    assert at is not None
    with clock.injected(lambda: at):
        assert (approvals_escalate(), approvals_escalate()) == (1, 0)
        approval.refresh_from_db()
        assert (approval.roles, approval.status) == (["Administrator", "Approver"], "open")
        note = Notification.objects.get(kind="approval_escalated")
        assert note in notifications_of(administrator)
        assert note not in notifications_of(approver)
        decide(approval, administrator)
    step = ApprovalEscalation.objects.get(approval=approval)
    assert (step.roles, step.due_at) == (["Administrator"], step.due_before)
    assert "put to Administrator as well" in step.note
    entry = AuditEntry.objects.get(entity_id=approval.pk, seq=2)
    assert entry.changes["roles"] == [["Approver"], ["Administrator", "Approver"]]
    assert entry.reason == step.note
    assert verify_entity("approval", approval.pk).ok
    assert approvals_escalate() == 0


@pytest.mark.parametrize("how", ["reminded", "escalated", "kept waiting"])
def test_who_set_it_off_is_neither_reminded_nor_escalated_to(desk: Desk, ruled: Ruled, how: str) -> None:
    """Not asked, not mailed, and not named among those who can decide: only the others are."""
    waits = {"on_expiry": OnExpiry.WAIT} if how == "kept waiting" else {}
    after = (
        {} if how == "reminded" else {"escalate_after": timedelta(hours=4), "escalate_to": "Administrator"}
    )
    ruled(roles=("Administrator",), deadline=timedelta(hours=8), **after, **waits)
    retrier, other = (make_user("Administrator", name=name) for name in ("Rita", "Otto"))
    for user in (retrier, other):
        User.objects.filter(pk=user.pk).update(mail_notifications=True, email=f"{user.pk}@example.com")
    approval = desk.ask()
    approvals_tell()
    Approval.objects.filter(pk=approval.pk).update(set_off_by=[actor_key(retrier)])  # while it was open
    act, at = {
        "reminded": (approvals_remind, approval.due_at - timedelta(minutes=1)),
        "escalated": (approvals_escalate, approval.escalate_at),
        "kept waiting": (approvals_expire_due, approval.due_at),
    }[how]

    with clock.injected(lambda: at or approval.due_at):
        act()

    note = Notification.objects.get(kind="approval_reminder" if how == "reminded" else "approval_escalated")
    assert note in notifications_of(other)
    assert note not in notifications_of(retrier)
    assert other in mail_recipients(note)
    assert retrier not in mail_recipients(note)
    assert "Rita" not in note.title + note.body
    named = deciders([Approval.objects.get(pk=approval.pk)])[approval.pk]
    assert other in named
    assert retrier not in named


def test_what_is_decided_or_over_is_not_escalated(desk: Desk, ruled: Ruled) -> None:
    ruled(escalate_after=timedelta(hours=1), escalate_to="Administrator")
    approval = desk.ask()
    decide(approval, make_user("Approver"))
    with clock.injected(lambda: approval.due_at):
        assert approvals_escalate() == 0
    assert not ApprovalEscalation.objects.exists()


def test_at_its_deadline_it_ends_without_approval(desk: Desk, ruled: Ruled) -> None:
    ruled(deadline=timedelta(hours=2), on_expiry=OnExpiry.EXPIRE)
    approval = desk.ask()
    with clock.injected(lambda: approval.created_at + timedelta(hours=3)):
        assert approvals_expire_due() == 1
    approval.refresh_from_db()
    assert (approval.status, [one.answer for one in desk.applied]) == ("expired", ["expired"])


def test_it_keeps_waiting_escalated_and_never_approves(desk: Desk, ruled: Ruled) -> None:
    ruled(
        deadline=timedelta(hours=8),
        escalate_after=timedelta(hours=4),
        escalate_to="Administrator",
        on_expiry=OnExpiry.WAIT,
    )
    approval = desk.ask()
    first, span = approval.due_at, timedelta(hours=8)
    for time in (1, 2, 3):
        due = approval.due_at
        with clock.injected(lambda due=due: due):  # type: ignore[misc]
            assert approvals_expire_due() == 0
            approvals_remind()
        approval.refresh_from_db()
        assert (approval.status, desk.applied) == ("open", [])
        assert abs(approval.due_at - first - span * time) < timedelta(minutes=1)
    assert ApprovalEscalation.objects.filter(approval=approval).count() == 3
    assert Notification.objects.filter(kind="approval_escalated").count() == 3
    with clock.injected(lambda: first + span):
        decide(approval, make_user("Approver"))
    assert [one.answer for one in desk.applied] == ["approved"]


def test_nothing_waits_beyond_the_sellers_hold(desk: Desk, ruled: Ruled) -> None:
    ruled(
        deadline=timedelta(hours=8),
        escalate_after=timedelta(hours=4),
        escalate_to="Administrator",
        on_expiry=OnExpiry.WAIT,
    )
    hold = clock.now() + timedelta(hours=20)
    approval = desk.ask(facts=lambda rules: Facts(hold_until=hold))
    dues = []
    while approval.status == "open":
        dues.append(approval.due_at)
        with clock.injected(lambda: approval.due_at):
            approvals_expire_due()
        approval.refresh_from_db()
    assert (len(dues), max(dues)) == (3, hold - timedelta(hours=1))
    assert [one.answer for one in desk.applied] == ["expired"]


def test_a_missing_rate_is_caught_and_a_rate_from_then_on_compares(
    desk: Desk, ruled: Ruled, administrator: User
) -> None:
    make_user("Approver")
    ruled(PolicyRule.AMOUNT, limit=Decimal(100_000), currency="USD", quorum=2)
    caught = desk.ask(amount=Decimal(10), currency="NOK")
    assert caught.quorum == 2
    assert "There is no exchange rate for NOK" in caught.policies[0]["why"]

    today = clock.now().date()
    for day, usd, source in ((9, "1", "old"), (3, "0.5", "typo"), (3, "0.094", "Norges Bank")):
        rate_add(
            currency="NOK",
            day=today - timedelta(days=day),
            usd=Decimal(usd),
            source=source,
            actor=administrator,
        )
    desk.subject = make_team().pk
    assert desk.ask(amount=Decimal(10), currency="NOK").quorum == 1
    assert rates_on(today, ["NOK"])["NOK"].source == "Norges Bank", "the latest word about a day"
    assert rates_on(today - timedelta(days=4), ["NOK"])["NOK"].source == "old", "as it was on that day"
    assert rates_on(today - timedelta(days=10), ["NOK"]) == {}


def test_more_approvers_than_can_decide_are_refused_with_the_numbers(ruled: Ruled) -> None:
    for _ in range(2):
        make_user("Approver")
    able = people_with(DECIDE, None).count()
    with pytest.raises(ValidationError, match=f"asks for 9 people to approve, but only {able} can decide"):
        ruled(quorum=9)
    assert ruled(quorum=able).quorum == able


def test_who_may_not_manage_writes_nothing(ruled: Ruled) -> None:
    row, approver, kept = ruled(), make_user("Approver"), ApprovalPolicy.objects.count()
    with pytest.raises(ValidationError, match="no right"):
        policy_create(draft=draft_of(row), actor=approver, reason="Mine")
    with pytest.raises(ValidationError, match="no right"):
        policy_change(key=row.key, version=1, draft=draft_of(row), actor=approver, reason="Mine")
    with pytest.raises(ValidationError, match="no right"):
        rate_add(currency="EUR", day=clock.now().date(), usd=Decimal(1), source="me", actor=approver)
    assert ApprovalPolicy.objects.count() == kept


def test_who_decides_is_told_of_a_rate_and_what_it_was_before(administrator: User) -> None:
    """A wrong one moves every limit that is compared by it."""
    approver, today = make_user("Approver"), clock.now().date()
    for usd in ("1.08", "0.01"):
        rate_add(currency="EUR", day=today, usd=Decimal(usd), source="ECB", actor=administrator)
    latest, first = notifications_of(approver).filter(kind="exchange_rate")
    assert latest.title == f"Exchange rate: 1 EUR is 0.01 USD from {today.isoformat()}"
    assert latest.body == f"Kept by {administrator}: ECB. Before it was 1.08."
    assert first.body.endswith("There was none before.")
    assert not notifications_of(administrator).filter(kind="exchange_rate").exists()
    assert not notifications_of(make_user("Buyer")).filter(kind="exchange_rate").exists()


def test_other_administrators_are_told_of_a_change(ruled: Ruled, administrator: User) -> None:
    other = make_user("Administrator")
    row = ruled(name="New rule")
    note = Notification.objects.get(kind="policy_changed", title=f"Approval policy made: {row.name}")
    assert note in notifications_of(other)
    assert note not in notifications_of(administrator)

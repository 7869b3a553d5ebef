"""Questions whose subject changes, or changes hands, while they are open: every kind, each thing that can
happen, and one outcome of each. Either it stays and can be decided as shown, or it is asked anew and that can
be decided, or nobody is needed any more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection, models

from campaigns.models import Campaign
from orders.amending import set_budget
from orders.models import Deal
from orders.services import deal_amended
from tasks_app.approvals.claims import approval_claim
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.commands.models import Command
from tasks_app.commands.questions import gates_ask_again
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tasks_app.operations.pauses import continuation_current
from tasks_app.people.models import Membership, User
from tasks_app.sellers.models import Account, Seller, TrustChange
from tests.factories import make_team, make_user
from tests.orders import live
from tests.orders.asking import ASKED, asked
from tests.orders.late import BUY, say
from tests.orders.live import packages, says
from tests.orders.test_lifetimes import deal_of, operation_of
from tests.support import undone

pytestmark = pytest.mark.django_db
STAYS, ANEW, NOBODY = "it stays", "it is asked anew", "nobody is needed"
_HOURS = {"zone": "UTC", "weekdays": [1, 2, 3, 4, 5], "from": "09:00", "to": "17:00"}
TO_ANSWER = "the pause is to be answered anew"
Act = Callable[[Approval], None]


def its_deal(first: Approval) -> Deal:
    deal = deal_of(first)
    assert deal is not None
    return deal


def its_operation(first: Approval) -> Operation:
    operation = operation_of(first)
    assert operation is not None
    return operation


# ---- what happens to the subject


def its_amount(first: Approval) -> None:
    deal = its_deal(first)
    line = deal.lines.first()
    assert line is not None
    set_budget(line, line.budget / 2)
    deal_amended(deal, actor="system", reason="Half of it", lines=[line])


def its_flight(first: Approval) -> None:
    deal = its_deal(first)
    changes = {"end_at": deal.end_at + timedelta(days=1)}
    deal_amended(deal, actor="system", reason="A day longer", changes=changes)


def its_terms(first: Approval) -> None:
    """Who pays, and how: the seller says it otherwise."""
    Account.objects.filter(pk=its_deal(first).account_id).update(payment_terms="net_90")


def its_revision(first: Approval) -> None:
    """The seller moved on, in nothing that was asked about."""
    deal = its_deal(first)
    told = packages(deal, **_confirmed(deal))
    says(deal, deal.media_buy_status or "pending_start", revision=(deal.revision or 1) + 5, packages=told)


def _confirmed(deal: Deal) -> dict[str, object]:
    line = deal.lines.get(position=1)
    return {"budget": float(line.confirmed_budget or line.budget)}


def what_is_booked(first: Approval) -> None:
    """The seller books still another amount."""
    deal = its_deal(first)
    told = packages(deal, budget=14_000.0)
    says(deal, deal.media_buy_status or "pending_start", revision=(deal.revision or 1) + 5, packages=told)


def booked_as_approved(first: Approval) -> None:
    deal = its_deal(first)
    says(deal, deal.media_buy_status, revision=(deal.revision or 1) + 5, packages=packages(deal))


def its_message(first: Approval) -> None:
    """The seller says something more of a task that it still has."""
    operation = its_operation(first)
    say(operation, "working", task_id=operation.task_id or None)


def the_time_it_would_be_given(_first: Approval) -> None:
    """When the seller works is known by now."""
    Seller.objects.update(business_hours=_HOURS)


def another_pause(first: Approval) -> None:
    operation = its_operation(first)
    say(operation, "working", channel="poll", task_id=operation.task_id or None)


def another_end(first: Approval) -> None:
    """The seller contradicts itself once more."""
    operation = its_operation(first)
    say(operation, "failed", channel="webhook", task_id=operation.task_id)


def its_seller_is_called_otherwise(_first: Approval) -> None:
    Seller.objects.update(name="Norrland Media")


def what_it_would_change(first: Approval) -> None:
    """The present value is another one by now."""
    Seller.objects.update(jwks_url="https://third.example/jwks.json")


def the_switch_is_turned_for_its_team(first: Approval) -> None:
    kill_switch_set(on=True, reason="Another drill", actor="system", team=first.team)


def the_switch_is_let_go(_first: Approval) -> None:
    kill_switch_set(on=False, reason="Over", actor="system")
    gates_ask_again()


def its_seller_is_back(_first: Approval) -> None:
    Seller.objects.update(active=True)
    gates_ask_again()


# ---- whose it is


def who_asked_leaves(first: Approval) -> None:
    User.objects.filter(pk=first.requested_by.removeprefix("human:")).update(is_active=False)


def who_has_it_leaves(first: Approval) -> None:
    """An approver took it upon themselves, and is of another team since."""
    holder = make_user("Approver")
    approval_claim(approval_id=first.pk, user=holder)
    Membership.objects.filter(user=holder).delete()
    User.objects.filter(pk=holder.pk).update(is_active=False)


def another_team_decides(first: Approval) -> None:
    """Everybody of its team is of another by now; new people decide."""
    Membership.objects.exclude(user__pk=first.requested_by.removeprefix("human:")).update(
        team=make_team("Another desk")
    )


def another_deal_holds_it(first: Approval) -> None:
    live.booked(its_deal(first).seller, media_buy_id=BUY)


DEALS = ["a deal"]
UNSENT = [*DEALS, "a deal that is not what was approved"]
DIFFERING = ["a deal booked differently", "an adopted media buy"]
CHANGES = ["a change", "a change that is not what was approved"]
GATES = ["a purchase at a gate", "a purchase that is stopped", "a cancellation that is stopped"]
EVERY = list(ASKED)


def each(kinds: list[str], act: Act, comes_to: str) -> list[tuple[str, Act, str]]:
    return [(what, act, comes_to) for what in kinds]


HAPPENS = [
    *each(DEALS, its_amount, ANEW),
    *each(DEALS, its_flight, ANEW),
    *each(UNSENT, its_terms, ANEW),
    *each(DIFFERING, its_revision, STAYS),
    *each(["a deal booked differently"], what_is_booked, ANEW),
    *each(["an adopted media buy"], what_is_booked, ANEW),
    *each(["a deal booked differently"], booked_as_approved, NOBODY),
    *each(DIFFERING, its_terms, ANEW),
    *each(["a late purchase"], its_terms, ANEW),
    *each(CHANGES, its_revision, ANEW),
    *each(CHANGES, what_is_booked, ANEW),
    *each(CHANGES, its_terms, ANEW),
    *each(["giving up a wait"], its_message, STAYS),
    *each(["giving up a wait"], the_time_it_would_be_given, ANEW),
    *each(["an end by hand"], its_message, ANEW),
    *each(["an answer"], another_pause, NOBODY),
    *each(["a contradiction"], another_end, STAYS),
    *each(["a change of a seller"], what_it_would_change, ANEW),
    *each(GATES[:2], its_terms, ANEW),
    *each(GATES[2:], its_terms, STAYS),  # cancelled it is whoever pays
    *each(GATES[1:], the_switch_is_turned_for_its_team, ANEW),
    *each(GATES[1:], the_switch_is_let_go, NOBODY),
    *each(GATES[:1], its_seller_is_back, NOBODY),
    *each([one for one in EVERY if one != "an answer"], its_seller_is_called_otherwise, ANEW),
    *each(["an answer"], its_seller_is_called_otherwise, TO_ANSWER),
    *each(EVERY, who_asked_leaves, STAYS),
    *each(EVERY, who_has_it_leaves, STAYS),
    *each(EVERY, another_team_decides, STAYS),
    *each(["a late purchase"], another_deal_holds_it, NOBODY),
]


def came_to(first: Approval) -> str:
    """What the question came to, once somebody has tried to decide on it as it was shown."""
    if _decided(first):
        return STAYS
    first.refresh_from_db()
    assert first.status == "voided"
    asked_now = [one for one in Approval.objects.filter(status="open") if _is_in_place(one, first)]
    if not asked_now:
        operation = operation_of(first)
        current = continuation_current(operation) if operation is not None else None
        return TO_ANSWER if current is not None and current.answered_at is None else NOBODY
    (again,) = asked_now
    asked_before = (first.subject_version, first.evidence)
    assert (again.subject_version, again.evidence) != asked_before, "it is asked anew for nothing"
    assert _decided(again), "what is asked anew cannot be decided"
    return ANEW


def _is_in_place(one: Approval, first: Approval) -> bool:
    return one.replaces_id == first.pk or (one.kind, one.subject_id) == (first.kind, first.subject_id)


def _decided(question: Approval, verdict: str = "reject") -> bool:
    """Whether an approver could decide on it as it is shown."""
    code = _refusal(question, verdict)
    assert code in ("", "changed", "not_open")
    return not code


def _refusal(question: Approval, verdict: str) -> str:
    try:
        approval_decide(
            approval_id=question.pk,
            user=make_user("Approver"),
            verdict=verdict,
            comment="So.",
            expected_digest=question.evidence_digest,
        )
    except DecisionRefusedError as refused:
        return refused.code
    return ""


@pytest.mark.parametrize("what", ASKED)
def test_each_change_has_one_outcome(what: str) -> None:
    asked_once = asked(what, make_user("Administrator"))
    expected, found = {}, {}
    for act, comes_to in [(act, comes_to) for one, act, comes_to in HAPPENS if one == what]:
        expected[act.__name__] = comes_to
        with undone():
            first = Approval.objects.get(pk=asked_once.pk)
            act(first)
            found[act.__name__] = came_to(first)
    assert found == expected


@pytest.mark.parametrize("what", ASKED)
def test_how_an_account_stands_goes_on_while_people_read(what: str) -> None:
    """A booking waits for its account anyway: nobody reads or approves it anew for that."""
    first = asked(what, make_user("Administrator"))
    Account.objects.update(status="payment_required")
    decided = approval_decide(
        approval_id=first.pk,
        user=make_user("Approver"),
        verdict="reject",
        comment="So.",
        expected_digest=first.evidence_digest,
    )
    assert decided.status == "rejected"


def test_every_kind_changes_and_changes_hands() -> None:
    matters = {what for what, act, _ in HAPPENS if act is not its_seller_is_called_otherwise}
    assert matters == set(ASKED)


OWNERS = {"team_id", "advertiser_id", "seller_id", "account_id", "subject_id", "operation_id", "campaign_id"}


@pytest.mark.parametrize("model", [Deal, Operation, Command, Conflict, TrustChange, Approval, Campaign])
def test_what_is_asked_about_is_moved_to_nobody_else(model: type[models.Model]) -> None:
    """Whose a subject is, the product never writes again: a question is those people's for as long as it is
    open."""
    table = model._meta.db_table
    columns = OWNERS & {field.column for field in model._meta.concrete_fields}
    assert columns
    with connection.cursor() as cursor:
        cursor.execute(
            "select one from unnest(%s::text[]) one"
            " where has_column_privilege('flightdeck_app', %s, one, 'update')",
            [sorted(columns), table],
        )
        assert cursor.fetchall() == []

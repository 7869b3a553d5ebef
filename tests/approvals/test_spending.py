"""What questions come to counts only what approving them spends, everywhere the same; what a cancellation
frees is named beside it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from campaigns.calendar.entries import Wanted, calendar_of
from campaigns.calendar.ical import calendar_bytes
from campaigns.today.cards import decisions_latest
from campaigns.today.waits import waits_of
from orders.acts import deal_cancel_ask
from orders.models import Deal
from orders.questions import ask_deal
from tasks_app.api.serializers import ApprovalSerializer
from tasks_app.approvals import bulk, presenters, selectors
from tasks_app.approvals.kinds import kind_names, kinds_that_spend
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.approvals.spending import frees, spends
from tasks_app.commands.questions import STOPPED
from tasks_app.desk import text
from tests.factories import make_deal, make_user
from tests.orders.asking import ASKED, asked, booked, purchased
from tests.orders.late import overdue, say

pytestmark = pytest.mark.django_db
GROSS = Decimal(10_250)
# What approving each spends where it is about a deal of 10,250; None: nothing.
SPENT: dict[str, Decimal | None] = {
    **dict.fromkeys(ASKED, None),
    "a deal": GROSS,
    "a deal that is not what was approved": GROSS,
    "a deal booked differently": Decimal(12_000),
    "an adopted media buy": Decimal(5_000),
    "a late purchase": GROSS,
    "a change": Decimal(9_000),
    "a change that is not what was approved": Decimal(9_000),
}


def cancellation() -> Approval:
    deal, _ = booked(make_user("Buyer"))
    return deal_cancel_ask(deal_id=deal.pk, user=make_user("Buyer"), reason="No longer wanted")


def recommendation(beside: Approval) -> Approval:
    deal = Deal.objects.get(pk=beside.subject_id)
    return ask_deal(make_deal(seller=deal.seller, account=deal.account or True))


def confirmed(verdict: str, *questions: Approval) -> dict[str, Any]:
    shown = {one.pk: one.evidence_digest for one in questions}
    return bulk.confirm_data(shown, verdict, make_user("Approver"), None)


def words(amount: Decimal) -> str:
    return f"USD{text.SPACE}{text.number(amount)}"


def test_every_kind_that_spends_is_one_that_is_tried() -> None:
    tried = {ASKED[what][0] for what, spent in SPENT.items() if spent is not None}
    assert set(kinds_that_spend()) <= set(kind_names())
    assert set(kinds_that_spend()) - tried == {"answer"}


@pytest.mark.parametrize("what", ASKED)
def test_only_what_is_spent_is_counted_wherever_money_is_told(what: str) -> None:
    question = asked(what, make_user("Ad Ops"))
    spent, who = SPENT[what], make_user("Approver")
    assert (spends(question), frees(question)) == (spent, None)
    own = Approval.objects.filter(pk=question.pk)
    (row,) = presenters.queue_of(selectors.approvals_shown(own, 1), (), who)
    pairs = [("USD", spent)] if spent is not None else []
    assert presenters.spent_by([row]) == pairs
    assert waits_of(own, (), who).stake == pairs
    assert bulk.sums_words(presenters.spent_by([row])) == (words(spent) if spent is not None else "")
    told = ApprovalSerializer(question).data
    assert (told["spends"], told["frees"]) == (f"{spent:.4f}" if spent is not None else None, None)
    if question.kind != STOPPED:
        the_calendar_shows_as_spent_only_what_is(question, spent)


def the_calendar_shows_as_spent_only_what_is(question: Approval, spent: Decimal | None) -> None:
    wanted = Wanted(since=question.created_at, until=question.due_at + timedelta(days=1), kind="approval")
    found = calendar_of(make_user("Approver"), wanted).entries
    (entry,) = [one for one in found if one.uid == f"approval-{question.pk}"]
    assert (entry.stake.spends, entry.stake.frees) == (spent, None)


def test_a_cancellation_spends_nothing_and_says_what_it_frees() -> None:
    ends = cancellation()
    told = confirmed("approve", ends, recommendation(ends))
    assert (told["sum"], told["frees"]) == (words(GROSS), words(GROSS))
    assert told["becomes"] == f"2 approved, {words(GROSS)}, {words(GROSS)} freed"
    said = ApprovalSerializer(ends).data
    assert (said["amount"], said["spends"], said["frees"]) == ("10250.0000", None, "10250.0000")


def test_rejecting_a_cancellation_frees_nothing() -> None:
    ends = cancellation()
    told = confirmed("reject", ends)
    assert (told["sum"], told["frees"], told["becomes"]) == ("", "", "1 rejected")


def frees_words() -> str:
    return (
        f'<span class="mute">frees</span> <span class="nw"><span class="cur">USD</span>{text.number(GROSS)}'
    )


@pytest.mark.parametrize("view", ["agenda", "weeks"])
def test_the_calendar_says_what_a_cancellation_frees(view: str) -> None:
    ends = cancellation()
    page = signed_in().get(reverse("commitments"), {"view": view, "kind": "approval"}).content.decode()
    row = page[page.index(ends.title) :]
    assert frees_words() in row[: row.index("</tr>" if view == "agenda" else "</li>")]


def test_the_calendars_feed_says_what_a_cancellation_frees() -> None:
    ends, approver = cancellation(), make_user("Approver")
    wanted = Wanted(since=ends.created_at, until=ends.due_at + timedelta(days=1), kind="approval")
    (entry,) = calendar_of(approver, wanted).entries
    assert (entry.stake.shown, entry.stake.frees, entry.stake.spends) == (GROSS, GROSS, None)
    told = calendar_bytes(calendar_of(approver, wanted)).decode()
    assert f"Frees: USD {text.amount(GROSS, 'USD')}".replace(",", "\\,") in told.replace("\r\n ", "")
    assert "At stake" not in told


@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_what_was_decided_says_what_it_freed(verdict: str) -> None:
    ends = cancellation()
    approver = make_user("Approver")
    approval_decide(approval_id=ends.pk, user=approver, verdict=verdict, comment="So.")
    decided = decisions_latest(approver)[0]
    assert (decided.stake.frees, decided.stake.spends) == (GROSS, None)
    client = Client()
    client.force_login(make_user("Auditor", is_staff=True), backend="tasks_app.people.holders.RoleBackend")
    page = client.get(reverse("admin:index")).content.decode()
    row = page[page.index("Decided lately") :]
    assert frees_words() in row[: row.index("</table>")]


def waits_on() -> Approval:
    _, operation = booked(make_user("Buyer"))
    say(operation, "rejected", channel="webhook")
    return Approval.objects.get(kind="conflict", status="open")


def keeps_waiting() -> Approval:
    _, operation = purchased(make_user("Buyer"))
    overdue(operation)
    return Approval.objects.get(kind="overdue", status="open")


SILENT: dict[str, Callable[[], Approval]] = {"a contradiction": waits_on, "a wait": keeps_waiting}


@pytest.mark.parametrize("verdict", ["approve", "reject"])
@pytest.mark.parametrize("what", SILENT)
def test_what_asks_for_no_amount_does_not_take_its_deals(what: str, verdict: str) -> None:
    told = confirmed(verdict, SILENT[what]())
    assert (told["sum"], told["frees"]) == ("", "")


def signed_in() -> Client:
    client = Client()
    who = make_user("Approver", is_staff=True)
    client.force_login(who, backend="tasks_app.people.holders.RoleBackend")
    return client


def test_the_pages_tell_the_same() -> None:
    ends = cancellation()
    recommended = recommendation(ends)
    client = signed_in()
    queue = client.get(reverse("admin:tasks_app_approval_changelist"))
    assert (queue.context["stake"], queue.context["freed"]) == ([("USD", GROSS)], [("USD", GROSS)])
    page = queue.content.decode()
    assert page.count('data-spends="10250.0000"') == 1
    assert page.count('data-frees="10250.0000"') == 1
    also = [f"{one.pk}:{one.evidence_digest}" for one in (ends, recommended)]
    asks = client.post(
        reverse("admin:tasks_app_approval_changelist"),
        {"decision": "approve", "also": also, "comment": "So."},
    ).content.decode()
    assert f"Approve 2, {words(GROSS)}, frees {words(GROSS)}?" in asks

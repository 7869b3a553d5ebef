"""The queue: everything that waits on a person is in it, for those who may act on it, with what they need."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from psycopg.types.json import Jsonb

from orders.models import Deal
from tasks_app import clock
from tasks_app.approvals.claims import approval_claim
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.approvals.waiting import waiting_for
from tasks_app.commands.models import Command
from tasks_app.operations.models import Operation
from tasks_app.reconciliation.models import ReconciliationFinding
from tests.factories import decided_later, make_question
from tests.ui.pages import ClientOf, page_of, read, stranger
from tests.ui.seed import Agency
from tests.ui.seed_reconciliation import reconciled

QUEUE = reverse("admin:tasks_app_approval_changelist")
Tamper = Callable[..., None]


def lines(client: Any, query: str = "") -> list[Any]:
    """The lines shown."""
    return list(client.get(f"{QUEUE}{query}").context["rows"])


def kinds(client: Any, query: str = "") -> set[str]:
    """Their kinds."""
    return {row.kind for row in lines(client, query)}


@pytest.fixture
def paused(agency: Agency) -> Operation:
    """Quill Audio's question about Lindqvist, that nobody has answered."""
    return Operation.objects.get(status="input_required")


def preview_of(approval: Approval) -> str:
    return reverse("admin:tasks_app_approval_preview", args=[approval.pk])


def test_a_sellers_question_waits_for_who_steers(
    agency: Agency, client_of: ClientOf, paused: Operation
) -> None:
    [row] = lines(client_of("Ad Ops"))
    assert (row.kind, row.link, row.due_at) == ("Input required", page_of(paused), paused.deadline_at)
    assert (row.place.campaign, f"{row.amount:.0f}", row.currency) == ("Lindqvist Cold Brew", "82000", "USD")
    assert [name for name, _ in row.answers] == ["Write", "Nothing"]
    assert "Input required" not in kinds(client_of("Approver"))
    assert "Input required" in kinds(client_of("Buyer"), "?view=team")
    assert lines(stranger("Ad Ops")) == []


@pytest.mark.parametrize("status", ["auth_required", "timed_out"])
def test_refused_credentials_and_overdue_purchases_wait_too(
    agency: Agency, client_of: ClientOf, paused: Operation, tamper: Tamper, status: str
) -> None:
    tamper(paused, status=status)
    found = waiting_for(agency.people["Ad Ops"], kind=status)
    assert [one.reference for one in found] == [paused.reference]
    assert [row.reference for row in lines(client_of("Ad Ops"))] == [paused.reference]


def test_an_overdue_read_gives_up_by_itself(agency: Agency, paused: Operation, tamper: Tamper) -> None:
    tamper(paused, status="timed_out", task_type="get_products")
    assert waiting_for(agency.people["Ad Ops"]) == []


def test_what_an_approval_asks_about_is_not_there_twice(
    agency: Agency, client_of: ClientOf, paused: Operation
) -> None:
    assert paused.team is not None
    shown = {"operation": paused.reference}
    make_question("answer", paused, team=paused.team, evidence=shown, asker=agency.people["Ad Ops"])
    assert waiting_for(agency.people["Ad Ops"]) == []
    assert "Answer to a seller" in kinds(client_of("Approver"))
    assert "Answer to a seller" in kinds(client_of("Ad Ops"), "?view=asked")


def test_findings_that_nobody_has_taken_wait(
    agency: Agency, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    deal = Deal.objects.get(media_buy_id="nrl-58102")
    reconciled(monkeypatch, deal=deal, operation=Operation.objects.filter(seller=deal.seller).latest("id"))
    found = {row.link for row in lines(client_of("Ad Ops")) if row.kind == "Reconciliation finding"}
    assert found
    taken = ReconciliationFinding.objects.get(pk=next(iter(found)).rstrip("/").split("/")[-2])
    taken.holder = agency.people["Administrator"]
    taken.save(update_fields=["holder"])
    assert page_of(taken) not in {row.link for row in lines(client_of("Ad Ops"))}
    assert page_of(taken) in {row.link for row in lines(client_of("Administrator"))}
    assert "Reconciliation finding" not in kinds(client_of("Buyer"), "?view=team")


def test_a_stopped_command_says_for_which_campaign_and_how_much(agency: Agency, client_of: ClientOf) -> None:
    deal = agency.deals["tamarack-quill"]
    command = Command.objects.create(
        key=f"test:{deal.pk}",
        kind="order_place",
        adapter="adcp",
        payload={},
        digest="0" * 64,
        seller=deal.seller,
        team=deal.team,
        subject_type="deal",
        subject_id=deal.pk,
        requested_by="system",
        waiting_since=clock.now(),
    )
    assert deal.team is not None
    make_question("risk_gate", command, team=deal.team, evidence={"seller": "Quill Audio"})
    [row] = lines(client_of("Approver"), "?kind=risk_gate")
    assert (row.place.campaign, row.place.link) == ("Tamarack Winter Boots", page_of(command))
    assert (f"{row.amount:.0f}", row.currency) == ("64000", "USD")
    assert "Tamarack Winter Boots" in read(client_of("Approver"), row.link)


def test_the_queue_is_by_deadline_whatever_waits(agency: Agency, client_of: ClientOf) -> None:
    due = [row.due_at for row in lines(client_of("Administrator"))]
    known = [at for at in due if at is not None]
    assert known == sorted(known)
    assert due[: len(known)] == known


def test_each_line_says_what_it_takes_to_decide(agency: Agency, client_of: ClientOf) -> None:
    client = client_of("Approver")
    row = next(one for one in lines(client) if one.seller == "Cobalt Bay TV" and one.kind == "Recommendation")
    assert (row.caught, row.quorum, row.asked_by) == (
        "Every recommendation",
        "one approver",
        "Flightdeck, for Tomás Ferreira",
    )
    assert [name for name, _ in row.answers] == ["Approve", "Reject", "Nothing"]
    shown = read(client, preview_of(row.approval)).replace("\xa0", " ")
    for said in (
        "288,000.00",
        "352,000",
        "Every recommendation",
        "Disputes",
        "Answered in time",
        "You may decide",
    ):
        assert said in shown, said


def test_a_preview_shows_first_what_costs_and_how_much_it_leaves_out(
    agency: Agency, client_of: ClientOf, tamper: Tamper
) -> None:
    asked = agency.question("tamarack-cobalt")
    named = ["name", "start", "end", "targeting", "pacing"]
    departing = [{"field": one, "approved": f"our {one}", "confirmed": f"their {one}"} for one in named]
    departing.append({"field": "rate", "approved": "5", "confirmed": "7.25"})
    tamper(asked, evidence=Jsonb({**asked.evidence, "differences": departing}))
    shown = read(client_of("Approver"), preview_of(asked))
    assert ("their pacing" in shown, "6 departures in all" in shown) == (False, True)
    assert shown.index("7.25") < shown.index("their name")


def test_a_preview_is_scoped_and_needs_the_right(agency: Agency, client_of: ClientOf) -> None:
    asked = agency.question("tamarack-cobalt")
    assert stranger().get(preview_of(asked)).status_code == 404
    agency.people["Finance"].groups.clear()
    assert client_of("Finance").get(preview_of(asked)).status_code == 403


def test_the_filter_narrows_and_keeps_the_view(agency: Agency, client_of: ClientOf) -> None:
    client = client_of("Approver")
    assert kinds(client, "?kind=booked_differently") == {"Booked differently"}
    assert kinds(client, "?kind=input_required&view=team") == {"Input required"}
    late = agency.question("tamarack-quill")
    Approval.objects.filter(pk=late.pk).update(due_at=clock.now() - timedelta(minutes=1))
    assert [row.reference for row in lines(client, "?view=team&late=1")] == [late.reference]
    assert lines(client, "?kind=nonsense")
    nav = client.get(f"{QUEUE}?kind=deal").context["nav"]
    assert [one["link"] for one in nav if one["title"] == "My team"] == ["?view=team&kind=deal"]
    assert "Nothing like that waits" in read(client, f"{QUEUE}?kind=conflict")


def test_those_selected_are_decided_one_by_one(agency: Agency, client_of: ClientOf) -> None:
    right, wrong = agency.question("tamarack-cobalt"), agency.question("tamarack-quill")
    client = client_of("Approver")
    assert f'value="{right.pk}:{right.evidence_digest}"' in client.get(QUEUE).content.decode()
    also = [f"{right.pk}:{right.evidence_digest}", f"{wrong.pk}:{'0' * 64}"]
    client.post(QUEUE, {"decision": "approve", "comment": "Both.", "also": also, "confirmed": "x"})
    decided_later()
    right.refresh_from_db()
    wrong.refresh_from_db()
    assert (right.status, wrong.status) == (ApprovalStatus.APPROVED, ApprovalStatus.OPEN)
    assert not Decision.objects.filter(approval=wrong).exists()


def test_who_cannot_decide_selects_nothing(agency: Agency, client_of: ClientOf) -> None:
    assert 'name="also"' not in client_of("Buyer").get(f"{QUEUE}?view=team").content.decode()
    assert 'name="also"' not in client_of("Ad Ops").get(QUEUE).content.decode()


def test_who_has_it_stands_in_the_queue(agency: Agency, client_of: ClientOf) -> None:
    asked = agency.question("tamarack-cobalt")
    approval_claim(approval_id=asked.pk, user=agency.people["Approver"])
    assert "assigned to Maya Lindgren" in read(client_of("Administrator"), QUEUE)
    assert [row.reference for row in lines(client_of("Approver"), "?view=claimed")] == [asked.reference]
    assert lines(client_of("Administrator"), "?view=claimed") == []


def test_who_waits_for_a_decision_reads_whose_it_is(agency: Agency, client_of: ClientOf) -> None:
    shown = read(client_of("Buyer"), page_of(agency.question("tamarack-cobalt")))
    assert "Waits for Maya Lindgren or Ada Okafor" in shown

"""Steering on the operation's page and the conflicts inbox: forms, rights, confirmation, refusals."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from django.test import Client

from orders.booking import deal_adopt
from orders.models import Deal
from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller, TrustChange
from tests.operations.making import observed
from tests.operations.pausing import pause
from tests.ui.pages import STAFF, ClientOf, list_of, page_of, read, send, stranger
from tests.ui.seed import Agency

INBOX, MONITOR = list_of(Conflict), list_of(Operation)
SURE = {"sure": "on", "reason": "They told us so."}
LETTER = "Letter of 19 November, no. 44"


def purchase(agency: Agency, deal: str) -> Operation:
    return Operation.objects.get(subject_id=agency.deals[deal].pk, task_type="create_media_buy")


def post(client: Client, operation: Operation, act: str, **form: str) -> Any:
    return client.post(page_of(operation), {"act": act, **form})


def paused_natively(agency: Agency) -> Operation:
    """Cobalt's purchase, paused by its own transport."""
    operation = purchase(agency, "lindqvist-cobalt")
    pause(
        operation,
        asked="Which breaks do you take?",
        descriptor='{"task_id": "native-secret", "context_id": "ctx-secret"}',
    )
    return operation


@pytest.fixture
def contradicted(agency: Agency) -> Conflict:
    """Aldous' deal was booked; now the seller says that it was rejected."""
    operation = purchase(agency, "aldous-display")
    seen = Seen(
        kind="answer",
        status="rejected",
        raw_status="rejected",
        message="Inventory is gone.",
        raw={"status": "rejected", "reason": "Inventory is gone."},
    )
    observed(operation_id=operation.pk, seen=seen, channel="poll")
    return Conflict.objects.get()


def test_each_act_stands_on_the_page_with_what_it_does(agency: Agency, client_of: ClientOf) -> None:
    page = read(client_of("Ad Ops"), page_of(purchase(agency, "lindqvist-cobalt")))
    for said in ("Poll now", "Resend, same key", "cannot buy twice", "Stop waiting", "Settle by hand"):
        assert said in page
    assert "somebody else decides whether it is given up" in page


@pytest.mark.parametrize("role", [role for role in STAFF if role not in ("Ad Ops", "Administrator")])
@pytest.mark.parametrize("act", ["resend", "stop", "settle", "answer"])
def test_nobody_else_steers(agency: Agency, client_of: ClientOf, role: str, act: str) -> None:
    operation = paused_natively(agency)
    client = client_of(role)
    assert "Settle by hand" not in read(client, page_of(operation))
    form = {**SURE, "end": "failed", "evidence": LETTER, "generation": "1", "text": "So."}
    assert post(client, operation, act, **form).status_code == 403
    assert Operation.objects.get(pk=operation.pk).version == operation.version


def test_stop_waiting_asks_somebody_else(agency: Agency, client_of: ClientOf) -> None:
    operation = purchase(agency, "lindqvist-cobalt")
    assert post(client_of("Ad Ops"), operation, "stop", **SURE).status_code == 302
    operation.refresh_from_db()
    assert operation.status == S.TIMED_OUT
    page = read(client_of("Approver"), page_of(operation))
    assert "Keep waiting" in page
    assert "24 h" in page


def test_settling_shows_what_was_written_again_when_it_is_refused(
    agency: Agency, client_of: ClientOf
) -> None:
    operation = purchase(agency, "lindqvist-cobalt")
    client = client_of("Ad Ops")
    told = post(client, operation, "settle", **SURE, end="completed", evidence=LETTER)
    assert told.status_code == 409
    body = told.content.decode()
    assert "A purchase that was made has a media_buy_id" in body
    assert LETTER in body
    done = post(client, operation, "settle", **SURE, end="completed", evidence=LETTER, media_buy_id="cb-1")
    assert done.status_code == 302
    approval = Approval.objects.get(kind="settle_by_hand")
    page = read(client_of("Approver"), page_of(approval))
    for said in (LETTER, "cb-1", "They told us so."):
        assert said in page


@pytest.mark.parametrize("act", ["resend", "stop", "settle", "answer"])
def test_without_confirmation_nothing_is_done(agency: Agency, client_of: ClientOf, act: str) -> None:
    operation = paused_natively(agency)
    form = {"reason": "x", "end": "failed", "evidence": LETTER, "generation": "1", "text": "So."}
    told = post(client_of("Ad Ops"), operation, act, **form)
    assert told.status_code == 409
    assert "Confirm that you have read" in told.content.decode()
    assert Operation.objects.get(pk=operation.pk).version == operation.version


@pytest.mark.parametrize("changes", ["[1]", "{", '{"a": 1, "a": 2}', "nonsense"])
def test_arguments_that_cannot_be_read_are_refused(agency: Agency, client_of: ClientOf, changes: str) -> None:
    operation = paused_natively(agency)
    told = post(client_of("Ad Ops"), operation, "answer", sure="on", generation="1", changes=changes)
    assert told.status_code == 409
    assert "Write a JSON object" in told.content.decode()


def test_a_pause_is_answered_on_its_page_and_shows_no_capability(agency: Agency, client_of: ClientOf) -> None:
    operation = paused_natively(agency)
    client = client_of("Ad Ops")
    assert "Answer" in read(client, MONITOR)
    body = client.get(page_of(operation)).content.decode()
    assert "Which breaks do you take?" in body
    assert "native-secret" not in body
    assert "ctx-secret" not in body
    told = post(client, operation, "answer", sure="on", generation="1", text="Monday to Friday.")
    assert told.status_code == 302
    page = read(client, page_of(operation))
    assert "Monday to Friday." in page
    assert "waits for somebody else to release it" in page
    assert "Approve" in read(client_of("Approver"), page_of(Approval.objects.get(kind="answer")))


def test_what_cannot_be_answered_offers_to_wait_to_write_and_to_begin_anew(
    agency: Agency, client_of: ClientOf
) -> None:
    operation = purchase(agency, "lindqvist-quill")
    client = client_of("Ad Ops")
    page = read(client, page_of(operation))
    for said in ("its transport gave no way to answer", "Wait", "Write", "Anew", "No address of Quill"):
        assert said in page
    Seller.objects.update(contact_email="desk@quill.example")
    body = client.get(page_of(operation)).content.decode()
    assert "mailto:desk@quill.example?subject=" in body
    assert operation.idempotency_key not in body.partition("mailto:")[2].partition('"')[0]


def test_the_inbox_shows_both_sides_field_by_field(
    agency: Agency, client_of: ClientOf, contradicted: Conflict
) -> None:
    for address in (INBOX, page_of(contradicted)):
        page = read(client_of("Approver"), address)
        assert "1 open" in page
        assert "completed, then rejected" in page
        assert "status completed rejected" in page
        assert "media_buy_id nrl-58102 absent" in page
        assert "Keep the first" in page
        assert "becomes cancelled" in page
        assert "EUR 152,000.00" in page or "152,000.00" in page
    body = client_of("Approver").get(INBOX).content.decode()
    assert f'action="{page_of(contradicted)}"' in body, "decided on from the inbox too"
    only = read(client_of("Approver"), f"{page_of(contradicted)}?only=differences")
    assert "fields differ" in only
    told = client_of("Approver").get(f"{INBOX}?view=open&only=differences").content.decode()
    assert 'href="?only=&amp;view=open"' in told, "the same view, not the first of another"
    told = client_of("Approver").get(f"{INBOX}?view=open").content.decode()
    assert 'href="?only=differences&amp;view=open"' in told


@pytest.mark.parametrize("role", STAFF)
def test_every_role_reads_it_with_few_queries(
    agency: Agency,
    client_of: ClientOf,
    contradicted: Conflict,
    role: str,
    django_assert_max_num_queries: Any,
) -> None:
    client = client_of(role)
    for address in (INBOX, f"{INBOX}?view=resolved", page_of(contradicted), f"{INBOX}?view=x"):
        with django_assert_max_num_queries(30):
            assert client.get(address).status_code == 200


def test_every_resolved_conflict_is_counted_and_reached(agency: Agency, client_of: ClientOf) -> None:
    """Page by page, each once and the newest first, as the CSV tells them."""
    operation, client = purchase(agency, "aldous-display"), client_of("Ad Ops")
    said = {"channel": "poll", "status": "completed", "at": clock.now().isoformat(), "value": {}}
    Conflict.objects.bulk_create(
        Conflict(
            reference=f"CFL-2026-9{number:05}",
            operation=operation,
            team=operation.team,
            kind="terminal",
            digest=str(number),
            first=said,
            second={**said, "status": "rejected"},
            resolution="kept",
            resolved_by="system",
            resolved_at=clock.now(),
        )
        for number in range(120)
    )
    told = b"".join(client.get(f"{INBOX}export/?view=resolved").streaming_content)  # type: ignore[attr-defined]
    _, *rows = csv.reader(io.StringIO(told.decode("utf-8-sig")))

    reached, asked, pages = [], "?view=resolved", 0
    while asked:
        answer = client.get(f"{INBOX}{asked}")
        assert answer.context["count"] == f"{len(rows)} resolved"
        assert bool(pages) == (b">Newest</a>" in answer.content)
        reached += [row.conflict.reference for row in answer.context["rows"]]
        asked, pages = answer.context["page"].older, pages + 1

    assert len(rows) == Conflict.objects.filter(resolved_at__isnull=False).count() >= 120
    assert reached == [row[0] for row in rows]
    assert client.get(f"{INBOX}?view=resolved&before=nonsense").context["count"] == f"{len(rows)} resolved"


def test_a_conflict_is_decided_on_its_page(
    agency: Agency, client_of: ClientOf, contradicted: Conflict
) -> None:
    question = Approval.objects.get(kind="conflict")
    form = {"digest": question.evidence_digest, "reason": "Their letter says so."}
    client = client_of("Approver")
    assert client.post(page_of(contradicted), {**form, "choice": "keep", "reason": " "}).status_code == 409
    assert client.post(page_of(contradicted), {**form, "choice": "x"}).status_code == 409
    assert client.post(page_of(contradicted), {"choice": "keep", "reason": "x"}).status_code == 409
    assert client.post(page_of(contradicted), {**form, "choice": "take"}).status_code == 302
    agency.deals["aldous-display"].refresh_from_db()
    assert agency.deals["aldous-display"].status == "cancelled"
    page = read(client, page_of(contradicted))
    assert "What came second is taken" in page
    assert "Maya Lindgren" in page
    assert "No contradiction is open" in read(client, INBOX)


def test_who_steers_asks_the_seller_and_who_does_not_decides_nothing(
    agency: Agency, client_of: ClientOf, contradicted: Conflict
) -> None:
    form = {"choice": "ask", "reason": "Mailed them."}
    assert client_of("Approver").post(page_of(contradicted), form).status_code == 403
    assert client_of("Ad Ops").post(page_of(contradicted), form).status_code == 302
    keep = {"choice": "keep", "reason": "x", "digest": Approval.objects.get(kind="conflict").evidence_digest}
    assert client_of("Ad Ops").post(page_of(contradicted), keep).status_code == 403
    assert "by Jonas Weber" in read(client_of("Approver"), page_of(contradicted))


def test_another_team_sees_no_conflict(agency: Agency, contradicted: Conflict) -> None:
    client = stranger()
    assert contradicted.reference not in read(client, INBOX)
    assert client.get(page_of(contradicted)).status_code in (302, 404)


def test_the_rail_counts_and_the_monitor_and_the_operation_lead_to_it(
    agency: Agency, client_of: ClientOf, contradicted: Conflict
) -> None:
    client = client_of("Approver")
    assert "Conflicts" in client.get(MONITOR).content.decode()
    page = read(client, page_of(contradicted.operation))
    assert "The seller contradicts itself." in page
    approval = read(client, page_of(Approval.objects.get(kind="conflict")))
    assert contradicted.operation.reference in approval


def test_a_kept_late_purchase_is_seen_on_both_deals(agency: Agency, client_of: ClientOf) -> None:
    lost = Deal.objects.get(pk=agency.deals["halvorsen"].pk)
    late = agency.question("halvorsen", "unclaimed")
    transition(lost, "failed", actor="system", reason="Given up")
    transition(late, "approved", actor=agency.people["Approver"])
    kept = deal_adopt(
        lost=lost, record=purchase(agency, "halvorsen").result or {}, actor="system", approval=late
    )
    client = client_of("Buyer")
    assert f"It follows {lost.reference}" in read(client, page_of(kept))
    assert f"{kept.reference} holds media buy" in read(client, page_of(lost))


def test_business_hours_and_contact_are_edited_on_the_sellers_page(
    agency: Agency, client_of: ClientOf
) -> None:
    seller, client = agency.sellers["cobalt"], client_of("Ad Ops")
    form = {"name": seller.name, "slots": "1", "active": "on", "contact_email": "desk@cobalt.example"}
    hours = "Mon-Fri 09:00-17:30 America/New_York"
    assert send(client, page_of(seller), {**form, "business_hours": "always"}).status_code == 422
    assert send(client, page_of(seller), {**form, "business_hours": hours}).status_code == 302
    stored = Seller.objects.get(pk=seller.pk)
    assert stored.business_hours["weekdays"] == [1, 2, 3, 4, 5]
    assert stored.contact_email == "", "whom we write to changes with a second person"
    change = TrustChange.objects.get(seller=seller)
    assert Approval.objects.filter(kind="seller_trust", subject_id=change.pk, status="open").exists()
    assert hours in client.get(page_of(seller)).content.decode()

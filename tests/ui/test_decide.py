"""Deciding on the approval's own page: once, by whoever may, on what was shown; refusals change nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from orders.models import DealLine, DealStatus
from orders.services import deal_book
from tasks_app import clock
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.approvals.presenters import still_needed
from tasks_app.approvals.selectors import approval_after, obstacle
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.transitions import transition
from tests.factories import decided_later, make_user
from tests.ui.pages import list_of, page_of, read
from tests.ui.seed import Agency

ClientOf = Callable[..., Client]


@pytest.fixture
def asked(agency: Agency) -> Approval:
    return agency.question("tamarack-cobalt")


def form(approval: Approval, verdict: str = "approve", comment: str = "", **more: Any) -> dict[str, Any]:
    return {"decision": verdict, "comment": comment, "digest": approval.evidence_digest, **more}


def state() -> tuple[Any, ...]:
    """Everything a decision could change."""
    return (
        sorted(Approval.objects.values_list("pk", "status", "version")),
        Decision.objects.count(),
        AuditEntry.objects.count(),
    )


def test_an_approver_approves_and_reads_the_next_one(
    agency: Agency, client_of: ClientOf, asked: Approval
) -> None:
    client = client_of("Approver")
    following = approval_after(agency.people["Approver"], asked)
    assert following is not None
    assert f"{following.reference} {following.title}" in read(client, page_of(asked))
    answer = client.post(page_of(asked), form(asked, comment="Good rate."), follow=True)
    assert answer.redirect_chain == [(page_of(following), 302)]
    assert f'href="{page_of(asked)}">{asked.reference}</a>' in answer.content.decode()
    answer = client.get(page_of(asked))
    asked.refresh_from_db()
    deal = agency.deals["tamarack-cobalt"]
    deal.refresh_from_db()
    assert (asked.status, deal.status) == (ApprovalStatus.APPROVED, DealStatus.ACCEPTED)
    shown = answer.content.decode()
    assert "Maya Lindgren approved" in " ".join(shown.split())
    assert "Good rate." in shown
    assert 'name="decision"' not in shown


def test_a_large_sum_is_asked_once_more(client_of: ClientOf, asked: Approval, settings: Any) -> None:
    settings.APPROVAL_CONFIRM_ABOVE = 1
    client, before = client_of("Approver"), state()
    answer = client.post(page_of(asked), form(asked, comment="Good rate."))
    assert state() == before
    assert "Good rate." in answer.content.decode()
    assert f'name="confirmed" value="{answer.context["confirms"]}"' in answer.content.decode()
    assert client.post(page_of(asked), form(asked, confirmed="1")).status_code == 200
    assert state() == before
    part = client.post(page_of(asked), form(asked, **{"budget-1": "1,000"}))
    assert part.context["in_part"]
    assert part.context["large"] != answer.context["large"]
    assert state() == before
    client.post(page_of(asked), form(asked, confirmed=answer.context["confirms"]))
    asked.refresh_from_db()
    assert asked.status == ApprovalStatus.APPROVED


def test_a_decided_approval_links_what_it_started(
    agency: Agency, client_of: ClientOf, asked: Approval
) -> None:
    client, deal = client_of("Approver"), agency.deals["tamarack-cobalt"]
    client.post(page_of(asked), form(asked))
    deal.refresh_from_db()
    operation = deal_book(deal=deal)
    links = [f'href="{page_of(operation)}"', operation.reference]
    shown = client.get(page_of(asked)).content.decode()
    assert all(one in shown for one in links)
    other = client.get(page_of(agency.question("tamarack-norrland"))).content.decode()
    assert operation.reference not in other


def test_a_rejection_needs_a_comment(agency: Agency, client_of: ClientOf, asked: Approval) -> None:
    client, before = client_of("Approver"), state()
    answer = client.post(page_of(asked), form(asked, "reject", "  "))
    assert answer.status_code == 400
    assert "Say why you reject it." in answer.content.decode()
    assert state() == before
    assert client.post(page_of(asked), form(asked, "reject", "Too dear.")).status_code == 302
    asked.refresh_from_db()
    assert asked.status == ApprovalStatus.REJECTED


@pytest.mark.parametrize("role", ["Buyer", "Ad Ops", "Finance", "Auditor"])
def test_without_the_right_nobody_decides(
    agency: Agency, client_of: ClientOf, asked: Approval, role: str
) -> None:
    client, before = client_of(role), state()
    shown = client.get(page_of(asked)).content.decode()
    assert "needs the right of an Approver" in shown
    assert 'name="decision"' not in shown
    answer = client.post(page_of(asked), form(asked))
    assert answer.status_code == 403
    assert "You have no right to decide" in answer.content.decode()
    assert state() == before


def test_the_requester_sees_why_and_cannot(agency: Agency, client_of: ClientOf, asked: Approval) -> None:
    agency.people["Buyer"].groups.add(Group.objects.get(name="Approver"))
    client, before = client_of("Buyer"), state()
    assert "You asked for this yourself" in client.get(page_of(asked)).content.decode()
    assert client.post(page_of(asked), form(asked)).status_code == 403
    assert state() == before


def test_nobody_decides_twice(agency: Agency, client_of: ClientOf, asked: Approval) -> None:
    client = client_of("Approver")
    client.post(page_of(asked), form(asked))
    before = state()
    answer = client.post(page_of(asked), form(asked, "reject", "On second thoughts."))
    assert answer.status_code == 409
    assert "It is approved already." in answer.content.decode()
    assert state() == before


def test_another_digest_is_refused(agency: Agency, client_of: ClientOf, asked: Approval) -> None:
    client, before = client_of("Approver"), state()
    answer = client.post(page_of(asked), form(asked, comment="As I saw it.") | {"digest": "0" * 64})
    assert answer.status_code == 409
    shown = answer.content.decode()
    assert "This is not what you were shown" in shown
    assert "As I saw it." in shown  # what was written is not lost
    assert state() == before


def test_what_changed_meanwhile_voids_and_leads_to_the_new_question(
    agency: Agency, client_of: ClientOf, asked: Approval
) -> None:
    deal = agency.deals["tamarack-cobalt"]
    transition(deal, DealStatus.NEGOTIATING, actor="system")
    transition(deal, DealStatus.QUOTED, actor="system")
    answer = client_of("Approver").post(page_of(asked), form(asked))
    assert answer.status_code == 409
    asked.refresh_from_db()
    again = agency.question("tamarack-cobalt")
    assert (asked.status, again.status) == (ApprovalStatus.VOIDED, ApprovalStatus.OPEN)
    assert again.reference in answer.content.decode()
    assert not Decision.objects.filter(approval__in=[asked, again]).exists()


def test_the_new_question_marks_what_differs_from_the_voided_one(
    agency: Agency, client_of: ClientOf, asked: Approval
) -> None:
    deal, client = agency.deals["tamarack-cobalt"], client_of("Approver")
    assert "What changed since it was asked before" not in read(client, page_of(asked))
    line = DealLine.objects.filter(deal=deal).earliest("position")
    DealLine.objects.filter(pk=line.pk).update(budget="123456.00")
    transition(deal, DealStatus.NEGOTIATING, actor="system")
    transition(deal, DealStatus.QUOTED, actor="system")
    client.post(page_of(asked), form(asked))
    page = read(client, page_of(agency.question("tamarack-cobalt"))).replace("\xa0", " ")
    told = page[page.index("What changed since it was asked before") :]
    assert asked.reference in told
    assert "123,456.00" in told


@pytest.mark.parametrize("wrong", [{"decision": "maybe"}, {"decision": ""}, {"digest": ""}])
def test_a_form_nobody_was_given_is_refused(
    agency: Agency, client_of: ClientOf, asked: Approval, wrong: dict[str, str]
) -> None:
    client, before = client_of("Approver"), state()
    assert client.post(page_of(asked), form(asked) | wrong).status_code == 400
    assert state() == before


def test_the_form_carries_a_csrf_token(agency: Agency, client_of: ClientOf, asked: Approval) -> None:
    client, before = client_of("Approver", enforce_csrf_checks=True), state()
    assert client.post(page_of(asked), form(asked)).status_code == 403
    assert state() == before
    token = client.get(page_of(asked)).context["csrf_token"]
    answer = client.post(page_of(asked), form(asked, csrfmiddlewaretoken=str(token)))
    assert answer.status_code == 302


def test_all_of_a_campaign_with_one_comment(agency: Agency, client_of: ClientOf, asked: Approval) -> None:
    names = ("tamarack-cobalt", "tamarack-norrland", "tamarack-quill")
    three = [agency.question(name) for name in names]
    client = client_of("Approver")
    assert client.get(page_of(asked)).context["together_count"] == 3
    also = [f"{one.pk}:{one.evidence_digest}" for one in three[1:]]
    client.post(page_of(asked), form(asked, comment="All three.", scope="together", also=also, confirmed="x"))
    decided_later()
    for one in three:
        one.refresh_from_db()
        assert one.status == ApprovalStatus.APPROVED
        assert [d.comment for d in one.decisions.all()] == ["All three."]
    assert agency.question("aldous-olv").status == ApprovalStatus.OPEN


def test_one_that_cannot_be_decided_does_not_hold_the_others(
    agency: Agency, client_of: ClientOf, asked: Approval
) -> None:
    other = agency.question("tamarack-quill")
    also = [
        f"{other.pk}:{'0' * 64}",
        "nonsense",
        f"{'x' * 36}:digest",
        f"{agency.question('aldous-olv').pk}:",
    ]
    client, said = client_of("Approver"), form(asked, comment="Go.", scope="together", also=also)
    report = client.post(page_of(asked), {**said, "confirmed": "x"})["Location"]
    decided_later()
    asked.refresh_from_db()
    other.refresh_from_db()
    assert (asked.status, other.status) == (ApprovalStatus.APPROVED, ApprovalStatus.OPEN)
    assert agency.question("aldous-olv").status == ApprovalStatus.OPEN  # a digest left out is no consent
    assert "This is not what you were shown" in read(client, report)


def test_what_the_page_says_is_what_the_service_does(agency: Agency, asked: Approval) -> None:
    """`obstacle` and `approval_decide` agree in every case, for everybody."""
    closed = agency.question("halvorsen")
    late = agency.question("tamarack-quill")
    Approval.objects.filter(pk=late.pk).update(due_at=clock.now() - timedelta(minutes=1))
    late.refresh_from_db()
    agency.people["Buyer"].groups.add(Group.objects.get(name="Approver"))
    for approval in (closed, late, asked):
        for role, person in agency.people.items():
            approval.refresh_from_db()
            said = obstacle(approval, person, list(approval.decisions.all()))
            try:
                approval_decide(approval_id=approval.pk, user=person, verdict="approve")
            except DecisionRefusedError:
                assert said, role
            else:
                assert not said, role


def test_the_first_of_two_reads_what_theirs_does(
    agency: Agency, client_of: ClientOf, asked: Approval
) -> None:
    """The last one's click sends; theirs is recorded."""
    Approval.objects.filter(pk=asked.pk).update(quorum=2)
    mine, sends = "Records yours; a second approver is still needed.", "Places the order at once."
    client = client_of("Approver")
    preview = f"{list_of(Approval)}{asked.pk}/preview/"
    for address in (page_of(asked), preview):
        shown = read(client, address)
        assert (mine in shown, sends in shown) == (True, False), address
    told = client.post(page_of(asked), form(asked), follow=True).content.decode()
    assert "your approval is recorded; a second approver is still needed." in told
    second = client_of("Administrator")
    for address in (page_of(asked), preview):
        shown = read(second, address)
        assert (mine in shown, sends in shown) == (False, True), address
    assert "is still needed" not in second.post(page_of(asked), form(asked), follow=True).content.decode()
    asked.refresh_from_db()
    assert asked.status == ApprovalStatus.APPROVED


@pytest.mark.parametrize(
    ("quorum", "given", "words"),
    [
        (1, 0, ""),
        (2, 0, "a second approver is still needed"),
        (2, 1, ""),
        (3, 0, "2 more approvers are still needed"),
        (3, 1, "a third approver is still needed"),
        (3, 2, ""),
        (9, 7, "a further approver is still needed"),
    ],
)
def test_how_many_more_are_needed(
    agency: Agency, asked: Approval, quorum: int, given: int, words: str
) -> None:
    Approval.objects.filter(pk=asked.pk).update(quorum=quorum)
    for number in range(given):
        person = make_user("Approver", team=asked.team, name=f"approver-{number}")
        Decision.objects.create(
            approval=asked, actor=f"human:{person.pk}", actor_name=str(person), verdict="approve"
        )
    asked.refresh_from_db()
    assert still_needed(asked) == words

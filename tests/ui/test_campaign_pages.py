"""The campaigns' list and page: the whole way from brief to booked media, out of real rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from campaigns.models import Campaign
from campaigns.outcome import campaign_finish
from campaigns.selectors import campaign_rows
from campaigns.timeline import timeline
from orders.models import Deal
from orders.questions import ask_deal
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.jobs.models import Job
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.converge import observe
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tests.factories import make_deal, make_line, make_user
from tests.ui.pages import STAFF, ClientOf, list_of, page_of, read, stranger
from tests.ui.seed import Agency
from tests.ui.seed_jobs import walk

_INLINE = re.compile(r"<[^>]+\s(?:style|on[a-z]+)\s*=|<script(?![^>]*\ssrc=)", re.IGNORECASE)


@pytest.mark.parametrize("role", STAFF)
def test_list_and_pages_render_for_every_role_with_few_queries(
    agency: Agency, client_of: ClientOf, django_assert_max_num_queries: Any, role: str
) -> None:
    client = client_of(role)
    for address in (list_of(Campaign), *(page_of(one) for one in agency.campaigns.values())):
        with django_assert_max_num_queries(27):
            answer = client.get(address)
        assert answer.status_code == 200, address
        assert not _INLINE.findall(answer.content.decode()), address


def test_another_team_sees_nothing(agency: Agency) -> None:
    client = stranger()
    assert "Lindqvist" not in read(client, list_of(Campaign))
    assert client.get(page_of(agency.campaigns["lindqvist"])).status_code in (302, 404)


def test_what_was_left_out_is_shown_with_every_reason(agency: Agency, client_of: ClientOf) -> None:
    campaign = agency.campaigns["lindqvist"]
    left = [
        {"seller": "Norrland Digital", "product": f"Spot {number}", "why": f"reason <{number}>"}
        for number in range(7)
    ]
    Campaign.objects.filter(pk=campaign.pk).update(outcome={"left_out": left})
    page = read(client_of("Approver"), page_of(campaign))
    assert "What was left out" in page
    for number in range(7):
        assert f"Norrland Digital, Spot {number}" in page
        assert f"reason <{number}>" in page


def test_the_stages_say_how_far_it_is(agency: Agency, client_of: ClientOf) -> None:
    page = read(client_of("Approver"), page_of(agency.campaigns["lindqvist"]))
    assert "3 deals of 17 products" in page
    assert "3 sellers, 4 packages" in page
    assert "40, 25, 20 and 15 %" in page
    assert "3 of 3 approved" in page
    assert "1 booked, 2 waiting" in page
    assert re.search(r"oldest 19 h \d+ m of 24 h", page)


def test_approved_stands_beside_confirmed_with_the_departure(agency: Agency, client_of: ClientOf) -> None:
    page = read(client_of("Buyer"), page_of(agency.campaigns["lindqvist"]))
    assert "USD 61,500.00 USD 58,000.00 −3,500.00, −5.7 %" in page
    assert re.search(r"starts (\d+) \w+, not (?!\1 )\d+ \w+", page)
    assert "seller says pending_creatives, due" in page
    assert "USD 410,000.00 USD 160,500.00 −3,500.00" in page


def test_what_happens_next_names_the_person_the_time_and_the_otherwise(
    agency: Agency, client_of: ClientOf
) -> None:
    address = page_of(agency.campaigns["lindqvist"])
    approver, buyer = (read(client_of(role), address) for role in ("Approver", "Buyer"))
    deal = agency.deals["lindqvist-norrland"].reference
    assert f"You decide: Norrland Digital booked {deal} differently" in approver
    assert f"An approver decides: Norrland Digital booked {deal} differently" in buyer
    assert re.search(
        r"For an approver of Halden & Marsh, since \w+ [\d:]+, until [\w ]+[\d:]+, USD", approver
    )
    assert "Else: It stays booked and flagged" in approver
    assert "Ad Ops answers Quill Audio" in approver
    assert "You answer Quill Audio" in read(client_of("Ad Ops"), address)
    assert "Do you waive competitive separation" in approver
    assert "Cobalt Bay TV answers create_media_buy" in approver
    assert "Else: It is overdue then, and a person is asked" in approver


def test_a_departure_says_who_knows_of_it(agency: Agency, client_of: ClientOf) -> None:
    address = page_of(agency.campaigns["lindqvist"])
    assert "Approvers of Halden & Marsh are asked since" in read(client_of("Finance"), address)
    asked = agency.question("lindqvist-norrland", "booked_differently")
    approval_decide(approval_id=asked.pk, user=agency.people["Approver"], verdict="approve")
    assert "Accepted by Maya Lindgren, today" in read(client_of("Finance"), address)


def test_the_timeline_is_in_plain_words_and_joins_what_was_done_together(agency: Agency) -> None:
    said = [event.text for event in timeline(campaign_rows(agency.campaigns["lindqvist"]))]
    assert said[0] == "Norrland Digital booked the deal, with 3,500.00 less and a later start"
    assert "Maya Lindgren approved Norrland Digital, Cobalt Bay TV and Quill Audio" in said
    assert "The purchase was let go to Norrland Digital, Cobalt Bay TV and Quill Audio" in said
    assert "3 deals were recommended" in said
    assert said[-1] == "Tomás Ferreira submitted the brief"


def test_the_trail_is_said_to_hold_only_where_it_was_checked(
    agency: Agency, client_of: ClientOf, tamper: Callable[..., None]
) -> None:
    campaign = agency.campaigns["lindqvist"]
    rows = campaign_rows(campaign)
    entries = AuditEntry.objects.filter(entity_id__in=list(rows.entries)).count()
    assert rows.verification.ok
    page = read(client_of("Auditor"), page_of(campaign))
    assert f"{entries} audit entries verified" in page

    deal = agency.deals["lindqvist-cobalt"]
    tamper(deal, version=99)
    page = read(client_of("Auditor"), page_of(campaign))
    assert "audit entries verified" not in page
    assert f"The trail does not hold: {deal.reference}" in page


def test_a_refused_brief_shows_every_problem_by_field(agency: Agency, client_of: ClientOf) -> None:
    campaign = agency.campaigns["ostrom"]
    page = read(client_of("Buyer"), page_of(campaign))
    assert "The brief is wrong in 2 places" in page
    for problem in campaign.problems:
        assert problem["field"] in page
        assert problem["problem"] in page
    assert "not reached" in page
    assert "Job graph" not in page


def test_the_graph_shows_who_is_waited_for(agency: Agency, client_of: ClientOf) -> None:
    page = read(client_of("Finance"), page_of(agency.campaigns["lindqvist"]))
    assert "Norrland Digital: Book, differs" in page
    assert "Quill Audio: Book, asks you" in page
    assert "Complete: after 2 × book" in page
    assert "Research, 4.1 s" in page


def test_an_ended_campaign_tells_how_each_deal_ended(agency: Agency, client_of: ClientOf) -> None:
    _settle(agency, "lindqvist-cobalt", "completed", {"media_buy_id": "cob-1", "packages": []})
    _settle(agency, "lindqvist-quill", "rejected", None)
    walk(lambda seconds: None)
    campaign = agency.campaigns["lindqvist"]
    assert not campaign_finish(campaign=campaign)
    for asked in Approval.objects.filter(kind="booked_differently", status="open"):
        approval_decide(
            approval_id=asked.pk, user=agency.people["Approver"], verdict="approve", comment="It will do."
        )
    assert campaign_finish(campaign=campaign)
    page = read(client_of("Finance"), page_of(campaign))
    assert "Completed" in page
    assert "How it ended" in page
    assert f"2 booked {agency.deals['lindqvist-norrland'].reference}" in page
    assert f"1 failed {agency.deals['lindqvist-quill'].reference}" in page
    assert "Quill Audio did not book" in page
    assert "The campaign is complete: 2 booked, 1 failed" in page
    assert "Quill Audio: Book, failed" in page


def _settle(agency: Agency, deal: str, status: str, payload: dict[str, Any] | None) -> None:
    operation = Operation.objects.get(subject_id=agency.deals[deal].pk, task_type="create_media_buy")
    seen = Seen(
        kind="answer",
        status=status,
        payload=payload,
        task_id=operation.task_id,
        message="As it is.",
    )
    observe(operation_id=operation.pk, seen=seen, channel="webhook")
    publish(operation_id=operation.pk)


@pytest.mark.parametrize(("view", "found"), [("open", True), ("ended", False), ("approval", False)])
def test_saved_views_narrow_the_list(agency: Agency, client_of: ClientOf, view: str, found: bool) -> None:
    page = read(client_of("Buyer"), f"{list_of(Campaign)}?view={view}")
    assert ("Lindqvist Cold Brew" in page) is found


def test_search_finds_a_reference_and_a_name(agency: Agency, client_of: ClientOf) -> None:
    campaign = agency.campaigns["tamarack"]
    for text in (campaign.reference, "tamarack"):
        page = read(client_of("Buyer"), f"{list_of(Campaign)}?q={text}")
        assert campaign.reference in page
        assert "Lindqvist" not in page


def test_a_campaign_of_many_deals_is_shown_in_part_and_summed_whole(
    agency: Agency, client_of: ClientOf, django_assert_max_num_queries: Any
) -> None:
    campaign = agency.campaigns["tamarack"]
    like = agency.deals["tamarack-quill"]
    lines = [make_line(product_name=f"Package {number}", budget=Decimal(100)) for number in range(20)]
    for _ in range(40):
        make_deal(
            *lines,
            seller=like.seller,
            account=False,
            advertiser=like.advertiser,
            team=like.team,
            campaign_id=campaign.pk,
        )
    client = client_of("Administrator")
    # One of them, for all questions, for whom the viewer stands in: that is who else does not decide.
    with django_assert_max_num_queries(27):
        page = read(client, page_of(campaign))
    assert "43 deals of" in page
    assert "18 more deals" in page
    assert "8 more packages" in page
    assert "USD 720,000.00" in page  # 640,000 and 40 × 20 × 100
    assert page.count("Package 3 ") < 26
    listed = client.get(list_of(Deal), {"campaign_id__exact": str(campaign.pk)})
    assert listed.status_code == 200
    assert len(listed.context["cl"].result_list) == 43


def test_questions_cost_a_campaigns_page_as_many_queries_however_many_they_are(
    agency: Agency, client_of: ClientOf, django_assert_max_num_queries: Any
) -> None:
    """Each waits for a second person; who has approved and may still, is read for all at once."""
    like = agency.deals["tamarack-quill"]
    of_it = {"advertiser": like.advertiser, "team": like.team, "campaign_id": like.campaign_id}
    first = make_user("Approver", team=like.team)
    for number in range(12):
        asked = ask_deal(make_deal(seller=like.seller, account=False, **of_it))
        Approval.objects.filter(pk=asked.pk).update(quorum=2 + number % 2)
        approval_decide(approval_id=asked.pk, user=first, verdict="approve")
    client = client_of("Approver")
    with django_assert_max_num_queries(28):
        page = read(client, page_of(agency.campaigns["tamarack"]))
    assert "1 of the approvers of" in page
    assert "2 of the approvers of" in page


@pytest.mark.parametrize(
    ("role", "form", "why"),
    [
        ("Buyer", {"act": "cancel", "reason": "over"}, "Confirm that you have read"),
        ("Buyer", {"act": "cancel", "reason": " ", "sure": "on"}, "Say why."),
        ("Buyer", {"act": "complete", "reason": "done", "sure": "on"}, "there is no such act"),
        ("Approver", {"act": "cancel", "reason": "over", "sure": "on"}, "no right to call campaigns off"),
        ("Finance", {"act": "retry", "reason": "over", "sure": "on"}, "no right to retry jobs"),
    ],
    ids=str,
)
def test_an_act_takes_the_right_a_reason_and_a_confirmation(
    agency: Agency, client_of: ClientOf, role: str, form: dict[str, str], why: str
) -> None:
    campaign = Campaign.objects.filter(status="awaiting_approval").earliest("pk")
    before = (campaign.version, AuditEntry.objects.count(), Job.objects.count())
    answer = client_of(role).post(page_of(campaign), form)
    assert answer.status_code == 409
    assert why in answer.content.decode()
    campaign.refresh_from_db()
    assert (campaign.version, AuditEntry.objects.count(), Job.objects.count()) == before


def test_a_campaign_is_called_off_on_its_page(agency: Agency, client_of: ClientOf) -> None:
    campaign = Campaign.objects.filter(status="awaiting_approval").earliest("pk")
    form = {"act": "cancel", "reason": "the client withdrew", "sure": "on"}
    answer = client_of("Buyer").post(page_of(campaign), form, follow=True)
    assert f"{campaign.reference} is called off." in answer.content.decode()
    campaign.refresh_from_db()
    assert campaign.status == "failed"
    assert "the client withdrew" in answer.content.decode()


def test_the_whole_chain_stands_on_one_page(agency: Agency, client_of: ClientOf) -> None:
    campaign = agency.campaigns["lindqvist"]
    page = read(client_of("Auditor"), page_of(campaign)).replace("\xa0", " ")
    assert campaign.brief["objective"]["goal"] in page
    for allocation in campaign.allocations.all():
        assert f"{allocation.amount:,.0f}" in page
    deals = Deal.objects.filter(campaign_id=campaign.pk)
    ids = list(deals.values_list("pk", flat=True))
    approvals = Approval.objects.filter(subject_type="deal", subject_id__in=ids)
    operations = Operation.objects.filter(subject_type="deal", subject_id__in=ids)
    job = Job.objects.get(subject_type="campaign", subject_id=campaign.pk, parent_step=None)
    assert len(ids) == 3
    for named in (*deals, *approvals.filter(status="open"), *operations, job):
        assert named.reference in page, named
    assert "Job graph" in page
    assert "audit entries verified" in page
    for deal in deals:
        for line in deal.lines.all():
            assert line.product_name in page, "approved and confirmed, a line each"

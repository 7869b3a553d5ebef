"""Global search: by every name that somebody may quote, within the viewer's scope, in few queries."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from campaigns.models import Campaign
from orders.models import Deal, DealLine
from tasks_app.commands.models import Command, KillSwitch
from tasks_app.desk.search import SearchRefusedError, search, single
from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tasks_app.reconciliation.findings import id_digest
from tasks_app.reconciliation.models import ReconciliationFinding
from tasks_app.sellers.models import Account
from tests.api.conftest import client_of as api_of
from tests.factories import make_team, make_user
from tests.ui.pages import list_of, page_of, read
from tests.ui.seed import Agency

ClientOf = Callable[..., Client]
FIND = reverse("find")


@pytest.fixture
def quoted(agency: Agency, tamper: Callable[..., None]) -> dict[str, tuple[str, Any]]:
    """What may be quoted, by what kind of name it is: the text, and what it names."""
    deal = Deal.objects.exclude(media_buy_id="").earliest("pk")
    operation = Operation.objects.filter(task_type="create_media_buy", team__isnull=False).earliest("pk")
    request = json.dumps({**operation.request, "po_number": "PO-8812"})
    tamper(operation, a2a_task_id="a2a-task-17", a2a_context_id="ctx-4471", request=request)
    line = DealLine.objects.filter(deal=deal).earliest("position")
    DealLine.objects.filter(pk=line.pk).update(package_id="pkg_0001")
    account = Account.objects.filter(reference__has_key="account_id").earliest("pk")
    campaign = Campaign.objects.earliest("pk")
    command = Command.objects.earliest("pk")
    finding = ReconciliationFinding.objects.create(
        seller=operation.seller,
        kind="task",
        verdict="orphaned",
        theirs="their-task-99",
        digest=id_digest("their-task-99"),
        team=deal.team,
    )
    question = agency.question("tamarack-cobalt")
    with_task = Operation.objects.exclude(task_id="").filter(team__isnull=False).earliest("pk")
    return {
        "reference": (deal.reference, deal),
        "reference in small letters": (question.reference.lower(), question),
        "id": (str(campaign.pk), campaign),
        "task_id": (with_task.task_id, with_task),
        "A2A task": ("a2a-task-17", operation),
        "A2A context": ("ctx-4471", operation),
        "po_number": ("PO-8812", operation),
        "idempotency key": (str(operation.idempotency_key)[:8], operation),
        "media_buy_id": (deal.media_buy_id, deal),
        "package_id": ("pkg_0001", deal),
        "line id": (str(line.pk), deal),
        "account_id": (account.reference["account_id"], account),
        "campaign name": (campaign.name.upper(), campaign),
        "command key": (command.key, command),
        "finding": ("their-task-99", finding),
        "seller slug": (operation.seller.slug, operation.seller),
        "seller name": (operation.seller.name, operation.seller),
    }


def test_whatever_is_quoted_is_found(agency: Agency, quoted: dict[str, tuple[str, Any]]) -> None:
    admin = agency.people["Administrator"]
    for name, (text, row) in quoted.items():
        hits = search(f"  {text} ", admin)
        assert str(row.pk) in {hit.id for hit in hits if hit.exact}, name
        assert page_of(row) in {hit.link for hit in hits}, name


def test_one_exact_match_opens_at_once_and_more_do_not(
    client_of: ClientOf, agency: Agency, quoted: dict[str, tuple[str, Any]]
) -> None:
    client, deal = client_of("Buyer"), agency.deals["aldous-display"]
    answer = client.get(FIND, {"q": deal.reference})
    assert (answer.status_code, answer["Location"]) == (302, page_of(deal))

    # Not the one that was tampered with: its row would be locked when that is undone.
    first, second = Operation.objects.filter(team__isnull=False).order_by("-pk")[:2]
    Operation.objects.filter(pk__in=[first.pk, second.pk]).update(a2a_context_id="ctx-both")
    page = read(client, f"{FIND}?q=ctx-both")
    assert first.reference in page
    assert second.reference in page


def test_the_beginning_of_a_name_or_reference_lists(client_of: ClientOf, agency: Agency) -> None:
    campaign = agency.campaigns["tamarack"]
    page = read(client_of("Buyer"), f"{FIND}?q={campaign.name[:5].lower()}")
    assert campaign.reference in page
    assert "begins so" in page
    deal = agency.deals["aldous-display"]
    hits = search(deal.reference[:-2], agency.people["Buyer"])
    assert deal.reference in {hit.reference for hit in hits}
    assert single(hits) is None
    assert search("DEAL-2026-0", agency.people["Buyer"]) == [], "too many would begin so"


def test_an_advertiser_leads_to_its_campaigns(client_of: ClientOf, agency: Agency) -> None:
    client, advertiser = client_of("Buyer"), agency.deals["aldous-display"].advertiser
    found = client.get(FIND, {"q": advertiser.name}, follow=True)
    assert any(
        campaign.reference in found.content.decode()
        for campaign in Campaign.objects.filter(advertiser=advertiser)
    )


def test_pages_and_actions_are_found_by_their_words(client_of: ClientOf, agency: Agency) -> None:
    new, add = reverse("admin:campaign_submit"), reverse("admin:tasks_app_user_add")
    for role, text, link, is_found in (
        ("Buyer", "new camp", new, True),
        ("Finance", "new camp", new, False),
        ("Administrator", "add person", add, True),
        ("Ad Ops", "kill", list_of(KillSwitch), True),
    ):
        shown = client_of(role).get(FIND, {"q": text}, headers={"HX-Request": "true"}).content.decode()
        assert (f'href="{link}"' in shown) == is_found, (role, text)


def test_deals_are_found_by_advertiser_and_product(agency: Agency) -> None:
    deal, viewer = agency.deals["aldous-display"], agency.people["Buyer"]
    line = deal.lines.earliest("position")
    for text, matched in ((deal.advertiser.name[:5].lower(), "advertiser"), (line.product_name, "product")):
        hits = search(text, viewer)
        assert (str(deal.pk), matched) in {(hit.id, hit.matched) for hit in hits}, matched


def test_the_search_box_is_answered_with_the_list_alone(client_of: ClientOf, agency: Agency) -> None:
    deal = agency.deals["aldous-display"]
    answer = client_of("Buyer").get(FIND, {"q": deal.reference}, headers={"HX-Request": "true"})
    body = answer.content.decode()
    assert 'id="command-results-list"' in body
    assert page_of(deal) in body
    assert "<html" not in body


def test_the_rail_leads_to_it(client_of: ClientOf) -> None:
    page = client_of("Finance").get(reverse("admin:index")).content.decode()
    assert f'href="{FIND}"' in page
    assert f'hx-get="{FIND}"' in page


def test_no_search_takes_more_than_30_queries(
    client_of: ClientOf, quoted: dict[str, tuple[str, Any]], django_assert_max_num_queries: Any
) -> None:
    client = client_of("Administrator")
    for text in [*(text for text, _ in quoted.values()), str(uuid.uuid4()), "nothing of the sort"]:
        with django_assert_max_num_queries(30):
            client.get(FIND, {"q": text})


def test_another_team_finds_nothing_of_it(agency: Agency, quoted: dict[str, tuple[str, Any]]) -> None:
    outsider = make_user("Administrator", team=make_team("Elsewhere"), name="outsider")
    for name, (text, row) in quoted.items():
        if name.startswith("seller"):  # an agent is nobody's
            continue
        assert str(row.pk) not in {hit.id for hit in search(text, outsider)}, name
    assert search(agency.deals["aldous-display"].advertiser.name, outsider) == []


def test_without_the_right_to_see_a_kind_none_of_it_is_found(
    agency: Agency, quoted: dict[str, tuple[str, Any]]
) -> None:
    buyer = agency.people["Buyer"]
    assert search(quoted["command key"][0], buyer) == []
    assert search(quoted["finding"][0], buyer) == []
    buyer.groups.clear()
    nobody = User.objects.get(pk=buyer.pk)
    for text, _ in quoted.values():
        assert search(text, nobody) == []


def test_no_more_than_the_beginning_of_a_key_is_compared_or_shown(agency: Agency) -> None:
    operation = Operation.objects.exclude(idempotency_key=None).filter(team__isnull=False).earliest("pk")
    key = str(operation.idempotency_key)
    guess = f"{key[:8]}-0000-0000-0000-000000000000"
    hits = search(guess, agency.people["Administrator"])
    assert str(operation.pk) in {hit.id for hit in hits}
    assert all(key not in str(hit) for hit in hits)
    assert search(key[:7], agency.people["Administrator"]) == []


def test_the_api_answers_the_same(agency: Agency) -> None:
    deal, maya = Deal.objects.exclude(media_buy_id="").earliest("pk"), agency.people["Approver"]
    found = api_of(maya).get("/api/v1/search/", {"q": deal.media_buy_id}).json()["results"]
    assert found[0] == {
        "kind": "deal",
        "id": str(deal.pk),
        "reference": deal.reference,
        "title": found[0]["title"],
        "matched": "media_buy_id",
        "exact": True,
    }


@pytest.mark.parametrize("text", ["", "x", " ", "y" * 201, "a\x00b"])
def test_what_is_no_name_is_refused(agency: Agency, text: str) -> None:
    with pytest.raises(SearchRefusedError):
        search(text, agency.people["Buyer"])
    assert api_of(agency.people["Buyer"]).get("/api/v1/search/", {"q": text}).status_code == 400


@pytest.mark.parametrize("text", ["%%", "__", "' or 1=1 --", "\\\\", "ΩΩ", "DEAL-2026-999999", "<script>"])
def test_hostile_texts_find_nothing(client_of: ClientOf, agency: Agency, text: str) -> None:
    answer = client_of("Administrator").get(FIND, {"q": text})
    assert answer.status_code == 200
    assert "Nothing of yours is called so" in answer.content.decode()
    assert "<script>alert" not in answer.content.decode()


def test_nobody_searches_without_a_login(agency: Agency) -> None:
    assert Client().get(FIND, {"q": "DEAL"}).status_code == 302
    assert Client().get("/api/v1/search/", {"q": "DEAL"}).status_code == 401

"""Pages of campaigns and deals that change by themselves: their signs, their live parts, their streams."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from campaigns.live import campaign_signs
from orders.acts import deal_withdraw
from orders.live import deal_signs
from orders.models import Deal
from tasks_app.approvals.services import approval_decide
from tasks_app.commands.models import Command
from tasks_app.commands.questions import gate_ask
from tasks_app.desk.live import HEADER, Followed, sign_of
from tasks_app.jobs.feed import PageWatcher
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Account
from tests.ui.pages import ClientOf, page_of, stranger
from tests.ui.seed import Agency


def address_of(agency: Agency, kind: str, end: str) -> str:
    about = agency.campaigns["lindqvist"] if kind == "campaign" else agency.deals["lindqvist-norrland"]
    return reverse(f"admin:{kind}_{end}", args=[about.pk])


def both(agency: Agency) -> tuple[str, str]:
    return (
        sign_of("campaign", agency.campaigns["lindqvist"].pk),
        sign_of("deal", agency.deals["lindqvist-norrland"].pk),
    )


def _answer(agency: Agency) -> None:
    operation = Operation.objects.get(
        subject_id=agency.deals["lindqvist-norrland"].pk, task_type="create_media_buy"
    )
    Operation.objects.filter(pk=operation.pk).update(message="another word")


def _flag(agency: Agency) -> None:
    Deal.objects.filter(pk=agency.deals["lindqvist-norrland"].pk).update(media_buy_status="active")


def _decide(agency: Agency) -> None:
    asked = agency.question("lindqvist-norrland", "booked_differently")
    approval_decide(approval_id=asked.pk, user=agency.people["Approver"], verdict="approve")


def _gate(agency: Agency) -> None:
    command = Command.objects.get(subject_id=agency.deals["lindqvist-norrland"].pk, kind="order_place")
    gate_ask(command, {"ceiling": "it would come to more than its budget"})


def _suspend(agency: Agency) -> None:
    Account.objects.filter(deal=agency.deals["lindqvist-norrland"].pk).update(status="suspended")


@pytest.mark.parametrize("happens", [_answer, _flag, _decide, _gate, _suspend])
def test_whatever_is_written_of_it_changes_the_sign(
    agency: Agency, happens: Callable[[Agency], None]
) -> None:
    before = both(agency)
    assert both(agency) == before, "nothing was written"
    happens(agency)
    after = both(agency)
    assert after[0] != before[0]
    assert after[1] != before[1]


def test_another_campaigns_news_change_nothing_here(agency: Agency) -> None:
    before = both(agency)
    withdrawn = agency.deals["tamarack-quill"]
    deal_withdraw(deal_id=withdrawn.pk, user=agency.people["Buyer"], reason="the client withdrew")
    assert both(agency) == before


def test_what_a_risk_gate_asks_stands_on_both_pages(
    agency: Agency, client_of: ClientOf, django_assert_max_num_queries: Any
) -> None:
    _gate(agency)
    client = client_of("Approver")
    for about in (agency.campaigns["lindqvist"], agency.deals["lindqvist-norrland"]):
        with django_assert_max_num_queries(27):
            page = client.get(page_of(about)).content.decode()
        assert "Risk gate" in page
        assert "It goes on by itself when the gate opens" in page


def test_many_pages_signs_take_one_query_for_each_kind(
    agency: Agency, django_assert_num_queries: Any
) -> None:
    campaigns = [one.pk for one in agency.campaigns.values()]
    with django_assert_num_queries(2):
        assert set(campaign_signs([*campaigns, uuid.uuid4()])) == set(campaigns)
        assert len(deal_signs([deal.pk for deal in agency.deals.values()])) == len(agency.deals)


@pytest.mark.parametrize("kind", ["campaign", "deal"])
def test_the_live_part_comes_where_the_page_shows_another_sign(
    agency: Agency, client_of: ClientOf, django_assert_max_num_queries: Any, kind: str
) -> None:
    client, address = client_of("Finance"), address_of(agency, kind, "live")
    page = client.get(address)
    assert page.content.startswith(b'<div id="live-page"')
    sign = sign_of(kind, uuid.UUID(address.split("/")[-3]))
    assert f'data-sign="{sign}"'.encode() in page.content
    assert client.get(address, {"sign": sign}).status_code == 204
    _flag(agency)
    with django_assert_max_num_queries(27):
        assert client.get(address, {"sign": sign}).status_code == 200


@pytest.mark.parametrize("kind", ["campaign", "deal"])
def test_the_stream_begins_with_the_sign_and_says_how_it_goes_on(
    agency: Agency, client_of: ClientOf, kind: str
) -> None:
    answer = client_of("Finance").get(address_of(agency, kind, "changes"))
    followed = Followed.read(answer[HEADER])
    assert followed is not None
    assert (followed.user, followed.page) == (str(agency.people["Finance"].pk), kind)
    assert answer["Content-Type"] == "text/event-stream"
    assert answer.content.endswith(f"data: {followed.sign}\n\n".encode())


@pytest.mark.parametrize("end", ["live", "changes"])
@pytest.mark.parametrize("kind", ["campaign", "deal"])
def test_another_team_and_nobody_get_neither(agency: Agency, kind: str, end: str) -> None:
    address = address_of(agency, kind, end)
    assert stranger().get(address).status_code == 404
    assert Client().get(address).status_code == 302


def test_a_watcher_is_told_of_a_sign_once() -> None:
    async def told() -> list[bytes]:
        watcher = PageWatcher(("deal", uuid.uuid4()), "a")
        said = [watcher.take_stream()]
        for sign in ("a", "b", "b", None, "c"):
            watcher.give(sign)
            said.append(watcher.take_stream())
        return said

    assert asyncio.run(told()) == [b"", b"", b"data: b\n\n", b"", b"", b"data: c\n\n"]

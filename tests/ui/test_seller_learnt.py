"""What calls taught of a seller stands on its page, in plain words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks_app.adcp.optional import BESIDE, OMIT, OPTIONAL, SEND, Lesson
from tasks_app.adcp.types import QUIRK_A2A_PARAMETERS
from tasks_app.clock import now
from tasks_app.operations.line import NOT_READ
from tasks_app.operations.models import OperationStatus as S
from tasks_app.reconciliation.models import ReconciliationRun
from tasks_app.sellers.learnt import learnt_of
from tasks_app.sellers.models import Account, Seller
from tests.factories import make_account, make_advertiser, make_seller
from tests.operations.making import answer, see, stand
from tests.ui.pages import ClientOf, page_of, read
from tests.ui.seed import Agency

LESSONS = [
    Lesson(verb=verb, tool=tool, argument=argument)
    for verb in (OMIT, SEND)
    for tool, arguments in OPTIONAL.items()
    for argument in sorted(arguments)
]


def words(seller: Seller, *accounts: Account) -> str:
    return " ".join(f"{one.what} -> {one.so}." for one in learnt_of(seller, accounts))


@pytest.mark.django_db
def test_every_lesson_there_may_be_is_said_in_words() -> None:
    for lesson in LESSONS:
        seller = Seller(quirks=[lesson.quirk], tools=["get_task_status", "list_tasks"])
        said = words(seller)
        how = "without" if lesson.verb == OMIT else "with"
        beside = BESIDE.get((lesson.tool, lesson.argument)) if lesson.verb == OMIT else None
        where = f", where {beside} is sent" if beside else ""
        assert f"{lesson.tool} is asked {how} {lesson.argument}{where}." in said
        assert lesson.quirk not in said
    assert "sent as parameters" in words(Seller(quirks=[QUIRK_A2A_PARAMETERS]))


@pytest.mark.django_db
def test_tools_under_another_name_are_told_and_a_name_that_a_person_gave_is_not() -> None:
    older = Seller(tools=["get_products", "get_task", "tasks_list"])
    assert "Has no get_task_status, but get_task -> It is told of one task by get_task." in words(older)
    assert "Has no list_tasks, but tasks_list -> It is asked for its tasks by tasks_list." in words(older)
    assert words(Seller(tools=["get_task_status", "list_tasks"])) == ""
    assert words(Seller(tools=["get_products", "list_tasks"], status_tool="look_at")) == ""


@pytest.mark.django_db
def test_statuses_of_its_own_and_refused_reads_are_told() -> None:
    seller, other = make_seller(), make_seller("Vasa Media")
    operation = stand(S.SUBMITTED, seller=seller, task_id="t-1")
    for word in ("approved", "approved", "unknown"):
        seen = replace(answer(word, task_id="t-1", duration_ms=9), status="unknown")
        see(operation, seen, "poll")
    note = f"{NOT_READ[0]} no account: get_media_buys: Omit account"
    ReconciliationRun.objects.create(
        state="ended",
        trigger="hand",
        asked_by="system",
        ended_at=now(),
        report=[{"seller": seller.slug, "unread": [], "notes": [note, "lists no tasks"], "unnamed": []}],
    )
    account = make_account(make_advertiser(), seller)
    account.refused_reference = {"account_id": "acc-9"}
    said = words(seller, account)
    assert "Called a task “approved”, which is no status of AdCP (2 times in 24 h)" in said
    assert "“unknown”" not in said
    assert "Would not tell, or not all, of 1 account or id in the latest reconciliation" in said
    assert "Handed out 1 account id that it then refused -> Named by brand and operator instead." in said
    assert words(other) == ""


def test_it_stands_on_the_sellers_page(agency: Agency, client_of: ClientOf) -> None:
    seller = agency.sellers["cobalt"]
    assert "What it does otherwise" not in read(client_of("Buyer"), page_of(seller))
    Seller.objects.filter(pk=seller.pk).update(quirks=["omit get_media_buys account"])
    page = read(client_of("Buyer"), page_of(seller))
    assert "What it does otherwise" in page
    assert "Refused get_media_buys for account get_media_buys is asked without account" in page

"""What a seller asks is put to people on many pages, and on none of them once somebody has answered it."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from campaigns.services import campaign_job
from campaigns.today.sellers import sellers_shown
from orders.models import Deal
from tasks_app import clock
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.operations.continuation import NOT_KNOWN, Continuation
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller
from tests.operations.making import answer, see, stand
from tests.operations.pausing import pause
from tests.ui.pages import ClientOf, list_of, page_of, read
from tests.ui.seed import Agency

_ASKS = re.compile("asks something|asks you|asks: |You answer|Answer the seller|Waits for your answer")
_TELLS = {"the monitor", "the operation", "the campaign", "the deal", "the job"}


def _pages(operation: Operation, agency: Agency) -> dict[str, str]:
    """Those that tell of the purchase, by what they are."""
    campaign = agency.campaigns["lindqvist"]
    job = campaign_job(campaign)
    assert job is not None
    return {
        "Today": reverse("admin:index"),
        "the queue": reverse("admin:tasks_app_approval_changelist"),
        "the monitor": list_of(Operation),
        "the operation": page_of(operation),
        "the campaign": page_of(campaign),
        "the deal": page_of(Deal.objects.get(pk=operation.subject_id)),
        "the job": page_of(job),
    }


def _answered(operation: Operation, *, left: bool) -> None:
    """Somebody answered, and somebody else released that."""
    now = clock.now()
    given = {"answer": {"text": "Yes.", "changes": {}}, "answered_at": now, "released_at": now}
    pause(operation, dispatched_at=now if left else None, **given)
    Operation.objects.filter(pk=operation.pk).update(send_at=None if left else now)


@pytest.mark.parametrize(("left", "words"), [(False, "waits to be sent"), (True, "its reply has not come")])
def test_a_question_that_was_answered_is_put_to_nobody(
    agency: Agency, client_of: ClientOf, left: bool, words: str
) -> None:
    operation = Operation.objects.get(status="input_required")
    pages, reader = _pages(operation, agency), client_of("Ad Ops")
    assert [name for name, page in pages.items() if not _ASKS.search(read(reader, page))] == []
    _answered(operation, left=left)
    told = {name: read(reader, page) for name, page in pages.items()}
    assert {name: _ASKS.findall(page) for name, page in told.items()} == {name: [] for name in pages}
    said = re.compile(f"[Oo]ur answer[^.]*{words}")
    assert {name for name, page in told.items() if said.search(page)} == _TELLS


@pytest.mark.parametrize("status", ["input_required", "auth_required"])
@pytest.mark.parametrize(
    ("lost", "words"), [(True, "sk whether our answer arrived"), (False, "et our answer be sent")]
)
def test_an_answer_that_people_have_to_look_after_is_put_to_them_as_that(
    agency: Agency, client_of: ClientOf, status: str, lost: bool, words: str
) -> None:
    """It was lost, or its seller is switched off: nobody asks us anything, nor wants other credentials."""
    operation = Operation.objects.get(status="input_required")
    if status == "auth_required":
        see(operation, answer("auth-required", task_id=operation.task_id), "poll")
    _answered(operation, left=lost)
    Continuation.objects.update(note=NOT_KNOWN if lost else "")
    if not lost:
        Seller.objects.filter(pk=operation.seller_id).update(active=False)
    reader, pages = client_of("Ad Ops"), _pages(operation, agency)
    for name in ("Today", "the queue"):
        page = read(reader, pages[name])
        assert words in page
        assert not re.search("asks something|wants other credentials|Answer the seller|new credentials", page)


def test_a_seller_whose_credentials_were_given_is_not_said_to_refuse_ours(agency: Agency) -> None:
    operation = Operation.objects.get(status="input_required")
    see(operation, answer("auth-required", task_id=operation.task_id), "poll")

    def said() -> str:
        lines, _ = sellers_shown(agency.people["Ad Ops"])
        return next(line.word for line in lines if line.name == operation.seller.name)

    assert said() == "Authorisation required"
    _answered(operation, left=False)
    assert said() != "Authorisation required"


def test_while_all_is_stopped_a_list_takes_no_more_queries_for_more_rows(
    agency: Agency, client_of: ClientOf
) -> None:
    team, reader = Operation.objects.get(status="input_required").team, client_of("Ad Ops")
    kill_switch_set(on=True, reason="A drill", actor="system")
    counted = []
    for _ in range(2):
        for row in range(3):
            named = {"team": team, "task_id": f"task-{len(counted)}-{row}"}
            _answered(stand("input_required", **named), left=False)
            stand("submitted", team=team, send_at=clock.now(), task_id="")
            stand("calling_adcp", team=team, send_at=clock.now())
        read(reader, list_of(Operation))
        with CaptureQueriesContext(connection) as queries:
            page = read(reader, list_of(Operation))
        assert page.count("Stopped by the kill switch") >= 9 * (len(counted) + 1)
        counted.append(len(queries))
    assert counted[0] == counted[1]

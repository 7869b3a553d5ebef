"""What a seller asks is put to people on many pages, and on none of them once somebody has answered it."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.urls import reverse

from campaigns.services import campaign_job
from orders.models import Deal
from tasks_app import clock
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller
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
    Seller.objects.filter(pk=operation.seller_id).update(protocol="a2a")
    Continuation.objects.create(
        operation=operation,
        generation=1,
        kind="input",
        descriptor=json.dumps({"task_id": "t", "context_id": "c"}),
        expires_at=now + timedelta(days=7),
        answer={"text": "Yes.", "changes": {}},
        answered_at=now,
        released_at=now,
        dispatched_at=now if left else None,
    )
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

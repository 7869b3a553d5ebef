"""A seller's numbers: the documents' own unless changed, each shown with its source."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError

from tasks_app.operations import policy
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tasks_app.sellers.timing import timing_clean, timing_numbers, timing_settings
from tests.ui.pages import STAFF, ClientOf, page_of, read, send
from tests.ui.seed import Agency

_CHANGERS = ("Ad Ops", "Administrator")


def interval(seller: Seller) -> float:
    found = policy.poll_interval(
        status=S.SUBMITTED, polls=0, age_s=0, webhook=False, retry_after_s=None, seller=seller
    )
    return found.total_seconds()


@pytest.mark.parametrize("role", STAFF)
def test_who_may_change_them(agency: Agency, client_of: ClientOf, settings: Any, role: str) -> None:
    settings.POLL_SCALE = 1.0
    seller = agency.sellers["cobalt"]

    answer = send(client_of(role), page_of(seller), {"timing": "1", "timing_submitted_s": "90"}, 1)

    seller.refresh_from_db()
    assert answer.status_code == (302 if role in _CHANGERS else 403)
    assert interval(seller) == (90 if role in _CHANGERS else 60)


def test_each_is_shown_with_its_source_and_an_empty_field_is_the_documents_own(
    agency: Agency, client_of: ClientOf
) -> None:
    seller, client = agency.sellers["cobalt"], client_of("Ad Ops")
    send(client, page_of(seller), {"timing": "1", "timing_submitted_s": "90", "timing_working_s": "5"}, 1)

    page = read(client, page_of(seller))
    assert "90: this seller's own" in page
    assert "5: document 000, Async Operation Handler" in page, (
        "what equals the default is not kept as its own"
    )
    assert "86400: document 000, Timeout Handling" in page
    send(client, page_of(seller), {"timing": "1", "timing_submitted_s": ""}, 1)
    seller.refresh_from_db()
    assert seller.timing == {}
    assert {one.name for one in timing_settings(seller)} == set(timing_numbers())


def test_a_bad_number_is_named_and_nothing_is_written(agency: Agency, client_of: ClientOf) -> None:
    seller = agency.sellers["cobalt"]
    form = {"timing": "1", "timing_submitted_s": "-3", "timing_call_attempts": "2"}
    answer = send(client_of("Ad Ops"), page_of(seller), form, 1)

    assert answer.status_code == 422
    assert "must be from 0.5 to 86400" in answer.content.decode()
    seller.refresh_from_db()
    assert seller.timing == {}


@pytest.mark.parametrize(
    "given",
    [
        {"nonsense": 1},
        {"submitted_s": float("nan")},
        {"submitted_s": float("inf")},
        {"submitted_s": "60"},
        {"submitted_s": True},
        {"submitted_s": 10**400},
        {"working_polls": 2.5},
        {"deadline_read_s": 0},
    ],
)
def test_what_no_number_of_ours_can_be_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        timing_clean(given)

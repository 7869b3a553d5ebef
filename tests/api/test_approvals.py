"""/api/v1/approvals/: what waits on people, and their word."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from orders.models import Deal
from orders.questions import ask_deal
from tasks_app.approvals.models import Approval, Decision
from tasks_app.lifecycle.models import AuditEntry
from tests.api.conftest import Open, client_of
from tests.factories import make_deal, make_seller, make_user

pytestmark = pytest.mark.django_db
ROOM = "/api/v1/approvals/"


@pytest.fixture
def approval() -> Approval:
    return ask_deal(make_deal())


@pytest.fixture
def api(opened: Open) -> APIClient:
    return opened("Approver")


def decide(api: APIClient, approval: Approval, **said: Any) -> Any:
    """On what is asked, unless it says otherwise."""
    said = {"evidence_digest": approval.evidence_digest, **said}
    return api.post(f"{ROOM}{approval.pk}/decide/", said, format="json")


def untouched(approval: Approval) -> bool:
    entries = AuditEntry.objects.filter(entity_id__in=(approval.pk, approval.subject_id)).count()
    approval.refresh_from_db()
    return (
        approval.status == "open"
        and entries == 2
        and not Decision.objects.exists()
        and Deal.objects.get(pk=approval.subject_id).status == "quoted"
    )


def test_pending_means_open(api: APIClient, approval: Approval) -> None:
    closed = ask_deal(make_deal(seller=make_seller("Kestrel Video")))
    decide(api, closed, verdict="reject", comment="Too dear.")

    pending = api.get(ROOM, {"status": "pending"}).json()["results"]
    assert [a["id"] for a in pending] == [str(approval.pk)]
    rejected = api.get(ROOM, {"status": "rejected"}).json()["results"]
    assert [a["id"] for a in rejected] == [str(closed.pk)]


def test_detail_shows_what_is_decided_on(api: APIClient, approval: Approval) -> None:
    told = api.get(f"{ROOM}{approval.reference}/").json()

    assert told["evidence"] == approval.evidence
    assert told["evidence_digest"] == approval.evidence_digest
    assert told["effects"]["approve"] == "Places the order at once."
    assert (told["label"], told["decisions"], told["amount"]) == ("Recommendation", [], "10250.0000")


@pytest.mark.parametrize("word", ["verdict", "decision"])
def test_a_decision_settles_the_question_and_the_deal(api: APIClient, approval: Approval, word: str) -> None:
    digest = api.get(f"{ROOM}{approval.pk}/").json()["evidence_digest"]

    answer = decide(api, approval, **{word: "approve"}, comment="Go.", evidence_digest=digest)

    assert answer.status_code == 200
    told = answer.json()
    assert told["status"] == "approved"
    assert [(d["verdict"], d["comment"]) for d in told["decisions"]] == [("approve", "Go.")]
    assert Deal.objects.get(pk=approval.subject_id).status == "accepted"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"verdict": "reject"}, 400),
        ({"verdict": "maybe"}, 400),
        ({}, 400),
        ({"verdict": "approve", "decision": "reject"}, 400),
        ({"verdict": "approve", "coment": "typo"}, 400),
        ({"verdict": "approve", "evidence_digest": "0" * 64}, 409),
    ],
)
def test_a_wrong_decision_changes_nothing(
    api: APIClient, approval: Approval, said: dict[str, str], status: int
) -> None:
    answer = decide(api, approval, **said)

    assert answer.status_code == status
    assert answer["Content-Type"] == "application/problem+json"
    assert untouched(approval)


def test_a_text_that_the_database_cannot_hold_is_refused(api: APIClient, approval: Approval) -> None:
    for text in ("\\u0000", "\\ud800"):
        digest = approval.evidence_digest
        body = f'{{"verdict": "approve", "comment": "{text}", "evidence_digest": "{digest}"}}'
        answer = api.post(f"{ROOM}{approval.pk}/decide/", body, content_type="application/json")
        assert answer.status_code == 400
    assert untouched(approval)


def test_a_service_account_never_decides(approval: Approval) -> None:
    service = make_user("Administrator")
    service.is_service = True
    service.save()

    answer = decide(client_of(service), approval, verdict="approve")

    assert (answer.status_code, answer.json()["code"]) == (403, "no_right")
    assert untouched(approval)


def test_the_requester_does_not_decide() -> None:
    asker = make_user("Administrator")
    approval = ask_deal(make_deal(requested_by=f"human:{asker.pk}"))

    answer = decide(client_of(asker), approval, verdict="approve")

    assert (answer.status_code, answer.json()["code"]) == (403, "own_request")
    assert untouched(approval)


def test_without_the_right_nobody_decides(opened: Open, approval: Approval) -> None:
    for role in ("Buyer", "Finance", "Auditor", "Ad Ops", "Integration"):
        assert decide(opened(role), approval, verdict="approve").status_code == 403
    assert decide(APIClient(), approval, verdict="approve").status_code == 401
    assert untouched(approval)


def test_another_teams_approval_is_not_there(opened: Open, strangers: Any, approval: Approval) -> None:
    stranger = opened("Approver", strangers())

    assert stranger.get(ROOM).json()["results"] == []
    assert stranger.get(f"{ROOM}{approval.pk}/").status_code == 404
    assert decide(stranger, approval, verdict="approve").status_code == 404
    assert untouched(approval)


def test_a_closed_question_stays_closed(api: APIClient, opened: Open, approval: Approval) -> None:
    decide(api, approval, verdict="approve")

    answer = decide(opened("Approver"), approval, verdict="reject", comment="No.")

    told = answer.json()
    assert (answer.status_code, told["status_now"], told["allowed"]) == (409, "approved", [])
    assert Decision.objects.count() == 1
    assert Deal.objects.get(pk=approval.subject_id).status == "accepted"


def test_the_list_asks_as_often_for_many_as_for_one(
    api: APIClient, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for name in ("a", "b", "c", "d"):
        ask_deal(make_deal(seller=make_seller(name)))
    with django_assert_max_num_queries(7):
        assert len(api.get(ROOM).json()["results"]) == 4

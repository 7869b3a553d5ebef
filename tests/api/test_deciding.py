"""Deciding through the API beside a single verdict: in part, many at once, claims, threads, delegations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from orders.models import Deal
from orders.questions import ask_deal
from orders.services import deal_total
from tasks_app import clock, ids
from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.records import ApprovalNote, Delegation
from tasks_app.people.models import User
from tests.api.conftest import Open, client_of
from tests.factories import make_deal, make_seller, make_team, make_user

pytestmark = pytest.mark.django_db
ROOM, DELEGATIONS = "/api/v1/approvals/", "/api/v1/delegations/"


@pytest.fixture
def approval() -> Approval:
    return ask_deal(make_deal())


@pytest.fixture
def ann() -> User:
    return make_user("Approver", name="ann")


@pytest.fixture
def api(ann: User) -> APIClient:
    return client_of(ann)


def post(api: APIClient, path: str, **said: Any) -> Any:
    return api.post(path, said, format="json")


def act(api: APIClient, approval: Approval, act: str, **said: Any) -> Any:
    return post(api, f"{ROOM}{approval.pk}/{act}/", **said)


def test_approving_other_amounts_answers_what_was_approved(api: APIClient, approval: Approval) -> None:
    answer = act(api, approval, "decide", verdict="approve", budgets=[{"line": 1, "budget": "9000.00"}])
    told = answer.json()
    assert answer.status_code == 200
    assert (told["status"], told["replaces"], told["amount"]) == ("approved", str(approval.pk), "9000.0000")
    assert {change["path"] for change in told["changes"]} >= {"gross"}
    assert told["decisions"][0]["evidence_digest"] == told["evidence_digest"]
    assert deal_total(Deal.objects.get()) == 9000


@pytest.mark.parametrize(
    "budgets",
    [
        [{"line": 1, "budget": "1"}],
        [{"line": 9, "budget": "10000"}],
        [{"line": 0, "budget": "10000"}],
        [{"line": 1, "budget": "-5"}],
        [{"line": 1, "budget": "NaN"}],
        [{"line": 1}],
        [{"line": 1, "budget": "9000"}, {"line": 1, "budget": "8000"}],
        [{"line": 1, "budget": "9000", "product": "x"}],
    ],
)
def test_wrong_amounts_change_nothing(api: APIClient, approval: Approval, budgets: Any) -> None:
    answer = act(api, approval, "decide", verdict="approve", budgets=budgets)
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert Approval.objects.get().status == "open"
    assert not Decision.objects.exists()


def test_several_are_decided_and_reported(api: APIClient, ann: User, approval: Approval) -> None:
    own = ask_deal(make_deal(seller=make_seller("Quill Audio"), requested_by=f"human:{ann.pk}"))
    unknown = ids.new_id()
    wanted = [
        {"id": str(approval.pk), "evidence_digest": approval.evidence_digest},
        {"id": str(own.pk), "evidence_digest": own.evidence_digest},
        {"id": str(unknown), "evidence_digest": "0" * 64},
    ]

    answer = post(api, f"{ROOM}decide/", verdict="approve", comment="Go.", approvals=wanted)

    told = answer.json()
    assert (answer.status_code, told["recorded"], told["refused"]) == (200, 1, 2)
    assert [(one["reference"], one["status"], one["code"]) for one in told["results"]] == [
        (approval.reference, "approved", ""),
        (own.reference, "open", "own_request"),
        ("", "", "not_found"),
    ]
    assert api.get(f"{ROOM}decided/{told['id']}/").json() == told
    assert client_of(make_user("Administrator")).get(f"{ROOM}decided/{told['id']}/").status_code == 404
    assert api.get(f"{ROOM}decided/{ids.new_id()}/").status_code == 404


def test_a_batch_without_what_was_read_is_none(api: APIClient, approval: Approval) -> None:
    for wrong in ([], [{"id": str(approval.pk)}], [{"id": str(approval.pk), "evidence_digest": ""}], None):
        assert post(api, f"{ROOM}decide/", verdict="approve", approvals=wrong).status_code == 400
    assert not Decision.objects.exists()


def test_claimed_released_and_reassigned(api: APIClient, ann: User, approval: Approval) -> None:
    abe = make_user("Approver", name="abe")
    other = client_of(abe)

    told = act(api, approval, "claim").json()
    assert told["claimed_by"] == f"human:{ann.pk}"
    assert told["claimed_until"] is not None
    taken = act(other, approval, "claim")
    assert (taken.status_code, taken.json()["code"]) == (409, "claimed")
    assert act(other, approval, "release").status_code == 409
    assert act(api, approval, "release").json()["claimed_by"] == ""
    assert (
        act(other, approval, "reassign", to="ann", comment="Yours").json()["claimed_by"] == f"human:{ann.pk}"
    )
    for nobody in ("nobody", make_user("Approver", team=make_team("Elsewhere")).username):
        assert act(api, approval, "reassign", to=nobody).status_code == 400
    refused = act(api, approval, "reassign", to=make_user("Buyer", name="bo").username)
    assert (refused.status_code, refused.json()["code"]) == (409, "cannot_decide")
    notes = api.get(f"{ROOM}{approval.pk}/").json()["notes"]
    assert [(note["kind"], note["actor_name"], note["to_name"]) for note in notes] == [
        ("claim", "ann", ""),
        ("release", "ann", ""),
        ("reassign", "abe", "ann"),
    ]


def test_whoever_reads_may_say_something(opened: Open, approval: Approval) -> None:
    answer = act(opened("Auditor"), approval, "comment", body="Why this seller?")
    assert (answer.status_code, answer.json()["body"]) == (201, "Why this seller?")
    assert act(opened("Auditor"), approval, "comment", body=" ").status_code == 400
    stranger = opened("Approver", make_team("Elsewhere"))
    for one in ("comment", "claim", "release"):
        assert act(stranger, approval, one, body="x").status_code == 404
    assert ApprovalNote.objects.count() == 1


@pytest.mark.parametrize("role", ["Buyer", "Ad Ops", "Finance", "Auditor", "Integration"])
def test_without_the_right_nothing_is_taken_or_passed_on(opened: Open, approval: Approval, role: str) -> None:
    api = opened(role)
    for one in ("claim", "release", "reassign"):
        assert act(api, approval, one, to="x").status_code == 403
    assert post(api, f"{ROOM}decide/", verdict="approve", approvals=[]).status_code == 403
    assert post(api, DELEGATIONS).status_code == api.get(DELEGATIONS).status_code == 403
    assert not ApprovalNote.objects.exists()


def test_delegations_are_made_seen_and_ended(api: APIClient, ann: User, approval: Approval) -> None:
    abe = client_of(make_user("Approver", name="abe"))
    times = {
        "starts_at": (clock.now() - timedelta(hours=1)).isoformat(),
        "ends_at": (clock.now() + timedelta(days=3)).isoformat(),
    }
    made = post(api, DELEGATIONS, delegate="abe", reason="Leave", **times)
    assert (made.status_code, made.json()["delegator"], made.json()["delegate"]) == (201, "ann", "abe")
    theirs = post(api, DELEGATIONS, delegator="abe", delegate="ann", **times)
    assert theirs.status_code == 409
    address = f"{DELEGATIONS}{made.json()['id']}/"
    for client in (api, abe):
        assert client.get(address).json() == made.json()
        assert len(client.get(DELEGATIONS).json()["results"]) == 1
    assert client_of(make_user("Approver")).get(address).status_code == 404

    told = act(abe, approval, "decide", verdict="approve", on_behalf_of="ann").json()
    assert [(one["actor_name"], one["on_behalf_of_name"]) for one in told["decisions"]] == [("abe", "ann")]

    assert post(abe, f"{address}end/").json()["ended_at"] is not None
    assert post(api, f"{address}end/").status_code == 409
    assert Delegation.objects.count() == 1


def test_one_approval_takes_few_queries(
    api: APIClient, approval: Approval, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(5):
        act(api, approval, "comment", body=f"No. {number}")
    with django_assert_max_num_queries(8):
        assert len(api.get(f"{ROOM}{approval.pk}/").json()["notes"]) == 5

"""Deciding through the API beside a single verdict: in part, many at once, claims, threads, delegations."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from orders.amounts import deal_amounts
from orders.models import Deal
from orders.questions import ask_deal
from tasks_app import clock, ids
from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.records import ApprovalNote, Delegation
from tasks_app.people.models import User
from tests.api.conftest import Open, client_of
from tests.factories import make_deal, make_line, make_seller, make_team, make_user

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
    digest = {"evidence_digest": approval.evidence_digest} if act == "decide" else {}
    return post(api, f"{ROOM}{approval.pk}/{act}/", **digest, **said)


def test_approving_other_amounts_answers_what_was_approved(api: APIClient, approval: Approval) -> None:
    answer = act(api, approval, "decide", verdict="approve", budgets=[{"line": 1, "budget": "9000.00"}])
    told = answer.json()
    assert answer.status_code == 200
    assert (told["status"], told["replaces"], told["amount"]) == ("approved", str(approval.pk), "9000.0000")
    assert {change["path"] for change in told["changes"]} >= {"gross"}
    assert told["decisions"][0]["evidence_digest"] == told["evidence_digest"]
    assert deal_amounts(Deal.objects.get()).approved == 9000


@pytest.mark.parametrize("written", ["900.125", 900.125])
def test_an_amount_is_read_in_the_approvals_currency(api: APIClient, written: Any) -> None:
    asked = ask_deal(make_deal(make_line(budget=Decimal(950), minimum=Decimal(100)), currency="BHD"))
    answer = act(api, asked, "decide", verdict="approve", budgets=[{"line": 1, "budget": written}])
    assert answer.status_code == 200, answer.json()
    assert answer.json()["amount"] == "900.1250"


def test_a_number_of_json_says_one_thing_and_a_text_may_say_two(api: APIClient) -> None:
    asked = ask_deal(make_deal(make_line(budget=Decimal(950), minimum=Decimal(100))))
    text = act(api, asked, "decide", verdict="approve", budgets=[{"line": 1, "budget": "900.125"}])
    assert text.status_code == 400
    assert "can be read as 900.12 or as 900125" in text.json()["errors"]["budgets"][0]
    number = act(api, asked, "decide", verdict="approve", budgets=[{"line": 1, "budget": 900.125}])
    assert number.status_code == 400
    assert not Decision.objects.exists()
    exact = act(api, asked, "decide", verdict="approve", budgets=[{"line": 1, "budget": 900.5}])
    assert (exact.status_code, exact.json()["amount"]) == (200, "900.5000")


@pytest.mark.parametrize(
    "budgets",
    [
        [{"line": 1, "budget": "1"}],
        [{"line": 9, "budget": "10000"}],
        [{"line": 0, "budget": "10000"}],
        [{"line": 1, "budget": "-5"}],
        [{"line": 1, "budget": "NaN"}],
        [{"line": 1, "budget": True}],
        [{"line": 1, "budget": None}],
        [{"line": 1, "budget": 10**30}],
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
    with django_assert_max_num_queries(9):  # one of them for how its account stands now
        assert len(api.get(f"{ROOM}{approval.pk}/").json()["notes"]) == 5


STALE = "0" * 64


@pytest.mark.parametrize(
    ("said", "status", "code"),
    [
        ({}, 400, "digest"),
        ({"evidence_digest": ""}, 400, "digest"),
        ({"evidence_digest": None}, 400, "digest"),
        ({"evidence_digest": STALE}, 409, "changed"),
    ],
)
def test_a_decision_on_something_else_is_refused_with_what_is_asked(
    api: APIClient, approval: Approval, said: dict[str, Any], status: int, code: str
) -> None:
    answer = post(api, f"{ROOM}{approval.pk}/decide/", verdict="approve", **said)

    told = answer.json()
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    assert (told["status"], told["code"]) == (status, code)
    (now,) = told["shown"]
    assert (now["id"], now["evidence"]) == (str(approval.pk), approval.evidence)
    assert not Decision.objects.exists()
    again = post(api, f"{ROOM}{now['id']}/decide/", verdict="approve", evidence_digest=now["evidence_digest"])
    assert again.status_code == 200


def test_what_changed_is_told_as_it_is_asked_anew(api: APIClient, approval: Approval) -> None:
    Deal.objects.get().lines.update(rate=Decimal("12.5"))

    told = act(api, approval, "decide", verdict="approve").json()

    (now,) = told["shown"]
    anew = Approval.objects.get(status="open")
    assert (told["code"], now["id"], now["reference"]) == ("changed", str(anew.pk), anew.reference)
    assert now["evidence"]["lines"][0]["rate"] == "12.500000"
    assert act(api, anew, "decide", verdict="approve").status_code == 200


@pytest.mark.parametrize("wrong", [{}, {"evidence_digest": ""}])
def test_several_without_what_was_read_of_each_are_refused_with_what_is_asked(
    api: APIClient, approval: Approval, wrong: dict[str, str]
) -> None:
    other = ask_deal(make_deal(seller=make_seller("Quill Audio")))
    hidden = ask_deal(make_deal(seller=make_seller("Elsewhere Ads")))
    Approval.objects.filter(pk=hidden.pk).update(team=make_team("Elsewhere"))
    wanted = [
        {"id": str(approval.pk), "evidence_digest": approval.evidence_digest},
        *({"id": str(one.pk), **wrong} for one in (other, hidden)),
    ]

    answer = post(api, f"{ROOM}decide/", verdict="approve", approvals=wanted)

    told = answer.json()
    assert (answer.status_code, told["code"]) == (400, "digest")
    assert {one["id"] for one in told["shown"]} == {str(approval.pk), str(other.pk)}
    assert not Decision.objects.exists()


def test_of_several_a_stale_one_is_reported_with_what_is_asked(api: APIClient, approval: Approval) -> None:
    other = ask_deal(make_deal(seller=make_seller("Quill Audio")))
    wanted = [
        {"id": str(approval.pk), "evidence_digest": STALE},
        {"id": str(other.pk), "evidence_digest": other.evidence_digest},
    ]

    stale, fine = post(api, f"{ROOM}decide/", verdict="approve", approvals=wanted).json()["results"]

    assert (stale["code"], stale["shown"]["evidence_digest"]) == ("changed", approval.evidence_digest)
    assert (fine["code"], fine["shown"], fine["status"]) == ("", None, "approved")

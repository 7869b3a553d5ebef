"""/api/v1/campaigns/: briefs in, campaigns out, one word on all that waits."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
import yaml
from django.conf import settings
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from campaigns.models import Allocation, Campaign
from orders.models import Deal
from orders.questions import ask_deal
from tasks_app import clock
from tasks_app.approvals.models import Approval, Decision
from tasks_app.jobs.models import Job
from tasks_app.people.models import User
from tests.api.conftest import Open, client_of
from tests.campaigns.briefs import brief, future
from tests.factories import make_advertiser, make_deal, make_line, make_seller, make_team, make_user

pytestmark = pytest.mark.django_db
ROOM = "/api/v1/campaigns/"


@pytest.fixture
def buyer() -> User:
    make_advertiser()
    return make_user("Buyer")


@pytest.fixture
def api(buyer: User) -> APIClient:
    return client_of(buyer)


def submitted(api: APIClient, **changed: Any) -> dict[str, Any]:
    answer = api.post(ROOM, future(**changed), format="json")
    assert answer.status_code == 201, answer.content
    return dict(answer.json())


KEY = {"Idempotency-Key": "brief-4711"}


def test_the_same_brief_under_one_key_is_one_campaign(api: APIClient, opened: Open) -> None:
    """Its answer was lost, and it is sent again: the budget is put to people once."""
    body = future(flight__start="+30d", flight__end="+50d")
    first, later = api.post(ROOM, body, format="json", headers=KEY), clock.now() + timedelta(hours=30)
    with clock.injected(lambda: later):
        again = api.post(ROOM, body, format="json", headers=KEY)
    assert (first.status_code, again.status_code) == (201, 200), again.content
    assert (again.json()["id"], again["Location"]) == (first.json()["id"], first["Location"])
    assert (Campaign.objects.count(), Job.objects.count()) == (1, 1)

    other = api.post(ROOM, future(budget__total=1000), format="json", headers=KEY)
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_KEY_CONFLICT")
    assert api.post(ROOM, body, format="json").status_code == 201, "without a key each is one of its own"
    assert opened("Buyer").post(ROOM, body, format="json", headers=KEY).status_code == 201, (
        "keys are each own"
    )
    assert Campaign.objects.count() == 3


@pytest.mark.parametrize("key", ["with a blank", "x" * 256, "\u00e9"])
def test_a_key_that_is_none_is_refused(api: APIClient, key: str) -> None:
    answer = api.post(ROOM, future(), format="json", HTTP_IDEMPOTENCY_KEY=key)
    assert (answer.status_code, list(answer.json()["errors"])) == (400, ["Idempotency-Key"])
    assert not Campaign.objects.exists()


def test_a_wrong_brief_is_kept_once_for_a_key(api: APIClient) -> None:
    bodies = [future(budget__total=-1)] * 2
    first, again = (api.post(ROOM, body, format="json", headers=KEY).json() for body in bodies)
    assert (first["status"], first["id"]) == ("validation_failed", again["id"])


def test_who_may_see_it_no_more_is_told_nothing_of_it_by_its_key(buyer: User, api: APIClient) -> None:
    assert api.post(ROOM, future(), format="json", headers=KEY).status_code == 201
    buyer.teams.set([make_team("Another house")])
    answer = client_of(User.objects.get(pk=buyer.pk)).post(ROOM, future(), format="json", headers=KEY)
    assert answer.status_code == 404
    assert Campaign.objects.count() == 1


def test_every_problem_of_a_field_is_told(opened: Open) -> None:
    """Of a brief that is nobody's, as one of several teams' members sends it."""
    user = make_user("Buyer")
    user.teams.add(make_team("Second"))
    wrong = future(
        channels=["ctv", "ctv", {"channel": "olv", "fixed": 10, "minimum": 5}], advertiser="Nobody"
    )
    answer = client_of(user).post(ROOM, wrong, format="json")
    assert answer.status_code == 400
    assert {"channels", "channels.2"} <= answer.json()["errors"].keys()
    two = future(channels=["ctv", "ctv", {"channel": "olv", "fixed": 9_000_000}], advertiser="Nobody")
    told = client_of(user).post(ROOM, two, format="json").json()["errors"]["channels"]
    assert len(told) == 2, told


def test_a_right_brief_becomes_a_campaign_with_its_job(api: APIClient) -> None:
    answer = api.post(ROOM, future(), format="json")

    assert answer.status_code == 201
    told = answer.json()
    assert (told["status"], told["problems"]) == ("brief_received", [])
    assert answer["Location"].endswith(f"{ROOM}{told['id']}/")
    detail = api.get(answer["Location"]).json()
    assert detail["job"]["reference"] == Job.objects.get().reference
    assert detail["brief"]["name"] == "Cold brew, spring"


def test_yaml_is_taken_as_text(api: APIClient) -> None:
    answer = api.post(ROOM, yaml.safe_dump(future()), content_type="application/yaml")

    assert answer.status_code == 201
    assert answer.json()["problems"] == []


def test_a_wrong_brief_is_kept_with_every_problem_by_field(api: APIClient) -> None:
    told = submitted(api, budget__total=-5, channels=["skywriting"], flight__end="2020-01-01")

    assert told["status"] == "validation_failed"
    fields = {problem["field"] for problem in told["problems"]}
    assert {"budget.total", "channels.0.channel", "flight.end"} <= fields
    assert not Job.objects.exists()


def test_a_flight_at_the_end_of_time_is_a_problem_not_an_error(api: APIClient) -> None:
    told = submitted(api, flight__end="9999-12-31")

    assert told["status"] == "validation_failed"


NAN = json.dumps(brief()).replace("250000", "NaN")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "application/json"),
        (b"", "application/yaml"),
        (b'{"name": ', "application/json"),
        (b"[1, 2]", "application/json"),
        (NAN.encode(), "application/json"),
        (b'{"name": "a", "name": "b"}', "application/json"),
        (b'{"name": "\\ud800"}', "application/json"),
        (b"{" * 100_000, "application/json"),
        (b"\xff\xfe", "application/json"),
        (b"name: [", "application/yaml"),
        (b"a: &x [1]\nb: *x", "application/yaml"),
        (b"just words", "application/yaml"),
    ],
)
def test_what_is_no_brief_makes_no_campaign(api: APIClient, body: bytes, kind: str) -> None:
    answer = api.post(ROOM, body, content_type=kind)

    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert not Campaign.objects.exists()


@pytest.mark.parametrize("size", [settings.MAX_BRIEF_BYTES + 1, 5 * 2**20])
def test_a_brief_that_is_too_large_is_413(api: APIClient, size: int) -> None:
    answer = api.post(ROOM, b'{"name": "' + b"a" * size + b'"}', content_type="application/json")

    assert answer.status_code == 413
    assert answer["Content-Type"] == "application/problem+json"
    assert not Campaign.objects.exists()


def test_another_form_of_body_is_415(api: APIClient) -> None:
    assert api.post(ROOM, "name=x", content_type="application/x-www-form-urlencoded").status_code == 415


def test_who_may_not_submit_is_refused_and_nothing_is_kept(opened: Open) -> None:
    assert opened("Approver").post(ROOM, future(), format="json").status_code == 403
    assert APIClient().post(ROOM, future(), format="json").status_code == 401
    assert not Campaign.objects.exists()


def test_detail_by_reference_with_allocations_and_deals(api: APIClient) -> None:
    campaign = Campaign.objects.get(pk=submitted(api)["id"])
    Allocation.objects.create(campaign=campaign, channel="olv", amount=1000)
    deal = make_deal(campaign_id=campaign.pk)

    told = api.get(f"{ROOM}{campaign.reference.lower()}/").json()

    assert told["allocations"] == [{"channel": "olv", "amount": "1000.0000"}]
    assert [(d["reference"], d["gross"]) for d in told["deals"]] == [(deal.reference, "10250.0000")]
    assert told["outcome"] == {}


def test_list_by_status_in_pages(api: APIClient) -> None:
    first, second = submitted(api), submitted(api)
    submitted(api, budget__total=-1)

    page = api.get(ROOM, {"status": "brief_received", "page_size": "1"}).json()
    assert [c["id"] for c in page["results"]] == [second["id"]]
    rest = api.get(page["next"]).json()
    assert [c["id"] for c in rest["results"]] == [first["id"]]
    assert api.get(ROOM, {"status": "nonsense"}).status_code == 400


def test_another_teams_campaign_is_not_there(api: APIClient, opened: Open, strangers: Any) -> None:
    told = submitted(api)
    stranger = opened("Administrator", strangers())

    assert stranger.get(ROOM).json()["results"] == []
    for name in (told["id"], told["reference"]):
        assert stranger.get(f"{ROOM}{name}/").status_code == 404
        assert (
            stranger.post(f"{ROOM}{name}/decide/", {"verdict": "approve"}, format="json").status_code == 404
        )


def test_the_list_asks_as_often_for_many_as_for_one(
    api: APIClient, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(6):
        submitted(api)
    with django_assert_max_num_queries(6):
        assert len(api.get(ROOM).json()["results"]) == 6


def asked(api: APIClient, buyer: User) -> tuple[Campaign, list[Approval]]:
    """A campaign with two recommendations before people."""
    campaign = Campaign.objects.get(pk=submitted(api)["id"])
    by = f"human:{buyer.pk}"
    deals = [
        make_deal(make_line(), seller=make_seller(name), campaign_id=campaign.pk, requested_by=by)
        for name in ("Norrland Digital", "Kestrel Video")
    ]
    return campaign, [ask_deal(deal) for deal in deals]


def shown(approvals: list[Approval]) -> list[dict[str, str]]:
    return [{"id": str(one.pk), "evidence_digest": one.evidence_digest} for one in approvals]


def test_one_word_on_all_decides_each_and_reports_each(api: APIClient, buyer: User, opened: Open) -> None:
    campaign, approvals = asked(api, buyer)
    other = ask_deal(make_deal(seller=make_seller("Elsewhere")))

    answer = opened("Approver").post(
        f"{ROOM}{campaign.reference}/decide/",
        {"verdict": "approve", "comment": "Good.", "approvals": shown(approvals)},
        format="json",
    )

    told = answer.json()
    assert (answer.status_code, told["decided"], told["refused"]) == (200, 2, 0)
    assert {one["approval_id"] for one in told["results"]} == {str(a.pk) for a in approvals}
    assert {one["deal_status"] for one in told["results"]} == {"accepted"}
    assert Decision.objects.filter(comment="Good.").count() == 2
    other.refresh_from_db()
    assert other.status == "open"


def test_a_refused_one_is_reported_and_changes_nothing(api: APIClient, buyer: User) -> None:
    campaign, approvals = asked(api, buyer)
    own = make_user("Administrator")
    Deal.objects.filter(campaign_id=campaign.pk).update(requested_by=f"human:{own.pk}")
    Approval.objects.update(requested_by=f"human:{own.pk}")

    said = {"verdict": "approve", "approvals": shown(approvals)}
    told = client_of(own).post(f"{ROOM}{campaign.pk}/decide/", said, format="json").json()

    assert (told["decided"], {one["code"] for one in told["results"]}) == (0, {"own_request"})
    assert not Decision.objects.exists()
    assert set(Deal.objects.values_list("status", flat=True)) == {"quoted"}


def test_who_may_not_decide_decides_on_none(api: APIClient, buyer: User) -> None:
    campaign, _ = asked(api, buyer)

    assert api.post(f"{ROOM}{campaign.pk}/decide/", {"verdict": "approve"}, format="json").status_code == 403
    assert not Decision.objects.exists()


def test_one_word_on_all_says_what_was_read_of_each(api: APIClient, buyer: User, opened: Open) -> None:
    campaign, (first, second) = asked(api, buyer)
    approver, room = opened("Approver"), f"{ROOM}{campaign.pk}/decide/"

    nothing = approver.post(room, {"verdict": "approve"}, format="json")
    assert (nothing.status_code, nothing["Content-Type"]) == (400, "application/problem+json")
    assert {one["id"] for one in nothing.json()["shown"]} == {str(first.pk), str(second.pk)}
    assert not Decision.objects.exists()

    said = {"verdict": "approve", "approvals": shown([first])}
    told = {one["approval_id"]: one for one in approver.post(room, said, format="json").json()["results"]}
    assert (told[str(first.pk)]["decided"], told[str(first.pk)]["shown"]) == (True, None)
    unread = told[str(second.pk)]
    assert (unread["decided"], unread["code"]) == (False, "digest")
    assert unread["shown"]["evidence_digest"] == second.evidence_digest


def test_parts_of_which_one_is_refused_are_a_conflict(api: APIClient, buyer: User, opened: Open) -> None:
    campaign, (first, second) = asked(api, buyer)
    said = {
        "verdict": "approve",
        "approvals": shown([first, second]),
        "parts": [
            {"approval": str(first.pk)},
            {"approval": str(second.pk), "budgets": [{"line": 7, "budget": "1"}]},
        ],
    }

    answer = opened("Approver").post(f"{ROOM}{campaign.pk}/decide/", said, format="json")

    told = answer.json()
    assert (answer.status_code, told["code"], told["title"]) == (409, "parts_refused", "There is no line 7.")
    assert [one["code"] for one in told["results"]] == ["not_decided", "limits"]
    assert not Decision.objects.exists()

"""Policies on their pages: in words, edited as new versions with who, when and why, seen on the approval."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.utils import ProgrammingError
from django.urls import reverse

from tasks_app.approvals.policy_applying import policies_latest
from tasks_app.approvals.policy_models import ApprovalPolicy, ExchangeRate
from tasks_app.people.models import Advertiser
from tests.factories import make_user
from tests.ui.pages import ClientOf, list_of, page_of, read, send, stranger
from tests.ui.seed import Agency

ADD = "admin:tasks_app_approvalpolicy_add"
WORDS = "admin:tasks_app_approvalpolicy_words"
KEY = "over-100000-usd"


def form(**fields: Any) -> dict[str, Any]:
    given = {
        "name": "Spirits and betting",
        "rule": "sensitive",
        "categories": "age_restricted, gambling_advertising",
        "gap_days": "1",
        "kinds": ["deal", "deal_change"],
        "quorum": "2",
        "roles": ["Administrator", "Approver"],
        "deadline": "8",
        "business_hours": "on",
        "escalate_after": "4",
        "escalate_to": "Administrator",
        "on_expiry": "wait",
        "active": "on",
        "reason": "The client's lawyers asked for it",
    }
    return {**given, **fields}


def over() -> ApprovalPolicy:
    return policies_latest().get(key=KEY)


def edited(**fields: Any) -> dict[str, Any]:
    """The form of the policy over the limit as it stands, with `fields` changed."""
    stands = over()
    return {
        "version": str(stands.version),
        "name": stands.name,
        "rule": "amount",
        "limit": "1000000",
        "currency": "USD",
        "gap_days": "1",
        "kinds": stands.kinds,
        "quorum": "2",
        "active": "on",
        "reason": "Less risk",
        **fields,
    }


def test_a_policy_is_made_seen_and_told_in_words(agency: Agency, client_of: ClientOf) -> None:
    client = client_of("Administrator")
    assert "In words" in read(client, reverse(ADD))

    answer = client.post(reverse(ADD), form())

    made = ApprovalPolicy.objects.get(rule="sensitive")
    assert answer.status_code == 302
    assert (made.key, made.version, made.quorum, made.roles) == (
        "spirits-and-betting",
        1,
        2,
        ["Administrator", "Approver"],
    )
    assert (str(made.deadline), str(made.escalate_after), made.on_expiry) == ("8:00:00", "4:00:00", "wait")
    page = read(client_of("Auditor"), page_of(made))
    assert "puts under age_restricted or gambling_advertising" in page
    assert "They have 8 hours, counted in the seller’s business hours where they are known" in page
    assert "Ada Okafor" in page
    assert "Save" not in page
    assert "Spirits and betting" in read(client, list_of(ApprovalPolicy))


def test_an_edit_is_a_new_version_with_who_when_and_from_what(agency: Agency, client_of: ClientOf) -> None:
    client, before = client_of("Administrator"), over()
    make_user("Approver")

    answer = client.post(page_of(before), edited(limit="50000", quorum="3"))

    after = over()
    assert answer.status_code == 302
    assert (after.version, after.limit, after.quorum) == (before.version + 1, 50_000, 3)
    assert after.changes == {"limit": ["1000000", "50000"], "quorum": [2, 3]}
    before.refresh_from_db()
    assert before.limit == 1_000_000, "the version that caught what is open stays"
    page = read(client, page_of(before))
    assert "limit: 1000000 → 50000" in page
    assert "Less risk" in page
    assert f"Save as version {after.version + 1}" in page


def test_two_who_edit_at_once_do_not_overwrite_each_other(agency: Agency, client_of: ClientOf) -> None:
    client, seen = client_of("Administrator"), over()
    client.post(page_of(seen), edited(limit="50000"))

    answer = client.post(page_of(seen), edited(limit="70000", version=str(seen.version)))

    assert answer.status_code == 400
    page = answer.content.decode()
    assert "Somebody changed it first" in page
    again = re.search(r'name="version" value="(\d+)"', page)
    assert again is not None
    answer = client.post(page_of(seen), edited(limit="70000", version=again[1]))
    assert answer.status_code == 400, "a second click is no second reading"
    assert over().limit == 50_000


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"categories": ""}, "Name at least one category"),
        ({"rule": "amount", "limit": "", "currency": "USD"}, "Name the limit, above 0."),
        ({"rule": "amount", "limit": "5", "currency": "XYZ"}, "Name an ISO 4217 currency"),
        ({"rule": "amount", "limit": "0.001", "currency": "USD"}, "finer than the smallest unit"),
        ({"rule": "change", "percent": ""}, "Name the percentage"),
        ({"roles": ["Buyer"]}, "Buyer is not one of the available choices"),
        ({"kinds": []}, "This field is required"),
        ({"quorum": "0"}, "greater than or equal to 1"),
        ({"escalate_after": "9"}, "It is escalated before its deadline."),
        ({"escalate_after": "", "on_expiry": ""}, "Say both after how long"),
        ({"escalate_after": "", "escalate_to": ""}, "What keeps waiting is escalated"),
        ({"deadline": "1000000000"}, "Ensure that there are no more than"),
        ({"reason": " "}, "This field is required"),
    ],
)
def test_a_wrong_policy_is_refused_and_nothing_is_kept(
    agency: Agency, client_of: ClientOf, wrong: dict[str, Any], said: str
) -> None:
    kept = ApprovalPolicy.objects.count()
    answer = client_of("Administrator").post(reverse(ADD), form(**wrong))
    assert answer.status_code == 400
    assert said in answer.content.decode().replace("&#x27;", "'")
    assert ApprovalPolicy.objects.count() == kept


@pytest.mark.parametrize("role", ["Buyer", "Approver", "Ad Ops", "Finance", "Auditor"])
def test_only_administrators_write(agency: Agency, client_of: ClientOf, role: str) -> None:
    client, kept = client_of(role), ApprovalPolicy.objects.count()
    assert "In words" in read(client, page_of(over()))
    for address, said in ((reverse(ADD), form()), (page_of(over()), edited()), (reverse(WORDS), form())):
        assert client.post(address, said).status_code == 403
    assert client.post(reverse("admin:tasks_app_exchangerate_add"), rate()).status_code == 403
    assert (ApprovalPolicy.objects.count(), ExchangeRate.objects.count()) == (kept, 1)


def test_a_teams_policy_is_no_other_teams(agency: Agency, client_of: ClientOf) -> None:
    team = agency.people["Administrator"].teams.get()
    client_of("Administrator").post(reverse(ADD), form(team=str(team.pk)))
    made = ApprovalPolicy.objects.get(rule="sensitive")
    client = stranger()
    assert "Spirits" not in read(client, list_of(ApprovalPolicy))
    assert client.post(page_of(made), edited()).status_code == 302, "there is no such page for them"
    assert ApprovalPolicy.objects.filter(key=made.key).count() == 1


def test_the_words_follow_the_form(agency: Agency, client_of: ClientOf) -> None:
    client = client_of("Administrator")
    said = client.post(reverse(WORDS), edited(limit="250000", currency="eur")).content.decode()
    assert "250,000.00 EUR or more" in said
    assert "a limit not said yet" in client.post(reverse(WORDS), edited(limit="x")).content.decode()
    assert client.get(reverse(WORDS)).status_code == 405


def rate(**fields: str) -> dict[str, str]:
    return {"currency": "sek", "day": "2026-11-02", "usd": "0.091", "source": "Riksbank", **fields}


def test_a_rate_is_added_and_shown(agency: Agency, client_of: ClientOf) -> None:
    client, add = client_of("Administrator"), reverse("admin:tasks_app_exchangerate_add")
    assert client.post(add, rate()).status_code == 302
    page = read(client_of("Finance"), list_of(ExchangeRate))
    assert "SEK" in page
    assert "0.091" in page
    for wrong in (
        {"currency": "USD"},
        {"currency": "xx"},
        {"day": "2199-01-01"},
        {"usd": "0"},
        {"source": " "},
    ):
        assert client.post(add, rate(**wrong)).status_code == 200
    assert ExchangeRate.objects.filter(currency="SEK").count() == 1


@pytest.mark.parametrize(
    "tried",
    [
        "update tasks_app_approvalpolicy set quorum = 1",
        "delete from tasks_app_approvalpolicy",
        "update tasks_app_exchangerate set usd = 1",
        "delete from tasks_app_approvalescalation",
    ],
)
def test_what_was_written_stays(agency: Agency, tried: str) -> None:
    with (
        pytest.raises(ProgrammingError, match="permission denied"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(tried)


def test_an_approval_names_what_caught_it(
    agency: Agency, client_of: ClientOf, django_assert_max_num_queries: Any
) -> None:
    approval = agency.question("aldous-olv")
    client = client_of("Approver")
    page = read(client, page_of(approval))
    assert "Every recommendation, one approver version 1 It is put to people" in page
    assert "One person with the right to decide, never the requester." in page
    administrator = client_of("Administrator")
    for address in (page_of(over()), list_of(ApprovalPolicy), reverse(ADD)):
        with django_assert_max_num_queries(25):
            administrator.get(address)


def test_an_administrator_names_an_advertisers_categories(agency: Agency, client_of: ClientOf) -> None:
    advertiser, client = Advertiser.objects.get(name="Aldous Pharma"), client_of("Administrator")
    said = {"name": advertiser.name, "brand_domain": advertiser.brand_domain, "team": advertiser.team_id}
    for written, kept in (
        ("pharmaceutical_advertising, age_restricted,", ["pharmaceutical_advertising", "age_restricted"]),
        ("Not a category!", ["pharmaceutical_advertising", "age_restricted"]),
        ("", []),
    ):
        send(client, page_of(advertiser), {**said, "policy_categories": written})
        advertiser.refresh_from_db()
        assert advertiser.policy_categories == kept

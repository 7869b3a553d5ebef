"""A brief as a form and as text: problems beside their fields, drafts, copies, submitted once."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import QueryDict
from django.test import Client
from django.urls import reverse

from campaigns.brief import Brief, brief_validate
from campaigns.briefs.conversion import BriefEntry, entry_data
from campaigns.briefs.drafts import MOST_DRAFTS
from campaigns.models import BriefDraft, Campaign
from tasks_app import clock, ids
from tasks_app.people.models import User
from tests.campaigns.briefs import future
from tests.factories import make_advertiser, make_seller, make_team, make_user

pytestmark = pytest.mark.django_db
FORM, TEXT, DRAFT = "admin:campaign_submit", "admin:campaign_submit_text", "admin:campaign_draft"


@pytest.fixture
def buyer() -> User:
    make_advertiser("Lindqvist Coffee")
    make_seller("Cobalt Bay TV")
    return make_user("Buyer", is_staff=True)


@pytest.fixture
def client(buyer: User) -> Client:
    client = Client()
    client.force_login(buyer, backend="tasks_app.people.holders.RoleBackend")
    return client


def typed(buyer: User, **changes: Any) -> dict[str, Any]:
    """A right brief as the form sends it; a list for each field."""
    data = entry_data(wanted(), user=buyer)
    fields = {name: data.getlist(name) for name in data}
    return {**fields, "token": str(ids.new_id()), **changes}


def wanted(**changes: Any) -> dict[str, Any]:
    return future(brand_domain=make_advertiser("Lindqvist Coffee").brand_domain, **changes)


def body(answer: Any) -> str:
    return str(answer.content.decode())


def test_the_form_holds_a_whole_brief(buyer: User) -> None:
    whole = wanted(
        channels=[
            {"channel": "ctv", "weight": 2, "minimum": 50_000},
            "podcast",
            {"channel": "ooh", "fixed": 9},
        ],
        geography={"countries": ["US"], "regions": ["US-IL", "US-NY"]},
        audience="Commuters",
        formats=["video_hosted"],
        measurement=["lift"],
        policy_categories=["age_restricted"],
        booking="together",
        constraints={"ceilings": {"cpm": 30}, "excluded_sellers": ["cobalt-bay-tv"]},
    )
    for raw in (wanted(), whole):
        again = BriefEntry(entry_data(raw, user=buyer), user=buyer).brief()
        brief, read = (brief_validate(one, now=clock.now())[0] for one in (raw, again))
        assert brief is not None
        assert read is not None
        amounts = [
            [(wish.channel, wish.minimum, wish.fixed) for wish in one.channels] for one in (brief, read)
        ]
        assert amounts[0] == amounts[1]
        assert read.model_copy(update={"channels": brief.channels, "team": None}) == brief
    assert [row.value("share") for row in BriefEntry(entry_data(whole, user=buyer), user=buyer).channels] == [
        "66.67",
        "33.33",
        "",
    ]


def test_each_problem_stands_beside_its_field_and_what_was_typed_stays(client: Client, buyer: User) -> None:
    for changes, said in (
        ({"end": "2020-01-01"}, "before it starts"),
        ({"total": "-5"}, "greater than 0"),
        ({"total": ""}, "Budget is missing."),
        ({"currency": "QQQ"}, "is no ISO 4217 currency"),
        ({"advertiser": "Nobody"}, "is none of your teams"),
        ({"share": ["0", "40"]}, "A share is a number above 0 and at most 100."),
        ({"share": ["100", "40"]}, "The shares add up to 140 %."),
        ({"channel": ["", ""], "share": ["", ""], "minimum": ["", ""]}, "Choose a channel."),
        ({"country": [""]}, "Choose a country."),
        ({"advertiser": ""}, "Choose an advertiser."),
        ({"basis": ["cpm", "cpm"], "rate": ["30", "300"]}, "This pricing model is named twice."),
        ({"basis": [""], "rate": ["30"]}, "Choose a pricing model."),
    ):
        shown = body(client.post(reverse(FORM), typed(buyer, name="Kept & typed", **changes)))
        assert said in shown, changes
        assert "Kept &amp; typed" in shown
        for value in changes.values():
            assert f'value="{value}"' in shown or not value or isinstance(value, list), changes
    assert not Campaign.objects.exists()


def test_a_form_is_submitted_once_and_the_same_brief_again_only_if_confirmed(
    client: Client, buyer: User
) -> None:
    form = typed(buyer)
    assert [client.post(reverse(FORM), form).status_code for _ in range(2)] == [302, 302]
    first = Campaign.objects.get()
    assert (first.problems, first.advertiser) == ([], make_advertiser("Lindqvist Coffee"))
    refused = client.post(reverse(FORM), {**form, "name": "Another"})
    assert f"submitted as {first.reference}, with another" in body(refused)
    assert refused.context["token"] != first.pk, "submitted again, it is a new campaign"
    second = {**form, "token": str(ids.new_id())}
    warned = body(client.post(reverse(FORM), second))
    assert "The same brief was submitted" in warned
    assert reverse("admin:campaigns_campaign_change", args=[first.pk]) in warned
    assert client.post(reverse(FORM), {**second, "again": "on"}).status_code == 302
    assert Campaign.objects.count() == 2
    written = {"text": yaml.safe_dump(wanted()), "token": str(ids.new_id())}
    assert "The same brief was submitted" in body(client.post(reverse(TEXT), written))


def test_a_draft_is_kept_as_it_was_typed_and_is_its_persons_alone(client: Client, buyer: User) -> None:
    form = typed(buyer, name="Half", total="so much", channel=["podcast", "ctv"])
    preview = body(client.post(reverse(DRAFT), form))
    assert "Draft saved" in preview
    draft = BriefDraft.objects.get()
    shown = body(client.get(reverse(FORM), {"draft": str(draft.pk)}))
    assert 'value="so much"' in shown
    assert "must be a number" not in shown
    entry = BriefEntry(_query(draft.content), user=buyer)
    assert [row.value("channel") for row in entry.channels] == ["podcast", "ctv"]
    other = Client()
    other.force_login(make_user("Buyer", is_staff=True), backend="tasks_app.people.holders.RoleBackend")
    assert other.get(reverse(FORM), {"draft": str(draft.pk)}).status_code == 404
    assert "cannot be saved" in body(other.post(reverse(DRAFT), {**form, "name": "Stolen"}))
    assert "too large" in body(client.post(reverse(DRAFT), {**form, "audience": "x" * 2**20}))
    assert client.post(reverse(FORM), {**form, "total": "250000"}).status_code == 302
    assert not BriefDraft.objects.exists(), "it is submitted"
    for _ in range(MOST_DRAFTS + 1):
        client.post(reverse(DRAFT), {"token": str(ids.new_id()), "text": "name: Half"})
    assert BriefDraft.objects.count() == MOST_DRAFTS


def test_the_preview_names_amounts_and_sellers(client: Client, buyer: User) -> None:
    preview = body(client.post(reverse(DRAFT), typed(buyer, share=["50", "50"], total="100000")))
    assert "Flightdeck asks Cobalt Bay TV" in preview
    assert preview.count("50 %") == 2


def test_text_is_submitted_uploaded_and_shown_as_a_form(client: Client, buyer: User) -> None:
    text, token = yaml.safe_dump(wanted()), str(ids.new_id())
    assert 'value="Cold brew, spring"' in body(client.post(reverse(FORM), {"text": text, "token": token}))
    wrong_channel = [{"channel": "ctv", "weight": "much"}]
    for unknown in ({"colour": "red"}, {"measurement": "lift"}, {"channels": wrong_channel}):
        kept = {"text": yaml.safe_dump(wanted(**unknown)), "token": token}
        assert "cannot be shown in the form" in body(client.post(reverse(FORM), kept)), unknown
    relative = yaml.safe_dump(wanted(flight={"zone": "UTC", "start": "+14d", "end": "+44d"}))
    assert 'value="+14d"' in body(client.post(reverse(FORM), {"text": relative, "token": token}))
    for wrong, said in (
        (text.replace("Lindqvist Coffee", "Nobody"), "is none of your teams"),
        ("a: [b", "not YAML"),
        (" " * (5 * 2**20), "too large"),
    ):
        shown = body(client.post(reverse(TEXT), {"text": wrong, "token": token}))
        assert said in shown
    assert not Campaign.objects.exists()
    file = SimpleUploadedFile("brief.json", json.dumps(wanted(name="Uploaded")).encode())
    assert client.post(reverse(TEXT), {"text": "", "file": file, "token": token}).status_code == 302
    assert Campaign.objects.get().name == "Uploaded"
    large = SimpleUploadedFile("brief.json", b" " * (5 * 2**20))
    again = client.post(reverse(TEXT), {"text": "kept", "file": large, "token": str(ids.new_id())})
    assert "too large" in body(again)
    assert ">kept</textarea>" in body(again)
    assert "Cold brew, spring" in body(client.post(reverse(TEXT), typed(buyer)))


def test_an_earlier_campaign_is_copied(client: Client, buyer: User) -> None:
    client.post(reverse(FORM), typed(buyer))
    copied = body(client.get(reverse(FORM), {"like": str(Campaign.objects.get().pk)}))
    assert 'value="Cold brew, spring"' in copied
    elsewhere = make_user("Buyer", team=make_team("Elsewhere"), is_staff=True)
    other = Client()
    other.force_login(elsewhere, backend="tasks_app.people.holders.RoleBackend")
    assert "Cold brew" not in body(other.get(reverse(FORM), {"like": str(Campaign.objects.get().pk)}))


def _amounts(brief: Brief) -> list[Any]:
    return [(wish.channel, wish.minimum, wish.fixed) for wish in brief.channels]


def _query(content: dict[str, list[str]]) -> QueryDict:
    data = QueryDict(mutable=True)
    for name, values in content.items():
        data.setlist(name, values)
    return data

"""Saved filters and CSV: on every list, within scope, put on record."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from django.utils.safestring import SafeString

from campaigns.models import Campaign
from orders.models import Deal
from tasks_app.approvals.models import Approval
from tasks_app.commands.models import Command, KillSwitch
from tasks_app.desk.export import csv_cell, plain
from tasks_app.desk.saved import (
    MOST,
    SavedFilter,
    SavedFilterRefusedError,
    saved_filter_change,
    saved_filter_delete,
    saved_filter_save,
    saved_filters_of,
)
from tasks_app.events.models import EventDelivery
from tasks_app.jobs.models import Job
from tasks_app.jobs.schedule import Schedule
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tasks_app.people.models import Advertiser, Team, User
from tasks_app.people.security_models import SecurityEvent
from tasks_app.reconciliation.models import ReconciliationFinding, ReconciliationRun
from tasks_app.sellers.models import Account, Seller
from tasks_app.troubles.models import RowTrouble
from tasks_app.webhooks.models import WebhookDelivery
from tests.factories import make_team, make_user
from tests.ui.pages import drawn, list_of, read
from tests.ui.seed import Agency

ClientOf = Callable[..., Client]
LISTS = (
    Account, Advertiser, Approval, AuditEntry, Campaign, Command, Conflict, Deal, EventDelivery, Job,
    KillSwitch, Operation, ReconciliationFinding, ReconciliationRun, RowTrouble, Schedule, SecurityEvent,
    Seller, Team, User, WebhookDelivery,
)  # fmt: skip
DEALS = list_of(Deal)


def tool(model: type[Any], name: str) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{name}")


def exported(client: Client, model: type[Any], query: str = "") -> list[list[str]]:
    answer = client.get(f"{tool(model, 'export')}?{query}")
    assert answer.status_code == 200, model
    return list(csv.reader(io.StringIO(b"".join(answer).decode("utf-8-sig"))))


def save(client: Client, **fields: str) -> Any:
    given = {"act": "save", "name": "Mine", "query": "status__exact=booked", "team": ""}
    return client.post(tool(Deal, "filters"), {**given, **fields}, follow=True)


@pytest.mark.parametrize("model", LISTS, ids=lambda model: model.__name__)
def test_every_list_has_its_filters_and_its_csv(client_of: ClientOf, model: type[Any]) -> None:
    client = client_of("Administrator")
    page = client.get(list_of(model)).content.decode()
    assert f'href="{tool(model, "export")}?' in page
    head, *rows = exported(client, model)
    assert len(head) >= 3
    assert all(len(row) == len(head) for row in rows)


def test_the_csv_is_what_the_list_shows(client_of: ClientOf, agency: Agency) -> None:
    client = client_of("Finance")
    head, *rows = exported(client, Deal)
    assert head[:4] == ["Deal", "Campaign", "Seller", "State"]
    shown = read(client, DEALS)
    assert len(rows) == Deal.objects.count()
    assert all(row[0] in shown and row[2] in shown for row in rows)
    one = dict(zip(head, rows[0], strict=True))
    first = date.fromisoformat(one["First day"])
    assert first <= date.fromisoformat(one["Last day"])
    assert (one["Currency"], Decimal(one["Gross"]) > 0) == ("USD", True)
    assert {row[-1] for row in rows} == {"America/New_York"}


def test_filter_search_and_order_hold_for_the_csv(client_of: ClientOf, agency: Agency) -> None:
    client = client_of("Finance")
    some = agency.deals["aldous-display"]
    assert [row[0] for row in exported(client, Deal, f"q={some.reference}")[1:]] == [some.reference]
    sellers = exported(client, Deal, f"seller__id__exact={some.seller_id}")[1:]
    assert {row[2] for row in sellers} == {some.seller.name}
    ascending = [row[0] for row in exported(client, Deal, "o=0")[1:]]
    assert ascending == sorted(ascending)
    assert exported(client, Operation, "view=overdue")[1:] != exported(client, Operation)[1:]
    assert exported(client, Job, "state=nonsense")[1:] == []


def test_the_csv_holds_nothing_of_another_team(agency: Agency) -> None:
    outsider = make_user("Administrator", team=make_team("Elsewhere"), name="outsider")
    User.objects.filter(pk=outsider.pk).update(is_staff=True)
    client = Client()
    client.force_login(outsider, backend="tasks_app.people.holders.RoleBackend")
    for model in (Approval, AuditEntry, Campaign, Command, Conflict, Deal, Job, Operation, Account):
        assert exported(client, model)[1:] == [], model


def test_the_csv_takes_the_right_to_see_the_list(client_of: ClientOf) -> None:
    assert client_of("Buyer").get(tool(Command, "export")).status_code == 403
    assert Client().get(tool(Deal, "export")).status_code == 302
    assert client_of("Administrator").post(tool(Deal, "export")).status_code == 405


def test_an_export_is_put_on_record_before_its_first_row(client_of: ClientOf, agency: Agency) -> None:
    client = client_of("Finance")
    client.get(f"{tool(Deal, 'export')}?status__exact=booked")  # not read to its end
    told = SecurityEvent.objects.get(event=SecurityEvent.Kind.EXPORTED)
    assert (told.actor, told.about, told.detail["query"]) == (
        f"human:{agency.people['Finance'].pk}",
        "orders.deal",
        "status__exact=booked",
    )


def test_an_export_ends_with_a_word_where_there_is_more(
    client_of: ClientOf, agency: Agency, settings: Any
) -> None:
    settings.EXPORT_ROWS = 2
    rows = exported(client_of("Finance"), Deal)
    assert len(rows) == 4
    assert rows[-1] == ["Only the first 2 rows are here. Narrow the list to have the rest."]
    settings.EXPORT_ROWS = Deal.objects.count()
    assert len(exported(client_of("Finance"), Deal)) == 1 + Deal.objects.count()


def test_an_export_tells_times_in_the_persons_zone(client_of: ClientOf, agency: Agency) -> None:
    person = agency.people["Finance"]
    times = {}
    for zone in ("UTC", "Asia/Tokyo"):
        User.objects.filter(pk=person.pk).update(time_zone=zone)
        times[zone] = (
            [row[-3:] for row in exported(client_of("Finance"), AuditEntry)[1:3]],
            exported(client_of("Finance"), AuditEntry)[1][0],
        )
    assert times["UTC"][1] != times["Asia/Tokyo"][1]


def test_what_a_spreadsheet_would_run_is_text(client_of: ClientOf, agency: Agency) -> None:
    campaign = agency.campaigns["tamarack"]
    Campaign.objects.filter(pk=campaign.pk).update(name='=HYPERLINK("http://x.example","pay")')
    cells = [row[0] for row in exported(client_of("Finance"), Campaign)[1:]]
    assert any(cell.startswith("'=HYPERLINK(") for cell in cells)
    assert not any(cell.startswith("=") for cell in cells)


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\t=1", "\r=1", " =1", "＝1", "\n=1"])
def test_a_formula_is_quoted(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


def test_cells_are_plain() -> None:
    shown = SafeString('<span class="two">Norrland<small class="mono">nrl</small></span>')
    assert plain(shown) == "Norrland, nrl"
    assert plain("–") == ""
    assert plain(SafeString("A &amp; B\n  C")) == "A & B C"
    assert csv_cell("Norrland") == "Norrland"


def test_many_rows_are_read_some_at_a_time(
    client_of: ClientOf, agency: Agency, django_assert_max_num_queries: Any
) -> None:
    client = client_of("Finance")
    with django_assert_max_num_queries(25):
        exported(client, Deal)


def test_a_filter_is_saved_found_again_changed_and_deleted(client_of: ClientOf, agency: Agency) -> None:
    client = client_of("Finance")
    answer = save(client, name="  Booked   ones ")
    assert answer.redirect_chain[-1][0] == f"{DEALS}?status__exact=booked"
    page = answer.content.decode()
    assert "Booked ones" in page
    assert "Change “Booked ones”" in page
    kept = SavedFilter.objects.get()
    assert (kept.owner, kept.page, kept.query, kept.team) == (
        agency.people["Finance"], "orders.deal", "status__exact=booked", None,
    )  # fmt: skip

    shown = f"{DEALS}?{kept.query}"
    form = {"act": "change", "id": kept.pk, "name": "Renamed", "team": ""}
    client.post(tool(Deal, "filters"), {**form, **drawn(client, shown)})
    assert SavedFilter.objects.get().name == "Renamed"
    client.post(tool(Deal, "filters"), {"act": "delete", "id": kept.pk, **drawn(client, shown)})
    assert not SavedFilter.objects.exists()


def test_ones_default_opens_with_the_list_and_everything_is_a_click_away(
    client_of: ClientOf, agency: Agency
) -> None:
    client = client_of("Finance")
    save(client, default="on")
    answer = client.get(DEALS)
    assert (answer.status_code, answer["Location"]) == (302, "?status__exact=booked")
    assert client.get(f"{DEALS}?view=").status_code == 200
    assert 'href="?view="' in client.get(f"{DEALS}?view=").content.decode()
    assert client_of("Buyer").get(DEALS).status_code == 200, "somebody else's default"
    assert client.get(list_of(Campaign)).status_code == 200, "another list"

    save(client, name="Other", query="view=ended", default="on")
    assert [one.name for one in SavedFilter.objects.filter(is_default=True)] == ["Other"]


def test_with_a_default_all_approvals_are_a_click_away(client_of: ClientOf, agency: Agency) -> None:
    """Else what waits of another kind stays hidden under a badge that counts it."""
    owner = agency.people["Approver"]
    SavedFilter.objects.create(
        owner=owner, page="tasks_app.approval", name="Answers", query="kind=answer", is_default=True
    )
    client, bare = client_of("Approver"), list_of(Approval)
    page = client.get(bare, follow=True).content.decode()
    assert "Nothing like that waits" in page
    assert '<a class="go" href="?view=mine">Show everything' in page
    everything = client.get(f"{bare}?view=mine")
    assert everything.status_code == 200
    assert "Nothing like that waits" not in everything.content.decode()


def test_a_shared_filter_is_seen_by_the_team_and_changed_by_its_owner_alone(
    client_of: ClientOf, agency: Agency
) -> None:
    team = agency.deals["aldous-display"].team
    save(client_of("Finance"), name="For all", team=str(team.pk))
    kept = SavedFilter.objects.get()
    buyer = client_of("Buyer")
    assert "For all" in buyer.get(DEALS).content.decode()
    for act in ("change", "delete"):
        refused = buyer.post(
            tool(Deal, "filters"), {"act": act, "id": kept.pk, "name": "Taken", "team": ""}, follow=True
        )
        assert "There is no such filter of yours." in refused.content.decode()
    assert SavedFilter.objects.get().name == "For all"
    outsider = make_user("Buyer", team=make_team("Elsewhere"))
    assert saved_filters_of(outsider, "orders.deal") == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"query": "password__startswith=a"}, "is no filter of this list"),
        ({"query": "status__exact=booked&seller__token=x"}, "is no filter of this list"),
        ({"query": "seller__id__exact=no-id"}, "A value of this filter is wrong."),
        ({"query": ""}, "Nothing is filtered"),
        ({"name": "   "}, "Give it a name"),
        ({"name": "x" * 61}, "Give it a name"),
        ({"name": "a\x07b"}, "Give it a name"),
        ({"query": f"q={'x' * 1200}"}, "too long"),
        ({"team": "01a1fa15-6519-7000-8000-000000000000"}, "teams of your own"),
        ({"team": "nonsense"}, "teams of your own"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_filter_is_not_saved(client_of: ClientOf, fields: dict[str, str], why: str) -> None:
    answer = save(client_of("Finance"), **fields)
    assert why in answer.content.decode()
    assert not SavedFilter.objects.exists()


def test_saving_takes_the_right_to_see_the_list(client_of: ClientOf) -> None:
    assert client_of("Buyer").post(tool(Command, "filters"), {"act": "save"}).status_code == 403
    assert client_of("Buyer").get(tool(Deal, "filters")).status_code == 405
    assert Client().post(tool(Deal, "filters"), {"act": "save"}).status_code == 302


def test_a_person_has_so_many_and_each_name_once(agency: Agency) -> None:
    user = agency.people["Finance"]
    for number in range(MOST):
        saved_filter_save(user=user, page="orders.deal", name=f"No {number}", query="view=open")
    with pytest.raises(SavedFilterRefusedError, match="already"):
        saved_filter_save(user=user, page="orders.deal", name="One more", query="view=open")
    again = saved_filter_save(user=user, page="orders.deal", name="No 1", query="view=ended")
    assert again.query == "view=ended"
    assert SavedFilter.objects.count() == MOST
    with pytest.raises(SavedFilterRefusedError, match="already"):
        saved_filter_change(user=user, filter_id=again.pk, name="No 2", team=None, default=False)
    with pytest.raises(SavedFilterRefusedError):
        saved_filter_delete(user=agency.people["Buyer"], filter_id=again.pk)


def test_the_database_keeps_one_default_of_a_list(agency: Agency) -> None:
    user = agency.people["Finance"]
    saved_filter_save(user=user, page="orders.deal", name="A", query="view=open", default=True)
    with pytest.raises(IntegrityError), transaction.atomic():
        SavedFilter.objects.create(owner=user, page="orders.deal", name="B", query="q=x", is_default=True)


def test_an_empty_table_that_was_never_analysed_is_told_as_empty(client_of: ClientOf) -> None:
    """The planner takes it for one of ten pages."""
    assert client_of("Administrator").get(list_of(RowTrouble)).context["cl"].total == "0"

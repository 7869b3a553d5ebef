"""Every page of the desk renders for every role, with few queries, and as the content policy allows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from campaigns.models import Campaign
from orders.models import Deal
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.jobs.models import Job
from tasks_app.operations.models import Operation
from tasks_app.people.security_models import SecurityEvent
from tests.factories import make_team, make_user
from tests.operations.making import observed
from tests.owning import as_the_product
from tests.ui import every_page
from tests.ui import pages as of_objects
from tests.ui.pages import person_form, send
from tests.ui.seed import Agency

STAFF = ("Buyer", "Approver", "Ad Ops", "Finance", "Auditor", "Administrator")
QUEUE = reverse("admin:tasks_app_approval_changelist")
ClientOf = Callable[..., Client]
# Alpine's attributes (x-…, @…) need no inline script; only these would.
_INLINE = re.compile(r"<[^>]+\s(?:style|on[a-z]+)\s*=|<script(?![^>]*\ssrc=)", re.IGNORECASE)


def page_of(approval: Any) -> str:
    return reverse("admin:tasks_app_approval_change", args=[approval.pk])


def pages(agency: Agency) -> dict[str, str]:
    """Each of our pages by name."""
    return {
        "today": reverse("admin:index"),
        "mine": QUEUE,
        "team": f"{QUEUE}?view=team",
        "asked": f"{QUEUE}?view=asked",
        "narrowed": f"{QUEUE}?view=team&kind=deal&late=1",
        "calendar": reverse("commitments"),
        "month": f"{reverse('commitments')}?view=month&mine=1",
        "agenda": f"{reverse('commitments')}?view=agenda&kind=hold",
        "feed": reverse("calendar_feed_own"),
        "decided": f"{QUEUE}?view=decided",
        "deal": page_of(agency.question("tamarack-cobalt")),
        "approved": page_of(agency.question("halvorsen")),
        "differs": page_of(agency.question("lindqvist-norrland", "booked_differently")),
        "late": page_of(agency.question("halvorsen", "unclaimed")),
        "overdue": page_of(Approval.objects.get(kind="overdue")),
    }


@pytest.mark.parametrize("role", STAFF)
def test_every_page_renders_for_every_role_with_few_queries(
    agency: Agency, client_of: ClientOf, django_assert_max_num_queries: Any, role: str
) -> None:
    client = client_of(role)
    for name, address in pages(agency).items():
        with django_assert_max_num_queries(29):
            answer = client.get(address)
        assert answer.status_code == 200, name
        assert '<main id="main"' in answer.content.decode(), name


@pytest.mark.deep
def test_no_page_reads_a_column_that_it_left_out_row_by_row(
    agency: Agency, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists of sellers' tools were: a query for each operation of a campaign."""
    refresh, asked = Model.refresh_from_db, Counter[str]()

    def counted(row: Model, *args: Any, fields: Any = None, **options: Any) -> None:
        left_out = row.get_deferred_fields()
        asked.update(f"{row._meta.label}.{name}" for name in fields or () if name in left_out)
        refresh(row, *args, fields=fields, **options)

    monkeypatch.setattr(Model, "refresh_from_db", counted)
    # Two purchases of one campaign are with their sellers.
    asking = Operation.objects.get(subject_id=agency.deals["lindqvist-quill"].pk)
    works = Seen(kind="answer", status="working", task_id=asking.task_id)
    observed(operation_id=asking.pk, seen=works, channel="poll")
    client = client_of("Administrator")
    rows = [row for model in (Campaign, Deal, Job, Operation) for row in model._default_manager.all()]
    of_rows = {str(row): of_objects.page_of(row) for row in rows}
    for name, address in {**every_page.addresses(), **pages(agency), **of_rows}.items():
        asked.clear()
        client.get(address)
        assert max(asked.values(), default=0) <= 1, (name, asked)


def test_pages_hold_no_inline_style_or_script(agency: Agency, client_of: ClientOf) -> None:
    client = client_of("Approver")
    for name, address in pages(agency).items():
        answer = client.get(address)
        assert not _INLINE.findall(answer.content.decode()), name
        assert (
            "'unsafe-inline'"
            not in answer["Content-Security-Policy"].partition("script-src")[2].partition(";")[0]
        )


def test_a_service_account_does_not_enter(agency: Agency, client_of: ClientOf) -> None:
    answer = client_of("Integration").get(reverse("admin:index"))
    assert answer.status_code == 302
    assert "/login/" in answer["Location"]


def test_another_team_sees_nothing_of_it(agency: Agency, client_of: ClientOf) -> None:
    agency.people["Approver"].teams.set([make_team("Elsewhere")])
    client = client_of("Approver")
    for name, address in pages(agency).items():
        shown = client.get(address, follow=True).content.decode()
        assert "Tamarack" not in shown, name
        assert "DEAL-" not in shown, name


def test_without_a_role_the_dashboard_says_what_to_do(agency: Agency, client_of: ClientOf) -> None:
    agency.people["Finance"].groups.clear()
    client = client_of("Finance")
    assert "An administrator gives roles" in client.get(reverse("admin:index")).content.decode()
    assert client.get(QUEUE).status_code == 403
    assert client.get(page_of(agency.question("tamarack-cobalt"))).status_code == 403


def test_the_dashboard_counts_what_the_viewer_may_decide(agency: Agency, client_of: ClientOf) -> None:
    assert client_of("Approver").get(reverse("admin:index")).context["today"].queue.count == "6"
    for role in ("Buyer", "Finance"):
        assert client_of(role).get(reverse("admin:index")).context["today"].queue.count == "0"


def test_currencies_are_never_added(agency: Agency, client_of: ClientOf) -> None:
    today = client_of("Approver").get(reverse("admin:index")).context["today"]
    assert {currency for currency, _ in today.queue.stake} == {"USD", "EUR"}
    assert [one["currency"] for one in today.committed] == ["USD", "EUR"]


def test_committed_is_what_is_confirmed_and_approved(agency: Agency, client_of: ClientOf) -> None:
    shown = {b.name: b for b in client_of("Finance").get(reverse("admin:index")).context["today"].budgets}
    lindqvist = dict(shown["Lindqvist Cold Brew"].parts)
    # 102,500 + 58,000 confirmed, 3,500 more approved, 246,000 with sellers, of 410,000.
    assert lindqvist["firm"] == pytest.approx(39.146, abs=0.001)
    assert lindqvist["soft"] == pytest.approx(60.854, abs=0.001)
    assert dict(shown["Tamarack Winter Boots"].parts) == {"firm": 0.0, "soft": 0.0, "ask": 100.0}


def test_attention_names_questions_and_departures(agency: Agency, client_of: ClientOf) -> None:
    texts = [item.text for item in client_of("Ad Ops").get(reverse("admin:index")).context["today"].attention]
    assert "Quill Audio asks something" in texts
    assert "Norrland Digital booked differently" in texts


def test_empty_pages_teach(db: None) -> None:
    user = make_user("Approver")
    user.is_staff = True
    user.save()
    client = Client()
    client.force_login(user, backend="tasks_app.people.holders.RoleBackend")
    today = client.get(reverse("admin:index")).content.decode()
    for said in (
        "You are up to date",
        "No campaign is running",
        "All quiet",
        "Nothing is out",
        "No seller yet",
    ):
        assert said in today
    assert "You are up to date" in client.get(QUEUE).content.decode()
    assert "Nothing has been decided yet" in client.get(f"{QUEUE}?view=decided").content.decode()


def test_the_page_shows_what_a_decision_needs(agency: Agency, client_of: ClientOf) -> None:
    asked = agency.question("tamarack-cobalt")
    shown = client_of("Approver").get(page_of(asked)).content.decode().replace("\xa0", " ")
    for said in (
        "288,000.00",
        "352,000.00",
        "Guaranteed",
        "acc-cobalt-tamarack, active",
        "Halden &amp; Marsh, net 45",
        "CPM, fixed",
        "5.0 % under",
        "6,736,842",
        "50,000.00",
        "14 days’ notice, else 50 % of what remains is due",
        "rating points",
        "4 of 5 requirements match",
        "Tamarack Winter Boots",
        "America/New_York",
        asked.evidence_digest,
    ):
        assert said in shown, said


def test_the_departure_is_laid_out(agency: Agency, client_of: ClientOf) -> None:
    address = page_of(agency.question("lindqvist-norrland", "booked_differently"))
    context = client_of("Approver").get(address).context
    budget = next(d for d in context["differences"] if d.field == "budget")
    assert (budget.approved, budget.confirmed) == ("61,500.00", "58,000.00")
    assert budget.change.replace("\xa0", " ") == "−3,500.00 (−5.7 %)"
    assert {d.field for d in context["differences"]} == {"budget", "start"}


def test_people_are_written_by_administrators_alone(agency: Agency, client_of: ClientOf) -> None:
    people = reverse("admin:tasks_app_user_changelist")
    for role in STAFF:
        expected = 200 if role in ("Administrator", "Auditor") else 403
        assert client_of(role).get(people).status_code == expected, role
    tomas = agency.people["Buyer"]
    change = reverse("admin:tasks_app_user_change", args=[tomas.pk])
    assert client_of("Auditor").get(change).status_code == 200
    assert client_of("Auditor").post(change, {"username": "changed"}).status_code == 403
    admin = client_of("Administrator")
    assert admin.get(reverse("admin:tasks_app_user_change", args=[tomas.pk])).status_code == 200
    assert admin.post(reverse("admin:tasks_app_user_delete", args=[tomas.pk])).status_code == 403


def test_only_a_superuser_changes_a_superuser(agency: Agency, client_of: ClientOf) -> None:
    root = agency.people["Auditor"]
    root.is_superuser = True
    root.save()
    admin = client_of("Administrator")
    page = reverse("admin:tasks_app_user_change", args=[root.pk])
    assert send(admin, page, person_form(root, email="mine@example.com")).status_code == 403
    act = {"action": "send_links", "_selected_action": str(root.pk)}
    assert admin.post(reverse("admin:tasks_app_user_changelist"), act).status_code == 403


def test_a_renamed_person_keeps_their_actor(agency: Agency, client_of: ClientOf) -> None:
    tomas = agency.people["Buyer"]
    actor = tomas.actor
    form = person_form(tomas, first_name="Tomás", last_name="Ferreira-Lima")
    page = reverse("admin:tasks_app_user_change", args=[tomas.pk])
    assert send(client_of("Administrator"), page, form).status_code == 302
    actor.refresh_from_db()
    assert (actor.name, actor.key) == ("Tomás Ferreira-Lima", f"human:{tomas.pk}")
    with as_the_product():
        renamed = send(client_of("Administrator"), page, {**form, "username": "tomas.ferreira"})
    assert renamed.status_code == 302
    told = SecurityEvent.objects.filter(event="rights_changed").latest("id")
    assert (told.about, told.detail) == (
        "tomas.ferreira",
        {"changes": {"login": ["tomas", "tomas.ferreira"]}},
    )


def test_engine_rows_are_read_only(agency: Agency, client_of: ClientOf) -> None:
    admin = client_of("Administrator")
    asked = agency.question("tamarack-cobalt")
    assert admin.get(reverse("admin:tasks_app_approval_add")).status_code == 403
    assert admin.post(reverse("admin:tasks_app_approval_delete", args=[asked.pk])).status_code == 403
    assert admin.post(QUEUE, {"action": "delete_selected"}).status_code == 405


def test_any_id_is_found_but_not_another_teams(agency: Agency, client_of: ClientOf) -> None:
    asked = agency.question("tamarack-cobalt")
    box = {"path": reverse("find"), "data": {"q": asked.reference}, "headers": {"HX-Request": "true"}}
    assert page_of(asked) in client_of("Approver").get(**box).content.decode()
    agency.people["Finance"].teams.set([make_team("Elsewhere")])
    assert page_of(asked) not in client_of("Finance").get(**box).content.decode()


def test_a_page_that_is_not_there_or_not_allowed_has_a_way_back(agency: Agency, client_of: ClientOf) -> None:
    missing = client_of("Buyer").get("/admin/nothing/here/")
    denied = client_of("Buyer").get("/admin/tasks_app/user/")
    strangers = Client().get("/nothing")
    for page, status in ((missing, 404), (denied, 403), (strangers, 404)):
        assert page.status_code == status
        assert f'href="{reverse("admin:index")}"' in page.content.decode()
    assert "Back to Today" not in Client().get("/api/v1/nothing/").content.decode()

"""No form that is older than its row changes anything: every page of the admin, by enumeration."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from django.contrib import admin
from django.db import transaction
from django.db.models import Model
from django.http import HttpRequest
from django.test import Client
from django.urls import reverse

from orders.models import Deal
from tasks_app.approvals.policy_models import ApprovalPolicy
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.commands.models import KillSwitch
from tasks_app.desk.drawn import DRAWN, DrawnAdmin, DrawnForm
from tasks_app.desk.page import Page
from tasks_app.desk.saved import SavedFilter, saved_filter_save
from tasks_app.jobs import recipes
from tasks_app.jobs.schedule import Schedule
from tasks_app.notifications.models import TeamWebhook
from tasks_app.notifications.team_webhook import team_webhook_set
from tasks_app.people.house import house
from tasks_app.people.models import Advertiser, House, Membership, Team, User
from tasks_app.sellers.columns import SELLER_TRUST
from tasks_app.sellers.headers import headers_sealed
from tasks_app.sellers.models import Account, Seller, TrustChange
from tasks_app.sellers.services import change_withdraw, webhook_secret_rotate
from tasks_app.sellers.trust import row_change
from tests.factories import make_account, make_advertiser, make_seller, make_team, make_user
from tests.operations.making import stand
from tests.ui.pages import drawn, list_of, page_of, person_form

pytestmark = pytest.mark.django_db

# Pages that take a POST and hold nothing of a row: an act on what is shown, which the act's own service
# judges as it stands then (a decision carries the digest of what was shown, a repair its finding's sign).
ACTS = {
    "campaigns.campaign": "calls off, tries again, submits a new one",
    "orders.deal": "asks for a read, a correction or a cancellation",
    "tasks_app.approval": "decides on the digest that was shown",
    "tasks_app.command": "asks for it to pass, once",
    "tasks_app.conflict": "decides on the generation that was shown",
    "tasks_app.delegation": "makes one, or ends it",
    "tasks_app.eventdelivery": "tries it again",
    "tasks_app.job": "steers it, from the state it has then",
    "tasks_app.notification": "reads it; turns one's own mails on or off",
    "tasks_app.operation": "steers it, from the state it has then",
    "tasks_app.reconciliationfinding": "repairs it, by the sign of what was shown",
}
ADDED = {
    "tasks_app.assistantmode": "each is a new row, and the newest holds",
    "tasks_app.exchangerate": "each is a new row",
}
SHOWN = {"tasks_app.webhookdelivery": "a list of its own that changes nothing"}


class Case(NamedTuple):
    """A page with a form, who sends it, and two posts: `old` from a page opened before `changed`."""

    page: str
    form: dict[str, Any]
    change: Callable[[], object]
    now: Callable[[], object]
    which: int = 0
    to: str = ""  # where the form is sent, if not to its page
    who: User | None = None  # whose row it is; else an administrator
    named: str = "drawn_from"  # by which field it carries what it shows


@pytest.fixture(autouse=True)
def _startable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe that people may start."""
    monkeypatch.setattr(recipes, "_recipes", dict(recipes._recipes))
    steps = [{"id": "a", "action": "wait_for_event", "inputs": {"name": "counted"}}]
    text = {"name": "stock_take", "version": 1, "title": "Stock take", "steps": steps, "startable": True}
    recipes.recipe_register(recipes.recipe_parse(json.dumps(text)))


def label(model: type[Model]) -> str:
    return f"{model._meta.app_label}.{model._meta.model_name}"


def client(who: User | None = None) -> Client:
    opened = Client()
    user = who or make_user("Administrator", is_staff=True)
    opened.force_login(user, backend="tasks_app.people.holders.RoleBackend")
    return opened


def update(row: Model, **values: Any) -> Callable[[], object]:
    return lambda: type(row)._base_manager.filter(pk=row.pk).update(**values)


def read(row: Model, *names: str) -> Callable[[], object]:
    return lambda: type(row)._base_manager.filter(pk=row.pk).values_list(*names).get()


def person() -> Case:
    user = make_user("Approver", is_staff=True)
    return Case(page_of(user), person_form(user), update(user, first_name="Ada"), read(user, "first_name"))


def persons_teams() -> Case:
    user = make_user("Approver", is_staff=True)
    seat = Membership.objects.get(user=user)
    return Case(
        page_of(user), person_form(user), update(seat, every_advertiser=False), read(seat, "every_advertiser")
    )


def the_house() -> Case:
    row = house()
    form = {"name": row.name, "domain": row.domain, "currency": "USD", "time_zone": "UTC"}
    return Case(page_of(row), form, update(row, name="After"), read(row, "name"))


def team() -> Case:
    row = Team.objects.create(name="Before")
    return Case(page_of(row), {"name": "Before"}, update(row, name="After"), read(row, "name"))


def advertiser() -> Case:
    row = make_advertiser("Before")
    form = {"name": "Before", "brand_domain": row.brand_domain, "policy_categories": ""}
    return Case(
        page_of(row), form, update(row, policy_categories=["gambling"]), read(row, "policy_categories")
    )


def account() -> Case:
    row = make_account(make_advertiser("Before"), make_seller())
    form = {"reference": '{"account_id": "acc"}', "status": row.status, "billing_party": "", "setup_url": ""}
    closed = update(row, status=Account.Status.CLOSED)
    return Case(page_of(row), {**form, "payment_terms": row.payment_terms}, closed, read(row, "status"))


def seller() -> Case:
    row = make_seller()
    form = {"name": row.name, "slots": row.slots, "active": "on", "webhook_mode": row.webhook_mode}
    return Case(page_of(row), form, update(row, active=False), read(row, "active"))


def sellers_timing() -> Case:
    row = make_seller()
    change = update(row, timing={"submitted_s": 90.0})
    return Case(page_of(row), {"timing": "1", "timing_submitted_s": ""}, change, read(row, "timing"), 1)


def waits(row: Seller | Account, **values: Any) -> None:
    """A change of what is in use waits for a second person."""
    with transaction.atomic():
        assert row_change(row=row, values=values, actor=make_user("Ad Ops")).waiting


def withdrawn(row: Seller | Account, column: str) -> Case:
    """The button of a page that showed another change than the one that waits now."""
    waits(row, **{column: "https://first.example"})

    def again() -> None:
        assert change_withdraw(row=row, actor=make_user("Ad Ops"))
        waits(row, **{column: "https://second.example"})

    open_now = TrustChange.objects.filter(refused_at__isnull=True).count
    return Case(page_of(row), {"withdraw": "1"}, again, open_now, named="shown")


def seller_withdrawn() -> Case:
    return withdrawn(stand("submitted").seller, "jwks_url")


def account_withdrawn() -> Case:
    row = make_account(make_advertiser("Before"), make_seller())
    stand("submitted", seller=row.seller, account=row)
    return withdrawn(row, "setup_url")


def rotated() -> Case:
    """Purchases may have told the seller the secret that somebody else made since."""
    row = make_seller("Shares", webhook_mode="hmac", webhook_secret="s" * 40)

    def again() -> None:
        webhook_secret_rotate(seller=row, actor=make_user("Ad Ops"), drop_present=True)

    return Case(page_of(row), {"rotate": "drop"}, again, read(row, "webhook_secret"), named="shown")


def schedule() -> Case:
    made = Schedule.objects.create(
        team=make_team(), name="Morning", recipe="stock_take", cron="0 9 * * *", actor="system"
    )
    form = {
        "act": "save",
        "name": "Morning",
        "team": str(made.team_id),
        "recipe": "stock_take",
        "inputs": "{}",
        "start_at": "",
        "cron": "0 9 * * *",
        "zone": "UTC",
        "missed": "once",
        "priority": "100",
    }
    return Case(page_of(made), form, update(made, cron="0 17 * * *"), read(made, "cron"))


def policy() -> Case:
    """By its own version, which is older than this rule."""
    row = ApprovalPolicy.objects.order_by("pk")[0]
    answered = client().get(page_of(row)).content.decode()
    assert 'name="version"' in answered
    stale = {"version": row.version - 1, "name": row.name, "reason": "From an old page"}
    count = ApprovalPolicy.objects.filter(key=row.key).count
    return Case(page_of(row), stale, lambda: None, count)


def team_webhook() -> Case:
    user, whose = make_user("Administrator"), make_team()
    kept = {"user": user, "team": whose, "url": "https://chat.example/x", "level": "info"}
    hook = team_webhook_set(active=True, allow_private=False, **kept)
    form = {"team": str(whose.pk), "url": "", "level": "info", "active": "on"}
    change = update(hook, active=False, changed_by="system", changed_at=hook.changed_at.replace(year=2031))
    return Case(f"{list_of(TeamWebhook)}?team={whose.pk}", form, change, read(hook, "active"))


def kill_switch() -> Case:
    kill_switch_set(on=True, reason="First", actor="system")

    def again() -> None:
        kill_switch_set(on=False, reason="Over", actor="system")
        kill_switch_set(on=True, reason="Second", actor="system")

    def latest() -> object:
        return KillSwitch.objects.order_by("-turn").values_list("on", "reason")[0]

    form, to = {"team": "", "reason": "It is over"}, reverse("admin:tasks_app_killswitch_add")
    return Case(list_of(KillSwitch), form, again, latest, to=to)


def saved_filter(act: str = "change") -> Case:
    user = make_user("Finance", is_staff=True)
    named = {"user": user, "page": "orders.deal", "name": "Mine"}
    row = saved_filter_save(query="status__exact=booked", team=user.teams.get(), **named)
    form = {"act": act, "id": row.pk, "name": "Mine", "team": str(row.team_id)}
    return Case(
        f"{list_of(Deal)}?{row.query}",
        form,
        update(row, team=None, name="Kept to myself"),
        lambda: list(SavedFilter.objects.values_list("name", "team")),
        to=reverse("admin:orders_deal_filters"),
        who=user,
    )


def saved_filter_deleted() -> Case:
    return saved_filter("delete")


CASES: dict[type[Model], list[Callable[[], Case]]] = {
    User: [person, persons_teams],
    House: [the_house],
    Team: [team],
    Advertiser: [advertiser],
    Account: [account, account_withdrawn],
    Seller: [seller, sellers_timing, seller_withdrawn, rotated],
    Schedule: [schedule],
    ApprovalPolicy: [policy],
    TeamWebhook: [team_webhook],
    KillSwitch: [kill_switch],
}
# Forms over rows that have no page of their own.
BESIDE = [saved_filter, saved_filter_deleted]
EVERY = [*(one for cases in CASES.values() for one in cases), *BESIDE]
CHANGING = [one for one in EVERY if one is not policy]


@pytest.mark.parametrize("made", EVERY, ids=lambda f: f.__name__)
def test_a_form_older_than_its_row_changes_nothing(made: Callable[[], Case]) -> None:
    case = made()
    browser = client(case.who)
    old = drawn(browser, case.page, case.which, case.named)
    case.change()
    before = case.now()
    for carried in (old, {}):  # nor one that does not say what it was drawn from
        browser.post(case.to or case.page, {**case.form, **carried})
        assert case.now() == before


@pytest.mark.parametrize("made", CHANGING, ids=lambda f: f.__name__)
def test_one_that_is_not_changes_it(made: Callable[[], Case]) -> None:
    case = made()
    browser = client(case.who)
    case.change()
    before, fresh = case.now(), drawn(browser, case.page, case.which, case.named)
    answer = browser.post(case.to or case.page, {**case.form, **fresh})
    assert answer.status_code == 302, answer.content.decode()
    assert case.now() != before


# A new value of each column that decides whom we believe.
_OTHERS: dict[str, Any] = {
    "name": "Another",
    "active": False,
    "url": "https://b.example/mcp",
    "protocol": "a2a",
    "token": "another-token",
    "auth_scheme": "basic",
    "headers": {"X-Tenant": "b"},
    "secret_headers": headers_sealed({"X-Key": "b"}),
    "webhook_mode": "none",
    "jwks_url": "https://b.example/jwks.json",
    "allow_private": False,
    "contact_email": "b@example.com",
    "status_tool": "get_task",
}


@pytest.mark.parametrize("column", SELLER_TRUST)
def test_what_is_said_of_one_seller_is_not_written_of_what_it_became(column: str) -> None:
    """The word that a risk is taken, and new credentials, are for the host that the page named."""
    row = make_seller(webhook_mode="rfc9421", jwks_url="https://a.example/jwks.json", idempotency_ttl_s=None)
    page, browser = page_of(row), client()
    form = {"name": row.name, "slots": row.slots, "active": "on", "webhook_mode": row.webhook_mode}
    old = drawn(browser, page)
    update(row, **{column: _OTHERS[column]})()
    browser.post(page, {**form, "risk_accepted": "on", "token": "of-the-first-host", **old})
    now = Seller.objects.get(pk=row.pk)
    assert (now.idempotency_risk_accepted_by, now.token == "of-the-first-host") == ("", False)


def test_it_says_what_was_changed_and_stays_refused() -> None:
    case, browser = person(), client()
    old = drawn(browser, case.page)
    case.change()
    answer = browser.post(case.page, {**case.form, **old}).content.decode()
    assert "somebody has changed first name since this page was opened" in answer
    assert f'value="{old[DRAWN]}"' in answer, "looked at or not, the same page saves nothing"


def test_every_page_that_changes_something_is_one_of_these() -> None:
    known = {label(model) for model in CASES} | set(ACTS) | set(ADDED) | set(SHOWN)
    for model, page in admin.site._registry.items():
        if _takes_posts(page):
            assert label(model) in known, f"{label(model)}: does its form carry what it was drawn from?"


@pytest.mark.parametrize("model", list(CASES), ids=lambda m: m.__name__)
def test_where_django_draws_the_form_it_is_one_that_carries_it(model: type[Model]) -> None:
    page = admin.site._registry[model]
    if page.has_change_permission(_request()):
        draws = isinstance(page, DrawnAdmin) and issubclass(page.form, DrawnForm)
        assert draws or type(page).object_post is not Page.object_post  # type: ignore[attr-defined]


def _takes_posts(page: Any) -> bool:
    own = isinstance(page, Page) and (
        type(page).object_post is not Page.object_post
        or type(page).changelist_view.__module__ not in ("tasks_app.desk.listing", "tasks_app.desk.page")
        or type(page).add_view is not admin.ModelAdmin.add_view
    )
    request = _request()
    return own or page.has_change_permission(request) or page.has_add_permission(request)


def _request() -> HttpRequest:
    request = HttpRequest()
    request.user = make_user("Administrator", is_staff=True)
    return request

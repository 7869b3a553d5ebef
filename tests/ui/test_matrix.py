"""Every role at every address and at every action: who is let in, and that a refusal changes nothing."""

from __future__ import annotations

import uuid

import pytest
from django.db import transaction
from django.template import Template
from django.urls import reverse

from campaigns.calendar.feeds import feed_make
from campaigns.models import Campaign
from orders.models import Deal, DealStatus
from tasks_app.approvals.models import Approval
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.jobs.bulk import bulk_start
from tasks_app.jobs.models import Job
from tasks_app.lifecycle.errors import InvalidTransitionError
from tasks_app.lifecycle.transitions import transition
from tasks_app.notifications.services import About, notify
from tasks_app.operations.models import Operation
from tasks_app.people.models import Advertiser, Membership, User
from tasks_app.people.roles import ROLES as RIGHTS
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.reconciliation.models import ReconciliationRun
from tasks_app.sellers.models import Account, Seller
from tasks_app.webhooks.models import WebhookDelivery
from tests.factories import make_advertiser, make_team, make_user
from tests.rounds import rounds
from tests.ui.actions import ACTIONS, ELSEWHERE
from tests.ui.matrix import COMMON, EXPECTED, OWN_PROOF
from tests.ui.pages import page_of
from tests.ui.seed import Agency
from tests.ui.walk import (
    NOBODY,
    ROLES,
    Address,
    Came,
    Walker,
    addresses,
    patterns,
    samples,
    snapshot,
)

pytestmark = pytest.mark.all_cases

EVERYBODY = [*ROLES, NOBODY]


def walker_of(agency: Agency, letter: str) -> Walker:
    return Walker(agency.people[ROLES[letter]] if letter in ROLES else None)


def test_every_address_is_in_the_table() -> None:
    """A new address says here who may ask for it."""
    assert {name for name, _ in patterns()} == {*EXPECTED, *OWN_PROOF}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("letter", EVERYBODY)
def test_who_is_let_in_where(
    agency: Agency, letter: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a short round pages are drawn for the two who may most: `test_pages` draws them for every role."""
    found = _walked(agency)
    is_drawn = rounds(0, 1) and method == "GET"
    if letter not in "AD" and not is_drawn:
        monkeypatch.setattr(Template, "render", lambda *_: "")
    walker, before, wrong = walker_of(agency, letter), snapshot(), []
    for address in found:
        may = letter in EXPECTED[address.name].get(method, "")
        came = walker.ask(method, address.path)
        if came.let_in != may or (not may and came.wrote) or came.status >= 500:
            wrong.append((address.name, f"expected {may}", came))
    assert wrong == []
    assert snapshot() == before


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_no_other_method_changes_anything(
    agency: Agency, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may most shows what nobody may: at most they are answered as GET or POST is, whose pages are drawn
    above."""
    found = _walked(agency)
    monkeypatch.setattr(Template, "render", lambda *_: "")
    walker, before, wrong = walker_of(agency, "D"), snapshot(), []
    for address in found:
        came = walker.ask(method, address.path)
        shown = any("D" in who for who in EXPECTED[address.name].values())
        if came.wrote or (came.let_in and not shown) or came.status >= 500:
            wrong.append((address.name, came))
    assert wrong == []
    assert snapshot() == before


@pytest.mark.parametrize("whose", ["another team's", "another client's"])
def test_ids_of_others_are_not_there(agency: Agency, whose: str) -> None:
    """Though they may do everything, among their own."""
    theirs = [address for address in _walked(agency) if _is_owned(address)]
    stranger = _stranger(agency, whose)
    if whose == "another client's":
        by_team = COMMON["by team alone"]
        theirs = [address for address in theirs if address.obj._meta.label_lower not in by_team]  # type: ignore[union-attr]
    walker, before = Walker(stranger), snapshot()
    let_in = [
        (address.name, method, came)
        for address in theirs
        for method in ("GET", "POST")
        if _is_shown(came := walker.ask(method, address.path)) or came.wrote
    ]
    assert let_in == []
    assert snapshot() == before


@pytest.mark.parametrize("whose", ["another team's", "another client's"])
def test_whatever_is_shown_or_taken_away_names_nothing_of_others(agency: Agency, whose: str) -> None:
    """Every address: pages, lists, reports, exports, feeds and streams; and the bell and the search."""
    found = samples(agency)
    brands = set(Advertiser.objects.values_list("brand_domain", flat=True))
    marks = _marks(agency) | brands
    bulk = Job.objects.get(subject_type="bulk")
    report = [one.path for one in addresses({**found, "tasks_app.job": bulk}) if one.obj == bulk]
    walked = [one.path for one in addresses(found) if one.name not in OWN_PROOF]
    stranger = _stranger(agency, whose)
    feed = reverse("calendar_feed", args=[feed_make(user=stranger)])
    searches = [f"{reverse(name)}?q={mark}" for name in ("find", "search") for mark in sorted(marks)[::40]]
    walker, told = Walker(stranger), []
    for path in (*walked, *report, feed, *searches, *_seller_exports()):
        accept = "text/event-stream" if path.endswith(("/events/", "/changes/")) else "*/*"
        # What was asked for is said again.
        body = walker.shown(path, accept=accept).replace(path.rpartition("?q=")[2] or path, "")
        # The register of advertisers is everybody's who may see it, and tells each one's brand.
        hidden = marks - brands if "/tasks_app/advertiser/" in path else marks
        told += [(path, mark) for mark in hidden if mark in body]
    assert sorted(told) == []
    whole = Walker(agency.people["Administrator"])
    notices = reverse("admin:tasks_app_notification_changelist")
    seen = "".join(whole.shown(path) for path in (*_seller_exports(), *report, notices))
    mine = ("task-of-others", "notice-of-others", "bulk-of-others", bulk.reference)
    assert all(mark in seen for mark in mine)
    run, account = (
        whole.shown(page_of(ReconciliationRun.objects.get())),
        agency.deals["aldous-display"].account,
    )
    assert account is not None
    assert f"get_media_buys: the credit of {account.advertiser.brand_domain}" in run
    assert account.reference["account_id"] in run


def _seller_exports() -> list[str]:
    """Deliveries of each seller, as its page leads to them."""
    export = reverse("admin:tasks_app_webhookdelivery_export")
    return [f"{export}?seller__id__exact={pk}" for pk in Seller.objects.values_list("pk", flat=True)]


def _marks(agency: Agency) -> set[str]:
    """Names by which what is an advertiser's of the agency is known, also in a bulk report, a delivery and a
    notice that were for operators."""
    deal = agency.deals["aldous-display"]
    operation = Operation.objects.filter(subject_id=deal.pk).latest("pk")
    WebhookDelivery.objects.create(
        seller=deal.seller,
        operation=operation,
        key="1" * 8,
        fingerprint="1" * 64,
        verdict="applied",
        task_id="task-of-others",
        body={"task_id": "task-of-others"},
    )
    notify(
        kind="test",
        title="notice-of-others",
        about=About(type="operation", id=operation.pk),
        right=STEER_OPERATION,
    )
    jobs = Job.objects.filter(parent_step=None, team=deal.team)
    bulk_start(
        act="cancel",
        reason="bulk-of-others",
        user=agency.people["Ad Ops"],
        request_id=uuid.uuid4(),
        ids=list(jobs.values_list("pk", flat=True)),
    )
    named = {"task-of-others", "notice-of-others", "bulk-of-others"}
    named |= set(Job.objects.filter(subject_type="bulk").values_list("reference", flat=True))
    for model in (Campaign, Deal, Job, Operation, Approval):
        rows = model._default_manager.filter(advertiser__isnull=False)
        named |= set(rows.values_list("reference", flat=True))
    named |= set(Deal.objects.exclude(media_buy_id=None).values_list("media_buy_id", flat=True))
    named |= {one["account_id"] for one in Account.objects.values_list("reference", flat=True)}
    return {name for name in named if len(name) > 8}


def _stranger(agency: Agency, whose: str) -> User:
    """Somebody with every right in another team, or in the same one for a client of their own."""
    stranger = make_user("Administrator", name="stranger")
    stranger.is_staff = True
    stranger.save()
    if whose == "another team's":
        stranger.teams.set([make_team("Others")])
    else:
        team = agency.people["Buyer"].teams.get()
        stranger.teams.set([team])
        seat = Membership.objects.get(user=stranger)
        seat.every_advertiser = False
        seat.save()
        seat.advertisers.set([make_advertiser("Nobody yet", team=team)])
    return User.objects.get(pk=stranger.pk)


@pytest.mark.parametrize("name", ACTIONS)
def test_each_action_is_for_its_roles_alone(agency: Agency, name: str) -> None:
    samples(agency)
    action = ACTIONS[name]
    walkers = {letter: walker_of(agency, letter) for letter in EVERYBODY}
    asked, before = action.ask(agency), snapshot()
    for letter, walker in walkers.items():
        came = walker.ask(*asked)
        if letter in action.who:
            assert came.status < 400, (letter, came)
            assert came.wrote, (letter, came)
        else:
            assert not came.let_in, (letter, came)
            assert not came.wrote, (letter, came)
    assert snapshot() == before
    assert {key for key, role in ROLES.items() if action.right in RIGHTS[role]} == set(action.who)


def test_every_right_is_shown_by_an_action() -> None:
    rights = {right for held in RIGHTS.values() for right in held}
    forms = {right for right in rights if right.split(".")[1].split("_")[0] in ("view", "add", "change")}
    assert rights - forms == {action.right for action in ACTIONS.values()} - forms | set(ELSEWHERE)


@pytest.mark.parametrize("role", ROLES.values())
def test_deals_are_called_off_by_who_may(agency: Agency, role: str) -> None:
    deal, person, before = agency.deals["tamarack-cobalt"], agency.people[role], snapshot()
    deal.refresh_from_db()
    if role in ("Buyer", "Approver", "Administrator"):
        transition(deal, DealStatus.CANCELLED, actor=person, reason="No.")
        assert deal.status == DealStatus.CANCELLED
    else:
        with pytest.raises(InvalidTransitionError), transaction.atomic():
            transition(deal, DealStatus.CANCELLED, actor=person, reason="No.")
        assert snapshot() == before


# Pages without the frame of the admin: nobody acts from there.
UNFRAMED = {"admin:login", "api_docs", "second_factor_new"}


@pytest.mark.deep
def test_every_page_says_that_it_is_stopped(agency: Agency) -> None:
    """Who stopped it, and why; a page is what any role is shown as one."""
    found = _walked(agency)
    kill_switch_set(on=True, reason="Wrong <b>rates</b>", actor=agency.people["Administrator"])
    shown = {address.name: _page(agency, address) for address in found}
    pages = {name: body for name, body in shown.items() if "<html" in body}
    assert len(pages) > 60
    by = f"Stopped by {agency.people['Administrator']}"
    for words in ('class="fd fd-stopped" role="alert"', by, "Wrong &lt;b&gt;rates&lt;/b&gt;"):
        assert {name for name, body in pages.items() if words not in body} == UNFRAMED, words


def _page(agency: Agency, address: Address) -> str:
    """As an Administrator is shown it; where they are not, as the first who is."""
    may = sorted(EXPECTED[address.name].get("GET", ""), key=lambda letter: letter != "D")
    return walker_of(agency, may[0]).shown(address.path) if may else ""


def _walked(agency: Agency) -> list[Address]:
    return [address for address in addresses(samples(agency)) if address.name not in OWN_PROOF]


def _is_shown(came: Came) -> bool:
    """An empty body is wrong (400) before any row is looked for, so that tells nothing."""
    return came.let_in and came.status != 400


def _is_owned(address: Address) -> bool:
    label = address.obj._meta.label_lower if address.obj is not None else ""
    # Whatever is named, these lead on to another page.
    listed_alone = (f"tasks_app_{name}_change" for name in ("delegation", "notification", "teamwebhook"))
    leads_on = address.name.endswith(("<path:object_id>/", *listed_alone))
    return bool(label) and label not in COMMON["everybody's"] and not leads_on

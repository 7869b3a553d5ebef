"""One list has many faces: badge, page, Today, CSV, calendar and feed tell the same rows in one order."""

from __future__ import annotations

import ast
import csv
import io
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils.safestring import mark_safe

from campaigns.calendar.entries import Wanted, calendar_of
from campaigns.dashboard import Today, badges
from orders.models import Deal
from orders.questions import ask_deal
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.question import Question
from tasks_app.approvals.services import approval_decide, approval_open
from tasks_app.approvals.waiting import waiting_for
from tasks_app.commands.models import Command
from tasks_app.desk.export import plain
from tasks_app.desk.saved import MOST, saved_filter_save, saved_filters_of
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tasks_app.reconciliation.models import ReconciliationFinding
from tasks_app.sellers.models import Seller, TrustChange
from tests.factories import make_advertiser, make_deal, make_seller, make_team, make_user
from tests.orders.live import booked
from tests.ui.pages import ClientOf
from tests.ui.seed import Agency
from tests.ui.seed_reconciliation import reconciled

ROOT = Path(__file__).resolve().parents[2]
QUEUE = reverse("admin:tasks_app_approval_changelist")
EXPORT = reverse("admin:tasks_app_approval_export")
ROLES = ("Approver", "Ad Ops", "Buyer", "Administrator", "Finance")
VIEWS = ("mine", "claimed", "team", "asked", "decided")


@pytest.fixture
def waiting(agency: Agency, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something of each kind that waits: approvals, a seller’s question, findings."""
    deal = Deal.objects.get(media_buy_id="nrl-58102")
    operation = Operation.objects.filter(seller=deal.seller).latest("id")
    reconciled(monkeypatch, deal=deal, operation=operation)


def exported(client: Client, query: str) -> list[list[str]]:
    """The CSV's rows, without its head."""
    answer = client.get(f"{EXPORT}?{query}")
    told = b"".join(answer.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined]
    return list(csv.reader(io.StringIO(told)))[1:]


def request_of(user: User) -> HttpRequest:
    request = RequestFactory().get("/")
    request.user = user
    return request


def badge(user: User) -> int:
    return int(badges(request_of(user)).get("tasks_app.approval", ("0", ""))[0])


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("role", ROLES)
def test_the_csv_has_the_rows_of_the_queue_in_its_order(client_of: ClientOf, role: str) -> None:
    client = client_of(role)
    for query in (f"view={view}{late}" for view in VIEWS for late in ("", "&late=1")):
        rows = client.get(f"{QUEUE}?{query}").context["rows"]
        told = [(row.title, row.approval.reference if row.approval else row.reference) for row in rows]
        assert [(line[0], line[1]) for line in exported(client, query)] == told, query


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("role", ROLES)
def test_badge_and_today_count_what_the_queue_shows(agency: Agency, client_of: ClientOf, role: str) -> None:
    user, shown = agency.people[role], client_of(role).get(QUEUE).context["rows"]
    assert (badge(user), len(Today(user).queue)) == (len(shown), len(shown))


@pytest.mark.usefixtures("waiting")
def test_who_steers_has_what_is_no_approval_in_the_badge(agency: Agency, client_of: ClientOf) -> None:
    shown = {row.kind for row in client_of("Ad Ops").get(QUEUE).context["rows"]}
    assert {"Input required", "Reconciliation finding"} <= shown
    assert badge(agency.people["Ad Ops"]) >= 2


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("role", ["Ad Ops", "Administrator"])
@pytest.mark.parametrize("kind", ["input_required", "finding"])
def test_a_filter_of_the_queue_is_that_of_its_csv(client_of: ClientOf, role: str, kind: str) -> None:
    client = client_of(role)
    rows = client.get(f"{QUEUE}?view=team&kind={kind}").context["rows"]
    assert rows
    assert len(exported(client, f"view=team&kind={kind}")) == len(rows)


def test_mine_is_asked_for_and_not_sifted_from_the_first_few(
    agency: Agency, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    deal = Deal.objects.get(media_buy_id="nrl-58102")
    reconciled(monkeypatch, deal=deal, operation=Operation.objects.filter(seller=deal.seller).latest("id"))
    ops = agency.people["Ad Ops"]
    *others, last = waiting_for(ops, kind="finding", mine=True)
    taken = [one.link.rstrip("/").split("/")[-2] for one in others]
    assert taken
    ReconciliationFinding.objects.filter(pk__in=taken).update(holder=agency.people["Administrator"])
    told = waiting_for(ops, kind="finding", mine=True, limit=1)
    assert [one.link for one in told] == [last.link]


# --- decided ------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_decided_stand_the_latest_first_on_the_page_and_in_its_csv() -> None:
    approver, client = staff("Approver")
    asked = [ask_deal(make_deal()), ask_deal(make_deal(seller=make_seller("Cobalt")))]
    soon, late = sorted(asked, key=lambda one: one.due_at)
    now = clock.now()
    for minutes, one in ((1, soon), (2, late)):
        decide(one, approver, now + timedelta(minutes=minutes))
    rows = client.get(f"{QUEUE}?view=decided").context["rows"]
    told = [row.approval.reference for row in rows]
    assert told == [late.reference, soon.reference]
    assert [line[1] for line in exported(client, "view=decided")] == told


def decide(approval: Approval, user: User, at: Any) -> None:
    with clock.injected(lambda: at):
        approval_decide(approval_id=approval.pk, user=user, verdict="approve")


def staff(role: str) -> tuple[User, Client]:
    user = make_user(role, is_staff=True)
    client = Client()
    client.force_login(user)
    return user, client


# --- what a cell says ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        ("Agreed with <norrland@example.com>", "Agreed with <norrland@example.com>"),
        ("<b>14</b> &amp; no more", "<b>14</b> &amp; no more"),
        ("a <small>b", "a <small>b"),
        (mark_safe("<b>14</b> &amp; no more"), "14 & no more"),
        (mark_safe("Book<small>Norrland</small>"), "Book, Norrland"),
        ("–", ""),
        (None, ""),
        (mark_safe("–"), ""),
    ],
)
def test_a_cell_keeps_text_as_it_is_and_of_markup_the_words(shown: object, told: str) -> None:
    assert plain(shown) == told


@pytest.mark.django_db
def test_the_csv_of_decisions_keeps_what_people_wrote() -> None:
    approver, client = staff("Approver")
    asked = ask_deal(make_deal())
    said = "Go, agreed with <norrland@example.com> at rate <b>14</b> &amp; no more"
    approval_decide(approval_id=asked.pk, user=approver, verdict="approve", comment=said)
    assert exported(client, "view=decided")[0][-2].endswith(said)


# --- saved filters ------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_ones_own_saved_filters_stand_whatever_the_team_shares() -> None:
    me, team = make_user("Buyer"), make_team()
    for number in range(5):
        other = make_user("Buyer")
        for one in range(MOST):
            name, query = f"a{number}-{one}", f"status={number}{one}"
            saved_filter_save(user=other, page="orders.deal", name=name, query=query, team=team)
    saved_filter_save(user=me, page="orders.deal", name="z mine", query="status=booked", default=True)
    names = [one.name for one in saved_filters_of(me, "orders.deal")]
    assert "z mine" in names
    assert names == sorted(names)


# --- calendar -----------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("by", ["seller", "advertiser"])
def test_a_filter_finds_a_question_behind_many_others(by: str) -> None:
    user, now = make_user("Approver"), clock.now()
    norrland = make_seller()
    for _ in range(4):
        ask_deal(make_deal(seller=norrland, account=False))
    other: dict[str, Any] = {"seller": make_seller("Cobalt")}
    if by == "advertiser":
        other = {"seller": norrland, "advertiser": make_advertiser("Aldous Allergy")}
    last = make_deal(account=False, **other)
    with clock.injected(lambda: now + timedelta(minutes=5)):
        asked = ask_deal(last)
    chosen: dict[str, Any] = {by: getattr(last, f"{by}_id")}
    month = {"since": now, "until": now + timedelta(days=30), "limit": 3}
    found = calendar_of(user, Wanted(**month, **chosen))
    assert [one.uid for one in found.entries if one.kind == "approval"] == [f"approval-{asked.pk}"]
    assert not found.more


@pytest.mark.parametrize("by", ["seller", "advertiser"])
def test_a_filter_finds_a_question_about_an_operation(agency: Agency, by: str) -> None:
    operation = Operation.objects.get(status="input_required")
    assert operation.team is not None
    question = Question(
        kind="answer",
        team=operation.team,
        title="Send this answer?",
        subject_type="operation",
        subject_id=operation.pk,
        subject_version=1,
        evidence={"operation": operation.reference},
        policy="Two people",
    )
    asked = approval_open(question=question, requested_by=agency.people["Ad Ops"], opened_by="system")
    user, now = agency.people["Finance"], clock.now()
    chosen: dict[str, Any] = {by: getattr(operation, f"{by}_id")}
    found = calendar_of(user, Wanted(since=now, until=now + timedelta(days=30), **chosen))
    assert f"approval-{asked.pk}" in {one.uid for one in found.entries}
    other = Seller.objects.exclude(pk=operation.seller_id).earliest("pk").pk
    found = calendar_of(user, Wanted(since=now, until=now + timedelta(days=30), seller=other))
    assert f"approval-{asked.pk}" not in {one.uid for one in found.entries}


@pytest.mark.django_db
@pytest.mark.parametrize("view", ["weeks", "month", "agenda"])
def test_the_head_of_the_calendar_counts_what_it_shows(view: str) -> None:
    _, client = staff("Finance")
    make_deal()
    far = clock.now().replace(microsecond=0) + timedelta(days=200)
    make_deal(seller=make_seller("Cobalt"), start_at=far, end_at=far + timedelta(days=10))
    context = client.get(reverse("commitments"), {"view": view}).context
    if view == "weeks":
        shown = {one.lane.deal.pk for one in context["lanes"]}
    else:
        days = (
            [day[1:] for week in context["sheet"] for day in week] if view == "month" else context["agenda"]
        )
        shown = {one.deal for day in days for one in day[-1 if view == "agenda" else 0] if one.deal}
    assert int(context["deals"].split()[0]) == len(shown)
    assert len(shown) <= 1


@pytest.mark.django_db
def test_what_flies_later_takes_no_place_of_what_flies_now() -> None:
    user, now = make_user("Finance"), clock.now().replace(microsecond=0)
    norrland, later = make_seller(), now + timedelta(days=200)
    for _ in range(4):
        make_deal(seller=norrland, account=False, start_at=later, end_at=later + timedelta(days=9))
    flying = booked(norrland)
    wanted = Wanted(since=now, until=now + timedelta(days=28), limit=2)
    assert flying.pk in {lane.deal.pk for lane in calendar_of(user, wanted).lanes}


@pytest.mark.django_db
def test_a_kind_of_dates_is_asked_for_and_not_sifted_from_the_first_deals() -> None:
    user, now = make_user("Finance"), clock.now().replace(microsecond=0)
    norrland = make_seller()
    for _ in range(4):
        make_deal(seller=norrland, account=False, start_at=now + timedelta(days=1))
    flying = due_soon(norrland, now + timedelta(days=3))
    wanted = Wanted(since=now, until=now + timedelta(days=28), kind="creative", limit=3)
    found = calendar_of(user, wanted)
    assert [(one.kind, one.deal) for one in found.entries] == [("creative", flying.pk)]
    assert not found.more


@pytest.mark.django_db
def test_today_tells_the_next_dates_whatever_flies_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("campaigns.dashboard._DEALS", 3)
    user, now = make_user("Finance", is_staff=True), clock.now().replace(microsecond=0)
    norrland, later = make_seller(), now + timedelta(days=60)
    for _ in range(4):
        make_deal(seller=norrland, account=False, start_at=later, end_at=later + timedelta(days=9))
    flying = due_soon(norrland, now + timedelta(days=1))
    told = Today(user)
    assert [(one.kind, one.deal) for one in told.dates][:1] == [("creative", flying.pk)]
    assert not told.dates_more
    for _ in range(4):
        make_deal(seller=norrland, account=False, start_at=now + timedelta(days=3))
    told = Today(user)
    assert [one.deal for one in told.dates][:1] == [flying.pk]
    assert told.dates_more
    client = Client()
    client.force_login(user)
    assert "There are more in two weeks" in client.get(reverse("admin:index")).content.decode()


def due_soon(seller: Seller, deadline: Any) -> Deal:
    """A booked deal whose creatives are due then, and whose flight is far off."""
    start = clock.now().replace(microsecond=0) + timedelta(days=30)
    deal = booked(seller, start_at=start, end_at=start + timedelta(days=20))
    Deal.objects.filter(pk=deal.pk).update(creative_deadline=deadline)
    return deal


def subjects(deal: Deal) -> dict[str, uuid.UUID]:
    """Something of each type that people are asked about, all of the deal's seller."""
    operation = Operation.objects.get(subject_type="deal", subject_id=deal.pk)
    conflict = Conflict.objects.create(
        reference="CFL-2026-000009",
        operation=operation,
        kind="terminal",
        digest="d" * 64,
        first={},
        second={},
    )
    named = {
        "kind": "message",
        "adapter": "mail",
        "payload": {},
        "digest": "d" * 64,
        "requested_by": "system",
    }
    command = Command.objects.create(key="one", seller=deal.seller, **named)
    change = TrustChange.objects.create(seller=deal.seller, before={}, after={}, asked_by="system")
    return {
        "deal": deal.pk,
        "operation": operation.pk,
        "conflict": conflict.pk,
        "command": command.pk,
        "seller_change": change.pk,
        "command of its deal": Command.objects.create(
            key="two", subject_type="deal", subject_id=deal.pk, **named
        ).pk,
    }


def asked_about() -> set[str]:
    """The types of subjects that the product asks people about."""
    found = set()
    for top in ("tasks_app", "orders", "campaigns"):
        for path in sorted((ROOT / top).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            constants = {
                ast.unparse(node.targets[0]): ast.literal_eval(node.value)
                for node in tree.body
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            }
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "Question":
                    said = {one.arg: one.value for one in node.keywords}.get("subject_type")
                    if said is not None:  # else a question that is read back
                        found.add(constants.get(ast.unparse(said)) or ast.literal_eval(said))
    return found


@pytest.mark.rule
@pytest.mark.django_db
def test_a_seller_has_every_question_about_what_is_its_own() -> None:
    user, now = make_user("Approver"), clock.now()
    deal, other = booked(make_seller()), make_seller("Cobalt")
    known = subjects(deal)
    assert asked_about() <= known.keys()
    asked = {}
    for called, pk in known.items():
        question = Question(
            kind="answer",
            team=deal.team,
            title=f"May it be, {called}?",
            subject_type=called.split()[0],
            subject_id=pk,
            subject_version=1,
            evidence={},
            policy="Somebody",
        )
        asked[called] = approval_open(question=question, requested_by="system", opened_by="system")
    month: dict[str, Any] = {"since": now, "until": now + timedelta(days=30)}
    for seller, expected in ((deal.seller, set(asked)), (other, set())):
        found = {one.uid for one in calendar_of(user, Wanted(**month, seller=seller.pk)).entries}
        assert {called for called, one in asked.items() if f"approval-{one.pk}" in found} == expected
    own = {one.uid for one in calendar_of(user, Wanted(**month, advertiser=deal.advertiser_id)).entries}
    assert f"approval-{asked['conflict'].pk}" in own

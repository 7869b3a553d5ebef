"""Whose account a seller refuses, and in which words: on a run's page for that account's teams alone."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from orders.models import Deal
from tasks_app import clock
from tasks_app.operations.line import NOT_READ
from tasks_app.people.models import Team, User
from tasks_app.reconciliation import learnt, runs
from tasks_app.reconciliation.models import ReconciliationRun
from tasks_app.sellers.models import Account
from tests.adcp.raw_server import serve
from tests.factories import make_account, make_advertiser, make_seller, make_team, make_user
from tests.operations.sweeping import shop
from tests.orders.live import booked
from tests.support import PATIENCE_S
from tests.ui.pages import page_of, read

pytestmark = pytest.mark.django_db
SECRET, WORDS, OWN = "secret-launch.com", "the credit of the launch is used up", "closed for the season"
NO_BUYS = {"status": "completed", "media_buys": [], "pagination": {"has_more": False}}
NO_TASKS = {"status": "completed", "tasks": [], "pagination": {"has_more": False}}
Told = dict[str, Any]


def refusal(asked: Told) -> Told:
    words = f"{SECRET}: {WORDS}" if of_secret(asked) else OWN
    return {"status": "failed", "errors": [{"code": "ACCOUNT_NOT_FOUND", "message": words}]}


def of_secret(asked: Told) -> bool:
    return "brand" in asked.get("account", {})


def ad_ops(team: Team | None) -> Client:
    """Of that team; None: who sees all teams."""
    who = make_user("Ad Ops", name=f"of-{team or 'all'}")
    who.teams.set([team] if team else [])
    User.objects.filter(pk=who.pk).update(is_staff=True, is_superuser=team is None)
    client = Client()
    client.force_login(User.objects.get(pk=who.pk), backend="tasks_app.people.holders.RoleBackend")
    return client


def account_of(deal: Deal, team: Team) -> Account:
    """Of a brand of another team, with the deal's seller."""
    account = make_account(make_advertiser("Secret Launch", team=team), deal.seller)
    reference = {"brand": {"domain": SECRET}, "operator": "x.example"}
    Account.objects.filter(pk=account.pk).update(reference=reference)
    return account


def performed() -> ReconciliationRun:
    run = runs.run_ask(trigger=ReconciliationRun.Trigger.HAND, actor="system")
    return runs.run_perform(run=run, limit_s=PATIENCE_S).run


@pytest.mark.parametrize("tool", ["get_media_buys", "list_tasks"])
@pytest.mark.parametrize("every", [False, True], ids=["one", "every"])
def test_a_refused_account_is_named_to_its_team_alone(tool: str, every: bool) -> None:
    """Also in why a seller could not be read, which is said of the account that was asked for last."""
    theirs, empty = Team.objects.create(name="Secretive"), {"get_media_buys": NO_BUYS, "list_tasks": NO_TASKS}

    def answer(asked: Told) -> Told:
        return refusal(asked) if every or of_secret(asked) else empty[tool]

    with serve(shop(**{**empty, tool: answer})) as server:
        deal = booked(make_seller(url=f"{server.url}/mcp"))
        account_of(deal, theirs)
        run = performed()

    own = read(ad_ops(deal.team), page_of(run))
    assert (SECRET in own, WORDS in own) == (False, False)
    assert (OWN in own, "is of no use" in own, "Could not be read" in own) == (every, every, every)
    secret, whole = read(ad_ops(theirs), page_of(run)), read(ad_ops(None), page_of(run))
    assert (SECRET in secret, WORDS in secret, OWN in secret) == (True, True, False)
    assert (SECRET in whole, WORDS in whole, OWN in whole) == (True, True, every)
    said = [one.what for one in learnt.reads_refused(deal.seller)]
    assert said == ["Would not tell, or not all, of 1 account or id in the latest reconciliation"]


def test_a_refused_media_buy_is_named_to_its_deals_team_alone() -> None:
    """Asked for by its id, as no list has it."""

    def answer(asked: Told) -> Told:
        by_id = "media_buy_ids" in asked
        return refusal({"account": {"brand": {}}}) if by_id else NO_BUYS

    with serve(shop(get_media_buys=answer, list_tasks=NO_TASKS)) as server:
        deal = booked(make_seller(url=f"{server.url}/mcp"))
        run = performed()

    assert WORDS in read(ad_ops(deal.team), page_of(run))
    assert WORDS not in read(ad_ops(Team.objects.create(name="Secretive")), page_of(run))


def test_words_that_were_kept_without_their_teams_are_for_who_sees_all() -> None:
    """Runs of before; what is nobody's in particular is told as it was."""
    seller = make_seller()
    part = {
        "seller": seller.slug,
        "unread": [f"get_media_buys: {WORDS}"],
        "notes": [f"{NOT_READ[0]} {SECRET}: {WORDS}", "lists no tasks"],
        "unnamed": [],
    }
    run = ReconciliationRun.objects.create(
        trigger="hand", asked_by="system", state="ended", ended_at=clock.now(), report=[part]
    )
    own = read(ad_ops(make_team()), page_of(run))
    assert (SECRET in own, WORDS in own) == (False, False)
    assert ("Could not be read" in own, "Lists no tasks" in own) == (True, True)
    whole = read(ad_ops(None), page_of(run))
    assert (SECRET in whole, whole.count(WORDS)) == (True, 2)

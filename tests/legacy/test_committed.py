"""Imports that commit: what the database itself demands at the commit, and two at the same time."""

from __future__ import annotations

import json
from contextlib import ExitStack

from campaigns.models import Campaign
from orders.models import Deal
from tasks_app.lifecycle.models import Import as ImportRow
from tasks_app.lifecycle.verify import verify_all
from tests.commands.running import ended, run, started
from tests.database import Database
from tests.factories import make_advertiser, make_user
from tests.legacy.buyer import Buyer

HISTORIES = (
    ("quoted", "accepted", "booking", "booked", "delivering"),
    ("quoted", "negotiating", "expired"),
    ("draft", "quoted"),
    ("booked",),
)


def filled(buyer: Buyer) -> tuple[str, ...]:
    make_user("Administrator", name="vera")
    make_advertiser()
    for number, history in enumerate(HISTORIES * 10):
        buyer.deal(f"deal-{number}", *history)
    buyer.campaign()
    return ("import_ad_buyer", str(buyer.path), "--as", "vera", "--json")


def test_the_database_takes_what_is_imported_and_the_trail_holds(
    committed_db: Database, buyer: Buyer
) -> None:
    command = filled(buyer)

    tried = run(*command, "--dry-run")
    assert tried.code == 0, tried.err
    assert not Deal.objects.exists()
    done = run(*command)

    assert done.code == 0, done.err
    assert (len(done.json["imported"]), done.json["already_here"]) == (41, 0)
    for kind in ("deal", "campaign"):
        assert all(checked.ok for _, checked in verify_all(kind))


def test_two_at_the_same_time_import_every_row_once(committed_db: Database, buyer: Buyer) -> None:
    command = filled(buyer)

    with ExitStack() as begun:
        processes = [begun.enter_context(started(*command)) for _ in range(2)]
        answers = [ended(process) for process in processes]

    assert [ran.code for ran in answers] == [0, 0], [ran.err for ran in answers]
    told = sorted(
        (len(data["imported"]), data["already_here"]) for data in (json.loads(r.out) for r in answers)
    )
    assert told == [(0, 41), (41, 0)]
    assert (Deal.objects.count(), Campaign.objects.count(), ImportRow.objects.count()) == (40, 1, 1)

"""A seller that breaks off: what it told until then is judged, but not whose it is while others may say."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from orders.reconcile import media_buys_reconcile
from tasks_app.operations.comparison import Reading, Verdict
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.reconcile import tasks_reconcile
from tasks_app.reconciliation.models import ReconciliationFinding
from tasks_app.sellers.models import Account, Seller
from tests.adcp.raw_server import serve
from tests.factories import make_account, make_advertiser, make_seller, make_team
from tests.operations.making import stand
from tests.operations.sweeping import shop
from tests.operations.test_lists_in_part import (
    DOWN,
    Told,
    another_account,
    bought_unknown,
    read,
    recorded,
    running,
)
from tests.operations.test_narrow_lists import refused
from tests.orders.live import booked
from tests.support import PATIENCE_S

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
TASK_TOOLS = ["create_media_buy", "list_tasks", "get_task_status"]
GONE = {"status": "failed", "errors": [{"code": "TASK_NOT_FOUND", "message": "no"}]}
BROKEN_OFF = {"status": "failed", "errors": [DOWN]}


def test_what_one_account_holds_is_found_although_its_seller_breaks_off() -> None:
    def buys(asked: Told) -> Told:
        if asked["account"] != account.reference:
            return {"status": "failed", "errors": [DOWN]}
        return {"status": "completed", "media_buys": told}

    told: list[Told] = []
    with serve(shop(get_media_buys=buys)) as server:
        seller, deal, account = bought_unknown(f"{server.url}/mcp")
        another_account(seller)
        told.append(running(deal))
        reading = read(seller)
    assert reading.unread
    assert ReconciliationFinding.objects.filter(subject_id=deal.pk, resolved_at=None).exists()


def test_what_a_list_holds_is_found_although_there_is_no_time_for_the_rest() -> None:
    """The media buys that are not in it are asked for one by one, by a seller that hangs."""
    told: list[Told] = []
    until = threading.Event()

    def buys(asked: Told) -> Told:
        if asked.get("media_buy_ids"):
            until.wait(PATIENCE_S)
        return {"status": "completed", "media_buys": told}

    with serve(shop(get_media_buys=buys)) as server:
        seller, deal, account = bought_unknown(f"{server.url}/mcp")
        booked(seller, media_buy_id="mb-gone", account=account)
        told.append(running(deal))
        (reading,) = media_buys_reconcile([seller], 1)
        until.set()
    assert [finding.verdict for finding in reading.findings] == [Verdict.BOUGHT_UNKNOWN]
    assert "took longer than 1 s" in reading.unread
    assert "1 media buy that it did not list could not be asked for" in reading.notes
    recorded(reading)
    assert ReconciliationFinding.objects.filter(subject_id=deal.pk, resolved_at=None).exists()


def test_tasks_that_are_listed_are_found_although_there_is_no_time_for_the_rest() -> None:
    until = threading.Event()

    def state(_asked: Told) -> Told:
        until.wait(PATIENCE_S)
        return {}

    listed = {"status": "completed", "tasks": [{"task_id": "t-9", "status": "working"}]}
    with serve(shop(list_tasks=listed, get_task_status=state)) as server:
        seller = make_seller(
            url=f"{server.url}/mcp", tools=["create_media_buy", "list_tasks", "get_task_status"]
        )
        stand(S.SUBMITTED, seller=seller, task_id="t-1")
        (reading,) = tasks_reconcile([seller], 1)
        until.set()
    assert [finding.verdict for finding in reading.findings] == [Verdict.ORPHANED]
    assert "took longer than 1 s" in reading.unread
    assert not reading.complete


# ---- what was asked for by its id counts, though nothing was listed


def test_a_buy_that_is_not_there_is_missing_although_its_seller_breaks_off_at_the_next() -> None:
    by_id: list[str] = []

    def buys(asked: Told) -> Told:
        by_id.extend(asked.get("media_buy_ids", []))
        return BROKEN_OFF if len(by_id) > 1 else {"status": "completed", "media_buys": []}

    with serve(shop(get_media_buys=buys)) as server:
        seller = make_seller(url=f"{server.url}/mcp")
        first = booked(seller, media_buy_id="mb-1")
        assert first.account is not None
        booked(seller, media_buy_id="mb-2", account=first.account)
        reading = read(seller)
    assert len(by_id) == 2
    assert [(one.verdict, one.theirs) for one in reading.findings] == [(Verdict.MISSING, by_id[0])]
    assert (bool(reading.unread), reading.complete) == (True, False)


def test_a_task_that_is_not_there_is_missing_although_its_seller_breaks_off_at_the_next() -> None:
    by_id: list[str] = []

    def state(asked: Told) -> Told:
        by_id.append(asked["task_id"])
        return BROKEN_OFF if len(by_id) > 1 else GONE

    empty = {"status": "completed", "tasks": []}
    with serve(shop(list_tasks=empty, get_task_status=state)) as server:
        seller = make_seller(url=f"{server.url}/mcp", tools=TASK_TOOLS)
        for task_id in ("t-1", "t-2"):
            stand(S.SUBMITTED, seller=seller, task_id=task_id)
        (reading,) = tasks_reconcile([Seller.objects.get(pk=seller.pk)], 20)
    assert len(by_id) == 2
    assert [(one.verdict, one.theirs) for one in reading.findings] == [(Verdict.MISSING, by_id[0])]
    assert (bool(reading.unread), reading.complete) == (True, False)


# ---- whose it is


def two_accounts(url: str) -> tuple[Seller, Account]:
    seller = make_seller(url=url, tools=["get_media_buys", *TASK_TOOLS])
    account = make_account(make_advertiser(), seller)
    Account.objects.filter(pk=account.pk).update(reference={"account_id": "first"})
    others = make_account(make_advertiser("Another", team=make_team("Another house")), seller)
    Account.objects.filter(pk=others.pk).update(reference={"account_id": "another"})
    return seller, account


def answers(member: str, listed: list[Told], down: list[str]) -> Any:
    """A seller that takes no notice of the account, and breaks off at those in `down`."""

    def answer(asked: Told) -> Told:
        is_down = asked["account"]["account_id"] in down
        return BROKEN_OFF if is_down else {"status": "completed", member: listed}

    return answer


def tasks(seller: Seller) -> Reading:
    (reading,) = tasks_reconcile([Seller.objects.get(pk=seller.pk)], 20)
    return recorded(reading, "task")


def test_a_task_is_nobodys_until_all_accounts_were_asked_for_theirs() -> None:
    down = ["another"]
    listed: list[Told] = [{"task_id": "t-9", "status": "working", "task_type": "create_media_buy"}]
    with serve(shop(list_tasks=answers("tasks", listed, down))) as server:
        seller, account = two_accounts(f"{server.url}/mcp")
        reading = tasks(seller)
        assert reading.findings == [], "it may be the other's"
        assert any(note.startswith("not judged: 1 task that may be of") for note in reading.notes)
        listed.append({**listed[0], "task_id": "t-8", "account": {"account_id": "first"}})
        found = tasks(seller).findings
        assert [(one.theirs, one.account_id) for one in found] == [("t-8", account.pk)], "it says so"
        del listed[1], down[0]
        (whole,) = tasks(seller).findings
    assert (whole.verdict, whole.team_id, whole.account_id) == (Verdict.ORPHANED, None, None)


def test_a_task_that_names_our_call_is_found_before_all_accounts_were_asked() -> None:
    listed: list[Told] = [{"task_id": "t-9", "status": "working"}]
    with serve(shop(list_tasks=answers("tasks", listed, ["another"]))) as server:
        seller, account = two_accounts(f"{server.url}/mcp")
        out = stand(S.CALLING_ADCP, seller=seller, account=account)
        listed[0]["context"] = {"operation_id": str(out.pk)}
        (found,) = tasks(seller).findings
    assert found.subject is not None
    assert (found.verdict, found.subject.id) == (Verdict.UNANSWERED, out.pk)


def test_a_media_buy_is_nobodys_until_all_accounts_were_asked_for_theirs() -> None:
    down = ["another"]
    listed: list[Told] = [{"media_buy_id": "mb-9", "status": "active"}]
    with serve(shop(get_media_buys=answers("media_buys", listed, down))) as server:
        seller, account = two_accounts(f"{server.url}/mcp")
        reading = read(seller)
        assert reading.findings == [], "it may be the other's"
        assert any(note.startswith("not judged: 1 media buy that may be of") for note in reading.notes)
        listed.append({**listed[0], "media_buy_id": "mb-8", "account": {"account_id": "first"}})
        found = read(seller).findings
        assert [(one.theirs, one.account_id) for one in found] == [("mb-8", account.pk)], "it says so"
        del listed[1], down[0]
        (whole,) = read(seller).findings
    assert (whole.verdict, whole.team_id, whole.account_id) == (Verdict.EXTERNAL, None, None)


# What an account's own media buy may say.
RECORDS: dict[str, Callable[[], Told]] = {
    "nothing": dict,
    "a deal that is not here": lambda: {"context": {"deal_id": str(uuid.uuid4())}},
}


@pytest.mark.parametrize("record", RECORDS)
def test_what_was_found_stays_its_accounts_while_another_was_not_asked(record: str) -> None:
    """One row, and nobody else's in between."""
    down: list[str] = []
    listed: list[Told] = [{"media_buy_id": "mb-9", "status": "active", **RECORDS[record]()}]

    def buys(asked: Told) -> Told:
        is_first = asked["account"]["account_id"] == "first"
        answer: Told = answers("media_buys", listed if is_first else [], down)(asked)
        return answer

    rows = set()
    with serve(shop(get_media_buys=buys)) as server:
        seller, account = two_accounts(f"{server.url}/mcp")
        for is_down in (False, True, False):
            down[:] = ["another"] if is_down else []
            read(seller)
            row = ReconciliationFinding.objects.get(resolved_at=None)
            rows.add((row.pk, row.team_id, row.account_id))
    assert rows == {(row.pk, account.advertiser.team_id, account.pk)}


# How the list of the other account may end.
ENDS: dict[str, tuple[Told, bool]] = {
    "no answer to be had": (BROKEN_OFF, True),
    "refused as a whole": (refused(message="this account was rejected"), False),
    "refused after a page": ({"pagination": {"has_more": True, "cursor": "2"}}, True),
    "with an error beside it": ({"errors": [DOWN]}, False),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("tool", ["get_media_buys", "list_tasks"])
def test_whose_it_is_is_open_where_the_list_of_another_was_not_read_to_its_end(tool: str, end: str) -> None:
    """One refused outright has no list that it could be in; an error beside a list may be a warning."""
    other, is_open = ENDS[end]
    member, name = ("tasks", "task_id") if tool == "list_tasks" else ("media_buys", "media_buy_id")

    def answer(asked: Told) -> Told:
        whole: Told = {"status": "completed", member: []}
        if asked["account"]["account_id"] == "first":
            return whole | {member: [{name: "x-9", "status": "working"}]}
        if asked.get("pagination", {}).get("cursor"):
            return refused(message="this cursor has expired")
        return whole | other

    with serve(shop(**{tool: answer})) as server:
        seller, account = two_accounts(f"{server.url}/mcp")
        reading = tasks(seller) if tool == "list_tasks" else read(seller)
    assert [one.account_id for one in reading.findings] == ([] if is_open else [account.pk])
    assert any(note.startswith("not judged: 1 ") for note in reading.notes) is is_open


@pytest.mark.parametrize("reference", [{"brand": {"domain": "another.com"}}, {"account_id": "another"}])
def test_an_id_says_whose_it_is_only_beside_accounts_that_are_named_by_one(reference: Told) -> None:
    record = {"media_buy_id": "mb-9", "status": "active", "account": {"account_id": "first"}}
    listed = [record, record | {"media_buy_id": "mb-8", "account": {"account_id": "of another"}}]

    def buys(asked: Told) -> Told:
        is_other = asked["account"] == reference
        return BROKEN_OFF if is_other else {"status": "completed", "media_buys": listed}

    with serve(shop(get_media_buys=buys)) as server:
        seller, account = two_accounts(f"{server.url}/mcp")
        Account.objects.filter(seller=seller).exclude(pk=account.pk).update(reference=reference)
        found = [(one.theirs, one.account_id) for one in read(seller).findings]
    assert found == ([("mb-9", account.pk), ("mb-8", None)] if "account_id" in reference else [])


# ---- notes are bounded


def test_as_many_ids_as_a_seller_refuses_are_noted_in_a_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks_app.operations.line.MOST_NAMED", 3)

    def state(asked: Told) -> Told:
        error = {"code": "X_NO", "message": f"not {asked['task_id']}", "recovery": "terminal"}
        return {"status": "failed", "errors": [error]}

    empty = {"status": "completed", "tasks": []}
    with serve(shop(list_tasks=empty, get_task_status=state)) as server:
        seller = make_seller(url=f"{server.url}/mcp", tools=TASK_TOOLS)
        for number in range(9):
            stand(S.SUBMITTED, seller=seller, task_id=f"t-{number}")
        (reading,) = tasks_reconcile([Seller.objects.get(pk=seller.pk)], 20)
    notes = [note for note, _ in reading.unnamed]
    assert len(notes) == 4, notes
    assert notes[-1].startswith("not read for others under no account: ")
    assert len(reading.unjudged) == 9

"""A run with one of everything it can find, as the sellers of the seeded agency might have told it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from orders.models import Deal
from tasks_app.adcp.types import Seen, WireError
from tasks_app.operations.comparison import Finding, Reader, Reading, Verdict, refused_of, unread_of
from tasks_app.operations.line import Teams, UnreadableError, refused_one, teams_of_accounts, unreadable
from tasks_app.operations.models import Operation
from tasks_app.operations.services import Subject
from tasks_app.reconciliation import runs
from tasks_app.reconciliation.models import ReconciliationRun
from tasks_app.sellers.models import Account, Seller

_BUY: dict[str, Any] = {
    "media_buy_id": "nrl-77120",
    "status": "active",
    "revision": 4,
    "currency": "EUR",
    "total_budget": 18500,
    "packages": [
        {
            "package_id": "nrl-77120-1",
            "product_id": "news-in-feed",
            "budget": 18500,
            "start_time": "2026-11-01T00:00:00Z",
            "end_time": "2026-12-01T00:00:00Z",
        }
    ],
}


def reconciled(monkeypatch: Any, *, deal: Deal, operation: Operation) -> ReconciliationRun:
    """The run, performed with findings about `deal` and `operation` of one seller; the others are in step."""
    told = {"task": _tasks(operation), "media_buy": _buys(deal)}
    assert deal.account is not None
    refused = refused_of(_refused(deal.account))

    def reader(kind: str) -> Reader:
        def read(sellers: Sequence[Seller], _limit_s: float) -> list[Reading]:
            return [
                _reading(seller, told[kind] if seller == deal.seller else [], refused) for seller in sellers
            ]

        return Reader(kind=kind, read=read, settle=lambda _seller, _finding: None)

    monkeypatch.setattr(runs, "_readers", [reader("task"), reader("media_buy")])
    run = runs.run_ask(trigger="schedule", actor="system")
    return runs.run_perform(run=run, limit_s=1).run


def report_of_refusals(account: Account) -> list[dict[str, Any]]:
    """A kept report: of its account the seller told no media buys, and could not be read over its tasks."""
    seller = account.seller
    refused = Reading(seller=seller, unnamed=refused_of(_refused(account)))
    error = _error(account)
    with suppress(UnreadableError):
        refused_one(error, {}, account=None, teams=teams_of_accounts([account]), last=True)
    kinds = {"task": (unread_of(seller, error, {}), []), "media_buy": (refused, [])}
    return [runs.Compared(seller=seller, kinds=kinds).as_kept()]


def _refused(account: Account) -> dict[str, Teams]:
    refused: dict[str, Teams] = {}
    asked, teams = account.reference, teams_of_accounts([account])
    refused_one(_error(account), refused, account=asked, teams=teams, last=False)
    return refused


def _error(account: Account) -> UnreadableError:
    """As of an answer in the seller's words, which name the brand."""
    why = f"the credit of {account.advertiser.brand_domain} is used up"
    seen = Seen(kind="answer", status="failed", error=WireError(code="ACCOUNT_NOT_FOUND", message=why))
    return unreadable("get_media_buys", seen)


def _reading(seller: Seller, findings: list[Finding], refused: list[tuple[str, uuid.UUID | None]]) -> Reading:
    if findings:
        notes = ["lists no tasks: ones unknown here hide"]
        return Reading(seller=seller, findings=findings, notes=notes, unnamed=refused)
    unread = "" if seller.active else "its answers took longer than 40 s"
    return Reading(seller=seller, unread=unread)


def _tasks(operation: Operation) -> list[Finding]:
    ours: dict[str, Any] = {
        "here": operation.reference,
        "status_here": operation.status,
        "subject": Subject(type="operation", id=operation.pk),
        "team_id": operation.team_id,
    }
    return [
        Finding(
            verdict=Verdict.ORPHANED, theirs="nrl-task-4410", status_there="working", note="sync_creatives"
        ),
        Finding(verdict=Verdict.MISSING, theirs=operation.task_id or "nrl-task-1", **ours),
    ]


def _buys(deal: Deal) -> list[Finding]:
    ours: dict[str, Any] = {
        "here": deal.reference,
        "status_here": deal.status,
        "subject": Subject(type="deal", id=deal.pk),
        "team_id": deal.team_id,
        "account_id": deal.account_id,
    }
    return [
        Finding(
            verdict=Verdict.BOUGHT_UNKNOWN,
            theirs="nrl-77120",
            status_there="active",
            note="it names a deal that does not exist",
            told=_BUY,
            team_id=deal.team_id,
            account_id=deal.account_id,
        ),
        Finding(
            verdict=Verdict.EXTERNAL,
            theirs="nrl-10044",
            status_there="active",
            told={**_BUY, "media_buy_id": "nrl-10044"},
            team_id=deal.team_id,
        ),
        Finding(verdict=Verdict.IN_STEP, theirs=deal.media_buy_id, status_there="active", **ours),
    ]

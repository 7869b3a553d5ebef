"""Calls, deliveries, readings and comparisons with one row that cannot be written, and one that can."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from orders import mirror
from orders.changes.prove import close_unproved_changes
from orders.models import Change, Deal, DealMirror
from tasks_app import clock
from tasks_app.adcp import client
from tasks_app.adcp.types import Capabilities, Endpoint
from tasks_app.commands.kill_switch import stops
from tasks_app.operations import deadlines, dispatch, publish
from tasks_app.operations.account_reads import accounts_read_due
from tasks_app.operations.comparison import Finding, Reader, Reading, Verdict
from tasks_app.operations.lease import CallLease
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.pulse import SweepPulse
from tasks_app.operations.seller_reads import sellers_read
from tasks_app.operations.sweep import _Sweeper
from tasks_app.operations.webhook_health import webhooks_judge
from tasks_app.reconciliation import findings, runs
from tasks_app.reconciliation.models import ReconciliationFinding, ReconciliationRun
from tasks_app.sellers.models import Account, Seller, SellerBreaker
from tasks_app.sellers.trust import credentials_tell
from tasks_app.webhooks import unverified
from tasks_app.webhooks.early import early_apply_due, received_apply_due
from tasks_app.webhooks.models import WebhookDelivery
from tasks_app.webhooks.retention import deliveries_forget
from tests.boundary.conftest import stopped
from tests.factories import make_account, make_advertiser, make_seller
from tests.operations.making import answer, ask, fresh, stand
from tests.orders.doors import wanted
from tests.orders.late import say
from tests.orders.live import booked
from tests.support import PATIENCE_S
from tests.troubles.poisoning import PAST, Case, Tried, poison, sellers
from tests.webhooks.signing import payload


def published(**_: Any) -> Case:
    bad, well = (stand(S.COMPLETED, seller=one, task_id="t") for one in sellers())
    poison("tasks_app_operation", bad.pk)
    publish.publish_due(limit=10)
    return bad.pk, lambda: fresh(well).published_at


def published_together(**_: Any) -> Case:
    bad, well = (stand(S.COMPLETED, seller=one, task_id="t") for one in sellers())
    poison("tasks_app_operation", bad.pk)
    publish.publish_many(operation_ids=[bad.pk, well.pk])
    return bad.pk, lambda: fresh(well).published_at


def overdue(**_: Any) -> Case:
    bad, well = (stand(S.SUBMITTED, seller=one, task_id="t") for one in sellers())
    Operation.objects.update(deadline_at=clock.now() - PAST)
    poison("tasks_app_operation", bad.pk)
    deadlines.mark_overdue(limit=10)
    return bad.pk, lambda: fresh(well).status == S.TIMED_OUT


def unsent(**_: Any) -> Case:
    bad, well = (ask(seller=one) for one in sellers())
    Operation.objects.update(deadline_at=clock.now() - PAST)
    poison("tasks_app_operation", bad.pk)
    deadlines.fail_unsent(limit=10)
    return bad.pk, lambda: fresh(well).status == S.FAILED


def unanswered(**_: Any) -> Case:
    bad, well = (stand(S.CALLING_ADCP, seller=one) for one in sellers())
    Operation.objects.update(deadline_at=clock.now() - PAST)
    poison("tasks_app_operation", bad.pk)
    deadlines.mark_for_lookup(limit=10)
    return bad.pk, lambda: fresh(well).next_poll_at


def let_go(**_: Any) -> Case:
    bad, well = (ask(seller=one) for one in sellers())
    began = clock.now()
    stopped()
    Operation.objects.update(deadline_at=clock.now() - PAST)
    poison("tasks_app_operation", bad.pk)
    stopped(on=False)
    deadlines.fail_unsent(limit=10)
    assert stops().everywhere is None
    assert fresh(bad).status == S.REQUESTED, "its time is owed to it"
    return bad.pk, lambda: fresh(well).deadline_at > began


def after_an_outage(**_: Any) -> Case:
    """The others have their time, the pulse is written, and what follows in the pass is done."""
    bad, well = (stand(S.SUBMITTED, seller=one, task_id="t") for one in sellers())
    settled = stand(S.COMPLETED, seller=well.seller, task_id="s")
    back = clock.now()
    begun = back - timedelta(hours=5)
    SweepPulse.objects.create(pk=1, at=begun)
    Operation.objects.update(deadline_at=begun + timedelta(hours=1))
    poison("tasks_app_operation", bad.pk)
    _Sweeper()._rows()
    assert SweepPulse.objects.get().at > begun
    assert fresh(bad).status == S.SUBMITTED, "its time is owed to it"
    return bad.pk, lambda: fresh(well).deadline_at > back and fresh(settled).published_at


def overdue_told(**_: Any) -> Case:
    bad, well = (stand(S.TIMED_OUT, seller=one, task_id="t") for one in sellers())
    poison("tasks_app_operation", bad.pk)
    deadlines.tell_overdue(limit=10)
    return bad.pk, lambda: fresh(well).overdue_told_at


def sends(**_: Any) -> Case:
    seller = make_seller(slots=5)
    bad, well = ask(seller=seller), ask(seller=seller)
    poison("tasks_app_operation", bad.pk)
    dispatch.claim_sends(limit=10)
    return bad.pk, lambda: fresh(well).status == S.CALLING_ADCP


def probed(**_: Any) -> Case:
    """Neither what the others are sent nor looked at waits for a breaker that cannot be written."""
    bad, well = sellers()
    operations = [ask(seller=one) for one in (bad, well)]
    opened = clock.now() - timedelta(hours=1)
    SellerBreaker.objects.create(
        seller=bad, state=SellerBreaker.State.OPEN, failures=9, opened_at=opened, probe_at=opened
    )
    poison("tasks_app_sellerbreaker", bad.pk, "seller_id")
    now = clock.now()
    with clock.injected(lambda: now):
        calls = dispatch.claim_sends(limit=10)
        assert [call.seller_id for call in calls] == [well.pk]
        assert not CallLease.objects.filter(seller=bad).exists(), "its place is free again"
        assert (fresh(operations[0]).status, fresh(operations[0]).attempts) == (S.REQUESTED, 0)
        assert dispatch.claim_sends(limit=10) == [], "it is left out for a while"
    return bad.pk, lambda: fresh(operations[1]).status == S.CALLING_ADCP


def looks(monkeypatch: pytest.MonkeyPatch, **_: Any) -> Case:
    seller, real = make_seller(slots=5), dispatch.lookup_of
    bad, well = (stand(S.CALLING_ADCP, seller=seller, next_poll_at=clock.now(), send_at=None) for _ in "ab")

    def unreadable(operation: Operation) -> Any:
        if operation.pk == bad.pk:
            raise ValueError("nobody can read this")
        return real(operation)

    monkeypatch.setattr(dispatch, "lookup_of", unreadable)
    calls = dispatch.claim_polls(limit=10)
    return bad.pk, lambda: [call.operation_id for call in calls] == [well.pk]


def looked_after(**_: Any) -> Case:
    """One that is only put off, as its seller has no tool for the state of a task, and one that is polled."""
    now = clock.now()
    without = make_seller("Bad", tools=["create_media_buy"])
    bad = stand(S.SUBMITTED, seller=without, task_id="a", next_poll_at=now)
    well = stand(S.SUBMITTED, seller=make_seller("Well"), task_id="b", next_poll_at=now)
    poison("tasks_app_operation", bad.pk)
    calls = dispatch.claim_polls(limit=10)
    return bad.pk, lambda: [call.operation_id for call in calls] == [well.pk]


def answered(**_: Any) -> Case:
    seller = make_seller(slots=5)
    bad, well = ask(seller=seller), ask(seller=seller)
    calls = dispatch.claim_sends(limit=10)
    poison("tasks_app_operation", bad.pk)
    dispatch.finish([(call, answer("submitted", task_id=str(call.operation_id))) for call in calls])
    return bad.pk, lambda: fresh(well).status == S.SUBMITTED


def renewed(**_: Any) -> Case:
    seller = make_seller(slots=5)
    bad, well = (stand(S.AUTH_REQUIRED, seller=seller, task_id=f"t-{one}", next_poll_at=None) for one in "ab")
    poison("tasks_app_operation", bad.pk)
    credentials_tell(seller, "system")
    return bad.pk, lambda: fresh(well).next_poll_at


def accounts(**_: Any) -> Case:
    advertiser = make_advertiser()
    bad, well = (make_account(advertiser, one, status="pending_approval") for one in sellers())
    began = clock.now()
    Account.objects.update(next_read_at=began - PAST)
    poison("tasks_app_account", bad.pk)
    accounts_read_due()
    return bad.pk, lambda: Account.objects.get(pk=well.pk).next_read_at > began


def read_again(*, monkeypatch: pytest.MonkeyPatch, **_: Any) -> Case:
    async def discover(_: Endpoint) -> Capabilities:
        return Capabilities(agent_name="A", version="3.2", supported_versions=("3.2",), tools=frozenset())

    monkeypatch.setattr(client, "discover", discover)
    bad, well = sellers()
    Seller.objects.update(capabilities_next_at=clock.now() - PAST)
    poison("tasks_app_seller", bad.pk)
    sellers_read()
    return bad.pk, lambda: Seller.objects.get(pk=well.pk).capabilities_at is not None


def hooked() -> tuple[Seller, Seller]:
    bad, well = sellers()
    Seller.objects.update(webhook_mode="hmac", webhook_secret="s" * 40)
    return bad, well


def judged(**_: Any) -> Case:
    bad, well = hooked()
    poison("tasks_app_seller", bad.pk)
    webhooks_judge()
    return bad.pk, lambda: Seller.objects.get(pk=well.pk).webhook_checked_at


def delivery(operation: Operation, verdict: str) -> None:
    WebhookDelivery.objects.create(
        seller=operation.seller,
        key=f"k-{operation.pk}",
        fingerprint="0" * 64,
        verdict=verdict,
        reason="webhook_signature_invalid" if verdict == "refused" else "",
        task_id=operation.task_id,
        operation=operation if verdict == "received" else None,
        operation_ref=str(operation.pk),
        body=payload(task_id=operation.task_id, operation_id=str(operation.pk)),
    )


def delivered(verdict: str) -> tuple[Operation, Operation]:
    bad, well = (stand(S.SUBMITTED, seller=one, task_id=f"t-{one.name}") for one in hooked())
    delivery(bad, verdict)
    delivery(well, verdict)
    return bad, well


def not_verified(monkeypatch: pytest.MonkeyPatch, **_: Any) -> Case:
    bad, well = delivered("refused")
    alarmed: list[Seller] = []

    def alarm(seller: Seller, **_told: Any) -> int:
        if seller.pk == bad.seller_id:
            raise ValueError("nobody can say this")
        alarmed.append(seller)
        return 1

    monkeypatch.setattr(unverified, "unverified_alarm", alarm)
    unverified.cache.clear()
    unverified.unverified_tell()
    return bad.seller_id, lambda: [one.pk for one in alarmed] == [well.seller_id]


def early(**_: Any) -> Case:
    bad, well = delivered("early")
    poison("tasks_app_operation", bad.pk)
    early_apply_due()
    return bad.pk, lambda: fresh(well).status == S.COMPLETED


def received(**_: Any) -> Case:
    bad, well = delivered("received")
    poison("tasks_app_operation", bad.pk)
    received_apply_due()
    return bad.pk, lambda: fresh(well).status == S.COMPLETED


def forgotten(verdict: str) -> Case:
    for operation in delivered(verdict):
        WebhookDelivery.objects.filter(operation_ref=str(operation.pk)).update(
            bound_until=clock.now() if verdict == "applied" else None
        )
    bad, well = WebhookDelivery.objects.order_by("pk")
    poison("tasks_app_webhookdelivery", bad.pk)
    later = clock.now() + timedelta(days=8)
    with clock.injected(lambda: later):
        deliveries_forget()
    return bad.pk, lambda: WebhookDelivery.objects.get(pk=well.pk).body is None


def bodies_forgotten(**_: Any) -> Case:
    return forgotten("applied")


def contradictions_forgotten(**_: Any) -> Case:
    return forgotten("key_conflict")


def live() -> tuple[Deal, Deal]:
    bad, well = (booked(one, media_buy_id=f"mb-{one.name}") for one in sellers())
    DealMirror.objects.update(due_at=clock.now() - PAST)
    return bad, well


def unread_changes(**_: Any) -> Case:
    Seller.objects.update(slots=9)
    bad, well = (wanted(deal, task=f"t-{deal.pk}", name="Spring") for deal in live())
    for change in (bad, well):
        say(change, "completed", {"media_buy_id": "mb"}, task_id=f"t-{change.subject_id}")
    poison("orders_change", bad.subject_id, "deal_id")
    tomorrow = clock.now() + timedelta(hours=25)
    with clock.injected(lambda: tomorrow):
        close_unproved_changes()
    return bad.subject_id, lambda: Change.objects.get(operation=well).outcome == "not_shown"


def mirrors(**_: Any) -> Case:
    bad, well = live()
    poison("orders_dealmirror", bad.pk, "deal_id")
    errands = mirror._claim()
    return bad.pk, lambda: [due.deal_id for e in errands for b in e.batches for due in b.due] == [well.pk]


def mirrored(**_: Any) -> Case:
    deals = live()
    poison("orders_dealmirror", deals[0].pk, "deal_id")
    now = clock.now()
    due = [mirror._Due(deal_id=one.pk, media_buy_id=one.media_buy_id) for one in deals]
    mirror._write_all([mirror._Told(due=one, asked_at=now, unread="No.") for one in due], "x")
    return deals[0].pk, lambda: DealMirror.objects.get(pk=deals[1].pk).failures


def followed(monkeypatch: pytest.MonkeyPatch, **_: Any) -> Case:
    """Two of a seller's: what it says of the first cannot be followed, and holds up nothing."""
    bad, _other = live()
    beside = booked(bad.seller, media_buy_id="mb-beside")
    DealMirror.objects.update(lease_until=clock.now() + timedelta(minutes=1))
    real = mirror.deal_follow

    def follow(*, deal_id: uuid.UUID, **said: Any) -> None:
        if deal_id == bad.pk:
            raise ValueError("nobody can follow this")
        real(deal_id=deal_id, **said)

    monkeypatch.setattr(mirror, "deal_follow", follow)
    told = []
    for one in (bad, beside):
        buy = {"status": "active", "revision": 9, "media_buy_id": one.media_buy_id}
        due = mirror._Due(deal_id=one.pk, media_buy_id=one.media_buy_id)
        told.append(mirror._Told(due=due, asked_at=clock.now(), buy=buy))
    mirror._write_all(told, "x")
    held = DealMirror.objects.filter(deal__in=[bad, beside]).exclude(lease_until=None)
    return bad.pk, lambda: Deal.objects.get(pk=beside.pk).revision == 9 and not held.exists()


def asked_and_read(monkeypatch: pytest.MonkeyPatch, **_: Any) -> Case:
    """Two of a seller's and one of another's: the first one's record cannot be read."""
    bad, well = live()
    beside = booked(bad.seller, media_buy_id="mb-beside")
    DealMirror.objects.update(due_at=clock.now() - PAST)

    async def listed(_line: Any, _account: Any, wanted: list[str]) -> tuple[dict[str, Any], str]:
        if bad.media_buy_id in wanted:
            raise ValueError("nobody can read this")
        return {one: {"status": "active", "revision": 9, "media_buy_id": one} for one in wanted}, ""

    monkeypatch.setattr(mirror, "_listed", listed)
    monkeypatch.setattr(Seller, "offers", lambda _seller, _tool: True)
    assert async_to_sync(mirror._pass)() == 3
    read = Deal.objects.filter(pk__in=[well.pk, beside.pk], revision=9)
    leased = DealMirror.objects.exclude(lease_until=None)
    return bad.pk, lambda: read.count() == 2 and not leased.exists()


def no_line(monkeypatch: pytest.MonkeyPatch, **_: Any) -> Case:
    bad, well = live()
    real = mirror.reading_line_to

    def line_to(seller: Seller) -> Any:
        if seller.pk == bad.seller_id:
            raise ValueError("nobody can call this")
        return real(seller)

    monkeypatch.setattr(mirror, "reading_line_to", line_to)
    errands = mirror._claim()
    return bad.pk, lambda: [due.deal_id for e in errands for b in e.batches for due in b.due] == [well.pk]


def reconciled(monkeypatch: pytest.MonkeyPatch, bad: Seller, well: Seller) -> Case:
    reader = Reader(kind="task", read=read_plainly, settle=lambda _seller, _finding: None)
    monkeypatch.setattr(runs, "_readers", [reader])
    runs.run_perform(run=runs.run_ask(trigger="schedule", actor="system"), limit_s=PATIENCE_S)
    run = ReconciliationRun.objects.get()
    told = {one["seller"]: one for one in run.report}

    def other() -> bool:
        is_told = bool(told[bad.slug]["unread"]) and not told[well.slug]["unread"]
        return is_told and not run.error and ReconciliationFinding.objects.get().seller_id == well.pk

    return bad.pk, other


def read_plainly(asked: Sequence[Seller], _limit_s: float) -> list[Reading]:
    missing = Finding(verdict=Verdict.MISSING, theirs="t-1")
    return [Reading(seller=seller, findings=[missing]) for seller in asked]


def reconciled_and_recorded(monkeypatch: pytest.MonkeyPatch, **_: Any) -> Case:
    bad, well = sellers()
    real = findings._tell

    def tell(run: Any, seller: Seller, rows: Any) -> None:
        if seller.pk == bad.pk:
            raise ValueError("nobody can say this")
        real(run, seller, rows)

    monkeypatch.setattr(findings, "_tell", tell)
    return reconciled(monkeypatch, bad, well)


def reconciled_and_read(monkeypatch: pytest.MonkeyPatch, **_: Any) -> Case:
    bad, well = sellers()
    real = read_plainly

    def read(asked: Sequence[Seller], limit_s: float) -> list[Reading]:
        if bad in asked:
            raise ValueError("nobody can read this")
        return real(asked, limit_s)

    monkeypatch.setitem(globals(), "read_plainly", read)
    return reconciled(monkeypatch, bad, well)


# What the work is called, the modules that do it, and how it is tried.
OF_SELLERS: list[Tried] = [
    ("publish", "tasks_app.operations.publish", published),
    ("publish", "tasks_app.operations.publish", published_together),
    ("deadlines", "tasks_app.operations.deadlines", overdue),
    ("deadlines", "tasks_app.operations.deadlines", unsent),
    ("deadlines", "tasks_app.operations.deadlines", unanswered),
    ("deadlines_given", "tasks_app.operations.deadlines", let_go),
    ("deadlines_given", "tasks_app.operations.deadlines", after_an_outage),
    ("overdue_told", "tasks_app.operations.deadlines", overdue_told),
    ("calls", "tasks_app.operations.dispatch", sends),
    ("breakers_probed", "tasks_app.operations.claims", probed),
    ("calls", "tasks_app.operations.dispatch", looks),
    ("calls", "tasks_app.operations.dispatch", looked_after),
    ("calls", "tasks_app.operations.dispatch", answered),
    ("credentials_used", "tasks_app.operations.answers", renewed),
    ("accounts_read", "tasks_app.operations.account_reads", accounts),
    ("sellers_read", "tasks_app.operations.seller_reads", read_again),
    ("webhooks_judged", "tasks_app.operations.webhook_health", judged),
    ("webhooks_unverified", "tasks_app.webhooks.unverified", not_verified),
    ("early_applied", "tasks_app.webhooks.early", early),
    ("received_applied", "tasks_app.webhooks.early", received),
    ("deliveries_forgotten", "tasks_app.webhooks.retention", bodies_forgotten),
    ("deliveries_forgotten", "tasks_app.webhooks.retention", contradictions_forgotten),
    ("changes_unproved", "orders.changes.prove", unread_changes),
    ("mirrors_read", "orders.mirror", mirrors),
    ("mirrors_read", "orders.mirror", mirrored),
    ("mirrors_read", "orders.mirror", followed),
    ("mirrors_read", "orders.mirror", asked_and_read),
    ("mirrors_read", "orders.mirror", no_line),
    ("tasks_reconciled", "tasks_app.reconciliation.runs", reconciled_and_read),
    ("tasks_reconciled", "tasks_app.reconciliation.runs", reconciled_and_recorded),
]

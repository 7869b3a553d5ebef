"""What reconciliation found: who has it, what a person can do about it, adopting a media buy."""

from __future__ import annotations

import threading
import uuid
from contextlib import ExitStack
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connections, transaction

from orders.models import Deal, DealMirror
from orders.seller_state import deal_follow
from orders.unclaimed.adopt import AdoptionRefusedError, media_buy_adopt
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.lifecycle.models import AuditEntry, Import
from tasks_app.lifecycle.transitions import transition as moved
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.notifications.models import Notification
from tasks_app.notifications.selectors import notifications_of
from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tasks_app.reconciliation.actions import ActionRefusedError, Chosen, actions_for, finding_act
from tasks_app.reconciliation.models import ReconciliationFinding
from tasks_app.reconciliation.selectors import findings_of
from tasks_app.sellers.models import Account, Seller
from tests.commands.reconciling import booking, bought, lists, pending, settle
from tests.commands.reconciling import told as told_again
from tests.commands.running import call, ended, started
from tests.factories import make_account, make_advertiser, make_team, make_user
from tests.fake_seller.driver import FakeSeller
from tests.support import PATIENCE_S, locks_awaited, until

FLIGHT = {"start_time": "2030-01-01T00:00:00Z", "end_time": "2030-02-01T00:00:00Z"}
EXTERNAL: dict[str, Any] = {
    "media_buy_id": "mb-ext",
    "status": "active",
    "revision": 3,
    "currency": "USD",
    "packages": [
        {"package_id": "p1", "product_id": "olv", "budget": 1200.5, "bid_price": 9.5, **FLIGHT},
        {"package_id": "p2", "product_id": "ctv", "budget": 800, **FLIGHT},
    ],
}


@pytest.fixture
def account(seller: Seller) -> Account:
    return make_account(make_advertiser(), seller)


@pytest.fixture
def operator(seller: Seller) -> User:
    return make_user("Ad Ops", name="omar")


def told(faulty: FakeSeller, *buys: dict[str, Any]) -> None:
    faulty.fault("get_media_buys", "merge", 0, answer={"media_buys": list(buys)})


def act(finding: ReconciliationFinding, user: User, action: str, reason: str = "", **more: Any) -> str:
    chosen = Chosen(user=user, reason=reason, **more)
    return finding_act(finding_id=finding.pk, action=action, chosen=chosen)


def adopted(account: Account, user: User, **changed: Any) -> Deal:
    return media_buy_adopt(account=account, told={**EXTERNAL, **changed}, user=user, reason="Ours now")


@pytest.mark.parametrize("whole", [{"total_budget": 2500, **FLIGHT}, {}], ids=["stated", "by its packages"])
def test_one_too_large_to_be_kept_is_adopted_by_its_total(
    faulty: FakeSeller, seller: Seller, account: Account, operator: User, whole: dict[str, Any]
) -> None:
    package = {"product_id": "olv", "budget": 10, "name": "x" * 300, **FLIGHT}
    packages = [{**package, "package_id": f"p{number}"} for number in range(250)]
    told(faulty, {**EXTERNAL, "media_buy_id": "mb-large", "packages": packages, **whole})
    assert call("reconcile").code == 0
    act(ReconciliationFinding.objects.get(verdict="external"), operator, "adopt", "Bought by phone")
    deal = Deal.objects.get(media_buy_id="mb-large")
    assert [line.budget for line in deal.lines.all()] == [Decimal(2500)]
    assert (deal.start_at, deal.end_at) == tuple(map(datetime.fromisoformat, FLIGHT.values()))


def test_bought_with_our_ids_and_unknown_here_is_told_once_and_waits_by_name(
    faulty: FakeSeller, account: Account, operator: User
) -> None:
    lost = bought(faulty, account.seller, {"deal_id": str(uuid.uuid4())})

    first, again = call("reconcile", "--json"), call("reconcile", "--json")

    for ran in (first, again):
        (found,) = ran.json["sellers"][0]["media_buys"]
        assert (ran.code, found["verdict"], found["waits_on"]) == (1, "bought_unknown", "omar")
        assert ran.json["unattended"] == 0
    alarm = Notification.objects.get(kind="bought_unknown")
    assert (alarm.level, alarm.right) == ("alarm", "tasks_app.steer_operation")
    assert lost in alarm.body
    assert alarm in notifications_of(operator)


def test_what_was_bought_for_a_lost_deal_is_asked_about_once_and_kept_or_gone(
    faulty: FakeSeller, seller: Seller, operator: User
) -> None:
    deal = booking(seller)
    settle(deal, "failed")
    named = bought(faulty, seller, {"deal_id": str(deal.pk)})
    for _ in range(2):
        (found,) = call("reconcile", "--json").json["sellers"][0]["media_buys"]
        assert found["handled"] == f"People are asked whether to keep {named}"
    asked = Approval.objects.get(kind="unclaimed")
    assert (asked.subject_id, asked.evidence["media_buy_id"]) == (deal.pk, named)
    finding = ReconciliationFinding.objects.get()
    assert (finding.resolution, finding.here) == ("asked", deal.reference)
    assert not Notification.objects.filter(kind="bought_unknown").exists()
    told(faulty, {"media_buy_id": named, "status": "canceled", "context": {"deal_id": str(deal.pk)}})
    call("reconcile")
    asked.refresh_from_db()
    assert asked.status == "voided"


def test_an_external_one_is_no_difference_and_can_be_adopted(
    faulty: FakeSeller, seller: Seller, account: Account, operator: User
) -> None:
    told(faulty, EXTERNAL)
    assert call("reconcile").code == 0
    finding = ReconciliationFinding.objects.get(verdict="external")
    assert not Notification.objects.exists()

    said = act(finding, operator, "adopt", "Bought by phone")

    deal = Deal.objects.get(media_buy_id="mb-ext")
    finding.refresh_from_db()
    assert deal.reference in said
    assert (finding.resolution, finding.here, finding.resolved_by) == (
        "adopted", deal.reference, f"human:{operator.pk}",
    )  # fmt: skip
    ran = call("reconcile", "--json")
    assert ran.json["counts"]["in_step"] == 1
    assert ReconciliationFinding.objects.count() == 1


def test_adopted_in_its_real_status_with_its_lines_mirrored_and_on_record(
    account: Account, operator: User
) -> None:
    deal = adopted(account, operator)

    deal.refresh_from_db()
    assert (deal.status, deal.version) == ("delivering", 1)
    assert (deal.team, deal.advertiser, deal.account) == (
        account.advertiser.team, account.advertiser, account,
    )  # fmt: skip
    assert (deal.revision, deal.media_buy_status, deal.currency) == (3, "active", "USD")
    lines = list(deal.lines.order_by("position"))
    assert [(line.product_id, line.budget, line.confirmed_budget) for line in lines] == [
        ("olv", Decimal("1200.5"), Decimal("1200.5")),
        ("ctv", Decimal(800), Decimal(800)),
    ]
    assert (lines[0].rate, lines[0].is_fixed, lines[1].is_fixed) == (Decimal("9.5"), False, True)
    assert DealMirror.objects.get(pk=deal.pk).due_at is not None
    entry = AuditEntry.objects.get(entity_id=deal.pk)
    assert (entry.actor, entry.to_status) == (f"human:{operator.pk}", "delivering")
    assert entry.metadata["import"] == str(Import.objects.get().pk)
    assert "Ours now" in entry.reason
    assert verify_entity("deal", deal.pk).ok


def test_nobody_approved_it_so_somebody_else_is_asked(account: Account, operator: User) -> None:
    operator.groups.add(Group.objects.get(name="Approver"))
    operator = User.objects.get(pk=operator.pk)
    deal = adopted(account, operator)
    asked = Approval.objects.get(subject_id=deal.pk)
    assert (asked.kind, asked.status, deal.differs) == ("booked_differently", "open", True)

    deal_follow(deal_id=deal.pk, buy={**EXTERNAL, "revision": 4}, asked_at=clock.now())
    asked.refresh_from_db()
    assert asked.status == "open", "what the seller says does not answer it"

    with pytest.raises(DecisionRefusedError, match="yourself"):
        approval_decide(approval_id=asked.pk, user=operator, verdict="approve")
    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="reject", comment="Not ours")
    cancel = Operation.objects.get(subject_id=deal.pk, task_type="update_media_buy")
    assert (cancel.request["canceled"], cancel.request["media_buy_id"]) == (True, "mb-ext")


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ("pending_creatives", "booked"),
        ("pending_start", "booked"),
        ("paused", "booked"),  # its flight has not begun
        ("active", "delivering"),
        ("completed", "completed"),
    ],
)
def test_each_status_has_its_own_here(account: Account, operator: User, there: str, here: str) -> None:
    assert adopted(account, operator, status=there).status == here


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"status": "canceled"}, "nothing to adopt"),
        ({"status": "rejected"}, "nothing to adopt"),
        ({"status": 7}, "no status"),
        ({"currency": "XXX"}, "no currency"),
        ({"packages": []}, "no budget"),
        ({"packages": [{"budget": "NaN"}]}, "no budget"),
        ({"packages": [{"budget": 5}]}, "no start time"),
        ({"packages": [{"budget": 5, "start_time": FLIGHT["end_time"], "end_time": FLIGHT["start_time"]}]},
         "ends before it starts"),
        ({"media_buy_id": "x" * 256}, "no id"),
        ({"media_buy_id": None}, "no id"),
    ],
)  # fmt: skip
def test_what_a_deal_needs_and_the_seller_does_not_tell(
    account: Account, operator: User, changed: dict[str, Any], why: str
) -> None:
    with pytest.raises(AdoptionRefusedError, match=why):
        adopted(account, operator, **changed)
    assert not Deal.objects.exists()
    assert not Import.objects.exists()


def test_one_budget_for_all_packages_is_shared_out(account: Account, operator: User) -> None:
    packages = [{"package_id": "p1", **FLIGHT}, {"package_id": "p2"}]
    deal = adopted(account, operator, packages=packages, total_budget=5000, **FLIGHT)
    assert [(line.package_id, line.budget) for line in deal.lines.all()] == [("p1", 2500), ("p2", 2500)]


def test_adopted_twice_at_once_is_one_deal(account: Account, operator: User) -> None:
    barrier, made = threading.Barrier(4, timeout=PATIENCE_S), []

    def adopt() -> None:
        try:
            barrier.wait()
            made.append(adopted(account, operator).pk)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=adopt) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(made) == 4
    assert len(set(made)) == Deal.objects.count() == 1
    assert Deal.objects.get().lines.count() == 2


def test_only_who_may_steer_acts_and_sees_it_by_team(
    faulty: FakeSeller, seller: Seller, account: Account, operator: User
) -> None:
    told(faulty, EXTERNAL)
    call("reconcile")
    finding = ReconciliationFinding.objects.get()
    elsewhere = make_user("Ad Ops", team=make_team("Elsewhere"))
    service = make_user("Administrator")
    User.objects.filter(pk=service.pk).update(is_service=True)
    service.refresh_from_db()

    for user, why in (
        (make_user("Buyer"), "no right"),
        (service, "no right"),
        (elsewhere, "no such finding"),
    ):
        with pytest.raises(ActionRefusedError, match=why):
            act(finding, user, "adopt", "Mine")
    assert not findings_of(elsewhere).exists()
    assert not Deal.objects.exists()

    with pytest.raises(ActionRefusedError, match="Say why"):
        act(finding, operator, "adopt", "  ")
    with pytest.raises(ActionRefusedError, match="does not help"):
        act(finding, operator, "poll")
    with pytest.raises(ActionRefusedError, match="does not help"):
        act(finding, operator, "no such action")


def test_what_is_nobodys_for_certain_is_seen_by_those_who_steer(
    faulty: FakeSeller, seller: Seller, account: Account, operator: User
) -> None:
    Account.objects.create(
        advertiser=make_advertiser("Tamarack Outdoor", team=make_team("Elsewhere")),
        seller=seller,
        reference={"account_id": "acc-2"},
    )
    told(faulty, EXTERNAL)
    call("reconcile")
    finding = ReconciliationFinding.objects.get()

    assert (finding.team, finding.account) == (None, None)
    assert finding in findings_of(operator)
    assert not findings_of(make_user("Buyer")).exists()
    with pytest.raises(ActionRefusedError, match="Name the account"):
        act(finding, operator, "adopt", "Ours")
    foreign = Account.objects.get(reference={"account_id": "acc-2"})
    with pytest.raises(ActionRefusedError, match="none of your teams"):
        act(finding, operator, "adopt", "Ours", account_id=foreign.pk)
    act(finding, operator, "adopt", "Ours", account_id=account.pk)
    assert Deal.objects.get().team == account.advertiser.team


def test_it_may_stay_so_until_something_changes(faulty: FakeSeller, seller: Seller, operator: User) -> None:
    pending(seller, "gone")
    lists(faulty)
    assert call("reconcile").code == 1
    finding = ReconciliationFinding.objects.get()
    assert {action.name for action in actions_for(finding)} == {"poll", "take", "seen"}

    act(finding, operator, "take")
    (found,) = call("reconcile", "--json").json["sellers"][0]["tasks"]
    assert found["waits_on"] == "omar"
    act(finding, operator, "seen", "Known; their archive lost it")
    assert call("reconcile").code == 0
    with pytest.raises(ActionRefusedError, match="resolved already"):
        act(finding, operator, "seen", "again")

    told_again(Operation.objects.get(task_id="gone"), "working", task_id="gone")
    ran = call("reconcile", "--json")
    assert ran.code == 1, "here it stands otherwise than when it was accepted"
    assert ReconciliationFinding.objects.filter(resolved_at__isnull=True).count() == 1


def test_a_seller_that_tells_of_no_task_is_not_asked_for_one(
    faulty: FakeSeller, seller: Seller, operator: User
) -> None:
    pending(seller, "gone")
    lists(faulty)
    call("reconcile")
    Seller.objects.update(tools=["get_products", "list_tasks"], status_tool="")
    finding = ReconciliationFinding.objects.get()
    assert {action.name for action in actions_for(finding)} == {"take", "seen"}
    with pytest.raises(ActionRefusedError, match="does not help"):
        act(finding, operator, "poll")


def test_what_a_person_does_while_a_run_writes_is_not_lost(
    faulty: FakeSeller, seller: Seller, operator: User
) -> None:
    pending(seller, "gone")
    lists(faulty)
    call("reconcile")
    finding = ReconciliationFinding.objects.get()

    with ExitStack() as at_work:
        with transaction.atomic():
            act(finding, operator, "seen", "Known")
            process = at_work.enter_context(started("reconcile", "--json"))
            until(locks_awaited, "the run wants to write the same row")
        ran = ended(process)

    finding.refresh_from_db()
    assert (finding.resolution, finding.reason) == ("seen", "Known")
    assert ran.code == 0
    assert ReconciliationFinding.objects.count() == 1


def test_a_missing_task_is_polled_on_request(faulty: FakeSeller, seller: Seller, operator: User) -> None:
    operation = pending(seller, "gone")
    lists(faulty)
    call("reconcile")
    before = operation.next_poll_at
    act(ReconciliationFinding.objects.get(), operator, "poll")
    operation.refresh_from_db()
    assert operation.next_poll_at is not None
    assert before is not None
    assert operation.next_poll_at < before


def test_a_missing_media_buy_is_read_on_request(faulty: FakeSeller, seller: Seller, operator: User) -> None:
    deal = booking(seller)
    settle(deal, "completed", {"media_buy_id": "mb-gone", "media_buy_status": "active"})
    told(faulty)
    call("reconcile")
    finding = ReconciliationFinding.objects.get(verdict="missing")
    before = DealMirror.objects.get(pk=deal.pk).due_at

    act(finding, operator, "read")

    now = DealMirror.objects.get(pk=deal.pk).due_at
    assert now is not None
    assert before is not None
    assert now < before


def test_what_runs_on_after_its_deal_was_cancelled_is_asked_about(faulty: FakeSeller, seller: Seller) -> None:
    deal = booking(seller)
    settle(deal, "completed", {"media_buy_id": "mb-1", "media_buy_status": "active"})
    for status in ("delivering", "cancelled"):
        moved(deal, status, actor="system")
    told(faulty, {"media_buy_id": "mb-1", "status": "paused"})
    call("reconcile")
    asked = Approval.objects.get(kind="unclaimed")
    assert asked.evidence["cannot_be_kept"]
    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="reject", comment="So.")
    sent = Operation.objects.get(task_type="update_media_buy")
    assert (sent.request["media_buy_id"], sent.request["canceled"]) == ("mb-1", True)


def test_what_runs_on_after_its_deal_was_completed_is_told(faulty: FakeSeller, seller: Seller) -> None:
    deal = booking(seller)
    settle(deal, "completed", {"media_buy_id": "mb-1", "media_buy_status": "active"})
    for status in ("delivering", "completed"):
        moved(deal, status, actor="system")
    told(faulty, {"media_buy_id": "mb-1", "status": "active"})
    call("reconcile")
    assert ReconciliationFinding.objects.get(verdict="ahead").is_open
    assert not Approval.objects.filter(kind="unclaimed").exists()

"""A finding with time: accepted as it was, taken by somebody who leaves, gone and back again."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings

from tasks_app import clock
from tasks_app.approvals.waiting import waiting_for
from tasks_app.notifications.models import Notification
from tasks_app.notifications.selectors import notifications_of
from tasks_app.people.models import Membership, User
from tasks_app.people.rights import rights_recorded
from tasks_app.reconciliation import findings
from tasks_app.reconciliation.actions import ActionRefusedError, Chosen, finding_act
from tasks_app.reconciliation.findings import finding_sign
from tasks_app.reconciliation.models import ReconciliationFinding
from tasks_app.reconciliation.retention import reports_prune
from tasks_app.sellers.models import Account, Seller
from tests.commands.running import call
from tests.factories import make_account, make_advertiser, make_team, make_user
from tests.fake_seller.driver import FakeSeller

pytestmark = pytest.mark.deep

FLIGHT = {"start_time": "2030-01-01T00:00:00Z", "end_time": "2030-02-01T00:00:00Z"}
LOST = str(uuid.uuid4())  # a deal of ours that nobody here knows
BUY: dict[str, Any] = {
    "media_buy_id": "mb-1",
    "status": "active",
    "currency": "USD",
    "total_budget": 500,
    "context": {"deal_id": LOST},
    "packages": [{"package_id": "p1", "product_id": "olv", "budget": 500, **FLIGHT}],
}


def tells(faulty: FakeSeller, *buys: dict[str, Any]) -> None:
    faulty.clear()
    faulty.fault("get_media_buys", "merge", 0, answer={"media_buys": list(buys)})


def act(finding: ReconciliationFinding, user: User, action: str, **more: Any) -> str:
    return finding_act(finding_id=finding.pk, action=action, chosen=Chosen(user=user, reason="So.", **more))


def is_open() -> ReconciliationFinding:
    return ReconciliationFinding.objects.get(resolved_at__isnull=True)


@pytest.fixture
def account(seller: Seller) -> Account:
    return make_account(make_advertiser(), seller)


@pytest.fixture
def omar(account: Account) -> User:
    return make_user("Ad Ops", name="omar")


CHANGED: dict[str, dict[str, Any]] = {
    "more money": {"total_budget": 500_000},
    "another currency": {"currency": "EUR"},
    "a package more": {
        "packages": [*BUY["packages"], {"package_id": "p2", "product_id": "olv", "budget": 1}]
    },
    "a later end": {"packages": [{**BUY["packages"][0], "end_time": "2031-02-01T00:00:00Z"}]},
    "a package of more": {"packages": [{**BUY["packages"][0], "budget": 500_000}]},
    "another state": {"status": "paused"},
}


@pytest.mark.parametrize("what", CHANGED)
def test_what_may_stay_so_is_what_was_seen(faulty: FakeSeller, omar: User, what: str) -> None:
    tells(faulty, BUY)
    assert call("reconcile").code == 1
    act(is_open(), omar, "seen")
    tells(faulty, {**BUY, "revision": 7, "status_as_of": "2030-01-02T00:00:00Z"})
    assert call("reconcile").code == 0, "what moves by itself is nothing else"

    tells(faulty, {**BUY, **CHANGED[what]})
    assert call("reconcile").code == 1
    assert is_open().verdict == "bought_unknown"
    assert Notification.objects.filter(kind="bought_unknown").count() == 2


@pytest.mark.parametrize("what", CHANGED)
def test_what_is_settled_is_what_was_shown(faulty: FakeSeller, omar: User, what: str) -> None:
    """A run writes the same row anew: a page opened before it says nothing of what stands there now."""
    tells(faulty, BUY)
    call("reconcile")
    shown = finding_sign(is_open())
    tells(faulty, {**BUY, "revision": 7, "status_as_of": "2030-01-02T00:00:00Z"})
    call("reconcile")
    assert finding_sign(is_open()) == shown, "what moves by itself is nothing else"
    tells(faulty, {**BUY, **CHANGED[what]})
    call("reconcile")
    with pytest.raises(ActionRefusedError, match="read it again"):
        act(is_open(), omar, "seen", seen=shown)
    act(is_open(), omar, "seen", seen=finding_sign(is_open()))
    assert not ReconciliationFinding.objects.filter(resolved_at=None).exists()


def test_nobody_takes_what_somebody_else_took_meanwhile(faulty: FakeSeller, omar: User) -> None:
    tells(faulty, BUY)
    call("reconcile")
    shown, other = finding_sign(is_open()), make_user("Ad Ops", name="olga")
    act(is_open(), omar, "take", seen=shown)
    with pytest.raises(ActionRefusedError, match="read it again"):
        act(is_open(), other, "take", seen=shown)
    assert is_open().holder == omar


def test_what_may_stay_so_is_kept_for_as_long_as_it_is_found(faulty: FakeSeller, omar: User) -> None:
    tells(faulty, BUY)
    call("reconcile")
    act(is_open(), omar, "seen")
    later = clock.now() + settings.RECONCILE_KEEP + timedelta(days=1)
    with clock.injected(lambda: later):
        assert call("reconcile").code == 0
        reports_prune()
    assert ReconciliationFinding.objects.get().resolution == "seen"
    with clock.injected(lambda: later + settings.RECONCILE_KEEP + timedelta(days=1)):
        reports_prune()
    assert not ReconciliationFinding.objects.exists()


def test_what_is_gone_and_comes_back_is_told_again(faulty: FakeSeller, omar: User) -> None:
    for _ in range(2):
        tells(faulty, BUY)
        call("reconcile")
        tells(faulty)
        call("reconcile")
    assert [one.status_there for one in ReconciliationFinding.objects.all()] == ["active", "active"]
    told = Notification.objects.filter(kind="bought_unknown")
    assert {one.subject_id for one in told} == {one.pk for one in ReconciliationFinding.objects.all()}


def _off(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def _without_the_role(user: User) -> None:
    user.groups.clear()


def _without_the_team(user: User) -> None:
    Membership.objects.filter(user=user).delete()


def _without_the_advertiser(user: User) -> None:
    seat = Membership.objects.get(user=user)
    seat.every_advertiser = False
    seat.save()
    seat.advertisers.set([make_advertiser("Another")])


@pytest.mark.parametrize(
    "leaves", [_off, _without_the_role, _without_the_team, _without_the_advertiser], ids=lambda f: f.__name__
)
def test_what_somebody_took_who_leaves_waits_on_everybody_again(
    faulty: FakeSeller, omar: User, leaves: Callable[[User], None]
) -> None:
    tells(faulty, BUY)
    call("reconcile")
    ReconciliationFinding.objects.update(account=Account.objects.get(), team=make_team())
    ines = make_user("Ad Ops", name="ines")
    act(is_open(), omar, "take")
    assert not [one for one in waiting_for(ines) if one.mine]

    with rights_recorded(omar, by=ines):
        leaves(omar)

    assert is_open().holder is None
    assert [one.mine for one in waiting_for(ines)] == [True]


def test_a_change_of_rights_that_leaves_it_theirs_leaves_it_taken(faulty: FakeSeller, omar: User) -> None:
    tells(faulty, BUY)
    call("reconcile")
    act(is_open(), omar, "take")
    with rights_recorded(omar, by=omar):
        User.objects.filter(pk=omar.pk).update(is_staff=not omar.is_staff)
    assert is_open().holder == omar


def test_many_of_one_hide_no_others(faulty: FakeSeller, omar: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "_MOST_ALARMS", 2)
    other = make_advertiser("Tamarack Outdoor", team=make_team("Elsewhere"))
    make_account(other, Seller.objects.get())
    brand = {"account": {"brand": {"domain": other.brand_domain}}}
    tells(
        faulty,
        *({**BUY, "media_buy_id": f"mb-{number}"} for number in range(4)),
        {**BUY, "media_buy_id": "mb-theirs", **brand},
    )
    call("reconcile")
    told = list(Notification.objects.filter(kind="bought_unknown").values_list("title", "body"))
    assert any("mb-theirs" in body for _, body in told)
    assert [title for title, _ in told if "2 media buys more" in title]
    assert "2 media buys more" in str([one.title for one in notifications_of(omar)])


def test_a_finding_of_one_account_is_adopted_for_no_other(
    faulty: FakeSeller, omar: User, account: Account
) -> None:
    other = make_account(make_advertiser("Ostrom Tools"), account.seller)
    tells(faulty, {**BUY, "context": None})
    call("reconcile")
    ReconciliationFinding.objects.update(account=account, team=account.advertiser.team)
    with pytest.raises(ActionRefusedError, match="another account"):
        act(is_open(), omar, "adopt", account_id=other.pk)
    assert "is DEAL-" in act(is_open(), omar, "adopt")

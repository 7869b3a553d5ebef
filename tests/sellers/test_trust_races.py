"""A change of whom we believe is taken back at the moment in which somebody decides on it; two answers of a
seller name one account at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, transaction

from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.people.models import User
from tasks_app.people.security_models import SecurityEvent
from tasks_app.sellers import trust
from tasks_app.sellers.accounts_told import AccountOfAnotherError, account_record
from tasks_app.sellers.models import Account, Seller, TrustChange
from tasks_app.sellers.services import account_change, change_withdraw
from tests.database import Database
from tests.factories import make_account, make_advertiser, make_deal, make_seller, make_user
from tests.operations.making import ask
from tests.support import PATIENCE_S, locks_awaited, until

pytestmark = pytest.mark.deep

THEIRS = "https://elsewhere.example/jwks.json"


def in_a_thread(act: Callable[[], object]) -> Callable[[], object]:
    """Its own connection, closed when it is done."""

    def run() -> object:
        try:
            return act()
        finally:
            connection.close()

    return run


def first_use(row: str) -> Callable[[], object]:
    """What uses a seller, or an account, for the first time."""
    seller = make_seller()
    if row == "seller":
        return lambda: ask(seller=seller)
    account = make_account(make_advertiser(), seller, status="pending_approval")
    if row == "account of a deal":
        return lambda: make_deal(seller=seller, account=account)
    return lambda: ask(seller=seller, account=account)


def changed(row: str, ops: User) -> trust.Made:
    """One person changes what decides whom we believe."""
    if row == "seller":
        with transaction.atomic():
            seller = Seller.objects.select_for_update(no_key=True).get()
            return trust.row_change(row=seller, values={"jwks_url": THEIRS}, actor=ops)
    return account_change(account=Account.objects.get(), values={"status": "active"}, actor=ops)


@pytest.mark.parametrize("row", ["seller", "account", "account of a deal"])
def test_what_is_being_used_for_the_first_time_is_changed_by_one_person_no_more(
    committed_db: Database, row: str
) -> None:
    use, ops = first_use(row), make_user("Ad Ops")
    used, over = threading.Event(), threading.Event()

    @transaction.atomic
    def make() -> None:
        use()
        used.set()
        until(lambda: over.is_set() or locks_awaited(), "nobody changes it")

    with ThreadPoolExecutor(1) as pool:
        making = pool.submit(in_a_thread(make))
        assert used.wait(PATIENCE_S)
        made = changed(row, ops)
        over.set()
        making.result()

    assert (made.changed, made.waiting is not None) == ([], True)


@pytest.mark.parametrize("row", ["seller", "account", "account of a deal"])
def test_what_one_person_is_changing_is_used_after_that(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch, row: str
) -> None:
    use, ops, write = first_use(row), make_user("Ad Ops"), trust._write
    changing, over = threading.Event(), threading.Event()

    def slowly(*args: Any, **kwargs: Any) -> Any:
        changing.set()
        until(lambda: over.is_set() or locks_awaited(), "nobody uses it")
        return write(*args, **kwargs)

    monkeypatch.setattr(trust, "_write", slowly)
    with ThreadPoolExecutor(1) as pool:
        change = pool.submit(in_a_thread(lambda: changed(row, ops)))
        assert changing.wait(PATIENCE_S)
        use()
        settled = (
            Seller.objects.filter(jwks_url=THEIRS).exists()
            or Account.objects.filter(status="active").exists()
        )
        over.set()
        change.result()
    assert settled, "it was used while it was not yet sure whom it believes"


def test_what_was_approved_a_moment_ago_is_not_told_as_refused(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    seller, ops, approver = make_seller(), make_user("Ad Ops"), make_user("Approver")
    ask(seller=seller)
    trust.row_change(row=seller, values={"jwks_url": THEIRS}, actor=ops)
    deciding, write = threading.Event(), trust._write

    def slowly(*args: Any, **kwargs: Any) -> Any:
        deciding.set()
        until(locks_awaited, "nobody withdraws")
        return write(*args, **kwargs)

    def decide() -> None:
        try:
            approval_decide(approval_id=Approval.objects.get().pk, user=approver, verdict="approve")
        finally:
            connection.close()

    monkeypatch.setattr(trust, "_write", slowly)
    with ThreadPoolExecutor(1) as pool:
        decided = pool.submit(decide)
        assert deciding.wait(PATIENCE_S)
        withdrawn = change_withdraw(row=seller, actor=ops)
        decided.result()

    change = TrustChange.objects.get()
    assert (withdrawn, change.refused_at) == (False, None)
    assert change.applied_at is not None
    assert Seller.objects.get().jwks_url == THEIRS
    assert not SecurityEvent.objects.filter(event="seller_refused").exists()


def test_two_brands_are_not_given_one_account_id_at_the_same_moment(committed_db: Database) -> None:
    seller, told = make_seller(), {"account_id": "acc-a", "status": "active"}
    first, second = make_advertiser(), make_advertiser("Northwind")

    def late() -> object:
        return account_record(advertiser=second, seller=seller, answer=told)

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            account_record(advertiser=first, seller=seller, answer=told)
            kept = pool.submit(in_a_thread(late))
            until(lambda: kept.done() or locks_awaited(), "the second answer is read")
        with pytest.raises(AccountOfAnotherError, match="acc-a"):
            kept.result(PATIENCE_S)

    assert list(Account.objects.values_list("advertiser", flat=True)) == [first.pk]

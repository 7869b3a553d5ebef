"""What the explanation of a seller and of an account says that people can do, against doing it: who is named
can, with a second person where that is said, and nobody else can."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import transaction

from tasks_app import clock
from tasks_app.approvals.deciders import deciders
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.approvals.waiting import waiting_for
from tasks_app.desk.explain import Explanation, Who, explain
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.presenters import operation_next
from tasks_app.operations.steer_forms import steering_data
from tasks_app.people.models import User
from tasks_app.people.roles import ROLES
from tasks_app.sellers.columns import Row
from tasks_app.sellers.explain import credentials_words
from tasks_app.sellers.headers import headers_sealed
from tasks_app.sellers.models import Account, Seller
from tasks_app.sellers.services import account_change, change_withdraw
from tasks_app.sellers.trust import row_change, trust_waiting
from tests.approvals.deciding import decides
from tests.factories import make_account, make_advertiser, make_seller, make_user
from tests.operations.making import ask, fresh, stand
from tests.operations.test_telling import told as notice

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
_SECOND = "a second person approves it"


def _new(**columns: Any) -> Seller:
    return make_seller(allow_private=False, **columns)


def _used(**columns: Any) -> Seller:
    seller = _new()
    ask(seller=seller)
    Seller.objects.filter(pk=seller.pk).update(**columns)
    return Seller.objects.get(pk=seller.pk)


def _wanted(seller: Seller, **values: Any) -> Seller:
    """A change of it waits for a second person."""
    row_change(row=seller, values=values, actor=make_user("Administrator", name="asker"))
    return Seller.objects.get(pk=seller.pk)


def _switched_off() -> Seller:
    seller = _used()
    row_change(row=seller, values={"active": False}, actor=make_user("Ad Ops"))
    return Seller.objects.get(pk=seller.pk)


_SELLERS: dict[str, Callable[[], Seller]] = {
    "new": _new,
    "imported, off from the beginning": lambda: _new(active=False),
    "in use": _used,
    "in use, switched off": _switched_off,
    "in use, a change waits": lambda: _wanted(_used(), contact_email="a@elsewhere.example"),
    "switched off, to be on": lambda: _wanted(_switched_off(), active=True),
    "switched off, a change waits": lambda: _wanted(_switched_off(), contact_email="a@elsewhere.example"),
}


def _account(status: str = "active", *, used: bool = True) -> Account:
    account = make_account(
        make_advertiser(), make_seller(tools=["create_media_buy", "sync_accounts"]), status
    )
    if used:
        ask(seller=account.seller, account=account)
    return Account.objects.select_related("seller", "advertiser").get(pk=account.pk)


def _closed_here(*, used: bool = True) -> Account:
    account = _account(used=used)
    account_change(account=account, values={"status": "closed"}, actor=make_user("Administrator"))
    return Account.objects.select_related("seller", "advertiser").get(pk=account.pk)


def _to_be_active() -> Account:
    account = _closed_here()
    asker = make_user("Administrator", name="asker")
    account_change(account=account, values={"status": "active"}, actor=asker)
    return Account.objects.select_related("seller", "advertiser").get(pk=account.pk)


_ACCOUNTS: dict[str, Callable[[], Account]] = {
    **{f"{status}, in use": lambda s=status: _account(s) for status in Account.Status.values},  # type: ignore[misc]
    **{f"{status}, new": lambda s=status: _account(s, used=False) for status in Account.Status.values},  # type: ignore[misc]
    "closed here": _closed_here,
    "closed here, new": lambda: _closed_here(used=False),
    "closed here, to be active": _to_be_active,
}


def _told(row: Row) -> Explanation:
    return explain(row.slug if isinstance(row, Seller) else str(row.pk), make_user("Administrator"))


def _one(told: Explanation, words: str) -> Who | None:
    """Who is said to do that."""
    found = [one for one in told.who if one.does.startswith(words)]
    assert len(found) <= 1, found
    return found[0] if found else None


def _comes_of(row: Row, **values: Any) -> str:
    """What comes of it when somebody changes that: done, waits for a second person, or refused; nothing comes
    of what waits already."""
    before = trust_waiting(row)
    with transaction.atomic():
        try:
            with transaction.atomic():
                made = row_change(row=row, values=values, actor=make_user("Administrator"))
        except ValidationError:
            return "refused"
        finally:
            row.refresh_from_db()
            transaction.set_rollback(True)
    row.refresh_from_db()
    return "done" if made.waiting is None else "waits" if made.waiting != before else "refused"


def _said(one: Who | None) -> str:
    return "refused" if one is None else "waits" if _SECOND in one.does else "done"


def _has_the_right(row: Row, role: str) -> bool:
    """The page and its forms ask for this one right."""
    return f"tasks_app.change_{row._meta.model_name}" in ROLES[role]


def _are_those_with_the_right(row: Row, told: Explanation) -> None:
    for role in ROLES:
        if role == "Integration":  # a machine is not named among people
            continue
        changes = [one for one in told.who if re.match(r"switch|change|set|record|withdraw|ask", one.does)]
        assert changes
        assert {role in one.roles for one in changes} == {_has_the_right(row, role)}, role


def _deciders_can(row: Row, told: Explanation) -> None:
    """Where a change waits, those who are named decide on it, who asked does not."""
    asked = Approval.objects.filter(kind="seller_trust", status="open").first()
    named = [one for one in told.who if one.does.startswith("decide on")]
    assert bool(named) == (asked is not None)
    assert ("waits for a second person" in told.waiting_for) == (asked is not None)
    if asked is None:
        return
    people = [make_user(role) for role in ROLES if role != "Integration"]
    people += User.objects.filter(username="asker")
    able = {str(user) for user in people if decides(asked, user)}
    assert able == {str(user) for user in deciders([asked])[asked.pk]} & {str(user) for user in people}
    assert "asker" not in able
    (again,) = [one for one in _told(row).who if asked.reference in one.does]
    assert set(again.people) <= {str(user) for user in deciders([asked])[asked.pk]}


@pytest.mark.parametrize("ground", _SELLERS)
def test_a_seller_is_switched_and_changed_as_is_said(ground: str) -> None:
    seller = _SELLERS[ground]()
    told = _told(seller)
    off = _comes_of(seller, active=False) if seller.active else "refused"
    on = "refused" if seller.active else _comes_of(seller, active=True)
    assert (_said(_one(told, "switch it off")), _said(_one(told, "switch it on"))) == (off, on)
    elsewhere = _comes_of(seller, jwks_url="https://elsewhere.example/jwks.json")
    assert _said(_one(told, "change its settings")) == elsewhere
    assert _comes_of(seller, slots=7) == "done", "how it is handled is changed by one"
    _are_those_with_the_right(seller, told)
    _deciders_can(seller, told)


@pytest.mark.parametrize("ground", _ACCOUNTS)
def test_an_account_is_changed_as_is_said(ground: str) -> None:
    account = _ACCOUNTS[ground]()
    told = _told(account)
    is_active = account.status == "active"
    active = "refused" if is_active else _comes_of(account, status="active")
    assert _said(_one(told, "set it active")) == active
    other = "suspended" if account.status == "closed" else "closed"
    said = _one(told, "record another state") or _one(told, "record that it is closed or suspended")
    assert said is not None
    assert _said(said) == _comes_of(account, status=other) == "done"
    off = bool(account.switched_off_by)
    lets = _comes_of(account, status="pending_approval") if account.status != "pending_approval" else "done"
    if off and "new" not in ground:
        assert lets != "done", "what is off stays so without a second person"
    _are_those_with_the_right(account, told)
    _deciders_can(account, told)


@pytest.mark.parametrize("ground", ["in use", "in use, a change waits"])
def test_a_change_that_waits_is_withdrawn_by_one(ground: str) -> None:
    seller = _SELLERS[ground]()
    told = _told(seller)
    waits = "waits" in ground
    assert bool(_one(told, "withdraw the change that waits")) == waits
    if waits:
        change_withdraw(row=seller, actor=make_user("Ad Ops"))
        assert _one(_told(seller), "withdraw") is None


_GIVES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "credentials": {"token": "another-token"},
    "a secret header": {"secret_headers": headers_sealed({"X-Tenant-Key": "k-1"})},
    "another contact": {"contact_email": "a@elsewhere.example"},
    "another address, which takes them away": {"url": "https://elsewhere.example/mcp", "token": ""},
}


@pytest.mark.parametrize("waits", _GIVES)
def test_an_operation_that_wants_credentials_says_that_two_people_give_them(waits: str) -> None:
    operation = stand(S.AUTH_REQUIRED)
    if _GIVES[waits]:
        _wanted(operation.seller, **_GIVES[waits])
    gives = waits in ("credentials", "a secret header")
    told = explain(operation.reference, make_user("Administrator"))
    given = _comes_of(operation.seller, token="yet-another-token")
    said = [one.does for one in told.who if "credentials" in one.does]
    asked = [one.does for one in told.who if "decide on" in one.does]
    assert (bool(said), bool(asked)) == (not gives, waits != "nothing")
    assert given == ("refused" if _GIVES[waits] else "waits")
    assert all(_SECOND in one for one in said)
    assert {one.startswith("first ") for one in (*said, *asked)} == {bool(_GIVES[waits]) and not gives}


@pytest.mark.parametrize("waits", _GIVES)
def test_what_people_are_told_of_refused_credentials_is_what_explain_says(waits: str) -> None:
    """The notice, the row of the monitor and the page: none promises that one person's change is enough."""
    operation = stand(S.AUTH_REQUIRED)
    if _GIVES[waits]:
        _wanted(operation.seller, **_GIVES[waits])
    viewer = make_user("Ad Ops")
    ours = [one for one in explain(operation.reference, viewer).who if one.who != operation.seller.name]
    note, page = notice(operation).body, steering_data(operation, viewer)["renews"]
    assert ours
    for said in (note, page):
        assert all(one.does in said for one in ours), said
        assert all(role in said for one in ours for role in one.roles), said
    assert page in note
    assert _comes_of(operation.seller, token="yet-another-token") != "done"
    assert _SECOND in page or "decide on" in page
    assert "two people" in operation_next(operation).what
    (queued,) = waiting_for(viewer, kind=S.AUTH_REQUIRED)
    assert _SECOND in dict(queued.answers)["Enter"]


def test_what_waits_for_credentials_goes_on_as_the_notice_says_once_a_second_person_approved_them() -> None:
    later = clock.now() + timedelta(hours=1)
    operation = stand(S.AUTH_REQUIRED, next_poll_at=later)
    told = notice(operation).body
    made = row_change(row=operation.seller, values={"token": "new-token"}, actor=make_user("Ad Ops"))
    assert (made.waiting is not None) == (_SECOND in told)
    assert fresh(operation).next_poll_at == later
    asked = Approval.objects.get(kind="seller_trust", status="open")
    assert f"decide on {asked.reference}" in credentials_words(fresh(operation).seller)
    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve")
    due = fresh(operation).next_poll_at
    assert ("Then what waits goes on by itself" in told) == (due is not None and due <= clock.now())

"""What decides whom we believe changes with a second person: every column, by every way in."""

from __future__ import annotations

import ast
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.test import RequestFactory
from drf_spectacular.generators import SchemaGenerator

from tasks_app import clock
from tasks_app.approvals.deciders import deciders
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide, approvals_expire_due
from tasks_app.approvals.telling import approvals_tell
from tasks_app.notifications.models import Notification
from tasks_app.people.models import User
from tasks_app.people.security_models import SecurityEvent
from tasks_app.sellers import columns, trust
from tasks_app.sellers.models import Account, Seller, TrustChange
from tasks_app.sellers.services import (
    account_change,
    change_withdraw,
)
from tests.factories import make_seller, make_team, make_user
from tests.operations.making import ask
from tests.sellers.trusting import (
    BEFORE,
    OTHER,
    OTHER_ACCOUNT,
    SECRET,
    approve,
    by_form,
    change,
    question,
    stored,
)

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[2]


# --- every column ---------------------------------------------------------------------------------


def test_every_column_of_a_seller_and_an_account_is_classified_once() -> None:
    """A new column fails here until somebody says whether it decides whom we believe (sellers/columns.py)."""
    classes = [
        *(set(columns.SELLER_TRUST), columns.SELLER_HANDLING, columns.SELLER_HEARD),
        *(columns.SELLER_ROTATED, columns.SELLER_FIXED),
    ]
    assert sorted(name for one in classes for name in one) == sorted(columns.all_columns(Seller))
    classes = [set(columns.ACCOUNT_TRUST), columns.ACCOUNT_HEARD, columns.ACCOUNT_FIXED]
    assert sorted(name for one in classes for name in one) == sorted(columns.all_columns(Account))
    assert OTHER.keys() == columns.SELLER_TRUST.keys()
    assert OTHER_ACCOUNT.keys() == columns.ACCOUNT_TRUST.keys()


def test_the_encrypted_columns_are_shown_by_fingerprint_alone(seller: Seller) -> None:
    for name in ("token", "webhook_secret"):
        told = trust.shown(seller, name)
        assert told.startswith("fingerprint ")
        assert str(getattr(seller, name)) not in told
    seller.token = "t-2"
    assert trust.shown(seller, "token") != trust.shown(Seller.objects.get(), "token")
    encrypted = {f.name for f in Seller._meta.concrete_fields if "Encrypted" in type(f).__name__}
    hidden = {name for name, one in columns.SELLER_TRUST.items() if one.secret} | columns.SELLER_ROTATED
    assert encrypted <= hidden


@pytest.mark.parametrize("name", OTHER)
def test_a_column_of_a_seller_in_use_waits_for_a_second_person(name: str, seller: Seller, ops: User) -> None:
    stands(seller, name)
    before = stored(seller, name)
    made = change(seller, ops, **{name: OTHER[name]})
    assert (made.changed, stored(seller, name)) == ([], before)
    assert made.waiting is not None
    with pytest.raises(DecisionRefusedError):
        approve(ops)
    approve()
    assert stored(seller, name) == OTHER[name]
    entry = SecurityEvent.objects.filter(event="seller_changed").latest("id")
    assert entry.detail["asked_by"] == f"human:{ops.pk}"
    assert entry.detail["changes"][name] == [made.waiting.before[name], made.waiting.after[name]]
    assert entry.actor.startswith("human:")
    assert entry.actor != f"human:{ops.pk}"
    told = json.dumps([*SecurityEvent.objects.values_list("detail", flat=True), question_evidence()])
    assert not [
        secret for secret in (SECRET, "another-token", 't-1"', "a-key-of-the-gateway") if secret in told
    ]
    made.waiting.refresh_from_db()
    assert made.waiting.values is None, "a secret is kept no longer than it waits"


def stands(seller: Seller, name: str) -> None:
    """As it has to before that column may become other."""
    Seller.objects.filter(pk=seller.pk).update(**BEFORE.get(name, {}))
    seller.refresh_from_db()


def question_evidence() -> Any:
    return Approval.objects.filter(kind="seller_trust").latest("created_at").evidence


@pytest.mark.parametrize("name", OTHER_ACCOUNT)
def test_a_column_of_an_account_in_use_waits_for_a_second_person(
    name: str, account: Account, ops: User
) -> None:
    before = stored(account, name)
    made = account_change(account=account, values={name: OTHER_ACCOUNT[name]}, actor=ops)
    assert (made.changed, stored(account, name)) == ([], before)
    assert question().team == account.advertiser.team
    approve()
    assert stored(account, name) == OTHER_ACCOUNT[name]


# --- every way in ---------------------------------------------------------------------------------

# Where a trusted column may be written, and why.
_WRITERS = {
    "tasks_app/sellers/trust.py": "the change itself",
    "tasks_app/sellers/services.py": "a draft that is asked and never saved; the rotation of a secret that "
    "nobody chooses",
    "tasks_app/sellers/accounts_told.py": "the seller's own answer about an account, recorded",
}
# Columns whose names are no other model's.
_TELLING = {"jwks_url", "webhook_mode", "webhook_secret", "allow_private", "contact_email", "setup_url"}

_WRITING = ("update", "bulk_update", "create", "update_or_create", "get_or_create")


@pytest.mark.rule
def test_nothing_else_writes_these_columns() -> None:
    """Actions, API, commands, admin: whatever writes them goes through sellers/trust.py."""
    found = set()
    for path in (p for room in ("tasks_app", "orders", "campaigns") for p in (ROOT / room).rglob("*.py")):
        if "migrations" not in path.parts:
            name = str(path.relative_to(ROOT))
            found |= {(name, one) for one in _written(ast.parse(path.read_text()))}
    # A team's chat has such a column too.
    found.discard(("tasks_app/notifications/team_webhook.py", "allow_private"))
    assert {name for name, _ in found} <= set(_WRITERS), found


def _written(tree: ast.AST) -> set[str]:
    """Trusted columns that are assigned as attributes, or named in update() and update_or_create()."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            inner = [one for target in targets for one in ast.walk(target)]
            names |= {one.attr for one in inner if isinstance(one, ast.Attribute)} & _TELLING
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _WRITING:
            names |= {str(word.arg) for word in node.keywords} & _TELLING
    return names


def test_no_admin_action_no_list_and_no_api_writes_a_seller_or_an_account(ops: User) -> None:
    request = RequestFactory().get("/")
    request.user = make_user("Administrator", is_staff=True)
    for model in (Seller, Account):
        page = admin.site._registry[model]
        assert not page.get_actions(request), "an action that changes one belongs into the test of ways in"
        assert not page.list_editable
    paths = [path for path in api_paths() if "seller" in path or "account" in path]
    assert paths == [], "an address of the API that changes one belongs into the test of ways in"


def api_paths() -> list[str]:
    schema = SchemaGenerator().get_schema(request=None, public=True)
    return [
        path for path, verbs in schema["paths"].items() if verbs.keys() & {"post", "put", "patch", "delete"}
    ]


@pytest.mark.rule
def test_the_commands_that_change_sellers_are_these() -> None:
    apps = ("tasks_app", "orders", "campaigns")
    sources = [path for app in apps for path in (ROOT / app / "management/commands").glob("*.py")]
    touching = {path.stem for path in sources if "sellers.services" in path.read_text()}
    assert touching == {"add_seller", "rotate_webhook_secret"}


_IN_THE_FORM = {
    **{name: OTHER[name] for name in ("webhook_mode", "jwks_url", "contact_email", "token", "auth_scheme")},
    **{name: OTHER[name] for name in ("name", "status_tool")},
    "active": "on",
    "allow_private": "on",
    "headers": "X-Tenant: acme",
    "secret_headers": "X-Api-Key: a-key-of-the-gateway",
}


def test_every_trusted_column_is_in_the_form_but_where_it_is() -> None:
    assert _IN_THE_FORM.keys() == columns.SELLER_TRUST.keys() - {"url", "protocol"}


@pytest.mark.parametrize("name", _IN_THE_FORM)
def test_the_form_asks_for_it(name: str, seller: Seller, ops: User) -> None:
    stands(seller, name)
    before = stored(seller, name)
    by_form(seller, ops, {name: _IN_THE_FORM[name]})
    assert stored(seller, name) == before
    approve()
    assert stored(seller, name) == OTHER[name]


# --- until somebody else said so ------------------------------------------------------------------


def test_the_question_is_the_houses_and_told_to_approvers_of_any_team(seller: Seller, ops: User) -> None:
    elsewhere = make_user("Approver", team=make_team("Others"))
    buyer = make_user("Buyer")
    change(seller, ops, url=OTHER["url"], reason="They moved")
    asked = question()
    assert asked.team is None
    assert {str(one) for one in deciders([asked])[asked.pk]} == {str(elsewhere)}
    approvals_tell()
    told = Notification.objects.get(kind="approval_waits")
    assert (told.team, told.right, told.not_for) == (None, "tasks_app.decide_approval", f"human:{ops.pk}")
    with pytest.raises(DecisionRefusedError, match="no right"):
        approve(buyer)
    approve(elsewhere)
    assert stored(seller, "url") == OTHER["url"]


def test_who_asked_does_not_decide_whatever_rights_they_have(seller: Seller) -> None:
    boss = make_user("Administrator")
    change(seller, boss, url=OTHER["url"])
    with pytest.raises(DecisionRefusedError, match="somebody else decides"):
        approve(boss)
    assert stored(seller, "url") == seller.url


def test_rejected_expired_or_withdrawn_it_changes_nothing(seller: Seller, ops: User) -> None:
    change(seller, ops, url=OTHER["url"])
    approval_decide(
        approval_id=question().pk, user=make_user("Approver"), verdict="reject", comment="Who are they?"
    )
    change(seller, ops, url=OTHER["url"])
    with clock.injected(lambda: question_due() + timedelta(seconds=1)):
        assert approvals_expire_due() == 1
    change(seller, ops, url=OTHER["url"])
    assert change_withdraw(row=seller, actor=make_user("Ad Ops"))
    assert not change_withdraw(row=seller, actor=ops)
    assert stored(seller, "url") == seller.url
    assert trust.trust_waiting(seller) is None
    refused = SecurityEvent.objects.filter(event="seller_refused").order_by("id")
    assert [one.detail["reason"] for one in refused] == [
        "Who are they?",
        "Nobody decided in time",
        "Withdrawn",
    ]
    assert not TrustChange.objects.exclude(values=None).exists()


def question_due() -> Any:
    return Approval.objects.filter(kind="seller_trust").latest("created_at").due_at


def test_what_changed_meanwhile_is_asked_anew_of_the_same_asker(seller: Seller, ops: User) -> None:
    change(seller, ops, jwks_url=OTHER["jwks_url"], contact_email="a@elsewhere.example")
    first = question()
    Seller.objects.filter(pk=seller.pk).update(contact_email="b@vasa.example")
    with pytest.raises(DecisionRefusedError, match="asked anew"):
        approve()
    again = question()
    assert (again.replaces, again.requested_by) == (first, f"human:{ops.pk}")
    assert "b@vasa.example → a@elsewhere.example" in again.evidence.values()
    with pytest.raises(DecisionRefusedError):
        approve(ops)
    approve()
    assert stored(seller, "contact_email") == "a@elsewhere.example"


def test_one_change_waits_at_a_time_and_the_same_again_is_that_one(seller: Seller, ops: User) -> None:
    first = change(seller, ops, url=OTHER["url"]).waiting
    assert change(seller, make_user("Ad Ops"), url=OTHER["url"]).waiting == first
    with pytest.raises(ValidationError, match="waits for a second person already"):
        change(seller, ops, url="http://127.0.0.1:11/mcp")
    with pytest.raises(ValidationError, match="named"):
        trust.row_change(row=make_used("Other"), values={"url": OTHER["url"]}, actor="system")


def make_used(name: str) -> Seller:
    seller = make_seller(name)
    ask(seller=seller)
    return seller

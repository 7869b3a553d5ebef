"""What the application's role may change of sellers and accounts, and of what sellers delivered."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import errors
from psycopg.types.json import Jsonb

from orders.models import Deal
from tasks_app import clock
from tasks_app.adcp.hygiene import REDACTED
from tasks_app.operations.tokens import webhook_token_of
from tasks_app.people.security_models import SecurityEvent
from tasks_app.sellers import columns
from tasks_app.sellers.accounts_told import account_record, account_refused
from tasks_app.sellers.models import Account, Seller
from tasks_app.sellers.services import (
    SellerChange,
    account_add,
    account_change,
    account_hold,
    seller_change,
    seller_import,
    webhook_secret_rotate,
)
from tasks_app.webhooks.models import WebhookDelivery
from tests.factories import make_advertiser, make_seller, make_user
from tests.owning import as_the_product

# Another value of each type.
OTHER = {
    "boolean": "not {0}",
    "integer": "coalesce({0}, 0) + 1",
    "smallint": "{0} + 1",
    "jsonb": "jsonb_build_object('x', 1)",
    "timestamp with time zone": "now()",
    "character varying": "left(md5(coalesce({0}, '')), 4)",
    "text": "md5(coalesce({0}, ''))",
}
_TYPES = "select column_name, data_type from information_schema.columns where table_name = %s"
# By whom else a column is written than by people: the sweep keeps a seller's webhook health, and when people
# said something of an account is kept beside what they said.
HEARD = {
    Seller: columns.SELLER_HEARD | {"webhook_paused_until", "webhook_judged_since", "webhook_checked_at"},
    Account: columns.ACCOUNT_HEARD | {"people_said_at"},
}
# Told with another column.
WITH = {
    "webhook_secret_previous": "webhook_secret",
    "webhook_secret_previous_until": "webhook_secret",
    "switched_off_by": "status",
}
_ENTRY = (
    "insert into tasks_app_securityevent"
    " (id, at, event, actor, actor_name, about, request, detail, born_in)"
    " values (gen_random_uuid(), now(), 'seller_changed', 'system', '', %s, '', %s, '')"
)


def of(model: type[Seller | Account], role: psycopg.Connection) -> dict[str, str]:
    """Column to a statement that gives all rows another value of it; without keys, which point somewhere."""
    table = model._meta.db_table
    return {
        name: f"update {table} set {name} = {OTHER[kind].format(name)}"
        for name, kind in role.execute(_TYPES, [table]).fetchall()
        if kind != "uuid"
    }


def tried(role: psycopg.Connection, statement: str, *entry: Any) -> None:
    """In one transaction, with an entry that names columns (`about`, `columns`), or without one."""
    with role.transaction():
        role.execute(statement)
        if entry:
            about, columns = entry
            detail = Jsonb({"changes": {name: ["a", "b"] for name in columns}})
            role.execute(_ENTRY, [about, detail])


@pytest.mark.parametrize("model", [Seller, Account], ids=lambda model: model.__name__)
def test_each_column_changes_with_an_entry_that_names_it(
    role: psycopg.Connection, deal: Deal, model: type[Seller | Account]
) -> None:
    """Asked of PostgreSQL as the role, column by column: what the seller says of itself needs none."""
    row = model.objects.get()
    about = row.slug if isinstance(row, Seller) else f"{row.advertiser} with {row.seller}"
    statements = of(model, role)
    names = columns.all_columns(model)
    assert {"url", "token", "webhook_secret"} <= names or {"reference", "status"} <= names
    assert HEARD[model] < statements.keys() <= names
    for name, statement in statements.items():
        if name in HEARD[model]:
            tried(role, statement)
            continue
        for entry in ((), (about, ["other"]), ("somebody else", [name])):
            with pytest.raises(errors.InsufficientPrivilege, match=rf"security log: {name}\n"):
                tried(role, statement, *entry)
        if name != "slug":  # by which the entry names the row
            tried(role, statement, about, [WITH.get(name, name)])


_COPY = "insert into {table} select (jsonb_populate_record(r, %s)).* from {table} r limit 1"
_EMPTY: tuple[Any, ...] = (None, "", {}, [], False)


def born(deal: Deal, model: type[Seller | Account]) -> tuple[str, Jsonb, set[str]]:
    """A row more: how an entry names it, what it is besides the one that is there, and what is not empty."""
    advertiser, identity = make_advertiser("Born"), str(uuid.uuid4())
    about = "born" if model is Seller else f"{advertiser} with {deal.seller}"
    other = {"slug": about} if model is Seller else {"advertiser_id": str(advertiser.pk)}
    row = model.objects.values().get()
    fixed = {"id", "slug", "created_at", "seller_id", "advertiser_id"}
    told = {name for name, value in row.items() if value not in _EMPTY} - fixed - HEARD[model]
    return about, Jsonb({"id": identity, **other}), {WITH.get(name, name) for name in told}


@pytest.mark.parametrize("model", [Seller, Account], ids=lambda model: model.__name__)
def test_what_is_added_is_told_column_by_column(
    role: psycopg.Connection, deal: Deal, model: type[Seller | Account]
) -> None:
    about, values, told = born(deal, model)
    copy = _COPY.format(table=model._meta.db_table)
    assert told >= ({"url", "name", "active"} if model is Seller else {"reference", "status"})

    def added(*entry: Any) -> None:
        with role.transaction():
            role.execute(copy, [values])
            if entry:
                named, columns = entry
                detail = Jsonb({"changes": {name: ["none", "b"] for name in columns}})
                role.execute(_ENTRY, [named, detail])

    for entry in ((), ("somebody else", told), *((about, told - {name}) for name in sorted(told))):
        with pytest.raises(errors.InsufficientPrivilege, match="what is added has no entry in the security"):
            added(*entry)
    assert model.objects.count() == 1
    added(about, told)
    assert model.objects.count() == 2


def test_whose_an_account_is_does_not_change(role: psycopg.Connection, deal: Deal) -> None:
    other, another = make_seller("Other"), make_advertiser("Other")
    for column, value in (("seller_id", other.pk), ("advertiser_id", another.pk)):
        with pytest.raises(errors.InsufficientPrivilege, match=column):
            role.execute(f"update tasks_app_account set {column} = %s", [value])


def test_an_entry_of_another_transaction_is_none(role: psycopg.Connection, deal: Deal) -> None:
    about, columns = deal.seller.slug, Jsonb({"changes": {"url": ["a", "b"]}})
    role.execute(_ENTRY, [about, columns])
    with pytest.raises(errors.InsufficientPrivilege, match="security log: url"):
        role.execute("update tasks_app_seller set url = 'https://mine.example'")


def test_what_is_not_asked_for_is_what_sellers_say(role: psycopg.Connection, deal: Deal) -> None:
    for model, heard in HEARD.items():
        told = role.execute("select fd_heard(%s)", [model._meta.db_table]).fetchone()
        assert told is not None
        assert set(told[0]) == heard


def test_the_product_records_what_it_changes(role: psycopg.Connection, deal: Deal) -> None:
    """Of a seller and of an account, a person's word and the seller's, each in its commit."""
    user = make_user("Administrator")
    seller = make_seller("Told", webhook_mode="hmac", webhook_secret="s" * 40)
    advertiser = make_advertiser("Told")
    with as_the_product():
        wanted = SellerChange(name="Told", slots=3, active=True, jwks_url="", allow_private=True)
        seller_change(seller=seller, change=wanted, actor=user)
        webhook_secret_rotate(seller=seller, actor=user)
        account = account_record(advertiser=advertiser, seller=seller, answer={"account_id": "a-1"})
        account_record(advertiser=advertiser, seller=seller, answer={"account_id": "a-1"})
        account_record(
            advertiser=advertiser, seller=seller, answer={"account_id": "a-1", "status": "suspended"}
        )
        account.refresh_from_db()
        account_hold(account=account, actor=user)
        account_refused(account, {"account_id": "a-1"}, key={"brand": {"domain": "told.example"}})
        account_change(account=account, values={"status": "closed"}, actor=user)
    told = [
        (one.event, sorted(one.detail["changes"]))
        for one in SecurityEvent.objects.filter(
            about__in=(seller.slug, f"{advertiser} with {seller}")
        ).order_by("id")
    ]
    assert told == [
        ("seller_changed", ["slots"]),
        ("seller_changed", ["webhook_secret"]),
        ("account_told", ["reference", "status"]),
        ("account_told", ["status"]),
        ("seller_changed", ["status"]),
        ("account_told", ["reference"]),
        ("seller_changed", ["status"]),
    ]


@pytest.mark.parametrize("column", ["payment_terms", "billing"])
def test_a_seller_may_call_something_none(role: psycopg.Connection, deal: Deal, column: str) -> None:
    """People are shown an empty column as "none" too: it is a change all the same."""
    seller, advertiser = make_seller("None"), make_advertiser("None")
    with as_the_product():
        account_record(advertiser=advertiser, seller=seller, answer={"status": "active", column: "none"})
    assert SecurityEvent.objects.filter(event="account_told").count() == 1


def test_the_product_records_what_it_adds(role: psycopg.Connection, deal: Deal) -> None:
    """By hand, by an import, and by the seller's word."""
    user, advertiser = make_user("Administrator"), make_advertiser("Added")
    with as_the_product():
        seller = seller_import(name="Added", url="https://added.example", actor=user)
        values = {"reference": {"account_id": "a-1"}, "status": "suspended", "requested_by": "system"}
        account_add(account=Account(advertiser=advertiser, seller=seller, **values), actor=user)
        account_record(
            advertiser=advertiser, seller=deal.seller, answer={"account_id": "a-2"}, requested_by="system"
        )
    assert set(Account.objects.filter(advertiser=advertiser).values_list("seller__slug", flat=True)) == {
        "added",
        deal.seller.slug,
    }
    assert SecurityEvent.objects.get(about="added").detail["imported"] is True


# --- deliveries -----------------------------------------------------------------------------------


def delivered(seller: Seller, verdict: str, **fields: Any) -> WebhookDelivery:
    kept = {
        "body": {"status": "completed"},
        "bound_until": clock.now() + timedelta(days=1),
        "key": uuid.uuid4().hex,
        **fields,
    }
    return WebhookDelivery.objects.create(seller=seller, verdict=verdict, fingerprint="f", **kept)


@pytest.mark.parametrize("verdict", WebhookDelivery.Verdict.values)
def test_what_a_delivery_said_stays(role: psycopg.Connection, deal: Deal, verdict: str) -> None:
    """Before its effect as afterwards; it goes past its horizon, but for what contradicts an end."""
    fresh = delivered(deal.seller, verdict)
    for other in (
        """body = '{"status": "failed"}'""",
        "body = null",
        "bound_until = now()",
        "bound_until = null",
        "key = 'another'",
    ):
        with pytest.raises(errors.InsufficientPrivilege, match="said is kept"):
            role.execute(f"update tasks_app_webhookdelivery set {other}")
    past = delivered(deal.seller, verdict, bound_until=clock.now())
    forget = "update tasks_app_webhookdelivery set body = null where id = %s"
    if verdict in ("received", "conflict"):
        with pytest.raises(errors.InsufficientPrivilege, match="said is kept"):
            role.execute(forget, [past.pk])
    else:
        role.execute(forget, [past.pk])
    assert WebhookDelivery.objects.get(pk=fresh.pk).body == {"status": "completed"}


def test_a_token_alone_is_hidden_in_what_a_delivery_said(role: psycopg.Connection, deal: Deal) -> None:
    token = webhook_token_of(uuid.uuid4())
    body = {"status": "completed", token: [f"a {token} b", 1.5], "long": "x" * 60}
    early = delivered(deal.seller, "early", body=body)
    hide = "select fd_delivery_hide(%s, %s)"
    for other in ("completed", "x" * 42, "%" * 43, ".*" + "x" * 41, ""):
        assert role.execute(hide, [early.pk, other]).fetchone() == (False,)
    assert role.execute(hide, [early.pk, token]).fetchone() == (True,)
    kept = WebhookDelivery.objects.get(pk=early.pk).body
    assert kept == {"status": "completed", REDACTED: [f"a {REDACTED} b", 1.5], "long": "x" * 60}

    applied = delivered(deal.seller, "applied", reason="applied", body=body)
    assert role.execute(hide, [applied.pk, token]).fetchone() == (False,)
    assert WebhookDelivery.objects.get(pk=applied.pk).body == body

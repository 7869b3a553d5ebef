"""A seller is who it is, by its name; what was accepted of one host is not accepted of another."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import transaction

from tasks_app import clock
from tasks_app.adcp import client
from tasks_app.adcp.types import Capabilities, Endpoint
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.sellers import services
from tasks_app.sellers.columns import SELLER_HEARD
from tasks_app.sellers.models import Seller
from tasks_app.sellers.services import SellerChange, seller_add, seller_change
from tasks_app.sellers.trust import row_change
from tests.factories import make_seller, make_user
from tests.operations.making import stand

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def discovered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def discover(endpoint: Endpoint) -> Capabilities:
        return Capabilities(
            agent_name="A",
            version="3.2",
            supported_versions=("3.2",),
            tools=frozenset({"create_media_buy"}),
            quirks=endpoint.quirks,
        )

    monkeypatch.setattr(client, "discover", discover)


def test_another_name_is_another_seller() -> None:
    names = ["Foo Bar", "Foo & Bar", "Foo-Bar"]
    made = [
        seller_add(name=n, url=f"https://{i}.example/mcp", protocol="mcp")[0] for i, n in enumerate(names)
    ]
    assert len({seller.pk for seller in made}) == 3
    assert [seller.slug for seller in made] == ["foo-bar", "foo-bar-2", "foo-bar-3"]
    again, _ = seller_add(name="Foo & Bar", url="https://1.example/mcp", protocol="mcp")
    assert again.pk == made[1].pk
    assert Seller.objects.get(pk=made[0].pk).url == "https://0.example/mcp"


def test_a_seller_is_added_whatever_script_its_name_is_in() -> None:
    made = [
        seller_add(name=name, url="https://ads.example/mcp", protocol="mcp")[0] for name in ("電通", "博報堂")
    ]
    assert [seller.slug for seller in made] == ["ads-example", "ads-example-2"]


@pytest.mark.parametrize("name", ["foo bar", "Foo\u200b Bar", "Foo\u00a0 Bar", "Ｆoo Bar"], ids=ascii)
def test_a_name_that_looks_like_anothers_is_refused(name: str) -> None:
    """Nobody could tell them apart on any page."""
    seller_add(name="Foo Bar", url="https://0.example/mcp", protocol="mcp")
    with pytest.raises(ValidationError, match="called so, in other characters: 'Foo Bar'"):
        seller_add(name=name, url="https://1.example/mcp", protocol="mcp")
    assert Seller.objects.count() == 1


def test_a_slug_that_another_takes_meanwhile_is_not_taken_for_who_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keep = services._keep

    def kept_late(*wanted: Any, **more: Any) -> Seller:
        make_seller("Foo & Bar", slug="foo-bar", url="https://first.example/mcp")
        return keep(*wanted, **more)

    monkeypatch.setattr(services, "_keep", kept_late)
    made, _ = seller_add(name="Foo Bar", url="https://second.example/mcp", protocol="mcp")
    assert made.slug == "foo-bar-2"
    assert Seller.objects.get(slug="foo-bar").url == "https://first.example/mcp"


def test_two_sellers_are_not_called_the_same() -> None:
    seller, other = make_seller("Norrland"), make_seller("Vasa")
    wanted = SellerChange(name="Vasa", slots=1, active=True, jwks_url="", allow_private=True)
    with pytest.raises(ValidationError, match="called so"):
        seller_change(seller=seller, change=wanted, actor=make_user("Ad Ops"))
    Seller.objects.filter(pk=other.pk).update(name="Norrland")
    with pytest.raises(ValidationError, match="two sellers"):
        seller_add(name="Norrland", url=seller.url, protocol="mcp")


@pytest.mark.parametrize("again", ["https://old.example/mcp", "https://OLD.example:443/mcp"])
def test_asking_a_seller_again_changes_what_was_given_and_nothing_else(again: str) -> None:
    seller = make_seller(
        url="https://old.example/mcp",
        token="t-1",
        auth_scheme="basic",
        headers={"X-Tenant": "acme"},
        webhook_mode="rfc9421",
        jwks_url="https://keys.example/by-hand.json",
        status_tool="tell_me",
        account_in_reads="never",
        slots=5,
        active=False,
        contact_email="desk@old.example",
        timing={"poll_s": 60},
        idempotency_ttl_s=None,
        idempotency_risk_accepted_by="human:1",
        idempotency_risk_accepted_at=clock.now(),
    )
    seller_add(name=seller.name, url=again, protocol="mcp", slots=7, token="name:word")
    now = Seller.objects.get(pk=seller.pk)
    changed = {
        field.name
        for field in Seller._meta.concrete_fields
        if getattr(now, field.name) != getattr(seller, field.name)
    }
    assert changed - SELLER_HEARD - {"url"} == {"slots", "token"}


def test_keys_of_one_host_are_not_anothers() -> None:
    seller = make_seller(
        url="https://old.example/mcp", webhook_mode="rfc9421", jwks_url="https://keys.example/by-hand.json"
    )
    with pytest.raises(ValidationError, match="names no brand"):
        seller_add(name=seller.name, url="https://new.example/mcp", protocol="mcp")


def test_a_risk_accepted_while_a_new_address_waits_is_the_present_hosts() -> None:
    seller = make_seller(url="https://old.example/mcp")
    stand("submitted", seller=seller)
    Seller.objects.update(idempotency_ttl_s=None)
    ops = make_user("Ad Ops")
    seller_add(name=seller.name, url="https://new.example/mcp", protocol="mcp", actor=ops)
    assert Seller.objects.get(pk=seller.pk).url == "https://old.example/mcp"
    risk = {"idempotency_risk_accepted_by": "human:1", "idempotency_risk_accepted_at": clock.now()}
    with transaction.atomic():
        row_change(row=Seller.objects.get(pk=seller.pk), values=risk, actor=ops)
    assert Seller.objects.get(pk=seller.pk).may_be_sent_mutations
    question = Approval.objects.get(kind="seller_trust")
    approval_decide(approval_id=question.pk, user=make_user("Approver"), verdict="approve")
    now = Seller.objects.get(pk=seller.pk)
    assert (now.url, now.may_be_sent_mutations) == ("https://new.example/mcp", False)
    assert now.idempotency_risk_accepted_at is None


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://old.example/a2a", True),
        ("https://Old.Example:443/mcp", True),
        ("https://old.example:8443/mcp", False),
        ("https://new.example/mcp", False),
    ],
)
def test_an_accepted_risk_and_what_was_learnt_belong_to_the_host(url: str, kept: bool) -> None:
    seller = make_seller(
        url="https://old.example/mcp",
        idempotency_ttl_s=None,
        idempotency_risk_accepted_by="human:1",
        quirks=["omit get_products account"],
    )
    again, _ = seller_add(name=seller.name, url=url, protocol="mcp")
    assert (again.may_be_sent_mutations, bool(again.quirks)) == (kept, kept)


KEYS = "https://keys.seller.example/jwks.json"


@pytest.mark.parametrize("way", ["published", "told", "known"])
@pytest.mark.parametrize(
    ("origin", "taken"),
    [
        (None, True),
        ("https://keys.seller.example", True),
        ("https://keys.seller.example:443/", True),
        ("https://keys.elsewhere.example", False),
        ("http://keys.seller.example", False),
        ("https://keys.seller.example:8443", False),
        ("https://[broken", False),
    ],
)
def test_keys_come_from_the_origin_that_the_seller_declares(
    origin: str | None, taken: bool, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def published(*_: object, **__: object) -> str:
        return KEYS

    async def discover(_: Endpoint) -> Capabilities:
        origins = {"key_origins": {"webhook_signing": origin}} if origin else {}
        return Capabilities(
            agent_name="A",
            version="3.2",
            supported_versions=("3.2",),
            tools=frozenset(),
            brand_json_url="https://seller.example/.well-known/brand.json",
            raw={"identity": origins},
        )

    monkeypatch.setattr(services, "fetch_jwks_uri", published)
    monkeypatch.setattr(client, "discover", discover)
    told = {
        "name": "Keyed",
        "url": "https://agent.seller.example/mcp",
        "protocol": "mcp",
        "webhooks": "rfc9421",
        **({"jwks_url": "https://keys.seller.example/jwks.json"} if way == "told" else {}),
    }
    if way == "known":
        make_seller("Keyed", url=told["url"], webhook_mode="rfc9421", jwks_url=KEYS)
        told = {name: value for name, value in told.items() if name != "webhooks"}
    if taken or way == "known":  # what is kept bars nothing else; it proves nothing from then on
        kept = seller_add(**told)[0]
        assert (kept.jwks_url, kept.keys_elsewhere) == (KEYS, not taken)
    else:
        with pytest.raises(ValidationError, match="another origin"):
            seller_add(**told)


def declaring(origin: str) -> dict[str, Any]:
    return {"identity": {"key_origins": {"webhook_signing": origin}}}


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "by a second person"])
def test_keys_of_another_origin_are_not_set_by_people_either(waits: bool) -> None:
    """Nor where it has declared another by the time that the second person approves."""
    seller = make_seller("Keyed", webhook_mode="rfc9421", jwks_url=KEYS)
    Seller.objects.update(capabilities=declaring("https://keys.seller.example"))
    ops, there = make_user("Ad Ops"), "https://keys.elsewhere.example/jwks.json"
    if waits:
        stand("submitted", seller=seller)
        near = "https://keys.seller.example/other.json"
        with transaction.atomic():
            row_change(row=Seller.objects.get(), values={"jwks_url": near}, actor=ops)
        Seller.objects.update(capabilities=declaring("https://keys.elsewhere.example"))
        asked, second = Approval.objects.get(kind="seller_trust"), make_user("Approver")
        with suppress(DecisionRefusedError):
            approval_decide(approval_id=asked.pk, user=second, verdict="approve")
    else:
        with pytest.raises(ValidationError, match="another origin"), transaction.atomic():
            row_change(row=Seller.objects.get(), values={"jwks_url": there}, actor=ops)
    assert Seller.objects.get().jwks_url == KEYS


@pytest.mark.parametrize("url", ["https://agent.seller.example/mcp", "https://moved.example/mcp"])
def test_one_that_moves_its_keys_is_asked_where_they_are_now(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it declared before holds no more."""
    make_seller("Keyed", url="https://agent.seller.example/mcp", webhook_mode="rfc9421", jwks_url=KEYS)
    Seller.objects.update(capabilities=declaring("https://keys.seller.example"))
    _declares("https://keys.moved.example", monkeypatch)
    moved = {"webhooks": "rfc9421", "jwks_url": "https://keys.moved.example/jwks.json"}
    kept, _ = seller_add(name="Keyed", url=url, protocol="mcp", **moved)
    assert (kept.jwks_url, kept.keys_elsewhere) == (moved["jwks_url"], False)


def test_new_credentials_do_not_wait_for_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    make_seller("Keyed", url="https://agent.seller.example/mcp", webhook_mode="rfc9421", jwks_url=KEYS)
    _declares("https://keys.moved.example", monkeypatch)
    kept, _ = seller_add(name="Keyed", url="https://agent.seller.example/mcp", protocol="mcp", token="new")
    assert (kept.token, kept.keys_elsewhere) == ("new", True)


def _declares(origin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def discover(_: Endpoint) -> Capabilities:
        said = {"agent_name": "A", "version": "3.2", "supported_versions": ("3.2",), "tools": frozenset()}
        return Capabilities(**said, raw=declaring(origin))

    monkeypatch.setattr(client, "discover", discover)


def test_one_whose_keys_it_declares_elsewhere_can_still_be_changed_otherwise() -> None:
    make_seller("Keyed", webhook_mode="rfc9421", jwks_url=KEYS)
    Seller.objects.update(capabilities=declaring("https://keys.elsewhere.example"))
    assert Seller.objects.get().keys_elsewhere
    with transaction.atomic():
        row_change(row=Seller.objects.get(), values={"active": False}, actor=make_user("Ad Ops"))
    assert not Seller.objects.get().active


@pytest.mark.parametrize("became", [{"url": "https://b.example/mcp"}, {"protocol": "a2a"}])
def test_an_address_that_became_another_while_it_was_asked_stays(
    became: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With it came other credentials, which are not this host's."""
    seller, run = make_seller("Moves", url="https://a.example/mcp"), asyncio.run

    def asks(call: Any) -> Any:
        Seller.objects.filter(pk=seller.pk).update(**became, token="token-of-b")
        return run(call)

    monkeypatch.setattr(asyncio, "run", asks)
    with pytest.raises(ValidationError, match="meanwhile"):
        seller_add(name="Moves", url="https://a.example/v2", protocol="mcp")
    kept = Seller.objects.get()
    assert kept.token == "token-of-b"
    assert {name: getattr(kept, name) for name in became} == became

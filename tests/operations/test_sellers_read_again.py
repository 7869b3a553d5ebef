"""Sellers are asked again what they can do: by schedule, by people, and when they refuse our version."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from datetime import timedelta
from functools import partial
from threading import Event
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse

from tasks_app import clock
from tasks_app.adcp import client
from tasks_app.adcp.types import Capabilities, DiscoveryError, Endpoint
from tasks_app.notifications.models import Notification
from tasks_app.operations.seller_reads import sellers_read, sellers_wake
from tasks_app.people.security_models import SecurityEvent
from tasks_app.sellers import services
from tasks_app.sellers.heard import seller_read_now, version_heard
from tasks_app.sellers.models import Seller
from tasks_app.sellers.services import seller_import
from tasks_app.sellers.trust import row_change
from tests.adcp.raw_server import Request, serve
from tests.adcp.scripted_seller import mcp_result, rpc
from tests.adcp.scripted_seller import seller as scripted
from tests.factories import make_seller, make_user
from tests.operations.making import answer, ask, failed, hours
from tests.operations.sweeping import sweep, tools
from tests.support import PATIENCE_S

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
LEARNT = ["omit get_media_buys account", "send list_tasks account"]
REFUSED: dict[str, Any] = {
    "adcp_error": {
        "code": "VERSION_UNSUPPORTED",
        "message": "3.1 only",
        "recovery": "correctable",
        "details": {"supported_versions": ["3.1"]},
    }
}
SAID: dict[str, Any] = {
    "status": "completed",
    "adcp": {
        "supported_versions": ["3.1"],
        "idempotency": {"supported": True, "replay_ttl_seconds": 3600},
    },
}


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the seller says when it is asked; an exception where it does not."""
    told: dict[str, Any] = {"asked": 0, "version": "3.2", "tools": {"get_products", "create_media_buy"}}

    async def discover(endpoint: Endpoint) -> Capabilities:
        told["asked"] += 1
        if "fails" in told:
            raise DiscoveryError(told["fails"])
        return Capabilities(
            agent_name="A",
            version=told["version"],
            supported_versions=(told["version"],),
            tools=frozenset(told["tools"]),
            idempotency_ttl_s=86_400,
            quirks=endpoint.quirks,
            raw=told.get("raw", {}),
        )

    monkeypatch.setattr(client, "discover", discover)
    return told


def known(**fields: Any) -> Seller:
    """A seller as it was asked two days ago."""
    asked = {"capabilities_at": clock.now() - 2 * DAY, "tools": ["create_media_buy", "get_products"]}
    return make_seller(**{**asked, **fields})


def later(by: timedelta) -> AbstractContextManager[None]:
    moment = clock.now() + by
    return clock.injected(lambda: moment)


def agent(**answers: Any) -> Any:
    """A seller that lists its tools and answers them; an answer may be a function that makes it."""

    def answer(request: Request) -> bytes:
        if request.rpc_method == "tools/list":
            listed = [{"name": name, "inputSchema": {"type": "object"}} for name in answers]
            return rpc(request, result={"tools": listed})
        told = answers[request.json["params"]["name"]]
        told = told() if callable(told) else told
        return rpc(request, result={**mcp_result(told), "isError": "adcp_error" in told})

    return serve(scripted(answer))


def stored(seller: Seller) -> Seller:
    return Seller.objects.get(pk=seller.pk)


def test_a_seller_is_asked_again_every_day(said: dict[str, Any]) -> None:
    seller = known(adcp_version="3.1")
    assert sellers_wake() == 1
    assert sellers_read() == 1
    assert stored(seller).adcp_version == "3.2"
    assert (sellers_wake(), sellers_read(), said["asked"]) == (0, 0, 1)
    with later(DAY + hours(1)):
        assert (sellers_wake(), sellers_read(), said["asked"]) == (1, 1, 2)


@pytest.mark.parametrize("fields", [{"active": False}, {"capabilities_at": None}], ids=["off", "not-due"])
def test_who_is_off_or_not_due_is_not_asked(fields: dict[str, Any], said: dict[str, Any]) -> None:
    known(**fields)
    assert (sellers_wake(), sellers_read(), said["asked"]) == (0, 0, 0)


def test_one_that_was_imported_is_asked_once_it_is_switched_on(said: dict[str, Any]) -> None:
    seller = seller_import(name="Legacy", url="https://legacy.example/mcp", actor="system")
    assert (sellers_wake(), sellers_read()) == (0, 0)
    with transaction.atomic():
        row_change(row=seller, values={"active": True}, actor=make_user("Ad Ops"))
    assert (sellers_wake(), sellers_read(), said["asked"]) == (1, 1, 1)
    assert stored(seller).tools == ["create_media_buy", "get_products"]


@pytest.mark.parametrize("first", [True, False], ids=["moves", "comes back"])
def test_keys_that_it_declares_elsewhere_are_told(first: bool, said: dict[str, Any]) -> None:
    here, there = "https://keys.example", "https://keys.elsewhere.example"
    before, after = (here, there) if first else (there, here)
    said["raw"] = {"identity": {"key_origins": {"webhook_signing": after}}}
    declared = {"identity": {"key_origins": {"webhook_signing": before}}}
    signs = {"webhook_mode": "rfc9421", "jwks_url": f"{here}/jwks.json"}
    seller = known(adcp_version="3.2", idempotency_ttl_s=86_400, capabilities=declared, **signs)
    sellers_read()
    assert stored(seller).keys_elsewhere == first
    (line,) = Notification.objects.get(kind="seller_otherwise").body.splitlines()
    assert ("webhooks are refused" in line) == first


def test_one_that_does_not_say_keeps_what_it_said_and_is_asked_an_hour_later(said: dict[str, Any]) -> None:
    seller, said["fails"] = known(), "the seller speaks 4.0"
    assert (sellers_read(), sellers_read(), said["asked"]) == (0, 0, 1)
    assert stored(seller).tools == seller.tools
    with later(hours(1) + timedelta(seconds=1)):
        assert (sellers_read(), said["asked"]) == (0, 2)
    note = Notification.objects.get(kind="seller_otherwise")
    assert "speaks 4.0" in note.body


def test_what_it_says_otherwise_is_told(said: dict[str, Any]) -> None:
    known(adcp_version="3.1", idempotency_ttl_s=None, tools=["get_products", "sync_accounts"])
    sellers_read()
    note = Notification.objects.get(kind="seller_otherwise")
    assert note.body.splitlines() == [
        "It speaks AdCP 3.2, no longer 3.1",
        "It no longer lists sync_accounts",
        "It lists create_media_buy now",
        "It replays a repeated purchase",
    ]


@pytest.mark.parametrize(
    ("otherwise", "left"),
    [({}, LEARNT), ({"version": "3.1"}, []), ({"tools": {"get_products"}}, [])],
    ids=["the-same", "another-version", "other-tools"],
)
def test_what_calls_taught_is_forgotten_where_it_is_another_release(
    otherwise: dict[str, Any], left: list[str], said: dict[str, Any]
) -> None:
    seller = known(quirks=LEARNT)
    said.update(otherwise)
    sellers_read()
    assert stored(seller).quirks == left


def test_what_was_said_at_an_address_that_it_left_is_not_kept(
    said: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seller, keep = known(adcp_version="3.1"), services.seller_reread

    def moved(**told: Any) -> Any:
        Seller.objects.update(url="https://new.example/mcp")
        return keep(**told)

    monkeypatch.setattr(services, "seller_reread", moved)
    assert sellers_read() == 0
    assert stored(seller).adcp_version == "3.1"


def test_one_that_refuses_our_version_is_read_again_soon_and_spoken_to_in_its_own() -> None:
    with agent(get_products=REFUSED, get_adcp_capabilities=SAID) as server:
        seller = known(url=f"{server.url}/mcp", capabilities_at=clock.now() - hours(1))
        assert sellers_wake() == 0
        ask("get_products", seller=seller, arguments={"buying_mode": "brief", "brief": "x"})
        sweep()
        assert "get_adcp_capabilities" not in tools(server)
        assert sellers_wake() == 1
        sellers_read()
        assert tools(server).count("get_adcp_capabilities") == 1
    assert stored(seller).adcp_version == "3.1"


def test_one_that_refuses_every_version_is_not_asked_with_each_refusal(said: dict[str, Any]) -> None:
    seller, said["fails"] = known(), "the seller speaks 4.0"
    refusal = failed("VERSION_UNSUPPORTED", "correctable")
    sellers_read()
    for minutes, asked in ((1, 1), (4, 1), (6, 2), (7, 2)):
        with later(timedelta(minutes=minutes)):
            version_heard(seller_id=seller.pk, seen=refusal)
            sellers_read()
        assert said["asked"] == asked
    version_heard(seller_id=seller.pk, seen=answer("completed"))


def test_one_that_answered_in_another_version_is_read_again_soon(said: dict[str, Any]) -> None:
    seller = known(capabilities_at=clock.now() - hours(1))
    version_heard(seller_id=seller.pk, seen=answer("completed"))
    assert sellers_wake() == 0
    version_heard(seller_id=seller.pk, seen=answer("completed", other_version=True))
    assert sellers_read() == 1


def test_a_refusal_of_the_version_just_agreed_on_asks_nobody(said: dict[str, Any]) -> None:
    seller = known()
    sellers_read()
    version_heard(seller_id=seller.pk, seen=failed("VERSION_UNSUPPORTED", "correctable"))
    assert sellers_read() == 0
    assert seller_read_now(seller_id=seller.pk)
    assert sellers_read() == 1


def test_a_person_has_what_was_learnt_forgotten() -> None:
    seller = known(capabilities_at=clock.now(), quirks=LEARNT)
    browser, page = Client(), reverse("admin:tasks_app_seller_change", args=[seller.pk])
    browser.force_login(make_user("Ad Ops", is_staff=True))
    shown = browser.get(page).content.decode()
    assert shown.count('name="forget"') == 2
    assert browser.post(page, {"forget": LEARNT[0]}).status_code == 302
    assert browser.post(page, {"forget": LEARNT[0]}).status_code == 302
    assert stored(seller).quirks == LEARNT[1:]
    kept = SecurityEvent.objects.filter(detail__changes__quirks__isnull=False)
    assert kept.count() == 1


def test_who_may_not_change_sellers_neither_asks_nor_forgets() -> None:
    seller = known(quirks=LEARNT)
    browser, page = Client(), reverse("admin:tasks_app_seller_change", args=[seller.pk])
    browser.force_login(make_user("Approver", is_staff=True))
    assert 'name="forget"' not in browser.get(page).content.decode()
    assert browser.post(page, {"forget": LEARNT[0]}).status_code == 403
    assert stored(seller).quirks == LEARNT


def test_how_the_capabilities_are_asked_for_is_learnt_anew() -> None:
    with agent(get_adcp_capabilities=SAID) as server:
        seller = known(
            url=f"{server.url}/mcp", quirks=["omit get_adcp_capabilities context", "omit gone_tool account"]
        )
        sellers_read()
    assert stored(seller).quirks == []


def test_sellers_are_asked_side_by_side() -> None:
    """Each says what it can do once all have been asked."""
    asked = [Event() for _ in range(4)]

    def answer(own: Event) -> dict[str, Any]:
        own.set()
        return SAID if all(one.wait(PATIENCE_S) for one in asked) else REFUSED

    with ExitStack() as running:
        servers = [running.enter_context(agent(get_adcp_capabilities=partial(answer, own))) for own in asked]
        for number, server in enumerate(servers):
            known(name=f"Seller {number}", url=f"{server.url}/mcp")
        assert sellers_read() == len(asked)


def test_a_handful_that_hang_hold_up_nobody_and_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the one that answers said is kept while the others are still waited for."""
    kept, write, due = Event(), services.seller_reread, clock.now() - DAY

    def written(**told: Any) -> Any:
        done = write(**told)
        kept.set()
        return done

    def hang(_: Request) -> bytes:
        kept.wait(PATIENCE_S)
        return b""

    monkeypatch.setattr(services, "seller_reread", written)
    with ExitStack() as running:
        for number in range(3):
            server = running.enter_context(serve(scripted(hang)))
            known(name=f"Hanging {number}", url=f"{server.url}/mcp", capabilities_next_at=due)
        slow = running.enter_context(
            agent(get_adcp_capabilities=lambda: SAID if kept.wait(PATIENCE_S) else REFUSED)
        )
        known(name="Slow", url=f"{slow.url}/mcp", capabilities_next_at=due)
        quick = running.enter_context(agent(get_adcp_capabilities=SAID))
        known(name="Quick", url=f"{quick.url}/mcp", capabilities_next_at=clock.now())
        assert sellers_read() == 2
    told = Notification.objects.filter(title__contains="does not say").values_list("title", flat=True)
    assert sorted(told) == [f"Hanging {number} does not say what it can do" for number in range(3)]

"""Who is locked out: however a name is written, under however many names, and by no header of a client's."""

from __future__ import annotations

import asyncio
import sys
import unicodedata
from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.test import Client, RequestFactory

from config.middleware import TrustedProxies
from tasks_app import clock
from tasks_app.operations.sweep import _chores
from tasks_app.people.lockout import address_of, failures_forget
from tasks_app.people.models import User
from tasks_app.people.security_models import SecurityEvent
from tests.people.conftest import LOGIN, PASSWORD

Person = Callable[[str], User]
# Zero-width space, word joiner, soft hyphen, mark of direction, tag, variation selector, Hangul filler.
HIDDEN = ["\u200b", "\u2060", "\u00ad", "\u202e", "\U000e0041", "\ufe0f", "\u3164"]


def tried(name: str, password: str = "", address: str = "192.0.2.1", **headers: str) -> Any:
    return Client(REMOTE_ADDR=address, headers=headers).post(
        LOGIN, {"username": name, "password": password or "wrong"}
    )


def is_in(name: str, address: str = "192.0.2.1", **headers: str) -> bool:
    return bool(tried(name, PASSWORD, address, **headers).status_code == 302)


def test_no_character_that_nobody_sees_makes_another_name() -> None:
    hidden = [chr(at) for at in range(sys.maxunicode + 1) if unicodedata.category(chr(at)) in ("Cf", "Cc")]
    assert len(hidden) > 150
    for character in (*hidden, *HIDDEN):
        assert User.normalize_username(f"ma{character}ya") == "maya", hex(ord(character))
    assert User.normalize_username("ｍａｙａ") == "maya"


@pytest.mark.django_db
def test_names_that_look_the_same_are_one_name_to_the_lock(person: Person) -> None:
    maya = person("Buyer")
    for hidden in HIDDEN[:5]:
        tried(f"{maya.username}{hidden}")
    assert not is_in(maya.username)
    assert SecurityEvent.objects.filter(event="locked_out", about=maya.username).exists()


@pytest.mark.django_db
def test_a_name_is_born_and_found_without_them(person: Person) -> None:
    maya = person("Buyer")
    assert is_in(f"{maya.username}\u200b")
    with pytest.raises(ValidationError):
        User(username=f"\u2060{maya.username}", password=maya.password).full_clean()
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.create_user(f"\u2060{maya.username}")
    born = User.objects.create_user("ｎｅｗ\u200bcomer")
    assert User.objects.get(pk=born.pk).username == "newcomer"


def _kept() -> list[str]:
    """Everything that the lock-out keeps of what was typed."""
    rows = [
        *AccessAttempt.objects.values_list("username", "get_data", "post_data"),
        *AccessFailureLog.objects.values_list("username", "user_agent", "path_info"),
    ]
    return [text for row in rows for text in row if text]


@pytest.mark.django_db
def test_what_was_typed_as_the_name_of_nobody_is_kept_nowhere(person: Person) -> None:
    """It may be a password, typed into the wrong field."""
    maya = person("Buyer")
    for _ in range(6):
        tried(PASSWORD)
    tried(maya.username)
    assert maya.username in _kept()
    assert [text for text in _kept() if PASSWORD in text] == []
    assert all(PASSWORD not in event.about for event in SecurityEvent.objects.all())


@pytest.mark.django_db
def test_names_of_nobody_are_counted_one_by_one(person: Person) -> None:
    """A lock tells nobody which names there are."""
    maya = person("Buyer")
    answers = {name: [tried(name).status_code for _ in range(6)] for name in (maya.username, "one", "two")}
    assert answers["one"] == answers["two"] == answers[maya.username]
    assert tried("three").status_code == 200


@pytest.mark.django_db
def test_failed_sign_ins_are_forgotten_with_the_security_log(
    person: Person, sign_in: Callable[..., Client], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried("somebody")
    sign_in(person("Buyer"))
    records = (AccessAttempt, AccessFailureLog, AccessLog)
    assert failures_forget() == 0
    assert [model.objects.count() for model in records] == [1, 1, 1]
    later = clock.now() + settings.SECURITY_KEEP + timedelta(minutes=1)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert failures_forget() == 3
    assert not any(model.objects.exists() for model in records)
    assert _chores["sign_ins_forgotten"] is failures_forget


@pytest.mark.django_db
def test_forty_names_from_one_address_lock_the_address(person: Person) -> None:
    maya = person("Buyer")
    for number in range(40):
        tried(f"somebody-{number}")
    assert tried("another").status_code == 429
    assert not is_in(maya.username)
    assert is_in(maya.username, address="192.0.2.2")


@pytest.mark.django_db
def test_addresses_of_one_ipv6_customer_are_one(person: Person, settings: Any) -> None:
    settings.LOGIN_FAILURES_PER_ADDRESS = 6
    maya = person("Buyer")
    for number in range(6):
        tried(f"somebody-{number}", address=f"2001:db8:0:1::{number + 1:x}")
    assert not is_in(maya.username, address="2001:db8:0:1::99")
    assert is_in(maya.username, address="2001:db8:0:2::1")


@pytest.mark.django_db
def test_an_address_is_let_in_again_after_a_quarter_of_an_hour(
    person: Person, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.LOGIN_FAILURES_PER_ADDRESS = 3
    maya = person("Buyer")
    for number in range(3):
        tried(f"somebody-{number}")
    assert not is_in(maya.username)
    later = clock.now() + settings.AXES_COOLOFF_TIME + timedelta(minutes=1)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert is_in(maya.username)


@pytest.mark.django_db
def test_a_header_of_the_clients_own_is_not_believed(person: Person, settings: Any) -> None:
    settings.LOGIN_FAILURES_PER_ADDRESS = 5
    for number in range(5):
        tried(f"somebody-{number}", **{"X-Forwarded-For": f"198.51.100.{number}"})
    assert not is_in(person("Buyer").username, **{"X-Forwarded-For": "198.51.100.9"})
    refused = SecurityEvent.objects.filter(event="login_failed").values_list("address", flat=True)
    assert set(refused) == {"192.0.2.1"}


@pytest.mark.parametrize(
    ("peer", "forwarded", "sender"),
    [
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),  # no proxy of ours
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "1.2.3.4, 198.51.100.1", "198.51.100.1"),  # what stands before it anybody wrote
        ("10.0.0.1", "198.51.100.1, 10.0.0.2", "198.51.100.1"),  # two proxies of ours
        ("10.0.0.1", "198.51.100.1:4711", "198.51.100.1"),
        ("10.0.0.1", "[2001:db8::1]:4711", "2001:db8::1"),
        ("::ffff:10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("::ffff:203.0.113.9", "198.51.100.1", "203.0.113.9"),  # no IPv6 network, which all of IPv4 would be
        ("10.0.0.1", "unknown", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1, nonsense", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
    ],
)
def test_only_named_proxies_say_who_sends(peer: str, forwarded: str, sender: str) -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope)

    headers = [(b"x-forwarded-for", forwarded.encode()), (b"x-real-ip", b"1.1.1.1"), (b"host", b"a")]
    scope = {"type": "http", "client": (peer, 1), "headers": headers}
    asyncio.run(TrustedProxies(app, [ip_network("10.0.0.0/8")])(scope, None, None))
    assert seen[0]["client"][0] == sender
    assert seen[0]["headers"] == [(b"host", b"a")], "nothing behind it can believe another"


@pytest.mark.parametrize(
    ("client", "kept"),
    [
        (("203.0.113.9", 1), []),
        (None, []),  # a socket of nobody's address is no proxy that is named
        (("10.0.0.1", 1), [(b"x-forwarded-proto", b"https")]),
        (("::ffff:10.0.0.1", 1), [(b"x-forwarded-proto", b"https")]),
    ],
)
def test_only_named_proxies_say_that_it_was_https(client: Any, kept: list[Any]) -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope)

    scope = {"type": "http", "client": client, "headers": [(b"x-forwarded-proto", b"https")]}
    asyncio.run(TrustedProxies(app, [ip_network("10.0.0.0/8")])(scope, None, None))
    assert seen[0]["headers"] == kept


def test_an_address_that_is_none_is_none() -> None:
    assert address_of(RequestFactory(REMOTE_ADDR="testserver").get("/")) is None
    assert address_of(None) is None

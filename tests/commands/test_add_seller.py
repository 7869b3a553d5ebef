"""add_seller: asks first, tells what the seller can do, keeps nothing when it cannot be asked."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tasks_app.people.models import Actor
from tasks_app.sellers import services
from tasks_app.sellers.models import Seller
from tests.commands.running import call
from tests.faulty_seller import FaultySeller

pytestmark = pytest.mark.django_db


def add(faulty: FaultySeller, *more: str, name: str = "Norrland Digital") -> Any:
    arguments = ["add_seller", name, faulty.url, "--protocol", "mcp", f"--token={faulty.token}"]
    return call(*arguments, "--allow-private", *more)


def assert_nothing_kept() -> None:
    assert not Seller.objects.exists()
    assert not Actor.objects.filter(kind=Actor.Kind.AGENT).exists()


def test_people_read_what_it_can_and_what_it_cannot(faulty: FaultySeller) -> None:
    ran = add(faulty)

    assert ran.code == 0
    assert "yes  can be booked" in ran.out
    assert "no   can change a media buy" in ran.out
    assert "no   tells us by webhook" in ran.out


def test_a_seller_without_idempotency_is_told_apart(faulty: FaultySeller) -> None:
    faulty.fault("get_adcp_capabilities", "merge", answer={"adcp": {"supported_versions": ["3.0"]}})

    ran = add(faulty)

    assert ran.code == 0
    assert "Nothing is bought there" in ran.out
    assert not Seller.objects.get().may_be_sent_mutations


def test_the_same_name_again_brings_it_up_to_date_and_a_failure_leaves_it(faulty: FaultySeller) -> None:
    assert add(faulty).code == 0
    assert add(faulty, "--slots", "4").code == 0
    faulty.fault("get_adcp_capabilities", "html")

    assert add(faulty, "--slots", "9").code == 2

    seller = Seller.objects.get()
    assert (seller.slots, seller.token) == (4, faulty.token)


@pytest.mark.parametrize(
    ("kind", "parameters", "said"),
    [
        ("http", {"status": 500}, "HTTP 500"),
        ("html", {}, "get_adcp_capabilities"),
        ("truncated", {}, "get_adcp_capabilities"),
        ("huge", {}, "large"),
        ("drop", {}, "get_adcp_capabilities"),
        ("crash", {}, "Internal error"),
        ("unauthorized", {}, "does not accept our token"),
        ("error", {"code": "SERVICE_UNAVAILABLE", "message": "closed on Sundays"}, "closed on Sundays"),
        ("status", {"status": "submitted"}, "get_adcp_capabilities"),
        ("merge", {"answer": {"adcp": {"supported_versions": ["2.5"]}}}, "speaks 2.5"),
        ("merge", {"answer": {"adcp": "yes"}}, "speaks no version"),
    ],
)
def test_a_seller_that_cannot_be_asked_is_not_kept(
    faulty: FaultySeller, kind: str, parameters: dict[str, Any], said: str
) -> None:
    faulty.fault("get_adcp_capabilities", kind, 0, **parameters)

    ran = add(faulty)

    assert ran.code == 2
    assert "Norrland Digital was not added" in ran.err
    assert said in ran.err
    assert_nothing_kept()


def test_a_slow_seller_is_given_up(faulty: FaultySeller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "_DISCOVERY_TIMEOUT_S", 0.5)
    faulty.fault("get_adcp_capabilities", "hang", 0, seconds=20)

    ran = add(faulty)

    assert ran.code == 2
    assert "no answer in time" in ran.err
    assert_nothing_kept()


def test_a_seller_that_is_down_is_not_kept(faulty: FaultySeller) -> None:
    faulty.kill()

    ran = add(faulty, "--json")

    assert ran.code == 2
    assert "was not added" in ran.json["error"]
    assert_nothing_kept()


def test_a_wrong_token_is_refused_and_never_shown(faulty: FaultySeller) -> None:
    ran = call(
        "add_seller", "Norrland", faulty.url, "--protocol", "mcp", "--allow-private", "--token", "wr0ng-t0ken"
    )

    assert ran.code == 2
    assert "does not accept our token" in ran.err
    assert "wr0ng-t0ken" not in ran.err + ran.out
    assert_nothing_kept()


def test_a_private_address_needs_leave(faulty: FaultySeller) -> None:
    for url in (faulty.url, faulty.url.replace("http:", "https:"), "https://[::1]/mcp"):
        ran = call("add_seller", "Norrland", url, "--protocol", "mcp")

        assert ran.code == 2
        assert "--allow-private" in ran.err
    assert faulty.requests() == []
    assert_nothing_kept()


def test_leave_for_private_addresses_is_not_offered_where_it_would_not_help() -> None:
    ran = call("add_seller", "Metadata", "https://169.254.169.254/mcp", "--protocol", "mcp")

    assert ran.code == 2
    assert "--allow-private" not in ran.err


@pytest.mark.parametrize("url", ["nonsense", "https://", "javascript:alert(1)", "https:///mcp"])
def test_what_is_no_address_is_refused(url: str) -> None:
    ran = call("add_seller", "Norrland", url, "--protocol", "mcp", "--allow-private")

    assert ran.code == 2
    assert "url: Enter a valid URL" in ran.err


def test_credentials_in_the_address_are_refused_and_not_repeated() -> None:
    ran = call("add_seller", "Norrland", "https://me:s3cret@seller.example.com/", "--protocol", "a2a")

    assert ran.code == 2
    assert "holds credentials" in ran.err
    assert "s3cret" not in ran.err
    assert_nothing_kept()


def test_something_else_behind_the_address(faulty: FaultySeller) -> None:
    base = faulty.url.removesuffix("/mcp")
    elsewhere = call("add_seller", "N", f"{base}/shop", "--protocol", "mcp", "--allow-private")
    other_protocol = call("add_seller", "N", base, "--protocol", "a2a", "--allow-private")

    assert (elsewhere.code, other_protocol.code) == (2, 2)
    assert "HTTP 404" in elsewhere.err
    assert "agent card" in other_protocol.err
    assert_nothing_kept()


def test_a_port_that_takes_connections_and_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "_DISCOVERY_TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"

        ran = call("add_seller", "Silent", url, "--protocol", "mcp", "--allow-private")

    assert ran.code == 2
    assert "in time" in ran.err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--slots", "0"), "slots:"),
        (("--slots", "99999"), "slots:"),
        (("--webhooks", "rfc9421"), "jwks_url: the seller names no brand.json"),
        (("--webhooks", "rfc9421", "--jwks-url", "nowhere"), "jwks_url: Enter a valid URL"),
    ],
)
def test_values_that_cannot_be_kept_are_named(faulty: FaultySeller, more: tuple[str, ...], said: str) -> None:
    ran = add(faulty, *more)

    assert ran.code == 2
    assert said in ran.err
    assert_nothing_kept()


def test_a_name_without_letters_is_refused(faulty: FaultySeller) -> None:
    ran = add(faulty, name="!!!")

    assert ran.code == 2
    assert "slug" in ran.err


@pytest.mark.parametrize("text", [b"", b"two\nlines", b"\xff\xfe", b"x" * 501, "schlüssel".encode()])
def test_a_token_that_cannot_be_one_is_refused(tmp_path: Path, text: bytes) -> None:
    kept = tmp_path / "token"
    kept.write_bytes(text)

    ran = call(
        "add_seller", "N", "https://seller.example.com/", "--protocol", "mcp", "--token-file", str(kept)
    )

    assert ran.code == 2
    assert "The token is" in ran.err


def test_a_token_file_that_is_not_there() -> None:
    ran = call(
        "add_seller", "N", "https://seller.example.com/", "--protocol", "mcp", "--token-file", "/nowhere/t"
    )

    assert ran.code == 2
    assert "/nowhere/t cannot be read: No such file" in ran.err

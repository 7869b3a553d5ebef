"""add_seller: asks first, tells what the seller can do, keeps nothing when it cannot be asked."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tasks_app.adcp.types import Capabilities
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.assistant.models import ASSISTANT
from tasks_app.management.commands.add_seller import _lines
from tasks_app.operations.models import OperationStatus as S
from tasks_app.people.models import Actor, User
from tasks_app.people.security_models import SecurityEvent
from tasks_app.sellers import services
from tasks_app.sellers.models import Seller
from tests.commands.running import call
from tests.factories import make_seller, make_user
from tests.fake_seller.driver import FakeSeller
from tests.operations.making import stand

pytestmark = pytest.mark.django_db


def add(faulty: FakeSeller, *more: str, name: str = "Norrland Digital") -> Any:
    arguments = ["add_seller", name, faulty.url, "--protocol", "mcp", f"--token={faulty.token}"]
    return call(*arguments, "--allow-private", *more)


def assert_nothing_kept() -> None:
    assert not Seller.objects.exists()
    assert not Actor.objects.filter(kind=Actor.Kind.AGENT).exclude(key=ASSISTANT).exists()


def test_people_read_what_it_can_and_what_it_cannot(faulty: FakeSeller) -> None:
    ran = add(faulty)

    assert ran.code == 0
    assert "yes  can be booked" in ran.out
    assert "no   can change a media buy" in ran.out
    said, ours = ran.out.split("Set by us:")
    assert "The seller says of itself:" in said
    assert "webhooks: none, polling only" in ours
    assert "One read with our credentials:\n  list_accounts: answered" in ours


def test_a_seller_without_idempotency_is_told_apart(faulty: FakeSeller) -> None:
    faulty.fault("get_adcp_capabilities", "merge", answer={"adcp": {"supported_versions": ["3.0"]}})

    ran = add(faulty)

    assert ran.code == 0
    assert "Nothing is bought there" in ran.out
    assert not Seller.objects.get().may_be_sent_mutations


def test_the_same_name_again_brings_it_up_to_date_and_a_failure_leaves_it(faulty: FakeSeller) -> None:
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
    faulty: FakeSeller, kind: str, parameters: dict[str, Any], said: str
) -> None:
    faulty.fault("get_adcp_capabilities", kind, 0, **parameters)

    ran = add(faulty)

    assert ran.code == 2
    assert "Norrland Digital was not added" in ran.err
    assert said in ran.err
    assert_nothing_kept()


def test_a_slow_seller_is_given_up(faulty: FakeSeller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "_DISCOVERY_TIMEOUT_S", 0.5)
    faulty.fault("get_adcp_capabilities", "hang", 0, seconds=20)

    ran = add(faulty)

    assert ran.code == 2
    assert "no answer in time" in ran.err
    assert_nothing_kept()


def test_a_seller_that_is_down_is_not_kept(faulty: FakeSeller) -> None:
    faulty.kill()

    ran = add(faulty, "--json")

    assert ran.code == 2
    assert "was not added" in ran.json["error"]
    assert_nothing_kept()


def test_a_wrong_token_is_refused_and_never_shown(faulty: FakeSeller) -> None:
    ran = call(
        "add_seller", "Norrland", faulty.url, "--protocol", "mcp", "--allow-private", "--token", "wr0ng-t0ken"
    )

    assert ran.code == 2
    assert "does not accept our token" in ran.err
    assert "wr0ng-t0ken" not in ran.err + ran.out
    assert_nothing_kept()


def test_a_private_address_needs_leave(faulty: FakeSeller) -> None:
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


def test_something_else_behind_the_address(faulty: FakeSeller) -> None:
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
def test_values_that_cannot_be_kept_are_named(faulty: FakeSeller, more: tuple[str, ...], said: str) -> None:
    ran = add(faulty, *more)

    assert ran.code == 2
    assert said in ran.err
    assert_nothing_kept()


def test_a_name_without_letters_is_refused(faulty: FakeSeller) -> None:
    ran = add(faulty, name="!!!")

    assert ran.code == 2
    assert "name: A seller's name has a letter or a digit." in ran.err
    assert_nothing_kept()


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


def test_one_read_tells_what_the_credentials_are_worth(faulty: FakeSeller) -> None:
    faulty.fault("list_accounts", "unauthorized")
    ran = add(faulty)
    assert ran.code == 1
    assert "list_accounts: refused: " in ran.out
    assert "does not take our credentials" in ran.err
    assert Seller.objects.exists(), "it is kept"
    faulty.fault("list_accounts", "error", code="VALIDATION_ERROR", message="Omit the list")
    again = add(faulty, "--json")
    assert (again.code, again.json["read"]["answered"]) == (0, False)
    assert again.json["read"]["words"] == "refused: Omit the list"
    assert again.json["options"]["webhooks"] == "none, polling only"


def test_settings_that_a_seller_needs_are_given_at_once(faulty: FakeSeller, tmp_path: Path) -> None:
    secret = tmp_path / "headers"
    secret.write_text("X-Api-Key: a-key-of-the-gateway\n")
    more = ("--header", "X-Tenant: acme", "--secret-headers-file", str(secret), "--status-tool", "task_state")
    ran = add(faulty, *more, "--account-in-reads", "never")
    kept = Seller.objects.get()
    assert ran.code == 0
    assert (kept.headers, kept.status_tool, kept.account_in_reads) == (
        {"X-Tenant": "acme"},
        "task_state",
        "never",
    )
    assert json.loads(str(kept.secret_headers)) == {"X-Api-Key": "a-key-of-the-gateway"}
    assert "a-key-of-the-gateway" not in ran.out + ran.err
    assert add(faulty, "--slots", "2").code == 0
    assert Seller.objects.get().headers == {"X-Tenant": "acme"}, "what was not given stays"
    for wrong in ("Host: elsewhere", "nonsense"):
        assert add(faulty, "--header", wrong).code == 2
    basic = add(faulty, "--auth", "basic")
    assert basic.code == 2
    assert "name:password" in basic.err


def test_a_private_address_is_told_apart_from_a_wrong_one(faulty: FakeSeller) -> None:
    private = call("add_seller", "N", "https://10.0.0.1/mcp", "--protocol", "mcp")
    assert "no leave for a private address" in private.err
    unlisted = call("add_seller", "N", "https://10.0.0.1/mcp", "--protocol", "mcp", "--allow-private")
    assert "FLIGHTDECK_PRIVATE_NETWORKS" in unlisted.err
    wrong = call("add_seller", "N", "https://nobody.invalid/mcp", "--protocol", "mcp")
    assert "does not resolve" in wrong.err
    assert "private" not in wrong.err
    assert_nothing_kept()


# --- a seller in use -------------------------------------------------------------------------------


@pytest.fixture
def ops() -> User:
    return make_user("Ad Ops")


def stored(name: str) -> Any:
    return getattr(Seller.objects.get(), name)


def question() -> Approval:
    return Approval.objects.get(kind="seller_trust", status="open")


def approve() -> None:
    approval_decide(approval_id=question().pk, user=make_user("Approver"), verdict="approve")


@pytest.fixture
def used(faulty: FakeSeller) -> Seller:
    seller, _ = services.seller_add(
        name="Norrland", url=faulty.url, protocol="mcp", token=faulty.token, allow_private=True
    )
    stand(S.SUBMITTED, seller=seller)
    return seller


@pytest.mark.parametrize(
    ("more", "name"),
    [
        (("--webhooks", "hmac"), "webhook_mode"),
        (("--jwks-url", "https://elsewhere.example/jwks.json"), "jwks_url"),
    ],
)
def test_the_command_asks_for_it(
    more: tuple[str, ...], name: str, used: Seller, faulty: FakeSeller, ops: User
) -> None:
    arguments = ("add_seller", "Norrland", faulty.url, "--protocol", "mcp", *more)
    nobody = call(*arguments)
    assert nobody.code == 2
    assert "--as" in nobody.err

    ran = call(*arguments, "--as", ops.username, "--reason", "They moved", "--json")

    assert ran.code == 0
    assert list(ran.json["waits"]) == [name]
    assert stored(name) == getattr(used, name)
    assert question().requested_by == f"human:{ops.pk}"
    approve()
    assert stored(name) != getattr(used, name)
    assert stored("token") == faulty.token, "what was not given stays"


def test_nothing_of_a_seller_in_use_changes_by_command_without_a_name(
    used: Seller, faulty: FakeSeller, ops: User
) -> None:
    arguments = ("add_seller", "Norrland", faulty.url, "--protocol", "mcp")
    nobody = call(*arguments, "--slots", "3")
    assert (nobody.code, stored("slots")) == (2, used.slots)
    assert "--as" in nobody.err
    assert call(*arguments).code == 0, "it is asked again what it can do"
    assert call(*arguments, "--slots", "3", "--as", ops.username).code == 0
    assert stored("slots") == 3


def test_another_address_by_command_waits_with_what_it_told_of_itself(
    used: Seller, faulty: FakeSeller, ops: User
) -> None:
    Seller.objects.update(tools=["get_products"])
    moved = faulty.url.replace("127.0.0.1", "localhost")
    arguments = ("add_seller", "Norrland", moved, "--protocol", "mcp", "--token", faulty.token)
    ran = call(*arguments, "--as", ops.username)
    assert "waits for a second person" in ran.out
    assert (stored("url"), stored("tools")) == (used.url, ["get_products"])
    approve()
    assert stored("url") == moved
    assert len(stored("tools")) > 1


def test_an_added_seller_is_recorded(faulty: FakeSeller, ops: User) -> None:
    arguments = ("add_seller", "Norrland", faulty.url, "--protocol", "mcp", "--token", faulty.token)
    assert call(*arguments, "--allow-private", "--as", ops.username).code == 0
    entry = SecurityEvent.objects.get(event="seller_changed")
    assert (entry.about, entry.actor, entry.detail["added"]) == ("norrland", f"human:{ops.pk}", True)
    assert entry.detail["changes"]["url"] == ["none", faulty.url]
    assert faulty.token not in json.dumps(entry.detail)
    assert call(*arguments, "--as", make_user("Buyer").username).code == 2


def test_the_command_says_that_webhooks_prove_nothing() -> None:
    """Its keys are read where they were, and it declares others by now."""
    declared = {"identity": {"key_origins": {"webhook_signing": "https://keys.moved.example"}}}
    signs = {"webhook_mode": "rfc9421", "jwks_url": "https://keys.example/jwks.json"}
    moved, stays = make_seller("Moved", capabilities=declared, **signs), make_seller("Stays", **signs)
    asked = Capabilities(agent_name="A", version="3.2", supported_versions=("3.2",), tools=frozenset())
    assert [any("webhooks are refused" in line for line in _lines(one, asked)) for one in (moved, stays)] == [
        True,
        False,
    ]

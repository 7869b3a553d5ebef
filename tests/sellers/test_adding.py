"""Adding a seller in the page: what it answers, what must be corrected, what it still lacks."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.test import Client
from django.urls import reverse

from demo.ports import free_port
from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tasks_app.sellers.adding.readiness import is_ready, requirements
from tasks_app.sellers.models import Seller
from tests.factories import make_account, make_advertiser, make_seller, make_team
from tests.fake_seller.driver import FakeSeller
from tests.ui.pages import page_of, read

pytestmark = pytest.mark.django_db
_ADD = "admin:tasks_app_seller_add"


@pytest.fixture
def client(ops: User) -> Client:
    client = Client()
    client.force_login(ops, backend="tasks_app.people.holders.RoleBackend")
    return client


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[FakeSeller]:
    with FakeSeller(tmp_path) as process:
        yield process


def typed(url: str, **more: Any) -> dict[str, Any]:
    """Return the form of the page as a person fills it in."""
    form = {"name": "Norrland", "url": url, "protocol": "mcp", "auth_scheme": "bearer", "token": "a-token-1"}
    return {**form, "webhook_mode": "none", "allow_private": "on", **more}


class _WebPage(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = b"<html>Welcome</html>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def web_page(context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve a web page that is no agent. Return its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _WebPage) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def of_another_host(folder: Path) -> ssl.SSLContext:
    """Return a TLS context with a certificate that nobody trusts, for another host."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "other.example")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    both = folder / "certificate.pem"
    both.write_bytes(private + made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    return context


def test_what_is_wrong_stands_beside_its_field_and_nothing_typed_is_lost(
    client: Client, faulty: FakeSeller, tmp_path: Path
) -> None:
    make_seller("Vasa")
    with web_page() as page, web_page(of_another_host(tmp_path)) as other:
        cases: list[tuple[str, str, dict[str, Any]]] = [
            ("url", "No connection.", typed(f"http://127.0.0.1:{free_port()}/mcp")),
            ("url", "A web page came back.", typed(f"http://127.0.0.1:{page}/mcp")),
            ("url", "A2A agent", typed(f"http://127.0.0.1:{page}/", protocol="a2a")),
            ("url", "certificate", typed(f"https://localhost:{other}/mcp")),
            ("url", "HTTP 404", typed(faulty.url.replace("/mcp", "/shop"))),
            ("url", "Enter a valid URL", typed("nonsense")),
            ("token", "does not accept our token", typed(faulty.url)),
            ("token", "without spaces", typed(faulty.url, token="two words")),
            ("url", "Use https.", typed(faulty.url, allow_private="")),
            ("allow_private", "private", typed("https://127.0.0.1/mcp", allow_private="")),
            ("name", "called so", typed(faulty.url, name="Vasa")),
            ("headers", "Name: value", typed(faulty.url, headers="nonsense")),
            ("jwks_url", "brand.json", typed(faulty.url, token=faulty.token, webhook_mode="rfc9421")),
        ]
        for field, words, form in cases:
            answer = client.post(reverse(_ADD), form)
            assert words in str(answer.context["form"].errors[field]), (form, answer.context["form"].errors)
            page_text = answer.content.decode()
            assert all(value in page_text for value in (form["name"], form["url"], form["token"]))
    assert [one.name for one in Seller.objects.all()] == ["Vasa"]


def test_a_seller_is_added_asked_and_asked_for_an_account(client: Client, faulty: FakeSeller) -> None:
    advertiser, foreign = make_advertiser(), make_advertiser("Foreign", team=make_team("Another team"))
    User.objects.get().teams.add(advertiser.team)
    added = client.post(reverse(_ADD), typed(faulty.url, token=faulty.token))
    seller = Seller.objects.get()
    assert added["Location"].startswith(page_of(seller))
    faulty.fault("list_accounts", "error", code="AUTH_REQUIRED", message="Use the tenant's key")
    refused = client.post(page_of(seller), {"ask": "1"}).content.decode()
    assert "Use the tenant&#x27;s key" in refused
    assert "ask the seller for new ones" in refused
    assert "It refuses our credentials" in read(client, page_of(seller))
    assert "1 listed." in client.post(page_of(seller), {"ask": "1"}).content.decode()
    assert "No account yet" in read(client, page_of(seller))
    theirs = client.post(page_of(seller), {"account": "1", "advertiser": str(foreign.pk)})
    assert theirs.status_code == 422
    client.post(page_of(seller), {"account": "1", "advertiser": str(advertiser.pk)})
    assert Operation.objects.get().task_type == "sync_accounts"
    again = client.post(page_of(seller), {"account": "1", "advertiser": str(advertiser.pk)})
    assert again.status_code == 422, "one request at a time"
    assert "is asked for an account" in read(
        client, reverse("admin:tasks_app_seller_ready", args=[seller.pk])
    )


def test_a_seller_is_ready_only_if_nothing_is_missing() -> None:
    tools = ["get_products", "create_media_buy", "list_accounts"]
    whole = {"active": True, "tools": tools, "idempotency_ttl_s": 86400, "capabilities_at": datetime.now(UTC)}
    accounts = [make_account(make_advertiser(), make_seller("Vasa"))]
    missing: list[dict[str, Any]] = [
        {"active": False},
        {"read_refusal": "another token, please"},
        {"tools": tools[1:]},
        {"idempotency_ttl_s": None},
        {"capabilities_at": None},
    ]
    assert is_ready(requirements(Seller(name="S", **whole), accounts))
    assert not is_ready(requirements(Seller(name="S", **whole), []))
    for lack in missing:
        assert not is_ready(requirements(Seller(name="S", **{**whole, **lack}), accounts)), lack

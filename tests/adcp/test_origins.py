"""Which URLs belong together: by registrable domain, or by a brand.json that names the other."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tasks_app.adcp.signatures.jwks import KeysError, fetch_jwks_uri
from tasks_app.adcp.signatures.origins import belongs_together, registrable_domain
from tests.adcp.raw_server import response, serve


@pytest.mark.parametrize(
    ("url", "domain"),
    [
        ("https://agent.Seller.example.com/mcp", "example.com"),
        ("https://ads.news.co.uk/mcp", "news.co.uk"),
        ("https://one.pages.dev/mcp", "one.pages.dev"),
        ("https://pages.dev/mcp", None),
        ("https://xn--bcher-kva.example/x", "xn--bcher-kva.example"),
        ("https://shop.b\u00fccher.example./x", "xn--bcher-kva.example"),
        ("http://127.0.0.1:9000/mcp", "127.0.0.1"),
        ("http://[::1]:9000/mcp", "::1"),
        ("http://localhost/mcp", "localhost"),
        ("https:///mcp", None),
        ("https://[broken/mcp", None),
    ],
)
def test_the_registrable_domain_of_a_url(url: str, domain: str | None) -> None:
    assert registrable_domain(url) == domain


@pytest.mark.parametrize(
    ("agent", "brand_url", "operators", "together"),
    [
        ("https://agent.seller.com/mcp", "https://www.seller.com/brand.json", [], True),
        ("https://agent.seller.com/mcp", "https://operator.com/brand.json", [], False),
        ("https://agent.seller.com/mcp", "https://operator.com/brand.json", [{"domain": "Seller.com"}], True),
        ("https://mine.pages.dev/mcp", "https://yours.pages.dev/brand.json", [], False),
        (
            "https://agent.seller.com/mcp",
            "https://operator.com/b",
            [{"domain": "agent.seller.com"}, 5],
            False,
        ),
        ("http://127.0.0.1:1/mcp", "http://127.0.0.1:2/brand.json", [], True),
        ("http://127.0.0.1:1/mcp", "http://127.0.0.2:2/brand.json", "all", False),
    ],
)
def test_a_brand_json_speaks_for_its_own_domain_or_whom_it_names(
    agent: str, brand_url: str, operators: Any, together: bool
) -> None:
    assert belongs_together(agent, brand_url, {"authorized_operators": operators}) is together


def test_the_brand_json_of_another_domain_is_refused_though_it_lists_the_agent() -> None:
    """A platform of many tenants lists the attacker's agent: that does not make its keys the attacker's."""
    brand: dict[str, Any] = {}

    def answer(_request: Any, connection: Any) -> None:
        connection.sendall(response(json.dumps(brand)))

    with serve(lambda _server: answer) as it:
        agent = "https://attacker.example.org/mcp"
        brand["agents"] = [{"url": agent, "jwks_uri": "https://operator.example.com/jwks.json"}]
        with pytest.raises(KeysError, match="request_signature_brand_origin_mismatch"):
            asyncio.run(fetch_jwks_uri(agent, f"{it.url}/brand.json", allow_private=True))
        brand["authorized_operators"] = [{"domain": "example.org"}]
        found = asyncio.run(fetch_jwks_uri(agent, f"{it.url}/brand.json", allow_private=True))
    assert found == "https://operator.example.com/jwks.json"

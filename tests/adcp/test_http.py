"""Guarded outbound HTTP against real servers."""

import asyncio
import gzip
import ipaddress
import socket
from collections.abc import Callable, Iterator

import httpx
import httpx2
import pytest

from tasks_app.adcp import http
from tasks_app.adcp.addresses import AddressError, check_url, is_permitted, is_public, private_networks_set
from tests.support import PATIENCE_S

from .raw_server import RawServer, Request, Script, response, serve

LOCAL = http.Policy(allow_private=True, timeout_s=PATIENCE_S)


def answering(*bodies: bytes) -> Callable[[RawServer], Script]:
    def script(server: RawServer) -> Script:
        def handle(request: Request, connection: socket.socket) -> None:
            for part in bodies:
                connection.sendall(part)

        return handle

    return script


def fetch(url: str, policy: http.Policy = LOCAL) -> http.Fetched:
    return asyncio.run(http.fetch(url, policy))


def refused(url: str, policy: http.Policy = LOCAL) -> str:
    with pytest.raises(http.FetchError) as failure:
        fetch(url, policy)
    return str(failure.value)


RESERVED = """
127.0.0.1 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1
255.255.255.255 192.0.2.1 198.18.0.1 240.0.0.1 ::1 :: fc00::1 fe80::1 ff02::1 ::ffff:8.8.8.8
::ffff:127.0.0.1 ::127.0.0.1 64:ff9b::a00:1 2002:a00:1::1 2001:0:1::1 fd00:ec2::254 2001:db8::1
5f00::1 ::ffff:0:7f00:1 100::1 192.0.0.1
"""


@pytest.mark.parametrize("address", RESERVED.split())
def test_reserved_addresses_are_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))
    assert not is_permitted(ipaddress.ip_address(address), allow_private=False)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111"])
def test_public_addresses_are_permitted(address: str) -> None:
    assert is_permitted(ipaddress.ip_address(address), allow_private=False)


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "fd00:ec2::254", "0.0.0.0", "224.0.0.1", "::ffff:10.0.0.1", "fe80::1"],  # noqa: S104
)
def test_allowing_private_never_allows_metadata_or_carriers(address: str) -> None:
    assert not is_permitted(ipaddress.ip_address(address), allow_private=True)


@pytest.fixture
def networks() -> Iterator[None]:
    yield
    private_networks_set(["127.0.0.0/8", "::1/128"])


def test_private_networks_are_those_listed(networks: None) -> None:
    ten, home = ipaddress.ip_address("10.1.2.3"), ipaddress.ip_address("127.0.0.1")
    assert is_permitted(home, allow_private=True)
    assert not is_permitted(ten, allow_private=True), "not listed"

    private_networks_set(["10.1.0.0/16"])

    assert is_permitted(ten, allow_private=True)
    assert not is_permitted(ten, allow_private=False)
    assert not is_permitted(ipaddress.ip_address("10.2.0.1"), allow_private=True)
    assert not is_permitted(home, allow_private=True)


@pytest.mark.parametrize(
    "network", ["169.254.0.0/16", "0.0.0.0/0", "8.8.8.0/24", "fe80::/10", "10.0.0.1/8", "x"]
)
def test_nothing_else_can_be_listed(network: str, networks: None) -> None:
    with pytest.raises(ValueError):
        private_networks_set(["127.0.0.0/8", network])
    assert is_permitted(ipaddress.ip_address("127.0.0.1"), allow_private=True), "as before"


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]", "0", "localhost."])
def test_other_spellings_of_this_machine_are_refused(host: str) -> None:
    with serve(answering(response("{}"))) as server:
        assert refused(f"https://{host}:{server.port}/", http.Policy())
    assert server.requests == []


def test_a_name_that_points_elsewhere_the_next_time_is_checked_the_next_time() -> None:
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])

    async def rebinding(host: str, port: int) -> list[str]:
        return next(answers)

    policy = http.Policy(allow_private=True, timeout_s=PATIENCE_S, resolver=rebinding)
    with serve(answering(response("{}"))) as server:
        assert fetch(f"http://rebind.test:{server.port}/", policy).status == 200
        assert "is reserved" in refused(f"http://rebind.test:{server.port}/", policy)
    assert len(server.requests) == 1


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "zstd", "identity, gzip"])
def test_no_compression_is_unpacked(encoding: str) -> None:
    bomb = gzip.compress(b"0" * 2**24)
    with serve(answering(response(bomb, Content_Encoding=encoding))) as server:
        assert "compressed" in refused(server.url)


@pytest.mark.parametrize(
    "url",
    [
        "http://seller.example.com/mcp",
        "ftp://seller.example.com/",
        "https://user:secret@seller.example.com/",
        "https:///mcp",
        "https://[::1",
        "https://[fe80::1%25eth0]/",
        "file:///etc/passwd",
        "",
    ],
)
def test_unfit_urls_are_refused(url: str) -> None:
    with pytest.raises(AddressError) as refusal:
        check_url(url, allow_private=False)
    assert "secret" not in str(refusal.value)


def test_gets_a_document() -> None:
    with serve(answering(response('{"a": 1}'))) as server:
        fetched = fetch(f"{server.url}/x")
    assert (fetched.status, fetched.body) == (200, b'{"a": 1}')
    assert server.requests[0].headers["host"] == f"127.0.0.1:{server.port}"
    assert server.requests[0].headers["accept-encoding"] == "identity"


def test_private_addresses_are_refused_before_anything_is_sent() -> None:
    with serve(answering(response("{}"))) as server:
        assert "private" in refused(f"https://127.0.0.1:{server.port}/", http.Policy())
        assert "private" in refused(f"https://localhost:{server.port}/", http.Policy())
    assert server.requests == []


def test_a_redirect_is_not_followed() -> None:
    with serve(answering(response("", status="302 Found", Location="/elsewhere"))) as server:
        fetched = fetch(f"{server.url}/x")
    assert fetched.status == 302
    assert "location" not in fetched.headers
    assert len(server.requests) == 1


def test_a_declared_size_is_not_believed() -> None:
    policy = http.Policy(allow_private=True, max_bytes=1000)
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"100\r\n" + b"x" * 256 + b"\r\n"
    with serve(answering(chunked, *[b"100\r\n" + b"x" * 256 + b"\r\n"] * 20)) as server:
        assert "larger than 1000 bytes" in refused(server.url, policy)
    with serve(answering(response("x" * 1001))) as server:
        assert "larger than 1000 bytes" in refused(server.url, policy)


def test_a_compressed_answer_is_refused() -> None:
    with serve(answering(response(b"\x1f\x8b", Content_Encoding="gzip"))) as server:
        assert "compressed" in refused(server.url)


def test_a_slow_drip_ends_at_the_limit() -> None:
    def script(server: RawServer) -> Script:
        def handle(request: Request, connection: socket.socket) -> None:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while not server.stopping.wait(0.05):
                connection.sendall(b"x")

        return handle

    with serve(script) as server:
        assert "within 0.5 s" in refused(server.url, http.Policy(allow_private=True, timeout_s=0.5))


def test_a_truncated_answer_is_an_error() -> None:
    with serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc")) as server:
        assert "ended before" in refused(server.url)


def test_no_proxy_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with serve(answering(response("{}"))) as server:
        assert fetch(server.url).status == 200


@pytest.mark.parametrize("lib", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_the_connection_goes_to_the_address_that_was_checked(lib: object) -> None:
    """A name that changes its address after the check (DNS rebinding) gains nothing."""
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])

    async def rebinding(host: str, port: int) -> list[str]:
        return next(answers)

    policy = http.Policy(allow_private=True, timeout_s=PATIENCE_S, resolver=rebinding)
    ledger = http.Ledger(sending_task=True)

    async def twice() -> list[int]:
        async with http.client(lib, policy, ledger, headers={}) as client:
            return [(await client.get(f"http://rebind.test:{server.port}/")).status_code for _ in range(2)]

    with serve(answering(response("{}"))) as server:
        assert asyncio.run(twice()) == [200, 200]
    assert next(answers) == ["169.254.169.254"]
    assert {request.headers["host"] for request in server.requests} == {f"rebind.test:{server.port}"}
    assert ledger.request_left
    assert [exchange.http_status for exchange in ledger.exchanges] == [200, 200]


@pytest.mark.parametrize(
    ("addresses", "allow", "why"),
    [
        (["10.0.0.1"], False, "is private, and this seller has no leave"),
        (["8.8.8.8", "127.0.0.1"], False, "is private, and this seller has no leave"),
        (["10.0.0.1"], True, "in none of the networks of FLIGHTDECK_PRIVATE_NETWORKS"),
        (["::ffff:8.8.8.8"], False, "is reserved"),
        (["169.254.169.254"], True, "is reserved"),
        (["fd00:ec2::254"], True, "is reserved"),
        ([], False, "does not resolve"),
    ],
)
def test_one_forbidden_address_refuses_the_name_and_says_what_would_help(
    addresses: list[str], allow: bool, why: str
) -> None:
    async def resolver(host: str, port: int) -> list[str]:
        return addresses

    policy = http.Policy(resolver=resolver, allow_private=allow)
    assert why in refused("https://seller.example.com/", policy)


def test_the_next_address_is_tried_when_one_refuses() -> None:
    async def resolver(host: str, port: int) -> list[str]:
        return ["127.0.0.2", "127.0.0.1"]

    with serve(answering(response("{}"))) as server:
        policy = http.Policy(allow_private=True, timeout_s=PATIENCE_S, resolver=resolver)
        assert fetch(f"http://seller.test:{server.port}/", policy).status == 200


def test_the_ledger_knows_that_nothing_left() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        port = unheard.getsockname()[1]
        ledger = http.Ledger(sending_task=True)

        async def get() -> None:
            async with http.client(httpx, LOCAL, ledger, headers={}) as client:
                await client.get(f"http://127.0.0.1:{port}/")

        with pytest.raises(httpx.ConnectError):
            asyncio.run(get())
    assert not ledger.request_left
    assert ledger.last is not None
    assert ledger.last.failure == "connect"

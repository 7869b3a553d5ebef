"""Signatures beyond the vectors: hostile headers, canonical URLs, and two implementations that must agree."""

import base64
import hashlib
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from hypothesis import given
from hypothesis import strategies as st

from tasks_app.adcp.signatures import SignatureError, hmac_sha256, rfc9421
from tasks_app.adcp.signatures import errors as codes
from tasks_app.adcp.signatures.jwks import (
    KeysError,
    find_jwk,
    jwks_uri_in,
    webhook_key,
)
from tasks_app.adcp.signatures.revocations import check_revocation, read_revocations
from tasks_app.adcp.signatures.structured_fields import (
    FieldError,
    decode_base64url,
    decode_either_base64,
    parse_byte_dictionary,
    parse_signature_input,
)
from tasks_app.adcp.signatures.urls import UrlError, canonical_authority, canonical_uri

NOW = 1_800_000_000
URL = "https://buyer.example.com/webhooks/adcp/norrland/"
BODY = b'{"status":"completed"}'
PRIVATE = ed25519.Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"a key for tests").digest())


def b64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


JWK = {
    "kid": "k1",
    "kty": "OKP",
    "crv": "Ed25519",
    "alg": "EdDSA",
    "use": "sig",
    "key_ops": ["verify"],
    "adcp_use": "request-signing",
    "x": b64url(PRIVATE.public_key().public_bytes_raw()),
}


def signed(*, body: bytes = BODY, url: str = URL, digest: str | None = None, **params: Any) -> dict[str, str]:
    """Headers signed as the profile says; `params` replace the signature's parameters."""
    values: dict[str, Any] = {
        "created": NOW,
        "expires": NOW + 300,
        "nonce": b64url(hashlib.sha256(repr(params).encode()).digest()[:16]),
        "keyid": "k1",
        "alg": "ed25519",
        "tag": rfc9421.TAG,
        **params,
    }
    written = "".join(
        f";{name}={value}" if isinstance(value, int) else f';{name}="{value}"'
        for name, value in values.items()
    )
    text = '("@method" "@target-uri" "@authority" "content-type" "content-digest")' + written
    headers = {
        "Content-Type": "application/json",
        "Content-Digest": digest or f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:",
        "Signature-Input": f"sig1={text}",
    }
    lowered = {name.lower(): value for name, value in headers.items()}
    base = rfc9421.signature_base(
        "POST", url, lowered, parse_signature_input(headers["Signature-Input"])["sig1"]
    )
    return {**headers, "Signature": f"sig1=:{b64url(PRIVATE.sign(base))}:"}


def verify(
    headers: dict[str, str],
    *,
    body: bytes = BODY,
    url: str = URL,
    jwk: dict[str, Any] | None = None,
    now: float = NOW,
) -> rfc9421.VerifiedSignature:
    remembered: set[tuple[str, str]] = set()

    def remember(keyid: str, nonce: str, seconds: int) -> bool:
        remembered.add((keyid, nonce))
        return True

    return rfc9421.verify(
        "POST",
        url,
        headers,
        body,
        find_key=lambda keyid: find_jwk({"keys": [jwk or JWK]}, keyid),
        check_revoked=lambda keyid: None,
        replay=rfc9421.ReplayGuard(
            is_full=lambda keyid: False,
            is_known=lambda keyid, nonce: (keyid, nonce) in remembered,
            remember=remember,
        ),
        now=now,
    )


def refusal(headers: dict[str, str], **how: Any) -> str:
    with pytest.raises(SignatureError) as refused:
        verify(headers, **how)
    return refused.value.code


def test_a_good_signature_proves_its_key() -> None:
    verified = verify(signed())
    assert (verified.keyid, verified.created, verified.expires) == ("k1", NOW, NOW + 300)
    assert verified.remember_for_s >= 360


def test_a_digest_may_come_in_either_alphabet() -> None:
    raw = hashlib.sha256(BODY).digest()
    assert verify(signed(digest=f"sha-256=:{b64url(raw)}:"))
    assert verify(signed(digest=f"sha-512=:AAAA:, sha-256=:{base64.b64encode(raw).decode()}:"))


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"body": b'{"status":"failed"}'}, codes.DIGEST_MISMATCH),
        ({"url": "https://buyer.example.com/webhooks/adcp/other/"}, codes.INVALID),
        ({"url": "https://other.example.com/webhooks/adcp/norrland/"}, codes.INVALID),
        ({"now": NOW + 361}, codes.WINDOW_INVALID),
        ({"now": NOW - 61}, codes.WINDOW_INVALID),
        ({"jwk": {**JWK, "kid": "k2"}}, codes.KEY_UNKNOWN),
        ({"jwk": {**JWK, "adcp_use": "governance-signing"}}, codes.KEY_PURPOSE_INVALID),
        ({"jwk": {**JWK, "use": "enc"}}, codes.KEY_PURPOSE_INVALID),
        ({"jwk": {**JWK, "alg": "ES256"}}, codes.KEY_UNKNOWN),
        ({"jwk": {**JWK, "x": "short"}}, codes.KEY_UNKNOWN),
        ({"jwk": {**JWK, "x": b64url(bytes(32))}}, codes.INVALID),
    ],
)
def test_what_was_not_signed_is_refused(changed: dict[str, Any], code: str) -> None:
    assert refusal(signed(), **changed) == code


def test_the_skew_of_both_clocks_is_allowed() -> None:
    assert verify(signed(), now=NOW + 359)
    assert verify(signed(), now=NOW - 59)


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"nonce": "short"}, codes.PARAMS_INCOMPLETE),
        ({"nonce": b64url(bytes(16)) + "=="}, codes.PARAMS_INCOMPLETE),
        ({"tag": "adcp/request-signing/v1"}, codes.TAG_INVALID),
        ({"tag": "ADCP/webhook-signing/v1"}, codes.TAG_INVALID),
        ({"alg": "rsa-v1_5-sha256"}, codes.ALG_NOT_ALLOWED),
        ({"alg": "ecdsa-p256-sha256"}, codes.ALG_NOT_ALLOWED),
        ({"expires": NOW + 301}, codes.WINDOW_INVALID),
        ({"created": "soon"}, codes.WINDOW_INVALID),
        ({"keyid": ""}, codes.HEADER_MALFORMED),
        ({"keyid": 7}, codes.HEADER_MALFORMED),
    ],
)
def test_parameters_are_checked(params: dict[str, Any], code: str) -> None:
    assert refusal(signed(**params)) == code


def test_host_must_agree_with_the_signed_url() -> None:
    assert verify({**signed(), "Host": "BUYER.example.com.:443"})
    assert refusal({**signed(), "Host": "other.example.com"}) == codes.TARGET_URI_MALFORMED


def test_an_unsigned_request_is_refused() -> None:
    assert refusal({"Content-Type": "application/json"}) == codes.HEADER_MALFORMED
    assert refusal({**signed(), "Signature": ""}) == codes.HEADER_MALFORMED


def test_the_nonce_is_burnt_before_the_body_is_read() -> None:
    body = b'{"a":1,"a":2}'
    burnt: list[str] = []

    def remember(keyid: str, nonce: str, seconds: int) -> bool:
        burnt.append(nonce)
        return True

    with pytest.raises(SignatureError) as refused:
        rfc9421.verify(
            "POST",
            URL,
            signed(body=body),
            body,
            find_key=lambda keyid: JWK,
            check_revoked=lambda keyid: None,
            replay=rfc9421.ReplayGuard(
                is_full=lambda keyid: False, is_known=lambda keyid, nonce: False, remember=remember
            ),
            now=NOW,
        )
    assert refused.value.code == codes.BODY_MALFORMED
    assert len(burnt) == 1


def test_the_slower_of_two_deliveries_is_a_replay() -> None:
    with pytest.raises(SignatureError) as refused:
        rfc9421.verify(
            "POST",
            URL,
            signed(),
            BODY,
            find_key=lambda keyid: JWK,
            check_revoked=lambda keyid: None,
            replay=rfc9421.ReplayGuard(
                is_full=lambda keyid: False,
                is_known=lambda keyid, nonce: False,
                remember=lambda keyid, nonce, seconds: False,
            ),
            now=NOW,
        )
    assert refused.value.code == codes.REPLAYED


headerish = st.text(alphabet='abksig1=();"\\:,. \t?@-_*/+0123456789éß\x00', max_size=60) | st.text(
    max_size=40
)


@given(headerish)
def test_any_header_is_read_or_refused(text: str) -> None:
    for parse in (parse_signature_input, parse_byte_dictionary):
        with suppress(FieldError):
            assert parse(text)


@given(headerish, headerish, headerish, st.binary(max_size=20))
def test_any_request_is_refused_with_a_code(inputs: str, signature: str, digest: str, body: bytes) -> None:
    headers = {
        "Signature-Input": inputs,
        "Signature": signature,
        "Content-Digest": digest,
        "Content-Type": "x",
    }
    assert refusal(headers, body=body).startswith("webhook_")


@given(st.binary(max_size=64))
def test_base64_round_trips_and_has_one_spelling(raw: bytes) -> None:
    assert decode_base64url(b64url(raw)) == raw
    assert decode_either_base64(base64.b64encode(raw).decode()) == raw
    assert decode_either_base64(b64url(raw)) == raw


@pytest.mark.parametrize("encoded", ["QQ==", "Q", "QR", "+A", "A/", "A B"])
def test_other_spellings_are_refused(encoded: str) -> None:
    with pytest.raises(FieldError):
        decode_base64url(encoded)


@given(st.text(max_size=40))
def test_any_url_has_a_canonical_form_or_none(text: str) -> None:
    for url in (text, f"https://{text}", f"https://buyer.example.com/{text}"):
        try:
            canonical = canonical_uri(url)
        except UrlError:
            continue
        assert canonical_uri(canonical) == canonical


def test_canonical_urls() -> None:
    assert canonical_uri("HTTPS://User@Buyer.Example.COM:443/a/../b//%7ec%2f?x=%2a&y=+#f") == (
        "https://buyer.example.com/b//~c%2F?x=%2A&y=+"
    )
    assert canonical_uri("https://buyer.example.com") == "https://buyer.example.com/"
    assert canonical_uri("https://buyer.example.com/p?") == "https://buyer.example.com/p?"
    assert canonical_authority("bücher.example.") == "xn--bcher-kva.example"
    assert canonical_authority("[2001:DB8::0001]:8443") == "[2001:db8::1]:8443"
    for wrong in ("", ":443", "a..b", "[::1", "fe80::1", "[fe80::1%25eth0]", "host:99999"):
        with pytest.raises(UrlError):
            canonical_authority(wrong)


NOW_AT = datetime(2026, 9, 1, 12, tzinfo=UTC)


def test_revocation_lists_have_their_grace() -> None:
    document = {
        "revoked_kids": ["old", 7],
        "updated": "2026-09-01T12:00:00Z",
        "next_update": "2026-09-01T12:15:00Z",
    }
    revocations = read_revocations(document, fetched_at=NOW_AT)
    assert revocations.revoked_kids == {"old"}
    assert revocations.good_until == NOW_AT + timedelta(minutes=75)
    check_revocation("k1", revocations, now=NOW_AT)
    check_revocation("k1", None, now=NOW_AT)
    for keyid, now, code in (
        ("old", NOW_AT, codes.KEY_REVOKED),
        ("k1", NOW_AT + timedelta(hours=2), codes.REVOCATION_STALE),
    ):
        with pytest.raises(SignatureError) as refused:
            check_revocation(keyid, revocations, now=now)
        assert refused.value.code == code
    endless = read_revocations({**document, "next_update": "2099-01-01T00:00:00Z"}, fetched_at=NOW_AT)
    assert endless.good_until <= NOW_AT + timedelta(hours=3)
    for broken in ({"next_update": None}, {"updated": "2026-09-01T13:00:00Z"}, {"revoked_kids": "all"}):
        with pytest.raises(KeysError):
            read_revocations({**document, **broken}, fetched_at=NOW_AT)


def test_an_agent_must_stand_in_brand_json_exactly_once() -> None:
    agent = {"url": "https://seller.example.com/mcp", "jwks_uri": "https://keys.example.com/jwks.json"}
    assert jwks_uri_in({"agents": [agent]}, agent["url"]) == agent["jwks_uri"]
    assert jwks_uri_in({"agents": [{"url": agent["url"]}]}, agent["url"]) == (
        "https://seller.example.com/.well-known/jwks.json"
    )
    for agents in ([], [agent, agent], "none", [7]):
        with pytest.raises(KeysError):
            jwks_uri_in({"agents": agents}, agent["url"])


def test_a_key_id_must_be_unique_in_its_set() -> None:
    assert find_jwk({"keys": [JWK]}, "k1") == JWK
    assert find_jwk({"keys": [JWK, JWK]}, "k1") is None
    assert find_jwk({"keys": "none"}, "k1") is None
    assert webhook_key(JWK).alg == "ed25519"


@given(st.dictionaries(st.text(max_size=24), st.text(max_size=80), max_size=4), st.binary(max_size=30))
def test_any_hmac_request_is_refused_with_a_code(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(SignatureError) as refused:
        hmac_sha256.verify(headers, body, secrets=["0123456789abcdef" * 2], now=NOW)
    assert refused.value.code.startswith("webhook_")


def test_hmac_needs_its_window() -> None:
    secret = "0123456789abcdef" * 2
    headers = hmac_sha256.sign(secret, NOW, BODY)
    hmac_sha256.verify(headers, BODY, secrets=[secret], now=NOW + 300)
    for now in (NOW + 301, NOW - 301):
        with pytest.raises(SignatureError) as refused:
            hmac_sha256.verify(headers, BODY, secrets=[secret], now=now)
        assert refused.value.code == codes.WINDOW_INVALID

"""AdCP's vectors for webhook signatures: the RFC 9421 profile and the older HMAC."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tasks_app.adcp.signatures import SignatureError, hmac_sha256, rfc9421
from tasks_app.adcp.signatures.jwks import find_jwk
from tasks_app.adcp.signatures.revocations import Revocations, check_revocation
from tasks_app.adcp.signatures.structured_fields import parse_signature_input
from tasks_app.adcp.strict_json import MalformedBody

from .vectors import bundled, load, load_folder

# The vectors beside the project, and those that the adcp wheel bundles, by version of the protocol.
SETS = {"": "", **bundled()}
KEYS = {name: load(f"{folder}webhook-signing/keys.json") for name, folder in SETS.items()}
POSITIVE = [
    (f"{name}{vector}", name, told)
    for name, folder in SETS.items()
    for vector, told in load_folder(f"{folder}webhook-signing/positive")
]
NEGATIVE = [
    (f"{name}{vector}", name, told)
    for name, folder in SETS.items()
    for vector, told in load_folder(f"{folder}webhook-signing/negative")
]
HMAC = load("webhook-hmac-sha256.json")


class Receiver:
    """A verifier's memory in the state a vector asks for."""

    def __init__(self, name: str, vector: dict[str, Any]) -> None:
        state = vector.get("test_harness_state", {})
        self.now = float(vector["reference_now"])
        self.keys = {"keys": [key for key in KEYS[name]["keys"] if key["kid"] in vector["jwks_ref"]]}
        if "jwks_override" in vector:
            self.keys = {"keys": list(vector["jwks_override"].values())}
        now = datetime.fromtimestamp(self.now, UTC)
        stale = timedelta(seconds=state.get("revocation_list_stale_seconds", -60))
        self.revocations = Revocations(
            revoked_kids=frozenset(state.get("revoked_kids", ())),
            good_until=now - stale,
            next_at=now,
            updated=now,
        )
        self.full = {state.get("per_keyid_cap_filled_for")}
        self.seen: set[tuple[str, str]] = {
            (entry["keyid"], entry["nonce"]) for entry in state.get("replay_cache_entries", ())
        }

    def verify(self, request: dict[str, Any]) -> rfc9421.VerifiedSignature:
        return rfc9421.verify(
            request["method"],
            request["url"],
            request["headers"],
            request["body"].encode(),
            find_key=lambda keyid: find_jwk(self.keys, keyid),
            check_revoked=lambda keyid: check_revocation(
                keyid, self.revocations, now=datetime.fromtimestamp(self.now, UTC)
            ),
            replay=rfc9421.ReplayGuard(
                is_full=lambda keyid: keyid in self.full,
                is_known=lambda keyid, nonce: (keyid, nonce) in self.seen,
                remember=self._remember,
            ),
            now=self.now,
        )

    def _remember(self, keyid: str, nonce: str, seconds: int) -> bool:
        assert 0 < seconds <= 361
        self.seen.add((keyid, nonce))
        return True


@pytest.mark.parametrize(("name", "vector"), [one[1:] for one in POSITIVE], ids=[one[0] for one in POSITIVE])
def test_accepts(name: str, vector: dict[str, Any]) -> None:
    request = vector["request"]
    receiver = Receiver(name, vector)
    verified = receiver.verify(request)
    assert verified.keyid in vector["jwks_ref"]
    signed = next(iter(parse_signature_input(request["headers"]["Signature-Input"]).values()))
    lowered = {key.lower(): value for key, value in request["headers"].items()}
    base = rfc9421.signature_base(request["method"], request["url"], lowered, signed)
    assert base.decode() == vector["expected_signature_base"]


@pytest.mark.parametrize(("name", "vector"), [one[1:] for one in POSITIVE], ids=[one[0] for one in POSITIVE])
def test_accepts_only_once(name: str, vector: dict[str, Any]) -> None:
    receiver = Receiver(name, vector)
    receiver.verify(vector["request"])
    with pytest.raises(SignatureError) as refusal:
        receiver.verify(vector["request"])
    assert refusal.value.code == "webhook_signature_replayed"


@pytest.mark.parametrize(("name", "vector"), [one[1:] for one in NEGATIVE], ids=[one[0] for one in NEGATIVE])
def test_refuses(name: str, vector: dict[str, Any]) -> None:
    expected = vector["expected_outcome"]
    receiver = Receiver(name, vector)
    before = set(receiver.seen)
    with pytest.raises(SignatureError) as refusal:
        receiver.verify(vector["request"])
    assert refusal.value.code == expected["error_code"]
    assert refusal.value.step == expected["failed_step"]
    assert receiver.seen == before


@pytest.mark.parametrize("vector", HMAC["vectors"], ids=lambda vector: vector["id"])
def test_hmac_accepts(vector: dict[str, Any]) -> None:
    body = vector["raw_body"].encode()
    headers = {"X-AdCP-Signature": vector["expected_signature"], "X-AdCP-Timestamp": str(vector["timestamp"])}

    def check() -> None:
        hmac_sha256.verify(headers, body, secrets=[HMAC["secret"]], now=vector["timestamp"])

    if vector.get("expected_verifier_action") == "reject-malformed":
        with pytest.raises(SignatureError) as refusal:
            check()
        assert refusal.value.code == vector["rfc9421_error_code"]
        return
    check()
    assert hmac_sha256.sign(HMAC["secret"], vector["timestamp"], body) == headers


@pytest.mark.parametrize("vector", HMAC["rejection_vectors"], ids=lambda vector: vector["id"])
def test_hmac_refuses(vector: dict[str, Any]) -> None:
    headers = {"x-adcp-timestamp": str(vector["timestamp"])}
    if vector["signature"] is not None:
        headers["x-adcp-signature"] = vector["signature"]
    now = vector.get("current_time", vector["timestamp"] if isinstance(vector["timestamp"], int) else 0)
    with pytest.raises(SignatureError):
        hmac_sha256.verify(headers, vector["raw_body"].encode(), secrets=[HMAC["secret"]], now=now)


@pytest.mark.parametrize("vector", HMAC["secret_rejection_vectors"], ids=lambda vector: vector["description"])
def test_hmac_refuses_weak_secrets(vector: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="secret"):
        hmac_sha256.sign(vector["secret"], 1700000000, b"{}")


@pytest.mark.parametrize("vector", HMAC["signer_side"]["rejection_vectors"], ids=lambda vector: vector["id"])
def test_hmac_signer_refuses_repeated_keys(vector: dict[str, Any]) -> None:
    with pytest.raises(MalformedBody) as refusal:
        hmac_sha256.sign(HMAC["secret"], 1700000000, vector["signer_input_body"].encode())
    assert refusal.value.reason == "duplicate_key"


@pytest.mark.parametrize("vector", HMAC["signer_side"]["positive_vectors"], ids=lambda vector: vector["id"])
def test_hmac_signer_signs(vector: dict[str, Any]) -> None:
    body = vector["signer_input_body"].encode()
    hmac_sha256.verify(
        hmac_sha256.sign(HMAC["secret"], 1700000000, body), body, secrets=[HMAC["secret"]], now=1700000000
    )


def test_hmac_accepts_either_secret_while_one_is_rotated() -> None:
    old, new = "0123456789abcdef" * 2, "fedcba9876543210" * 2
    check: Callable[[list[str]], None] = lambda secrets: hmac_sha256.verify(  # noqa: E731
        hmac_sha256.sign(old, 1700000000, b"{}"), b"{}", secrets=secrets, now=1700000000
    )
    check([new, old])
    with pytest.raises(SignatureError):
        check([new])
    with pytest.raises(SignatureError):
        check([])

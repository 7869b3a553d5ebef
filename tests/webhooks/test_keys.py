"""RFC 9421: where a seller's keys come from, which are revoked, and how many signatures one may send."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.cache import cache

from tasks_app import clock
from tasks_app.notifications.models import Notification
from tasks_app.operations.models import OperationStatus as S
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.sellers.models import Seller
from tasks_app.webhooks import keys, nonces
from tasks_app.webhooks.models import SeenNonce, SellerKey, SellerRevocations
from tests.adcp.raw_server import RawServer, response, serve
from tests.factories import make_seller
from tests.operations.making import stand
from tests.webhooks.signing import jwks, payload, publishing, revocations, rfc
from tests.webhooks.taking import ADDRESS, take

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_process")]


@dataclass
class Publisher:
    """An operator's web site: `keys` and `revoked` are what it serves next (None: 404, "down": 503)."""

    server: RawServer
    keys: str = ""
    revoked: str | None = None

    def asked(self, path: str) -> int:
        return sum(request.path.endswith(path) for request in self.server.requests)


@pytest.fixture
def operator() -> Iterator[Publisher]:
    published: dict[str, Publisher] = {}

    def script(server: RawServer) -> Any:
        published["it"] = Publisher(server, keys=jwks("k1", "k2"))

        def answer(request: Any, connection: Any) -> None:
            it = published["it"]
            told = it.revoked if request.path.endswith("revocations.json") else it.keys
            if told == "down":
                connection.sendall(response("{}", status="503 Service Unavailable"))
            else:
                publishing(it.keys, it.revoked)(request, connection)

        return answer

    with serve(script):
        yield published["it"]


@pytest.fixture
def vasa(operator: Publisher) -> Seller:
    return make_seller("Vasa", webhook_mode="rfc9421", jwks_url=f"{operator.server.url}/jwks.json")


def send(seller: Seller, key_id: str = "k1", **params: Any) -> str:
    """One delivery of an unknown task: "early", or why it is refused."""
    body = payload(task_id="task-of-nobody")
    return take(seller, body, rfc(ADDRESS.format(seller.slug), body, key_id=key_id, **params)).word


@contextmanager
def later(**by: float) -> Iterator[None]:
    """As a process that has forgotten its cool-downs, so much later."""
    cache.clear()
    now = datetime.now(UTC) + timedelta(**by)
    with clock.injected(lambda: now):
        yield


def at(moment: datetime) -> dict[str, int]:
    """A signature made then."""
    return {"created": int(moment.timestamp()), "expires": int(moment.timestamp()) + 300}


# --- the list of revoked keys ---------------------------------------------------------------------


def test_without_a_list_no_key_is_revoked_and_it_is_asked_for_seldom(
    operator: Publisher, vasa: Seller
) -> None:
    assert [send(vasa) for _ in range(3)] == ["early"] * 3
    assert operator.asked("revocations.json") == 1
    assert SellerRevocations.objects.get(seller=vasa).good_until is None


def test_a_revoked_key_is_refused_and_another_is_not(operator: Publisher, vasa: Seller) -> None:
    """Vector 017, with the list fetched."""
    operator.revoked = revocations(operator.server.url, "k2")

    assert send(vasa, "k2") == "webhook_signature_key_revoked"
    assert send(vasa, "k1") == "early"
    assert operator.asked("revocations.json") == 1


def test_the_list_is_asked_again_when_it_is_due(operator: Publisher, vasa: Seller) -> None:
    operator.revoked = revocations(operator.server.url, lasts=timedelta(minutes=10))
    assert send(vasa, "k2") == "early"
    operator.revoked = revocations(operator.server.url, "k2", updated=clock.now())
    assert send(vasa, "k2") == "early", "not yet due"

    with later(minutes=11):
        assert send(vasa, "k2", **at(clock.now())) == "webhook_signature_key_revoked"
    assert operator.asked("revocations.json") == 2


def test_an_overdue_list_refuses_every_key(operator: Publisher, vasa: Seller) -> None:
    """Vector 019: within the grace of four intervals a list that cannot be had is relied on, then not."""
    operator.revoked = revocations(operator.server.url, lasts=timedelta(minutes=10))
    assert send(vasa) == "early"
    operator.revoked = "down"

    with later(minutes=45):
        assert send(vasa, **at(clock.now())) == "early"
    with later(minutes=51):
        assert send(vasa, **at(clock.now())) == "webhook_signature_revocation_stale"
        operator.revoked = revocations(operator.server.url, updated=clock.now())
        assert send(vasa, **at(clock.now())) == "webhook_signature_revocation_stale", "asked a moment ago"
        cache.clear()
        assert send(vasa, **at(clock.now())) == "early"


def test_a_list_that_may_exist_and_cannot_be_had_refuses(operator: Publisher, vasa: Seller) -> None:
    operator.revoked = "down"

    assert send(vasa) == "webhook_signature_revocation_stale"
    cache.clear()
    operator.revoked = None
    assert send(vasa) == "early"


def test_a_restart_and_a_vanished_list_bring_no_revoked_key_back(operator: Publisher, vasa: Seller) -> None:
    operator.revoked = revocations(operator.server.url, "k2")
    assert send(vasa, "k2") == "webhook_signature_key_revoked"
    operator.revoked = None
    cache.clear()

    assert send(vasa, "k2") == "webhook_signature_key_revoked"
    with later(minutes=40):
        assert send(vasa, "k2", **at(clock.now())) == "webhook_signature_key_revoked"
    with later(hours=4):
        assert send(vasa, "k1", **at(clock.now())) == "webhook_signature_revocation_stale"


@pytest.mark.parametrize("forged", ["older", "by the revoked key", "another issuer's", "another type"])
def test_a_list_that_proves_nothing_changes_nothing(operator: Publisher, vasa: Seller, forged: str) -> None:
    issuer, now = operator.server.url, clock.now()
    operator.revoked = revocations(issuer, "k2", lasts=timedelta(minutes=1))
    assert send(vasa, "k1") == "early"
    operator.revoked = {
        "older": revocations(issuer, updated=now - timedelta(hours=1), lasts=timedelta(hours=2)),
        "by the revoked key": revocations(issuer, kid="k2", updated=now + timedelta(seconds=30)),
        "another issuer's": revocations("https://elsewhere.example", updated=now + timedelta(seconds=30)),
        "another type": revocations(issuer, updated=now + timedelta(seconds=30), typ="JWT"),
    }[forged]

    with later(minutes=2):
        assert send(vasa, "k2", **at(clock.now())) == "webhook_signature_key_revoked"


# --- keys -----------------------------------------------------------------------------------------


def test_an_unknown_key_is_fetched_once_and_then_not_for_a_while(operator: Publisher, vasa: Seller) -> None:
    assert send(vasa) == "early"
    cache.delete(f"jwks-cool-down:{vasa.pk}:{vasa.jwks_url}")
    operator.keys = jwks("k1", "k3")

    assert send(vasa, "k3") == "early", "rotated in the midst of a task"
    assert send(vasa, "k4") == "webhook_signature_key_unknown"
    operator.keys = jwks("k4")
    assert send(vasa, "k4") == "webhook_signature_key_unknown", "within the cool-down"
    assert operator.asked("jwks.json") == 2
    cache.delete(f"jwks-cool-down:{vasa.pk}:{vasa.jwks_url}")
    assert send(vasa, "k4") == "early"
    assert operator.asked("jwks.json") == 3


def test_keys_where_it_no_longer_declares_them_prove_nothing(operator: Publisher, vasa: Seller) -> None:
    assert send(vasa) == "early"
    elsewhere, here = "https://keys.elsewhere.example", operator.server.url
    for origin, word in ((elsewhere, "webhook_signature_key_unknown"), (here, "early")):
        declared = {"identity": {"key_origins": {"webhook_signing": origin}}}
        Seller.objects.filter(pk=vasa.pk).update(capabilities=declared)
        assert send(vasa) == word


def test_known_keys_outlast_a_while_without_their_publisher(operator: Publisher, vasa: Seller) -> None:
    assert send(vasa) == "early"
    operator.keys = "down"
    for minutes, word in ((6, "early"), (29, "early")):
        now = datetime.now(UTC) + timedelta(minutes=minutes)
        cache.delete(f"jwks-cool-down:{vasa.pk}:{vasa.jwks_url}")
        with clock.injected(lambda now=now: now):  # type: ignore[misc]
            assert send(vasa, **at(now)) == word
    assert operator.asked("jwks.json") == 3


def test_a_key_for_another_purpose_is_refused(operator: Publisher, vasa: Seller) -> None:
    for wrong in ('"adcp_use": "governance-signing"', '"adcp_use": null'):
        cache.clear()
        operator.keys = jwks("k1").replace('"adcp_use": "request-signing"', wrong)
        assert send(vasa) == "webhook_signature_key_purpose_invalid"
    cache.clear()
    operator.keys = jwks("k1").replace('["verify"]', '["sign"]')
    assert send(vasa) == "webhook_signature_key_purpose_invalid"
    cache.clear()
    operator.keys = jwks("k1").replace("request-signing", "webhook-signing")
    assert send(vasa) == "early", "the older purpose still counts"


# --- nonces ---------------------------------------------------------------------------------------


def test_a_key_with_too_many_live_nonces_is_refused(vasa: Seller, settings: Any) -> None:
    """Vector 018, with the cap filled."""
    settings.WEBHOOK_NONCES_PER_KEY = 3

    assert [send(vasa) for _ in range(3)] == ["early"] * 3
    assert send(vasa) == "webhook_signature_rate_abuse"
    assert SeenNonce.objects.count() == 3, "refused before it was verified and kept"
    assert send(vasa, "k2") == "early", "the cap is each key's own"
    SeenNonce.objects.update(expires_at=clock.now() - timedelta(seconds=1))
    assert send(vasa) == "early"


def test_all_keys_together_have_a_cap_and_operators_are_told_of_either(vasa: Seller, settings: Any) -> None:
    settings.WEBHOOK_NONCES_IN_ALL = 4
    assert [send(vasa, key) for key in ("k1", "k1", "k2", "k2")] == ["early"] * 4
    cache.delete(nonces._ALL)  # a process that has not looked for a while

    assert send(vasa) == send(vasa, "k2") == "webhook_signature_rate_abuse"
    assert SeenNonce.objects.count() == 4, "none is forgotten for a new one"
    (alarm,) = Notification.objects.filter(kind="webhook_rate_abuse")
    assert (alarm.level, alarm.right, alarm.subject_id) == ("alarm", STEER_OPERATION, None)
    assert "all sellers together" in alarm.title

    SeenNonce.objects.update(expires_at=clock.now() - timedelta(seconds=1))
    cache.delete(nonces._ALL)
    settings.WEBHOOK_NONCES_PER_KEY = 1
    assert [send(vasa), send(vasa), send(vasa)] == ["early", *["webhook_signature_rate_abuse"] * 2]
    own = Notification.objects.filter(kind="webhook_rate_abuse").latest("id")
    assert (own.subject_id, "the key k1 of Vasa" in own.title) == (vasa.pk, True)


def test_operators_are_told_of_keys_that_were_never_seen_once(operator: Publisher, vasa: Seller) -> None:
    told = Notification.objects.filter(kind="webhook_new_key")
    assert send(vasa) == "early"
    assert not told.exists(), "its first key set is what it was registered with"

    operator.keys = jwks("k2", "k3", "k4")
    for _ in range(2):
        cache.clear()
        assert send(vasa, "k3") == "early"
    (note,) = told
    assert (note.level, note.right, note.subject_id) == ("warning", STEER_OPERATION, vasa.pk)
    assert "k3, k4." in note.body

    operator.keys = jwks("k1")
    cache.clear()
    assert send(vasa) == "early"
    assert told.count() == 1, "it was seen before"


def test_ever_new_keys_flood_nobody(vasa: Seller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_MOST_KEYS", 50)
    told = Notification.objects.filter(kind="webhook_new_key")
    for turn in range(9):
        keys._note_new(vasa, {"keys": [{"kid": f"k{turn}-{number}"} for number in range(20)]})
    assert SellerKey.objects.filter(seller=vasa).count() == 50
    assert told.count() == 3
    assert "nothing more is told today" in told.latest("id").body
    tomorrow = clock.now() + timedelta(days=1)
    monkeypatch.setattr(keys, "_MOST_KEYS", 60)
    with clock.injected(lambda: tomorrow):
        keys._note_new(vasa, {"keys": [{"kid": "of-the-next-day"}]})
    assert told.count() == 4


@pytest.mark.parametrize("hostile", ["nul-\x00", "\ud800", "k" * 4000])
def test_hostile_key_ids_do_no_harm(operator: Publisher, vasa: Seller, hostile: str) -> None:
    operator.keys = jwks("k1", hostile)
    assert send(vasa) == "early"


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ("401 Unauthorized", "early"),
        ("403 Forbidden", "early"),
        ("410 Gone", "early"),
        ("429 Too Many Requests", "webhook_signature_revocation_stale"),
        ("302 Found", "webhook_signature_revocation_stale"),
    ],
)
def test_what_a_server_without_a_list_may_say(status: str, word: str) -> None:
    """Agents that want a token answer 401 to whatever path they do not know."""

    def script(_server: RawServer) -> Any:
        def answer(request: Any, connection: Any) -> None:
            keys = request.path == "/jwks.json"
            connection.sendall(response(jwks("k1")) if keys else response("{}", status=status))

        return answer

    with serve(script) as server:
        seller = make_seller("Asks", webhook_mode="rfc9421", jwks_url=f"{server.url}/jwks.json")
        assert send(seller) == word


def test_a_wrong_token_is_told_as_such_though_the_seller_is_known(vasa: Seller) -> None:
    assert send(vasa) == "early"
    operation = stand(S.SUBMITTED, seller=vasa, task_id="task-1")
    body = payload(task_id="task-1", operation_id=str(operation.pk), token="x" * 43)

    told = take(vasa, body, rfc(ADDRESS.format(vasa.slug), body))
    assert (told.status, told.word) == (401, "webhook_token_mismatch")

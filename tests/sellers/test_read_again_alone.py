"""Reading a seller again saves what it said, and nothing of what people changed while it was asked."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from tasks_app.adcp.types import Capabilities
from tasks_app.sellers import services
from tasks_app.sellers.heard import quirk_forget, seller_learn
from tasks_app.sellers.models import Seller
from tests.factories import make_seller, make_user

pytestmark = pytest.mark.django_db
LEARNT, FORGOTTEN = "omit get_media_buys account", "send list_tasks account"


def test_what_people_change_while_a_seller_is_asked_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = make_seller(contact_email="before@norrland.example")
    now = {"active": False, "slots": 7, "contact_email": "after@norrland.example", "timing": {"jitter": 0.5}}

    async def discover(_: object) -> Capabilities:
        await sync_to_async(Seller.objects.filter(pk=asked.pk).update)(**now)
        return Capabilities(
            agent_name="A", version="3.2", supported_versions=("3.2",), tools=frozenset({"get_products"})
        )

    monkeypatch.setattr(services.client, "discover", discover)
    async_to_sync(services.seller_read_again)(seller=asked)

    stands = Seller.objects.get(pk=asked.pk)
    assert {name: getattr(stands, name) for name in now} == now
    assert stands.tools == ["get_products"]


def test_what_is_learnt_or_forgotten_of_it_while_it_is_asked_stays_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the same release; the calls go out with what was known before."""
    asked = make_seller(quirks=[FORGOTTEN], tools=["get_media_buys", "list_tasks"])

    def meanwhile() -> None:
        seller_learn(seller_id=asked.pk, learned=[LEARNT])
        quirk_forget(seller=asked, quirk=FORGOTTEN, actor=make_user("Ad Ops"))

    async def discover(endpoint: Any) -> Capabilities:
        await sync_to_async(meanwhile)()
        return Capabilities(
            agent_name="A",
            version=asked.adcp_version,
            supported_versions=("3.2",),
            tools=frozenset(asked.tools),
            quirks=endpoint.quirks,
        )

    monkeypatch.setattr(services.client, "discover", discover)
    async_to_sync(services.seller_read_again)(seller=asked)

    assert Seller.objects.get(pk=asked.pk).quirks == [LEARNT]

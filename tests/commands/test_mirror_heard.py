"""What a seller tells of its media buys is heard, whatever else of it is out of order, slow or unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from orders import mirror
from orders.mirror import mirrors_refresh_due
from orders.models import Deal, DealMirror
from tasks_app import clock
from tasks_app.operations.line import UnreadableError
from tasks_app.sellers.models import Seller
from tests.commands.test_reconcile_mirror import due
from tests.elapsing import elapsing
from tests.factories import make_seller
from tests.fake_seller.driver import FakeSeller
from tests.orders.live import booked

pytestmark = pytest.mark.deep

DELIVERY = "get_media_buy_delivery"


class Slow:
    """A seller each of whose answers takes so long, by the mirror's clock, of the limit of 60 s. It refuses a
    question about what is `unknown` to it; one about what it `hangs` at it never answers."""

    def __init__(
        self, patch: pytest.MonkeyPatch, *, takes_s: float, unknown: str = "", hangs: str = ""
    ) -> None:
        self._takes_s, self._unknown, self._hangs = takes_s, unknown, hangs
        self._now = 0.0
        self.asked: list[Collection[str]] = []
        self.hanging = 0
        patch.setattr(mirror, "time", SimpleNamespace(monotonic=lambda: self._now))
        patch.setattr(mirror, "_listed", self._listed)

    async def _listed(self, _line: Any, _account: Any, wanted: Collection[str]) -> tuple[dict[str, Any], str]:
        self.asked.append(wanted)
        self._now += self._takes_s
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # a limit that is over already ends it here
        if self._unknown in wanted:
            raise UnreadableError(f"{self._unknown}?", unknown_there=True, answered=True)
        if self._hangs in wanted:
            self._now += 60
            self.hanging += 1
            await asyncio.Event().wait()
        return {one: {"media_buy_id": one, "status": "active", "revision": 2} for one in wanted}, ""


@pytest.fixture
def minute(settings: Any) -> None:
    settings.MIRROR_LIMIT_S = 60


def live(count: int) -> list[Deal]:
    """So many media buys with one seller, mb-1 and on, all due."""
    seller = make_seller()
    deals = [booked(seller, media_buy_id=f"mb-{number}") for number in range(1, count + 1)]
    due(*deals)
    return deals


def read(deal: Deal) -> tuple[str, int, str]:
    """Where it stands, how often in a row it was not read, and why."""
    kept = DealMirror.objects.select_related("deal").get(pk=deal.pk)
    assert kept.lease_until is None, "whoever comes next may ask"
    return kept.deal.status, kept.failures, kept.unread


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [("http", {"status": 503}), ("drop", {}), ("error", {"code": "INVALID_REQUEST"}), ("hang", {})],
)
def test_a_delivery_tool_that_is_out_of_order_hides_no_media_buy(
    faulty: FakeSeller, seller: Seller, kind: str, parameters: dict[str, Any]
) -> None:
    """One has delivered, of which only the figures are missing; the other was cancelled there."""
    Seller.objects.update(tools=[*seller.tools, DELIVERY])
    done, gone = (booked(Seller.objects.get(), media_buy_id=one) for one in ("mb-1", "mb-2"))
    buys = [
        {"media_buy_id": "mb-1", "status": "completed", "revision": 2},
        {"media_buy_id": "mb-2", "status": "canceled", "revision": 2},
    ]
    faulty.fault("get_media_buys", "merge", 0, answer={"media_buys": buys})
    faulty.fault(DELIVERY, kind, 0, **parameters)
    over = elapsing(lambda: len(faulty.requests(DELIVERY))) if kind == "hang" else nullcontext()

    with clock.injected(lambda: gone.end_at):
        due(done, gone)
        with over:
            assert mirrors_refresh_due() == 2

    assert faulty.requests(DELIVERY)
    assert (read(done), read(gone)) == (("delivering", 0, ""), ("cancelled", 0, ""))
    assert DealMirror.objects.get(pk=done.pk).final is None


def test_what_is_told_beside_an_error_is_heard(faulty: FakeSeller, seller: Seller) -> None:
    """Of one an answer holds an error alone, for weeks: the other is mirrored, and it is said why."""
    told, untold = (booked(Seller.objects.get(), media_buy_id=one) for one in ("mb-1", "mb-2"))
    answer = {
        "media_buys": [{"media_buy_id": "mb-1", "status": "active", "revision": 2}],
        "errors": [{"code": "PLACE_TARGET_UNAVAILABLE", "message": "one place cannot be told of"}],
    }
    faulty.fault("get_media_buys", "merge", 0, answer=answer)

    due(told, untold)
    mirrors_refresh_due()

    assert read(told) == ("delivering", 0, "")
    status, failures, why = read(untold)
    assert (status, failures) == ("booked", 1)
    assert "one place cannot be told of" in why


@pytest.mark.usefixtures("committed_db", "minute")
def test_one_unknown_id_is_found_by_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    deals, slow = live(16), Slow(monkeypatch, takes_s=1, unknown="mb-11")

    assert mirrors_refresh_due() == 16

    assert len(slow.asked) == 1 + 2 * 4, "the question, and both halves of each that it spoils"
    told = {deal.media_buy_id: read(deal) for deal in deals}
    assert told.pop("mb-11") == ("booked", 1, "The seller did not tell of it")
    assert set(told.values()) == {("delivering", 0, "")}


@pytest.mark.usefixtures("committed_db", "minute")
def test_what_was_found_before_the_time_is_over_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eight the last spoils the question. The seller hangs at the third quarter, and nobody asks about the
    fourth, which is as due as it was."""
    deals, slow = live(8), Slow(monkeypatch, takes_s=1, unknown="mb-8", hangs="mb-5")

    with elapsing(lambda: slow.hanging):
        assert mirrors_refresh_due() == 6

    assert [len(wanted) for wanted in slow.asked] == [8, 4, 4, 2]
    late = "its answers took longer than 60 s"
    assert [read(deal) for deal in deals] == [
        *[("delivering", 0, "")] * 4,
        *[("booked", 1, late)] * 2,
        *[("booked", 0, "")] * 2,
    ]
    assert DealMirror.objects.filter(due_at__lte=clock.now()).count() == 2


@pytest.mark.usefixtures("committed_db", "minute")
def test_who_was_not_asked_about_is_not_said_to_have_been_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """One question for each: the seller's time is over after the second, and the third is asked next."""
    monkeypatch.setattr(mirror, "_IDS_AT_ONCE", 1)
    *_, third = live(3)
    slow = Slow(monkeypatch, takes_s=40)

    assert mirrors_refresh_due() == 2

    assert len(slow.asked) == 2
    assert read(third) == ("booked", 0, "")
    assert mirrors_refresh_due() == 1
    assert read(third) == ("delivering", 0, "")

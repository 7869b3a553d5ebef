"""What tests of events share: a subscriber that remembers, a relay's passes, deals that move to and fro."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection
from uuid import UUID

from orders.models import Deal, DealStatus
from tasks_app.events.bus import Event, Subscriber, subscribe, subscribers
from tasks_app.events.delivery import deliver_new
from tasks_app.events.held import deliver_held
from tasks_app.events.publishing import events_publish
from tasks_app.lifecycle.models import OutboxEvent
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.models import Operation
from tests.factories import make_deal, make_seller
from tests.lifecycle.entities import make_operation

Dedup = tuple[str, UUID, int]


class Recorder:
    """A subscriber that remembers what it took, in order, and fails where `fails` says so."""

    def __init__(self, name: str, types: Collection[str] = ("*",)) -> None:
        self.name = name
        self.took: list[Dedup] = []
        self.tried: list[Dedup] = []
        self.fails: Callable[[Event], bool] = lambda _event: False
        self._lock = threading.Lock()
        subscribe(name, types, self._handle)

    @property
    def subscriber(self) -> Subscriber:
        return next(one for one in subscribers() if one.name == self.name)

    def seqs(self, entity_id: UUID) -> list[int]:
        return [seq for _, pk, seq in self.took if pk == entity_id]

    def by_entity(self) -> dict[UUID, list[int]]:
        found: dict[UUID, list[int]] = defaultdict(list)
        for _, pk, seq in self.took:
            found[pk].append(seq)
        return dict(found)

    def _handle(self, event: Event) -> None:
        with self._lock:
            self.tried.append(event.dedup_id)
            if self.fails(event):
                raise ConnectionError("the other side is away")
            self.took.append(event.dedup_id)


def relay() -> None:
    """Publish everything committed, and deliver until nothing is new and nothing is due."""
    while events_publish():
        pass
    for one in subscribers():
        while deliver_held(one) or deliver_new(one):
            pass


def quoted(name: str = "One") -> Deal:
    """A deal: its first event is committed."""
    return make_deal(seller=make_seller(name))


def move(deal: Deal, times: int = 1) -> None:
    """Quoted to negotiating and back: as many events as one likes."""
    for _ in range(times):
        to = DealStatus.NEGOTIATING if deal.status == DealStatus.QUOTED else DealStatus.QUOTED
        transition(deal, to, actor="system", reason="A test")


def another() -> Operation:
    return make_operation("another")


def committed() -> set[Dedup]:
    return set(OutboxEvent.objects.values_list("entity_type", "entity_id", "seq"))

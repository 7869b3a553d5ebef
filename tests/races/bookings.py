"""A deal that was approved and is to be booked at a seller's process, and what must be true in the end."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from orders.models import Deal, DealStatus
from tasks_app.jobs.models import Job, JobStatus, Step, StepStatus
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import entity_models, verify_all
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.services import seller_add
from tests.factories import approve_deal, make_deal, make_line
from tests.fake_seller.driver import FakeSeller
from tests.jobs.cluster import LASTING

LEASES = {**LASTING, "FLIGHTDECK_POLL_SCALE": "0.01"}


@dataclass(frozen=True, kw_only=True)
class Booking:
    """One approved deal, its job, and the seller that is to be bought from."""

    deal: Deal
    job: Job
    seller: FakeSeller

    @property
    def purchase(self) -> Operation:
        return Operation.objects.get(task_type="create_media_buy", subject_id=self.deal.pk)

    def asked(self) -> int:
        """How often the seller was asked to sell."""
        return len(self.seller.requests("create_media_buy"))

    def settled_once(self) -> Operation:
        """Booked, exactly once at the seller and exactly once here, and the trail says so."""
        self.deal.refresh_from_db()
        self.job.refresh_from_db()
        purchase = self.purchase
        (bought,) = self.seller.books()
        assert (self.deal.status, self.deal.media_buy_id) == (DealStatus.BOOKED, bought["media_buy_id"])
        assert (self.job.status, self.job.error) == (JobStatus.COMPLETED, "")
        sent = [request["arguments"] for request in self.seller.requests("create_media_buy")]
        assert sent == [sent[0]] * len(sent), "not the same request and key"
        assert purchase.status == S.COMPLETED
        assert purchase.published_at is not None
        assert purchase.observations.filter(outcome="applied", status="completed").count() == 1
        for entity, to in ((purchase, S.COMPLETED), (self.deal, DealStatus.BOOKED), *self._steps()):
            assert _times(entity.pk, to) == 1, (entity, to)
        assert all(found.ok for kind in entity_models() for _, found in verify_all(kind))
        return purchase

    def _steps(self) -> list[tuple[Step, str]]:
        steps = list(self.job.steps.all())
        assert {step.status for step in steps} == {StepStatus.COMPLETED}
        return [(step, StepStatus.COMPLETED) for step in steps]


def booking(seller: FakeSeller, *, lines: int = 1) -> Booking:
    """Make the seller known, and a deal with it approved: nothing has been sent."""
    known, _ = seller_add(
        name="Faulty", url=seller.url, protocol="mcp", token=seller.token, allow_private=True
    )
    line = make_line(
        channel="display",
        product_id="fake-display",
        product_name="Fake Display",
        pricing_option_id="fake-cpm",
        rate=Decimal(10),
        budget=Decimal(5000),
        minimum=Decimal(100),
        units=Decimal(500_000),
        targeting={},
    )
    deal = make_deal(*[line] * lines, seller=known)
    approve_deal(deal)
    return Booking(deal=deal, job=Job.objects.get(recipe="book_deal"), seller=seller)


def _times(entity_id: object, to: str) -> int:
    return AuditEntry.objects.filter(entity_id=entity_id, to_status=to).count()

"""Deals: one media buy with one seller, a line per package."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from django.contrib.postgres.indexes import OpClass
from django.db import models
from django.db.models.functions import Upper
from django.utils import timezone
from django_fsm import transition

from tasks_app.ids import new_id
from tasks_app.lifecycle.models import Stateful
from tasks_app.lifecycle.status_field import StatusField
from tasks_app.operations.models import Operation
from tasks_app.people.models import Advertiser, Team
from tasks_app.people.roles import CANCEL_DEAL, DECIDE
from tasks_app.sellers.models import Account, Seller


class DealStatus(models.TextChoices):
    """Document 002, "BuyerDealStatus"."""

    QUOTED = "quoted"  # put forward, undecided
    NEGOTIATING = "negotiating"
    ACCEPTED = "accepted"  # approved by people
    BOOKING = "booking"  # the purchase is with the seller
    BOOKED = "booked"  # confirmed by the seller
    DELIVERING = "delivering"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    MAKEGOOD_PENDING = "makegood_pending"
    PARTIALLY_CANCELED = "partially_canceled"


S = DealStatus
UNDECIDED = (S.QUOTED, S.NEGOTIATING)
UNSETTLED = (S.QUOTED, S.NEGOTIATING, S.ACCEPTED, S.BOOKING)
LIVE = (S.BOOKED, S.DELIVERING, S.MAKEGOOD_PENDING, S.PARTIALLY_CANCELED)  # with the seller, and not over
CONFIRMED = (S.BOOKED, S.DELIVERING, S.COMPLETED, S.MAKEGOOD_PENDING, S.PARTIALLY_CANCELED)


class Deal(Stateful):
    """Our side of a media buy, beside a mirror of what the seller says of it."""

    entity = "deal"

    reference = models.CharField(max_length=20, unique=True, editable=False)
    status = StatusField(default=S.QUOTED, choices=S.choices, protected=True, editable=False)
    team = models.ForeignKey(Team, on_delete=models.PROTECT)
    advertiser = models.ForeignKey(Advertiser, on_delete=models.PROTECT)
    seller = models.ForeignKey(Seller, on_delete=models.PROTECT, related_name="deals")
    account = models.ForeignKey(Account, null=True, on_delete=models.PROTECT)
    # The campaign it was recommended for: an upper storey, so no foreign key.
    campaign_id = models.UUIDField(null=True, db_index=True)
    # The lost deal in whose place this one is: a corrected order, a copy, or its kept unclaimed media buy.
    follows = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="followers")
    requested_by = models.CharField(max_length=80)
    currency = models.CharField(max_length=3)
    # Flights are [start, end) in `zone`.
    start_at = models.DateTimeField()
    end_at = models.DateTimeField()
    zone = models.CharField(max_length=64)
    terms = models.JSONField(default=dict)  # as the seller stated them: hold, cancellation, forecast
    reasons = models.JSONField(default=dict)  # why it was put forward: matches by stated fact

    # The seller's own state, mirrored (never ours to move).
    media_buy_id = models.CharField(max_length=255, blank=True)
    media_buy_status = models.CharField(max_length=40, blank=True)
    revision = models.PositiveIntegerField(null=True)
    valid_actions = models.JSONField(default=list)
    confirmed_at = models.DateTimeField(null=True)
    creative_deadline = models.DateTimeField(null=True)
    confirmed_gross = models.DecimalField(max_digits=18, decimal_places=4, null=True)  # see orders/amounts.py
    as_of = models.DateTimeField(null=True)
    # Where the seller states other terms than people approved, until they decide (orders/terms/compare.py).
    differences = models.JSONField(default=list)
    differs = models.BooleanField(default=False)
    unapproved = models.BooleanField(default=False)  # adopted, and nobody has approved it yet
    # The transaction that inserted it; only that one may insert its lines (migrations/sql/deal_lines.sql).
    born_in = models.CharField(max_length=48, default="", editable=False)

    class Meta:
        ordering = ["-id"]
        permissions = [("cancel_deal", "May cancel a deal")]
        constraints = [
            models.UniqueConstraint(
                fields=["seller", "media_buy_id"],
                condition=~models.Q(media_buy_id=""),
                name="media_buy_once_per_seller",
            ),
            models.CheckConstraint(condition=models.Q(end_at__gt=models.F("start_at")), name="deal_flight"),
        ]
        indexes = [
            models.Index(
                fields=["start_at", "id"], name="deal_unsettled", condition=models.Q(status__in=UNSETTLED)
            ),
            models.Index(
                fields=["end_at", "id"], name="deal_booked", condition=models.Q(status__in=CONFIRMED)
            ),
            models.Index(fields=["-id"], name="deal_differs", condition=models.Q(differs=True)),
        ]

    def __str__(self) -> str:
        return self.reference

    @transition(field=status, source=S.QUOTED, target=S.NEGOTIATING)
    def negotiate(self) -> None:
        """The buyer opens negotiation."""

    @transition(field=status, source=S.NEGOTIATING, target=S.QUOTED)
    def requote(self) -> None:
        """A counter-offer came."""

    @transition(field=status, source=[S.QUOTED, S.NEGOTIATING], target=S.ACCEPTED, permission=DECIDE)
    def accept(self) -> None:
        """Terms accepted by people."""

    @transition(field=status, source=S.ACCEPTED, target=S.BOOKING)
    def book(self) -> None:
        """The purchase is being sent."""

    @transition(field=status, source=S.BOOKING, target=S.BOOKED)
    def confirm(self) -> None:
        """Confirmed by the seller."""

    @transition(
        field=status, source=[S.BOOKED, S.PARTIALLY_CANCELED, S.MAKEGOOD_PENDING], target=S.DELIVERING
    )
    def deliver(self) -> None:
        """Delivery runs."""

    @transition(field=status, source=[S.DELIVERING, S.MAKEGOOD_PENDING], target=S.COMPLETED)
    def complete(self) -> None:
        """Delivered."""

    @transition(
        field=status,
        source=[S.QUOTED, S.NEGOTIATING, S.BOOKING, S.DELIVERING, S.MAKEGOOD_PENDING],
        target=S.FAILED,
        permission=DECIDE,
    )
    def fail(self) -> None:
        """It cannot be had."""

    @transition(
        field=status,
        source=[
            S.QUOTED,
            S.NEGOTIATING,
            S.ACCEPTED,
            S.BOOKING,
            S.BOOKED,
            S.DELIVERING,
            S.PARTIALLY_CANCELED,
        ],
        target=S.CANCELLED,
        permission=lambda _deal, user: user.has_perm(DECIDE) or user.has_perm(CANCEL_DEAL),
    )
    def cancel(self) -> None:
        """Called off by either side."""

    @transition(field=status, source=[S.QUOTED, S.NEGOTIATING], target=S.EXPIRED)
    def expire(self) -> None:
        """Nobody decided in time."""

    @transition(field=status, source=S.DELIVERING, target=S.MAKEGOOD_PENDING)
    def ask_makegood(self) -> None:
        """Under-delivery; a makegood was asked for."""

    @transition(field=status, source=S.BOOKED, target=S.PARTIALLY_CANCELED)
    def cancel_part(self) -> None:
        """Some units cancelled."""


_Rest = ParamSpec("_Rest")
_Computed = TypeVar("_Computed")


def lines_read_once(
    compute: Callable[Concatenate[Deal, _Rest], _Computed],
) -> Callable[Concatenate[Deal, _Rest], _Computed]:
    """For what is computed from its first argument, a deal, and writes no line: until it is,
    `deal.lines.all()` is read once, however many rules ask it."""

    @wraps(compute)
    def computed(deal: Deal, /, *args: _Rest.args, **named: _Rest.kwargs) -> _Computed:
        if "lines" in getattr(deal, "_prefetched_objects_cache", {}):
            return compute(deal, *args, **named)
        models.prefetch_related_objects([deal], "lines")
        try:
            return compute(deal, *args, **named)
        finally:
            vars(deal).get("_prefetched_objects_cache", {}).pop("lines", None)

    return computed


class DealLine(models.Model):
    """One package: its approved terms, each with a twin that the seller confirmed (orders/terms/terms.py)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    deal = models.ForeignKey(Deal, on_delete=models.PROTECT, related_name="lines")
    position = models.PositiveSmallIntegerField()
    channel = models.CharField(max_length=40)
    product_id = models.CharField(max_length=255)
    product_name = models.CharField(max_length=255)
    pricing_option_id = models.CharField(max_length=255)
    pricing_model = models.CharField(max_length=20)  # the rate basis: cpm, cpp, cpcv, flat_rate, …
    is_fixed = models.BooleanField(default=True)  # a fixed rate; else `rate` is the floor we bid
    guaranteed = models.BooleanField(default=False)
    rate = models.DecimalField(max_digits=18, decimal_places=6, null=True)
    ceiling = models.DecimalField(max_digits=18, decimal_places=6, null=True)
    budget = models.DecimalField(max_digits=18, decimal_places=4)
    minimum = models.DecimalField(max_digits=18, decimal_places=4, null=True)
    units = models.DecimalField(max_digits=20, decimal_places=1, null=True)
    start_at = models.DateTimeField()
    end_at = models.DateTimeField()
    targeting = models.JSONField(default=dict)
    forecast = models.JSONField(default=dict)
    terms = models.JSONField(default=dict)
    paused = models.BooleanField(default=False)
    canceled = models.BooleanField(default=False)

    package_id = models.CharField(max_length=255, blank=True)
    confirmed_product_id = models.CharField(max_length=255, null=True)  # noqa: DJ001 (null: not stated)
    confirmed_pricing_option_id = models.CharField(max_length=255, null=True)  # noqa: DJ001
    confirmed_budget = models.DecimalField(max_digits=18, decimal_places=4, null=True)
    confirmed_rate = models.DecimalField(max_digits=18, decimal_places=6, null=True)
    confirmed_start_at = models.DateTimeField(null=True)
    confirmed_end_at = models.DateTimeField(null=True)
    confirmed_targeting = models.JSONField(null=True)
    confirmed_paused = models.BooleanField(null=True)
    confirmed_canceled = models.BooleanField(null=True)

    class Meta:
        ordering = ["deal", "position"]
        constraints = [
            models.UniqueConstraint(fields=["deal", "position"], name="line_position_once"),
            models.CheckConstraint(condition=models.Q(budget__gte=0), name="line_budget_not_negative"),
        ]
        indexes = [
            # Found by the seller's name for it (search.py).
            models.Index(fields=["package_id"], name="line_package", condition=~models.Q(package_id="")),
            models.Index(OpClass(Upper("product_name"), name="text_pattern_ops"), name="line_by_product"),
        ]

    def __str__(self) -> str:
        return self.product_name


class DealMirror(models.Model):
    """When a deal's media buy is read from the seller again, and how fresh what we know of it is.

    The mirrored columns themselves are the deal's. `asked_at` is our clock's moment at which the newest
    answer was asked for, `stated_at` the seller's own `status_as_of` in it: an older snapshot never
    overwrites a newer one.
    """

    deal = models.OneToOneField(Deal, primary_key=True, on_delete=models.PROTECT, related_name="mirror")
    due_at = models.DateTimeField(null=True)  # null: over, nothing more is asked
    lease_until = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0)
    unread = models.TextField(blank=True)  # why the latest reading told nothing
    # Moments and a revision that the seller states of the media buy and nobody can read, by their AdCP names,
    # as stated.
    as_stated = models.JSONField(default=dict)
    asked_at = models.DateTimeField(null=True)
    stated_at = models.DateTimeField(null=True)
    read_at = models.DateTimeField(null=True)
    # Readings in a row, asked for after the newest answer, that tell of a state before it: how many, when the
    # latest was asked for, and its revision.
    older_reads = models.PositiveSmallIntegerField(default=0)
    older_asked_at = models.DateTimeField(null=True)
    older_revision = models.PositiveIntegerField(null=True)
    restarted = models.TextField(blank=True)  # that its seller was believed to have begun anew, in words
    # Whether the seller calls its delivery figures final; null: not asked, or it does not say.
    final = models.BooleanField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["due_at"], name="mirror_due", condition=models.Q(due_at__isnull=False))
        ]

    def __str__(self) -> str:
        return f"{self.deal_id} due {self.due_at}"


class Change(models.Model):
    """A change of a media buy, open from when somebody asks for it until its outcome is known.

    A deal has at most one open change of its terms. A pause or a cancellation of the whole media buy may be
    open beside it.
    """

    class Kind(models.TextChoices):
        """What it changes."""

        TERMS = "terms", "Terms"
        PAUSE = "pause", "Pause of the whole media buy"
        CANCELLATION = "cancellation", "Cancellation of the whole media buy"

    class Outcome(models.TextChoices):
        """How it ended."""

        MADE = "made", "Made"  # the seller shows it
        NOT_SHOWN = "not_shown", "Not shown"  # the seller shows something else: people are asked
        REFUSED = "refused", "Refused by the seller"
        WITHDRAWN = "withdrawn", "Withdrawn"  # never sent, or its deal ended

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    deal = models.ForeignKey(Deal, on_delete=models.PROTECT, related_name="changes")
    operation = models.OneToOneField(Operation, on_delete=models.PROTECT, related_name="change")
    kind = models.CharField(max_length=20, choices=Kind.choices)
    # How much more than the deal commits now it would commit, in the deal's currency, 0 for less.
    reserved = models.DecimalField(max_digits=18, decimal_places=4, default=0)
    opened_at = models.DateTimeField(default=timezone.now, editable=False)
    closed_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=20, choices=Outcome.choices, blank=True)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["deal", "kind"],
                condition=models.Q(closed_at__isnull=True),
                name="one_open_change_per_deal",
            ),
            models.CheckConstraint(condition=models.Q(reserved__gte=0), name="reserved_not_negative"),
            models.CheckConstraint(
                condition=models.Q(closed_at__isnull=True, outcome="")
                | (models.Q(closed_at__isnull=False) & ~models.Q(outcome="")),
                name="closed_change_has_outcome",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.deal_id}"


class UnclaimedBuy(models.Model):
    """A media buy that was made for a deal and that no live, approved deal holds.

    People keep it as a deal or have it cancelled. While it is open, it commits its amount to the deal's
    campaign.
    """

    class Source(models.TextChoices):
        """How Flightdeck learnt of it."""

        LATE = "late", "The purchase was completed late"
        SECOND = "second", "The seller named a second media buy for the purchase"
        LISTED = "listed", "The seller lists it"

    class Outcome(models.TextChoices):
        """How it ended."""

        KEPT = "kept", "Kept as a deal"
        CANCELLED = "cancelled", "Cancelled at the seller"
        HELD = "held", "Held by another deal"
        DROPPED = "dropped", "Not kept, and nothing could be cancelled"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    deal = models.ForeignKey(Deal, on_delete=models.PROTECT, related_name="unclaimed_buys")
    media_buy_id = models.CharField(max_length=255, blank=True)  # empty: the seller has named none
    source = models.CharField(max_length=20, choices=Source.choices)
    record = models.JSONField()  # as the seller stated it last
    # What it comes to, in the deal's currency: as the seller states it, or as ordered if that is unreadable.
    amount = models.DecimalField(max_digits=18, decimal_places=4)
    # What asks the seller to cancel it; null while people decide, also after the seller did not cancel it.
    cancellation = models.ForeignKey(Operation, null=True, on_delete=models.PROTECT, related_name="+")
    not_cancelled = models.TextField(blank=True)  # what the seller answered to the latest cancellation
    opened_at = models.DateTimeField(default=timezone.now, editable=False)
    closed_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=20, choices=Outcome.choices, blank=True)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["deal", "media_buy_id"],
                condition=models.Q(closed_at__isnull=True),
                name="one_open_unclaimed_buy",
            ),
            models.CheckConstraint(condition=models.Q(amount__gte=0), name="unclaimed_not_negative"),
            models.CheckConstraint(
                condition=models.Q(closed_at__isnull=True, outcome="")
                | (models.Q(closed_at__isnull=False) & ~models.Q(outcome="")),
                name="closed_unclaimed_has_outcome",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.media_buy_id or 'unnamed'} for {self.deal_id}"


class RequestKey(models.Model):
    """An integrator's Idempotency-Key: the same key with the same body means the same operation, for good.

    A purchase's own purpose names its deal (one purchase per deal), so the caller's key stands here.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    actor = models.CharField(max_length=80)
    key = models.CharField(max_length=255)
    digest = models.CharField(max_length=64)  # SHA-256 (hex) of the body
    operation = models.ForeignKey(Operation, on_delete=models.PROTECT, related_name="request_keys")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["actor", "key"], name="request_key_once_per_caller")]

    def __str__(self) -> str:
        return self.key

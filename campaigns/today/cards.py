"""Cards of what waits, what is out with sellers and what went wrong: the latest and most urgent, bounded."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from django.urls import reverse

from campaigns.models import ENDED, Campaign, CampaignStatus
from orders.amounts import approved, gross
from orders.models import Deal
from tasks_app import clock, ids
from tasks_app.approvals.models import Decision
from tasks_app.approvals.spending import Stake, stake_of
from tasks_app.approvals.waiting import Waiting, waiting_for
from tasks_app.desk import text
from tasks_app.desk.items import Item, lowered
from tasks_app.jobs.models import Job, JobStatus
from tasks_app.lifecycle.names import link_to
from tasks_app.operations.answer_stages import Answer, answers_of
from tasks_app.operations.models import READS, Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.operations.selectors import conflicts_of, operations_of, operations_open
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tasks_app.people.scope import visible

SHOWN, MOST = 6, 100
READ = MOST + 1  # one more tells that there are more
_RECENT = timedelta(days=7)
_CAMPAIGNS_OF = timedelta(days=400)  # bounds the search: older campaigns have ended
_JOBS_OF = timedelta(days=37)  # a job that failed in the last week was begun since
_NOTE = 160
_FAILED_WORDS = {CampaignStatus.FAILED: "failed", CampaignStatus.VALIDATION_FAILED: "its brief is not valid"}
_FLYING = (
    "reference",
    "status",
    "status_since",
    "created_at",
    "task_type",
    "subject_type",
    "subject_id",
    "sent_at",
    "deadline_at",
    "message",
    "seller__name",
)


@dataclass(frozen=True, kw_only=True)
class Flying:
    """One operation out with a seller."""

    operation: Operation
    what: str
    age: text.Age
    link: str


@dataclass(frozen=True, kw_only=True)
class Out:
    """A deal of which something is out with its seller."""

    name: str
    currency: str
    gross: Decimal


@dataclass(frozen=True, kw_only=True)
class Departure:
    """A deal booked otherwise than approved: both totals, and which fields differ. `approved`: None where
    nobody has approved it yet."""

    deal: Deal
    link: str
    fields: str
    approved: Decimal | None
    confirmed: Decimal


def many(count: int) -> str:
    """How many of something were read; 100+ of more than that."""
    return f"{MOST}+" if count > MOST else str(count)


def others_waiting(who: User) -> list[Waiting]:
    """What is no approval and waits on the viewer: what the queue shows under Mine."""
    return waiting_for(who, mine=True, limit=READ)


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A person's decision, and the money of what they decided about."""

    decision: Decision
    stake: Stake


def decisions_latest(who: User) -> list[Decided]:
    """The latest decisions of people, newest first."""
    rows = visible(Decision.objects.all(), who, team="approval__team").select_related("approval")
    latest = rows.order_by("-pk")[:SHOWN]
    return [Decided(decision=one, stake=stake_of(one.approval)) for one in latest]


def campaigns_of(who: User) -> list[Campaign]:
    """The viewer's campaigns that have not ended, the latest first."""
    rows = visible(Campaign.objects.exclude(status__in=ENDED), who).order_by("-pk")
    mine = rows.filter(requested_by=actor_key(who))
    return list(mine.select_related("advertiser").defer("brief", "outcome")[:SHOWN])


def in_flight(who: User) -> list[Operation]:
    """What is out with sellers and changes something; the earliest deadline first. With what cards say alone:
    an operation has fifty columns."""
    rows = operations_open(who).exclude(status=O.REQUESTED).exclude(task_type__in=READS)
    return list(rows.defer(None).only(*_FLYING)[:READ])


def flying_rows(operations: Sequence[Operation]) -> list[Flying]:
    """As lines of the card."""
    return [
        Flying(
            operation=operation,
            what=f"{operation.seller}, {operation.task_type}",
            age=text.time_used(operation.sent_at or operation.created_at, operation.deadline_at),
            link=link_to(Operation, operation.pk),
        )
        for operation in operations[:SHOWN]
    ]


def deals_out(who: User, operations: Iterable[Operation]) -> dict[uuid.UUID, Out]:
    """The deals of those operations, in one query."""
    wanted = {o.subject_id for o in operations if o.subject_type == "deal" and o.subject_id}
    if not wanted:
        return {}
    rows = visible(Deal.objects.filter(pk__in=wanted), who).annotate(gross=gross())
    found = rows.values_list("pk", "reference", "advertiser__name", "currency", "gross")
    return {
        pk: Out(name=f"{advertiser}, {reference}", currency=currency, gross=amount)
        for pk, reference, advertiser, currency, amount in found
    }


def departures(who: User) -> list[Departure]:
    """Deals that sellers booked otherwise than approved, until a person has decided; in one query."""
    rows = visible(Deal.objects.filter(differs=True), who).order_by("-pk").annotate(approved=approved())
    deals = rows.only(
        "reference",
        "currency",
        "confirmed_gross",
        "differences",
        "unapproved",
        "seller__name",
        "advertiser__name",
    )
    return [
        Departure(
            deal=deal,
            link=link_to(Deal, deal.pk),
            fields=_fields(deal),
            approved=None if deal.unapproved else deal.approved,
            confirmed=deal.approved if deal.confirmed_gross is None else deal.confirmed_gross,
        )
        for deal in deals.select_related("seller", "advertiser")[:READ]
    ]


def _fields(deal: Deal) -> str:
    return ", ".join(dict.fromkeys(str(d.get("field")) for d in deal.differences if isinstance(d, dict)))


def attention(
    who: User,
    flying: Sequence[Operation],
    out: Mapping[uuid.UUID, Out],
    differing: Sequence[Departure],
) -> list[Item]:
    """Return what needs attention, the worst first: the viewer's failed campaigns, late answers, conflicts,
    what sellers ask, differences, failed jobs."""
    names = {pk: one.name for pk, one in out.items()}
    found = _failed_campaigns(who)
    found += [_late(o, names) for o in flying if o.status == O.TIMED_OUT]
    found += _conflicts(who)
    found += _paused(who, flying, names)
    found += [_departure(one) for one in differing]
    return found + _failed_jobs(who)


def _failed_campaigns(who: User) -> list[Item]:
    """Return the viewer's own campaigns that failed, or whose brief is not valid, within the last week."""
    failed = Campaign.objects.filter(
        pk__gte=ids.first_id_at(clock.now() - _CAMPAIGNS_OF),
        requested_by=actor_key(who),
        status__in=_FAILED_WORDS,
        status_since__gte=clock.now() - _RECENT,
    )
    return [
        Item(
            glyph="failed",
            text=f"{one.name}: {_FAILED_WORDS[one.status]}",
            note=f"{one.reference}, since {text.moment_short(one.status_since)}{_first_problem(one)}"[:_NOTE],
            link=link_to(Campaign, one.pk),
        )
        for one in visible(failed, who).defer("brief", "outcome").order_by("-status_since")[:READ]
    ]


def _first_problem(campaign: Campaign) -> str:
    first = next(iter(campaign.problems), None)
    return f". {first['field']}: {first['problem']}" if first else ""


def _about(operation: Operation, names: dict[uuid.UUID, str]) -> str:
    return (names.get(operation.subject_id) if operation.subject_id else None) or operation.reference


def _late(operation: Operation, names: dict[uuid.UUID, str]) -> Item:
    over = text.duration(clock.now() - operation.deadline_at) if operation.deadline_at else ""
    return Item(
        glyph="overdue",
        text=f"{operation.seller} has not answered",
        link=link_to(Operation, operation.pk),
        note=f"{_about(operation, names)}, {over} past its deadline",
    )


def _conflicts(who: User) -> list[Item]:
    rows = conflicts_of(who).filter(resolved_at__isnull=True).defer("first", "second").order_by("-pk")
    return [
        Item(
            glyph="conflict",
            text=f"{one.operation.seller} contradicts itself",
            link=reverse("admin:tasks_app_conflict_change", args=[one.pk]),
            note=f"{one.reference}, {one.operation.reference}, since {text.moment_short(one.at)}",
        )
        for one in rows[:READ]
    ]


def _paused(who: User, flying: Sequence[Operation], names: dict[uuid.UUID, str]) -> list[Item]:
    """What a seller asks and nobody has answered, and answers that people have to look after."""
    paused = {o.pk: o for o in flying if o.status in (O.AUTH_REQUIRED, O.INPUT_REQUIRED)}
    rows = operations_of(who).filter(pk__in=paused) if paused else ()
    answers = answers_of(rows)
    told = {pk: answers.of(operation) for pk, operation in paused.items()}
    unanswered = [_asked(one, names) for pk, one in paused.items() if told[pk] is None]
    return unanswered + [
        _answered(paused[pk], answer, names) for pk, answer in told.items() if answer and answer.wanted
    ]


def _answered(operation: Operation, answer: Answer, names: dict[uuid.UUID, str]) -> Item:
    return Item(
        glyph="person",
        text=f"{operation.seller}: {lowered(answer.wanted)}",
        link=link_to(Operation, operation.pk),
        note=f"{_about(operation, names)}. {answer.sentence}"[:_NOTE],
    )


def _asked(operation: Operation, names: dict[uuid.UUID, str]) -> Item:
    wants = "wants other credentials" if operation.status == O.AUTH_REQUIRED else "asks something"
    since = text.moment_short(operation.status_since)
    said = f": {operation.message}" if operation.message else ""
    return Item(
        glyph="person",
        text=f"{operation.seller} {wants}",
        link=link_to(Operation, operation.pk),
        note=f"{_about(operation, names)}, since {since}{said}"[:_NOTE],
    )


def _departure(one: Departure) -> Item:
    return Item(
        glyph="differs",
        text=f"{one.deal.seller} booked differently",
        note=f"{one.deal.advertiser}, {one.deal.reference}: {one.fields}",
        link=one.link,
    )


def _failed_jobs(who: User) -> list[Item]:
    since = clock.now() - _RECENT
    rows = visible(Job.objects.filter(status=JobStatus.FAILED, parent_step=None), who)
    rows = rows.filter(pk__gte=ids.first_id_at(clock.now() - _JOBS_OF), ended_at__gte=since)
    return [
        Item(
            glyph="failed",
            text=f"{job.reference} failed",
            note=(job.error or job.recipe)[:_NOTE],
            link=link_to(Job, job.pk),
        )
        for job in rows.defer("plan", "inputs", "outputs").order_by("-pk")[:READ]
    ]

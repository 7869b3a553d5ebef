"""Today: what waits for the viewer, what is out with sellers, what needs attention, what is committed."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Count, F, QuerySet, Sum, Value
from django.http import HttpRequest
from django.urls import reverse

from campaigns.commitments import Money, money_of
from campaigns.models import Campaign, CampaignStatus
from campaigns.track import seller_lines
from orders.models import Deal, DealLine
from tasks_app import clock
from tasks_app.approvals import around, presenters, selectors
from tasks_app.desk import text
from tasks_app.desk.items import Item
from tasks_app.desk.page import viewer
from tasks_app.jobs.models import Job, JobStatus
from tasks_app.operations.models import PENDING, READS, Observation, Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.operations.selectors import conflicts_of
from tasks_app.people.models import User
from tasks_app.people.scope import visible

_SHOWN, _MOST = 6, 200
_RECENT = timedelta(days=7)
_IN_FLIGHT = (O.CALLING_ADCP, *PENDING, O.TIMED_OUT)
_ENDED = (CampaignStatus.FAILED, CampaignStatus.VALIDATION_FAILED)


@dataclass(frozen=True, kw_only=True)
class Flying:
    """One operation out with a seller."""

    operation: Operation
    what: str
    age: text.Age
    link: str


@dataclass(frozen=True, kw_only=True)
class Commitment:
    """One campaign's bar: shares of its budget in percent, and the same in words."""

    name: str
    link: str
    parts: tuple[tuple[str, float], ...]
    label: str
    percent: int
    taken: Decimal
    budget: Decimal
    currency: str


def badges(request: HttpRequest) -> dict[str, tuple[int, str]]:
    """Model label to what waits there and the pill's colour, for the rail."""
    who = viewer(request)
    if not who.has_perm("tasks_app.view_approval"):
        return {}
    waiting = {
        "tasks_app.approval": (selectors.approvals_waiting_for(who), "primary"),
        "tasks_app.operation": (_operations(who).filter(status=O.TIMED_OUT), "warning"),
        "tasks_app.conflict": (conflicts_of(who).filter(resolved_at__isnull=True), "danger"),
    }
    first, *others = (_counted(label, rows) for label, (rows, _) in waiting.items())
    return {label: (count, waiting[label][1]) for label, count in first.union(*others, all=True)}


def _counted(label: str, rows: QuerySet[Any]) -> QuerySet[Any, Any]:
    """(label, how many), or nothing where there are none: one query counts them all, as every page does."""
    counted = rows.order_by().annotate(label=Value(label)).values("label").annotate(count=Count("pk"))
    return counted.values_list("label", "count")


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """unfold's DASHBOARD_CALLBACK: what templates/admin/index.html is given."""
    who = viewer(request)
    if not who.has_perm("tasks_app.view_approval"):
        return context | {"title": "Today", "no_role": True}
    approvals = list(selectors.approvals_waiting_for(who)[:_MOST])
    queue = presenters.rows(approvals, around.places_of(approvals, who))
    flying = list(_operations(who).filter(status__in=_IN_FLIGHT).exclude(task_type__in=READS))
    attention = _attention(who, flying)
    commitments = _commitments(who)
    return context | {
        "title": "Today",
        "decides": selectors.may_decide(who),
        "lead": _lead(approvals),
        "count": len(approvals),
        "queue": queue[:_SHOWN],
        "stake": presenters.currencies_of(queue),
        "oldest": min((a.created_at for a in approvals), default=None),
        "flying": [_flying(operation) for operation in flying[:_SHOWN]],
        "flying_count": len(flying),
        "flying_money": _money_out(flying),
        "flying_oldest": min((o.sent_at for o in flying if o.sent_at), default=None),
        "attention": attention[:_SHOWN],
        "attention_count": len(attention),
        "budgets": commitments[: _SHOWN + 2],
        "committed": _committed(commitments),
        "sellers": seller_lines(who),
    }


def _operations(who: User) -> Any:
    rows = (
        visible(Operation.objects.all(), who)
        .select_related("seller")
        .order_by(F("deadline_at").asc(nulls_last=True), "id")
    )
    return rows.defer(
        "request_text",
        "webhook_token",
        "request",
        "result",
        "seller__token",
        "seller__webhook_secret",
        "seller__capabilities",
    )


def _lead(approvals: list[Any]) -> str:
    if not approvals:
        return "No decision waits for you."
    verb = "decision waits" if len(approvals) == 1 else "decisions wait"
    return f"{len(approvals)} {verb} for you. The next is due {text.moment_short(approvals[0].due_at)}."


def _flying(operation: Operation) -> Flying:
    return Flying(
        operation=operation,
        what=f"{operation.seller}, {operation.task_type}",
        age=text.time_used(operation.sent_at or operation.created_at, operation.deadline_at),
        link=_link(operation),
    )


def _money_out(operations: Iterable[Operation]) -> list[tuple[str, Decimal]]:
    deals = {o.subject_id for o in operations if o.subject_type == "deal" and o.subject_id}
    sums = DealLine.objects.filter(deal__in=deals).values("deal__currency").annotate(gross=Sum("budget"))
    return text.amounts((row["deal__currency"], row["gross"]) for row in sums) if deals else []


def _attention(who: User, flying: list[Operation]) -> list[Item]:
    """Overdue, contradictions, what a seller wants of us, departures, failed jobs; the worst first."""
    since = clock.now() - _RECENT
    names = _deal_names(who, flying)
    found = [_late(o, names) for o in flying if o.status == O.TIMED_OUT]
    found += [_conflict(seen) for seen in _conflicts(who, since)]
    found += [_asked(o, names) for o in flying if o.status in (O.AUTH_REQUIRED, O.INPUT_REQUIRED)]
    differing = visible(Deal.objects.filter(differs=True), who).select_related("seller", "advertiser")
    found += [_departure(deal) for deal in differing.defer("seller__token", "seller__webhook_secret")[:20]]
    failed = visible(Job.objects.filter(status=JobStatus.FAILED, ended_at__gte=since, parent_step=None), who)
    found += [_failed(job) for job in failed.order_by("-ended_at")[:20]]
    return found


def _conflicts(who: User, since: Any) -> Any:
    seen = visible(Observation.objects.all(), who, team="operation__team").filter(
        outcome=Observation.Outcome.CONFLICT, at__gte=since
    )
    return (
        seen.select_related("operation__seller")
        .order_by("-id")
        .defer(
            "body",
            "operation__request_text",
            "operation__webhook_token",
            "operation__seller__token",
            "operation__seller__webhook_secret",
        )[:20]
    )


def _deal_names(who: User, operations: Iterable[Operation]) -> dict[uuid.UUID, str]:
    wanted = {o.subject_id for o in operations if o.subject_type == "deal" and o.subject_id}
    if not wanted:
        return {}
    deals = visible(Deal.objects.filter(pk__in=wanted), who).values_list(
        "pk", "reference", "advertiser__name"
    )
    return {pk: f"{advertiser}, {reference}" for pk, reference, advertiser in deals}


def _about(operation: Operation, names: dict[uuid.UUID, str]) -> str:
    return (names.get(operation.subject_id) if operation.subject_id else None) or operation.reference


def _late(operation: Operation, names: dict[uuid.UUID, str]) -> Item:
    over = text.duration(clock.now() - operation.deadline_at) if operation.deadline_at else ""
    return Item(
        glyph="overdue",
        text=f"{operation.seller} has not answered",
        link=_link(operation),
        note=f"{_about(operation, names)}, {over} past its deadline",
    )


def _conflict(seen: Observation) -> Item:
    return Item(
        glyph="differs",
        text=f"{seen.operation.seller} contradicts itself",
        link=_link(seen.operation),
        note=f"{seen.operation.reference}, {seen.operation.task_type}: {seen.note}"[:160],
    )


def _asked(operation: Operation, names: dict[uuid.UUID, str]) -> Item:
    wants = "wants other credentials" if operation.status == O.AUTH_REQUIRED else "asks something"
    since = text.moment_short(operation.status_since)
    said = f": {operation.message}" if operation.message else ""
    return Item(
        glyph="person",
        text=f"{operation.seller} {wants}",
        link=_link(operation),
        note=f"{_about(operation, names)}, since {since}{said}"[:160],
    )


def _departure(deal: Deal) -> Item:
    fields = ", ".join(dict.fromkeys(str(d.get("field")) for d in deal.differences if isinstance(d, dict)))
    return Item(
        glyph="differs",
        text=f"{deal.seller} booked differently",
        note=f"{deal.advertiser}, {deal.reference}: {fields}",
        link=reverse("admin:orders_deal_change", args=[deal.pk]),
    )


def _failed(job: Job) -> Item:
    return Item(
        glyph="failed",
        text=f"{job.reference} failed",
        note=(job.error or job.recipe)[:160],
        link=reverse("admin:tasks_app_job_change", args=[job.pk]),
    )


def _link(operation: Operation) -> str:
    return reverse("admin:tasks_app_operation_change", args=[operation.pk])


def _commitments(who: User) -> list[Commitment]:
    """Campaigns whose flight is not over, the largest budget of each currency first."""
    running = visible(Campaign.objects.filter(budget__gt=0, end_at__gt=clock.now()), who).exclude(
        status__in=_ENDED
    )
    campaigns = list(running.order_by("-budget", "id").defer("brief")[:50])
    money = money_of([campaign.pk for campaign in campaigns])
    return [_commitment(campaign, money.get(campaign.pk, Money())) for campaign in campaigns]


def _commitment(campaign: Campaign, money: Money) -> Commitment:
    budget = campaign.budget or Decimal(1)  # never without one: the query asks for budgets above 0
    shares = [float(part / budget * 100) for part in (money.confirmed, money.approved, money.waiting)]
    words = ("confirmed by sellers", "approved, not confirmed", "waiting for approval")
    said = ", ".join(f"{share:.1f} percent {word}" for share, word in zip(shares, words, strict=True))
    return Commitment(
        name=campaign.name,
        link=reverse("admin:campaigns_campaign_change", args=[campaign.pk]),
        parts=tuple(zip(("firm", "soft", "ask"), shares, strict=True)),
        label=f"{campaign.name}: {said}",
        percent=int(shares[0] + shares[1]),
        taken=money.confirmed + money.approved,
        budget=budget,
        currency=campaign.currency,
    )


def _committed(commitments: Collection[Commitment]) -> list[dict[str, Any]]:
    """Committed and budget per currency, never added across currencies."""
    taken = dict(text.amounts((one.currency, one.taken) for one in commitments))
    budgets = text.amounts((one.currency, one.budget) for one in commitments)
    return [
        {
            "currency": currency,
            "taken": taken[currency],
            "budget": total,
            "percent": taken[currency] / total * 100,
        }
        for currency, total in budgets
    ]

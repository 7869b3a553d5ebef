"""Policies in force, applied to one question as it is asked."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet

from tasks_app import clock, days
from tasks_app.approvals.models import Approval
from tasks_app.approvals.policies import Asked, Caught, FactsOf, Ground, Policy, Verdict, policy_evaluate
from tasks_app.approvals.policy_models import ApprovalPolicy, OnExpiry, PolicyRule
from tasks_app.approvals.rates import Rates, rates_on

_COMPARING = (PolicyRule.AMOUNT, PolicyRule.SPLITTING)
_POLICY_CHARS = Approval._meta.get_field("policy").max_length or 120


@dataclass(frozen=True, kw_only=True)
class Base:
    """What a question demands whatever policies say: in which words it is asked, of how many, until when."""

    policy: str
    quorum: int = 1
    due_at: datetime | None = None


def policies_latest() -> QuerySet[ApprovalPolicy]:
    """The version of each policy that stands, switched off ones too."""
    newest = ApprovalPolicy.objects.order_by("key", "-version").distinct("key")
    return ApprovalPolicy.objects.filter(pk__in=newest.values("pk"))


def policies_in_force(
    *, kinds: Collection[str], team_id: uuid.UUID | None, advertiser_id: uuid.UUID | None
) -> list[ApprovalPolicy]:
    """Those that look at questions of one of `kinds` about that team and advertiser; one query."""
    for_team = Q(team__isnull=True) | Q(team=team_id)
    for_advertiser = Q(advertiser__isnull=True) | Q(advertiser=advertiser_id)
    looks = reduce(or_, (Q(kinds__contains=[kind]) for kind in kinds))
    standing = policies_latest().filter(looks, for_team, for_advertiser, active=True)
    return list(standing.order_by("key"))


def policy_of(row: ApprovalPolicy) -> Policy:
    """A stored version as values."""
    return Policy(
        key=row.key,
        version=row.version,
        name=row.name,
        rule=PolicyRule(row.rule),
        kinds=tuple(row.kinds),
        limit=row.limit,
        currency=row.currency,
        percent=row.percent,
        categories=tuple(row.categories),
        gap_days=row.gap_days,
        roles=tuple(row.roles),
        quorum=row.quorum,
        deadline=row.deadline,
        business_hours=row.business_hours,
        escalate_after=row.escalate_after,
        escalate_to=row.escalate_to,
        on_expiry=OnExpiry(row.on_expiry),
    )


def policies_apply(
    *,
    kind: str,
    team_id: uuid.UUID | None,
    advertiser_id: uuid.UUID | None,
    amount: Decimal | None,
    currency: str,
    facts_of: FactsOf,
    base: Base,
    judged_as: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """Columns of the approval that asks: what the policies in force demand, never less than `base`."""
    now = clock.now()
    kinds = judged_as | {kind}
    rows = policies_in_force(kinds=kinds, team_id=team_id, advertiser_id=advertiser_id)
    facts = facts_of(frozenset(PolicyRule(row.rule) for row in rows))
    asked = Asked(kind=kind, amount=amount, currency=currency, facts=facts, judged_as=judged_as)
    verdict = policy_evaluate(
        asked,
        [policy_of(row) for row in rows],
        _rates(asked, rows, now),
        Ground(
            now=now,
            deadline=settings.APPROVAL_TTL,
            quorum=base.quorum,
            hold_margin=settings.APPROVAL_HOLD_MARGIN,
        ),
    )
    return {**_columns(verdict, base), "hold_until": facts.hold_until}


def named_versions(caught: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """What caught it, for the trail: {"policies": ["over-100000-usd/2"]}; empty where nothing did."""
    return {"policies": [f"{one['key']}/{one['version']}" for one in caught]} if caught else {}


def _columns(verdict: Verdict, base: Base) -> dict[str, Any]:
    names = list(dict.fromkeys([base.policy, *(one.name for one in verdict.caught)]))
    said = "; ".join(names)
    return {
        "policy": said if len(said) <= _POLICY_CHARS else f"{said[: _POLICY_CHARS - 1]}…",
        "policies": [_caught(one) for one in verdict.caught],
        "quorum": verdict.quorum,
        "roles": list(verdict.roles),
        "due_at": min(verdict.due_at, base.due_at) if base.due_at else verdict.due_at,
        "escalate_at": verdict.escalate_at,
        "escalate_to": list(verdict.escalate_to),
        "on_expiry": verdict.on_expiry,
    }


def _caught(one: Caught) -> dict[str, Any]:
    return {
        "key": one.key,
        "version": one.version,
        "name": one.name,
        "rule": str(one.rule),
        "why": one.why,
    }


def _rates(asked: Asked, rows: Sequence[ApprovalPolicy], now: datetime) -> Rates:
    """Those that a comparison may need: none where everything is in one currency."""
    limits = {row.currency for row in rows if row.rule in _COMPARING}
    amounts = {asked.currency, *(one.currency for one in asked.facts.neighbours)}
    wanted = limits | amounts
    return rates_on(days.day_of(now, "UTC"), wanted) if limits and len(wanted) > 1 else {}

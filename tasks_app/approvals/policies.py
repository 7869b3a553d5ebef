"""What approval policies ask of one question: pure, so that it can be shown, tested and explained.

A policy only ever asks for more: where several catch a question, the strictest of each demand wins, and what
cannot be judged (an amount without a rate) is caught. Nothing here approves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from tasks_app.approvals.policy_models import OnExpiry, PolicyRule
from tasks_app.approvals.policy_reasons import why_caught
from tasks_app.approvals.rates import Rates
from tasks_app.approvals.splitting import Flight, Neighbour
from tasks_app.people.roles import ADMINISTRATOR
from tasks_app.sellers.hours import BusinessHours, deadline_after

_HALF = 2


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a policy catches beside its rule, and what it asks for. Durations None: it says nothing of that.
    `roles` empty: all who hold the right to decide."""

    limit: Decimal | None = None
    currency: str = ""
    percent: Decimal | None = None
    categories: tuple[str, ...] = ()
    gap_days: int = 1
    roles: tuple[str, ...] = ()
    quorum: int = 1
    deadline: timedelta | None = None
    business_hours: bool = False
    escalate_after: timedelta | None = None
    escalate_to: str = ""
    on_expiry: OnExpiry = OnExpiry.UNSAID


@dataclass(frozen=True, kw_only=True)
class Policy(Terms):
    """One version of a policy as values; see `policy_models.ApprovalPolicy`."""

    key: str
    name: str
    rule: PolicyRule
    version: int = 1
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the storey that asks knows of its subject. Money in the question's currency.

    `approved`: what people approved before, where this changes it. `manual`: a sentence for each thing that
    is not bought by itself. `hold_until`: when the seller lets go of what it holds. `hours`: the seller's.
    """

    approved: Decimal | None = None
    first_order: bool = False
    categories: frozenset[str] = frozenset()
    manual: tuple[str, ...] = ()
    flight: Flight | None = None
    neighbours: tuple[Neighbour, ...] = ()
    hold_until: datetime | None = None
    hours: BusinessHours | None = None


NO_FACTS = Facts()
# Asked with the rules in force: what no rule judges by needs not be looked up.
FactsOf = Callable[[frozenset[PolicyRule]], Facts]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One question as policies see it; those that look at one of `judged_as` look at it too."""

    kind: str
    amount: Decimal | None
    currency: str
    facts: Facts = NO_FACTS
    judged_as: frozenset[str] = frozenset()

    @property
    def kinds(self) -> frozenset[str]:
        """All kinds by which a policy looks at it."""
        return self.judged_as | {self.kind}


@dataclass(frozen=True, kw_only=True)
class Caught:
    """A policy that caught the question, and why, in a sentence."""

    key: str
    version: int
    name: str
    rule: PolicyRule
    why: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What must be fulfilled before the question is approved.

    `roles` empty: all who hold the right. `escalate_at` None: never. `on_expiry` is `expire` or `wait`.
    """

    caught: tuple[Caught, ...]
    quorum: int
    roles: tuple[str, ...]
    due_at: datetime
    escalate_at: datetime | None = None
    escalate_to: tuple[str, ...] = ()
    on_expiry: OnExpiry = OnExpiry.EXPIRE


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What a question stands on whatever policies say: how many, how long, and how long before the seller's
    hold ends a decision is wanted."""

    now: datetime
    deadline: timedelta
    quorum: int = 1
    hold_margin: timedelta = field(default=timedelta(hours=1))


def policy_evaluate(asked: Asked, policies: Collection[Policy], rates: Rates, ground: Ground) -> Verdict:
    """What those of `policies` that catch the question demand together.

    The largest quorum; only roles that all of them name; the earliest deadline, before the seller's hold
    ends; the earliest escalation; an end without approval before waiting. The order of policies says nothing.
    """
    found = [
        (policy, why)
        for policy in sorted(policies, key=lambda p: (p.key, p.version))
        if not asked.kinds.isdisjoint(policy.kinds) and (why := why_caught(policy, asked, rates))
    ]
    catching = [policy for policy, _ in found]
    due_at = _due(catching, asked.facts, ground)
    escalate_at = _escalate_at(catching, asked.facts, ground, due_at)
    return Verdict(
        caught=tuple(
            Caught(key=p.key, version=p.version, name=p.name, rule=p.rule, why=why) for p, why in found
        ),
        quorum=max([ground.quorum, *(policy.quorum for policy in catching)]),
        roles=roles_in_common([policy.roles for policy in catching]),
        due_at=due_at,
        escalate_at=escalate_at,
        escalate_to=_escalate_to(catching) if escalate_at else (),
        on_expiry=_on_expiry(catching),
    )


def no_facts(rules: frozenset[PolicyRule]) -> Facts:
    """Of what nobody knows more than kind and amount."""
    return NO_FACTS


def before_hold(due_at: datetime, hold_until: datetime | None, now: datetime, margin: timedelta) -> datetime:
    """`due_at`, or earlier, so that it ends `margin` before the seller's hold does; where less than twice
    that is left, at half of what is left. A hold that has ended holds nothing up."""
    if hold_until is None or hold_until <= now:
        return due_at
    return min(due_at, hold_until - min(margin, (hold_until - now) / _HALF))


def roles_in_common(named: Sequence[Collection[str]]) -> tuple[str, ...]:
    """Roles that every one of `named` allows (an empty one allows all; empty: all are allowed). Where they
    share none, an Administrator, who answers for the policies."""
    narrow = [set(roles) for roles in named if roles]
    if not narrow:
        return ()
    return tuple(sorted(set.intersection(*narrow))) or (ADMINISTRATOR,)


def _due(catching: Sequence[Policy], facts: Facts, ground: Ground) -> datetime:
    said = [
        deadline_after(ground.now, policy.deadline, facts.hours if policy.business_hours else None)
        for policy in catching
        if policy.deadline is not None
    ]
    due = min(said) if said else ground.now + ground.deadline
    return before_hold(due, facts.hold_until, ground.now, ground.hold_margin)


def _escalate_at(
    catching: Sequence[Policy], facts: Facts, ground: Ground, due_at: datetime
) -> datetime | None:
    """The earliest, and not after the deadline: what is put to somebody else then comes too late."""
    said = [
        deadline_after(ground.now, policy.escalate_after, facts.hours if policy.business_hours else None)
        for policy in catching
        if policy.escalate_after is not None and policy.escalate_to
    ]
    half = ground.now + (due_at - ground.now) / _HALF
    return None if not said else min(said) if min(said) < due_at else half


def _escalate_to(catching: Sequence[Policy]) -> tuple[str, ...]:
    """Roles that some policy escalates to and none of the others keeps out."""
    allowed = [{*p.roles, p.escalate_to} if p.roles else set() for p in catching]
    wanted = {p.escalate_to for p in catching if p.escalate_to}
    open_to = {role for role in wanted if all(not roles or role in roles for roles in allowed)}
    return tuple(sorted(open_to)) or (ADMINISTRATOR,)


def _on_expiry(catching: Sequence[Policy]) -> OnExpiry:
    said = {policy.on_expiry for policy in catching}
    return OnExpiry.WAIT if OnExpiry.WAIT in said and OnExpiry.EXPIRE not in said else OnExpiry.EXPIRE

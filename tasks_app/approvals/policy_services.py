"""Writing policies: every edit is a new version, with who, when, why, and what it changed from and to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.text import slugify

from tasks_app import clock, money
from tasks_app.approvals.kinds import kind_names
from tasks_app.approvals.policies import Policy, Terms
from tasks_app.approvals.policy_applying import policies_latest, policy_of
from tasks_app.approvals.policy_models import ApprovalPolicy, OnExpiry, PolicyRule
from tasks_app.approvals.policy_roles import roles_that_decide
from tasks_app.lifecycle.transitions import exact
from tasks_app.notifications.services import notify
from tasks_app.people.actors import actor_key
from tasks_app.people.holders import people_with
from tasks_app.people.models import Advertiser, Team, User
from tasks_app.people.roles import DECIDE, MANAGE_POLICIES
from tasks_app.people.scope import advertisers_seen, covers, teams_of
from tasks_app.tracing import origin

MOST_APPROVERS = 9
_LONGEST = timedelta(days=90)
_SHORTEST = timedelta(minutes=5)
_MOST = Decimal(10) ** 13
_LIMITED = (PolicyRule.AMOUNT, PolicyRule.SPLITTING)
_COLUMNS = (
    "name",
    "active",
    "team",
    "advertiser",
    "kinds",
    "rule",
    "limit",
    "currency",
    "percent",
    "categories",
    "gap_days",
    "roles",
    "quorum",
    "deadline",
    "business_hours",
    "escalate_after",
    "escalate_to",
    "on_expiry",
)


@dataclass(frozen=True, kw_only=True)
class PolicyDraft(Terms):
    """What a policy shall say; columns of `ApprovalPolicy`."""

    name: str
    rule: PolicyRule
    kinds: tuple[str, ...]
    active: bool = True
    team: Team | None = None
    advertiser: Advertiser | None = None

    def row(self, **more: Any) -> ApprovalPolicy:
        """An unsaved version that says so."""
        said = {name: getattr(self, name) for name in _COLUMNS}
        lists = {name: list(said[name]) for name in ("kinds", "categories", "roles")}
        return ApprovalPolicy(**{**said, **lists, **more})

    def policy(self, key: str = "", version: int = 1) -> Policy:
        """As values, to be put in words before it is saved."""
        return policy_of(self.row(key=key, version=version))


def draft_of(row: ApprovalPolicy) -> PolicyDraft:
    """A stored version as a draft of the next."""
    said = {name: getattr(row, name) for name in _COLUMNS}
    lists = {name: tuple(said[name]) for name in ("kinds", "categories", "roles")}
    choices = {"rule": PolicyRule(row.rule), "on_expiry": OnExpiry(row.on_expiry)}
    return PolicyDraft(**{**said, **lists, **choices})


@transaction.atomic
def policy_create(*, draft: PolicyDraft, actor: User, reason: str) -> ApprovalPolicy:
    """The first version of a policy. Raises ValidationError by field, and without the right."""
    _refuse(draft, actor, reason)
    return _save(draft.row(key=_free_key(draft.name), version=1), actor, reason, {})


@transaction.atomic
def policy_change(*, key: str, version: int, draft: PolicyDraft, actor: User, reason: str) -> ApprovalPolicy:
    """The version after `version`, which the person saw. Questions that are open keep what caught them.

    Raises ValidationError by field; without the right; where nothing is changed, or somebody changed it
    first. Raises ApprovalPolicy.DoesNotExist for a key that there is not.
    """
    before = policies_latest().get(key=key)
    if not may_change(before, actor):
        raise ValidationError("You have no right to change this policy.")
    _refuse(draft, actor, reason)
    if before.version != version:
        raise ValidationError(f"Somebody changed it first: version {before.version} stands. Read it again.")
    after = draft.row(key=key, version=version + 1)
    changes = {
        name: [was, now] for name in _COLUMNS if (was := _plain(before, name)) != (now := _plain(after, name))
    }
    if not changes:
        raise ValidationError("Nothing is changed.")
    return _save(after, actor, reason, changes)


def may_change(policy: ApprovalPolicy, user: User) -> bool:
    """Whether the person may change that policy: with the right, and of what they see or of all."""
    return covers(user, policy) and user.is_active and not user.is_service and user.has_perm(MANAGE_POLICIES)


def _save(row: ApprovalPolicy, actor: User, reason: str, changes: dict[str, Any]) -> ApprovalPolicy:
    row.actor, row.at, row.reason = actor_key(actor), clock.now(), reason.strip()
    row.request, row.changes = origin(), changes
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as error:
        raise ValidationError("Somebody changed it in the same moment. Read it again.") from error
    what = "changed" if changes else "made"
    notify(
        kind="policy_changed",
        title=f"Approval policy {what}: {row.name}",
        body=f"Version {row.version}, by {actor}: {row.reason}",
        team=row.team,
        advertiser_id=row.advertiser_id,
        right=MANAGE_POLICIES,
        not_for=row.actor,
        key=f"policy:{row.key}:{row.version}",
    )
    return row


def _refuse(draft: PolicyDraft, actor: User, reason: str) -> None:
    if actor.is_service or not actor.is_active or not actor.has_perm(MANAGE_POLICIES):
        raise ValidationError("You have no right to change approval policies.")
    problems = {**_scope_problems(draft, actor), **draft_problems(draft)}
    if not problems:
        problems = _quorum_problems(draft)
    if not 0 < len(reason.strip()) <= 500:
        problems["reason"] = "Say why, in at most 500 characters."
    if problems:
        raise ValidationError(problems)


def _scope_problems(draft: PolicyDraft, actor: User) -> dict[str, str]:
    if draft.team is not None and not teams_of(actor).filter(pk=draft.team.pk).exists():
        return {"team": "There is no such team among yours."}
    if draft.advertiser is not None and (draft.team is None or draft.advertiser.team_id != draft.team.pk):
        return {"advertiser": "Choose an advertiser of that team."}
    if draft.advertiser is not None and not advertisers_seen(actor).filter(pk=draft.advertiser.pk).exists():
        return {"advertiser": "There is no such advertiser among yours."}
    return {}


def _quorum_problems(draft: PolicyDraft) -> dict[str, str]:
    """Refuse a policy in force that asks for more approvers than can decide; of no team, in all of them."""
    if not draft.active:
        return {}
    people = people_with(
        DECIDE,
        draft.team.pk if draft.team else None,
        draft.advertiser.pk if draft.advertiser else None,
    )
    if draft.roles:
        people = people.filter(Q(groups__name__in=draft.roles) | Q(is_superuser=True))
    able = people.count()
    if able >= draft.quorum:
        return {}
    return {"quorum": f"It asks for {draft.quorum} people to approve, but only {able} can decide."}


def draft_problems(draft: PolicyDraft) -> dict[str, str]:
    """What is wrong with it, by field; empty where it can be saved."""
    return {**_asked_problems(draft), **_rule_problems(draft), **_people_problems(draft)}


def _asked_problems(draft: PolicyDraft) -> dict[str, str]:
    found: dict[str, str] = {}
    if not draft.name.strip():
        found["name"] = "Give it a name."
    unknown = set(draft.kinds) - kind_names().keys()
    if not draft.kinds or unknown:
        found["kinds"] = "Choose which questions it looks at."
    return found


def _rule_problems(draft: PolicyDraft) -> dict[str, str]:
    found: dict[str, str] = {}
    if draft.rule in _LIMITED:
        if draft.limit is None or not draft.limit.is_finite() or not 0 < draft.limit <= _MOST:
            found["limit"] = "Name the limit, above 0."
        elif money.is_currency(draft.currency) and draft.limit != money.floor_to_unit(
            draft.limit, draft.currency
        ):
            found["limit"] = f"It is finer than the smallest unit of {draft.currency}."
        if not money.is_currency(draft.currency):
            found["currency"] = "Name an ISO 4217 currency, such as USD."
    if draft.rule == PolicyRule.CHANGE and (
        draft.percent is None or not draft.percent.is_finite() or not 0 <= draft.percent <= 1000
    ):
        found["percent"] = "Name the percentage, from 0 to 1000."
    if draft.rule == PolicyRule.SENSITIVE and not draft.categories:
        found["categories"] = "Name at least one category, such as age_restricted."
    if not 0 <= draft.gap_days <= 31:
        found["gap_days"] = "Flights may be from 0 to 31 days apart."
    return found


def _people_problems(draft: PolicyDraft) -> dict[str, str]:
    found: dict[str, str] = {}
    deciding = set(roles_that_decide())
    if set(draft.roles) - deciding:
        found["roles"] = "Choose roles that may decide on approvals."
    if not 1 <= draft.quorum <= MOST_APPROVERS:
        found["quorum"] = f"From 1 to {MOST_APPROVERS} people."
    for name in ("deadline", "escalate_after"):
        span = getattr(draft, name)
        if span is not None and not _SHORTEST <= span <= _LONGEST:
            found[name] = "From five minutes to 90 days."
    if bool(draft.escalate_to) != (draft.escalate_after is not None):
        found["escalate_to"] = "Say both after how long, and to which role."
    elif draft.escalate_to and draft.escalate_to not in deciding:
        found["escalate_to"] = "Choose a role that may decide on approvals."
    if draft.deadline and draft.escalate_after and draft.escalate_after >= draft.deadline:
        found["escalate_after"] = "It is escalated before its deadline."
    if draft.on_expiry == OnExpiry.WAIT and not draft.escalate_to:
        found["on_expiry"] = "What keeps waiting is escalated: say to which role."
    return found


def _free_key(name: str) -> str:
    base = slugify(name)[:50] or "policy"
    taken = set(ApprovalPolicy.objects.filter(key__startswith=base).values_list("key", flat=True))
    return next(
        key for n in range(1, len(taken) + 2) if (key := base if n == 1 else f"{base}-{n}") not in taken
    )


def _plain(row: ApprovalPolicy, name: str) -> Any:
    """A column as JSON that reads well in the history."""
    value = getattr(row, name)
    if isinstance(value, Team | Advertiser):
        return str(value)
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    return exact({name: value})[name]


def changes_in_words(changes: Mapping[str, list[Any]]) -> list[str]:
    """limit: 100000 → 50000."""
    return [
        f"{name.replace('_', ' ')}: {_shown(was)} → {_shown(now)}" for name, (was, now) in changes.items()
    ]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(str(one) for one in value) or "none"
    return "none" if value in (None, "") else str(value)

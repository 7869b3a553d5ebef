"""Campaigns: from a submitted brief to a running job, and the end."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import IntegrityError, transaction

from campaigns.brief import Brief, Problem, brief_kept, brief_validate
from campaigns.buyers import Buyer, buyer_of
from campaigns.models import Campaign, CampaignStatus
from tasks_app import clock
from tasks_app.canonical import canonical_digest
from tasks_app.commands.services import IdempotencyKeyConflictError
from tasks_app.ids import request_key
from tasks_app.jobs.models import Job
from tasks_app.jobs.planning import job_start
from tasks_app.lifecycle.references import next_reference
from tasks_app.lifecycle.transitions import create, transition
from tasks_app.people.actors import SYSTEM, actor_ensure, actor_key
from tasks_app.people.models import Advertiser, Team, User
from tasks_app.people.roles import SUBMIT_CAMPAIGN
from tasks_app.sellers.models import Seller


class SubmissionRefusedError(Exception):
    """The person may not submit this; nothing was made."""


class BriefRefusedError(Exception):
    """Nothing was made: what is wrong with the brief, field by field."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{one['field']}: {one['problem']}" for one in problems))


@transaction.atomic
def campaign_submit(
    *,
    user: User,
    raw: dict[str, Any],
    campaign_id: uuid.UUID | None = None,
    key: str = "",
    opened_by: str = "",
) -> Campaign:
    """Keep a parsed brief as a campaign and start its job; a wrong one ends in `validation_failed`
    with every problem named. One commit. `campaign_id`: the new campaign's, where the caller made one so that
    the same submission twice is one; `key`: the caller's own, for the same; `opened_by`: an agent that
    submits on behalf of the user. Raises SubmissionRefusedError, IntegrityError (the id or the key is taken),
    and BriefRefusedError where it cannot be told which of the user's teams may see the brief."""
    if not user.is_active or not user.has_perm(SUBMIT_CAMPAIGN):
        raise SubmissionRefusedError("You have no right to submit briefs.")
    if not user.teams.exists():
        raise SubmissionRefusedError("You belong to no team: ask an administrator.")
    brief, buyer, problems = check_brief(user, raw)
    if buyer.team is None:
        raise BriefRefusedError(problems)
    campaign = _campaign(user, buyer.team, buyer.advertiser, raw, brief)
    campaign.pk = campaign_id or campaign.pk
    actor = actor_ensure(user=user)
    campaign.request_key, campaign.request_digest = request_key(actor.key, key), canonical_digest(raw)
    reason = f"Submitted on behalf of {user}" if opened_by else "Submitted"
    create(campaign, actor=opened_by or actor, reason=reason)
    transition(campaign, CampaignStatus.BRIEF_RECEIVED, actor=SYSTEM)
    if problems:
        campaign_refuse(campaign=campaign, problems=problems)
        return campaign
    job_start(
        recipe="campaign",
        inputs={"campaign_id": str(campaign.pk)},
        team=campaign.team,
        actor=actor,
        subject_type="campaign",
        subject_id=campaign.pk,
    )
    return campaign


def check_brief(user: User, raw: dict[str, Any]) -> tuple[Brief | None, Buyer, list[Problem]]:
    """Return the brief if it can be read, whose it is, and every problem that its submission would have."""
    brief, problems = brief_validate(raw, now=clock.now())
    buyer = buyer_of(user, raw)
    more = [*buyer.problems, *_domain_problems(buyer.advertiser, brief), *_seller_problems(brief)]
    return brief, buyer, [*problems, *more]


def campaign_submit_once(*, user: User, raw: dict[str, Any], key: str) -> tuple[Campaign, bool]:
    """As `campaign_submit`, and whether it made the campaign: the same brief under the same `key` of the user
    is the same campaign. Raises IdempotencyKeyConflictError as well: the key was another brief's."""
    known = _submitted(user, raw, key)
    if known is not None:
        return known, False
    try:
        return campaign_submit(user=user, raw=raw, key=key), True
    except IntegrityError:
        # Somebody with the same key was a moment faster; theirs is the campaign.
        known = _submitted(user, raw, key)
        if known is None:
            raise
        return known, False


def _submitted(user: User, raw: dict[str, Any], key: str) -> Campaign | None:
    kept = request_key(actor_key(user), key)
    found = Campaign.objects.filter(request_key=kept).first() if kept else None
    if found is not None and found.request_digest != canonical_digest(raw):
        raise IdempotencyKeyConflictError("This Idempotency-Key was used for another brief.")
    return found


def campaign_refuse(*, campaign: Campaign, problems: list[Problem]) -> None:
    """brief_received → validation_failed, with the problems."""
    named = "; ".join(f"{p['field']}: {p['problem']}" for p in problems)
    transition(
        campaign,
        CampaignStatus.VALIDATION_FAILED,
        actor=SYSTEM,
        reason=named[:500],
        changes={"problems": problems},
    )


def campaign_brief(campaign: Campaign) -> Brief:
    """The campaign's validated brief. Raises ValueError where it is wrong, or its flight has begun."""
    brief, problems = brief_kept(campaign.brief, now=campaign.created_at)
    if brief is None:
        raise ValueError("; ".join(f"{p['field']}: {p['problem']}" for p in problems))
    return brief


def campaign_job(campaign: Campaign) -> Job | None:
    """The latest job of the campaign."""
    return (
        Job.objects.filter(subject_type="campaign", subject_id=campaign.pk, parent_step=None)
        .order_by("-id")
        .first()
    )


def sellers_for(brief: Brief) -> list[Seller]:
    """Active sellers that the brief does not exclude."""
    excluded = {name.casefold() for name in brief.constraints.excluded_sellers}
    return [
        seller
        for seller in Seller.objects.filter(active=True)
        if not {seller.slug.casefold(), seller.name.casefold()} & excluded
    ]


def _domain_problems(advertiser: Advertiser | None, brief: Brief | None) -> list[Problem]:
    if advertiser is None or brief is None or brief.brand_domain == advertiser.brand_domain:
        return []
    return [{"field": "brand_domain", "problem": f"{advertiser.name} is known as {advertiser.brand_domain}"}]


def _seller_problems(brief: Brief | None) -> list[Problem]:
    if brief is None:
        return []
    known = {n.casefold() for pair in Seller.objects.values_list("slug", "name") for n in pair}
    unknown = [name for name in brief.constraints.excluded_sellers if name.casefold() not in known]
    return [
        {"field": "constraints.excluded_sellers", "problem": f"there is no seller {name!r}"}
        for name in unknown
    ]


def _campaign(
    user: User, team: Team, advertiser: Advertiser | None, raw: dict[str, Any], brief: Brief | None
) -> Campaign:
    name = raw.get("name")
    campaign = Campaign(
        reference=next_reference("CMP"),
        team=team,
        advertiser=advertiser,
        name=name.strip()[:200] if isinstance(name, str) and name.strip() else "(no name)",
        requested_by=actor_ensure(user=user).key,
        brief=raw,
        created_at=clock.now(),
    )
    if brief is not None:
        # Relative days are resolved once, here.
        campaign.brief = {**raw, "flight": brief.flight.model_dump(mode="json")}
        campaign.budget, campaign.currency = brief.budget.total, brief.budget.currency
        campaign.start_at, campaign.end_at = brief.flight.start_at, brief.flight.end_at
        campaign.zone = brief.flight.zone
    return campaign

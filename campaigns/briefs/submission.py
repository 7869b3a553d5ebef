"""Submission of a brief, once, with a warning if it repeats an earlier one."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import IntegrityError, transaction

from campaigns.acts import may_submit
from campaigns.allocation import allocate
from campaigns.brief import Brief, brief_kept
from campaigns.briefs.drafts import discard_draft
from campaigns.models import Campaign
from campaigns.services import BriefRefusedError, SubmissionRefusedError, campaign_submit, check_brief
from tasks_app import clock
from tasks_app.canonical import canonical_digest
from tasks_app.people.models import Advertiser, User
from tasks_app.people.scope import visible

_COMPARED = 50


class SameBriefError(Exception):
    """The same brief was submitted before, as `campaign`. Nothing was submitted now."""

    def __init__(self, campaign: Campaign) -> None:
        super().__init__(f"The same brief was submitted as {campaign.reference}.")
        self.campaign = campaign


@transaction.atomic
def submit_brief(*, raw: dict[str, Any], token: uuid.UUID, user: User, again: bool = False) -> Campaign:
    """Submit a brief and discard its draft; the same token again returns the same campaign.

    Args:
        raw: The brief as plain data.
        token: Id of the draft, and of the campaign.
        user: The person who submits.
        again: Submit it although the same brief was submitted before.

    Raises:
        BriefRefusedError: The brief has problems.
        SameBriefError: The same brief was submitted before.
        SubmissionRefusedError: No right, or another brief was submitted with this token.
    """
    known = visible(Campaign.objects.all(), user).filter(pk=token).first()
    if known is not None:
        return _check_same(known, raw)
    if not may_submit(user):
        raise SubmissionRefusedError("You have no right to submit briefs.")
    brief, buyer, problems = check_brief(user, raw)
    if problems or brief is None:
        raise BriefRefusedError(problems)
    earlier = None if again else _earlier_campaign(user, brief, buyer.advertiser)
    if earlier is not None:
        raise SameBriefError(earlier)
    try:
        with transaction.atomic():
            campaign = campaign_submit(user=user, raw=raw, campaign_id=token)
    except IntegrityError as error:
        known = visible(Campaign.objects.all(), user).filter(pk=token).first()
        if known is None:
            raise SubmissionRefusedError("It could not be submitted. Submit again.") from error
        return _check_same(known, raw)
    discard_draft(user, token)
    return campaign


def _earlier_campaign(user: User, brief: Brief, advertiser: Advertiser | None) -> Campaign | None:
    """Return the first of the visible campaigns that has the same brief, however it was written."""
    alike = Campaign.objects.filter(
        advertiser=advertiser,
        budget=brief.budget.total,
        currency=brief.budget.currency,
        start_at=brief.flight.start_at,
        end_at=brief.flight.end_at,
    )
    for campaign in visible(alike, user).order_by("pk")[:_COMPARED]:
        kept = brief_kept(campaign.brief, now=clock.now())[0]
        if kept is not None and _content(kept) == _content(brief):
            return campaign
    return None


def _content(brief: Brief) -> tuple[dict[str, Any], Brief]:
    """Return what equal briefs with one advertiser, budget and flight have in common.

    Shares count in whole percent, as the form rounds weights.
    """
    split = allocate(brief.budget, brief.channels)
    shares = {channel: round(amount * 100 / brief.budget.total) for channel, amount in split.items()}
    return shares, brief.model_copy(update={"channels": (), "team": None, "flight": None})


def _check_same(campaign: Campaign, raw: dict[str, Any]) -> Campaign:
    """Return the campaign if it is of this brief. Raise SubmissionRefusedError."""
    if campaign.request_digest not in ("", canonical_digest(raw)):
        raise SubmissionRefusedError(
            f"This page was submitted as {campaign.reference}, with another brief. "
            "Submit again to make this a new campaign."
        )
    return campaign

"""The page on which a brief is written and submitted: what it begins with, and what was written."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import yaml
from django.db import IntegrityError

from campaigns.acts import may_submit
from campaigns.brief import brief_validate
from campaigns.models import Campaign
from campaigns.parsing import UnparseableBriefError, brief_parse
from campaigns.services import BriefRefusedError, SubmissionRefusedError, campaign_submit
from tasks_app import clock, ids
from tasks_app.canonical import canonical_digest
from tasks_app.people.models import Advertiser, User
from tasks_app.people.scope import visible

_ADVERTISERS = 200
_BEGINNING: dict[str, Any] = {
    "objective": {"goal": "reach", "kpi": "completed_views", "target": 1000000},
    "budget": {"total": 100000, "currency": "USD"},
    "flight": {"zone": "America/New_York", "start": "+14d", "end": "+41d"},
    "channels": [{"channel": "ctv", "weight": 60}, {"channel": "olv", "weight": 40}],
    "audience": "",
    "geography": {"countries": ["US"]},
    "formats": ["video_hosted"],
    "measurement": ["completed_views"],
    "constraints": {"ceilings": {"cpm": 30}, "excluded_sellers": []},
}


def submission_data(user: User, like: Campaign | None = None) -> dict[str, Any]:
    """What desk/campaign_submit.html is given: a brief to begin with, that of `like` where there is one, and
    the id that makes the same submission twice one."""
    mine = list(visible(Advertiser.objects.order_by("name"), user)[:_ADVERTISERS])
    return {
        "title": "New campaign",
        "advertisers": mine,
        "like": like,
        "token": ids.new_id(),
        "text": _text_of(like) if like else _beginning(mine),
    }


def brief_submit(form: Mapping[str, str], user: User) -> Campaign:
    """The campaign of the brief in a form; of the same form twice the same campaign.

    Raises BriefRefusedError, SubmissionRefusedError: also for another brief in a form that was submitted. A
    brief that only the whole can find wrong becomes a campaign that says so.
    """
    token = _token(form.get("token", ""))
    try:
        raw = brief_parse(form.get("text", "").encode("utf-8", "surrogatepass"))
    except UnparseableBriefError as error:
        raise BriefRefusedError([{"field": "brief", "problem": str(error)}]) from error
    known = _submitted(token, raw, user)
    if known is not None:
        return known
    if not may_submit(user):
        raise SubmissionRefusedError("You have no right to submit briefs.")
    problems = brief_validate(raw, now=clock.now())[1]
    if problems:
        raise BriefRefusedError(problems)
    try:
        return campaign_submit(user=user, raw=raw, campaign_id=token)
    except IntegrityError as error:
        same = _submitted(token, raw, user)
        if same is None:
            raise SubmissionRefusedError("It could not be submitted: load the page again.") from error
        return same


def _submitted(token: uuid.UUID, raw: dict[str, Any], user: User) -> Campaign | None:
    """What this form was submitted as. Raises SubmissionRefusedError where that was another brief."""
    known = visible(Campaign.objects.all(), user).filter(pk=token).first()
    if known is not None and known.request_digest not in ("", canonical_digest(raw)):
        raise SubmissionRefusedError(
            f"This page was submitted as {known.reference}, with another brief: open a new one for this."
        )
    return known


def _token(written: str) -> uuid.UUID:
    try:
        return uuid.UUID(written)
    except ValueError:
        raise SubmissionRefusedError("The form is incomplete: load the page again.") from None


def _beginning(advertisers: list[Advertiser]) -> str:
    named = {
        "name": "",
        "advertiser": advertisers[0].name if advertisers else "",
        "brand_domain": advertisers[0].brand_domain if advertisers else "",
    }
    return _written({**named, **_BEGINNING})


def _text_of(campaign: Campaign) -> str:
    return _written(campaign.brief if isinstance(campaign.brief, dict) else {})


def _written(brief: dict[str, Any]) -> str:
    return yaml.safe_dump(brief, sort_keys=False, allow_unicode=True, width=100)

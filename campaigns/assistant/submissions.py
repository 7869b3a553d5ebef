"""Tools that propose to submit a brief, and to retry a campaign that failed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any

from pydantic import Field

from campaigns.acts import CampaignActRefusedError, campaign_retry, campaign_retryable, may_submit
from campaigns.assistant.scoped_campaigns import VIEW_CAMPAIGN, CampaignArguments, find_campaign
from campaigns.brief import Brief, Currency, brief_validate
from campaigns.models import Campaign, CampaignStatus
from campaigns.services import BriefRefusedError, SubmissionRefusedError, campaign_submit
from orders.assistant.channels import channels_named
from tasks_app import clock
from tasks_app.assistant.models import ASSISTANT
from tasks_app.assistant.tools.answer_text import money, plain, quoted_name, status_word
from tasks_app.assistant.tools.objects import links_to
from tasks_app.assistant.tools.registry import (
    Amount,
    Arguments,
    Confirmed,
    Table,
    Tool,
    ToolAnswer,
    ToolRefusedError,
)
from tasks_app.days import zone_of
from tasks_app.desk import text
from tasks_app.lifecycle.errors import InvalidTransitionError
from tasks_app.people.models import Advertiser, User
from tasks_app.people.roles import STEER_JOB, SUBMIT_CAMPAIGN
from tasks_app.people.scope import advertisers_seen

#: What a brief needs and one sentence does not say. The proposal shows it as assumed.
_ASSUMED_OBJECTIVE = {"goal": "reach", "kpi": "impressions", "target": 1_000_000}
_REASON = "Asked for in a conversation with the assistant"


class BriefArguments(Arguments):
    """A brief as one sentence states it."""

    advertiser: str = Field(min_length=1, description="Name of the advertiser, or how it begins.")
    total: Amount = Field(description="The gross budget of all channels together.")
    currency: Currency = Field(default="USD", description="Code of ISO 4217.")
    channels: list[str] = Field(min_length=1, max_length=20, description="Channels, such as ctv or podcast.")
    start: date = Field(description="First day of the flight.")
    end: date = Field(description="Last day of the flight.")
    countries: list[str] = Field(
        default=["US"], min_length=1, max_length=50, description="Codes of ISO 3166-1, such as US."
    )
    name: str = Field(default="", max_length=200, description="The campaign's name; made up if empty.")


def propose_brief(user: User, wanted: BriefArguments) -> ToolAnswer:
    """Return the proposal of a new campaign. Raise ToolRefusedError if its brief has problems."""
    brief = _validate(_raw_brief(user, wanted))
    stated = {"Name": wanted.name, "Budget": "currency" in wanted.model_fields_set}
    stated["Countries"] = "countries" in wanted.model_fields_set
    assumed = {row for row, is_stated in stated.items() if not is_stated}
    return ToolAnswer(
        summary=f"Submit the brief {quoted_name(brief.name)} of {_budget(brief)}.",
        table=_brief_table(brief, assumed={*assumed, "Channels", "Objective"}),
    )


def confirm_brief(user: User, wanted: BriefArguments) -> Confirmed:
    """Submit the brief. Raise ToolRefusedError."""
    return _submit(user, _raw_brief(user, wanted))


def propose_retry(user: User, wanted: CampaignArguments) -> ToolAnswer:
    """Return the proposal to retry a campaign's job or, if that is impossible, to submit its brief again."""
    campaign = find_campaign(user, wanted.campaign)
    named = f"{campaign.reference} {quoted_name(campaign.name)}"
    links = links_to("campaign", [campaign], user)
    if _can_retry_job(user, campaign):
        return ToolAnswer(summary=f"Retry {named} from where it failed.", links=links)
    brief = _validate(campaign.brief)
    return ToolAnswer(
        summary=f"Submit the brief of {named} again, as a new campaign of {_budget(brief)}.",
        table=_brief_table(brief),
        links=links,
    )


def confirm_retry(user: User, wanted: CampaignArguments) -> Confirmed:
    """Retry the campaign, or submit its brief again. Raise ToolRefusedError."""
    campaign = find_campaign(user, wanted.campaign)
    if not _can_retry_job(user, campaign):
        return _submit(user, campaign.brief)
    try:
        campaign_retry(campaign_id=campaign.pk, user=user, reason=_REASON)
    except (CampaignActRefusedError, InvalidTransitionError) as error:
        raise ToolRefusedError(str(error)) from None
    return Confirmed()


def _can_retry_job(user: User, campaign: Campaign) -> bool:
    """Return whether the job can be retried; otherwise its brief is submitted again.

    Raises:
        ToolRefusedError: Neither is possible.
    """
    if campaign.status not in (CampaignStatus.FAILED, CampaignStatus.VALIDATION_FAILED):
        raise ToolRefusedError(f"{campaign.reference} is {status_word(campaign.status)}: it has not failed.")
    if user.has_perm(STEER_JOB) and campaign_retryable(campaign):
        return True
    if not may_submit(user):
        raise ToolRefusedError("You have no right to retry campaigns or to submit briefs.")
    return False


def _submit(user: User, raw: dict[str, Any]) -> Confirmed:
    try:
        campaign = campaign_submit(user=user, raw=raw, opened_by=ASSISTANT)
    except (BriefRefusedError, SubmissionRefusedError) as error:
        raise ToolRefusedError(str(error)) from None
    if campaign.problems:
        raise _problems_refusal(campaign.problems)
    return Confirmed(created=("campaign", campaign.pk))


def _validate(raw: dict[str, Any]) -> Brief:
    brief, problems = brief_validate(raw, now=clock.now())
    if brief is None:
        raise _problems_refusal(problems)
    return brief


def _brief_table(brief: Brief, *, assumed: Collection[str] = ()) -> Table:
    objective, flight = brief.objective, brief.flight
    target = f"{text.number(objective.target)} {objective.kpi}"
    rows = {
        "Name": brief.name,
        "Advertiser": f"{brief.advertiser} ({brief.brand_domain})",
        "Budget": _budget(brief),
        "Flight": f"{text.weekday(flight.start)} to {text.weekday(flight.end)}, {flight.zone}",
        "Channels": ", ".join(wish.channel for wish in brief.channels),
        "Countries": ", ".join(brief.geography.countries),
        "Objective": f"{objective.goal}: {target}",
    }
    notes = {"Budget": "currency assumed", "Channels": "equal shares assumed"}
    return Table(
        columns=("Field", "Value", "Note"),
        rows=[
            (field, plain(value), notes.get(field, "assumed") if field in assumed else "")
            for field, value in rows.items()
        ],
    )


def _budget(brief: Brief) -> str:
    return money(brief.budget.total, brief.budget.currency)


def _raw_brief(user: User, wanted: BriefArguments) -> dict[str, Any]:
    """Return the brief as a buyer would write it. Raise ToolRefusedError."""
    advertiser = _advertiser(user, wanted.advertiser)
    return {
        "name": wanted.name or f"{advertiser.name} {wanted.start.isoformat()}",
        "advertiser": advertiser.name,
        "team": advertiser.team.name,
        "brand_domain": advertiser.brand_domain,
        "objective": _ASSUMED_OBJECTIVE,
        "budget": {"total": str(wanted.total), "currency": wanted.currency},
        "flight": {
            "zone": str(zone_of(user.time_zone)),
            "start": wanted.start.isoformat(),
            "end": wanted.end.isoformat(),
        },
        "channels": list(dict.fromkeys(_channel(word) for word in wanted.channels)),
        "geography": {"countries": wanted.countries},
    }


def _advertiser(user: User, named: str) -> Advertiser:
    """Return the advertiser whose name is, or begins, as stated. Raise ToolRefusedError."""
    seen = advertisers_seen(user).select_related("team").order_by("name")
    name = plain(named)
    found = list(seen.filter(name__iexact=name)) or list(seen.filter(name__istartswith=name)[:5])
    if not found:
        raise ToolRefusedError(f"There is no advertiser {quoted_name(name)} among what you may see.")
    if len(found) > 1:
        raise ToolRefusedError(f"Which one do you mean: {' or '.join(one.name for one in found)}?")
    return found[0]


def _channel(word: str) -> str:
    """Return AdCP's name of a channel. Raise ToolRefusedError."""
    found = channels_named(word)
    if not found:
        raise ToolRefusedError(f"There is no channel {quoted_name(word)}.")
    if len(found) > 1:
        raise ToolRefusedError(f"{quoted_name(word)} can be {' or '.join(found)}: say which.")
    return found[0]


def _problems_refusal(problems: Sequence[Mapping[str, str]]) -> ToolRefusedError:
    named = "; ".join(f"{one['field']} {one['problem']}" for one in problems[:5])
    return ToolRefusedError(f"The brief cannot be submitted: {plain(named)}")


DRAFT_BRIEF = Tool(
    name="draft_brief",
    description="Propose a new campaign: its brief is shown, with what is assumed, and submitted when the "
    "person confirms it.",
    arguments=BriefArguments,
    right=SUBMIT_CAMPAIGN,
    run=propose_brief,
    confirm=confirm_brief,
)
RETRY_CAMPAIGN = Tool(
    name="retry_campaign",
    description="Propose to retry a campaign that failed: from where its job failed, else its brief again.",
    arguments=CampaignArguments,
    right=VIEW_CAMPAIGN,
    run=propose_retry,
    confirm=confirm_retry,
)

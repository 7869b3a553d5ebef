"""`manage.py submit_brief`: a brief from a file becomes a campaign, and, if asked, is watched to its end."""

from __future__ import annotations

import sys
import time
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from campaigns.models import ENDED, Campaign, CampaignStatus
from campaigns.outcome import open_questions
from campaigns.parsing import UnparseableBriefError, brief_parse
from campaigns.services import BriefRefusedError, SubmissionRefusedError, campaign_submit
from orders.amounts import deal_amounts
from orders.models import Deal
from tasks_app.approvals.models import Approval
from tasks_app.management.base import DeskCommand, read_file, refuse, table, user_named
from tasks_app.management.people import deciders, holders
from tasks_app.people.models import User
from tasks_app.people.roles import SUBMIT_CAMPAIGN

_LOOK_EVERY_S = 0.5


class Command(DeskCommand):
    help = (
        "Submits a brief, JSON or YAML. With --wait it looks until the campaign has ended, or goes on only "
        "with a person, and prints its deals; workers must be running."
    )
    exit_codes = (
        "Exit code 0: submitted (with --wait: completed, or waiting for a person); 1: the brief is wrong, "
        "every problem is printed, or the campaign failed or had not ended in time; 2: unparseable, too "
        "large, or refused."
    )

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="the brief; -: standard input")
        parser.add_argument(
            "--as", dest="username", metavar="USER", help="who submits it; else the only user with that right"
        )
        parser.add_argument("--wait", type=float, metavar="SECONDS", help="how long to look at most")

    def run(self, **options: Any) -> None:
        wait_s = options["wait"]
        if wait_s is not None and not 0 <= wait_s <= 86_400:
            refuse("--wait takes 0 to 86400 seconds.")
        campaign = _submit(options["file"], _submitter(options["username"]))
        if wait_s is not None:
            _watch(campaign, wait_s)
        questions = list(Approval.objects.filter(pk__in=open_questions(campaign)).select_related("team"))
        self.answer(_data(campaign, questions), _lines(campaign, questions))
        if campaign.status == CampaignStatus.VALIDATION_FAILED:
            self.found(f"{campaign.reference}: the brief is wrong.")
        if campaign.status == CampaignStatus.FAILED:
            self.found(f"{campaign.reference} failed.")
        if wait_s is not None and campaign.status not in ENDED and not questions:
            self.found(f"{campaign.reference} has not ended within {wait_s:g} s; it goes on.")


def _submitter(username: str | None) -> User:
    if username is not None:
        return user_named(username)
    candidates = list(holders(SUBMIT_CAMPAIGN).filter(teams__isnull=False).distinct())
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        refuse("Nobody may submit briefs: no active user has the right and a team.")
    return refuse(f"Say who submits it, with --as: {', '.join(user.username for user in candidates)}.")


def _submit(file: str, user: User) -> Campaign:
    text = read_file(file, limit=settings.MAX_BRIEF_BYTES, stdin=sys.stdin)
    try:
        return campaign_submit(user=user, raw=brief_parse(text, name="" if file == "-" else file))
    except UnparseableBriefError as error:
        refuse(f"No campaign was made: {error}.")
    except SubmissionRefusedError as error:
        refuse(f"No campaign was made. {error}")
    except BriefRefusedError as error:
        refuse(f"No campaign was made: {error}.")


def _watch(campaign: Campaign, seconds: float) -> None:
    """Look until the campaign has ended, goes on only with a person, or the time is over."""
    until = time.monotonic() + seconds
    while True:
        campaign.refresh_from_db()
        left = until - time.monotonic()
        if campaign.status in ENDED or left <= 0 or open_questions(campaign):
            return
        time.sleep(min(left, _LOOK_EVERY_S))


def _deals(campaign: Campaign) -> list[Deal]:
    found = Deal.objects.filter(campaign_id=campaign.pk).select_related("seller").prefetch_related("lines")
    return list(found.order_by("id"))


def _data(campaign: Campaign, questions: list[Approval]) -> dict[str, Any]:
    return {
        "campaign": campaign.reference,
        "id": campaign.pk,
        "name": campaign.name,
        "status": campaign.status,
        "problems": campaign.problems,
        "deals": [
            {
                "deal": deal.reference,
                "seller": deal.seller.slug,
                "channels": [line.channel for line in deal.lines.all()],
                "status": deal.status,
                "media_buy_id": deal.media_buy_id,
                "media_buy_status": deal.media_buy_status,
                "total": deal_amounts(deal).approved,
                "currency": deal.currency,
                "differs": deal.differs,
            }
            for deal in _deals(campaign)
        ],
        "approvals": [
            {
                "approval": asked.reference,
                "title": asked.title,
                "due_at": asked.due_at,
                "may_decide": [user.username for user in deciders(asked)],
            }
            for asked in questions
        ],
    }


def _lines(campaign: Campaign, questions: list[Approval]) -> list[str]:
    lines = [f"{campaign.reference} {campaign.name}: {campaign.get_status_display().lower()}"]
    lines += [f"  {problem['field']}: {problem['problem']}" for problem in campaign.problems]
    deals = _deals(campaign)
    if deals:
        rows = [
            (d.reference, d.seller.name, ", ".join(line.channel for line in d.lines.all()),
             f"{deal_amounts(d).approved:,} {d.currency}", d.status, d.media_buy_status or "—")
            for d in deals
        ]  # fmt: skip
        lines += table(("deal", "seller", "channels", "gross", "state", "at the seller"), rows)
    for asked in questions:
        who = ", ".join(user.username for user in deciders(asked)) or "nobody who has the right"
        lines.append(f"{asked.reference} waits for {who}: {asked.title}")
    return lines

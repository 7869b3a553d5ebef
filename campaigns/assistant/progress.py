"""Tool that states how far a campaign is and what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from campaigns.assistant.scoped_campaigns import VIEW_CAMPAIGN, CampaignArguments, find_campaign
from campaigns.explain import progress_of
from campaigns.explain_words import Progress, campaign_answers
from campaigns.models import ENDED
from orders.assistant.scoped_deals import status_counts, visible_deals
from tasks_app.assistant.tools.answer_text import (
    counted_statuses,
    moment_with_zone,
    quoted_name,
    sentences,
    status_word,
)
from tasks_app.assistant.tools.facts import Row, table_of
from tasks_app.assistant.tools.objects import links_to, visible_rows
from tasks_app.assistant.tools.registry import Link, Tool, ToolAnswer
from tasks_app.desk.explain import movers_words
from tasks_app.desk.items import joined, plural
from tasks_app.people.models import User


def campaign_progress(user: User, wanted: CampaignArguments) -> ToolAnswer:
    """Return a campaign's stage and what it waits for. Raise ToolRefusedError for an unknown campaign."""
    campaign = find_campaign(user, wanted.campaign)
    counts = status_counts(visible_deals(user).filter(campaign_id=campaign.pk))
    progress = progress_of(campaign)
    waits = _waits(progress)
    asked = _question_links(progress, user)
    standing = f"is {status_word(campaign.status)} since {moment_with_zone(campaign.status_since)}"
    return ToolAnswer(
        summary=sentences(
            f"{campaign.reference} {quoted_name(campaign.name)} {standing}.",
            f"Its deals: {counted_statuses(counts)}." if counts else "It has no deals.",
            _waits_sentence(progress, waits),
            *(f"The most urgent question is {link.label}." for link in asked),
        ),
        table=table_of(list(_state_rows(counts, progress))),
        links=[*links_to("campaign", [campaign], user), *asked],
        quoted={"campaign_name": campaign.name},
        data={
            "campaign": campaign.reference,
            "status": campaign.status,
            "since": campaign.status_since.isoformat(),
            "deals_by_status": dict(counts),
            "waits_for": {what.replace(" ", "_"): count for what, count in waits.items()},
        },
    )


def _waits(progress: Progress) -> dict[str, int]:
    """Return how much of each kind the campaign waits for. The words of sellers are not among it."""
    kept = sum(progress.kept.values()) + progress.refused + progress.begun
    each = {
        "decision by people": progress.asked,
        "answer from sellers": progress.out,
        "account to become active": progress.accounts,
        "cancellation by a seller": progress.leaving,
        "step by a worker": progress.ready + progress.unasked,
        "purchase that the kill switch stops": progress.unsent,
        "account at a gate": progress.held,
        "deal that something else holds back": kept,
    }
    return {what: count for what, count in each.items() if count}


def _waits_sentence(progress: Progress, waits: Mapping[str, int]) -> str:
    if progress.status in ENDED:
        return "It has ended and waits for nothing."
    if waits:
        return f"It waits for {joined([_counted(what, count) for what, count in waits.items()])}."
    return "A worker takes its next step." if progress.job else "No job works on it."


def _counted(what: str, count: int) -> str:
    """Return "1 answer from sellers" or "2 answers from sellers"."""
    noun, _, rest = what.partition(" ")
    return f"{plural(count, noun)} {rest}"


def _question_links(progress: Progress, user: User) -> list[Link]:
    """Return a link to the most urgent open question, if the user may see it."""
    if progress.question is None:
        return []
    rows = visible_rows("approval", user).filter(reference=progress.question.reference)
    return links_to("approval", rows[:1], user)


def _state_rows(counts: Mapping[str, int], progress: Progress) -> Iterable[Row]:
    """Return deals by status and the explanation of the campaign's page, which may quote sellers."""
    for status, count in counts.items():
        yield {"What": f"deals {status_word(status)}", "Facts": count}
    answers = campaign_answers(progress)
    yield {"What": "waits for", "Facts": answers.waiting}
    yield {"What": "who acts", "Facts": movers_words(answers.movers) or "nobody: it ends here"}
    yield {"What": "if nobody acts", "Facts": answers.otherwise}
    if answers.deadline is not None:
        yield {"What": "deadline", "Facts": moment_with_zone(answers.deadline)}


CAMPAIGN_PROGRESS = Tool(
    name="campaign_progress",
    description="State how far one campaign is: its status, its deals by status, what it waits for, who can "
    "act, and what happens if nobody does.",
    arguments=CampaignArguments,
    right=VIEW_CAMPAIGN,
    run=campaign_progress,
)

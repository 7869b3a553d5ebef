"""Why a campaign stands as it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from campaigns.models import ENDED, Campaign, CampaignStatus
from campaigns.services import campaign_job
from orders.models import UNSETTLED, Deal
from tasks_app.approvals.explain import Pending, question_answers, question_pending
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.desk import text
from tasks_app.desk.explain import NOBODY, Answers, Explainer, Mover, explainer_register, page_link, stands
from tasks_app.desk.items import plural
from tasks_app.people.roles import STEER_JOB, SUBMIT_CAMPAIGN
from tasks_app.people.scope import visible

S = CampaignStatus
_JOB = "Its job"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A campaign's facts. `asked`: how many questions about its deals are open, `question` the most urgent;
    `unsettled`: deals that are neither booked nor over; `expires_at`: when its job's time is looked at."""

    status: str
    asked: int = 0
    question: Pending | None = None
    unsettled: int = 0
    job: str = ""
    expires_at: datetime | None = None


def campaign_answers(progress: Progress) -> Answers:
    """The answers for every status of a campaign. Raises KeyError for another."""
    return _STATES[S(progress.status)](progress)


def _initialized(_progress: Progress) -> Answers:
    return Answers(
        waiting="It waits for its brief to be submitted.",
        movers=(Mover(right=SUBMIT_CAMPAIGN, does="submit the brief"),),
        otherwise="Nothing is asked and nothing is bought.",
    )


def _invalid(_progress: Progress) -> Answers:
    return Answers(
        waiting="It waits for a corrected brief; the page names every problem.",
        movers=(Mover(right=SUBMIT_CAMPAIGN, does="correct the brief and submit it anew"),),
        otherwise="Nothing is asked and nothing is bought.",
    )


def _works(waiting: str) -> Callable[[Progress], Answers]:
    def answers(progress: Progress) -> Answers:
        return Answers(
            waiting=waiting,
            movers=_job_movers(progress),
            otherwise=_expiry(progress, "it goes on by itself"),
            deadline=progress.expires_at,
        )

    return answers


def _approval(progress: Progress) -> Answers:
    if progress.question is None:
        return Answers(
            waiting="Its recommendations wait for people, and all decisions are in.",
            movers=_job_movers(progress),
            otherwise=_expiry(progress, "what was approved is bought next"),
            deadline=progress.expires_at,
        )
    asked = question_answers(progress.question)
    more = f" {plural(progress.asked, 'question')} in all." if progress.asked > 1 else ""
    return Answers(
        waiting=f"{asked.waiting}{more}",
        movers=(*asked.movers, *_job_movers(progress)),
        otherwise=f"{asked.otherwise} A recommendation that expires is not bought.",
        deadline=asked.deadline,
    )


def _executing(progress: Progress) -> Answers:
    if progress.question is not None:
        return _approval(progress)
    left = plural(progress.unsettled, "deal") if progress.unsettled else "its last deal"
    return Answers(
        waiting=f"It waits for sellers to confirm {left}.",
        movers=(Mover(who="The sellers", does="confirm or refuse"), *_job_movers(progress)),
        otherwise="Each purchase has its own deadline; past it people decide whether to wait on.",
        deadline=progress.expires_at,
    )


def _completed(_progress: Progress) -> Answers:
    return Answers(
        waiting="Nothing: nothing of it is open and at least one deal was booked.",
        otherwise="It stays as it is; its deals go on by themselves.",
    )


def _failed(_progress: Progress) -> Answers:
    return Answers(
        waiting="Nothing: nothing came of it, or something of it was left open.",
        movers=(Mover(right=SUBMIT_CAMPAIGN, does="submit its brief anew"),),
        otherwise=NOBODY,
    )


def _job_movers(progress: Progress) -> tuple[Mover, ...]:
    who = f"{_JOB}, {progress.job}," if progress.job else _JOB
    return (
        Mover(who=who.rstrip(","), does="goes on step by step"),
        Mover(right=STEER_JOB, does="cancel the job"),
    )


def _expiry(progress: Progress, goes_on: str) -> str:
    if progress.expires_at is None:
        return f"Nobody has to: {goes_on}."
    return (
        f"Nobody has to: {goes_on}. Its job’s time is looked at {text.moment(progress.expires_at)}, waiting "
        "for people and sellers not counted; a job that expires fails the campaign."
    )


_STATES: dict[S, Callable[[Progress], Answers]] = {
    S.INITIALIZED: _initialized,
    S.BRIEF_RECEIVED: _works("Its brief is being validated."),
    S.VALIDATION_FAILED: _invalid,
    S.BUDGET_ALLOCATED: _works("Its budget is split; sellers are asked next."),
    S.RESEARCHING: _works("It waits for sellers to say what they have."),
    S.AWAITING_APPROVAL: _approval,
    S.EXECUTING_BOOKINGS: _executing,
    S.COMPLETED: _completed,
    S.FAILED: _failed,
}


def register() -> None:
    """Called when the application starts."""
    explainer_register(
        "campaign",
        Explainer(
            label="Campaign",
            model=Campaign,
            prefix="CMP",
            right="campaigns.view_campaign",
            rows=lambda viewer: visible(Campaign.objects.defer("brief"), viewer),
            answers=_answers,
            standing=stands,
            title=lambda campaign: campaign.name,
            link=page_link("campaigns_campaign"),
        ),
    )


def _answers(campaign: Campaign) -> Answers:
    if campaign.status in ENDED or campaign.status == S.INITIALIZED:
        return campaign_answers(Progress(status=campaign.status))
    unsettled = list(
        Deal.objects.filter(campaign_id=campaign.pk, status__in=UNSETTLED).values_list("pk", flat=True)
    )
    open_ones = Approval.objects.filter(
        subject_type="deal", subject_id__in=unsettled, status=ApprovalStatus.OPEN
    )
    asked = list(open_ones.defer("evidence").order_by("due_at") if unsettled else ())
    job = campaign_job(campaign)
    return campaign_answers(
        Progress(
            status=campaign.status,
            asked=len(asked),
            question=question_pending(asked),
            unsettled=len(unsettled),
            job=job.reference if job else "",
            expires_at=job.expires_at if job else None,
        )
    )

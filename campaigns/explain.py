"""Why a campaign stands as it does."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from campaigns.acts import campaign_retryable
from campaigns.models import ENDED, Campaign, CampaignStatus
from campaigns.outcome import CALL_OFF, booked_and_open, runs_on_words, sellers_left_out
from campaigns.services import campaign_job
from orders.accounts import UnderAccount, deal_account
from orders.explain import deal_said
from orders.models import CONFIRMED, UNSETTLED, Deal, DealStatus
from orders.questions import DEAL
from orders.selectors import questions_of
from tasks_app.approvals.explain import Pending, question_answers, question_pending, questions_movers
from tasks_app.approvals.models import ApprovalStatus
from tasks_app.commands.kill_switch import stops_shown
from tasks_app.commands.questions import gate_questions
from tasks_app.desk import text
from tasks_app.desk.explain import NOBODY, Answers, Explainer, Mover, explainer_register, page_link, stands
from tasks_app.desk.items import plural
from tasks_app.jobs.awaited import awaited_by
from tasks_app.jobs.models import JOB_OPEN, WAITING, Job, Step
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.models import Operation
from tasks_app.operations.selectors import would_be_sent
from tasks_app.people.actors import actor_named
from tasks_app.people.roles import DECIDE, STEER_JOB, SUBMIT_CAMPAIGN, TURN_KILL_SWITCH
from tasks_app.people.scope import visible
from tasks_app.sellers.explain import lets_go_movers

S = CampaignStatus
_JOB = "Its job"
_APPROVED = (DealStatus.ACCEPTED, DealStatus.BOOKING)
_DEALS_TOLD, _SELLERS_TOLD = 3, 3
_DECIDED = "Its recommendations wait for people, and all decisions are in."
_AT_A_GATE = "It goes on by itself when the gate opens; refused, that seller is left out."


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A campaign's facts. `asked`: how many questions about its deals, their purchases and their gates are
    open, `question` the most urgent; `undecided`: one of them is whether to buy at all; `together`: nothing
    is booked before all is decided. Of the deals that nobody is asked about, how many are `out` with their
    sellers, how many are to be sent (`ready`) or put to people (`unasked`), are booked and being cancelled
    (`leaving`), wait for an account that is not active (`accounts`; `accounts_off`: somebody here switched it
    off, and `lets_go`: who lets those go), cannot be bought under theirs (`refused`), or are approved and
    `unsent` while they are `stopped` (by whom, when and why; `passes`: who decides whether one of them
    passes, where people are asked). While sellers are researched: how many were asked (`out`), and how many
    are not because opening an account there is `held` at a gate.
    `runs_on`: what goes on although it has failed, in words.
    `job`: the open job that drives it, whose time is looked at `expires_at`; `retryable`: the failed one that
    may be retried; `said`: why it failed, with its sellers' words; `unheard`: those of sellers that offered
    nothing, or not all they have, while others did."""

    status: str
    asked: int = 0
    question: Pending | None = None
    undecided: bool = False
    together: bool = False
    out: int = 0
    ready: int = 0
    unasked: int = 0
    leaving: int = 0
    runs_on: str = ""
    accounts: int = 0
    accounts_off: int = 0
    lets_go: tuple[Mover, ...] = ()
    refused: int = 0
    unsent: int = 0
    held: int = 0
    stopped: str = ""
    passes: tuple[Mover, ...] = ()
    job: str = ""
    retryable: str = ""
    said: str = ""
    unheard: str = ""
    expires_at: datetime | None = None


def campaign_ways(progress: Progress) -> frozenset[str]:
    """The statuses that it can really come to next: its job leads it along the declared edges, or back."""
    status = S(progress.status)
    if status in _LED:
        return frozenset(_LED[status] if progress.job else ())
    return frozenset({S.INITIALIZED} if progress.retryable else ())


# Where its job leads a campaign to, or its job's end.
_LED: dict[S, tuple[S, ...]] = {
    S.BRIEF_RECEIVED: (S.VALIDATION_FAILED, S.BUDGET_ALLOCATED, S.FAILED),
    S.BUDGET_ALLOCATED: (S.RESEARCHING, S.FAILED),
    S.RESEARCHING: (S.AWAITING_APPROVAL, S.FAILED),
    S.AWAITING_APPROVAL: (S.EXECUTING_BOOKINGS, S.FAILED),
    S.EXECUTING_BOOKINGS: (S.COMPLETED, S.FAILED),
}


def campaign_answers(progress: Progress) -> Answers:
    """The answers for every status of a campaign. Raises KeyError for another."""
    status = S(progress.status)
    return _stopped(progress) if status in _LED and not progress.job else _STATES[status](progress)


def _initialized(_progress: Progress) -> Answers:
    return Answers(
        waiting="It was begun elsewhere and never submitted here: no job works on it.",
        movers=(_anew(),),
        otherwise=f"Nothing is asked and nothing is bought. {NOBODY}",
    )


def _invalid(_progress: Progress) -> Answers:
    return Answers(
        waiting="Its brief is wrong; the page names every problem. It goes on as a new campaign only.",
        movers=(_anew(),),
        otherwise=f"Nothing is asked and nothing is bought. {NOBODY}",
    )


def _stopped(_progress: Progress) -> Answers:
    return Answers(
        waiting="No job of ours works on it.",
        movers=(_anew(),),
        otherwise=NOBODY,
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


def _researching(progress: Progress) -> Answers:
    if not progress.held:
        return _works("It waits for sellers to say what they have.")(progress)
    asked = question_answers(progress.question) if progress.question else None
    held = f"Opening an account with {plural(progress.held, 'seller')} waits at a gate."
    why = f"{progress.stopped}." if progress.stopped else asked.waiting if asked else ""
    out = f"It waits for {plural(progress.out, 'seller')} besides." if progress.out else ""
    return Answers(
        waiting=" ".join(filter(None, (why, held, out))),
        movers=(
            *(_lets_go("then it is opened", progress) if progress.stopped else asked.movers if asked else ()),
            *_job_movers(progress),
        ),
        otherwise="Nothing leaves while it is stopped." if progress.stopped else _AT_A_GATE,
        deadline=asked.deadline if asked else progress.expires_at,
    )


def _lets_go(then: str, progress: Progress) -> Iterator[Mover]:
    """Who moves what is stopped."""
    yield Mover(right=TURN_KILL_SWITCH, does=f"let the kill switch go; {then}")
    yield from progress.passes or (Mover(right=DECIDE, does="two of them together: let one pass"),)


def _approval(progress: Progress) -> Answers:
    if progress.question is None:
        return Answers(
            waiting=f"{_DECIDED} {progress.unheard}".rstrip(),
            movers=_job_movers(progress),
            otherwise=_expiry(progress, "what was approved is bought next"),
            deadline=progress.expires_at,
        )
    asked = question_answers(progress.question)
    more = f" {plural(progress.asked, 'question')} in all." if progress.asked > 1 else ""
    return Answers(
        waiting=" ".join(
            filter(None, (f"{asked.waiting}{more}", *_underway(progress, " besides"), progress.unheard))
        ),
        movers=(*asked.movers, *_others(progress), *_job_movers(progress)),
        otherwise=" ".join((asked.otherwise, *_undecided(progress))),
        deadline=asked.deadline,
    )


def _undecided(progress: Progress) -> Iterator[str]:
    """What becomes of recommendations while people are asked about one."""
    if progress.undecided:
        yield "A recommendation that expires is not bought."
        yield (
            "Nothing is bought before all is decided." if progress.together else "What is approved is bought."
        )


def _executing(progress: Progress) -> Answers:
    if progress.question is not None:
        return _approval(progress)
    underway = list(_underway(progress))
    return Answers(
        waiting=" ".join(underway) or "All its deals are settled; its job ends it next.",
        movers=(*_others(progress), *_job_movers(progress)),
        otherwise=_if_nobody(progress),
        deadline=progress.expires_at,
    )


def _underway(progress: Progress, besides: str = "") -> Iterator[str]:
    """Whom the deals wait for that nobody is asked about, once bookings are executed."""
    if progress.status != S.EXECUTING_BOOKINGS:
        return
    if progress.unsent:
        unsent = f"{plural(progress.unsent, 'deal')} {_are(progress.unsent)}"
        yield f"{progress.stopped}. {unsent} approved and not sent."
        besides = " besides"
    if progress.accounts:
        accounts = f"{plural(progress.accounts, 'deal')} {'waits' if progress.accounts == 1 else 'wait'}"
        yield f"{accounts} for an account that is not active yet."
    if progress.refused:
        ends = f"{'its account and ends' if progress.refused == 1 else 'their accounts and end'} next"
        yield f"{plural(progress.refused, 'deal')} cannot be bought under {ends}."
    if progress.unasked:
        yield f"{plural(progress.unasked, 'deal')} {_are(progress.unasked)} put to people next."
    if progress.ready:
        yield f"{plural(progress.ready, 'deal')} {_are(progress.ready)} sent next."
    if progress.out:
        yield f"It waits for sellers to confirm {plural(progress.out, 'deal')}{besides}."
        besides = " besides"
    if progress.leaving:
        yield f"It waits for the cancellation of {plural(progress.leaving, 'booked deal')}{besides}."


def _others(progress: Progress) -> Iterator[Mover]:
    """Who moves those deals."""
    if progress.status != S.EXECUTING_BOOKINGS:
        return
    if progress.unsent:
        yield from _lets_go("then what is approved is sent", progress)
    yield from progress.lets_go
    if progress.accounts > progress.accounts_off:
        yield Mover(who="The sellers", does="make the account active")
    if progress.ready:
        yield Mover(who="A worker", does="sends what is approved")
    if progress.out or progress.leaving:
        yield Mover(who="The sellers", does="confirm or refuse")


def _if_nobody(progress: Progress) -> str:
    if progress.unsent:
        return "Nothing leaves while it is stopped."
    return "Each purchase has its own deadline; past it people decide whether to wait on."


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _completed(_progress: Progress) -> Answers:
    return Answers(
        waiting="Nothing: nothing of it is open and at least one deal was booked.",
        otherwise="It stays as it is; its deals go on by themselves.",
    )


def _failed(progress: Progress) -> Answers:
    retry = f"retry {progress.retryable}, from where it failed"
    return Answers(
        waiting=f"Nothing: {progress.runs_on or 'nothing came of it'}. {progress.said}".rstrip(),
        movers=(*((Mover(right=STEER_JOB, does=retry),) if progress.retryable else ()), _anew()),
        otherwise=NOBODY,
    )


def _anew() -> Mover:
    return Mover(right=SUBMIT_CAMPAIGN, does="submit its brief, corrected, as a new campaign")


def _job_movers(progress: Progress) -> tuple[Mover, ...]:
    return (
        Mover(who=f"{_JOB}, {progress.job}", does="goes on step by step"),
        *(Mover(right=right, does="call it off") for right in CALL_OFF),
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
    S.RESEARCHING: _researching,
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
            answers=lambda campaign: campaign_answers(progress_of(campaign)),
            standing=stands,
            title=lambda campaign: campaign.name,
            link=page_link("campaigns_campaign"),
        ),
    )


def progress_of(campaign: Campaign) -> Progress:
    """The campaign's facts as they are now."""
    if campaign.status in ENDED or campaign.status == S.INITIALIZED:
        retryable = campaign_retryable(campaign)
        return Progress(
            status=campaign.status,
            retryable=retryable.reference if retryable else "",
            said=_said(campaign) if campaign.status == S.FAILED else "",
            runs_on=_runs_on(campaign) if campaign.status == S.FAILED else "",
        )
    job = campaign_job(campaign)
    runs = job if job is not None and job.status in JOB_OPEN else None
    return Progress(
        status=campaign.status,
        together=campaign.status == S.AWAITING_APPROVAL and campaign.booking == "together",
        job=runs.reference if runs else "",
        expires_at=runs.expires_at if runs else None,
        unheard=_unheard(campaign) if campaign.status == S.AWAITING_APPROVAL else "",
        **(_research(runs) if runs and campaign.status == S.RESEARCHING else _waits(campaign)),
    )


def _research(job: Job) -> dict[str, Any]:
    """What asking the sellers waits for: opening an account at one may be held at a gate, from the beginning
    or since it was asked for."""
    awaited = awaited_by(Step.objects.filter(job=job, status__in=WAITING))
    operations, stopped = awaited.operations.values(), stops_shown().words(job.team_id)
    asked = [one for one in awaited.approvals.values() if one.status == ApprovalStatus.OPEN]
    gates = gate_questions([one.purpose for one in operations])
    answers = awaited.answers
    held = [one for one in operations if one.purpose in gates or (stopped and would_be_sent(one, answers))]
    questions = sorted([*asked, *gates.values()], key=lambda one: one.due_at)
    return {
        "asked": len(questions),
        "question": question_pending(questions),
        "out": len(operations) - len(held),
        "held": len(asked) + len(held),
        "stopped": stopped,
        "passes": questions_movers(questions) if stopped else (),
    }


def _waits(campaign: Campaign) -> dict[str, Any]:
    """Whom its open deals wait for: of one that is stopped, whoever stopped it; of one that people are asked
    about, people."""
    deals = {deal.pk: deal for deal in _open_deals(campaign)}
    stopped = stops_shown().words(campaign.team_id)
    unsent = _unsent(deals.values())
    held = unsent if stopped else set()
    booked = booked_and_open(campaign)
    found = questions_of(deals.keys() | booked)
    passes = sorted((one for pk in held for one in found.get(pk, ())), key=lambda one: one.due_at)
    questions = {pk: about for pk, about in found.items() if pk not in held}
    asked = sorted((one for about in questions.values() for one in about), key=lambda one: one.due_at)
    under = {pk: _under_account(deals[pk]) for pk in unsent - held - questions.keys()}
    accounts = [account for pk, one in under.items() if one.awaited and (account := deals[pk].account)]
    refused = sum(bool(one.refused) for one in under.values())
    off = [account for account in accounts if account.switched_off_by]
    approved = {pk for pk, deal in deals.items() if deal.status in _APPROVED}
    return {
        "asked": len(asked),
        "question": question_pending(asked),
        "undecided": any(one.kind == DEAL for one in asked),
        "out": len(approved - unsent - questions.keys()),
        "ready": len(under) - len(accounts) - refused,
        "unasked": len(deals.keys() - approved - questions.keys()),
        "leaving": len(booked - questions.keys()),
        "accounts": len(accounts),
        "accounts_off": len(off),
        "lets_go": tuple(dict.fromkeys(mover for account in off for mover in lets_go_movers(account))),
        "refused": refused,
        "unsent": len(held),
        "stopped": stopped,
        "passes": questions_movers(passes),
    }


def _runs_on(campaign: Campaign) -> str:
    """What goes on although the campaign has failed, and how it is ended; empty where nothing does."""
    statuses = Deal.objects.filter(campaign_id=campaign.pk).values_list("status", flat=True)
    found = [status for status in statuses if status in (*CONFIRMED, *UNSETTLED)]
    booked = sum(status in CONFIRMED for status in found)
    words = runs_on_words(booked, len(found) - booked)
    return f"of its deals {words}; each goes on without it, and is cancelled on its own page" if words else ""


def _unsent(deals: Iterable[Deal]) -> set[uuid.UUID]:
    """Those that are approved and have no purchase that has left."""
    approved = {deal.pk for deal in deals if deal.status in _APPROVED}
    left = Operation.objects.filter(subject_type="deal", subject_id__in=approved, sent_at__isnull=False)
    return approved - set(left.values_list("subject_id", flat=True))


def _open_deals(campaign: Campaign) -> QuerySet[Deal]:
    """With what their accounts' standing is told by."""
    deals = Deal.objects.filter(campaign_id=campaign.pk, status__in=UNSETTLED)
    named = deals.annotate(off_by=actor_named("account__switched_off_by"))
    return named.select_related("account__seller", "account__advertiser", "seller", "advertiser")


def _under_account(deal: Deal) -> UnderAccount:
    """What an approved deal that has no purchase yet waits for, or is refused by."""
    return (
        deal_account(deal, vars(deal)["off_by"] or "")
        if deal.status == DealStatus.ACCEPTED
        else UnderAccount()
    )


def _said(campaign: Campaign) -> str:
    """Why it failed, and what sellers said to those of its deals that came to nothing; the first few."""
    ended = AuditEntry.objects.filter(entity_type="campaign", entity_id=campaign.pk, to_status=S.FAILED)
    reason = ended.order_by("-seq").values_list("reason", flat=True).first() or ""
    over = (DealStatus.FAILED, DealStatus.CANCELLED)
    lost = Deal.objects.filter(campaign_id=campaign.pk, status__in=over).order_by("pk")
    told = [f"{deal.reference}: {words}" for deal in lost[:_DEALS_TOLD] if (words := deal_said(deal))]
    return " ".join(filter(None, (f"{reason.strip().rstrip('.')}." if reason else "", *told)))


def _unheard(campaign: Campaign) -> str:
    """What sellers said that are not among its recommendations for having offered nothing, or that were not
    read to their end; the first few."""
    left = sellers_left_out(campaign)
    told = [f"{_of_seller(one).rstrip('.')}." for one in left[:_SELLERS_TOLD]]
    more = f"And {plural(len(left) - _SELLERS_TOLD, 'more seller')}." if len(left) > _SELLERS_TOLD else ""
    return " ".join(("Left out:", *told, more)).rstrip() if told else ""


def _of_seller(left: dict[str, str]) -> str:
    seller, why = left["seller"], left["why"].strip()
    return why if seller in why else f"{seller}: {why}"

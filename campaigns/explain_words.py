"""Why a campaign stands as it does, in sentences: from its facts, without a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from campaigns.models import CampaignStatus
from campaigns.outcome import CALL_OFF
from tasks_app.approvals.explain import Pending, question_answers
from tasks_app.desk import text
from tasks_app.desk.explain import NOBODY, Answers, Mover
from tasks_app.desk.items import plural
from tasks_app.people.roles import DECIDE, STEER_JOB, SUBMIT_CAMPAIGN, TURN_KILL_SWITCH

S = CampaignStatus
_JOB = "Its job"
_DECIDED = "Its recommendations wait for people, and all decisions are in."
_AT_A_GATE = "It goes on by itself when the gate opens; refused, that seller is left out."


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A campaign's facts. `asked`: how many questions about its deals, their purchases and their gates are
    open, `question` the most urgent; `undecided`: one of them is whether to buy at all; `together`: nothing
    is booked before all is decided. Of the deals that nobody is asked about, how many are `out` with their
    sellers, how many are to be sent (`ready`) or put to people (`unasked`), are booked and being cancelled
    (`leaving`), wait for an account that is not active (`accounts`), cannot be bought under theirs
    (`refused`), have something else in their way (`kept`: how many, by why), are for a flight that has
    `begun`, or are approved and `unsent` while they are `stopped` (by whom, when and why; `passes`: who
    decides whether one of them passes, where people are asked; `kept_besides`: what else is in their way, as
    `kept`). `accounts_closed`: how many accounts, of all these, their sellers have to make active, `lets_go`:
    who lets those go that somebody here switched off, and `clears`: who clears the rest away. While sellers
    are researched: how many were asked (`out`), and how many are not because opening an account there is
    `held` at a gate.
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
    accounts_closed: int = 0
    lets_go: tuple[Mover, ...] = ()
    refused: int = 0
    begun: int = 0
    kept: Mapping[str, int] = field(default_factory=dict)
    kept_besides: Mapping[str, int] = field(default_factory=dict)
    clears: tuple[Mover, ...] = ()
    unsent: int = 0
    held: int = 0
    stopped: str = ""
    passes: tuple[Mover, ...] = ()
    job: str = ""
    retryable: str = ""
    said: str = ""
    unheard: str = ""
    expires_at: datetime | None = None

    @property
    def goes_on(self) -> bool:
        """Whether nothing but people, sellers that were asked, and workers has a part in what comes next."""
        kept = (self.unsent, self.begun, self.accounts, self.refused, *self.kept.values())
        return self.status != S.EXECUTING_BOOKINGS or not any(kept)


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
        movers=(*asked.movers, *deal_movers(progress), *_job_movers(progress)),
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
        movers=(*deal_movers(progress), *_job_movers(progress)),
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
    yield from _kept_back(progress)
    if progress.unasked:
        yield f"{plural(progress.unasked, 'deal')} {_are(progress.unasked)} put to people next."
    if progress.ready:
        yield f"{plural(progress.ready, 'deal')} {_are(progress.ready)} sent next."
    if progress.out:
        yield f"It waits for sellers to confirm {plural(progress.out, 'deal')}{besides}."
        besides = " besides"
    if progress.leaving:
        yield f"It waits for the cancellation of {plural(progress.leaving, 'booked deal')}{besides}."


def _kept_back(progress: Progress) -> Iterator[str]:
    """What keeps approved deals from being bought, beside people and the kill switch."""
    for why, count in progress.kept_besides.items():
        yield f"Of these {count} would not be sent otherwise either: {why}."
    if progress.begun:
        of = "its flight has" if progress.begun == 1 else "their flights have"
        yield f"{plural(progress.begun, 'deal')} {'ends' if progress.begun == 1 else 'end'} next: {of} begun."
    if progress.accounts:
        accounts = f"{plural(progress.accounts, 'deal')} {'waits' if progress.accounts == 1 else 'wait'}"
        yield f"{accounts} for an account that is not active yet."
    if progress.refused:
        ends = f"{'its account and ends' if progress.refused == 1 else 'their accounts and end'} next"
        yield f"{plural(progress.refused, 'deal')} cannot be bought under {ends}."
    for why, count in progress.kept.items():
        yield f"{plural(count, 'deal')} {_are(count)} not sent: {why}."


def deal_movers(progress: Progress) -> Iterator[Mover]:
    """Who moves those deals."""
    if progress.status != S.EXECUTING_BOOKINGS:
        return
    if progress.unsent:
        what = "what nothing else keeps" if progress.kept_besides else "what is approved"
        yield from _lets_go(f"then {what} is sent", progress)
    yield from progress.lets_go
    yield from progress.clears
    if progress.accounts_closed:
        yield Mover(who="The sellers", does="make the account active")
    if progress.ready:
        yield Mover(who="A worker", does="sends what is approved")
    if progress.out or progress.leaving:
        yield Mover(who="The sellers", does="confirm or refuse")


def _if_nobody(progress: Progress) -> str:
    unsent = progress.ready + len(progress.kept)
    said = {
        "Nothing leaves while it is stopped.": progress.unsent,
        "Each purchase that is out has its own deadline; past it people decide whether to wait on.": (
            progress.out
        ),
        "What is not sent by its deadline fails, or is put to people.": unsent,
        "What waits for its account waits on.": progress.accounts,
    }
    words = " ".join(words for words, count in said.items() if count)
    return words or "It ends by itself once nothing of it is open."


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

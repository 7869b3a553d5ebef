"""How a deal can go on from where it stands: of each declared edge what brings it about here, and who can.

The sentences of the deal's page and of its explanation come from here. An edge that nothing brings about has
no way; tests/orders/test_ways.py tries all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Q

from orders.accounts import UnderAccount, deal_account
from orders.acts import can_be_cancelled
from orders.changes.send import CHANGE
from orders.confirmation import OVER_THERE, is_ended_early
from orders.flights import deal_passed, request_passed
from orders.models import LIVE, UNDECIDED, Deal
from orders.models import DealStatus as S
from orders.questions import DEAL, DIFFERENT
from orders.seller_state import SELLERS_WORDS, way
from orders.services import end_status
from orders.unclaimed.question import UNCLAIMED
from tasks_app.approvals.lapsing import waits_on
from tasks_app.approvals.models import Approval
from tasks_app.commands.kill_switch import stops_shown
from tasks_app.commands.questions import KIND as GATE
from tasks_app.commands.questions import STOPPED
from tasks_app.desk import text
from tasks_app.desk.explain import Mover
from tasks_app.desk.items import lowered
from tasks_app.jobs.models import JOB_OPEN, Job
from tasks_app.operations.blockers import Blocker, ShutBy, Then, blockers_of, seller_blocker
from tasks_app.operations.conflicts import KIND as CONFLICT
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.operations.resend import no_effect
from tasks_app.people.roles import CANCEL_DEAL, STEER_JOB, STEER_OPERATION, SUBMIT_CAMPAIGN
from tasks_app.sellers.accounts import is_read

PURCHASE = "create_media_buy"
TO_BE_SENT = ("unsent", "again")
NO_WAY = "Nothing here brings this about"
_CAMPAIGN = ", or its campaign is called off"


@dataclass(frozen=True, kw_only=True)
class Question:
    """An open question: how it is titled, and until when it can be decided. `waits`: its deadline does not
    end it, but where it is `held` shortly before the seller's hold ends."""

    title: str
    due_at: datetime
    waits: bool = False
    held: bool = False

    @property
    def by(self) -> str:
        """By when people have to decide, for the end of a sentence; empty where they may after that."""
        return "" if self.waits else f" by {text.moment_short(self.due_at)}"

    @property
    def undecided(self) -> str:
        """When it ends without anybody's word; empty: never."""
        if self.waits:
            return "nobody decides until shortly before the seller’s hold ends" if self.held else ""
        return f"nobody decides{self.by}"


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What decides how a deal can go on.

    `asked`: the open questions about it, by kind. `job`: the open job that puts it forward, buys it or finds
    what it bought; `in_campaign`: that is its campaign's. `purchase`: "unsent", to be sent "again" (it
    left and had no effect), "out" with the seller or "over", empty where there is none; `locked_out`: its
    seller wants other credentials before that; `stopped`: who stopped what is to be sent, and why, and
    `blocker`: what else is in its way, beside gates and people; `begun`: that its flight has begun.
    `held`: the seller named its media buy; `ahead`: its
    flight has still to begin, so that it cannot be over; `cancellable`: its cancellation may be asked for.
    `taken`: where people bring it who take what a seller said second. `account_awaited`: why its account has
    still to become active, `account_read`: its seller is asked now and then whether it is;
    `account_refused`: why nothing can be bought, and `account_unless` what its seller would have to say
    first, where it may.
    """

    status: str
    seller: str = "The seller"
    asked: Mapping[str, Question] = field(default_factory=dict)
    job: str = ""
    in_campaign: bool = False
    purchase: str = ""
    locked_out: bool = False
    stopped: str = ""
    blocker: Blocker | None = None
    begun: str = ""
    taken: str = ""
    held: bool = False
    ahead: bool = False
    cancellable: bool = False
    account_awaited: str = ""
    account_read: bool = False
    account_refused: str = ""
    account_unless: str = ""

    @property
    def ends(self) -> Blocker | None:
        """What is in its way and is not waited for."""
        is_final = self.blocker is not None and self.blocker.then is Then.ENDS
        return self.blocker if is_final else None

    @property
    def gate(self) -> str:
        """The kind of the question about what is held at a closed gate; empty where nothing is."""
        return next((kind for kind in _LETS if kind in self.asked), "")

    @property
    def once_let_go(self) -> str:
        """What comes of its purchase once a gate, or the kill switch, lets it go, as the end of a sentence;
        empty where it is sent then."""
        if self.begun:
            return f"it ends without being sent: {lowered(self.begun)}"
        if self.account_refused:
            return f"it ends without being sent: {self.account_refused}"
        awaited = f"it waits for its account: {self.account_awaited}" if self.account_awaited else ""
        return "; and ".join(filter(None, (awaited, self.blocker.once_let_go if self.blocker else "")))

    @property
    def called_off(self) -> str:
        """What ends it from here, as the end of a sentence; empty where nothing does."""
        if not self.job:
            return ""
        return f"{self.job} is cancelled{_CAMPAIGN if self.in_campaign else ''}"


@dataclass(frozen=True, kw_only=True)
class Way:
    """What leads to a status. `asked`: the kind of the question that people decide."""

    words: str
    asked: str = ""


def ground_of(deal: Deal, questions: Sequence[Approval]) -> Ground:
    """Where a deal stands; `questions`: the open ones about it, the most urgent first."""
    nameless = deal.status in LIVE and not deal.media_buy_id  # its job may still find its media buy
    bought = _purchase(deal) if deal.status == S.BOOKING else None
    purchase = purchase_stage(bought) if bought else ""
    to_be_sent = deal.status == S.ACCEPTED or purchase in TO_BE_SENT
    blocker = _blocker(deal, bought) if to_be_sent else None
    looked_at = to_be_sent and not (blocker is not None and blocker.ends_first)
    job = _job(deal) if nameless or to_be_sent or deal.status in UNDECIDED else None
    account = deal_account(deal) if deal.status == S.ACCEPTED else UnderAccount()
    return Ground(
        status=deal.status,
        seller=deal.seller.name,
        asked={one.kind: _question(one) for one in reversed(questions)},
        job=job.reference if job else "",
        in_campaign=job is not None and job.subject_type == "campaign",
        purchase=purchase,
        locked_out=purchase == "again" and bought is not None and bought.status == O.AUTH_REQUIRED,
        stopped=stops_shown().words(deal.team_id) if to_be_sent else "",
        blocker=blocker,
        begun=_begun(deal, bought) if looked_at else "",
        taken=end_status(deal),
        held=bool(deal.media_buy_id),
        ahead=is_ended_early(deal, OVER_THERE),
        cancellable=can_be_cancelled(deal) and all(one.kind != CHANGE for one in questions),
        account_awaited=account.awaited,
        account_read=bool(account.awaited) and deal.account is not None and is_read(deal.account),
        account_refused=account.refused,
        account_unless=account.unless,
    )


def ways(ground: Ground) -> dict[S, Way]:
    """The statuses a deal can really come to next, with what leads there."""
    status = S(ground.status)
    if status in UNDECIDED:
        return dict(_undecided(ground))
    if status == S.ACCEPTED:
        return dict(_accepted(ground))
    if status == S.BOOKING:
        return dict(_booking(ground))
    return dict(_live(ground)) if status in LIVE else {}


def people(ground: Ground) -> tuple[Mover, ...]:
    """Who of ours can move it now, beside those who decide on its questions."""
    if ground.status in UNDECIDED:
        return (Mover(right=CANCEL_DEAL, does="withdraw it"), *_job_people(ground))
    if ground.status == S.ACCEPTED or ground.purchase == "unsent":
        return _job_people(ground)
    if ground.status == S.BOOKING and ground.purchase == "again":
        return (_STEERS, *_job_people(ground))
    if ground.status == S.BOOKING and ground.purchase == "out":
        return (_STEERS,)
    if ground.cancellable:
        return (Mover(right=CANCEL_DEAL, does="ask for it to be cancelled at the seller"),)
    return ()


_STEERS = Mover(right=STEER_OPERATION, does="ask the seller now, or stop waiting")


def _undecided(ground: Ground) -> Iterator[tuple[S, Way]]:
    call_off = f"a buyer withdraws it{_CAMPAIGN if ground.in_campaign else ''}"
    if DEAL in ground.asked:
        question = ground.asked[DEAL]
        yield S.ACCEPTED, Way(words=f"When an approver approves it{question.by}", asked=DEAL)
        if question.undecided:
            yield S.EXPIRED, Way(words=f"When {question.undecided}", asked=DEAL)
        yield S.CANCELLED, Way(words=f"When an approver rejects it{question.by}, or {call_off}", asked=DEAL)
        return
    if ground.job and ground.status == S.QUOTED:
        put = f"When {ground.job} has put it to people, and"
        yield S.ACCEPTED, Way(words=f"{put} an approver approves it")
        yield S.EXPIRED, Way(words=f"{put} nobody decides in time")
    yield S.CANCELLED, Way(words=f"When {call_off}")


def _accepted(ground: Ground) -> Iterator[tuple[S, Way]]:
    if not ground.job:
        return
    ends = ground.account_refused or (ground.ends.why if ground.ends else "")
    if not (ends or ground.begun):
        yield S.BOOKING, Way(words=_asked_for(ground), asked=ground.gate)
    elif ground.account_unless and not ground.begun:
        yield S.BOOKING, Way(words=f"Only if {ground.account_unless} when {ground.job} goes on")
    active = f" once the account is active ({ground.account_awaited})" if ground.account_awaited else ""
    goes_on = f"{ground.job} goes on{active}, for {ends}" if ends else ""
    if ground.begun:
        goes_on = f"{ground.job} goes on: {lowered(ground.begun)}"
    refused = "an approver refuses it at the gate" if ground.gate else ""
    unsent = "" if goes_on or refused else "it cannot be sent"
    words = ", or ".join(filter(None, (refused, goes_on, unsent, ground.called_off)))
    yield S.CANCELLED, Way(words=f"When {words}", asked=ground.gate)


def _asked_for(ground: Ground) -> str:
    """When its purchase is asked for."""
    kept = f"but {ground.blocker.why}" if ground.blocker else ""
    if ground.gate:
        then = f"; then {ground.once_let_go}" if ground.once_let_go else ""
        return f"When {_LETS[ground.gate]}: {ground.asked[ground.gate].title}{then}"
    if ground.stopped and ground.account_awaited:
        return f"Once the kill switch is let go and the account is active: {ground.account_awaited}"
    if ground.account_awaited:
        besides = f"; {kept}" if kept else ""
        return f"By itself, once the account is active: {ground.account_awaited}{besides}"
    asked = f"asked for, {kept}" if kept else "sent then" if ground.stopped else "sent next"
    when = "Once the kill switch is let go" if ground.stopped else "By itself"
    return f"{when}: create_media_buy is {asked}"


# What lets a purchase through a closed gate, by the kind of the question about it.
_LETS = {
    GATE: "an approver lets it through",
    STOPPED: "the kill switch is let go, or two approvers let it through",
}


def _booking(ground: Ground) -> Iterator[tuple[S, Way]]:
    late = UNCLAIMED if UNCLAIMED in ground.asked else ""
    if DEAL in ground.asked:  # not sent: it is not what people approved any more
        ends = ground.asked[DEAL].undecided
        words = f"When an approver rejects it as it is now{f', or {ends}' if ends else ''}"
        yield S.CANCELLED, Way(words=words, asked=DEAL)
        return
    if ground.purchase in TO_BE_SENT:
        yield from _to_be_sent(ground)
        return
    if ground.purchase == "out":
        yield S.BOOKED, Way(words=f"By itself, when {ground.seller} confirms")
        yield S.FAILED, Way(words=f"When {ground.seller} rejects or fails it, or people give up waiting")
        yield S.CANCELLED, Way(words=f"When {ground.seller} says that it was cancelled")
        return
    if ground.purchase:  # bought after its deadline
        yield S.BOOKED, Way(words="When an approver keeps what the seller bought late", asked=late)
        yield S.FAILED, Way(words=f"When {ground.seller} says that it is rejected")
        refused = f"When an approver refuses what was bought late, and {ground.seller} cancels what it named"
        yield S.CANCELLED, Way(words=refused, asked=late)
    elif ground.held:
        yield S.FAILED, Way(words=f"When {ground.seller} says that it is rejected")
        yield S.CANCELLED, Way(words=f"When {ground.seller} says that it is canceled")


def _to_be_sent(ground: Ground) -> Iterator[tuple[S, Way]]:
    """It has not left, or had no effect."""
    again = " again" if ground.purchase == "again" else ""
    off = ground.called_off
    if ground.begun:
        yield from _begun_unsent(ground)
        return
    gives_up = "people give up waiting" if again else ""
    at_gate = "an approver refuses it at the gate" if ground.gate else ""
    if ground.ends is not None:
        yield from _ends_unsent(ground, ground.ends, off)
        return
    kept = f"; but {ground.blocker.why}" if ground.blocker else ""
    confirmed = f"{_sent_once(ground, again)} and {ground.seller} confirms{kept}"
    yield S.BOOKED, Way(words=confirmed, asked=ground.gate)
    is_late = not again and (ground.blocker is None or ground.blocker.is_late)
    late = "it cannot be sent by its deadline" if is_late else ""
    refused = f"{ground.seller} rejects or fails it"
    fails = (late, at_gate if again else "", refused, gives_up)
    yield S.FAILED, Way(words=f"When {', or '.join(filter(None, fails))}")
    said = f"{ground.seller} says that it was cancelled"
    ends = ("" if again else at_gate, off, said)
    yield S.CANCELLED, Way(words=f"When {', or '.join(filter(None, ends))}")


def _begun_unsent(ground: Ground) -> Iterator[tuple[S, Way]]:
    """Its flight has begun: it is not sent."""
    yield S.FAILED, Way(words=f"When it comes up to be sent: {lowered(ground.begun)}")
    if ground.called_off:
        yield S.CANCELLED, Way(words=f"When {ground.called_off}")


def _sent_once(ground: Ground, again: str) -> str:
    taken = " with credentials that its seller takes" if ground.locked_out else ""
    if ground.gate:
        return f"When {_LETS[ground.gate]} ({ground.asked[ground.gate].title}), it is sent{again}{taken}"
    first = "Once the kill switch is let go, it" if ground.stopped else "By itself, once it"
    return f"{first} is sent{again}{taken}"


def _ends_unsent(ground: Ground, blocker: Blocker, off: str) -> Iterator[tuple[S, Way]]:
    """Something beside gates and people is in the way of its purchase, and is not waited for."""
    up = "it comes up to be sent"
    if ground.stopped and not blocker.comes_first:
        up = f"the kill switch is let go and {up}"
    if ground.purchase == "again":
        yield S.FAILED, Way(words=f"When {up}, or people give up waiting: {blocker.why}")
    elif not (ground.stopped and blocker.by is ShutBy.ACCOUNT):
        yield S.FAILED, Way(words=f"When {up}, or past its deadline: {blocker.why}")
    withdrawn = f"{up}, for {blocker.why}" if blocker.by is ShutBy.ACCOUNT else ""
    if ground.purchase == "again":
        withdrawn = ""
    if words := ", or ".join(filter(None, (withdrawn, off))):
        yield S.CANCELLED, Way(words=f"When {words}")


def _live(ground: Ground) -> Iterator[tuple[S, Way]]:
    """By its seller's word, where its media buy has a name, or its job may find one; or by people's."""
    said = _said(ground) if ground.held or ground.job else {}
    for to, statuses in said.items():
        words = f"By itself, when {ground.seller} says {text_or(statuses)}"
        if to == S.COMPLETED:
            words = f"{_once(ground)} {ground.seller} says completed and its delivery figures are final"
        kind = next((kind for kind in _LETS_GO if kind in ground.asked), "") if to == S.CANCELLED else ""
        yield to, Way(words=words, asked=kind)
    end = ground.taken
    if end and not ground.held and DIFFERENT in ground.asked:
        or_said = f", or {ground.seller} says {text_or(said[S(end)])}" if end in said else ""
        words = f"When an approver does not accept it{or_said}"
        yield S(end), Way(words=words, asked=DIFFERENT)
    elif end and end not in said and CONFLICT in ground.asked:
        words = f"When people take what {ground.seller} said second: {ground.asked[CONFLICT].title}"
        yield S(end), Way(words=words, asked=CONFLICT)


# Decisions that may end a media buy: refused, taken as cancelled, approved to be cancelled.
_LETS_GO = (CHANGE, DIFFERENT)


def _said(ground: Ground) -> dict[S, list[str]]:
    """What the seller says of its media buy, by the status that its word leads to first."""
    found: dict[S, list[str]] = {}
    for word in SELLERS_WORDS:
        for step in way(ground.status, word, final=True)[:1]:
            if word != OVER_THERE or not ground.ahead or step == S.COMPLETED:
                found.setdefault(step, []).append(word)
    return found


def _once(ground: Ground) -> str:
    return "Once its flight has begun, when" if ground.ahead else "By itself, when"


def text_or(words: Sequence[str]) -> str:
    """active; active or completed; a, b or c."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _job_people(ground: Ground) -> tuple[Mover, ...]:
    if not ground.job:
        return ()
    steers = Mover(right=STEER_JOB, does=f"cancel {ground.job}")
    buys = (Mover(right=SUBMIT_CAMPAIGN, does="call its campaign off"),) if ground.in_campaign else ()
    return (steers, *buys)


def _job(deal: Deal) -> Job | None:
    """The open job that puts the deal forward or buys it: its own, or its campaign's."""
    about = Q(subject_type="deal", subject_id=deal.pk)
    if deal.campaign_id is not None:
        about |= Q(subject_type="campaign", subject_id=deal.campaign_id)
    rows = Job.objects.filter(about, status__in=JOB_OPEN, parent_step=None).order_by("-id")
    return rows.only("reference", "subject_type").first()


def _question(asked: Approval) -> Question:
    return Question(
        title=asked.title, due_at=asked.due_at, waits=waits_on(asked), held=asked.hold_until is not None
    )


def _purchase(deal: Deal) -> Operation | None:
    bought = Operation.objects.filter(subject_type="deal", subject_id=deal.pk, task_type=PURCHASE)
    columns = ("settled_at", "sent_at", "status", "request")
    return bought.only(*columns).order_by("-pk").first()


def purchase_stage(purchase: Operation) -> str:
    """Where a purchase is, as a `Ground` has it."""
    if purchase.settled_at is not None:
        return "over"
    if purchase.sent_at is None:
        return "unsent"
    without_effect = Operation.objects.filter(no_effect(), pk=purchase.pk)
    return "again" if without_effect.exists() else "out"


def _begun(deal: Deal, purchase: Operation | None) -> str:
    """Why what is to be bought is not bought any more, as it is asked for, or would be."""
    return request_passed(purchase.request) if purchase is not None else deal_passed(deal)


def _blocker(deal: Deal, purchase: Operation | None) -> Blocker | None:
    """Of one that is not asked for yet its account is another question."""
    if purchase is not None:
        return blockers_of([purchase.pk]).get(purchase.pk)
    return seller_blocker(deal.seller, PURCHASE)

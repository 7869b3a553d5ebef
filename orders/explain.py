"""Why a deal stands as it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from orders.amounts import unstated
from orders.models import LIVE, UNSETTLED, Deal, DealMirror, DealStatus
from orders.questions import DEAL
from orders.selectors import questions_open
from orders.ways import TO_BE_SENT, Ground, Way, ground_of, people, text_or, ways
from tasks_app import clock
from tasks_app.approvals.explain import (
    Pending,
    people_asked,
    question_answers,
    question_mover,
    question_pending,
)
from tasks_app.desk import text
from tasks_app.desk.explain import (
    NOBODY,
    Answers,
    Explainer,
    Mover,
    explainer_register,
    page_link,
    stands,
)
from tasks_app.desk.items import lowered, raised
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.blockers import Blocker, Then, blocker_movers
from tasks_app.operations.corrections import anew_words, correction_refusal, refusal_words, refusals_about
from tasks_app.operations.explain_words import corrects
from tasks_app.operations.models import Operation
from tasks_app.people.roles import DECIDE, TURN_KILL_SWITCH
from tasks_app.people.scope import visible
from tasks_app.sellers.explain import credentials_movers, lets_go_movers

S = DealStatus
_READ = "The account is read again now and then"
_UNREAD = "Nobody reads the account again by itself: it is set on its page"
_ENDED = {
    S.COMPLETED: "Nothing: it was delivered.",
    S.FAILED: "Nothing: it came to nothing.",
    S.CANCELLED: "Nothing: it was called off.",
    S.EXPIRED: "Nothing: nobody decided in time, and nothing was bought.",
}


@dataclass(frozen=True, kw_only=True)
class Stand(Ground):
    """A deal's facts. `question`: the most urgent open one about it; `operation`: the reference of what is
    out with the seller, due at `operation_due`; `zone`: of its flight's days; `read_at`: when its media buy
    is read next; `differs`: what was booked is not what was approved; `said`: why it ended as it did, in its
    seller's words; `correctable`: the reference of its purchase, where it may be corrected; `contradicts`:
    how its seller contradicts what it said of its state before; `lets_go`: who lets its account go, where
    somebody here switched it off; `clears`: who clears away what keeps its purchase, and `renews`: who gives
    the credentials that its seller wants."""

    question: Pending | None = None
    operation: str = ""
    operation_due: datetime | None = None
    start_at: datetime | None = None
    end_at: datetime | None = None
    zone: str = ""
    read_at: datetime | None = None
    differs: bool = False
    unstated: str = ""
    said: str = ""
    correctable: str = ""
    contradicts: str = ""
    lets_go: tuple[Mover, ...] = ()
    clears: tuple[Mover, ...] = ()
    renews: tuple[Mover, ...] = ()


def deal_answers(stand: Stand) -> Answers:
    """The answers for every status of a deal. Raises KeyError for another."""
    status = S(stand.status)
    if stand.question is None or stand.stopped:
        return _STATES[status](stand)
    asked = question_answers(stand.question)
    if status in _ENDED:  # what its seller did too late, or said besides
        return replace(asked, waiting=f"{_over(stand).waiting} {people_asked(stand.question)}")
    found = _STATES[status](replace(stand, differs=False))  # the question's own words say what stays
    if status in LIVE:  # it runs on whatever people decide
        return replace(
            found,
            waiting=f"{asked.waiting} {found.waiting}",
            movers=(*asked.movers, *found.movers),
            otherwise=f"{asked.otherwise} {found.otherwise}",
            deadline=asked.deadline,
        )
    return replace(asked, movers=(*asked.movers, *found.movers))


def _undecided(stand: Stand) -> Answers:
    by = " between us and the seller" if stand.status == S.NEGOTIATING else ""
    if stand.asked or S.ACCEPTED not in ways(stand):
        return Answers(
            waiting=f"Nothing is under way about it{by}: nobody is asked, and no job of ours will ask.",
            movers=people(stand),
            otherwise=f"Nothing is bought. {NOBODY}",
        )
    return Answers(
        waiting=f"It waits to be put to people; nothing is bought{by}.",
        movers=(Mover(who=stand.job, does="puts it to people"), *people(stand)),
        otherwise="It is put to people by itself; undecided, it then expires unbought.",
    )


def _not_sent(stand: Stand) -> str:
    """What is said of a purchase that is kept."""
    out = f" ({stand.operation})" if stand.operation else ""
    again = " again" if stand.purchase == "again" else ""
    left = f" left once, {_in_vain(stand)}, and" if again else ""
    return f"It is approved; its purchase{out}{left} is not sent to {stand.seller}{again}"


def _in_vain(stand: Stand) -> str:
    """What came of a purchase that left and had no effect."""
    return f"{stand.seller} wants other credentials" if stand.locked_out else "had no effect"


def _stopped(stand: Stand) -> Answers:
    return Answers(
        waiting=f"{stand.stopped}. {_not_sent(stand)}.",
        movers=(
            Mover(right=TURN_KILL_SWITCH, does=f"let the kill switch go{_then_sent(stand)}"),
            *_opens(stand),
            question_mover(stand.question)
            if stand.question
            else Mover(right=DECIDE, does="two of them together: let this one pass"),
            *people(stand),
        ),
        otherwise="Nothing leaves while it is stopped.",
    )


def _then_sent(stand: Stand) -> str:
    return f"; then {stand.once_let_go or 'it is sent by itself'}"


def _accepted(stand: Stand) -> Answers:
    if not stand.job:
        return Answers(
            waiting="It is approved, and no job of ours buys it.",
            movers=(_nobody("has a job here that would buy it"),),
            otherwise=f"Nothing is bought. {NOBODY}",
        )
    if stand.account_refused and not stand.begun:
        return Answers(
            waiting=f"It is approved and cannot be bought: {stand.account_refused}.",
            movers=(Mover(who=stand.job, does="ends without sending anything"), *people(stand)),
            otherwise="It is cancelled when its job goes on.",
        )
    if stand.stopped:
        return _stopped(stand)
    if stand.begun:
        return _begun(stand)
    if stand.account_awaited:
        kept = f" {raised(stand.blocker.why)}." if stand.blocker else ""
        then = "it ends" if stand.ends else "it waits on" if kept else "the purchase is sent"
        return Answers(
            waiting=f"It is approved and waits for its account: {stand.account_awaited}.{kept}",
            movers=(*_opens(stand), *people(stand)),
            otherwise=f"{_READ if stand.account_read else _UNREAD}; {then} once it is active.",
        )
    if stand.blocker is not None:
        return _kept_back(stand, stand.blocker, "its job fails when it goes on, and nothing is bought")
    worker = () if stand.asked else (Mover(who="A worker", does="sends the purchase"),)
    return Answers(
        waiting=f"It is approved and waits for its purchase to be sent to {stand.seller}.",
        movers=(*worker, *people(stand)),
        otherwise="A worker sends it by itself, unless a gate (kill switch, ceiling, seller) is closed.",
    )


def _begun(stand: Stand) -> Answers:
    ends = Mover(who="A worker", does="ends it; then it can be copied with new dates")
    return Answers(
        waiting=f"{_not_sent(stand)}: {lowered(stand.begun)}.",
        movers=(ends, *people(stand)),
        otherwise="Nothing is bought.",
    )


def _opens(stand: Stand) -> tuple[Mover, ...]:
    """Who clears away what is in its way, beside people and the kill switch."""
    if not stand.account_awaited:
        return (*stand.clears, *stand.renews)
    active = Mover(who=stand.seller, does="makes the account active")
    return (*(stand.lets_go or (active,)), *stand.clears)


def _booking(stand: Stand) -> Answers:
    if stand.purchase not in (*TO_BE_SENT, "out"):
        return _booking_without(stand)
    if stand.stopped and not (stand.blocker and stand.blocker.is_over):
        return _stopped(stand)
    out = f" ({stand.operation})" if stand.operation else ""
    if stand.purchase in TO_BE_SENT:
        return _to_be_sent(stand, out)
    due = (
        f"At {text.moment(stand.operation_due)} the purchase is overdue: nothing is undone, and people "
        "decide whether to wait on."
        if stand.operation_due
        else "It stays so: a purchase of unknown outcome is never failed by us."
    )
    return Answers(
        waiting=f"{stand.seller} has the purchase{out} and has not confirmed it.",
        movers=(Mover(who=stand.seller, does="confirms or refuses"), *people(stand)),
        otherwise=due,
        deadline=stand.operation_due,
    )


def _to_be_sent(stand: Stand, out: str) -> Answers:
    """Its purchase has not left, or had no effect: it is sent next, or people are asked first."""
    if DEAL in stand.asked:
        return Answers(
            waiting=f"It is approved; its purchase{out} has not left: it is not what was approved any more.",
            movers=people(stand),
            otherwise="Nothing is bought before people have approved it as it is now.",
        )
    at = f"At {text.moment(stand.operation_due)}" if stand.operation_due else "Past its deadline"
    if stand.begun:
        return _begun(stand)
    if stand.blocker is not None:
        return _kept_back(stand, stand.blocker, "it ends as soon as it comes up, and nothing is bought", at)
    worker = () if stand.asked else (Mover(who="A worker", does="sends the purchase"),)
    left = "has not left" if stand.purchase == "unsent" else f"left once: {_in_vain(stand)}"
    return Answers(
        waiting=f"It is approved; its purchase{out} is to be sent to {stand.seller}, and {left}.",
        movers=(*stand.renews, *worker, *people(stand)),
        otherwise=f"{at} {_past_its_deadline(stand)}.",
        deadline=stand.operation_due,
    )


def _past_its_deadline(stand: Stand) -> str:
    """What becomes of a purchase that could not be sent."""
    if stand.locked_out:
        return "it is overdue, if it could not be sent, and people decide"
    if stand.purchase == "again":
        return "its seller is asked whether it has it, if it could not be sent, and people decide"
    return "it fails, if it could not be sent: nothing is bought then"


def _kept_back(stand: Stand, blocker: Blocker, ends: str, at: str = "") -> Answers:
    """Its purchase is due, and something beside gates and people is in its way. `ends`: what becomes of it
    where that is not waited for; `at`: when one that waits fails."""
    then = _COMES_OF.get(blocker.then, f"It is not waited for: {ends}.")
    if blocker.then is Then.WAITS:
        fails = f" {at} {_past_its_deadline(stand)}."
        then = f"It is sent by itself after that.{fails if at and blocker.is_late else ''}"
    return Answers(
        waiting=f"{_not_sent(stand)}: {blocker.why}.",
        movers=(*stand.clears, *stand.renews, *people(stand)),
        otherwise=then,
        deadline=stand.operation_due if blocker.is_late else None,
    )


_COMES_OF = {
    Then.ASKS: "People are asked as soon as it comes up.",
    Then.LOOKS: "Its seller is asked whether it has it, as soon as it comes up; then people decide.",
}


def _booking_without(stand: Stand) -> Answers:
    """In booking, and no purchase of ours is out: bought late, or begun elsewhere."""
    if not ways(stand):
        return Answers(
            waiting="Its purchase was never sent from here, and the seller named no media buy.",
            movers=(_nobody("can hear of it here"),),
            otherwise=NOBODY,
        )
    what = "what becomes of it" if stand.purchase else "that it came to nothing"
    return Answers(
        waiting=f"No purchase of ours is out; {stand.seller} may still say {what}.",
        movers=(Mover(who=stand.seller, does=f"says {what}"),),
        otherwise=NOBODY,
    )


def _live(stand: Stand) -> Answers:
    """With the seller. What it leads to is what the seller's word, or people, can bring about."""
    to = ways(stand)
    silent = "".join(f" {said}." for said in (stand.unstated, stand.contradicts) if said)
    if not (stand.held or stand.job):
        return Answers(
            waiting=f"{_LIVE[S(stand.status)]} {stand.seller} named no media buy, so none is read.{silent}",
            movers=(_nobody("can hear of it here"),),
            otherwise=f"It stays as it is.{_flag(stand)}",
        )
    starts = (
        f" It is booked to begin {text.moment_there(stand.start_at, stand.zone)}." if _begins(stand) else ""
    )
    ends = (
        f" It is booked until {text.moment_there(stand.end_at, stand.zone)}."
        if stand.end_at and not starts
        else ""
    )
    next_word = f"It waits for what {stand.seller} says of it next."
    return Answers(
        waiting=f"{_LIVE[S(stand.status)]} {next_word}{starts}{ends}{silent}",
        movers=(*_says(stand, to), *people(stand)),
        otherwise=f"It goes on as {stand.seller} says.{_flag(stand)}{_read(stand)}",
        deadline=stand.start_at if stand.status == S.BOOKED else stand.end_at,
    )


def _begins(stand: Stand) -> bool:
    return stand.status == S.BOOKED and stand.start_at is not None


def _says(stand: Stand, to: Mapping[S, Way]) -> tuple[Mover, ...]:
    """The seller, with what its word can make of it."""
    return (Mover(who=stand.seller, does=text_or([_SAYS[one] for one in to if one in _SAYS])),)


_LIVE = {
    S.BOOKED: "It is confirmed.",
    S.DELIVERING: "It delivers.",
    S.MAKEGOOD_PENDING: "It under-delivered, and a makegood is due.",
    S.PARTIALLY_CANCELED: "A part of it was cancelled.",
}
_SAYS = {
    S.DELIVERING: "starts delivery",
    S.COMPLETED: "calls its figures final",
    S.CANCELLED: "cancels it",
    S.FAILED: "ends it, which fails it here",
}


def _over(stand: Stand) -> Answers:
    movers = (corrects(stand.correctable),) if stand.correctable else ()
    silent = f" {stand.unstated}." if stand.unstated else ""
    waiting = f"{_ENDED[S(stand.status)]} {stand.said}".rstrip() + silent
    return Answers(waiting=waiting, otherwise=NOBODY, movers=movers)


def _nobody(why: str) -> Mover:
    return Mover(who="Nobody", does=why)


def _flag(stand: Stand) -> str:
    return (
        " What differs from what was approved stays flagged until somebody decides." if stand.differs else ""
    )


def _read(stand: Stand) -> str:
    if stand.read_at is None:
        return ""
    due = stand.read_at <= clock.now()
    return f" Its media buy is read again {'now' if due else text.moment_short(stand.read_at)}."


_STATES: dict[S, Callable[[Stand], Answers]] = {
    S.QUOTED: _undecided,
    S.NEGOTIATING: _undecided,
    S.ACCEPTED: _accepted,
    S.BOOKING: _booking,
    **dict.fromkeys(LIVE, _live),
    **dict.fromkeys(_ENDED, _over),
}


def register() -> None:
    """Called when the application starts."""
    secrets = ("token", "webhook_secret", "capabilities", "tools")
    explainer_register(
        "deal",
        Explainer(
            label="Deal",
            model=Deal,
            prefix="DEAL",
            right="orders.view_deal",
            rows=lambda viewer: visible(
                Deal.objects.select_related("seller", "advertiser").defer(
                    *(f"seller__{name}" for name in secrets)
                ),
                viewer,
            ),
            answers=_answers,
            standing=stands,
            title=lambda deal: f"{deal.seller.name} for {deal.advertiser.name}",
            link=page_link("orders_deal"),
        ),
    )


def _answers(deal: Deal) -> Answers:
    out = _out(deal) if deal.status in (*UNSETTLED, *LIVE) else None
    asked = questions_open(deal)
    mirror = getattr(deal, "mirror", None) if deal.status in LIVE else None
    lost = refusals_about("deal", deal.pk).first() if deal.status == S.FAILED else None
    account = deal.account if deal.status == S.ACCEPTED else None
    ground = ground_of(deal, asked)
    kept = ground.blocker
    return deal_answers(
        Stand(
            **vars(ground),
            clears=blocker_movers(kept, deal.seller, deal.account) if kept else (),
            renews=credentials_movers(deal.seller) if ground.locked_out and not ground.begun else (),
            question=question_pending(asked),
            operation=out.reference if out else "",
            operation_due=out.deadline_at if out else None,
            start_at=deal.start_at,
            end_at=deal.end_at,
            zone=deal.zone,
            read_at=mirror.due_at if mirror else None,
            differs=deal.differs,
            unstated=unstated(deal),
            correctable=lost.reference if lost is not None and not correction_refusal(lost) else "",
            contradicts=_contradicts(mirror) if mirror else "",
            lets_go=lets_go_movers(account) if account and account.switched_off_by else (),
            said=deal_said(deal) if deal.status in (S.FAILED, S.CANCELLED) else "",
        )
    )


def _contradicts(kept: DealMirror) -> str:
    return kept.unread if kept.older_reads else kept.restarted


def deal_said(deal: Deal) -> str:
    """Why a deal came to nothing: what its seller said to its purchase, else the reason of its end."""
    words = refusal_words("deal", deal.pk) if deal.status == S.FAILED else ""
    if words:
        lost = refusals_about("deal", deal.pk).first()
        return f"{words} {anew_words(lost) if lost else ''}".strip()
    ended = AuditEntry.objects.filter(entity_type="deal", entity_id=deal.pk, to_status=deal.status)
    reason = ended.order_by("seq").values_list("reason", flat=True).first()
    return f"{reason.strip().rstrip('.')}." if reason else ""


def _out(deal: Deal) -> Operation | None:
    """The operation about it that is not settled, the latest."""
    about = Operation.objects.filter(subject_type="deal", subject_id=deal.pk, settled_at__isnull=True)
    return about.only("reference", "deadline_at", "sent_at").order_by("-pk").first()

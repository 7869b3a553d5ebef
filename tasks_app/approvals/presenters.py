"""A question as a line of the queue and as a page. What it is about comes from the stored evidence."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.urls import reverse

from tasks_app import clock, days
from tasks_app.approvals import spending
from tasks_app.approvals.around import Place, places_about
from tasks_app.approvals.claims import claimant_of
from tasks_app.approvals.counting import given, given_on
from tasks_app.approvals.deciders import deciders
from tasks_app.approvals.evidence import Package, commitment_of, flight_of, hold_of, packages
from tasks_app.approvals.kinds import Now, kind_of, now_about, sent_by
from tasks_app.approvals.lapsing import nothing_words
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.policy_words import caught_words
from tasks_app.approvals.waiting import Waiting
from tasks_app.desk import text
from tasks_app.desk.items import lowered
from tasks_app.money import decimal_of
from tasks_app.people.actors import SYSTEM, actor_names
from tasks_app.people.models import User

_GLYPHS = {
    "booked_differently": "differs",
    "conflict": "conflict",
    "unclaimed": "overdue",
    "overdue": "overdue",
}


_NAMED = 3
_ORDINALS = {2: "second", 3: "third", 4: "fourth", 5: "fifth"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the queue or of the dashboard: an approval, or something else that waits on a person.

    `key`: its own in the queue; `link`: where it is decided; `caught`: the rule, `quorum` and `standing`: who
    decides and how many have; `age`: against the deadline, None without one; `answers`: (what can be said,
    what that does); `holder`: who has it in hand now; `amount`: what it is about, `spends` and `frees`: what
    approving it does of that.
    """

    key: str
    link: str
    title: str
    glyph: str
    kind: str
    seller: str
    caught: str
    quorum: str
    standing: str
    place: Place | None
    amount: Decimal | None
    currency: str
    asked_at: datetime
    due_at: datetime | None
    age: text.Age | None
    approval: Approval | None = None
    spends: Decimal | None = None
    frees: Decimal | None = None
    asked_by: str = ""
    holder: str = ""
    note: str = ""
    channels: str = ""
    lines: tuple[Package, ...] = ()
    flight: str = ""
    hold: str = ""
    commitment: str = ""
    answers: tuple[tuple[str, str], ...] = ()
    reference: str = ""


def glyph_of(approval: Approval) -> str:
    """The shape that stands for the kind of question."""
    return _GLYPHS.get(approval.kind, "person")


def label_of(approval: Approval) -> str:
    """The kind in words; its own name for one that nobody registered."""
    try:
        return kind_of(approval).label
    except KeyError:
        return approval.kind.replace("_", " ").capitalize()


def effects_of(approval: Approval, now: Now | None = None) -> dict[str, str]:
    """What approving for good, rejecting and doing nothing will do. `now`: how things stand about it, read
    here where it is not given."""
    try:
        kind = kind_of(approval)
    except KeyError:
        return {}
    stands = now or now_about([approval])
    particular = stands.effects.get(approval.pk, {})
    effects = {**kind.effects, **(kind.effects_for(approval) if kind.effects_for else {})}
    effects |= {answer: effect.words for answer, effect in particular.items()}
    if "nothing" in effects:
        effects["nothing"] = nothing_words(approval)
    sends = sent_by(approval) - {answer for answer, effect in particular.items() if not effect.sends}
    is_held = sends and approval.status == ApprovalStatus.OPEN
    why = stands.held(approval.team_id) if is_held else ""
    if not why:
        return effects
    for answer in sends & effects.keys():
        effects[answer] = f"Nothing leaves now. {why}. Once that is let go: {lowered(effects[answer])}"
    return effects


def still_needed(approval: Approval, *, besides: int = 1) -> str:
    """Who must approve an open question besides so many who do next: a second approver is still needed; empty
    where nobody must."""
    if approval.status != ApprovalStatus.OPEN:
        return ""
    return needed_words(approval.quorum, approval.quorum - given_on(approval) - besides)


def needed_words(quorum: int, left: int) -> str:
    """The same of a question that so many must approve, `left` of them besides who do next."""
    if left <= 0:
        return ""
    if left > 1:
        return f"{left} more approvers are still needed"
    return f"a {_ORDINALS.get(quorum, 'further')} approver is still needed"


def effects_now(approval: Approval, now: Now | None = None) -> dict[str, str]:
    """What the next person's word will do: where more must approve, theirs is recorded and no more."""
    effects, needed = effects_of(approval, now), still_needed(approval)
    return {**effects, "approve": f"Records yours; {needed}."} if effects and needed else effects


def answers_of(approval: Approval, now: Now | None = None) -> tuple[tuple[str, str], ...]:
    """The same as (Approve, Reject or Nothing; what it does)."""
    return tuple((name.capitalize(), said) for name, said in effects_now(approval, now).items())


def rows(
    approvals: Sequence[Approval],
    places: Mapping[uuid.UUID, Place],
    names: Mapping[str, str] | None = None,
    *,
    answers: bool = True,
) -> list[Row]:
    """Questions as lines of a queue; `names`: what their requesters are called; `answers`: whether what each
    answer does is shown. Each is given with its decisions."""
    now, counted = now_about(approvals) if answers else None, given(approvals)
    return [_row(one, places.get(one.subject_id), names or {}, now, counted[one.pk]) for one in approvals]


def waiting_rows(found: Sequence[Waiting], places: Mapping[uuid.UUID, Place]) -> list[Row]:
    """What waits and is no approval, as lines of the same queue."""
    return [_waiting_row(one, places.get(one.subject[1]) if one.subject else None) for one in found]


def queue_of(
    approvals: Sequence[Approval],
    others: Sequence[Waiting],
    who: User,
    *,
    named: bool = True,
    by_deadline: bool = True,
) -> list[Row]:
    """Both as one queue: the earliest deadline first, what has none last, or in the order they have
    (`by_deadline` false); in a query for each type of subject and one for requesters' names, where they and
    what answers do are shown (`named`)."""
    subjects = [(one.subject_type, one.subject_id) for one in approvals]
    subjects += [one.subject for one in others if one.subject]
    places = places_about(subjects, who)
    keys = {key for one in approvals for key in (*one.actors, claimant_of(one)) if key}
    names = actor_names(keys) if keys and named else {}
    found = [*rows(approvals, places, names, answers=named), *waiting_rows(others, places)]
    if not by_deadline:
        return found
    return sorted(found, key=lambda row: (row.due_at is None, row.due_at or row.asked_at, row.key))


def opened_words(approval: Approval, names: Mapping[str, str]) -> str:
    """Return who opened it and, if that is somebody else, on whose behalf: Flightdeck, for Tomás Ferreira.

    Args:
        approval: The approval.
        names: The name of each actor, by key.
    """
    opener = (
        "Flightdeck" if approval.opened_by == SYSTEM else names.get(approval.opened_by, approval.opened_by)
    )
    if approval.requested_by in (SYSTEM, approval.opened_by):
        return opener
    return f"{opener}, for {names.get(approval.requested_by, approval.requested_by)}"


def deciders_words(approval: Approval) -> str:
    """Who of the team can decide on an open question: Maya Lindgren or Ada Okafor; empty where it is over."""
    if approval.status != ApprovalStatus.OPEN:
        return ""
    return names_joined([str(user) for user in deciders([approval])[approval.pk]])


def names_joined(people: Sequence[str]) -> str:
    """Maya Lindgren or Ada Okafor; with many the first three and how many others."""
    if len(people) > _NAMED:
        return f"{', '.join(people[:_NAMED])} or {len(people) - _NAMED} others"
    return " or ".join([", ".join(people[:-1]), people[-1]]) if len(people) > 1 else "".join(people)


def by_due_day(found: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Rows under Overdue, Due today, Due tomorrow, Due later this week, Due later, Without a deadline; in the
    order they have."""
    groups: dict[str, list[Row]] = {}
    for row in found:
        groups.setdefault(_due_group(row.due_at), []).append(row)
    return list(groups.items())


def hold_left(hold: datetime | None) -> str:
    """43 h left, New York."""
    if hold is None:
        return ""
    left = hold - clock.now()
    return f"{text.duration(left)} {'left' if left.total_seconds() > 0 else 'past'}, {text.zone_name()}"


def digest_short(digest: str) -> str:
    """3f9a 07c2 … c21e."""
    return f"{digest[:4]} {digest[4:8]} … {digest[-4:]}"


def _row(
    approval: Approval, place: Place | None, names: Mapping[str, str], now: Now | None, approved: int
) -> Row:
    evidence = approval.evidence
    lines = packages(approval)
    caught, wanted = caught_words(approval)
    hold = hold_of(evidence)
    return Row(
        key=approval.reference,
        reference=approval.reference,
        link=reverse("admin:tasks_app_approval_change", args=[approval.pk]),
        approval=approval,
        title=_short_title(approval),
        glyph=glyph_of(approval),
        kind=label_of(approval),
        seller=str(evidence.get("seller", "")),
        channels=", ".join(dict.fromkeys(line.channel for line in lines)),
        caught=caught,
        quorum=wanted,
        standing=f"{approved} of {approval.quorum}" if approval.quorum > 1 else "",
        place=place,
        spends=spending.spends(approval),
        frees=spending.frees(approval),
        amount=place.amount if _has_its_places_amount(approval) and place else approval.amount,
        currency=approval.currency or (place.currency if place else ""),
        asked_at=approval.created_at,
        asked_by=opened_words(approval, names) if names else "",
        holder=names.get(claimant_of(approval), ""),
        due_at=approval.due_at,
        age=text.time_left(approval.created_at, approval.due_at),
        lines=tuple(lines),
        flight=flight_of(evidence) if lines else "",
        hold=text.moment(hold) if hold else "",
        commitment=commitment_of(evidence),
        answers=answers_of(approval, now) if now else (),
    )


def _has_its_places_amount(approval: Approval) -> bool:
    """Whether it is about no amount of its own; one that a seller states and nobody can count is its own."""
    return approval.amount is None and not approval.evidence.get("not_counted")


def _waiting_row(one: Waiting, place: Place | None) -> Row:
    return Row(
        key=f"{one.kind}:{one.link}",
        reference=one.reference,
        link=one.link,
        title=one.title,
        glyph=one.glyph,
        kind=one.label,
        seller=one.seller,
        caught=one.caught,
        quorum=one.who,
        standing="",
        place=place,
        amount=place.amount if place else None,
        currency=place.currency if place else "",
        asked_at=one.since,
        due_at=one.due_at,
        age=text.time_left(one.since, one.due_at) if one.due_at else None,
        note=one.note,
        answers=one.answers,
    )


def _short_title(approval: Approval) -> str:
    """What is asked, where campaign and seller stand beside it."""
    evidence = approval.evidence
    if approval.kind == "deal" and evidence.get("seller"):
        return f"Book {evidence['seller']}"
    if approval.kind == "booked_differently" and decimal_of(evidence.get("confirmed_gross")) is not None:
        confirmed = text.amount(evidence["confirmed_gross"], approval.currency)
        if evidence.get("gross") is None:  # nobody has approved anything yet
            return f"Accept {confirmed}"
        asked = text.amount(evidence["gross"], approval.currency)
        return f"Accept {confirmed} for {asked}" if confirmed != asked else "Accept what was booked"
    if approval.kind == "booked_differently":
        return "Accept what was booked"
    if approval.kind == "unclaimed":
        return "Keep or cancel an unclaimed media buy"
    if approval.kind == "overdue":
        return "Decide what to do: no answer"
    return approval.title


def _due_group(due: datetime | None) -> str:
    if due is None:
        return "Without a deadline"
    today, day = days.today(), days.day_of(due)
    if due <= clock.now():
        return "Overdue"
    if (day - today).days < 2:
        return "Due today" if day == today else "Due tomorrow"
    return "Due later this week" if day.isocalendar()[:2] == today.isocalendar()[:2] else "Due later"


def closed_word(approval: Approval, why: str) -> str:
    """How an ended question ended, for whoever looks back. `why`: the reason kept with its end."""
    said = why.strip().rstrip(".")
    return {
        ApprovalStatus.APPROVED: "Approved",
        ApprovalStatus.REJECTED: "Rejected",
        ApprovalStatus.EXPIRED: "Expired: nobody decided in time, and that never approves",
        ApprovalStatus.VOIDED: f"Voided: {said}" if said else "Voided",
    }.get(ApprovalStatus(approval.status), "")


def spent_by(found: Collection[Row]) -> list[tuple[str, Decimal]]:
    """What approving all of them spends, per currency."""
    return text.amounts((row.currency, row.spends) for row in found)


def freed_by(found: Collection[Row]) -> list[tuple[str, Decimal]]:
    """What approving all of them frees, per currency."""
    return text.amounts((row.currency, row.frees) for row in found)

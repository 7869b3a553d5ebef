"""Who asked for something hears what became of it: decided, expired, withdrawn, failed, done, and why.

Of what the system asks about that, they hear what was asked, and what an answer decided.

A subscriber of the bus, so told after the commit, at least once delivered and, by the event's own name as the
key, once told. Machines read it from the API; nobody is told of what they did themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tasks_app.approvals.kinds import decided_by, kind_of
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.selectors import approval_successor
from tasks_app.events.bus import Event, subscribe
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.names import names_of
from tasks_app.lifecycle.verify import entity_models
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import About, notify
from tasks_app.people.actors import SYSTEM, actor_names, actor_user
from tasks_app.people.models import User
from tasks_app.people.scope import asker_of

_Level = Notification.Level
# What ends, or is had, of what people ask for; a job about something else is told of by that.
ENDS: dict[str, dict[str, str]] = {
    "approval": {
        "approved": "was approved",
        "rejected": "was rejected",
        "expired": "expired",
        "voided": "was withdrawn",
    },
    "campaign": {
        "completed": "is completed",
        "failed": "failed",
        "validation_failed": "was found not valid",
    },
    "deal": {
        "booked": "is booked",
        "completed": "is completed",
        "failed": "failed",
        "cancelled": "was cancelled",
        "expired": "expired",
    },
    "job": {
        "COMPLETED": "is completed",
        "FAILED": "failed",
        "CANCELLED": "was cancelled",
        "EXPIRED": "expired",
    },
}
_GOOD = frozenset({"was approved", "is booked", "is completed"})
_IN_TIME = "Nobody decided in time"


@dataclass(frozen=True, kw_only=True)
class _End:
    """An end in words: `what` came to it, by whom (empty: by nobody in particular), and why. Of a question
    that the system asked also how it ended, in a `word` and as is `said`; empty where it is what the person
    asked for."""

    what: str
    by: str
    why: str
    word: str = ""
    said: str = ""


def register() -> None:
    """Called when the application starts."""
    types = [f"{entity}.{status}" for entity, ends in ENDS.items() for status in ends]
    subscribe("asked", types, asked_tell)


def asked_tell(event: Event) -> None:
    """Tell who asked for it of one end. Imported history is no news."""
    asker = None if event.imported else _asker(event)
    if asker is None:
        return
    entry = AuditEntry.objects.get(entity_type=event.entity_type, entity_id=event.entity_id, seq=event.seq)
    end = _WORDS[event.entity_type](entry)
    if end is None:
        return
    became = ENDS[event.entity_type][entry.to_status]
    word = end.word or became.removeprefix("was ").removeprefix("is ")
    said = end.said or f"What you asked for {became}{_by_words(end.by)}."
    reason = f"Reason: {end.why}" if end.why else ""
    notify(
        kind=f"asked_{event.entity_type}",
        title=f"{word.capitalize()}: {end.what}",
        body="\n".join(part for part in (said, reason) if part),
        level=_Level.INFO if became in _GOOD else _Level.WARNING,
        about=About(type=event.entity_type, id=event.entity_id),
        person=asker,
        key=f"asked:{':'.join(str(part) for part in event.dedup_id)}",
    )


def _asker(event: Event) -> User | None:
    """The person who asked for it, unless this was their own doing."""
    key = asker_of(event.entity_type, event.entity_id)
    person = actor_user(key) if key != event.payload["actor"] else None
    return person if person is not None and not person.is_service else None


def _approval(entry: AuditEntry) -> _End | None:
    """A question's end, with the decider's words; asked anew at once it has not ended."""
    asked, to = Approval.objects.get(pk=entry.entity_id), entry.to_status
    wished, decided = _of_its_kind(asked)
    if _is_asked_again(asked, to, wished):
        return None
    said = asked.decisions.filter(actor=entry.actor).first()
    why = said.comment if said is not None else entry.reason
    end = _End(what=f"{asked.title} ({asked.reference})", by=_by(entry), why=why)
    if not wished or to in decided:
        return _of_the_systems(end, to, decided.get(to, ""))
    return replace(end, why=f"{_IN_TIME}.") if to == ApprovalStatus.EXPIRED else end


def _is_asked_again(asked: Approval, to: str, wished: bool) -> bool:
    """Whether another took its place, of one that was withdrawn, or that the system asked and nobody decided;
    that may have been decided by now."""
    is_over = to == ApprovalStatus.VOIDED or (to == ApprovalStatus.EXPIRED and not wished)
    if not is_over:
        return False
    later = Approval.objects.filter(
        kind=asked.kind, subject_type=asked.subject_type, subject_id=asked.subject_id, pk__gt=asked.pk
    )
    return later.exists() or approval_successor(asked) is not None


def _of_its_kind(asked: Approval) -> tuple[bool, Mapping[str, str]]:
    """Whether it is what a person asked for, and what its answers decide where they are not the answer to
    that; neither is known of a kind that nobody registered."""
    try:
        return kind_of(asked).wished, decided_by(asked)
    except KeyError:
        return False, {}


def _of_the_systems(end: _End, to: str, decided: str) -> _End:
    """The end of a question that the system asked about what somebody asked for; `decided`: what that decides
    about it, in words."""
    if to == ApprovalStatus.VOIDED:
        return replace(end, said="Nobody has to decide on this any more.")
    follows = f": {decided}." if decided else "."
    if to == ApprovalStatus.EXPIRED:
        return replace(end, said=f"{_IN_TIME}{follows}", why="")
    if not decided:
        return replace(end, said=f"The question was {to}{_by_words(end.by)}.")
    return replace(end, word="decided", said=f"It was decided{_by_words(end.by)}{follows}")


def _deal(entry: AuditEntry) -> _End | None:
    """A deal's end; where a decision, or its campaign's end, called it off, that is what is told."""
    return None if {"approval", "campaign"} & entry.metadata.keys() else _other(entry)


def _job(entry: AuditEntry) -> _End | None:
    """A job's end; what it was about tells of itself where all went well, and where it has ended too."""
    jobs: Any = entity_models()["job"]._default_manager  # a room above this one
    kind, about = jobs.filter(pk=entry.entity_id).values_list("subject_type", "subject_id").get()
    if not kind:
        return _other(entry)
    return None if entry.to_status == "COMPLETED" or _has_ended(kind, about) else _other(entry)


def _has_ended(kind: str, entity_id: Any) -> bool:
    if kind not in ENDS:
        return False
    rows: Any = entity_models()[kind]._default_manager
    return bool(rows.filter(pk=entity_id, status__in=ENDS[kind]).exists())


def _other(entry: AuditEntry) -> _End | None:
    named = names_of(entry.entity_type, [entry.entity_id]).get(entry.entity_id)
    if named is None:
        return None
    what = ", ".join(dict.fromkeys(part for part in (named.reference, named.name, named.part_of) if part))
    return _End(what=what, by=_by(entry), why=entry.reason)


def _by_words(by: str) -> str:
    return f" by {by}" if by else ""


def _by(entry: AuditEntry) -> str:
    name = actor_names({entry.actor})[entry.actor]
    return "" if entry.actor == SYSTEM or name == entry.actor else name  # an agent that nobody has named


_WORDS: dict[str, Callable[[AuditEntry], _End | None]] = {
    "approval": _approval,
    "campaign": _other,
    "deal": _deal,
    "job": _job,
}

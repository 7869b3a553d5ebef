"""What an observation leads to: a verdict, from the operation as it is and what was seen; nothing is written.

First terminal observation wins, whatever channel brought it; an exact duplicate has no effect; older
news is stale; a contradiction is kept whole, for a person. Source: AdCP L3/async-identity-and-convergence,
document 000 "Async Operation Handler".
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from tasks_app import clock
from tasks_app.adcp.errors import IN_FLIGHT, TOOL_ERROR
from tasks_app.adcp.types import Seen
from tasks_app.operations import doubted, partial, policy
from tasks_app.operations.continuation import answer_due
from tasks_app.operations.lookup import after_another, after_lookup, is_fruitless, looks_on
from tasks_app.operations.matching import identities, mismatch, task_changed, unusable_task
from tasks_app.operations.models import PENDING, SETTLED, Channel, Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.news import OLDER, TOLD_ANEW, Known, is_older, is_overtaken, is_told_anew
from tasks_app.operations.resend import GARBLED, NOT_SENT, may_have_acted

_STATUS = {
    "submitted": S.SUBMITTED,
    "working": S.WORKING,
    "input-required": S.INPUT_REQUIRED,
    "auth-required": S.AUTH_REQUIRED,
    "completed": S.COMPLETED,
    "failed": S.FAILED,
    "canceled": S.CANCELED,
    "rejected": S.REJECTED,
}
_Outcome = Observation.Outcome
_MAX_MESSAGE = 2000
# A person at the seller decides: it is out, as with `submitted` (document 000 "Simulate Pending States").
_WITH_A_PERSON = frozenset({"pending_manual", "pending_approval", "requires_approval"})
# The seller knows the key and will not say what became of it (AdCP L1/security "Idempotency").
_LOST_KEY = frozenset({"IDEMPOTENCY_EXPIRED", "IDEMPOTENCY_CONFLICT"})


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What an observation leads to: the status to move to (None: stay), columns to write, and a note."""

    outcome: str
    to: str | None = None
    changes: dict[str, Any] | None = None
    note: str = ""


def judge(operation: Operation, seen: Seen, channel: str, digest: str, known: Known) -> Verdict:
    """The verdict on what was seen of a locked operation by a channel; `digest` is its identity as an end,
    `known` what was applied since it was asked for (`news.known_since`)."""
    if operation.status == S.REQUESTED:
        return Verdict(outcome=_Outcome.CONFLICT, note="nothing was sent yet")
    if is_fruitless(operation, seen, channel):
        note, columns = after_lookup(operation, seen)
        return Verdict(outcome=_Outcome.INDETERMINATE, note=note, changes=columns)
    if seen.kind != "answer":
        return _unanswered(operation, seen, channel)
    another = mismatch(operation, seen)
    if another:
        return _not_ours(operation, seen, channel, another)
    if operation.status in SETTLED:
        return _after_the_end(operation, seen, channel, digest)
    unusable = unusable_task(operation, seen)
    if unusable:
        return _not_ours(operation, seen, channel, unusable)
    if is_overtaken(operation, seen, channel, known):
        return _overtaken(operation, seen, channel)
    if seen.status == "unknown":
        return _unclear(operation, seen, channel)
    if channel == Channel.REPLY:
        return _reply(operation, seen)
    return _news(operation, seen, channel)


def _not_ours(operation: Operation, seen: Seen, channel: str, why: str) -> Verdict:
    """Told of something else: kept, and this operation is looked at as before. The answer to a call that
    names no task of ours is a person's: nobody will answer that call again. A look for it was made all the
    same, and another follows in its time, if any."""
    if task_changed(operation, seen) and is_told_anew(operation, channel):
        return Verdict(outcome=_Outcome.STALE, note=TOLD_ANEW)
    changes: dict[str, Any] = {}
    if operation.task_id:
        changes = _keep_looking(operation, seen)
    elif channel == Channel.REPLY and operation.status not in SETTLED:
        changes = _to_a_person(why)
    elif channel == Channel.RECONCILE and operation.status not in SETTLED and _is_looked_for(operation):
        changes = after_another(operation, why)
    return Verdict(outcome=_Outcome.CONFLICT, note=why[:_MAX_MESSAGE], changes=changes)


def _is_looked_for(operation: Operation) -> bool:
    """Whether a look for it is due, or under way: what a comparison comes upon beside a call that is out, or
    planned, ends nothing."""
    return operation.next_poll_at is not None and operation.next_poll_at <= clock.now()


def _reply(operation: Operation, seen: Seen) -> Verdict:
    """An answer to the call itself; some say no more than that the call failed, not the task."""
    if seen.status == "failed" and seen.error is not None:
        if seen.error.recovery == "transient":
            return _try_again(operation, seen, certain=True)
        if operation.is_mutation and _is_crash(seen):
            return _try_again(operation, seen, certain=False)
        unsure = seen.error.code in _LOST_KEY or seen.error.details.get("in_words")
        if unsure and may_have_acted(operation, observing=True):
            return Verdict(
                outcome=_Outcome.INDETERMINATE, note=why_of(seen), changes=_to_a_person(why_of(seen))
            )
    if not operation.is_mutation and seen.status == "auth-required":
        # A read is not worth waiting for new credentials: it says why and ends.
        changes = _settled(operation, seen, Channel.REPLY)
        return Verdict(outcome=_Outcome.APPLIED, to=S.FAILED, changes=changes)
    return _news(operation, seen, Channel.REPLY)


def _news(operation: Operation, seen: Seen, channel: str) -> Verdict:
    to = _STATUS[seen.status]
    if to in SETTLED:
        return Verdict(outcome=_Outcome.APPLIED, to=to, changes=_settled(operation, seen, channel))
    if operation.status == S.TIMED_OUT:
        return Verdict(
            outcome=_Outcome.INDETERMINATE,
            note="overdue: a person decides whether to wait on",
            changes={**identities(operation, seen), **_keep_looking(operation, seen)},
        )
    if is_older(operation, seen):
        changes = {**identities(operation, seen), **_keep_looking(operation, seen)}
        return Verdict(outcome=_Outcome.STALE, note=OLDER, changes=changes)
    changes = {
        **identities(operation, seen),
        "message": _said(seen) or operation.message,
        "send_at": _sent_next(operation, seen, to),
        **_keep_looking(operation, seen, status=to),
    }
    if seen.at:
        changes["seller_news_at"] = seen.at
    if to == operation.status:
        return Verdict(outcome=_Outcome.DUPLICATE, changes=changes)
    return Verdict(outcome=_Outcome.APPLIED, to=to, changes={**changes, "polls": 0})


def _sent_next(operation: Operation, seen: Seen, to: str) -> datetime | None:
    """When it is sent next, if at all. A seller that goes on by itself waits for no answer of ours."""
    if to not in (S.INPUT_REQUIRED, S.AUTH_REQUIRED):
        return None
    return answer_due(operation) or (_after_auth(operation, seen) if to == S.AUTH_REQUIRED else None)


def _after_auth(operation: Operation, seen: Seen) -> datetime | None:
    """When to send a refused call again, in case the credentials were put right; a task is polled instead."""
    if operation.task_id or seen.task_id:
        return None
    wait = policy.poll_interval(
        status=S.AUTH_REQUIRED,
        polls=operation.attempts,
        age_s=0,
        webhook=False,
        retry_after_s=seen.asks_to_wait,
        seller=operation.seller,
    )
    return clock.now() + wait


def _after_the_end(operation: Operation, seen: Seen, channel: str, digest: str) -> Verdict:
    if seen.status not in ("completed", "failed", "canceled", "rejected"):
        return _no_end(operation, seen, channel)
    winner = (
        operation.observations.filter(outcome=_Outcome.APPLIED, status=_wire(operation.status))
        .order_by("-id")
        .first()
    )
    again = doubted.look_on(operation, seen, channel)
    if winner is not None and winner.digest == digest:
        return Verdict(outcome=_Outcome.DUPLICATE, changes=again)
    same_end = winner is not None and winner.status == seen.status and partial.agrees(operation, seen)
    if same_end and seen.partial:
        note = f"{seen.status}, without the result"
        return Verdict(outcome=_Outcome.INDETERMINATE, note=note, changes=again)
    if same_end and winner is not None and winner.partial:
        return Verdict(outcome=_Outcome.APPLIED, note="the result that was missing", changes=_result(seen))
    if is_told_anew(operation, channel):
        return Verdict(outcome=_Outcome.STALE, note=TOLD_ANEW)
    return Verdict(
        outcome=_Outcome.CONFLICT, note=f"settled as {operation.status}, now told {seen.status} differently"
    )


def _no_end(operation: Operation, seen: Seen, channel: str) -> Verdict:
    """Of what has ended here: it moves nothing, but may be why the seller is asked (again)."""
    if doubted.is_doubt(operation, seen, channel):
        changes = doubted.look_soon(operation)
        return Verdict(outcome=_Outcome.INDETERMINATE, note=doubted.DOUBTED, changes=changes)
    again = doubted.look_on(operation, seen, channel)
    return Verdict(outcome=_Outcome.STALE, note="already settled", changes=again)


def _unanswered(operation: Operation, seen: Seen, channel: str) -> Verdict:
    if operation.status in SETTLED:
        again = doubted.look_on(operation, seen, channel)
        return Verdict(outcome=_Outcome.STALE, note=why_of(seen), changes=again)
    if channel != Channel.REPLY:
        return Verdict(
            outcome=_Outcome.INDETERMINATE, note=why_of(seen), changes=_keep_looking(operation, seen)
        )
    return _try_again(operation, seen, certain=not seen.request_left)


def _try_again(operation: Operation, seen: Seen, *, certain: bool, why: str = "") -> Verdict:
    """The same bytes and key once more; or the end, where nothing can have happened at the seller.

    `certain`: this attempt had no effect. A purchase of unknown outcome is never failed by us: it is
    sent again under the same key until it is overdue, and then a person's.
    """
    why = why or why_of(seen)
    if operation.task_id or operation.status == S.TIMED_OUT:
        # A webhook was faster, or the deadline: it is looked at, or a person's, not sent again.
        changes = {"send_at": answer_due(operation), **_keep_looking(operation, seen)}
        return Verdict(outcome=_Outcome.INDETERMINATE, note=why, changes=changes)
    in_flight = seen.error is not None and seen.error.code == IN_FLIGHT
    harmless = not operation.is_mutation or (certain and not may_have_acted(operation, observing=True))
    tried = 1 + operation.observations.filter(channel=Channel.REPLY, outcome=_Outcome.INDETERMINATE).count()
    if tried >= policy.max_attempts(operation.seller) and harmless and not in_flight:
        return Verdict(
            outcome=_Outcome.APPLIED,
            to=S.FAILED,
            note=f"after {tried} attempts",
            changes=_settled(operation, seen, Channel.REPLY, message=why),
        )
    again = clock.now() + policy.resend_delay(operation.attempts, seen.asks_to_wait, operation.seller)
    return Verdict(
        outcome=_Outcome.INDETERMINATE,
        note=why,
        changes={"send_at": again, "message": why[:_MAX_MESSAGE]},
    )


def _to_a_person(why: str) -> dict[str, Any]:
    """Overdue at once: sending again cannot help, and money may be committed."""
    return {"send_at": None, "deadline_at": clock.now(), "message": why[:_MAX_MESSAGE]}


def _unclear(operation: Operation, seen: Seen, channel: str) -> Verdict:
    """A status outside the enum, or a status call that failed: keep observing, never fail."""
    note = why_of(seen) if seen.error else f"the seller says {seen.raw_status!r}, which is not a task status"
    nameless = channel == Channel.REPLY and not (operation.task_id or seen.task_id)
    with_a_person = operation.is_mutation and seen.raw_status in _WITH_A_PERSON
    if nameless and operation.is_mutation and (seen.payload or {}).get("media_buy_id"):
        # It names a media buy, and not whether the task or the buy has ended: the buy is read back.
        changes = {"send_at": None, "next_poll_at": clock.now(), "message": _said(seen) or note}
        return Verdict(outcome=_Outcome.INDETERMINATE, note=note, changes=changes)
    if nameless and not with_a_person:
        return _try_again(operation, seen, certain=False, why=note)
    changes = {
        **identities(operation, seen),
        "message": _said(seen) or operation.message or note,
        "send_at": answer_due(operation),
    }
    if operation.status == S.CALLING_ADCP:
        changes |= _keep_looking(operation, seen, status=S.SUBMITTED)
        return Verdict(outcome=_Outcome.APPLIED, to=S.SUBMITTED, changes=changes, note=note)
    changes |= _keep_looking(operation, seen)
    if channel == Channel.WEBHOOK and "next_poll_at" in changes:
        changes["next_poll_at"] = clock.now()  # something has changed there: the seller is asked what
    return Verdict(outcome=_Outcome.INDETERMINATE, note=note, changes=changes)


def _overtaken(operation: Operation, seen: Seen, channel: str) -> Verdict:
    """Newer news was applied while it was on its way: nothing moves back, and the seller is asked anew, when
    that is due, however many webhooks come."""
    changes = {**identities(operation, seen), **_keep_looking(operation, seen)}
    if (operation.task_id or seen.task_id) and not seen.asks_to_wait:
        again, due = clock.now() + policy.floor(operation.seller), operation.next_poll_at
        changes["next_poll_at"] = min(again, due) if due and channel == Channel.WEBHOOK else again
    return Verdict(outcome=_Outcome.STALE, note=OLDER, changes=changes)


def _keep_looking(operation: Operation, seen: Seen, *, status: str | None = None) -> dict[str, Any]:
    """The next poll, for what is (or is about to be) pending at the seller under a known task; what has none
    there is looked up by our context."""
    status = status or operation.status
    if status not in (*PENDING, S.TIMED_OUT):
        return {}
    if not (operation.task_id or seen.task_id):
        return looks_on(operation, status)
    if status == S.TIMED_OUT and policy.given_up_for_good(operation):
        return {"next_poll_at": None}
    due = policy.next_poll(operation, status=status, now=clock.now(), retry_after_s=seen.asks_to_wait)
    if seen.replayed:
        due = clock.now()  # as old as the first answer: what holds now is read at once
    return {"next_poll_at": due}


def _settled(operation: Operation, seen: Seen, channel: str, *, message: str = "") -> dict[str, Any]:
    changes: dict[str, Any] = {
        **identities(operation, seen),
        "settled_by": channel,
        "settled_at": clock.now(),
        "message": (message or _said(seen) or why_of(seen))[:_MAX_MESSAGE],
        "send_at": None,
        **_result(seen),
        **partial.held(operation, seen),
    }
    if operation.status == S.TIMED_OUT:
        changes["published_at"] = None  # given up or not, this end is news
    if seen.at:
        changes["seller_news_at"] = seen.at
    return changes


def _result(seen: Seen) -> dict[str, Any]:
    """The end's own columns: nothing more is looked for, and it may be published."""
    changes: dict[str, Any] = {"next_poll_at": None, "publish_at": None}
    if seen.payload is not None:
        changes["result"] = seen.payload
    if seen.error is not None:
        changes["error"] = asdict(seen.error)
    return changes


def kind_of(seen: Seen) -> str:
    """As `may_have_acted` reads it: what surely never left, and what tells nothing of the outcome."""
    if not seen.request_left:
        return NOT_SENT
    return GARBLED if _is_crash(seen) else seen.kind


def _is_crash(seen: Seen) -> bool:
    """A tool that broke down in plain text: the purchase may or may not have been made."""
    return seen.status == "failed" and seen.error is not None and seen.error.code == TOOL_ERROR


def _said(seen: Seen) -> str:
    return (seen.message or "")[:_MAX_MESSAGE]


def why_of(seen: Seen) -> str:
    if seen.error is None:
        return seen.message or ""
    where = f" ({seen.error.field})" if seen.error.field else ""
    return f"{seen.error.code}{where}: {seen.error.message}".rstrip(": ")


def _wire(status: str) -> str:
    return next(wire for wire, ours in _STATUS.items() if ours == status)

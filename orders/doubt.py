"""Whether a change of a media buy that its seller calls completed was done: what its answer and its read back
show of it, which changes are in doubt, and which are still on their way."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial, reduce
from itertools import takewhile
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from orders.changes_left import cancels_all, change_without, is_nothing, wanted_of
from orders.effects import Miss, misses
from orders.models import Deal, DealMirror, lines_read_once
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.operations.pages import listed_in
from tasks_app.operations.pauses import answer_let_go, newest_let_go, request_with

# Questions about a change that may have been made or not.
CHANGE_NOT_SHOWN, LATE_CHANGE = "change_not_shown", "late_change"
_NOT_MADE = (O.CANCELED, O.FAILED, O.REJECTED)
READ_BACK = ":read_back"  # what follows a change's purpose in that of its read back


_line_stands: ContextVar[bool] = ContextVar("line_stands", default=False)


@contextmanager
def line_standing() -> Iterator[None]:
    """Between the end of one question about a change of a deal and the next, in one transaction: changes that
    wait in line are in doubt still, though people are asked about none at that moment."""
    before = _line_stands.set(True)
    try:
        yield
    finally:
        _line_stands.reset(before)


def changes_in_doubt(deal: Deal) -> list[Operation]:
    """Completed changes of a media buy that may have been done or not: they are read back, people are asked
    about them, or will be."""
    return [one.operation for one in _doubted(deal)]


def changes_awaited(deal: Deal) -> list[Operation]:
    """Those of them that a record of the media buy may show to have been done: whether one that came after
    its deadline is wanted people say, and a cancellation ends the deal."""
    return [one.operation for one in _doubted(deal) if not (one.is_asked_late or cancels(one.operation))]


def unshown(deal: Deal, operation: Operation, buy: Mapping[str, Any], *, whole: bool) -> list[Miss]:
    """What a record of the media buy does not show of what is left of a change to decide."""
    return misses(change_left(deal, operation), buy, deal, whole=whole)


def change_left(deal: Deal, operation: Operation) -> dict[str, Any]:
    """What a change decides, as people last let it go: what a newer one names that counts is no longer its.
    One that is on its way, in doubt or refused takes nothing from it."""
    answer = answer_let_go(operation, left=True)
    return _left(operation, answer, _ended_but(deal, operation), partial(package_ids, deal))


def left_of(deal: Deal, changes: Collection[Operation]) -> dict[uuid.UUID, dict[str, Any]]:
    """The same of several, by operation."""
    if not changes:
        return {}
    answers = newest_let_go([one.pk for one in changes], left=True)
    ended, names = _ended(deal, _completed(deal)), cache(partial(package_ids, deal))
    return {one.pk: _left(one, answers.get(one.pk), ended, names) for one in changes}


def _left(
    operation: Operation,
    answer: Continuation | None,
    ended: Collection[_Ended],
    names: Callable[[], list[str]],
) -> dict[str, Any]:
    return _without(request_with(operation, answer), _newer(operation, answer, ended), names)


def _without(asked: dict[str, Any], newer: Collection[Any], names: Callable[[], list[str]]) -> dict[str, Any]:
    """What `newer` changes leave of what one asked for; `names`: the packages', read where there are any."""
    return reduce(partial(change_without, package_ids=names()), newer, asked) if newer else asked


def changes_since(deal: Deal, operation: Operation) -> list[dict[str, Any]]:
    """What newer changes that count ask for, the newest first."""
    return _newer(operation, answer_let_go(operation, left=True), _ended_but(deal, operation))


def _newer(
    operation: Operation, answer: Continuation | None, ended: Collection[_Ended]
) -> list[dict[str, Any]]:
    sent = _sent_last(operation, answer)
    newer = takewhile(lambda one: one.sent >= sent, ended)
    return [one.asked for one in newer if one.counts and one.operation.pk != operation.pk]


def package_ids(deal: Deal) -> list[str]:
    """Of all packages; empty for one without a name."""
    return [line.package_id for line in deal.lines.all()]


@dataclass(frozen=True, kw_only=True)
class _Ended:
    """A completed change: what it `asked` for in all, what is `left` of that to decide, and when it was
    `sent`."""

    operation: Operation
    asked: dict[str, Any]
    left: dict[str, Any]
    sent: tuple[datetime, uuid.UUID]
    in_doubt: bool
    is_asked_late: bool
    counts: bool


def _ended_but(deal: Deal, operation: Operation) -> list[_Ended]:
    """Without one: whether it counts decides nothing of those that are newer."""
    return _ended(deal, _completed(deal).exclude(pk=operation.pk))


def _ended(deal: Deal, completed: QuerySet[Operation]) -> list[_Ended]:
    """Completed changes of a media buy, the newest first: whether one counts decides what is left of those
    before it."""
    rows = list(completed)
    if not rows:
        return []
    known = _known(deal, rows)
    # While people are asked about one, lines are compared with what each record shows.
    judged = _judged if known.since is None else lines_read_once(_judged)
    return judged(deal, rows, known)


def _judged(deal: Deal, rows: Collection[Operation], known: _Known) -> list[_Ended]:
    decided: list[dict[str, Any]] = []
    found, names = [], cache(partial(package_ids, deal))
    dated = ((_sent_last(row, known.answers.get(row.pk)), row) for row in rows)
    for sent, row in sorted(dated, key=lambda one: one[0], reverse=True):
        request = request_with(row, known.answers.get(row.pk))
        left = _without(request, decided, names)
        in_doubt = known.is_in_doubt(row, left)
        counts = not in_doubt and not known.is_refused(row)
        if counts:
            decided.append(request)
        one = _Ended(
            operation=row,
            asked=request,
            left=left,
            sent=sent,
            in_doubt=in_doubt,
            is_asked_late=known.is_asked_late(row),
            counts=counts,
        )
        found.append(one)
    return found


@dataclass(frozen=True, kw_only=True)
class _Known:
    """What was asked and answered about completed changes of a deal, read once for all of them: what came of
    people being asked (`asked`, since when, and `late`), the newest answer that left, and read backs by the
    change's purpose: where people are asked about one, of all, else those that are awaited."""

    deal: Deal
    asked: Mapping[str, str]
    since: datetime | None
    late: Mapping[uuid.UUID, str]
    answers: Mapping[uuid.UUID, Continuation]
    read_backs: Mapping[str, Operation]
    shown_late: Collection[str]

    def is_asked_late(self, row: Operation) -> bool:
        return self.late.get(row.pk) == ApprovalStatus.OPEN

    def is_refused(self, row: Operation) -> bool:
        return ApprovalStatus.REJECTED in (self.asked.get(str(row.pk)), self.late.get(row.pk))

    def is_in_doubt(self, row: Operation, left: Mapping[str, Any]) -> bool:
        """`left`: what is left of it to decide."""
        if self.is_asked_late(row):
            return True
        if str(row.pk) in self.asked:
            return self.asked[str(row.pk)] == ApprovalStatus.OPEN
        reading = self.read_backs.get(row.purpose)
        if reading is not None and reading.published_at is None:
            return True
        if self.since is None:
            return False
        late = _Late(shown=str(row.pk) in self.shown_late, wanted=_is_wanted(self.late, row))
        return _missed(self.deal, row, self.since, left, reading, late) is not None


def _known(deal: Deal, rows: Collection[Operation]) -> _Known:
    asked, since = _asked(deal)
    return _Known(
        deal=deal,
        asked=asked,
        since=since,
        late=_asked_late(rows),
        answers=newest_let_go([row.pk for row in rows], left=True),
        read_backs=_read_backs(rows, **({} if since else {"published_at": None})),
        shown_late=_shown_late(deal) if since else (),
    )


def _doubted(deal: Deal) -> list[_Ended]:
    doubted = [one for one in _ended(deal, _completed(deal)) if one.in_doubt]
    return sorted(doubted, key=lambda one: one.operation.pk)


def _completed(deal: Deal) -> QuerySet[Operation]:
    changes = _changes_of(deal).filter(status=O.COMPLETED)
    return changes.filter(purpose__startswith=f"deal:{deal.pk}:change:")


def _sent_last(operation: Operation, answer: Continuation | None) -> tuple[datetime, uuid.UUID]:
    """When its seller was last told what a change is to change: by the change, or by the newest `answer` that
    has left where that changes it, and not by one in words."""
    at = operation.sent_at or operation.created_at
    if answer is not None and wanted_of(answer.arguments) != wanted_of(operation.request):
        at = answer.dispatched_at or at
    return at, operation.pk


def changes_on_their_way(deal: Deal, operation: Operation | None = None) -> list[Mapping[str, Any]]:
    """Other changes of the same media buy that people have let go, and that the seller has not answered or of
    which nobody knows yet whether it made them."""
    but = [operation.pk] if operation is not None else []
    unanswered = list(_unanswered(deal).exclude(pk__in=but))
    answers = newest_let_go([one.pk for one in unanswered]) if unanswered else {}
    doubted = [one.left for one in _doubted(deal) if one.operation.pk not in but]
    return [*(request_with(one, answers.get(one.pk)) for one in unanswered), *doubted]


def changes_sent(deal: Deal) -> list[Mapping[str, Any]]:
    """What is left to decide of the changes of a deal's media buy that its seller was sent and has not
    answered, without those that are overdue: whether they are waited for is people's."""
    sent = _unanswered(deal).filter(sent_at__isnull=False, overdue_at__isnull=True)
    return [*left_of(deal, [one for one in sent if is_own(deal, one)]).values()]


def changes_maybe_made(deal: Deal, at: datetime) -> list[str]:
    """The changes (ids) of a deal's media buy that its seller had been sent `at` that moment, or when it came
    to state what departs now, and of which nobody knows yet whether it made them: those that people gave up
    waiting for among them."""
    stated = DealMirror.objects.filter(deal=deal).values_list("differs_at", flat=True).first()
    until = max(at, stated or at)
    unanswered = _unanswered(deal).filter(sent_at__lte=until)
    given_up = _changes_of(deal).filter(status=O.TIMED_OUT, sent_at__lte=until, published_at__isnull=False)
    doubted = [one for one in changes_in_doubt(deal) if (one.sent_at or one.created_at) <= until]
    return [str(one.pk) for one in (*unanswered, *given_up, *doubted) if is_own(deal, one)]


def _unanswered(deal: Deal) -> QuerySet[Operation]:
    unpublished = _changes_of(deal).filter(published_at__isnull=True)
    let_go = unpublished.exclude(Q(status=O.REQUESTED, send_at__isnull=True) | Q(status__in=_NOT_MADE))
    return let_go.order_by("id")


def _changes_of(deal: Deal) -> QuerySet[Operation]:
    """Of a deal's media buys, cancellations among them."""
    return Operation.objects.filter(subject_type="deal", subject_id=deal.pk, task_type="update_media_buy")


def unsure() -> Q:
    """Whether there may be `changes_in_doubt`, for a query of deals: people are asked about one, or one is
    read back."""
    own = Operation.objects.filter(subject_type="deal", subject_id=OuterRef("pk"))
    read = own.filter(task_type="get_media_buys", purpose__endswith=READ_BACK, published_at__isnull=True)
    asked = Approval.objects.filter(status=ApprovalStatus.OPEN)
    about = asked.filter(kind=CHANGE_NOT_SHOWN, subject_type="deal", subject_id=OuterRef("subject_id"))
    late = asked.filter(kind=LATE_CHANGE, subject_type="operation", subject_id=OuterRef("pk"))
    changes = own.filter(task_type="update_media_buy").filter(Exists(about) | Exists(late))
    return Q(Exists(changes)) | Q(Exists(read))


def refused_on_its_way(deal: Deal) -> bool:
    """Whether the seller is being asked to cancel a media buy because people refused what it booked."""
    cancelling = Operation.objects.filter(
        subject_type="deal",
        subject_id=deal.pk,
        task_type="update_media_buy",
        purpose__startswith=f"deal:{deal.pk}:cancel:",
        request__media_buy_id=deal.media_buy_id,
        published_at__isnull=True,
    )
    return cancelling.exclude(status__in=_NOT_MADE).exists()


def _read_backs(changes: Iterable[Operation], **of: Any) -> dict[str, Operation]:
    """Their read backs, by the change's purpose; `of`: which."""
    rows = Operation.objects.filter(purpose__in=[f"{one.purpose}{READ_BACK}" for one in changes], **of)
    return {row.purpose.removesuffix(READ_BACK): row for row in rows}


def _asked(deal: Deal) -> tuple[dict[str, str], datetime | None]:
    """Each change that people were asked about, and what came of it, open where they still are; since when,
    where of one they are and others wait in line."""
    found = Approval.objects.filter(kind=CHANGE_NOT_SHOWN, subject_type="deal", subject_id=deal.pk)
    rows = list(found.order_by("created_at").values_list("evidence__operation_id", "status", "created_at"))
    asked: dict[str, str] = dict.fromkeys(shown(deal), ApprovalStatus.VOIDED)  # nobody has to be
    for pk, status, _ in rows:
        asked[pk] = ApprovalStatus.OPEN if asked.get(pk) == ApprovalStatus.OPEN else status
    is_asked = ApprovalStatus.OPEN in asked.values() or _line_stands.get()
    return asked, rows[0][2] if rows and is_asked else None


def _asked_late(changes: Iterable[Operation]) -> dict[Any, str]:
    """Those that came after their deadline, and what came last of people being asked whether they are
    wanted."""
    found = Approval.objects.filter(
        kind=LATE_CHANGE,
        subject_type="operation",
        subject_id__in=[change.pk for change in changes],
    )
    return dict(found.order_by("pk").values_list("subject_id", "status"))


def missed_of(
    deal: Deal, operation: Operation, since: datetime, asked: Mapping[str, Any]
) -> list[Miss] | None:
    """What neither the answer to a change nor its read back shows, of one that people are to be asked about;
    None where it counts, where the read back is awaited, for what was not read back and was told before
    `since`, and for what came after its deadline unless people want it. `asked`: what is left of it to
    decide. What was read back counted not by its answer: that showed nothing, or was older than what is
    known."""
    reading = _read_backs([operation]).get(operation.purpose)
    wanted = bool(operation.overdue_at) and _is_wanted(_asked_late([operation]), operation)
    late = _Late(shown=str(operation.pk) in _shown_late(deal), wanted=wanted)
    return _missed(deal, operation, since, asked, reading, late)


@dataclass(frozen=True, kw_only=True)
class _Late:
    """Of one change: only news older than ours `shown` it; it came after its deadline, and people `wanted` it
    all the same."""

    shown: bool
    wanted: bool


def _is_wanted(late: Mapping[Any, str], operation: Operation) -> bool:
    return late.get(operation.pk) == ApprovalStatus.APPROVED


def _missed(
    deal: Deal,
    operation: Operation,
    since: datetime,
    asked: Mapping[str, Any],
    reading: Operation | None,
    late: _Late,
) -> list[Miss] | None:
    is_unwanted = operation.overdue_at and not cancels(operation) and not late.wanted
    if not is_own(deal, operation) or is_unwanted or is_nothing(asked):
        return None
    missed = misses(asked, answer_of(operation), deal, whole=False)
    if reading is None:
        told_at = operation.published_at
        has_ended = late.wanted or (told_at is not None and told_at >= since)
    else:
        has_ended = reading.published_at is not None
        buy = buy_in(reading, operation)
        if buy is not None:
            missed = misses(asked, buy, deal, whole=True)
    return missed if has_ended and (not is_done(missed) or late.shown) else None


def shown_late(deal: Deal, operation: Operation) -> None:
    """Keep that only news older than ours shows a change: it does not count, and people are asked about it
    in turn. The caller holds the deal."""
    kept, _ = DealMirror.objects.get_or_create(deal=deal)
    kept.shown_late = sorted({*kept.shown_late, str(operation.pk)})
    kept.save(update_fields=["shown_late"])


def shown_keep(deal: Deal, operation: Operation) -> None:
    """Keep that a record shows a change: it counts, and nobody is asked about it, however its seller's
    records look later. The caller holds the deal."""
    kept, _ = DealMirror.objects.get_or_create(deal=deal)
    kept.shown = sorted({*kept.shown, str(operation.pk)})
    kept.save(update_fields=["shown"])


def shown(deal: Deal) -> list[str]:
    """The changes (ids) of which that is kept."""
    kept = DealMirror.objects.filter(deal=deal).values_list("shown", flat=True).first()
    return kept or []


def _shown_late(deal: Deal) -> list[str]:
    kept = DealMirror.objects.filter(deal=deal).values_list("shown_late", flat=True).first()
    return kept or []


def is_done(missed: Iterable[Miss]) -> bool:
    """Whether the seller did something, as asked or otherwise; what it never states is its task's word."""
    return all(miss.otherwise or miss.unstated for miss in missed)


def answer_of(operation: Operation) -> dict[str, Any]:
    """The answer to a change as a record of the media buy, with the packages it names."""
    return record_of(operation.result or {})


def record_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """What a task of a media buy came to as a record of it: a change names the packages that it affected."""
    return {**result, "packages": result.get("affected_packages") or result.get("packages")}


def buy_in(reading: Operation, operation: Operation) -> dict[str, Any] | None:
    buys = listed_in(reading, "media_buys")
    told = [buy for buy in buys if isinstance(buy, dict)]
    wanted = operation.request["media_buy_id"]
    return next((buy for buy in told if buy.get("media_buy_id") == wanted), None)


def cancels(operation: Operation) -> bool:
    return cancels_all(operation.request)


def is_own(deal: Deal, operation: Operation) -> bool:
    """Whether it is about the media buy that the deal holds."""
    return bool(deal.media_buy_id) and operation.request.get("media_buy_id") == deal.media_buy_id

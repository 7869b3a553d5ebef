"""What came after its deadline is a person's: a purchase is kept or cancelled, a change taken or compared.

Giving up fails the deal for good; what is kept afterwards is a new deal that follows it (document 000).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db.models import Q

from orders.booking import deal_adopt, deal_confirm
from orders.changed import change_compare, change_prove
from orders.changes import is_change
from orders.changes_left import is_nothing, wanted_of
from orders.changes_taken import change_refused
from orders.doubt import cancels, change_left
from orders.evidence import deal_evidence
from orders.following import TWICE, bought_by, twice, twice_words
from orders.lifetimes import late_ask, late_idle
from orders.models import LIVE, Deal, DealStatus
from orders.nameless import is_nameless, nameless_refused, nameless_words
from orders.questions import LATE, LATE_CHANGE, late_question
from orders.rooms import BEYOND
from orders.services import deal_cancel_at_seller, deal_locked, purchase_of
from tasks_app.approvals.kinds import Effect, Kind, Outcome, kind_register, on_closed
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.plain import as_text
from tasks_app.approvals.question import Question
from tasks_app.approvals.services import DecisionRefusedError, approval_open
from tasks_app.desk.items import joined
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.publish import on_settled
from tasks_app.operations.questions import operation_question
from tasks_app.operations.services import OperationRefusedError
from tasks_app.people.actors import SYSTEM

_NAMED = 3  # other orders named in one sentence
_KEEPS = "Keeps the media buy the seller made; where its deal was given up, as a new deal that follows it"


def register() -> None:
    """Called when the application starts."""
    on_settled(_settled)
    on_closed(_closed)
    kind_register(
        Kind(
            name=LATE,
            label="Late completion",
            apply=_purchase_decided,
            version=_deal_version,
            asks=_purchase_again,
            reopen=_reopen,
            effects={
                "approve": f"{_KEEPS}.",
                "reject": "Asks the seller to cancel it.",
                "nothing": "It exists at the seller and is not ours. It is asked about again.",
            },
            effects_for=_words,
            effects_now=_keeping,
            sends=frozenset({"reject"}),
            sends_unless=is_nameless,
            spends=True,
            outlives_job=True,
            decided={"approved": "the media buy is kept", "rejected": "the media buy is not kept"},
        )
    )
    kind_register(
        Kind(
            name=LATE_CHANGE,
            label="Late change",
            apply=_change_decided,
            version=_change_version,
            asks=lambda approval: _change_question(_change(approval)),
            reopen=_reopen_change,
            effects={
                "approve": "Takes the change as it was approved, where the seller shows it.",
                "reject": "Keeps what was approved before; the seller's change is shown as a departure, "
                "to be accepted or cancelled.",
                "nothing": "The media buy is changed at the seller and not here. It is asked about again.",
            },
            outlives_job=True,
            decided={"approved": "the change is taken", "rejected": "what was approved before is kept"},
        )
    )


def _words(approval: Approval) -> dict[str, str]:
    beyond = approval.evidence.get(BEYOND)
    kept = {"approve": f"{_KEEPS}: {beyond}."} if beyond else {}
    return {**kept, **twice_words(approval), **nameless_words(approval)}


def _keeping(asked: Sequence[Approval]) -> dict[uuid.UUID, dict[str, Effect]]:
    """What keeping each of these late purchases does beside what else stands under its purchase-order number
    now; one query for all of them."""
    beside = [one for one in asked if one.evidence.get("used_by") and not one.evidence.get(TWICE)]
    named = {order["operation"] for one in beside for order in one.evidence["used_by"]}
    orders = Operation.objects.filter(reference__in=named) if named else Operation.objects.none()
    sent = dict(orders.exclude(_never_sent()).values_list("reference", "sent_at"))
    found = {}
    for one in beside:
        said = [part for part in (one.evidence.get(BEYOND), *_under_one_number(one.evidence, sent)) if part]
        if said:
            found[one.pk] = {"approve": Effect(words=f"{_KEEPS}: {'; '.join(said)}.", sends=False)}
    return found


def _never_sent() -> Q:
    """What came to nothing before anything of it left."""
    return Q(sent_at__isnull=True, settled_at__isnull=False)


def _under_one_number(evidence: Mapping[str, Any], sent: Mapping[str, object]) -> Iterator[str]:
    """That the purchase order was used for other purchases too, or is asked for; nothing of one that came to
    nothing unsent. `sent`: when each was, by its reference."""
    number = evidence["po_number"][:60]
    orders = [
        (one["deal"] or one["operation"], sent[one["operation"]])
        for one in evidence["used_by"]
        if one["operation"] in sent
    ]
    used = [name for name, at in orders if at is not None]
    wanted = [name for name, at in orders if at is None]
    if used:
        yield f"purchase order {number} was used for {_few(used)} as well"
    if wanted:
        are = "is" if len(wanted) == 1 else "are"
        yield f"{_few(wanted)} {are} asked for under purchase order {number} as well"


def _few(names: list[str]) -> str:
    """DEAL-1, DEAL-2, DEAL-3 and 297 more."""
    more = len(names) - _NAMED
    return joined([*names[:_NAMED], f"{more:,} more"] if more > 0 else names)


def change_ask(operation: Operation) -> Approval:
    """Ask people whether a change that the seller made after its deadline is still wanted."""
    return approval_open(
        question=_change_question(operation), requested_by=operation.requested_by, opened_by=SYSTEM
    )


def _change_question(operation: Operation) -> Question:
    deal = deal_locked(_deal_id(operation))
    return operation_question(
        operation,
        kind=LATE_CHANGE,
        team=deal.team,
        title=f"{deal.seller} changed {deal.reference} after its deadline",
        evidence={
            **deal_evidence(deal),
            "media_buy_id": deal.media_buy_id,
            "change": as_text(change_left(deal, operation)),
            "answered": as_text(operation.result or {}),
            "change_in_words": json.dumps(_changed(operation), ensure_ascii=False, sort_keys=True),
        },
        policy="Completed after its deadline",
    )


def _settled(operation: Operation) -> None:
    """A cancellation is never too late: where it was done there is nothing to ask (changed.py)."""
    late = operation.status == OperationStatus.COMPLETED and operation.overdue_at is not None
    if not late or not is_change(operation) or cancels(operation):
        return
    if _is_of_a_live_deal(operation):
        _ask_or_compare(operation)


def _ask_or_compare(operation: Operation) -> None:
    """Where newer changes have decided all of it there is nothing to ask about it: what its seller does now
    is compared."""
    deal = deal_locked(_deal_id(operation))
    if is_nothing(change_left(deal, operation)):
        change_compare(deal, operation)
    else:
        change_ask(operation)


def _is_of_a_live_deal(operation: Operation) -> bool:
    """Whether there is anything left to be changed: the deal is not over and holds that media buy."""
    deal = deal_locked(_deal_id(operation))
    return deal.status in LIVE and operation.request.get("media_buy_id") == deal.media_buy_id


def _closed(approval: Approval) -> None:
    """Nobody is needed for a late purchase any more: a deal that only waited for the answer is over."""
    if approval.kind != LATE or approval.status != ApprovalStatus.VOIDED:
        return
    deal = deal_locked(approval.subject_id)
    purchase = purchase_of(deal)
    if late_idle(deal, purchase):
        late_ask(deal, purchase)


def _purchase_decided(approval: Approval, outcome: Outcome) -> None:
    deal = deal_locked(approval.subject_id)
    operation = purchase_of(deal)
    if outcome.answer == "approved":
        _kept(deal, operation, approval, outcome)
    elif outcome.answer == "rejected":
        _refused(deal, operation, approval, outcome)
    else:
        late_ask(deal, operation)


def _kept(deal: Deal, operation: Operation, approval: Approval, outcome: Outcome) -> None:
    bought_twice = twice(deal, bought_by(operation))
    if bought_twice:
        raise DecisionRefusedError("impossible", bought_twice)
    if deal.status == DealStatus.BOOKING:
        deal_confirm(deal=deal, operation=operation)
    else:
        deal_adopt(lost=deal, operation=operation, actor=outcome.actor, approval=approval)


def _refused(deal: Deal, operation: Operation, approval: Approval, outcome: Outcome) -> None:
    named = bought_by(operation)
    if not named:
        nameless_refused(deal, approval, outcome)
        return
    try:
        deal_cancel_at_seller(deal=deal, actor=outcome.actor, reason=outcome.comment, media_buy_id=named)
    except OperationRefusedError as error:
        raise DecisionRefusedError("impossible", f"It cannot be cancelled: {error}") from error


def _purchase_again(approval: Approval) -> Question:
    deal = deal_locked(approval.subject_id)
    return late_question(deal, purchase_of(deal), shown=approval.evidence.get("used_by", ()))


def _reopen(approval: Approval) -> None:
    deal = deal_locked(approval.subject_id)
    late_ask(deal, purchase_of(deal))


def _deal_version(approval: Approval) -> int | None:
    """The deal's; None where the purchase is nobody's to decide about any more."""
    deal = deal_locked(approval.subject_id)
    return None if late_idle(deal, purchase_of(deal)) else deal.version


def _change_decided(approval: Approval, outcome: Outcome) -> None:
    operation = _change(approval)
    if outcome.answer == "approved":
        change_prove(operation)
    elif outcome.answer == "rejected":
        deal = deal_locked(_deal_id(operation))
        change_refused(deal, operation)
        change_compare(deal, operation)
    else:
        change_ask(operation)


def _reopen_change(approval: Approval) -> None:
    change_ask(_change(approval))


def _change(approval: Approval) -> Operation:
    return Operation.objects.get(pk=approval.subject_id)


def _change_version(approval: Approval) -> int | None:
    operation = _change(approval)
    if not _is_of_a_live_deal(operation):
        return None
    left = change_left(deal_locked(_deal_id(operation)), operation)
    return None if is_nothing(left) else operation.version


def _changed(operation: Operation) -> dict[str, Any]:
    """What the change asks for by now, and no newer one has decided."""
    return wanted_of(change_left(deal_locked(_deal_id(operation)), operation))


def _deal_id(operation: Operation) -> Any:
    return operation.subject_id

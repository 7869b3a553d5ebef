"""What people do about a deal themselves: withdraw it undecided, have it cancelled, have it read again.

Each takes a right and is refused with a sentence; a refusal changes nothing. To approve is not here:
decisions are taken at approvals, by somebody else.
"""

from __future__ import annotations

import uuid

from django.db import transaction

from orders.ask import Ask, AskConflictError, AskRefusedError
from orders.changes.send import CHANGE, change_ask
from orders.mirror import mirror_read_now
from orders.models import LIVE, UNDECIDED, Deal, DealStatus
from orders.services import deal_locked, deal_withdraw_held
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.services import approval_void
from tasks_app.lifecycle.transitions import Who, transition
from tasks_app.operations.services import OperationRefusedError
from tasks_app.people.actors import actor_ensure
from tasks_app.people.models import User
from tasks_app.people.roles import CANCEL_DEAL, STEER_OPERATION
from tasks_app.people.scope import visible

REASON_LENGTH = 400
_CALLS_OFF = (CANCEL_DEAL,)
_NO_RIGHT = "You have no right to call deals off."


class ActRefusedError(Exception):
    """It is not done; the text says why. Nothing has changed."""


def may_call_off(user: User) -> bool:
    """Whether the person calls deals off at all."""
    return user.is_active and user.has_perm(CANCEL_DEAL)


def may_read(user: User) -> bool:
    """Whether the person has deals read from their sellers again."""
    return user.is_active and (user.has_perm(CANCEL_DEAL) or user.has_perm(STEER_OPERATION))


def can_be_withdrawn(deal: Deal) -> bool:
    """Nobody has decided on it yet."""
    return deal.status in UNDECIDED


def can_be_cancelled(deal: Deal) -> bool:
    """The seller holds it, and it may still be called off."""
    held = deal.status in LIVE and bool(deal.media_buy_id)
    return held and DealStatus.CANCELLED in deal.declared().targets(deal.status)


def can_be_read(deal: Deal) -> bool:
    """The seller holds it."""
    return deal.status in LIVE and bool(deal.media_buy_id)


@transaction.atomic
def deal_withdraw(*, deal_id: uuid.UUID, user: User, reason: str) -> Deal:
    """Call off a deal that nobody has decided on: the questions about it are withdrawn, its budget is free.

    Raises ActRefusedError, TransitionError.
    """
    _check(may_call_off(user), _NO_RIGHT, reason)
    _mine(deal_id, user)
    asked = Approval.objects.filter(subject_type="deal", subject_id=deal_id, status=ApprovalStatus.OPEN)
    open_now = list(asked.order_by("pk").select_for_update(no_key=True))  # before the deal, as decisions do
    deal = deal_locked(deal_id)
    if not can_be_withdrawn(deal):
        raise ActRefusedError(f"{deal.reference} is {deal.status}: it was decided on meanwhile.")
    for approval in open_now:
        why = f"Withdrawn by {user}: {reason.strip()}"[:500]
        approval_void(approval=approval, reason=why, actor=user, rights=_CALLS_OFF)
    transition(deal, DealStatus.CANCELLED, actor=actor_ensure(user=user), reason=reason.strip())
    deal_withdraw_held(deal=deal, reason=reason.strip(), actor=user, rights=_CALLS_OFF)
    return deal


@transaction.atomic
def deal_cancel_ask(*, deal_id: uuid.UUID, user: User, reason: str, opened_by: Who | None = None) -> Approval:
    """Ask people whether a media buy is cancelled at its seller; return the approval.

    Args:
        deal_id: The deal.
        user: Who wants it cancelled.
        reason: Why, at most 400 characters.
        opened_by: Who acted, if that is somebody else.

    Raises:
        ActRefusedError: It is not possible. Nothing has changed.
        TransitionError: The deal moved meanwhile.
    """
    _check(may_call_off(user), _NO_RIGHT, reason)
    deal = _mine(deal_id, user)
    if not can_be_cancelled(deal):
        raise ActRefusedError(f"{deal.reference} is {deal.status}: there is nothing to cancel at the seller.")
    actor_ensure(user=user)
    arguments = {
        "media_buy_id": deal.media_buy_id,
        "canceled": True,
        "cancellation_reason": reason.strip()[:500],
    }
    account = str(deal.account_id) if deal.account_id else ""
    wanted = Ask(user=user, task="update_media_buy", seller=deal.seller, account=account, arguments=arguments)
    try:
        change_ask(wanted, opened_by=opened_by)
    except (AskRefusedError, AskConflictError, OperationRefusedError) as error:
        raise ActRefusedError(f"It cannot be asked for: {error}") from error
    asked = Approval.objects.filter(kind=CHANGE, subject_type="deal", subject_id=deal.pk)
    return asked.get(status=ApprovalStatus.OPEN)


def deal_read_again(*, deal_id: uuid.UUID, user: User) -> Deal:
    """Have the media buy read from its seller at the next pass. Changes nothing there. Raises
    ActRefusedError."""
    if not may_read(user):
        raise ActRefusedError("You have no right to have deals read again.")
    deal = _mine(deal_id, user)
    if not can_be_read(deal):
        raise ActRefusedError(f"{deal.reference} is {deal.status}: the seller holds nothing to read.")
    mirror_read_now(deal=deal)
    return deal


def _check(may: bool, no_right: str, reason: str) -> None:
    if not may:
        raise ActRefusedError(no_right)
    if not reason.strip():
        raise ActRefusedError("Say why.")
    if len(reason) > REASON_LENGTH:
        raise ActRefusedError(f"The reason is too long: at most {REASON_LENGTH} characters.")


def _mine(deal_id: uuid.UUID, user: User) -> Deal:
    deal = visible(Deal.objects.select_related("seller"), user).filter(pk=deal_id).first()
    if deal is None:
        raise ActRefusedError("There is no such deal in your teams.")
    return deal

"""A purchase, or a change of one, that its seller refused as correctable: asked for anew, corrected.

A deal that came to nothing is never reopened (document 002): the corrected purchase is a new deal that
follows it, with its own operation under its own key. People decide on it as on any other, and never who asked
for the one before or corrects it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orders.ask import Ask, AskConflictError, AskRefusedError
from orders.changes.send import change_ask
from orders.models import LIVE, Deal, DealStatus
from orders.purchases import purchase_ask
from orders.services import deal_locked
from orders.successors import duplicate_reason
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.operations.corrections import corrector_register
from tasks_app.operations.models import Operation
from tasks_app.operations.services import OperationRefusedError
from tasks_app.operations.steered import SteeringRefusedError
from tasks_app.people.actors import actor_key, actor_user
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE
from tasks_app.people.scope import asker_of

_OVER = (DealStatus.FAILED, DealStatus.CANCELLED)
_NO_DEAL = "It is about no deal."


def register() -> None:
    """Called when the application starts."""
    corrector_register("create_media_buy", _purchase_again, _why_no_purchase)
    corrector_register("update_media_buy", _change_again, _why_no_change)


def _purchase_again(operation: Operation, user: User, arguments: Mapping[str, Any]) -> Operation:
    lost = _deal(operation)
    _refused_by(_why_no_purchase(operation))
    _four_eyes(user, [*_askers(lost), asker_of("operation", operation.pk)])
    told = {name: value for name, value in arguments.items() if name not in _named(lost, arguments)}
    return _asked(_ask(operation, user, told), lost)


def _change_again(operation: Operation, user: User, arguments: Mapping[str, Any]) -> Operation:
    deal = _deal(operation)
    _refused_by(_why_no_change(operation))
    if arguments.get("media_buy_id") != deal.media_buy_id:
        raise SteeringRefusedError("arguments", f"media_buy_id: it is about {deal.media_buy_id}.")
    _four_eyes(user, [asker_of("operation", operation.pk)])
    return _asked(_ask(operation, user, arguments), None)


def _why_no_purchase(operation: Operation) -> str:
    lost = _about(operation)
    if lost is None:
        return _NO_DEAL
    return (
        f"{lost.reference} is {lost.status}: it is not over."
        if lost.status not in _OVER
        else duplicate_reason(lost)
    )


def _why_no_change(operation: Operation) -> str:
    deal = _about(operation)
    if deal is None:
        return _NO_DEAL
    about = operation.request.get("media_buy_id")
    if about != deal.media_buy_id:
        return f"It is about {about}, which {deal.reference} does not hold."
    if deal.status in LIVE:
        return ""
    return f"{deal.reference} is {deal.status}: there is nothing to change."


def _about(operation: Operation) -> Deal | None:
    if operation.subject_type != "deal" or operation.subject_id is None:
        return None
    return Deal.objects.filter(pk=operation.subject_id).first()


def _refused_by(why: str) -> None:
    if why:
        raise SteeringRefusedError("state", why)


def _asked(ask: Ask, lost: Deal | None) -> Operation:
    try:
        return purchase_ask(ask, in_place_of=lost) if lost is not None else change_ask(ask)
    except AskRefusedError as error:
        raise SteeringRefusedError("arguments", str(error)) from error
    except (AskConflictError, OperationRefusedError, TransitionError) as error:
        raise SteeringRefusedError("state", str(error)) from error


def _ask(operation: Operation, user: User, arguments: Mapping[str, Any]) -> Ask:
    return Ask(user=user, task=operation.task_type, seller=operation.seller, arguments=arguments)


def _deal(operation: Operation) -> Deal:
    if operation.subject_type != "deal" or operation.subject_id is None:
        raise SteeringRefusedError("state", _NO_DEAL)
    return deal_locked(operation.subject_id)


def _named(lost: Deal, arguments: Mapping[str, Any]) -> set[str]:
    """The purchase-order number that was only the deal's own: the new one has its own."""
    return {"po_number"} if arguments.get("po_number") == lost.reference else set()


def _four_eyes(user: User, askers: list[str]) -> None:
    """Who corrects asks from now on. Where who asked before may decide too, nobody else corrects: they would
    decide on what they wanted themselves."""
    for person in filter(None, map(actor_user, set(askers) - {actor_key(user)})):
        if person.has_perm(DECIDE) and not person.is_service:
            raise SteeringRefusedError(
                "impossible",
                f"{person} asked for it and may decide on approvals: they correct it themselves.",
            )


def _askers(deal: Deal | None) -> Iterator[str]:
    """Who asked for a deal, and for those that it follows."""
    while deal is not None:
        yield deal.requested_by
        deal = deal.follows

"""Answers to a seller's question about a purchase, or a change, of ours: they send the whole request anew, so
they are asked about like the first one, by the same rules of money and dates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

from orders.amounts import amount_after, approved_and_left
from orders.approved import is_as_last_approved
from orders.ask import AskRefusedError, arguments_read, refuse
from orders.changes.open_changes import CHANGE, raise_reservation
from orders.changes.send import change_check, increase
from orders.evidence import MOVING, deal_evidence
from orders.flights import change_passed, flight_after, request_passed
from orders.models import Change, Deal
from orders.policy_facts import deal_facts
from orders.questions import DEAL, gross_shown, known_amount
from orders.request_rules import line_before, offered, purchase_check, purchase_currency
from orders.rooms import NOTHING, change_comes_to, room_problem
from orders.sent import TECHNICAL, request_shown
from tasks_app import clock
from tasks_app.adcp import requests
from tasks_app.adcp.values import parse_time
from tasks_app.approvals.question import Question
from tasks_app.commands.models import Command
from tasks_app.commands.questions import order_words_register
from tasks_app.lifecycle.transitions import exact
from tasks_app.money import decimal_of
from tasks_app.operations.answering import AnswerRule, Request, answer_rule_register
from tasks_app.operations.models import Operation
from tasks_app.operations.ordering import CHANGE as CHANGE_BUY
from tasks_app.operations.ordering import PLACE, order_arguments, order_sent
from tasks_app.operations.pauses import request_let_go

_PURCHASE, _CHANGE = "create_media_buy", "update_media_buy"
_KEY = "0" * 16  # stands where the answer's own will
# Of a request what no answer says otherwise.
DEALS_OWN = (
    *("account", "brand", "media_buy_id", "revision", "canceled", "proposal_id", "budget_allocation"),
    # Whether it was used is asked before the purchase leaves, and later ones are compared with it.
    "po_number",
)
# Of what is no purchase: whose it is, which is decided where it is asked for, with the rights of who asks.
WHOSE = ("account", "accounts", "brand", "media_buy_ids")


def register() -> None:
    """Called when the application starts."""
    answer_rule_register(AnswerRule(problem=_problem, question=_question, stands=_stands, released=_released))
    order_words_register(_at_a_gate)


def _deal_of(operation: Operation) -> Deal | None:
    if operation.subject_type != "deal" or operation.task_type not in (_PURCHASE, _CHANGE):
        return None
    rows = Deal.objects.select_related("seller", "team", "account", "advertiser")
    return rows.filter(pk__in=[operation.subject_id]).first()


def _problem(operation: Operation, request: Request) -> str:
    deal = _deal_of(operation)
    fixed = WHOSE if deal is None else DEALS_OWN
    changed = [name for name in fixed if request.get(name) != operation.request.get(name)]
    if changed:
        return f"{', '.join(changed)} cannot be answered: ask for that by itself."
    if deal is None:
        return ""
    why = _unreadable(deal, operation, request)
    if why:
        return why
    passed = _passed(deal, operation, request)
    if passed:
        return f"{passed}: answer with a start_time and an end_time that are still ahead."
    return room_problem(deal, _amount(deal, operation, request), before=_counted(deal, operation))


def _unreadable(deal: Deal, operation: Operation, request: Request) -> str:
    """What is wrong with the task's arguments, as they are said otherwise."""
    bare = _bare(request)
    if bare == _bare(request_let_go(operation, left=True)):
        return ""
    try:
        if operation.task_type == _CHANGE:
            changed = arguments_read(requests.UpdateMediaBuy, {**bare, "idempotency_key": _KEY})
            change_check(deal, changed)
        else:
            wire = arguments_read(requests.CreateMediaBuy, {**bare, "idempotency_key": _KEY})
            _purchase_check(deal, wire)
    except AskRefusedError as error:
        return str(error)
    return ""


def _bare(request: Request) -> dict[str, Any]:
    return {name: value for name, value in request.items() if name not in TECHNICAL}


def _purchase_check(deal: Deal, wire: requests.CreateMediaBuy) -> None:
    """Raises AskRefusedError, as where the purchase is asked for: what is compared with what the seller books
    are the deal's lines; a product that is none of theirs, as its team was offered it."""
    packages = wire.packages or []
    if len(packages) > deal.lines.count():
        refuse("arguments.packages", "are more than the deal's: ask for another by a purchase of its own")
    lines = [line_before(package, deal) for package in packages]
    heard = Operation.objects.filter(team=deal.team_id)
    others = [package for package, line in zip(packages, lines, strict=True) if line is None]
    found = iter(offered(heard, deal.seller, deal.advertiser, others))
    known = [None if line else next(found) for line in lines]
    currency = purchase_currency(wire, known, deal)
    purchase_check(wire, [line or offer for line, offer in zip(lines, known, strict=True)], currency)


def _question(operation: Operation, request: Request, question: Question) -> Question:
    deal = _deal_of(operation)
    if deal is None:
        return question
    amount, passed = known_amount(deal, _amount(deal, operation, request)), _passed(deal, operation, request)
    evidence: dict[str, Any] = {
        **deal_evidence(deal),
        **question.evidence,
        "sent": request_shown(request),
        "gross_after": gross_shown(deal, amount),
        **({"gross": approved_and_left(deal)} if operation.task_type == _PURCHASE else {}),
        **({"passed": passed} if passed else {}),
    }
    return replace(
        question,
        evidence=exact(evidence),
        amount=amount,
        currency=deal.currency,
        advertiser_id=deal.advertiser_id,
        facts=partial(deal_facts, deal, approved=approved_and_left(deal), flight=flight_after(deal, request)),
        judged_as=frozenset({DEAL if operation.task_type == _PURCHASE else CHANGE}),
        moving=question.moving | MOVING,
        due_at=_until(request) if operation.task_type == _PURCHASE else None,
    )


def _at_a_gate(command: Command, question: Question) -> Question:
    """What people are asked about a purchase, a change or an answer that waits at a gate: it spends as much
    as it did when they last let it go. It waits for as long as the gate is closed."""
    found = order_sent(command)
    if found is None:
        return _as_sent(command, question)
    operation, request = found
    return replace(_question(operation, request, question), due_at=question.due_at)


def _as_sent(command: Command, question: Question) -> Question:
    """What people are asked about any other order, such as a cancellation: with its whole request, and whose
    it is."""
    request = order_arguments(command)
    if request is None:
        return question
    ids = [command.subject_id] if command.subject_type == "deal" and command.subject_id else []
    deal = Deal.objects.select_related("advertiser").filter(pk__in=ids).first()
    whose = {"deal": deal.reference, "advertiser": deal.advertiser.name} if deal else {}
    return replace(question, evidence={**question.evidence, **whose, "sent": request_shown(request)})


def order_comes_to(command: Command) -> tuple[Deal | None, Decimal, Decimal]:
    """The deal that a command buys or changes, with what that comes to as it leaves, and what counts for it
    without: nothing of a purchase; no deal for any other command. A purchase comes to what people let go
    since as an answer; what is not frozen yet, to what is wanted."""
    found = order_sent(command)
    deal = _deal_of(found[0]) if found else _wanted_by(command)
    if deal is None:
        return None, NOTHING, NOTHING
    if command.kind == PLACE:
        return deal, amount_after(deal, {}), NOTHING
    if found is None:
        comes = change_comes_to(deal, command.payload.get("arguments") or {})
        return deal, comes["total"], comes["before"]
    operation, _ = found
    without = _counted(deal, operation) if operation.task_type == _CHANGE else NOTHING
    return deal, _amount(deal, *found), without


def _wanted_by(command: Command) -> Deal | None:
    if command.kind not in (PLACE, CHANGE_BUY) or command.subject_type != "deal":
        return None
    return Deal.objects.filter(pk__in=[command.subject_id]).first()


def _stands(operation: Operation, request: Request) -> bool:
    deal = _deal_of(operation)
    if deal is None:
        return True
    same = _bare(request) == _bare(request_let_go(operation, left=True))
    return same and not _problem(operation, request) and is_as_last_approved(deal, operation)


def _released(operation: Operation, request: Request) -> None:
    """An answer that raises a change reserves the rest of its increase."""
    change = Change.objects.filter(operation=operation, closed_at=None).select_related("deal").first()
    if change is not None:
        raise_reservation(change, increase(change_comes_to(change.deal, request)))


def _passed(deal: Deal, operation: Operation, request: Mapping[str, Any]) -> str:
    return request_passed(request) if operation.task_type == _PURCHASE else change_passed(deal, request)


def _until(request: Request) -> Any:
    """Before its flight begins, or not at all."""
    start = parse_time(request.get("start_time"))
    return start if start is not None and start > clock.now() else None


def _counted(deal: Deal, operation: Operation) -> Decimal:
    """What the deal comes to without the answer: no more than that always has room."""
    if operation.task_type == _CHANGE:
        return change_comes_to(deal, {})["before"]
    return approved_and_left(deal)


def _amount(deal: Deal, operation: Operation, request: Request) -> Decimal:
    """What the deal comes to, as the request leaves."""
    if operation.task_type == _CHANGE:
        return amount_after(deal, request)
    packages = request.get("packages")
    told = packages if isinstance(packages, list) else []
    budgets = (decimal_of(p.get("budget")) for p in told if isinstance(p, Mapping))
    return sum((budget for budget in budgets if budget is not None), Decimal(0))

"""Tools that propose changes of booked deals: budgets, pauses, cancellations, money moved between deals."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import transaction
from pydantic import Field

from orders.acts import ActRefusedError, deal_cancel_ask
from orders.amounts import line_amounts
from orders.ask import Ask, AskConflictError, AskRefusedError
from orders.assistant.channels import channels_named
from orders.assistant.scoped_deals import find_deal, visible_deals
from orders.changes.send import CHANGEABLE, change_ask
from orders.models import Deal, DealLine
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.assistant.models import ASSISTANT
from tasks_app.assistant.tools.answer_text import money, quoted_name, status_word
from tasks_app.assistant.tools.objects import find_by_reference, links_to, visible_rows
from tasks_app.assistant.tools.registry import (
    Amount,
    Arguments,
    Confirmed,
    Table,
    Tool,
    ToolAnswer,
    ToolRefusedError,
)
from tasks_app.lifecycle.errors import InvalidTransitionError
from tasks_app.money import decimal_of
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.services import OperationRefusedError
from tasks_app.people.models import User
from tasks_app.people.roles import CANCEL_DEAL, SUBMIT_CAMPAIGN

_DEAL = "Reference of the deal, such as DEAL-2026-17."
_PACKAGE = "Number of the package; 0 if the deal has only one."


class BudgetArguments(Arguments):
    """A new budget of one package."""

    deal: str = Field(min_length=1, description=_DEAL)
    budget: Amount = Field(description="The new budget, in the deal's currency.")
    package: int = Field(default=0, ge=0, description=_PACKAGE)


class PauseArguments(Arguments):
    """A deal to pause, or to resume."""

    deal: str = Field(min_length=1, description=_DEAL)
    paused: bool = Field(default=True, description="True to pause, false to resume.")


class CancellationArguments(Arguments):
    """A deal to cancel at its seller."""

    deal: str = Field(min_length=1, description=_DEAL)
    reason: str = Field(min_length=1, max_length=400, description="Why, for the seller and the approvers.")


class MoveArguments(Arguments):
    """Money to move between two packages of one campaign."""

    campaign: str = Field(min_length=1, description="Reference of the campaign, such as CMP-2026-4.")
    amount: Amount = Field(description="How much, in the campaign's currency.")
    source: str = Field(min_length=1, description="A deal's reference, or a channel such as ctv or audio.")
    target: str = Field(min_length=1, description="A deal's reference, or a channel such as ctv or audio.")


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package of a booked deal and its present budget."""

    deal: Deal
    line: DealLine
    budget: Decimal

    @property
    def name(self) -> str:
        """Return the package as sentences name it."""
        return f"package {self.line.position} of {self.deal.reference} with {self.deal.seller.name}"


def propose_budget(user: User, wanted: BudgetArguments) -> ToolAnswer:
    """Return the proposal of a new budget. Raise ToolRefusedError."""
    package = _package(_changeable(user, wanted.deal), wanted.package)
    if wanted.budget == package.budget:
        raise ToolRefusedError(f"The budget of {package.name} is that already.")
    return _proposal(user, f"Change the budget of {package.name}.", [(package, wanted.budget)])


def confirm_budget(user: User, wanted: BudgetArguments) -> Confirmed:
    """Ask for the new budget. Raise ToolRefusedError."""
    package = _package(_changeable(user, wanted.deal), wanted.package)
    return Confirmed(approvals=[_ask_for(user, package.deal, _budget_change(package, wanted.budget))])


def propose_move(user: User, wanted: MoveArguments) -> ToolAnswer:
    """Return the proposal of two changes: a decrease, then an increase. Raise ToolRefusedError."""
    source, target = _ends(user, wanted)
    summary = (
        f"Move {money(wanted.amount, source.deal.currency)} from {source.name} to {target.name}. "
        "The increase is asked for when the seller shows the decrease."
    )
    changes = [(source, source.budget - wanted.amount), (target, target.budget + wanted.amount)]
    return _proposal(user, summary, changes)


def confirm_move(user: User, wanted: MoveArguments) -> Confirmed:
    """Ask for the decrease. Raise ToolRefusedError."""
    source, target = _ends(user, wanted)
    reduced = source.budget - wanted.amount
    approval = _ask_for(user, source.deal, _budget_change(source, reduced))
    remaining = {
        "source": str(source.line.pk),
        "reduced": str(reduced),
        "target": str(target.line.pk),
        "operation": Approval.objects.values_list("evidence__operation_id", flat=True).get(pk=approval),
    }
    return Confirmed(approvals=[approval], remaining=remaining)


def proceed_with_move(user: User, wanted: MoveArguments, remaining: Mapping[str, Any]) -> Confirmed:
    """Ask for the increase once the seller shows the decrease. Raise ToolRefusedError."""
    operation = Operation.objects.get(pk=remaining["operation"])
    if operation.status in (OperationStatus.FAILED, OperationStatus.CANCELED, OperationStatus.REJECTED):
        raise ToolRefusedError(f"The decrease was not made: {operation.reference} is {operation.status}.")
    source = DealLine.objects.select_related("deal").get(pk=remaining["source"])
    shown = line_amounts(source.deal, source).confirmed
    if operation.status != OperationStatus.COMPLETED or shown != decimal_of(remaining["reduced"]):
        return Confirmed()
    line = DealLine.objects.select_related("deal").get(pk=remaining["target"])
    target = _package(_changeable(user, line.deal.reference), line.position)
    return Confirmed(
        approvals=[_ask_for(user, target.deal, _budget_change(target, target.budget + wanted.amount))]
    )


def propose_pause(user: User, wanted: PauseArguments) -> ToolAnswer:
    """Return the proposal of a pause, or of a resumption. Raise ToolRefusedError."""
    deal = _changeable(user, wanted.deal)
    verb = "Pause" if wanted.paused else "Resume"
    return ToolAnswer(
        summary=f"{verb} {deal.reference} with {deal.seller.name}.",
        links=links_to("deal", [deal], user),
    )


def confirm_pause(user: User, wanted: PauseArguments) -> Confirmed:
    """Ask for the pause. Raise ToolRefusedError."""
    return Confirmed(approvals=[_ask_for(user, _changeable(user, wanted.deal), {"paused": wanted.paused})])


def propose_cancellation(user: User, wanted: CancellationArguments) -> ToolAnswer:
    """Return the proposal of a cancellation. Raise ToolRefusedError."""
    deal = _changeable(user, wanted.deal)
    return ToolAnswer(
        summary=f"Cancel {deal.reference} with {deal.seller.name}. Reason: {quoted_name(wanted.reason)}",
        links=links_to("deal", [deal], user),
    )


def confirm_cancellation(user: User, wanted: CancellationArguments) -> Confirmed:
    """Ask for the cancellation. Raise ToolRefusedError."""
    deal = _changeable(user, wanted.deal)
    try:
        with transaction.atomic():
            asked = deal_cancel_ask(deal_id=deal.pk, user=user, reason=wanted.reason, opened_by=ASSISTANT)
    except (ActRefusedError, InvalidTransitionError) as error:
        raise ToolRefusedError(str(error)) from None
    return Confirmed(approvals=[asked.pk])


def _proposal(user: User, summary: str, changes: list[tuple[Package, Decimal]]) -> ToolAnswer:
    """Return a proposal with its budgets before and after."""
    rows = [
        (
            one.deal.reference,
            str(one.line.position),
            money(one.budget, one.deal.currency),
            money(after, one.deal.currency),
        )
        for one, after in changes
    ]
    return ToolAnswer(
        summary=summary,
        table=Table(columns=("Deal", "Package", "Budget", "New budget"), rows=rows),
        links=links_to("deal", [one.deal for one, _ in changes], user),
    )


def _changeable(user: User, reference: str) -> Deal:
    deal = find_deal(user, reference)
    if deal.status not in CHANGEABLE or not deal.media_buy_id:
        status = status_word(deal.status)
        raise ToolRefusedError(f"{deal.reference} is {status}: it cannot be changed at its seller.")
    return deal


def _package(deal: Deal, position: int) -> Package:
    """Return a package by its number; 0 means the only one. Raise ToolRefusedError."""
    lines = list(deal.lines.all())
    found = [line for line in lines if line.position == position] if position else lines
    if len(found) != 1:
        numbers = ", ".join(str(line.position) for line in lines)
        raise ToolRefusedError(f"{deal.reference} has the packages {numbers}: say which one.")
    line = found[0]
    confirmed = line_amounts(deal, line).confirmed
    return Package(deal=deal, line=line, budget=line.budget if confirmed is None else confirmed)


def _ends(user: User, wanted: MoveArguments) -> tuple[Package, Package]:
    """Return where the money comes from and where it goes. Raise ToolRefusedError."""
    campaign = find_by_reference("campaign", wanted.campaign, visible_rows("campaign", user))
    deals = list(visible_deals(user).filter(campaign_id=campaign.pk, status__in=CHANGEABLE))
    source, target = _end(deals, wanted.source), _end(deals, wanted.target)
    if source.line == target.line or source.deal.currency != target.deal.currency:
        raise ToolRefusedError("Name two different packages in one currency.")
    if wanted.amount >= source.budget:
        raise ToolRefusedError(f"{source.name} has only {money(source.budget, source.deal.currency)}.")
    return source, target


def _end(deals: list[Deal], named: str) -> Package:
    """Return the package that a deal's reference or a channel names. Raise ToolRefusedError."""
    channels = channels_named(named)
    lines = [(deal, line) for deal in deals for line in deal.lines.all()]
    found = [
        (deal, line)
        for deal, line in lines
        if line.channel in channels or deal.reference == named.strip().upper()
    ]
    if len(found) != 1:
        others = ", ".join(sorted({deal.reference for deal, _ in found or lines})) or "none"
        fit = (
            "Several booked packages of the campaign fit"
            if found
            else "No booked package of the campaign fits"
        )
        raise ToolRefusedError(f"{fit} {quoted_name(named)}. Name a deal: {others}.")
    deal, line = found[0]
    return _package(deal, line.position)


def _budget_change(package: Package, budget: Decimal) -> dict[str, Any]:
    return {"packages": [{"package_id": package.line.package_id, "budget": float(budget)}]}


def _ask_for(user: User, deal: Deal, change: Mapping[str, Any]) -> uuid.UUID:
    """Ask for a change of a deal; return the approval that it waits for. Raise ToolRefusedError."""
    arguments = {"media_buy_id": deal.media_buy_id, **change}
    account = str(deal.account_id) if deal.account_id else ""
    wanted = Ask(user=user, task="update_media_buy", seller=deal.seller, account=account, arguments=arguments)
    try:
        with transaction.atomic():
            operation = change_ask(wanted, opened_by=ASSISTANT)
    except (AskRefusedError, AskConflictError, OperationRefusedError, InvalidTransitionError) as error:
        raise ToolRefusedError(f"It cannot be asked for: {error}") from None
    open_now = Approval.objects.filter(subject_id=deal.pk, status=ApprovalStatus.OPEN)
    return open_now.get(evidence__operation_id=str(operation.pk)).pk


CHANGE_BUDGET = Tool(
    name="change_budget",
    description="Propose a new budget for one package of a booked deal.",
    arguments=BudgetArguments,
    right=SUBMIT_CAMPAIGN,
    run=propose_budget,
    confirm=confirm_budget,
)
MOVE_MONEY = Tool(
    name="move_money",
    description="Propose to move money between two packages of one campaign: a decrease, then an increase.",
    arguments=MoveArguments,
    right=SUBMIT_CAMPAIGN,
    run=propose_move,
    confirm=confirm_move,
    proceed=proceed_with_move,
)
PAUSE_DEAL = Tool(
    name="pause_deal",
    description="Propose to pause a booked deal, or to resume it.",
    arguments=PauseArguments,
    right=SUBMIT_CAMPAIGN,
    run=propose_pause,
    confirm=confirm_pause,
)
CANCEL_DEAL_TOOL = Tool(
    name="cancel_deal",
    description="Propose to cancel a booked deal at its seller.",
    arguments=CancellationArguments,
    right=CANCEL_DEAL,
    run=propose_cancellation,
    confirm=confirm_cancellation,
)

"""A campaign in words: its six stages, what happens next, how it ended."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from campaigns.models import Campaign, CampaignStatus
from campaigns.selectors import CampaignRows, campaign_names
from campaigns.stages import as_dict, as_words, products_offered
from orders.models import DealStatus
from orders.presenters import DealGroup, change_words, deal_group
from tasks_app import clock
from tasks_app.approvals.kinds import kind_of
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.selectors import may_decide
from tasks_app.desk import text
from tasks_app.desk.items import Item, lowered, plural
from tasks_app.lifecycle.names import EntityName, link_to, namer_register
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.operations.presenters import operation_age, operation_next, operation_took, settled_words
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tasks_app.sellers.selectors import AnswerTimes

S = CampaignStatus


@dataclass(frozen=True, kw_only=True)
class OperationLine:
    """An operation in the campaign's table; several alike reads stand in one line."""

    task: str
    reference: str
    seller: str
    status: str
    age: text.Age | None
    took: str
    settled: str
    link: str


def job_notes(rows: CampaignRows) -> dict[str, str]:
    """What steps of the recipe came to, for their boxes."""
    deals, products = rows.deals.deals, products_offered(rows)
    approved = [
        d for d in deals if d.status not in (DealStatus.QUOTED, DealStatus.CANCELLED, DealStatus.EXPIRED)
    ]
    return {
        "allocate": plural(len(rows.allocations), "channel"),
        "recommend": f"{plural(len(deals), 'deal')}, {plural(products, 'product')}",
        "approve": f"{len(approved)} of {len(deals)} approved",
    }


def totals(groups: Collection[DealGroup], currency: str) -> dict[str, Any]:
    """Sums under the table: what was approved, what is confirmed, and by how much the confirmed departs."""
    live = [
        g
        for g in groups
        if g.deal.status not in (DealStatus.CANCELLED, DealStatus.EXPIRED, DealStatus.FAILED)
    ]
    confirmed = [g for g in groups if g.confirmed is not None]
    changed = sum((_departed(g) for g in confirmed), Decimal(0))
    return {
        "approved": sum((g.approved for g in live), Decimal(0)),
        "confirmed": sum((g.confirmed for g in confirmed if g.confirmed is not None), Decimal(0))
        if confirmed
        else None,
        "changed": f"{'+' if changed > 0 else ''}{text.amount(changed, currency)}" if changed else "",
    }


def next_items(rows: CampaignRows, who: User, times: Mapping[uuid.UUID, AnswerTimes]) -> list[Item]:
    """What happens next: for whom, until when, and what if nobody acts. People first, then sellers."""
    asked = {approval.subject_id for approval in _open(rows)}
    items = [_question_item(approval, who) for approval in _open(rows)]
    items += [
        _operation_item(operation, times.get(operation.seller_id))
        for operation in rows.operations
        if operation.settled_at is None and operation.pk not in asked
    ]
    items.sort(key=lambda item: item.glyph not in ("overdue", "person"))
    if items or rows.campaign.is_terminal or rows.campaign.status in (S.FAILED, S.VALIDATION_FAILED):
        return items
    return [
        Item(glyph="running", text="The next step runs by itself", note="a worker takes it within seconds")
    ]


def operation_lines(rows: CampaignRows) -> list[OperationLine]:
    """Purchases one by one, the newest first; settled reads of one task in one line."""
    single: list[OperationLine] = []
    reads: dict[tuple[str, str], list[Operation]] = {}
    for operation in rows.operations:
        if operation.is_mutation or operation.settled_at is None:
            single.append(_operation_line(operation))
        else:
            reads.setdefault((operation.task_type, operation.status), []).append(operation)
    return [*single[::-1], *(_reads_line(task, status, found) for (task, status), found in reads.items())]


def outcome_words(campaign: Campaign) -> list[Item]:
    """How its deals ended, once the campaign has."""
    glyphs = {"booked": "done", "rejected": "stopped", "failed": "failed", "open": "seller"}
    return [
        Item(glyph=glyphs.get(fate, "waiting"), text=f"{len(deals)} {fate}", note=", ".join(deals))
        for fate, deals in campaign.outcome.items()
        if deals
    ]


def brief_facts(campaign: Campaign) -> list[tuple[str, str]]:
    """The brief as submitted, in words; whatever cannot be read is left out."""
    brief = campaign.brief if isinstance(campaign.brief, dict) else {}
    objective, geography, constraints = (
        as_dict(brief.get(k)) for k in ("objective", "geography", "constraints")
    )
    ceilings = [f"{basis.upper()} {value}" for basis, value in as_dict(constraints.get("ceilings")).items()]
    facts = [
        ("Objective", as_words(objective.get("goal"))),
        (
            "KPI",
            f"{as_words(objective.get('kpi'))} {text.number(objective.get('target'))}" if objective else "",
        ),
        ("Audience", as_words(brief.get("audience"))),
        ("Geography", as_words(geography.get("countries"))),
        ("Formats", as_words(brief.get("formats"))),
        ("Measurement", as_words(brief.get("measurement"))),
        ("Ceilings", ", ".join(ceilings)),
        ("Not to be asked", as_words(constraints.get("excluded_sellers"))),
    ]
    return [(label, words) for label, words in facts if words]


def deal_groups(rows: CampaignRows) -> list[DealGroup]:
    """Every deal with its packages."""
    return [deal_group(deal, rows.deals) for deal in rows.deals.deals]


def _departed(group: DealGroup) -> Decimal:
    return sum(
        (
            row.line.confirmed_budget - row.line.budget
            for row in group.rows
            if row.line.confirmed_budget is not None
        ),
        Decimal(0),
    )


def _open(rows: CampaignRows) -> list[Approval]:
    return sorted((a for a in rows.approvals if a.status == ApprovalStatus.OPEN), key=lambda a: a.due_at)


def _question_item(approval: Approval, who: User) -> Item:
    can = may_decide(who) and approval.requested_by != actor_key(who)
    effect = kind_of(approval).effects.get("nothing", "")
    money = (
        f", {approval.currency} {text.amount(approval.amount, approval.currency)}" if approval.amount else ""
    )
    late = approval.due_at <= clock.now()
    return Item(
        glyph="overdue" if late else "person",
        link=link_to(Approval, approval.pk),
        text=f"{'You decide' if can else 'An approver decides'}: {approval.title}",
        note=f"by {text.moment_short(approval.due_at)}{money}; else: {lowered(effect)}".removesuffix(
            "; else: "
        ),
    )


def _operation_item(operation: Operation, times: AnswerTimes | None) -> Item:
    following, seller = operation_next(operation), operation.seller.name
    link = link_to(Operation, operation.pk)
    if operation.status == O.INPUT_REQUIRED:
        asked = f": “{operation.message}”" if operation.message else ""
        return Item(
            glyph="person",
            text=f"You answer {seller}",
            link=link,
            note=f"by {text.moment_short(operation.deadline_at)}; else it becomes overdue{asked}",
        )
    if operation.status in (O.AUTH_REQUIRED, O.TIMED_OUT):
        return Item(
            glyph=following.glyph,
            text=f"{seller}: {following.what}",
            link=link,
            note=f"{following.when}; {following.otherwise}",
        )
    usual = ""
    if times is not None and times.count >= 3:
        usual = (
            f"usually {text.duration(times.median)}, nine in ten within {text.duration(times.ninetieth)}; "
        )
    note = f"{usual}{lowered(following.what)} {following.when}; {lowered(following.otherwise)}".rstrip("; ")
    return Item(glyph=following.glyph, text=f"{seller} answers {operation.task_type}", note=note, link=link)


def _operation_line(operation: Operation) -> OperationLine:
    return OperationLine(
        task=operation.task_type,
        reference=operation.reference,
        seller=operation.seller.name,
        status=operation.status,
        age=None if operation.settled_at else operation_age(operation),
        took=operation_took(operation),
        settled=settled_words(operation),
        link=link_to(Operation, operation.pk),
    )


def _reads_line(task: str, status: str, found: list[Operation]) -> OperationLine:
    if len(found) == 1:
        return _operation_line(found[0])
    spans = sorted(o.settled_at - (o.sent_at or o.created_at) for o in found if o.settled_at)
    retried = sum(o.attempts > 1 for o in found)
    took = f"{text.duration(spans[0])} to {text.duration(spans[-1])}" + (
        f", {retried} retried" if retried else ""
    )
    settled = sorted({settled_words(operation) for operation in found})
    return OperationLine(
        task=task,
        reference=f"{len(found)} calls, {text.moment_short(found[0].sent_at or found[0].created_at)}",
        seller=f"{plural(len({o.seller_id for o in found}), 'seller')}",
        status=status,
        age=None,
        took=took,
        settled=", ".join(settled),
        link="",
    )


def _names(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, EntityName]:
    return {
        c.pk: EntityName(reference=c.reference, name=c.name, link=link_to(Campaign, c.pk))
        for c in campaign_names(ids)
    }


def named_problems(campaign: Campaign) -> Iterable[tuple[str, str]]:
    """(field, problem) of what is wrong with the brief."""
    for problem in campaign.problems:
        if isinstance(problem, dict):
            yield str(problem.get("field", "brief")), str(problem.get("problem", ""))


def change_of(group: DealGroup) -> str:
    """The deal's whole departure in money, empty where there is none."""
    return (
        change_words(group.approved, group.confirmed, group.deal.currency)
        if group.confirmed is not None
        else ""
    )


namer_register("campaign", _names)

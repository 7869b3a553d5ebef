"""The six stages of a campaign: brief, allocation, recommendations, approvals, booking, complete."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from campaigns.models import CampaignStatus
from campaigns.outcome import fates, runs_on_words
from campaigns.selectors import CampaignRows
from orders.models import CONFIRMED, UNSETTLED, DealStatus
from orders.presenters import DealGroup
from orders.questions import DEAL
from tasks_app.approvals.models import ApprovalStatus
from tasks_app.desk import text
from tasks_app.desk.graph import fit
from tasks_app.desk.items import joined, plural
from tasks_app.jobs.models import StepStatus
from tasks_app.operations.answer_stages import Answer
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.operations.presenters import operation_age

S = CampaignStatus
_ORDER = (
    S.INITIALIZED,
    S.BRIEF_RECEIVED,
    S.BUDGET_ALLOCATED,
    S.RESEARCHING,
    S.AWAITING_APPROVAL,
    S.EXECUTING_BOOKINGS,
    S.COMPLETED,
)
# About as wide as a stage is at 1440 px: tells which names fit into the bar.
_BAR_PX = 155


@dataclass(frozen=True, kw_only=True)
class Share:
    """One channel's share of the bar: place and width in percent, the channel's name where it fits."""

    at: float
    percent: float
    label: str

    @property
    def x(self) -> str:
        return f"{self.at:.2f}%"

    @property
    def width(self) -> str:
        return f"{max(self.percent - 0.7, 0.5):.2f}%"

    @property
    def middle(self) -> str:
        return f"{self.at + self.percent / 2:.2f}%"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One of the six stages. `tone`: on (now), you (waits for a person), bad, or empty."""

    title: str
    glyph: str
    line: str
    note: str
    tone: str = ""
    shares: tuple[Share, ...] = ()
    shares_words: str = ""

    @property
    def begun(self) -> bool:
        return self.glyph != "waiting"


def stages(rows: CampaignRows, groups: Collection[DealGroup]) -> list[Stage]:
    """Brief, allocation, recommendations, approvals, booking, complete: from rows, never from hopes."""
    return [
        _brief_stage(rows),
        _allocation_stage(rows),
        _recommendation_stage(rows),
        _approval_stage(rows),
        _booking_stage(rows, groups),
        _complete_stage(rows),
    ]


def products_offered(rows: CampaignRows) -> int:
    """How many products sellers offered, as the step recommend counted them."""
    for step in rows.job.steps if rows.job else ():
        if step.key == "recommend" and step.status == StepStatus.COMPLETED and isinstance(step.outputs, dict):
            count = step.outputs.get("products", 0)
            return count if isinstance(count, int) else 0
    return 0


def deal_fates(rows: CampaignRows) -> dict[str, int]:
    """How many deals are booked, waiting, failed and cancelled; those of none are left out."""
    counted = {
        "booked": rows.deals_in(*CONFIRMED),
        "waiting": rows.deals_in(*UNSETTLED),
        "failed": rows.deals_in(DealStatus.FAILED),
        "cancelled": rows.deals_in(DealStatus.CANCELLED, DealStatus.EXPIRED),
    }
    return {fate: count for fate, count in counted.items() if count}


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    return str(value) if isinstance(value, str | int) else ""


def _brief_stage(rows: CampaignRows) -> Stage:
    campaign = rows.campaign
    objective = as_dict(as_dict(campaign.brief).get("objective"))
    line = ", ".join(
        part
        for part in (
            as_words(objective.get("goal")).capitalize(),
            as_words(as_dict(campaign.brief).get("audience")),
        )
        if part
    )
    at = text.moment_short(campaign.created_at)
    if campaign.status == S.VALIDATION_FAILED:
        wrong = plural(len(campaign.problems), "problem")
        return Stage(
            title="Brief", glyph="failed", line=line or campaign.name, note=f"{at}, {wrong}", tone="bad"
        )
    return Stage(title="Brief", glyph="done", line=line or campaign.name, note=f"{at}, valid")


def _allocation_stage(rows: CampaignRows) -> Stage:
    if not rows.allocations:
        return _not_yet(rows, "Allocation", S.BUDGET_ALLOCATED, "splits the budget by channel")
    total = sum((a.amount for a in rows.allocations), Decimal(0))
    percents = [round(100 * a.amount / total) for a in rows.allocations]
    shares: list[Share] = []
    at = 0.0
    for allocation in rows.allocations:
        exact = float(100 * allocation.amount / total)
        label = _short(allocation.channel, _BAR_PX * exact / 100)
        shares.append(Share(at=at, percent=exact, label=label))
        at += exact
    said = [f"{a.channel} {p} percent" for a, p in zip(rows.allocations, percents, strict=True)]
    return Stage(
        title="Allocation",
        glyph="done",
        line="",
        note=f"{joined([str(p) for p in percents])} %",
        shares=tuple(shares),
        shares_words=joined(said),
    )


def _recommendation_stage(rows: CampaignRows) -> Stage:
    deals = rows.deals.deals
    if not deals:
        stage = _not_yet(rows, "Recommendations", S.RESEARCHING, "asks sellers for products")
        if rows.campaign.status == S.RESEARCHING:
            asked = {o.seller_id for o in rows.operations if o.task_type == "get_products"}
            return Stage(
                title="Recommendations",
                glyph="running",
                tone="on",
                note="asking for products",
                line=f"{plural(len(asked), 'seller')} asked",
            )
        return stage
    packages = sum(one.packages for one in rows.sums)
    sellers = len({seller for one in rows.sums for seller in one.sellers})
    return Stage(
        title="Recommendations",
        glyph="done",
        line=f"{plural(rows.deal_count, 'deal')} of {plural(products_offered(rows), 'product')}",
        note=f"{plural(sellers, 'seller')}, {plural(packages, 'package')}",
    )


def _approval_stage(rows: CampaignRows) -> Stage:
    count, due = rows.asked
    asked = sum(number for status, number in count.items() if status != ApprovalStatus.VOIDED)
    if not count:
        return _not_yet(rows, "Approvals", S.AWAITING_APPROVAL, "a person decides")
    if not asked:
        return Stage(title="Approvals", glyph="stopped", line="withdrawn", note="nobody decides any more")
    about = [approval.pk for approval in rows.approvals if approval.kind == DEAL]
    by = sorted({decision.actor_name for pk in about for decision in rows.decisions.get(pk, ())})
    if due is not None:
        return Stage(
            title="Approvals",
            glyph="person",
            tone="you",
            note=f"next due {text.moment_short(due)}",
            line=f"{asked - count.get(ApprovalStatus.OPEN, 0)} of {asked} decided",
        )
    approved = count.get(ApprovalStatus.APPROVED, 0)
    glyph = "done" if approved else "stopped"
    return Stage(
        title="Approvals",
        glyph=glyph,
        note=joined(by) or "nobody decided in time",
        line=f"{approved} of {asked} approved",
    )


def _waits_for_people(operation: Operation, answer: Answer | None) -> bool:
    if answer is not None:
        return answer.needs_people
    return operation.status in (O.INPUT_REQUIRED, O.AUTH_REQUIRED, O.TIMED_OUT)


def _booking_stage(rows: CampaignRows, groups: Collection[DealGroup]) -> Stage:
    campaign = rows.campaign
    if campaign.status not in (S.EXECUTING_BOOKINGS, S.COMPLETED) and not _was_booking(rows):
        return _not_yet(rows, "Booking", S.EXECUTING_BOOKINGS, "buys what was approved")
    count = deal_fates(rows)
    line = ", ".join(f"{number} {fate}" for fate, number in count.items())
    out = [o for o in rows.operations if o.settled_at is None and o.is_mutation]
    if out:
        oldest = min(out, key=lambda operation: operation.created_at)
        age = operation_age(oldest)
        asked = all(_waits_for_people(operation, rows.answers.of(operation)) for operation in out)
        return Stage(
            title="Booking",
            glyph="person" if asked else "running",
            line=line,
            note=f"oldest {age.left} {age.right}",
            tone="you" if asked else "on",
        )
    if "waiting" in count:
        asked_now = any(rows.deals.open_questions(group.deal) for group in groups)
        goes_on = asked_now or rows.goes_on
        note = "a worker takes it within seconds" if goes_on else "not sent yet: see what it waits for"
        return Stage(
            title="Booking",
            glyph="person" if asked_now or not goes_on else "running",
            line=line,
            note="waits for a decision" if asked_now else note,
            tone="you" if asked_now else "on",
        )
    differ = sum(one.differing for one in rows.sums)
    note = f"{plural(differ, 'deal differs', 'deals differ')}" if differ else "nothing is open"
    glyph = "differs" if differ else "done" if "booked" in count else "failed"
    return Stage(title="Booking", glyph=glyph, line=line, note=note)


def _complete_stage(rows: CampaignRows) -> Stage:
    campaign = rows.campaign
    ended = text.moment_short(campaign.status_since)
    told = ", ".join(f"{len(deals)} {fate}" for fate, deals in fates(campaign).items() if deals)
    if campaign.status == S.COMPLETED:
        return Stage(title="Complete", glyph="done", line=told, note=ended)
    if campaign.status in (S.FAILED, S.VALIDATION_FAILED):
        line = told or runs_on_words(rows.deals_in(*CONFIRMED), rows.deals_in(*UNSETTLED))
        return Stage(title="Ended", glyph="failed", line=line or "nothing was bought", note=ended, tone="bad")
    waiting = rows.deals_in(*UNSETTLED)
    return Stage(
        title="Complete",
        glyph="waiting",
        note="then it ends by itself",
        line=f"after {plural(waiting, 'answer')}" if waiting else "after all bookings",
    )


def _not_yet(rows: CampaignRows, title: str, status: str, what: str) -> Stage:
    now = rows.campaign.status
    if now in (S.FAILED, S.VALIDATION_FAILED):
        return Stage(title=title, glyph="stopped", line="not reached", note="")
    before = now in _ORDER and _ORDER.index(CampaignStatus(now)) + 1 >= _ORDER.index(CampaignStatus(status))
    if before and now != S.INITIALIZED and now in (S.BRIEF_RECEIVED, status):
        return Stage(title=title, glyph="running", line=what, note="now", tone="on")
    return Stage(title=title, glyph="waiting", line=what, note="not started")


def _was_booking(rows: CampaignRows) -> bool:
    unbooked = (DealStatus.QUOTED, DealStatus.CANCELLED, DealStatus.EXPIRED)
    return rows.deal_count > rows.deals_in(*unbooked)


def _short(channel: str, width: float) -> str:
    shown = fit(channel.removeprefix("streaming_").replace("_", " "), width - 3, size=10)
    return "" if "…" in shown else shown

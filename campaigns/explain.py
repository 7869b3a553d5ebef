"""Why a campaign stands as it does: its facts are read here, `explain_words` puts them into sentences."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet, prefetch_related_objects

from campaigns.acts import campaign_retryable
from campaigns.explain_words import Progress, campaign_answers
from campaigns.models import ENDED, Campaign, CampaignStatus
from campaigns.outcome import booked_and_open, runs_on_words, sellers_left_out
from campaigns.services import campaign_job
from orders.accounts import UnderAccount, deal_account
from orders.explain import deal_said
from orders.flights import deal_passed
from orders.models import CONFIRMED, UNSETTLED, Deal, DealStatus
from orders.questions import DEAL
from orders.selectors import questions_of
from orders.ways import PURCHASE
from tasks_app.approvals.explain import question_pending, questions_movers
from tasks_app.approvals.models import ApprovalStatus
from tasks_app.commands.kill_switch import stops_shown
from tasks_app.commands.questions import gate_questions
from tasks_app.desk.explain import Explainer, Mover, explainer_register, page_link, stands
from tasks_app.desk.items import plural
from tasks_app.jobs.awaited import awaited_by
from tasks_app.jobs.models import JOB_OPEN, WAITING, Job, Step
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.blockers import (
    Blocker,
    ShutBy,
    Then,
    blocker_movers,
    blockers_of,
    seller_blocker,
)
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.resend import no_effect
from tasks_app.operations.selectors import would_be_sent
from tasks_app.people.actors import actor_named
from tasks_app.people.scope import visible
from tasks_app.sellers.explain import credentials_movers, lets_go_movers
from tasks_app.sellers.models import SELLER_ASIDE

S = CampaignStatus
_APPROVED = (DealStatus.ACCEPTED, DealStatus.BOOKING)
_BEGUN = "the flight has begun, so that the deal ends"
_DEALS_TOLD, _SELLERS_TOLD = 3, 3


def register() -> None:
    """Called when the application starts."""
    explainer_register(
        "campaign",
        Explainer(
            label="Campaign",
            model=Campaign,
            prefix="CMP",
            right="campaigns.view_campaign",
            rows=lambda viewer: visible(Campaign.objects.defer("brief"), viewer),
            answers=lambda campaign: campaign_answers(progress_of(campaign)),
            standing=stands,
            title=lambda campaign: campaign.name,
            link=page_link("campaigns_campaign"),
        ),
    )


def progress_of(campaign: Campaign) -> Progress:
    """The campaign's facts as they are now."""
    if campaign.status in ENDED or campaign.status == S.INITIALIZED:
        retryable = campaign_retryable(campaign)
        return Progress(
            status=campaign.status,
            retryable=retryable.reference if retryable else "",
            said=_said(campaign) if campaign.status == S.FAILED else "",
            runs_on=_runs_on(campaign) if campaign.status == S.FAILED else "",
        )
    job = campaign_job(campaign)
    runs = job if job is not None and job.status in JOB_OPEN else None
    return Progress(
        status=campaign.status,
        together=campaign.status == S.AWAITING_APPROVAL and campaign.booking == "together",
        job=runs.reference if runs else "",
        expires_at=runs.expires_at if runs else None,
        unheard=_unheard(campaign) if campaign.status == S.AWAITING_APPROVAL else "",
        **(_research(runs) if runs and campaign.status == S.RESEARCHING else _waits(campaign)),
    )


def _research(job: Job) -> dict[str, Any]:
    """What asking the sellers waits for: opening an account at one may be held at a gate, from the beginning
    or since it was asked for."""
    awaited = awaited_by(Step.objects.filter(job=job, status__in=WAITING))
    operations, stopped = awaited.operations.values(), stops_shown().words(job.team_id)
    asked = [one for one in awaited.approvals.values() if one.status == ApprovalStatus.OPEN]
    gates = gate_questions([one.purpose for one in operations])
    answers = awaited.answers
    held = [one for one in operations if one.purpose in gates or (stopped and would_be_sent(one, answers))]
    questions = sorted([*asked, *gates.values()], key=lambda one: one.due_at)
    return {
        "asked": len(questions),
        "question": question_pending(questions),
        "out": len(operations) - len(held),
        "held": len(asked) + len(held),
        "stopped": stopped,
        "passes": questions_movers(questions) if stopped else (),
    }


def _waits(campaign: Campaign) -> dict[str, Any]:
    """Whom its open deals wait for: of one that is stopped, whoever stopped it; of one that people are asked
    about, people."""
    deals = {deal.pk: deal for deal in _open_deals(campaign)}
    stopped = stops_shown().words(campaign.team_id)
    unsent = _unsent(deals.values())
    held = unsent if stopped else set()
    booked = booked_and_open(campaign)
    found = questions_of(deals.keys() | booked)
    passes = sorted((one for pk in held for one in found.get(pk, ())), key=lambda one: one.due_at)
    questions = {pk: about for pk, about in found.items() if pk not in held}
    asked = sorted((one for about in questions.values() for one in about), key=lambda one: one.due_at)
    asked_about = unsent & questions.keys()
    to_be_sent = [deals[pk] for pk in unsent - asked_about]
    prefetch_related_objects(to_be_sent, "lines")
    every = _in_the_way(to_be_sent)
    looked_at = [one for one in to_be_sent if not every[one.pk].ends_first]
    begun = {deal.pk for deal in looked_at if deal_passed(deal)}
    every = {pk: one for pk, one in every.items() if pk not in begun}
    now = {pk: one for pk, one in every.items() if pk not in held}
    kept = {pk: one.besides for pk, one in now.items() if one.besides and one.account == UnderAccount()}
    besides = [_BEGUN for _ in begun & held] + [
        one.why for pk, one in every.items() if pk in held and one.why
    ]
    waiting = [deals[pk].account for pk, one in every.items() if one.account.awaited]
    accounts = [account for account in waiting if account is not None]
    awaited = sum(bool(one.account.awaited) for one in now.values())
    refused = sum(bool(one.account.refused) for one in now.values())
    off = [account for account in accounts if account.switched_off_by]
    approved = {pk for pk, deal in deals.items() if deal.status in _APPROVED}
    return {
        "asked": len(asked),
        "question": question_pending(asked),
        "undecided": any(one.kind == DEAL for one in asked),
        "out": len(approved - unsent - questions.keys()),
        "ready": len(now) - awaited - refused - len(kept),
        "begun": len(begun - held),
        "unasked": len(deals.keys() - approved - questions.keys()),
        "leaving": len(booked - questions.keys()),
        "accounts": awaited,
        "accounts_closed": len(accounts) - len(off),
        "lets_go": tuple(dict.fromkeys(mover for account in off for mover in lets_go_movers(account))),
        "refused": refused,
        "kept": Counter(kept.values()),
        "clears": _clears(deals, every),
        "unsent": len(held),
        "kept_besides": Counter(besides),
        "stopped": stopped,
        "passes": questions_movers(passes),
    }


def _runs_on(campaign: Campaign) -> str:
    """What goes on although the campaign has failed, and how it is ended; empty where nothing does."""
    statuses = Deal.objects.filter(campaign_id=campaign.pk).values_list("status", flat=True)
    found = [status for status in statuses if status in (*CONFIRMED, *UNSETTLED)]
    booked = sum(status in CONFIRMED for status in found)
    words = runs_on_words(booked, len(found) - booked)
    return f"of its deals {words}; each goes on without it, and is cancelled on its own page" if words else ""


def _unsent(deals: Iterable[Deal]) -> set[uuid.UUID]:
    """Those that are approved and have no purchase that has left, or one that had no effect."""
    approved = {deal.pk for deal in deals if deal.status in _APPROVED}
    sent = Operation.objects.filter(subject_type="deal", subject_id__in=approved, sent_at__isnull=False)
    return approved - set(sent.exclude(no_effect()).values_list("subject_id", flat=True))


def _open_deals(campaign: Campaign) -> QuerySet[Deal]:
    """With what their accounts' standing is told by."""
    deals = Deal.objects.filter(campaign_id=campaign.pk, status__in=UNSETTLED)
    named = deals.annotate(off_by=actor_named("account__switched_off_by"))
    rows = named.select_related("account__seller", "account__advertiser", "seller__breaker", "advertiser")
    return rows.defer(*_HEAVY)


_HEAVY = (
    *("terms", "reasons", "valid_actions", "differences"),
    *(f"{seller}__{name}" for seller in ("seller", "account__seller") for name in SELLER_ASIDE),
)


@dataclass(frozen=True, kw_only=True)
class _InTheWay:
    """What is in the way of an approved deal's purchase, beside gates and people: its account, or another
    thing. `locked_out`: that its seller wants other credentials."""

    account: UnderAccount
    blocker: Blocker | None
    locked_out: str = ""

    @property
    def ends_first(self) -> bool:
        return self.blocker is not None and self.blocker.ends_first

    @property
    def besides(self) -> str:
        """What is in its way beside its account."""
        return self.blocker.why if self.blocker else self.locked_out

    @property
    def why(self) -> str:
        return self.account.refused or self.account.awaited or self.besides


def _in_the_way(deals: Collection[Deal]) -> dict[uuid.UUID, _InTheWay]:
    """By deal; of one that is not asked for yet its account is another question than its seller."""
    booking = [deal.pk for deal in deals if deal.status == DealStatus.BOOKING]
    bought = Operation.objects.filter(subject_type="deal", subject_id__in=booking, task_type=PURCHASE)
    rows = list(bought.order_by("pk").values_list("subject_id", "pk", "status")) if booking else []
    operations = {deal: operation for deal, operation, _ in rows}
    locked_out = {deal for deal, _, status in rows if status == OperationStatus.AUTH_REQUIRED}
    found = blockers_of(operations.values())
    asked_for = {deal: found.get(operation) for deal, operation in operations.items()}
    blockers = {
        deal.pk: asked_for[deal.pk] if deal.pk in asked_for else seller_blocker(deal.seller, PURCHASE)
        for deal in deals
    }
    return {
        deal.pk: _InTheWay(
            account=_under_account(deal, blockers[deal.pk]),
            blocker=blockers[deal.pk],
            locked_out=f"{deal.seller} wants other credentials" if deal.pk in locked_out else "",
        )
        for deal in deals
    }


def _under_account(deal: Deal, blocker: Blocker | None) -> UnderAccount:
    """What the account of an approved deal whose purchase has not left is waited for, or refused by."""
    if deal.status == DealStatus.ACCEPTED:
        return deal_account(deal, vars(deal)["off_by"] or "")
    if blocker is None or blocker.by is not ShutBy.ACCOUNT:
        return UnderAccount()
    waits = blocker.then is Then.WAITS
    return UnderAccount(awaited=blocker.why) if waits else UnderAccount(refused=blocker.why)


def _clears(deals: Mapping[uuid.UUID, Deal], found: Mapping[uuid.UUID, _InTheWay]) -> tuple[Mover, ...]:
    """Who clears away what is in their way, beside their accounts."""
    kept = {pk: one.blocker for pk, one in found.items() if one.blocker is not None}
    by = {(deals[pk].seller_id, one.by): (one, deals[pk]) for pk, one in kept.items()}
    others = [said for (_, shut_by), said in by.items() if shut_by is not ShutBy.ACCOUNT]
    locked_out = {deals[pk].seller_id: deals[pk].seller for pk, one in found.items() if one.locked_out}
    movers = [
        *(blocker_movers(one, deal.seller, deal.account) for one, deal in others),
        *map(credentials_movers, locked_out.values()),
    ]
    return tuple(dict.fromkeys(mover for each in movers for mover in each))


def _said(campaign: Campaign) -> str:
    """Why it failed, and what sellers said to those of its deals that came to nothing; the first few."""
    ended = AuditEntry.objects.filter(entity_type="campaign", entity_id=campaign.pk, to_status=S.FAILED)
    reason = ended.order_by("-seq").values_list("reason", flat=True).first() or ""
    over = (DealStatus.FAILED, DealStatus.CANCELLED)
    lost = Deal.objects.filter(campaign_id=campaign.pk, status__in=over).order_by("pk")
    told = [f"{deal.reference}: {words}" for deal in lost[:_DEALS_TOLD] if (words := deal_said(deal))]
    return " ".join(filter(None, (f"{reason.strip().rstrip('.')}." if reason else "", *told)))


def _unheard(campaign: Campaign) -> str:
    """What sellers said that are not among its recommendations for having offered nothing, or that were not
    read to their end; the first few."""
    left = sellers_left_out(campaign)
    told = [f"{_of_seller(one).rstrip('.')}." for one in left[:_SELLERS_TOLD]]
    more = f"And {plural(len(left) - _SELLERS_TOLD, 'more seller')}." if len(left) > _SELLERS_TOLD else ""
    return " ".join(("Left out:", *told, more)).rstrip() if told else ""


def _of_seller(left: dict[str, str]) -> str:
    seller, why = left["seller"], left["why"].strip()
    return why if seller in why else f"{seller}: {why}"

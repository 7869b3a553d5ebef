"""Deals on every ground that they may stand on: each state, and what makes a difference there."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from campaigns.services import campaign_submit
from orders.acts import deal_cancel_ask
from orders.models import Deal
from orders.questions import ask_booked_differently, ask_deal
from orders.services import deal_book
from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.policy_models import OnExpiry
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.dispatch import claim_one, claim_sends
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Account, Seller, SellerBreaker
from tests.campaigns.briefs import brief
from tests.factories import approve_deal, make_account, make_advertiser, make_deal, make_seller, make_user
from tests.operations.making import answer, failed, give_back, not_sent, see
from tests.orders.asking import deals_lapse
from tests.orders.late import booking, bought, fresh, overdue, say
from tests.orders.live import booked, standing


def _moved(deal: Deal, *to: str) -> Deal:
    for status in to:
        transition(deal, status, actor="system")
    return deal


def _asked(deal: Deal) -> Deal:
    ask_deal(deal)
    return deal


def _asked_with(on_expiry: OnExpiry, **columns: Any) -> Deal:
    """Asked about by a policy that says so what its deadline does."""
    deals_lapse(on_expiry)
    return _asked(make_deal(**columns))


def _jobless(*to: str, **columns: Any) -> Deal:
    """Approved, and no job buys it, as where it was imported."""
    deal = make_deal(campaign_id=uuid.uuid4())
    approve_deal(deal)
    if columns:
        Deal.objects.filter(pk=deal.pk).update(**columns)
    return _moved(fresh(deal), *to)


def _approved(status: str = "active") -> Deal:
    deal = make_deal()
    Account.objects.update(status=status)
    approve_deal(deal)
    return fresh(deal)


def _waiting(status: str) -> Deal:
    deal = _approved(status)
    drain()
    return fresh(deal)


def _without_account() -> Deal:
    deal = make_deal(account=False)
    approve_deal(deal)
    return fresh(deal)


def _imported() -> Deal:
    """As a former system left it: under no account of ours."""
    Deal.objects.filter(pk=booked().pk).update(account=None)
    return fresh(Deal.objects.get())


def _of_another_currency() -> Deal:
    deal = _approved()
    Account.objects.update(said={"currency": "SEK"}, reference={"account_id": "acc-sek"})
    return fresh(deal)


def _stopped(deal: Deal) -> Deal:
    kill_switch_set(on=True, reason="Something is wrong", actor=make_user("Administrator"))
    return fresh(deal)


def _at_the_gate() -> Deal:
    deal = _stopped(_approved())
    drain()
    return fresh(deal)


def _stopped_before_its_gate() -> Deal:
    return _stopped(_approved())


def _made_before(make: Callable[[], Deal]) -> Deal:
    """So made, before its flight began."""
    before = clock.now() - timedelta(days=15)
    with clock.injected(lambda: before):
        return make()


def _not_sent_yet() -> Deal:
    deal = _approved()
    deal_book(deal=deal)
    return fresh(deal)


def _at_the_switch() -> Deal:
    """Its purchase was to be sent, and was taken off the way by the kill switch."""
    deal = _stopped(_not_sent_yet())
    assert claim_sends(limit=10) == []
    return fresh(deal)


def _answered_in_vain(seen: Seen) -> Deal:
    """Its purchase left, and its seller answered that it did nothing; it is to be sent again."""
    deal = _not_sent_yet()
    operation = Operation.objects.get(task_type="create_media_buy")
    assert claim_one(operation_id=operation.pk) is not None
    see(operation, seen)
    give_back(operation.pk)
    return fresh(deal)


def _reached_nobody() -> Deal:
    """Its seller did not take the connection."""
    return _answered_in_vain(not_sent())


def _locked_out() -> Deal:
    return _answered_in_vain(answer("auth-required"))


def _at_a_gate_after_one_try() -> Deal:
    deal = _reached_nobody()
    Seller.objects.update(active=False)
    Operation.objects.update(send_at=clock.now())
    assert claim_sends(limit=10) == []
    return fresh(deal)


_KEPT_BACK: dict[str, dict[str, Any]] = {
    "its seller off": {"active": False},
    "its seller replays no key": {"idempotency_ttl_s": None},
    "its seller lists no tool": {"tools": ["get_products"]},
    "its seller left alone": {},
}
_BEGUN = "its flight begun since"
_AND_BEGUN = f"its account closed, {_BEGUN}"


def _kept_back(deal: Deal, what: str) -> Deal:
    """Something beside gates and people is in the way of its purchase."""
    if what == _BEGUN:
        return fresh(deal)
    if what in _KEPT_BACK:
        Seller.objects.update(**_KEPT_BACK[what])
        if not _KEPT_BACK[what]:
            soon = clock.now() + timedelta(minutes=5)
            SellerBreaker.objects.create(seller=deal.seller, state="open", failures=5, probe_at=soon)
    else:
        Account.objects.update(status=what.removeprefix("its account "))
    return fresh(deal)


def _in_campaign() -> Deal:
    make_account(make_advertiser(), make_seller())
    domain = make_advertiser().brand_domain
    campaign = campaign_submit(user=make_user("Buyer"), raw=brief(brand_domain=domain))
    deal = make_deal(seller=Account.objects.get().seller, account=False, campaign_id=campaign.pk)
    Deal.objects.filter(pk=deal.pk).update(account=Account.objects.get())
    return fresh(deal)


def _accepted_in_campaign() -> Deal:
    deal = _in_campaign()
    approve_deal(deal)
    return fresh(deal)


def _asked_again() -> Deal:
    """Approved, and to be sent, when its account's terms changed."""
    deal = make_deal()
    approve_deal(deal)
    operation = deal_book(deal=deal)
    Account.objects.update(payment_terms="prepay")
    assert claim_one(operation_id=operation.pk) is None
    return fresh(deal)


def _late() -> Deal:
    deal, operation = booking()
    overdue(operation)
    say(operation, "completed", bought(deal))
    return fresh(deal)


def _late_and_nameless() -> Deal:
    deal, operation = booking()
    overdue(operation)
    say(operation, "completed", {"packages": []})
    return fresh(deal)


def _nameless(status: str) -> Deal:
    return _jobless("booking", "booked", *{"delivering": ("delivering",)}.get(status, ()))


def _nameless_asked() -> Deal:
    deal, operation = booking()
    say(operation, "completed", {"packages": []})
    return fresh(deal)


def _change_asked() -> Deal:
    deal = booked()
    deal_cancel_ask(deal_id=deal.pk, user=make_user("Buyer"), reason="the client withdrew")
    return fresh(deal)


def _differing() -> Deal:
    deal = booked()
    ask_booked_differently(deal)
    return fresh(deal)


def _begun(deal: Deal) -> Deal:
    """Its flight has begun."""
    begun = clock.now().replace(microsecond=0) - timedelta(hours=1)
    Deal.objects.filter(pk=deal.pk).update(start_at=begun)
    deal.lines.update(start_at=begun)
    return fresh(deal)


def _stopped_for_its_flight() -> Deal:
    before = clock.now() - timedelta(days=15)
    with clock.injected(lambda: before):
        deal = _approved()
        deal_book(deal=deal)
    assert claim_sends(limit=1) == []
    return fresh(deal)


def _too_late_for_its_job() -> Deal:
    deal = _begun(_approved())
    drain()
    return fresh(deal)


GROUNDS: dict[str, Callable[[], Deal]] = {
    "quoted, nobody is asked": make_deal,
    "quoted, people are asked": lambda: _asked(make_deal()),
    "quoted, people are waited for past the deadline": lambda: _asked_with(OnExpiry.WAIT),
    "quoted, people are waited for while it is held": lambda: _asked_with(
        OnExpiry.WAIT, terms={"hold_expires_at": (clock.now() + timedelta(hours=12)).isoformat()}
    ),
    "quoted, its flight has begun": lambda: _asked(_begun(make_deal())),
    "quoted, its campaign runs": _in_campaign,
    "negotiating, nobody is asked": lambda: _moved(make_deal(), "negotiating"),
    "negotiating, people are asked": lambda: _asked(_moved(make_deal(), "negotiating")),
    "accepted": _approved,
    "accepted, no job": _jobless,
    "accepted, its campaign runs": _accepted_in_campaign,
    "accepted, no account": _without_account,
    "accepted, the account is reviewed": lambda: _waiting("pending_approval"),
    "accepted, the account was rejected": lambda: _approved("rejected"),
    "accepted, its account is of another currency": _of_another_currency,
    "accepted, at the gate": _at_the_gate,
    "accepted, its flight has begun": _too_late_for_its_job,
    "accepted, stopped before its gate": _stopped_before_its_gate,
    "booking": lambda: booking()[0],
    "booking, not sent yet": _not_sent_yet,
    **{
        f"accepted, {what}": lambda w=what: _kept_back(_approved(), w)  # type: ignore[misc]
        for what in _KEPT_BACK
    },
    **{
        f"{where}, {what}": lambda m=make, w=what: (  # type: ignore[misc]
            _kept_back(_made_before(m) if _BEGUN in w else m(), w.removesuffix(f", {_BEGUN}"))
        )
        for where, make in {
            "accepted, at the gate": lambda: _at_the_gate(),
            "accepted, stopped before its gate": lambda: _stopped_before_its_gate(),
            "accepted, the account is reviewed": lambda: _waiting("pending_approval"),
            "booking, not sent yet": lambda: _not_sent_yet(),
            "booking, not sent yet, stopped": lambda: _stopped(_not_sent_yet()),
            "booking, at the switch": lambda: _at_the_switch(),
            "booking, reached nobody": lambda: _reached_nobody(),
            "booking, reached nobody, stopped": lambda: _stopped(_reached_nobody()),
            "booking, its seller wants credentials": lambda: _locked_out(),
            "booking, its seller wants credentials, stopped": lambda: _stopped(_locked_out()),
        }.items()
        for what in (*_KEPT_BACK, "its account suspended", "its account closed", _BEGUN, _AND_BEGUN)
        if not (what.startswith("its account") and "the account" in where)
    },
    "accepted, the account is reviewed, stopped": lambda: _stopped(_waiting("pending_approval")),
    "booking, at the switch": lambda: _at_the_switch(),
    "booking, reached nobody": lambda: _reached_nobody(),
    "booking, its seller was busy": lambda: _answered_in_vain(failed("RATE_LIMITED", "transient")),
    "booking, its seller wants credentials": lambda: _locked_out(),
    "booking, its seller wants credentials, stopped": lambda: _stopped(_locked_out()),
    "booking, reached nobody, at a gate": lambda: _at_a_gate_after_one_try(),
    "booking, it is not what was approved": _asked_again,
    "booking, bought late": _late,
    "booking, bought late, nameless": _late_and_nameless,
    "booking, its flight has begun": _stopped_for_its_flight,
    "booking, no purchase": lambda: _jobless("booking"),
    "booking, no purchase and named": lambda: _jobless("booking", media_buy_id="mb-7"),
    "booked": booked,
    "booked, no account": _imported,
    "booked, it is to be cancelled": _change_asked,
    "booked, it differs": _differing,
    "booked, nameless": lambda: _nameless("booked"),
    "booked, nameless, people are asked": _nameless_asked,
    "delivering": lambda: standing(booked(), "delivering"),
    "delivering, nameless": lambda: _nameless("delivering"),
    "makegood_pending": lambda: standing(booked(), "makegood_pending"),
    "partially_canceled": lambda: standing(booked(), "partially_canceled"),
    "completed": lambda: _moved(booked(), "delivering", "completed"),
    "failed": lambda: _moved(make_deal(), "failed"),
    "cancelled": lambda: _moved(make_deal(), "cancelled"),
    "expired": lambda: _moved(make_deal(), "expired"),
}

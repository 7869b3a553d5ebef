"""Why a seller, or an account with one, stands as it does."""

from __future__ import annotations

from datetime import datetime

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType

from tasks_app.desk import text
from tasks_app.desk.explain import NOBODY, Answers, Explainer, Mover, Standing, explainer_register, page_link
from tasks_app.people.scope import visible
from tasks_app.sellers.models import Account, Seller, SellerBreaker
from tasks_app.sellers.selectors import seller_breaker

A = Account.Status
_CHANGE = "tasks_app.change_seller"
_CHANGE_ACCOUNT = "tasks_app.change_account"
_SECRETS = ("token", "webhook_secret", "webhook_secret_previous")
_ACCOUNTS = {
    A.ACTIVE: ("Nothing: bookings may be made on it.", "It stays active until somebody closes it."),
    A.PENDING: ("It waits for the seller to approve it.", "No booking is made on it until then."),
    A.REJECTED: ("Nothing: the seller refused it.", "No booking is made on it."),
    A.CLOSED: ("Nothing: it is closed.", "No booking is made on it."),
}


def seller_answers(*, active: bool, left_alone: bool, probe_at: datetime | None = None) -> Answers:
    """The answers about a seller: switched off, left alone by its circuit breaker, or called as usual."""
    changes = Mover(right=_CHANGE, does="switch it off or on, and change its settings")
    if not active:
        return Answers(
            waiting="It waits for somebody to switch it on.",
            movers=(changes,),
            otherwise="It is not asked and not booked with; what is out with it is still followed.",
        )
    if left_alone:
        return Answers(
            waiting="It failed too often in a row, so it is left alone until a probe succeeds.",
            movers=(Mover(who="The seller", does="answers the next probe"), changes),
            otherwise=f"It is probed again {text.moment_short(probe_at)}; what is to be sent waits.",
            deadline=probe_at,
        )
    return Answers(
        waiting="Nothing: it is called as usual.", movers=(changes,), otherwise="It goes on being called."
    )


def account_answers(status: str) -> Answers:
    """The answers for every status of an account. Raises KeyError for another."""
    waiting, otherwise = _ACCOUNTS[A(status)]
    changes = Mover(right=_CHANGE_ACCOUNT, does="record what the seller says of it")
    theirs = (Mover(who="The seller", does="approves or refuses it"),) if status == A.PENDING else ()
    return Answers(waiting=waiting, movers=(*theirs, changes), otherwise=otherwise or NOBODY)


def account_glyph(status: str) -> str:
    """The shape of an account's state."""
    return _GLYPHS[A(status)]


def register() -> None:
    """Called when the application starts."""
    explainer_register(
        "seller",
        Explainer(
            label="Seller",
            model=Seller,
            by="slug",
            right="tasks_app.view_seller",
            rows=lambda _viewer: Seller.objects.defer(*_SECRETS),
            answers=_seller,
            standing=_seller_standing,
            title=lambda seller: seller.name,
            link=page_link("tasks_app_seller"),
        ),
    )
    explainer_register(
        "account",
        Explainer(
            label="Account",
            model=Account,
            right="tasks_app.view_account",
            rows=lambda viewer: visible(
                Account.objects.select_related("advertiser", "seller").defer(
                    *(f"seller__{name}" for name in _SECRETS)
                ),
                viewer,
                team="advertiser__team",
            ),
            answers=lambda account: account_answers(account.status),
            standing=lambda account: Standing(
                status=account.status,
                word=account.get_status_display(),
                glyph=account_glyph(account.status),
                since=_changed_at(account, "status") or account.created_at,
                team_id=account.advertiser.team_id,
            ),
            title=lambda account: f"{account.advertiser} with {account.seller}",
            link=page_link("tasks_app_account"),
        ),
    )


_GLYPHS = {A.ACTIVE: "done", A.PENDING: "seller", A.REJECTED: "failed", A.CLOSED: "stopped"}


def _seller(seller: Seller) -> Answers:
    breaker = seller_breaker(seller)
    left_alone = breaker.state != SellerBreaker.State.CLOSED
    return seller_answers(active=seller.active, left_alone=left_alone, probe_at=breaker.next_probe_at)


def _seller_standing(seller: Seller) -> Standing:
    breaker = seller_breaker(seller)
    left_alone = breaker.state != SellerBreaker.State.CLOSED
    if not seller.active:
        off = _changed_at(seller, "active")
        return Standing(status="off", word="Switched off", glyph="stopped", since=off, team_id=None)
    if left_alone:
        return Standing(
            status=breaker.state, word="Left alone", glyph="failed", since=breaker.since, team_id=None
        )
    on = _changed_at(seller, "active") or seller.created_at
    return Standing(status="active", word="Active", glyph="done", since=on, team_id=None)


def _changed_at(row: Seller | Account, field: str) -> datetime | None:
    """When somebody last changed that field on its page; None: nobody did, as far as is recorded."""
    log = LogEntry.objects.filter(
        content_type=ContentType.objects.get_for_model(row), object_id=str(row.pk), action_flag=CHANGE
    )
    found = log.filter(change_message__icontains=field).order_by("-action_time")
    return found.values_list("action_time", flat=True).first()

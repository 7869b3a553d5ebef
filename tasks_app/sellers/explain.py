"""Why a seller, or an account with one, stands as it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType

from tasks_app.desk import text
from tasks_app.desk.explain import (
    NOBODY,
    Answers,
    Explainer,
    Mover,
    Standing,
    explainer_register,
    movers_words,
    page_link,
)
from tasks_app.desk.items import joined
from tasks_app.people.roles import CHANGE_SELLER
from tasks_app.people.scope import visible
from tasks_app.sellers.accounts import AWAITED, account_words, switched_off_words
from tasks_app.sellers.columns import ACCOUNT_TRUST, SELLER_TRUST, Row
from tasks_app.sellers.models import SECRET_COLUMNS, Account, Seller, SellerBreaker
from tasks_app.sellers.selectors import seller_breaker
from tasks_app.sellers.trust import credentials_among, in_use, needs_second, trust_deciding, trust_waiting

A = Account.Status
_CHANGE_ACCOUNT = "tasks_app.change_account"
_ACCOUNTS = {
    A.ACTIVE: (
        "Nothing: bookings may be made on it.",
        "It stays active until its seller says otherwise, or somebody here does.",
    ),
    A.PENDING: ("It waits for the seller to approve it.", "No booking is made on it until then."),
    A.PAYMENT_REQUIRED: (
        "It waits for what the seller wants to be paid.",
        "Nothing new is booked until then.",
    ),
    A.SUSPENDED: (
        "It waits for its seller, who suspended it.",
        "Nothing is booked or changed until then.",
    ),
    A.REJECTED: ("Nothing: the seller refused it.", "Nothing is researched or booked on it."),
    A.CLOSED: ("Nothing: it is closed.", "No booking is made on it."),
}


@dataclass(frozen=True, kw_only=True)
class Trusting:
    """How what decides whom we believe is changed. `relied_on`: a second person approves most of it;
    `second`: also that it is switched on (a seller), or active (an account). `waits`: the columns of a change
    that waits for that, `gives`: it holds new credentials, `deciding`: who decides on it."""

    relied_on: bool = False
    second: bool = False
    waits: tuple[str, ...] = ()
    gives: bool = False
    deciding: tuple[Mover, ...] = ()

    @property
    def words(self) -> str:
        """What waits, in a sentence; empty where nothing does."""
        labels = [_LABELS[name].label.lower() for name in self.waits]
        return f" A change waits for a second person: {joined(labels)}." if labels else ""


# Whatever waits for credentials was asked of its seller, who is thereby in use: two people give them.
CREDENTIALS_AWAITED = "Waits for two people to give new credentials"
_LABELS = {**SELLER_TRUST, **ACCOUNT_TRUST}
_ALONE = Trusting()


def trusting(row: Row) -> Trusting:
    """How the row is changed, as things stand."""
    name, on = ("active", True) if isinstance(row, Seller) else ("status", A.ACTIVE)
    change = trust_waiting(row)
    return Trusting(
        relied_on=in_use(row),
        second=needs_second(row, name, on),
        waits=tuple(change.after) if change else (),
        gives=change is not None and credentials_among(change.after),
        deciding=trust_deciding(change) if change else (),
    )


def by_two(does: str, second: bool = True) -> str:
    """What one person does and, where it takes one, a second approves."""
    return f"{does}; a second person approves it" if second else does


def seller_answers(
    *, active: bool, left_alone: bool, probe_at: datetime | None = None, trust: Trusting = _ALONE
) -> Answers:
    """The answers about a seller: switched off, left alone by its circuit breaker, or called as usual."""
    movers = (*_switches(active, trust), *_changes(trust))
    if not active:
        return Answers(
            waiting=f"It waits for somebody to switch it on.{trust.words}",
            movers=movers,
            otherwise="It is not asked and not booked with; what is out with it is still followed.",
        )
    if left_alone:
        return Answers(
            waiting=f"It failed too often in a row, so it is left alone until a probe succeeds.{trust.words}",
            movers=(Mover(who="The seller", does="answers the next probe"), *movers),
            otherwise=f"It is probed again {text.moment_short(probe_at)}; what is to be sent waits.",
            deadline=probe_at,
        )
    return Answers(
        waiting=f"Nothing: it is called as usual.{trust.words}",
        movers=movers,
        otherwise="It goes on being called.",
    )


def _switches(active: bool, trust: Trusting) -> Iterator[Mover]:
    """One person always switches it off."""
    if active:
        yield Mover(right=CHANGE_SELLER, does="switch it off")
    elif not (trust.second and trust.waits):
        yield Mover(right=CHANGE_SELLER, does=by_two("switch it on", trust.second))


def _changes(trust: Trusting) -> Iterator[Mover]:
    """One change of what decides whom we believe waits at a time."""
    if trust.waits:
        yield from trust.deciding
        yield Mover(right=CHANGE_SELLER, does="withdraw the change that waits, or change how it is handled")
    else:
        second = "; of what decides whom we believe, a second person approves it" if trust.relied_on else ""
        yield Mover(right=CHANGE_SELLER, does=f"change its settings{second}")


def on_movers(seller: Seller) -> tuple[Mover, ...]:
    """Who switches on one that is off."""
    trust = trusting(seller)
    switch = Mover(right=CHANGE_SELLER, does="switch the seller on, on its page")
    return _changed_by(switch, trust, held="active" in trust.waits, second=trust.second)


def credentials_movers(seller: Seller) -> tuple[Mover, ...]:
    """Who gives it new credentials."""
    trust = trusting(seller)
    give = Mover(right=CHANGE_SELLER, does="give the seller's page new credentials")
    return _changed_by(give, trust, held=trust.gives, second=trust.relied_on)


def credentials_words(seller: Seller) -> str:
    """Who gives it new credentials and what comes of it, in sentences for a notice or a page."""
    given = movers_words(credentials_movers(seller))
    return f"{given}. Then what waits goes on by itself, unless people have to approve it anew."


def lets_go_movers(account: Account) -> tuple[Mover, ...]:
    """Who lets an account go that somebody here switched off."""
    trust = trusting(account)
    let_go = Mover(right=_CHANGE_ACCOUNT, does="let the account go, on its page")
    return _changed_by(let_go, trust, held="status" in trust.waits, second=trust.second)


def activates_movers(account: Account) -> tuple[Mover, ...]:
    """Who makes an account active that may become so still."""
    if account.switched_off_by:
        return lets_go_movers(account)
    trust = trusting(account)
    sets = Mover(right=_CHANGE_ACCOUNT, does="set the account active, on its page")
    does = _TAKES_UP.get(A(account.status))
    theirs = (Mover(who=account.seller.name, does=does),) if does else ()
    return (*theirs, *_changed_by(sets, trust, held="status" in trust.waits, second=trust.second))


def _changed_by(change: Mover, trust: Trusting, *, held: bool, second: bool) -> tuple[Mover, ...]:
    """Who makes a change that something waits for, with a `second` person; `held`: it is the one that waits.
    One waits at a time, so that any other goes first and brings nothing about."""
    if not (second and trust.waits):
        return (replace(change, does=by_two(change.does, second)),)
    if held:
        return trust.deciding
    after = f"first withdraw the change that waits, or have it decided; then {change.does}"
    return (
        *(replace(one, does=f"first {one.does}") for one in trust.deciding),
        replace(change, does=by_two(after)),
    )


def account_answers(
    status: str, *, words: Sequence[str] = (), asks: bool = False, off: str = "", trust: Trusting = _ALONE
) -> Answers:
    """The answers for every status of an account, with the seller's `words`; `asks`: it can be asked for
    again over AdCP; `off`: who here switched it off. Raises KeyError for another status."""
    waiting, otherwise = _ACCOUNTS[A(status)]
    if off:
        said = f"It waits for people to let it go: {off}, and nothing that its seller says changes that."
        movers = tuple(_sets(status, trust, off=True))
        return Answers(waiting=said + trust.words, movers=movers, otherwise=otherwise)
    said = f" The seller says: {' '.join(words)}" if words else ""
    theirs = (Mover(who="The seller", does=_THEIRS[A(status)]),) if status in AWAITED else ()
    again = asks and status != A.ACTIVE
    asking = (Mover(right=_CHANGE_ACCOUNT, does="ask the seller for it again"),) if again else ()
    return Answers(
        waiting=waiting + said + trust.words,
        movers=(*theirs, *_sets(status, trust), *asking),
        otherwise=otherwise or NOBODY,
    )


def _sets(status: str, trust: Trusting, *, off: bool = False) -> Iterator[Mover]:
    """Who sets its status: one person closes it or has it wait, a second approves that it is active. What
    somebody here switched `off` stays so without a second one."""
    if trust.waits:
        yield from trust.deciding
        yield Mover(right=_CHANGE_ACCOUNT, does="withdraw the change that waits")
    elif status != A.ACTIVE:
        yield Mover(right=_CHANGE_ACCOUNT, does=by_two("set it active", trust.second))
    other = "record that it is closed or suspended" if off else "record another state of it"
    yield Mover(right=_CHANGE_ACCOUNT, does=other)


def _account(account: Account) -> Answers:
    return account_answers(
        account.status,
        words=account_words(account),
        asks=account.seller.offers("sync_accounts"),
        off=switched_off_words(account),
        trust=trusting(account),
    )


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
            rows=lambda _viewer: Seller.objects.defer(*SECRET_COLUMNS),
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
                    *(f"seller__{name}" for name in SECRET_COLUMNS)
                ),
                viewer,
                team="advertiser__team",
            ),
            answers=_account,
            standing=lambda account: Standing(
                status=account.status,
                word=account.get_status_display(),
                glyph=account_glyph(account.status),
                since=account.status_since,
                team_id=account.advertiser.team_id,
            ),
            title=lambda account: f"{account.advertiser} with {account.seller}",
            link=page_link("tasks_app_account"),
        ),
    )


_THEIRS = {
    A.PENDING: "approves or refuses it",
    A.PAYMENT_REQUIRED: "takes it up again once it is paid",
    A.SUSPENDED: "takes it up again, or closes it",
}
_TAKES_UP = {
    A.PENDING: "approves the account",
    A.PAYMENT_REQUIRED: "takes the account up again once it is paid",
    A.SUSPENDED: "takes the account up again",
}
_GLYPHS = {
    A.ACTIVE: "done",
    A.PENDING: "seller",
    A.PAYMENT_REQUIRED: "seller",
    A.SUSPENDED: "seller",
    A.REJECTED: "failed",
    A.CLOSED: "stopped",
}


def _seller(seller: Seller) -> Answers:
    breaker = seller_breaker(seller)
    left_alone = breaker.state != SellerBreaker.State.CLOSED
    return seller_answers(
        active=seller.active,
        left_alone=left_alone,
        probe_at=breaker.next_probe_at,
        trust=trusting(seller),
    )


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


def _changed_at(row: Seller, field: str) -> datetime | None:
    """When somebody last changed that field on its page; None: nobody did, as far as is recorded."""
    log = LogEntry.objects.filter(
        content_type=ContentType.objects.get_for_model(row), object_id=str(row.pk), action_flag=CHANGE
    )
    found = log.filter(change_message__icontains=field).order_by("-action_time")
    return found.values_list("action_time", flat=True).first()

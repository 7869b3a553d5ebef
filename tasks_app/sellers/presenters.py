"""Sellers in words: what they can do, how they tell us, how safe a repeated purchase is."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tasks_app.desk import text
from tasks_app.desk.explain import movers_words
from tasks_app.desk.items import Item, plural
from tasks_app.lifecycle.names import EntityName, link_to, namer_register
from tasks_app.people.actors import actor_names
from tasks_app.people.holders import roles_with
from tasks_app.people.roles import DECIDE
from tasks_app.sellers.columns import trusted_of
from tasks_app.sellers.health import Breaker, Calls, Out, SellerHealth, WebhookRate, WebhookState
from tasks_app.sellers.models import Account, Seller, TrustChange
from tasks_app.sellers.selectors import seller_names
from tasks_app.sellers.services import seller_abilities
from tasks_app.sellers.trust import in_use, trust_deciding, trust_waiting

_WEBHOOKS = {
    Seller.WebhookMode.RFC9421: ("RFC 9421", "signed with its own key"),
    Seller.WebhookMode.HMAC: ("HMAC", "legacy, a shared secret"),
    Seller.WebhookMode.HMAC_BODY: ("HMAC, old", "over the body alone, a shared secret"),
    Seller.WebhookMode.BEARER: ("Bearer", "legacy, proves nothing about the body"),
}


def abilities(seller: Seller) -> list[Item]:
    """What the seller can and cannot do, the possible first."""
    found = [
        Item(glyph="done" if able else "stopped", text=words if able else _cannot(words))
        for words, able in seller_abilities(seller).items()
    ]
    return sorted(found, key=lambda item: item.glyph != "done")


def webhooks_words(seller: Seller) -> tuple[str, str]:
    """The webhook mode in a word, and what it means."""
    if not seller.uses_webhooks:
        return "None", looked_at_words(seller)
    if seller.keys_elsewhere:
        return "Refused", f"it declares its keys elsewhere; {looked_at_words(seller)}"
    return _WEBHOOKS[Seller.WebhookMode(seller.webhook_mode)]


def looked_at_words(seller: Seller) -> str:
    """How what a seller is asked for is seen where no webhook tells of it, a clause."""
    return "only reconciliation looks at it" if seller.task_tool is None else "it is polled"


def idempotency_words(seller: Seller, accepted_by: str = "") -> tuple[str, str]:
    """How long a repeated purchase is replayed; or that none is promised, and who took the risk."""
    if seller.idempotency_ttl_s is not None:
        return (
            f"{seller.idempotency_ttl_s / 3600:g}{text.SPACE}h",
            "so long the same key gets the same answer",
        )
    if seller.idempotency_risk_accepted_by:
        who = accepted_by or seller.idempotency_risk_accepted_by
        taken = seller.idempotency_risk_accepted_at
        return "Not declared", f"risk accepted by {who}{f' on {text.day(taken)}' if taken else ''}"
    return "Not declared", "no purchase is sent"


def idempotency_glyph(seller: Seller) -> str:
    """done, person (a risk somebody accepted) or failed (blocked)."""
    if seller.idempotency_ttl_s is not None:
        return "done"
    return "person" if seller.idempotency_risk_accepted_by else "failed"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of the health strip: a glyph, what it is, the figure, what qualifies it."""

    glyph: str
    label: str
    value: str
    note: str


def health_line(health: SellerHealth | None) -> Item:
    """A seller's health in one line: how many calls fail, how fast they are, what is open."""
    if health is None or not health.calls.count:
        return Item(glyph="waiting", text="No calls in 24 h", note=_open_words(health))
    if health.breaker and health.breaker.state != "closed":
        return Item(glyph="failed", text=breaker_item(health.breaker).text, note=_open_words(health))
    if health.webhooks.state == WebhookState.PAUSED:
        return Item(glyph="overdue", text="Polled: webhooks do not come", note=_open_words(health))
    wrong = health.calls.errors
    return Item(
        glyph="overdue" if wrong else "done",
        text=f"{percent(wrong, health.calls.count)} errors" if wrong else "No errors",
        note=f"median {milliseconds(health.calls.median_ms)}, {_open_words(health)}",
    )


def health_figures(seller: Seller, health: SellerHealth) -> list[Figure]:
    """Calls, their time, webhooks, what is out now."""
    return [
        _calls_figure(health.calls),
        Figure(
            glyph="running",
            label="Time of a call",
            value=milliseconds(health.calls.median_ms),
            note=f"median; nine in ten within {milliseconds(health.calls.ninetieth_ms)}, "
            f"slowest {milliseconds(health.calls.slowest_ms)}"
            if health.calls.count
            else "none was made",
        ),
        _webhooks_figure(health.webhooks, looked_at_words(seller)),
        _out_figure(seller, health.out),
    ]


def breaker_item(breaker: Breaker) -> Item:
    """The circuit breaker: closed lets calls through, open holds them back, half open tries one."""
    words = {
        "closed": ("done", "Circuit closed", "calls go through"),
        "half-open": ("running", "Circuit half open", "one call tries whether it answers again"),
    }
    glyph, said, note = words.get(breaker.state, ("failed", "Circuit open", "no call is made"))
    failures = f"{plural(breaker.failures, 'failure')}" if breaker.failures else ""
    why = f"the last: {breaker.reason}" if breaker.reason else ""
    since = f"since {text.moment_short(breaker.since)}" if breaker.since else ""
    probe = f"next try {text.moment_short(breaker.next_probe_at)}" if breaker.next_probe_at else ""
    return Item(
        glyph=glyph, text=said, note=", ".join(part for part in (note, failures, why, since, probe) if part)
    )


def error_rows(calls: Calls) -> list[tuple[str, int, str]]:
    """(code, how often, share of all calls), most frequent first."""
    return [(code, count, percent(count, calls.count)) for code, count in calls.codes]


def milliseconds(value: float | None) -> str:
    """340 ms, 2.1 s, 1 m; – without one."""
    if value is None:
        return text.DASH
    if value < 1000:
        return f"{value:.0f}{text.SPACE}ms"
    return text.duration(timedelta(milliseconds=value))


def percent(part: int, whole: int) -> str:
    """A share with one decimal below 10 %: never 0 % for something, never 100 % for not all."""
    share = 100 * part / whole
    if 0 < part < whole and (share < 0.1 or share > 99.9):
        return f"under{text.SPACE}0.1{text.SPACE}%" if share < 50 else f"over{text.SPACE}99.9{text.SPACE}%"
    shown = f"{share:.0f}" if share >= 10 and share == round(share) else f"{share:.1f}"
    return f"{shown.removesuffix('.0')}{text.SPACE}%"


def _calls_figure(calls: Calls) -> Figure:
    if not calls.count:
        return Figure(glyph="waiting", label="Calls, 24 h", value="none", note="no call was made")
    wrong = f"{percent(calls.errors, calls.count)} without an answer or with an error"
    return Figure(
        glyph="overdue" if calls.errors else "done",
        label="Calls, 24 h",
        value=text.number(calls.count),
        note=wrong if calls.errors else "every one was answered",
    )


def _webhooks_figure(rate: WebhookRate, looked_at: str) -> Figure:
    glyph, value, note = {
        WebhookState.NONE: ("stopped", "None", looked_at),
        WebhookState.TRUSTED: ("done", "Waited for", ""),
        WebhookState.PAUSED: (
            "overdue",
            "Not waited for",
            f"{looked_at} until {text.moment_short(rate.until)}",
        ),
        WebhookState.TRIAL: ("running", "On trial", f"since {text.moment_short(rate.until)}"),
    }[rate.state]
    came = (
        f"{rate.came} of {rate.due} came ({percent(rate.came, rate.due)})" if rate.due else "none was due yet"
    )
    refused = f"{rate.refused} did not verify" if rate.refused else ""
    told = [note] if rate.state == WebhookState.NONE else [part for part in (note, came, refused) if part]
    if rate.refused and glyph == "done":
        glyph = "failed"
    return Figure(glyph=glyph, label="Webhooks that came", value=value, note=", ".join(told))


def _out_figure(seller: Seller, out: Out) -> Figure:
    oldest = f"oldest since {text.moment_short(out.oldest_at)}" if out.oldest_at else ""
    overdue = f"{out.overdue} overdue" if out.overdue else ""
    slots = f"{out.calling} of {plural(seller.slots, 'slot')} in use"
    return Figure(
        glyph="overdue" if out.overdue else "seller",
        label="Open now",
        value=text.number(out.open),
        note=", ".join(part for part in (slots, overdue, oldest) if part),
    )


def _open_words(health: SellerHealth | None) -> str:
    return f"{health.out.open} open" if health and health.out.open else "nothing open"


def _cannot(words: str) -> str:
    if words.startswith("can "):
        return f"cannot {words.removeprefix('can ')}"
    return f"never {words}"


def seller_name(seller: Seller) -> EntityName:
    """How a seller is called."""
    return _called(seller.pk, seller.name)


def _called(pk: uuid.UUID, name: str) -> EntityName:
    return EntityName(reference=name, name=name, link=link_to(Seller, pk))


def _names(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, EntityName]:
    return {pk: _called(pk, name) for pk, name in seller_names(ids).items()}


namer_register("seller", _names)


def waiting_data(row: Seller | Account) -> dict[str, Any]:
    """What templates/desk/seller_waiting.html is given: the change that waits for a second person."""
    change = trust_waiting(row)
    if change is None:
        return {}
    by = change.asked_by
    return {
        "waiting": change,
        "waiting_lines": trust_lines(change),
        "waiting_by": actor_names({by})[by],
        "waiting_agree": agreeing_words(change),
    }


def agreeing_words(change: TrustChange) -> str:
    """Return who must agree to a change that waits, in a sentence; empty if nobody is asked at the moment."""
    who = movers_words(trust_deciding(change))
    return f"Who must agree: {who}." if who else ""


def roles_that_agree(seller: Seller) -> str:
    """Return which roles agree to a change of trust; empty if the seller is not in use and nobody must."""
    return " or ".join(roles_with(DECIDE)) if in_use(seller) else ""


def trust_lines(change: TrustChange) -> list[tuple[str, str, str]]:
    """(label, before, after) of what waits for a second person."""
    known = trusted_of(change.account or change.seller)
    return [(known[name].label, change.before[name], after) for name, after in change.after.items()]

"""Calls that ask a seller at once: its capabilities, one authenticated read, its accounts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks_app.adcp import client
from tasks_app.adcp.account_keys import account_key
from tasks_app.adcp.tasks import LIST_TOOL_NAMES
from tasks_app.adcp.types import DiscoveryError, WireError
from tasks_app.desk import text
from tasks_app.desk.items import plural, raised
from tasks_app.people.models import Advertiser, User
from tasks_app.people.scope import visible
from tasks_app.sellers.adding.advice import Advice, discovery_advice, read_advice, refuses_credentials
from tasks_app.sellers.heard import read_refusal_keep, seller_reread
from tasks_app.sellers.models import Seller
from tasks_app.sellers.trust import trust_draft

_TIMEOUT_S = 15.0
_ACCOUNTS_TOOL = "list_accounts"
# Reads of our own data: the first one that the seller lists is made.
_READS = (_ACCOUNTS_TOOL, "get_media_buys", *LIST_TOOL_NAMES)
_NOT_ANSWERED = ("auth-required", "failed", "rejected", "unknown")
_MOST_ACCOUNTS = 50


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The seller's answer to one call, in words.

    `advice` says what to change after a refusal; `lines` hold details.
    """

    title: str
    glyph: str
    text: str
    advice: str = ""
    lines: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class ReadAttempt:
    """The result of one authenticated read.

    `tool` is empty if the seller lists no read of our own data. `payload` is the result, `error` the refusal.
    """

    tool: str
    answered: bool
    result_text: str
    credentials_refused: bool = False
    payload: Mapping[str, Any] | None = None
    error: WireError | None = None


def seller_try(*, seller: Seller, with_pending: bool = False) -> ReadAttempt:
    """Make one authenticated read and keep whether the seller refused our credentials.

    `with_pending` makes it with the values that wait for a second person, and keeps nothing.
    """
    asked = trust_draft(seller) if with_pending else seller
    tool = next((name for name in _READS if name in asked.tools), "")
    if not tool:
        return ReadAttempt(
            tool="", answered=False, result_text="the seller lists no tool that reads our own data"
        )
    most = _MOST_ACCOUNTS if tool == _ACCOUNTS_TOOL else 1
    seen = asyncio.run(
        client.call(
            asked.endpoint(timeout_s=_TIMEOUT_S),
            tool,
            {"pagination": {"max_results": most}},
            secrets=asked.known_secrets,
        )
    )
    answered = seen.kind == "answer" and seen.error is None and seen.status not in _NOT_ANSWERED
    said = seen.error.message or seen.error.code if seen.error else seen.message or seen.status
    refused = seen.status == "auth-required" or refuses_credentials(seen.error)
    if not with_pending:
        read_refusal_keep(seller_id=seller.pk, refusal=said if refused else "")
    how = "refused" if seen.kind == "answer" else "failed"
    return ReadAttempt(
        tool=tool,
        answered=answered,
        result_text="answered" if answered else f"{how}: {said}",
        credentials_refused=refused,
        payload=seen.payload,
        error=seen.error,
    )


def ask_seller(seller: Seller, viewer: User) -> list[Answer]:
    """Ask what it can do and keep the answer, make one authenticated read, list the viewer's accounts."""
    title = "What it can do"
    if not seller.active:
        return [Answer(title=title, glyph="stopped", text=f"{seller} is switched off, so it is not asked.")]
    try:
        capabilities = asyncio.run(client.discover(seller.endpoint(timeout_s=_TIMEOUT_S)))
    except DiscoveryError as error:
        advice = discovery_advice(error.error, seller.protocol)
        return [Answer(title=title, glyph="failed", text=f"{raised(error.reason)}.", advice=_on_page(advice))]
    reread = seller_reread(asked=seller, capabilities=capabilities)
    if reread is None:
        return [Answer(title=title, glyph="failed", text="Its address was changed meanwhile. Ask it again.")]
    channels = f", sells {', '.join(capabilities.channels)}" if capabilities.channels else ""
    said = f"Answered: AdCP {capabilities.version}, {plural(len(capabilities.tools), 'tool')}{channels}."
    able = Answer(title=title, glyph="done", text=said, lines=[f"{one}." for one in reread.words])
    attempt = seller_try(seller=Seller.objects.get(pk=seller.pk))
    return [able, _read(attempt), _accounts(seller, attempt, viewer)]


def _on_page(advice: Advice) -> str:
    """Return the advice with where the address is changed: the page has no field for it."""
    if advice.column != "url":
        return advice.text
    return f"{advice.text} An operator changes the address with `manage.py add_seller`.".strip()


def _read(attempt: ReadAttempt) -> Answer:
    title = "One read with our credentials"
    if not attempt.tool:
        return Answer(title=title, glyph="waiting", text=f"Not tried: {attempt.result_text}.")
    said = f"{attempt.tool}: {attempt.result_text}."
    if attempt.answered:
        return Answer(title=title, glyph="done", text=said)
    return Answer(title=title, glyph="failed", text=said, advice=read_advice(attempt.error).text)


def _accounts(seller: Seller, attempt: ReadAttempt, viewer: User) -> Answer:
    title = "Its accounts for us"
    if attempt.tool != _ACCOUNTS_TOOL:
        return Answer(title=title, glyph="waiting", text=f"{seller} does not list accounts.")
    if not attempt.answered:
        return Answer(title=title, glyph="waiting", text="Not known, since the read failed.")
    listed = (attempt.payload or {}).get("accounts")
    accounts = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    if not accounts:
        return Answer(title=title, glyph="waiting", text="None yet.", advice="Ask for one on this page.")
    brands = {
        domain.lower(): name
        for domain, name in visible(Advertiser.objects.all(), viewer).values_list("brand_domain", "name")
    }
    named = [(brands.get(account_key(one).domain or ""), one.get("status")) for one in accounts]
    lines = [f"{name}: {text.stated(status) or 'no state given'}" for name, status in named if name]
    if len(lines) < len(accounts):
        lines.append(f"{len(accounts) - len(lines)} of no advertiser of yours")
    more = " or more" if len(accounts) >= _MOST_ACCOUNTS else ""
    said = f"{len(accounts)}{more} listed."
    return Answer(title=title, glyph="done", text=said, lines=lines)

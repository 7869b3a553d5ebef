"""A team's notifications posted to its chat: {"text": …}, as Slack, Mattermost and many others take it.

A subscriber of the event bus of its own, so it runs outside the transaction that told, a chat that is away
holds up no mail, and what it refuses is tried again. Like mail to our own people this is telling, no effect
for a seller or client, so it is no command: no gate, nor the kill switch, may keep people from being told.
A crash between a post and its record posts that one once more.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from datetime import timedelta
from urllib.parse import urljoin

import anyio
import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from tasks_app import clock
from tasks_app.adcp.addresses import AddressError, check_url
from tasks_app.adcp.http import Ledger, Policy, client, httpx
from tasks_app.adcp.outcome import retry_after_s
from tasks_app.events.bus import Event, LaterError, subscribe
from tasks_app.events.held import deliveries_hasten
from tasks_app.lifecycle.transitions import exact
from tasks_app.notifications.bundles import LEVELS, bundle_of, deliver_at, heading
from tasks_app.notifications.mail import TOLD
from tasks_app.notifications.models import Notification, TeamWebhook, TeamWebhookSent
from tasks_app.notifications.moments import render_moments
from tasks_app.notifications.selectors import subject_links
from tasks_app.people.actors import actor_ensure
from tasks_app.people.models import Team, User

log = structlog.get_logger(__name__)
ADMINISTERS = "tasks_app.change_team"
_LONGEST = 3000  # characters of a text; Slack takes 4,000 and shows fewer
_LONGEST_URL = 1000
_TIMEOUT_S, _MOST_BYTES = 10.0, 64 * 2**10
_BUSY = (429, 503)
_CALL, _APART = re.compile(r"(?<![^\W_])@"), "\u200b"  # which nobody sees
_WORDS = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), *((f"]{mark}", f"]{_APART}{mark}") for mark in "([:"))
# After a failure the team's chat is left alone so long, or as long as it asks for (an hour at most): one that
# is away holds up no other for its time-out.
_PAUSE = timedelta(seconds=30)
_LOOK_AGAIN = timedelta(
    minutes=5
)  # whether it has been mended: what is put off at that moment is not hastened
_SUBSCRIBER = "team_webhooks"
_LEFT_ALONE = "left alone a while after"


class TeamWebhookRefusedError(Exception):
    """It cannot be set so; the text says why, without the URL."""


class NotPostedError(RuntimeError):
    """The chat did not take it; the text says how, without the URL. The bus calls again. `wait`: how long the
    chat is left alone."""

    def __init__(self, why: str, *, wait: timedelta = _PAUSE) -> None:
        super().__init__(why)
        self.wait = wait


def register() -> None:
    """Called when the application starts."""
    subscribe(_SUBSCRIBER, [TOLD], team_webhook_deliver)


@transaction.atomic
def team_webhook_set(
    *, user: User, team: Team, url: str, level: str, active: bool = True, allow_private: bool = False
) -> TeamWebhook:
    """Set where a team's notifications of `level` and louder are posted; an empty `url` keeps the one it has.

    Raises TeamWebhookRefusedError: no right, no URL, or one that is never connected to.
    """
    if not user.is_active or user.is_service or not user.has_perm(ADMINISTERS):
        raise TeamWebhookRefusedError("Administrators of teams set their webhooks.")
    if level not in LEVELS:
        raise TeamWebhookRefusedError("There is no such level.")
    hook = TeamWebhook.objects.select_for_update().filter(team=team).first() or TeamWebhook(team=team)
    hook.url = url.strip() or hook.url
    hook.host = _checked_host(hook.url, allow_private=allow_private)
    hook.level, hook.active, hook.allow_private = level, active, allow_private
    hook.changed_by, hook.changed_at = actor_ensure(user=user).key, clock.now()
    hook.failed_at, hook.failure, hook.again_at = None, "", None
    hook.save()
    _hasten(hook)
    return hook


def team_webhook_deliver(event: Event) -> None:
    """Post a notification of a team, with others of its campaign, once to the team's webhook.

    Raises NotPostedError, and LaterError while it is deferred or the chat is left alone.
    """
    note = Notification.objects.select_related("team").filter(pk=event.entity_id).first()
    if (
        note is None or note.team_id is None or note.person_id is not None
    ):  # forgotten meanwhile, or for operators, or for one person
        return
    hook = TeamWebhook.objects.filter(team=note.team_id, active=True).first()
    if hook is None or not _is_loud_enough(note, hook):
        return
    if TeamWebhookSent.objects.filter(notification=note).exists():
        return
    if hook.again_at is not None and clock.now() < hook.again_at:
        at = min(hook.again_at, clock.now() + _LOOK_AGAIN)
        raise LaterError(f"{_LEFT_ALONE}: {hook.failure}", at=at)
    if clock.now() < deliver_at(note):
        raise LaterError("deferred, to be bundled with others of its campaign", at=deliver_at(note))
    bundle = _to_post(note, hook)
    mended = _post(hook, text_of(bundle))
    sent = [TeamWebhookSent(notification=one, at=clock.now()) for one in bundle]
    TeamWebhookSent.objects.bulk_create(sent, ignore_conflicts=True)
    if mended:
        _hasten(hook)


def team_webhook_test(*, hook: TeamWebhook) -> None:
    """Post a line that says where it comes from. Not within a transaction. Raises NotPostedError."""
    if _post(hook, f"Flightdeck posts {hook.team}'s notifications here. This is a test."):
        _hasten(hook)


def _to_post(note: Notification, hook: TeamWebhook) -> list[Notification]:
    """Return the notification, and what else of its campaign was not posted and fits into one post."""
    sent = TeamWebhookSent.objects.filter(notification__campaign_id=note.campaign_id)
    known = {note.pk, *sent.values_list("notification", flat=True)}
    found = [note]
    for other in bundle_of(note):
        is_told = other.team_id == note.team_id and other.person_id is None and _is_loud_enough(other, hook)
        if other.pk not in known and is_told and len(text_of([*found, other])) <= _LONGEST:
            found.append(other)
    return found


def _is_loud_enough(note: Notification, hook: TeamWebhook) -> bool:
    return LEVELS.index(note.level) >= LEVELS.index(hook.level)


def text_of(bundle: Sequence[Notification]) -> str:
    """Return the words that are posted: level, title, text and where to look, of each notification.

    What sellers say is among them, so mark-up of the chat is escaped. Moments are in UTC.
    """
    links = subject_links(bundle)
    return _escaped("\n".join(_words_of(note, links.get(note.pk, "")) for note in bundle))


def _words_of(note: Notification, page: str) -> str:
    body = render_moments(note.body, "UTC")[:_LONGEST]
    parts = [heading(note), body, urljoin(settings.PUBLIC_URL, page) if page else ""]
    return "\n".join(part for part in parts if part)


def _escaped(text: str) -> str:
    """What Slack or Mattermost read as mark-up in a text (a link under other words, a call to everybody in
    the channel) is words here."""
    for mark, words in _WORDS:
        text = text.replace(mark, words)
    return _CALL.sub(f"@{_APART}", text)


def _checked_host(url: str, *, allow_private: bool) -> str:
    if not url or len(url) > _LONGEST_URL:
        raise TeamWebhookRefusedError(f"Say the URL, of at most {_LONGEST_URL} characters.")
    try:
        host, _ = check_url(url, allow_private=allow_private)
    except (AddressError, ValueError) as error:
        raise TeamWebhookRefusedError(f"It cannot be used: {error}.") from None
    return host[:253]


def _post(hook: TeamWebhook, text: str) -> bool:
    """Whether others wait because it failed before. Raises NotPostedError."""
    try:
        asyncio.run(_posted(hook.url, text, allow_private=hook.allow_private))
    except NotPostedError as error:
        log.warning("team_webhook_not_taken", team=str(hook.team_id), why=str(error))
        now = clock.now()
        failed = {"failed_at": now, "failure": str(error)[:200], "again_at": now + error.wait}
        _as_posted(hook).update(**failed)
        raise
    taken = {"sent_at": clock.now(), "failed_at": None, "failure": "", "again_at": None}
    return bool(_as_posted(hook).update(**taken)) and hook.again_at is not None


def _as_posted(hook: TeamWebhook) -> QuerySet[TeamWebhook]:
    """The row, unless it was set anew while something was on its way to where it led before."""
    return TeamWebhook.objects.filter(pk=hook.pk, changed_at=hook.changed_at)


def _hasten(hook: TeamWebhook) -> None:
    """What waits because the chat failed goes now."""
    notes = Notification.objects.filter(team=hook.team_id).values("pk")
    deliveries_hasten(subscriber=_SUBSCRIBER, entities=notes, put_off=_LEFT_ALONE)


async def _posted(url: str, text: str, *, allow_private: bool) -> None:
    """One guarded POST: no redirect, no private address unless allowed, a bounded answer and time."""
    ledger = Ledger(sending_task=True)
    policy = Policy(allow_private=allow_private, max_bytes=_MOST_BYTES, timeout_s=_TIMEOUT_S)
    headers = {"Content-Type": "application/json; charset=utf-8"}
    body = json.dumps({"text": exact(text)}).encode()
    try:
        with anyio.fail_after(_TIMEOUT_S):
            async with client(httpx, policy, ledger, headers=headers) as http:
                answer = await http.post(url, content=body)
    except TimeoutError:
        raise NotPostedError(f"no answer within {_TIMEOUT_S:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL):  # their text may hold the URL
        last = ledger.last
        raise NotPostedError(last.reason if last and last.reason else "the address cannot be read") from None
    if not answer.is_success:
        told = retry_after_s(answer.headers.get("retry-after"))
        wait = timedelta(seconds=told) if told is not None and answer.status_code in _BUSY else _PAUSE
        raise NotPostedError(f"answered HTTP {answer.status_code}", wait=wait)

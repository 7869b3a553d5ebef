"""One of several processes that see the same operations at the same moments."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier

from tasks_app.adcp.types import Seen
from tests.support import PATIENCE_S

EFFECT = "race_effect"
_barriers: Mapping[int, Barrier] = {}


@dataclass(frozen=True, kw_only=True)
class Sight:
    """An answer to a call of ours, or to a poll."""

    operation_id: uuid.UUID
    seen: Seen
    channel: str


@dataclass(frozen=True, kw_only=True)
class Post:
    """A webhook as its seller sent it."""

    seller: str
    body: bytes
    headers: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Publication:
    """An attempt to publish an operation that has ended."""

    operation_id: uuid.UUID


Act = Sight | Post | Publication


def ready(barriers: Mapping[int, Barrier]) -> None:
    """Begin as a process of the application does; the barriers are all racers' own, by how many they are."""
    global _barriers
    _barriers = barriers
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    from django.conf import settings

    from tasks_app.operations.publish import on_settled

    on_settled(count_effect)
    # Also in a burst a delivery has its effect before it is answered: it is the race that is looked for.
    settings.WEBHOOK_APPLIED_SHARE = 1000.0


def count_effect(operation: object) -> None:
    """An effect of an operation's end that can be counted: a row in the commit that publishes it."""
    from tasks_app.notifications.services import About, notify
    from tasks_app.operations.models import Operation

    assert isinstance(operation, Operation)
    about = About(type="operation", id=operation.pk)
    notify(kind=EFFECT, title=operation.status, about=about, team=operation.team)


def race(database_url: str, racers: int, acts: Sequence[Act]) -> list[str]:
    """Do each act when all `racers` are about to do theirs: what each came to, an exception's name too."""
    from django.db import connections

    from tests.database import point_django_at
    from tests.support import forget_sellers

    point_django_at(database_url)
    forget_sellers()
    try:
        return [_begin_together(racers, act) for act in acts]
    finally:
        connections.close_all()


def _begin_together(racers: int, act: Act) -> str:
    _barriers[racers].wait(2 * PATIENCE_S)  # another racer's act may wait for a lock for half of it
    try:
        return do(act)
    except Exception as error:  # the others wait at the barrier: the test judges
        return f"{type(error).__name__}: {error}"


def do(act: Act) -> str:
    """One act, as the application does it: the observation's outcome, the answer's status, whether it was
    the publisher."""
    from tasks_app.operations.converge import observe
    from tasks_app.operations.publish import publish, publish_or_leave

    if isinstance(act, Publication):
        return str(publish(operation_id=act.operation_id))
    if isinstance(act, Post):
        return _receive(act)
    outcome = observe(operation_id=act.operation_id, seen=act.seen, channel=act.channel).outcome
    publish_or_leave(operation_id=act.operation_id)
    return str(outcome)


def _receive(post: Post) -> str:
    """Through the middleware and the view, in this process."""
    from django.test import Client

    answer = Client().post(
        f"/webhooks/adcp/{post.seller}/",
        data=post.body,
        content_type="application/json",
        headers={**post.headers, "Host": "127.0.0.1"},
    )
    return str(answer.status_code)

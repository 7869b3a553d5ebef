"""The lived agency many times over: a few hundred copies of each of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.db.models import Model, UUIDField
from django.db.models.fields import AutoFieldMixin
from django.utils import timezone

from orders.models import Deal
from tasks_app.approvals.delegation import delegation_create
from tasks_app.commands.models import KillSwitch
from tasks_app.events.models import EventDelivery
from tasks_app.jobs.outside_event import OutsideEvent
from tasks_app.jobs.schedule import Schedule
from tasks_app.lifecycle.models import Import, LifecycleEdge, LifecycleRule, OutboxEvent
from tasks_app.notifications.models import TeamWebhook
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tasks_app.people.models import Actor, Advertiser, Membership, Team, User
from tasks_app.people.security import security_record
from tasks_app.sellers.models import Account, Seller
from tasks_app.troubles.rows import put_back
from tasks_app.webhooks.models import WebhookDelivery
from tests.ui.copies import Series, loading, rows_copy, trails_copy
from tests.ui.seed import Agency
from tests.ui.seed_assistant import conversation
from tests.ui.seed_reconciliation import reconciled

# Their rows stay as they are while everything else becomes more, so that the same people see all of it.
_FIXED = (
    User, Actor, Team, TeamWebhook, Advertiser, Membership, Seller, Account, Import, LifecycleEdge,
    LifecycleRule,
)  # fmt: skip
# These become more by themselves.
_APART: tuple[tuple[type[Model], ...], ...] = ((Seller, Account), (Advertiser,), (Team, TeamWebhook), (User,))


Originals = list[dict[str, list[str]]]


def originals() -> Originals:
    """What there is now, to be copied: keys by table, what is copied together in one piece."""
    together = [model for model in _models() if model not in _FIXED and _has_own_key(model)]
    return [
        {model._meta.db_table: keys for model in models if (keys := _keys(model))}
        for models in (tuple(together), *_APART)
    ]


def crowd(admin: psycopg.Connection, rows: Originals, count: int, year: int) -> None:
    """So many copies of these rows; `year`: another one each time."""
    for together in rows:
        apart = timedelta(minutes=3, milliseconds=year)
        series = Series(name="crowd", rows=together, count=count, apart=apart, year=year)
        with loading(admin):
            rows_copy(admin, series)
            trails_copy(admin, series)


def odds(agency: Agency) -> None:
    """One row of what the lived days left out."""
    team, now = agency.people["Buyer"].teams.get(), timezone.now()
    deal, event = Deal.objects.order_by("id")[0], OutboxEvent.objects.order_by("id")[0]
    with pytest.MonkeyPatch.context() as patch:
        reconciled(patch, deal=deal, operation=Operation.objects.filter(subject_id=deal.pk)[0])
    Schedule.objects.create(team=team, name="Nightly", recipe="campaign", cron="0 3 * * *", actor="system")
    OutsideEvent.objects.create(
        team=team, name="creative.ready", idempotency_key="k", digest="d", delivered_by="system"
    )
    said = {
        "channel": "poll",
        "at": now.isoformat(),
        "status": "completed",
        "task_id": "t",
        "value": {},
        "body": {},
    }
    Conflict.objects.create(
        reference="CFL-2026-000901",
        operation=Operation.objects.filter(subject_id=deal.pk)[0],
        team=team,
        kind="terminal",
        digest="d",
        first=said,
        second={**said, "status": "failed"},
    )
    _deciding_odds(agency, team)
    conversation(agency.people["Administrator"], deal)
    put_back("mirrors_read", deal.pk, ValueError("nobody can read this"))
    KillSwitch.objects.create(team=team, on=False, reason="tried", actor="system")
    WebhookDelivery.objects.create(
        seller=deal.seller, fingerprint="f", verdict="refused", reason="no signature"
    )
    EventDelivery.objects.create(
        subscriber="mail",
        event=event,
        position=event.pk,
        entity_type=event.entity_type,
        entity_id=event.entity_id,
        gave_up_at=now,
    )


def _deciding_odds(agency: Agency, team: Team) -> None:
    """Somebody signed in and has another stand in for them, and a team is told in its chat."""
    approver, now = agency.people["Approver"], timezone.now()
    security_record(event="login", actor=approver)
    delegation_create(
        user=approver,
        delegator=approver,
        delegate=agency.people["Administrator"],
        starts_at=now,
        ends_at=now + timedelta(days=1),
    )
    TeamWebhook.objects.create(
        team=team, url="https://chat.example/x", host="chat.example", changed_by="system"
    )


def _models() -> Iterator[type[Model]]:
    for label in ("campaigns", "orders", "tasks_app"):
        yield from apps.get_app_config(label).get_models()


def _has_own_key(model: type[Model]) -> bool:
    """Whether each row has a key made for it, and is no single one of its kind, nor of a fixed one."""
    key: Any = model._meta.pk
    if key.remote_field is not None:
        return key.remote_field.model not in _FIXED
    return isinstance(key, UUIDField | AutoFieldMixin)


def _keys(model: type[Model]) -> list[str]:
    return [str(pk) for pk in model._default_manager.values_list("pk", flat=True)]

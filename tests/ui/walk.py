"""Every address of the site with an object to ask for, and what a request to it came to."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.admin.sites import site
from django.db import connection, transaction
from django.db.models import Model
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from tasks_app import clock
from tasks_app.approvals.delegation import delegation_create
from tasks_app.approvals.models import Approval
from tasks_app.approvals.policy_services import PolicyDraft, policy_create
from tasks_app.approvals.records import DecisionBatch
from tasks_app.commands.models import KillSwitch
from tasks_app.events.models import EventDelivery
from tasks_app.jobs.models import Step
from tasks_app.jobs.outside_event import OutsideEvent
from tasks_app.jobs.schedule import Schedule
from tasks_app.lifecycle.models import AuditEntry, OutboxEvent
from tasks_app.notifications.models import TeamWebhook
from tasks_app.notifications.services import About, notify
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tasks_app.people.models import Advertiser, Team, User
from tasks_app.people.security import security_record
from tasks_app.reconciliation.models import ReconciliationFinding, ReconciliationRun
from tasks_app.troubles.rows import put_back
from tasks_app.webhooks.models import WebhookDelivery
from tests.ui.seed import Agency
from tests.ui.seed_assistant import conversation
from tests.ui.seed_reconciliation import report_of_refusals

ROLES = {
    "B": "Buyer",
    "A": "Approver",
    "O": "Ad Ops",
    "F": "Finance",
    "U": "Auditor",
    "I": "Integration",
    "D": "Administrator",
}
NOBODY = "x"  # not signed in
_ROOM = {  # the API's rooms: whose rows they show
    "campaign": "campaigns.campaign",
    "deal": "orders.deal",
    "operation": "tasks_app.operation",
    "conflict": "tasks_app.conflict",
    "command": "tasks_app.command",
    "job": "tasks_app.job",
    "schedule": "tasks_app.schedule",
    "outside-event": "tasks_app.outsideevent",
    "approval": "tasks_app.approval",
    "delegation": "tasks_app.delegation",
    "notification": "tasks_app.notification",
    "assistant-session": "tasks_app.assistantsession",
    "assistant-turn": "tasks_app.assistantturn",
    "assistant-proposal": "tasks_app.assistantproposal",
}
_REPORTS = "tasks_app.decisionbatch"
# Addresses that name a row in their own way: whose, and the arguments beside its key.
_NAMING: dict[str, tuple[str, str, dict[str, str]]] = {
    "admin:tasks_app_approval_report": (_REPORTS, "batch_id", {}),
    "approval-report": (_REPORTS, "batch", {}),
    "assistant_turn": ("tasks_app.assistantturn", "turn_id", {}),
    "assistant_stop": ("tasks_app.assistantturn", "turn_id", {}),
    "assistant_proposal": ("tasks_app.assistantproposal", "proposal_id", {}),
    "explain": ("orders.deal", "named", {}),
    "explain_card": ("orders.deal", "pk", {"entity": "deal"}),
    "trail_csv": ("orders.deal", "pk", {"kind": "deal"}),
    "trail_jsonl": ("orders.deal", "pk", {"kind": "deal"}),
}


@dataclass(frozen=True)
class Address:
    """One address: its name in the matrix, the path to ask for, and the object it names."""

    name: str
    path: str
    obj: Model | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Came:
    """What a request came to: the answer's status, whether it let the person in, how many rows it wrote."""

    status: int
    let_in: bool
    wrote: int


def patterns(
    resolver: URLResolver | None = None, space: str = "", route: str = ""
) -> Iterator[tuple[str, str]]:
    """(name, route) of every address; what has no name is called by its route."""
    for part in (resolver or get_resolver()).url_patterns:
        here = route + str(part.pattern)
        if isinstance(part, URLResolver):
            yield from patterns(part, f"{space}{part.namespace}:" if part.namespace else space, here)
        elif isinstance(part, URLPattern):
            yield (f"{space}{part.name}" if part.name else here), here


def addresses(samples: dict[str, Model]) -> list[Address]:
    """All of them, each with an object of `samples` ("app.model" to a row) where it names one."""
    return [_address(name, route, samples) for name, route in patterns()]


def _address(name: str, route: str, samples: dict[str, Model]) -> Address:
    if name in _NAMING:
        label, key, more = _NAMING[name]
        return Address(name, reverse(name, kwargs={key: samples[label].pk, **more}), samples[label])
    label = _label(name, route)
    obj = samples.get(label) if label and "<" in route else None
    if obj is not None:
        key = "object_id" if "object_id" in route else "pk" if "<uuid:pk>" in route else "id"
        if name.startswith("admin/"):
            return Address(name, f"/{route.replace('<path:object_id>', str(obj.pk))}", obj)
        return Address(name, reverse(name, kwargs={key: obj.pk}), obj)
    fixed = {
        "admin:view_on_site": ["1", str(uuid.uuid4())],
        "admin:app_list": ["orders"],
        "adcp_webhook": ["norrland"],
        "approval_link": ["no-such-link"],
        "first_administrator": ["no-such-token"],
        "password_set": ["no-such-person", "no-such-link"],
        "calendar_feed": ["no-such-calendar"],
    }
    if name in fixed:
        return Address(name, reverse(name, args=fixed[name]))
    if name == "admin/(?P<url>.*)$":
        return Address(name, "/admin/no/such/page/")
    if "<" in route:
        raise LookupError(f"{name} ({route}) names an object: give it a sample")
    return Address(name, f"/{route}" if not name or "/" in name else reverse(name))


def _label(name: str, route: str) -> str:
    if route.startswith("admin/") and route.count("/") > 2:
        return ".".join(route.split("/")[1:3])
    room = next((room for room in sorted(_ROOM, key=len, reverse=True) if name.startswith(f"{room}-")), "")
    return _ROOM.get(room, "")


def samples(agency: Agency) -> dict[str, Model]:
    """ "app.model" to a row that the agency's team sees, for everything that the admin or the API shows."""
    team = agency.people["Buyer"].teams.get()
    _missing(agency, team)
    found: dict[str, Model] = {}
    shown = {*(model._meta.label_lower for model in site._registry), *_ROOM.values(), _REPORTS}
    for label in sorted(shown):
        rows: Any = apps.get_model(label)._default_manager.order_by("pk")
        if hasattr(rows.model, "advertiser") and rows.model is not Advertiser:
            rows = rows.filter(advertiser__isnull=False)
        if label == "tasks_app.auditentry":
            rows = rows.exclude(entity_type="assistant_turn")  # its asker's alone
        row = rows.last()
        if row is None:
            raise LookupError(f"there is no {label} to ask for")
        found[label] = row
    return found


def _missing(agency: Agency, team: Team) -> None:
    """What a few days of buying do not leave behind."""
    deal = next(iter(agency.deals.values()))
    admin: User = agency.people["Administrator"]
    KillSwitch.objects.create(team=team, on=False, reason="A test", actor="system")
    Schedule.objects.create(team=team, name="nightly", recipe="book_deal", cron="0 3 * * *", actor="system")
    job = next(s for s in Step.objects.order_by("pk")[:1]).job
    OutsideEvent.objects.create(
        team=team, name="test", idempotency_key="1", digest="0", delivered_by="system", step=job.steps.first()
    )
    security_record(event="login", actor=admin)
    event = OutboxEvent.objects.filter(entity_type="deal", entity_id=deal.pk).latest("pk")
    EventDelivery.objects.create(
        subscriber="test",
        event=event,
        position=1,
        entity_type="deal",
        entity_id=deal.pk,
        attempts=12,
        gave_up_at=clock.now(),
    )
    operation = Operation.objects.filter(subject_id=deal.pk).latest("pk")
    Conflict.objects.create(
        reference="CON-2026-000001",
        kind="terminal",
        digest="0",
        first={"channel": "reply"},
        second={"channel": "poll"},
        operation=operation,
        team=team,
    )
    put_back("mirrors_read", deal.pk, ValueError("nobody can read this"))
    WebhookDelivery.objects.create(seller=deal.seller, key="0" * 8, fingerprint="0" * 64, verdict="refused")
    assert deal.account is not None
    report = report_of_refusals(deal.account)
    run = ReconciliationRun.objects.create(trigger="hand", asked_by="system", state="ended", report=report)
    ReconciliationFinding.objects.create(
        seller=deal.seller,
        kind="media_buy",
        verdict="differs",
        theirs="mb",
        digest="0",
        team=team,
        run=run,
        account=deal.account,
    )
    conversation(admin, deal)
    _missing_deciding(agency, team)
    # Last: what a change of a policy tells is not everybody's.
    notify(kind="test", title="News", about=About(type="deal", id=deal.pk), team=team)


def _missing_deciding(agency: Agency, team: Team) -> None:
    """A client's own policy; somebody who stands in, a report, and where the team is told."""
    client, approver = next(iter(agency.deals.values())).advertiser, agency.people["Approver"]
    administrator, now = agency.people["Administrator"], clock.now()
    draft = PolicyDraft(
        name=f"Everything of {client}", rule="always", kinds=("deal",), team=team, advertiser=client
    )
    policy_create(draft=draft, actor=administrator, reason="A test")
    delegation_create(
        user=approver,
        delegator=approver,
        delegate=administrator,
        starts_at=now,
        ends_at=now + timedelta(days=1),
    )
    open_ones = Approval.objects.filter(status="open").values_list("pk", flat=True)
    DecisionBatch.objects.create(
        user=approver, verdict="reject", comment="A test", shown=[str(one) for one in open_ones]
    )
    TeamWebhook.objects.create(
        team=team, url="https://chat.example/x", host="chat.example", changed_by="system"
    )


class Walker:
    """Sends requests for one person, each in a savepoint that is rolled back."""

    def __init__(self, user: User | None) -> None:
        self.client = Client(raise_request_exception=False)
        if user is not None:
            self.client.force_login(user, backend="tasks_app.people.holders.RoleBackend")
        self._cookies = self.client.cookies.output()

    def shown(self, path: str, **headers: str) -> str:
        """What a GET shows the person, exports and streams to their end; empty where they are not let in."""
        self.client.cookies.load(self._cookies.replace("Set-Cookie: ", ""))
        with transaction.atomic():
            answer: Any = self.client.get(path, headers=headers)
            body = b"".join(answer) if answer.streaming else answer.content
            transaction.set_rollback(True)
        return body.decode(errors="replace") if _let_in(answer) else ""

    def ask(self, method: str, path: str, data: Any = None) -> Came:
        """One request, its body JSON for the API and a form elsewhere."""
        kind = "application/json" if path.startswith("/api/") else "application/x-www-form-urlencoded"
        sent = {} if method == "GET" else {"data": data if data is not None else "", "content_type": kind}
        self.client.cookies.load(self._cookies.replace("Set-Cookie: ", ""))  # also after signing out
        with transaction.atomic():
            before = _written()
            answer = self.client.generic(method, path, **sent)  # type: ignore[arg-type]
            if answer.streaming:
                b"".join(answer.streaming_content)  # type: ignore[attr-defined]
            came = Came(answer.status_code, _let_in(answer), _written() - before)
            transaction.set_rollback(came.let_in)  # what a refusal writes is to be seen
        return came


def _let_in(answer: Any) -> bool:
    if answer.status_code in (401, 403, 404, 405):
        return False
    to = answer.headers.get("Location", "").split("?")[0]
    return to not in (reverse(settings.LOGIN_URL), reverse("admin:index")) or answer.wsgi_request.path == "/"


# Of `pg_stat_xact_user_tables`, without what that gathers of each index.
_WRITTEN = " + ".join(f"pg_stat_get_xact_tuples_{did}(oid)" for did in ("inserted", "updated", "deleted"))


def _written() -> int:
    """Rows that this transaction has inserted, changed or removed so far, also where it took them back."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"select sum({_WRITTEN})::int from pg_class"
            " where relkind = 'r' and relnamespace = 'public'::regnamespace"
        )
        return int(cursor.fetchone()[0])


def snapshot() -> tuple[dict[str, int], str]:
    """How many rows each table has, and the digest of the whole trail."""
    models = [model for model in apps.get_models() if model._meta.managed]
    counts = {model._meta.label: model._default_manager.count() for model in models}
    hashes = AuditEntry.objects.order_by("pk").values_list("hash", flat=True)
    return counts, str(hash(tuple(bytes(one) for one in hashes)))

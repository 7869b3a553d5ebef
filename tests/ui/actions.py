"""Everything that people do, once for each right, with what the form or the API is given and who may."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse

from tasks_app.approvals.records import Delegation
from tasks_app.events.models import EventDelivery
from tasks_app.jobs.models import JOB_OPEN, Job
from tasks_app.jobs.schedule import Schedule
from tasks_app.operations.models import Operation
from tasks_app.people import roles
from tests.ui.pages import drawn, page_of, person_form
from tests.ui.seed import Agency
from tests.ui.seed_parts import brief

Asked = tuple[str, str, str]  # method, path, body


@dataclass(frozen=True, kw_only=True)
class Action:
    """`right`: what it takes (people/roles.py); `who`: letters of the roles that may (walk.ROLES)."""

    right: str
    who: str
    ask: Callable[[Agency], Asked]


def _api(path: str, **body: Any) -> Asked:
    return "POST", f"/api/v1/{path}/", json.dumps(body)


def _form(page: str, *args: Any, **fields: Any) -> Asked:
    return "POST", reverse(f"admin:{page}", args=args), urlencode(fields, doseq=True)


def _submit(agency: Agency) -> Asked:
    client = next(iter(agency.deals.values())).advertiser
    raw = brief("Another", client.name, "90000", "USD", {"olv": 1})
    return _api("campaigns", **{**raw, "brand_domain": client.brand_domain})


def _decide(agency: Agency) -> Asked:
    asked = agency.question("tamarack-cobalt")
    return _api(
        f"approvals/{asked.pk}/decide",
        verdict="approve",
        comment="Go.",
        evidence_digest=asked.evidence_digest,
    )


def _decide_in_the_form(agency: Agency) -> Asked:
    asked = agency.question("tamarack-cobalt")
    shown = {"decision": "approve", "comment": "Go.", "digest": asked.evidence_digest}
    return _form("tasks_app_approval_change", asked.pk, **shown)


def _decide_together(agency: Agency) -> Asked:
    asked = agency.question("tamarack-cobalt")
    shown = [{"id": str(asked.pk), "evidence_digest": asked.evidence_digest}]
    return _api("approvals/decide", approvals=shown, verdict="approve", comment="Go.")


def _claim(agency: Agency) -> Asked:
    return _api(f"approvals/{agency.question('tamarack-cobalt').pk}/claim")


def _end_delegation(_: Agency) -> Asked:
    return _api(f"delegations/{Delegation.objects.latest('pk').pk}/end")


def _poll(_: Agency) -> Asked:
    pending = Operation.objects.filter(status="submitted").exclude(task_id="").earliest("pk")
    return _api(f"operations/{pending.pk}/poll")


def _cancel_job(_: Agency) -> Asked:
    job = Job.objects.filter(status__in=JOB_OPEN, parent_step=None).earliest("pk")
    return _api(f"jobs/{job.pk}/cancel", reason="Not wanted any more.")


def _pause(_: Agency) -> Asked:
    return _api(f"schedules/{Schedule.objects.latest('pk').pk}/pause")


def _retry_delivery(_: Agency) -> Asked:
    return _form("tasks_app_eventdelivery_change", EventDelivery.objects.latest("pk").pk)


def _promote(agency: Agency) -> Asked:
    tomas, opens = agency.people["Buyer"], Client()
    opens.force_login(agency.people["Administrator"], backend="tasks_app.people.holders.RoleBackend")
    return _form(
        "tasks_app_user_change",
        tomas.pk,
        **person_form(tomas, groups=[Group.objects.get(name="Administrator").pk]),
        **drawn(opens, page_of(tomas)),
    )


ACTIONS: dict[str, Action] = {
    "submit a brief": Action(right=roles.SUBMIT_CAMPAIGN, who="BID", ask=_submit),
    "approve by the API": Action(right=roles.DECIDE, who="AD", ask=_decide),
    "approve in the admin": Action(right=roles.DECIDE, who="AD", ask=_decide_in_the_form),
    "approve several": Action(right=roles.DECIDE, who="AD", ask=_decide_together),
    "claim an approval": Action(right=roles.DECIDE, who="AD", ask=_claim),
    "end a delegation": Action(right=roles.DECIDE, who="AD", ask=_end_delegation),
    "add an exchange rate": Action(
        right=roles.MANAGE_POLICIES,
        who="D",
        ask=lambda _: _form(
            "tasks_app_exchangerate_add", currency="SEK", day="2026-01-02", usd="0.1", source="ECB"
        ),
    ),
    "poll an operation": Action(right=roles.STEER_OPERATION, who="OD", ask=_poll),
    "try a delivery again": Action(right=roles.STEER_OPERATION, who="OD", ask=_retry_delivery),
    "cancel a job": Action(right=roles.STEER_JOB, who="OD", ask=_cancel_job),
    "pause a schedule": Action(
        right=roles.SCHEDULE_JOB,
        who="OD",
        ask=_pause,
    ),
    "deliver an event": Action(
        right=roles.DELIVER_EVENT,
        who="OID",
        ask=lambda _: _api("events", name="creative.ready", idempotency_key="once", payload={}),
    ),
    "turn the kill switch": Action(
        right=roles.TURN_KILL_SWITCH, who="D", ask=lambda _: _api("kill-switch", on=True, reason="A test.")
    ),
    "change somebody's rights": Action(right="tasks_app.change_user", who="D", ask=_promote),
    "make a team": Action(
        right="tasks_app.add_team", who="D", ask=lambda _: _form("tasks_app_team_add", name="New desk")
    ),
}
# Rights that no single request shows: who has them is in the matrix, or in the test that is named.
ELSEWHERE = {
    roles.SEND_OPERATION: "operation-list of the matrix: a right request would call the seller",
    roles.CANCEL_DEAL: "test_deals_are_called_off_by_who_may",
    roles.ACCEPT_RISK: "test_who_accepts_the_idempotency_risk_is_recorded",
    roles.USE_ASSISTANT: "assistant_ask of the matrix",
    roles.GOVERN_ASSISTANT: "assistantmode_add of the matrix",
}

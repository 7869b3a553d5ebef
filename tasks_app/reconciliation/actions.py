"""What a person can do about a finding: a service for each, offered where it helps, with the right to steer.

A storey above registers its own (adopting a media buy), as it registers its reader.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from django.db import transaction

from tasks_app import clock
from tasks_app.operations.comparison import Verdict
from tasks_app.operations.models import Operation
from tasks_app.operations.services import operation_poll_now
from tasks_app.operations.steering import poll_refusal
from tasks_app.people.actors import actor_key
from tasks_app.people.holders import people_with
from tasks_app.people.models import User
from tasks_app.people.rights import on_rights_changed
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.reconciliation.findings import finding_sign
from tasks_app.reconciliation.models import ReconciliationFinding
from tasks_app.reconciliation.selectors import findings_of

R = ReconciliationFinding.Resolution


class ActionRefusedError(Exception):
    """The action was not taken; the text says why. Nothing has changed."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What a person asked for: who, why, and for which of our accounts, where that is asked. `seen`: the sign
    of the finding as it was shown (`finding_sign`); None where it was shown nobody."""

    user: User
    reason: str
    account_id: uuid.UUID | None = None
    seen: str | None = None


@dataclass(frozen=True, kw_only=True)
class Done:
    """What came of an action: in words, and how that ends the finding; empty: it stays open."""

    said: str
    resolution: str = ""


@dataclass(frozen=True, kw_only=True)
class Action:
    """One button. `offered` tells whether it helps with a finding, `apply` does it (rows only, in the commit
    that keeps it; raises ActionRefusedError), `does` says what will happen, in words."""

    name: str
    label: str
    does: str
    icon: str
    offered: Callable[[ReconciliationFinding], bool]
    apply: Callable[[ReconciliationFinding, Chosen], Done]
    needs_reason: bool = False
    needs_account: bool = False


_actions: dict[str, Action] = {}


def action_register(action: Action) -> None:
    """Offer `action`. A name registered again is the same button."""
    _actions[action.name] = action


def actions_for(finding: ReconciliationFinding) -> list[Action]:
    """What helps with an open finding; nothing with one that is resolved."""
    return [action for action in _actions.values() if finding.is_open and action.offered(finding)]


def subject_of(finding: ReconciliationFinding) -> uuid.UUID:
    """The id of our side of it. Raises ActionRefusedError where we have none."""
    if finding.subject_id is None:
        raise ActionRefusedError("There is nothing of ours that it belongs to.")
    return finding.subject_id


@transaction.atomic
def finding_act(*, finding_id: uuid.UUID, action: str, chosen: Chosen) -> str:
    """Take one action on a finding; answers what was done, in words.

    Raises ActionRefusedError: no right, no such finding in the person's teams, resolved meanwhile, another
    than was shown, not offered here, no reason given, or what the action itself refuses.
    """
    user = chosen.user
    if user.is_service or not user.is_active or not user.has_perm(STEER_OPERATION):
        raise ActionRefusedError("You have no right to settle what differs.")
    found = findings_of(user).filter(pk=finding_id).select_related("seller", "account__advertiser__team")
    finding = found.select_for_update(of=("self",), no_key=True).first()
    if finding is None:
        raise ActionRefusedError("There is no such finding in your teams.")
    wanted = _actions.get(action)
    if not finding.is_open:
        raise ActionRefusedError("It is resolved already.")
    if chosen.seen is not None and chosen.seen != finding_sign(finding):
        raise ActionRefusedError("It has changed since this page was opened: read it again.")
    if wanted is None or not wanted.offered(finding):
        raise ActionRefusedError("That does not help here.")
    if wanted.needs_reason and not chosen.reason.strip():
        raise ActionRefusedError("Say why.")
    done = wanted.apply(finding, chosen)
    if done.resolution:
        finding.resolution, finding.resolved_at = done.resolution, clock.now()
        finding.resolved_by, finding.reason = actor_key(user), (chosen.reason.strip() or done.said)[:2000]
    finding.save()
    return done.said


def register() -> None:
    """Called when the application starts."""
    on_rights_changed(_let_go)
    action_register(
        Action(
            name="poll",
            label="Poll now",
            does="Asks the seller for the task once more. Changes nothing there.",
            icon="refresh",
            offered=_has_task,
            apply=_poll,
        )
    )
    action_register(
        Action(
            name="take",
            label="Take it",
            does="Assigned to you.",
            icon="person",
            offered=lambda finding: finding.differs,
            apply=_take,
        )
    )
    action_register(
        Action(
            name="seen",
            label="It may stay so",
            does="Ends it with your reason. It comes back when either side says something else: its state, "
            "its money, its dates.",
            icon="done",
            offered=lambda finding: True,
            apply=_seen,
            needs_reason=True,
        )
    )


def _has_task(finding: ReconciliationFinding) -> bool:
    polled = finding.verdict in (Verdict.MISSING, Verdict.BEHIND, Verdict.UNCLEAR)
    return polled and finding.subject_type == "operation" and finding.seller.task_tool is not None


def _poll(finding: ReconciliationFinding, _chosen: Chosen) -> Done:
    operation = Operation.objects.select_related("seller").get(pk=subject_of(finding))
    refused = poll_refusal(operation)
    if refused:
        raise ActionRefusedError(refused)
    if operation.next_poll_at is None:
        raise ActionRefusedError(f"{operation.reference} is not waiting at the seller any more.")
    operation_poll_now(operation_id=operation.pk)
    return Done(said=f"{operation.reference} is due now: the next sweep asks {finding.seller}.")


def _take(finding: ReconciliationFinding, chosen: Chosen) -> Done:
    finding.holder = chosen.user
    return Done(said=f"It waits on {chosen.user} now.")


def _let_go(user: User) -> None:
    """What somebody took and cannot see to any more waits on everybody again."""
    taken = ReconciliationFinding.objects.filter(holder=user, resolved_at__isnull=True)
    for finding in taken.select_related("account").defer("told").select_for_update(of=("self",), no_key=True):
        client = finding.account.advertiser_id if finding.account else None
        if not people_with(STEER_OPERATION, finding.team_id, client).filter(pk=user.pk).exists():
            finding.holder = None
            finding.save(update_fields=["holder"])


def _seen(finding: ReconciliationFinding, chosen: Chosen) -> Done:
    return Done(said=f"{finding.theirs} may stay as it is.", resolution=R.SEEN)
